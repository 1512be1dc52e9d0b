#include "coordinator/recovery.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/log.h"
#include "coordinator/answers.h"
#include "coordinator/resume.h"
#include "coordinator/text_requests.h"

/* A restart reads one or two files: larger ones delay it. */
enum { LEAST_FILE_BYTES = 1 << 20, MOST_FILE_BYTES = 32 << 20, FILES = 8 };
enum { ACCEPTED_MEM = 4 << 20 }; /* address space for one Accepted */

static uint64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U;
}

static uint64_t file_bytes(uint64_t all)
{
    uint64_t n = all ? all / FILES : MOST_FILE_BYTES;
    return n < LEAST_FILE_BYTES ? LEAST_FILE_BYTES : n > MOST_FILE_BYTES ? MOST_FILE_BYTES : n;
}

enum status recovery_open(struct coordinator *co)
{
    struct journal_config jc = {.dir = co->cfg.journal_dir,
                                .name = "ingot",
                                .max_file_bytes = file_bytes(co->cfg.journal_bounds.max_bytes),
                                .bounds = co->cfg.journal_bounds,
                                .sync = co->cfg.journal_sync};
    TRY(wire_mem_init(&co->tx, ACCEPTED_MEM));
    TRY(journal_open(&co->journal, &jc));
    TRY(journal_recover(co->journal, &co->recovered));
    if (!co->recovered)
        return ST_OK;
    for (struct recovered_request *q = co->recovered->first; q; q = q->next) {
        struct journal_admission a = q->a;
        a.key = 0;
        TRY(journal_carry(co->journal, &a, &q->carried));
    }
    if (co->recovered->n)
        log_line(LOG_INFO, "the journal has %" PRIu32 " requests to go on with", co->recovered->n);
    return ST_OK;
}

void recovery_close(struct coordinator *co)
{
    recovered_free(co->recovered);
    journal_close(co->journal);
    wire_mem_fini(&co->tx);
}

/* ---- at the start ---- */

static enum status read_head(struct request_head *h, const struct journal_admission *a)
{
    const char *field;
    TRY(client_msg_head(h, a->request, a->n_request, &field));
    if (h->type != MSG_GENERATE || strcmp(h->id, a->id) != 0)
        FAIL(ST_FORMAT, "its message is another one");
    return tenant_of_bytes(&h->tenant, a->tenant, a->n_tenant);
}

static enum status reserve(struct coordinator *co, const struct recovered_request *q,
                           const struct request_head *h, uint64_t now_us, struct request **out)
{
    struct owner owner;
    struct tenant_account *account;
    struct tenant_refusal why;
    memcpy(owner.bytes, q->a.owner, sizeof owner.bytes);
    const struct tenant_ask ask = {&owner, h->limits, true};
    if (request_find(co->requests, &owner, h->id))
        FAIL(ST_BUSY, "its client has resumed it");
    TRY(tenant_enter(co->tenants, &ask, now_us, &account, &why));
    enum status st = request_reserve(co->requests, &owner, h->id, h->digest, now_us, out);
    if (st != ST_OK) {
        tenant_leave(co->tenants, account, 1);
        return st;
    }
    (*out)->account = account;
    (*out)->n_entered = 1;
    (*out)->resumed = (*out)->recovered = true;
    (*out)->tenant = h->tenant;
    (*out)->grace_ms = h->has_grace ? h->grace_ms : co->cfg.client_grace_ms;
    return ST_OK;
}

/* Takes q over when it succeeds. */
static enum status start(struct coordinator *co, struct recovered_request *q, uint64_t now_us)
{
    struct request_head h;
    struct request *r;
    uint64_t wall = wall_us(), elapsed_ms = wall > q->a.began_us ? (wall - q->a.began_us) / 1000 : 0;
    TRY(read_head(&h, &q->a));
    TRY(reserve(co, q, &h, now_us, &r));
    enum status st = text_requests_recover(
        co, r, q, elapsed_ms < UINT32_MAX ? (uint32_t)elapsed_ms : UINT32_MAX);
    if (st != ST_OK) {
        answer_release_account(co, r);
        request_remove(co->requests, r);
        return st;
    }
    r->admission = q->carried;
    r->keep_until_us = now_us + RECOVERED_KEEP_US;
    request_orphan(co->requests, r, r->keep_until_us);
    co->live++;
    return ST_OK;
}

void recovery_tend(struct coordinator *co, uint64_t now_us)
{
    if (!co->recovered || !co->sched || !co->served.has_weights || !*co->served.numerics)
        return;
    for (struct recovered_request *q; (q = co->recovered->first);) {
        struct admission *carried = q->carried;
        co->recovered->first = q->next;
        q->next = NULL;
        if (start(co, q, now_us) == ST_OK)
            continue;
        log_line(LOG_INFO, "request %s of the journal does not go on: %s", q->id, status_text());
        journal_ended(co->journal, carried);
        recovered_request_free(q);
    }
}

bool recovery_has(const struct coordinator *co, const struct owner *owner, const char *id)
{
    const struct recovered_request *q = co->recovered ? co->recovered->first : NULL;
    while (q && (strcmp(q->id, id) != 0 || memcmp(q->a.owner, owner->bytes, SHA256_BYTES) != 0))
        q = q->next;
    return q != NULL;
}

enum status recovery_check(struct coordinator *co, struct request *r, const char **field)
{
    const struct journal_served *s = &co->recovered->served;
    struct resumed *u = r->ask->resumed;
    if (s->has_weights) { /* known only after the request was accepted, perhaps */
        u->has_weights = true;
        memcpy(u->weights, s->weights, sizeof u->weights);
    }
    if (!u->begun) /* nothing has to go on with the same bits */
        return ST_OK;
    return resume_check(u, &co->identity, &co->served, field);
}

/* ---- while requests are served ---- */

enum status recovery_admit(struct coordinator *co, struct request *r, struct wire_bytes request,
                           uint64_t now_us)
{
    struct client_msg m = {.type = MSG_ACCEPTED};
    struct wire_bytes accepted;
    struct admission *x;
    if (!co->journal)
        return ST_OK;
    m.u.accepted = answer_accepted(co, r);
    m.u.accepted.n_prompt_ids = 0; /* the journal has the prompt in the request */
    m.u.accepted.prompt_text.n = 0;
    wire_mem_reset(&co->tx);
    TRY(client_msg_encode_reply(&accepted, &m, &co->tx));
    const struct journal_admission a = {.key = request_key(r),
                                        .began_us =
                                            wall_us() - (now_us - r->arrived_us) - r->before_us,
                                        .id = r->id,
                                        .owner = r->owner.bytes,
                                        .tenant = r->tenant.bytes,
                                        .n_tenant = r->tenant.n,
                                        .n_samples = r->n_samples,
                                        .accepted = accepted.data,
                                        .n_accepted = (uint32_t)accepted.n,
                                        .request = request.data,
                                        .n_request = (uint32_t)request.n};
    TRY(journal_admit(co->journal, &a, &x));
    journal_ended(co->journal, r->admission);
    r->admission = x;
    r->admitted_turn = co->turn;
    return ST_OK;
}

void recovery_refuse(struct coordinator *co, uint64_t now_us)
{
    struct journal_stats stats;
    char why[256];
    uint32_t at = 0;
    struct request *r;
    journal_stats(co->journal, &stats);
    snprintf(why, sizeof why, "the journal cannot be written: %s", stats.why);
    while ((r = request_next(co->requests, &at)))
        if (r->state == REQ_LIVE && r->admitted_turn == co->turn && !r->resumed) {
            r->admitted = false;
            answer_fail(co, r, ST_BUSY, true, why, now_us);
        }
}

void recovery_served(struct coordinator *co)
{
    const struct model_identity *id = &co->identity;
    struct journal_served s = {.has_text = id->has_text, .has_weights = co->served.has_weights};
    memcpy(s.text, id->text, sizeof s.text);
    memcpy(s.weights, co->served.weights, sizeof s.weights);
    snprintf(s.numerics, sizeof s.numerics, "%s", co->served.numerics);
    journal_served(co->journal, &s);
}
