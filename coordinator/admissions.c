#include "coordinator/admissions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "coordinator/answers.h"

/* A restart reads one or two files: larger ones delay it. */
enum { LEAST_FILE_BYTES = 1 << 20, MOST_FILE_BYTES = 32 << 20, FILES = 8 };
enum { ACCEPTED_MEM = 4 << 20 }; /* address space for one Accepted */

static uint64_t file_bytes(uint64_t all)
{
    uint64_t n = all ? all / FILES : MOST_FILE_BYTES;
    return n < LEAST_FILE_BYTES ? LEAST_FILE_BYTES : n > MOST_FILE_BYTES ? MOST_FILE_BYTES : n;
}

enum status admissions_open(struct coordinator *co)
{
    struct journal_config jc = {.dir = co->cfg.journal_dir,
                                .name = "ingot",
                                .max_file_bytes = file_bytes(co->cfg.journal_bounds.max_bytes),
                                .bounds = co->cfg.journal_bounds,
                                .sync = co->cfg.journal_sync,
                                .content = co->cfg.journal_content};
    TRY(wire_mem_init(&co->tx, ACCEPTED_MEM));
    TRY(journal_open(&co->journal, &jc));
    if (co->journal && jc.content == JOURNAL_NO_CONTENT)
        log_line(LOG_INFO,
                 "the journal is without content: it can be verified, but not recomputed or shown "
                 "with text; after a restart the server goes on only with requests whose clients "
                 "send them again, and has no answers of before");
    TRY(journal_recover(co->journal, &co->recovered));
    if (!co->recovered)
        return ST_OK;
    for (struct recovered_request *q = co->recovered->first; q; q = q->next) {
        struct journal_admission a = q->a;
        a.key = 0;
        TRY(journal_carry(co->journal, &a, &q->carried));
    }
    if (co->recovered->n)
        log_line(LOG_INFO, "requests of the journal that clients may still ask for: %" PRIu32,
                 co->recovered->n);
    return ST_OK;
}

void admissions_close(struct coordinator *co)
{
    recovered_free(co->recovered);
    journal_close(co->journal);
    wire_mem_fini(&co->tx);
}

enum status admissions_add(struct coordinator *co, struct request *r, struct wire_bytes request,
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
                                        .began_us = clock_wall_us() - (now_us - r->arrived_us) -
                                                    r->before_us,
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

void admissions_refuse(struct coordinator *co, uint64_t now_us)
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
            answer_fail(co, r, ST_IO, true, why, now_us);
        }
}

void admissions_served(struct coordinator *co)
{
    const struct model_identity *id = &co->identity;
    struct journal_served s = {.has_text = id->has_text, .has_weights = co->served.has_weights};
    memcpy(s.text, id->text, sizeof s.text);
    memcpy(s.weights, co->served.weights, sizeof s.weights);
    snprintf(s.numerics, sizeof s.numerics, "%s", co->served.numerics);
    journal_served(co->journal, &s);
}
