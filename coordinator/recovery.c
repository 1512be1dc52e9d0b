#include "coordinator/recovery.h"

#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "coordinator/answers.h"
#include "coordinator/reply.h"
#include "coordinator/resume.h"
#include "coordinator/text_requests.h"

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
        FAIL(ST_CANCELED, "its client has resumed it");
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
    uint64_t wall = clock_wall_us(),
             elapsed_ms = wall > q->a.began_us ? (wall - q->a.began_us) / 1000 : 0;
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
    if (!co->recovered || !co->fleet || !co->served.has_weights || !*co->served.numerics)
        return;
    for (struct recovered_request **at = &co->recovered->first, *q; (q = *at);) {
        struct admission *carried = q->carried;
        struct recovered_request *next = q->next;
        q->next = NULL;
        enum status st = start(co, q, now_us);
        if (reply_passes(st)) { /* its turn comes */
            q->next = next;
            at = &q->next;
            continue;
        }
        *at = next;
        if (st == ST_OK)
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
