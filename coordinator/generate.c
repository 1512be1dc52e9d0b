#include "coordinator/generate.h"

#include <stdio.h>
#include <string.h>

#include "common/sha256.h"
#include "coordinator/answers.h"
#include "coordinator/grammars.h"
#include "coordinator/reply.h"
#include "coordinator/session.h"
#include "coordinator/text_requests.h"

/* a known request: send everything again, to whoever asks now */
static void attach(struct coordinator *co, struct client *c, struct request *r, uint64_t now_us)
{
    if (r->client && r->state != REQ_ENDED)
        r->client->n_requests--;
    if (r->client && r->client != c && !r->terminal_sent)
        reply_error(co, r->client, MSG_ERROR,
                    &(struct msg_error){.request_id = r->id,
                                        .request = MSG_GENERATE,
                                        .code = ST_PEER,
                                        .field = "request_id",
                                        .detail = "another client attached to this request"},
                    now_us);
    r->client = c;
    if (r->state != REQ_ENDED)
        c->n_requests++;
    r->attached = true;
    r->accepted_sent = r->terminal_sent = false;
    for (uint32_t i = 0; r->samples && i < r->n_samples; i++) {
        struct sample *s = &r->samples[i];
        s->sent_tokens = s->sent_top = s->seq = 0;
        s->sent_text = s->sent_token_text = s->sent_top_text = 0;
    }
    answer_mark(co, r);
}

/* why no new request is taken now; all of it passes */
static const char *refuse_now(const struct coordinator *co)
{
    if (co->draining)
        return "the server is draining and takes no new requests";
    if (!co->sched)
        return "no worker group is connected yet";
    return NULL;
}

/* Reserves the id, and counts one sample of the tenant: the request may have more, but only the text thread knows. */
static enum status take_request(struct coordinator *co, const struct owner *owner,
                                const struct request_head *h, uint64_t now_us, struct request **out,
                                struct tenant_refusal *refusal)
{
    struct tenant_account *account = NULL;
    if (h->has_limits)
        TRY(tenant_enter(co->tenants, &h->tenant, &h->limits, now_us, &account, refusal));
    enum status st = request_reserve(co->requests, owner, h->id, h->digest, now_us, out);
    if (st != ST_OK) {
        if (account)
            tenant_leave(co->tenants, account, 1);
        return st;
    }
    (*out)->account = account;
    (*out)->n_entered = 1;
    (*out)->grace_ms = h->has_grace ? h->grace_ms : co->cfg.client_grace_ms;
    return ST_OK;
}

static void reject(struct coordinator *co, struct client *c, const char *id, enum status st,
                   const char *detail, const struct tenant_refusal *why, uint64_t now_us)
{
    struct client_msg m = {.type = MSG_REJECTED};
    metrics_rejected(&co->metrics, st);
    m.u.error = (struct msg_error){.request_id = id,
                                   .code = st,
                                   .detail = detail,
                                   .field = why->field,
                                   .retryable = st == ST_BUSY,
                                   .retry_after_ms = st == ST_BUSY ? why->retry_after_ms : 0,
                                   .draining = co->draining};
    client_port_reply(co->client_port, c, &m, now_us);
}

void generate_take(struct coordinator *co, struct client *c, const struct request_head *h,
                   uint64_t now_us)
{
    struct owner owner = session_owner(co, c, h);
    struct request *r = request_find(co->requests, &owner, h->id);
    struct tenant_refusal refusal = {"", RETRY_MS};

    if (r && r->digest != h->digest) {
        reply_error(
            co, c, MSG_REJECTED,
            &(struct msg_error){.request_id = h->id,
                                .code = ST_RANGE,
                                .field = "request_id",
                                .detail = "this request_id is in use by a different request"},
            now_us);
        return;
    }
    if (r) {
        if (h->has_grace)
            r->grace_ms = h->grace_ms;
        attach(co, c, r, now_us);
        return;
    }
    const char *why = refuse_now(co);
    enum status st = why ? ST_BUSY : take_request(co, &owner, h, now_us, &r, &refusal);
    if (st == ST_OK) {
        st = text_requests_submit(co, c, h, r);
        if (st != ST_OK) {
            answer_release_account(co, r);
            request_remove(co->requests, r);
        }
    }
    if (st != ST_OK) {
        reject(co, c, h->id, st, why ? why : status_text(), &refusal, now_us);
        return;
    }
    r->client = c;
    c->n_requests++;
    co->live++;
}

/* What keeps the owner's blocks apart in the prefix cache; a stranger cannot find another owner
 * of the same salt.  Not 0, which is the scheduler's common one. */
static uint64_t salt_of(const struct coordinator *co, const struct owner *owner)
{
    struct sha256 s;
    uint8_t digest[SHA256_BYTES];
    uint64_t salt;
    sha256_init(&s);
    sha256_update(&s, co->salt_key, sizeof co->salt_key);
    sha256_update(&s, owner->bytes, sizeof owner->bytes);
    sha256_final(&s, digest);
    memcpy(&salt, digest, sizeof salt);
    return salt ? salt : 1;
}

static enum status submit_samples(struct coordinator *co, struct request *r)
{
    const struct resolved *ask = r->ask;
    uint64_t salt = salt_of(co, &r->owner);
    for (uint32_t i = 0; i < r->n_samples; i++) {
        struct sample *s = &r->samples[i];
        struct sched_req q = {
            .seq_id = s->seq_id,
            .group_id = request_key(r),
            .tenant = salt,
            .salt = salt,
            .label = r->id,
            .owner = r->owner.bytes,
            .tokens = s->tokens,
            .n_tokens = ask->n_prompt,
            .n_prompt = ask->n_prompt,
            .max_new = ask->max_new,
            .deadline_us =
                ask->deadline_ms ? r->arrived_us + 1000U * (uint64_t)ask->deadline_ms : 0,
            .priority = ask->priority,
            .sp = ask->sp,
            .stop_ids = ask->stop_ids,
            .n_stop_ids = ask->n_stop_ids,
            .grammar = r->grammar,
            .grammar_kind = ask->grammar_kind,
            .grammar_source = ask->grammar,
            .n_grammar = (uint32_t)ask->n_grammar,
            .bias = ask->bias,
            .n_bias = ask->n_bias,
        };
        q.sp.seed = sample_seed(ask->sp.seed, i);
        enum status st = sched_submit(co->sched, &q);
        if (st == ST_OK) {
            journal_submit(co->journal, &q);
            continue;
        }
        for (uint32_t k = 0; k < i; k++) {
            sched_cancel(co->sched, r->samples[k].seq_id);
            journal_cancel(co->journal, r->samples[k].seq_id, FINISH_CANCELLED);
        }
        return st;
    }
    return ST_OK;
}

static enum status admit(struct coordinator *co, struct request *r, struct resolved **ask)
{
    struct sched_stats stats;
    if ((*ask)->grammar_kind && !co->shape.masks) {
        snprintf(r->field, sizeof r->field, "grammar");
        FAIL(ST_UNSUPPORTED, "the worker group's backend %s cannot follow grammars",
             co->shape.backend);
    }
    TRY(grammars_take(co->grammars, *ask, &r->grammar));
    sched_stats(co->sched, &stats);
    r->queue_position = stats.waiting;
    TRY(request_start(r, ask, co->mt.tok));
    return submit_samples(co, r);
}

/* The other samples of the request count too. */
static enum status enter_samples(struct request *r, const struct resolved *ask)
{
    struct tenant_refusal why;
    if (!r->account)
        return ST_OK;
    enum status st = tenant_more(r->account, ask->n_samples - 1, &why);
    if (st == ST_OK) {
        r->n_entered = ask->n_samples;
        return ST_OK;
    }
    snprintf(r->field, sizeof r->field, "%s", why.field);
    r->retry_after_ms = why.retry_after_ms;
    return st;
}

void generate_ready(struct coordinator *co, struct text_job *job, uint64_t now_us)
{
    struct request *r = request_of_key(co->requests, job->request);
    if (!r || r->state != REQ_RESERVED)
        return; /* cancelled, or its client is gone */
    if (job->status != ST_OK) {
        memcpy(r->field, job->field, sizeof r->field);
        answer_fail(co, r, job->status, false, job->detail, now_us);
        return;
    }
    enum status st = enter_samples(r, job->resolved);
    if (st == ST_OK)
        st = admit(co, r, &job->resolved);
    if (st != ST_OK) {
        answer_fail(co, r, st, st == ST_BUSY, status_text(), now_us);
        return;
    }
    r->state = REQ_LIVE;
    r->admitted = true;
    co->n.prompt_tokens += r->ask->n_prompt;
    if (r->account)
        tenant_charge(r->account, r->ask->n_prompt, now_us);
    answer_mark(co, r);
}
