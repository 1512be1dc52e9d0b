#include "coordinator/generate.h"

#include <stdio.h>
#include <string.h>

#include "common/sha256.h"
#include "coordinator/admissions.h"
#include "coordinator/answers.h"
#include "coordinator/embeddings.h"
#include "coordinator/grammars.h"
#include "coordinator/recovery.h"
#include "coordinator/reply.h"
#include "coordinator/resume.h"
#include "coordinator/session.h"
#include "coordinator/text_requests.h"

/* a known request: send it again, but what the client has, to whoever asks now */
static void attach(struct coordinator *co, struct client *c, struct request *r,
                   const struct request_head *h, uint64_t now_us)
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
    request_join(co->requests, r, c, &c->requests);
    if (r->state != REQ_ENDED)
        c->n_requests++;
    r->attached = true;
    r->accepted_sent = r->terminal_sent = false;
    for (uint32_t i = 0; r->samples && i < r->n_samples; i++)
        sample_seek(&r->samples[i], h->resumed[i].n_ids, h->resumed[i].n_text);
    if (r->scores)
        prompt_scores_seek(r->scores, h->resumed[0].n_scores);
    answer_mark(co, r);
}

/* Why the client cannot get the rest of the request, or NULL. */
static const char *why_not_attached(const struct request *r, const struct request_head *h,
                                    const char **field)
{
    *field = "resume.sample";
    if (r->samples && h->has_resume && h->n_resumed != r->n_samples)
        return "resume has another number of samples than the request";
    *field = "resume.sample.prompt_logprobs";
    if (r->samples && h->resumed[0].n_scores > (r->scores ? r->scores->n : 0))
        return "resume has more log probabilities of the prompt than there are";
    if (r->scores && h->resumed[0].n_scores < r->scores->n_here)
        return "another server has sent the first log probabilities of the prompt: resume must "
               "have these";
    for (uint32_t i = 0; r->samples && i < r->n_samples; i++) {
        const struct sample *s = &r->samples[i];
        *field = "resume.sample.id";
        if (h->resumed[i].n_ids > s->n - r->ask->n_prompt)
            return "resume has more ids than were drawn";
        *field = "resume.sample.text_bytes";
        if (h->resumed[i].n_text > s->text.len)
            return "resume has more text than the ids make";
        *field = "resume";
        if (s->facts.logprobs && h->resumed[i].n_ids < s->n_resumed)
            return "another server has sent the log probabilities of the first tokens: resume "
                   "must have these tokens";
    }
    return NULL;
}

/* Does the server take requests now?  Each of its reasons passes: ST_BUSY; ST_IO of the journal. */
static enum status may_take(const struct coordinator *co, const struct owner *owner,
                            const struct request_head *h)
{
    if (!h->has_resume && recovery_has(co, owner, h->id))
        FAIL(ST_BUSY, "the request is being read from the journal");
    if (!h->has_resume && !journal_may_admit(co->journal))
        FAIL(ST_IO, "the journal cannot be written: no new request is taken (--journal-sync)");
    if (co->draining)
        FAIL(ST_BUSY, "the server is draining and takes no new requests");
    if (!co->fleet)
        FAIL(ST_BUSY, "no worker group is connected yet");
    return ST_OK;
}

/* Reserves the id, and counts one sample of the tenant: the request may have more, but only the text thread knows. */
static enum status take_request(struct coordinator *co, const struct owner *owner,
                                const struct request_head *h, uint64_t now_us, struct request **out,
                                struct tenant_refusal *refusal)
{
    const struct tenant_ask ask = {owner, h->limits, h->has_resume};
    struct tenant_account *account;
    if (!h->has_resume && co->live >= co->cfg.max_waiting + SPARE_REQUESTS)
        FAIL(ST_BUSY, "%u requests are being served: no more fit", co->live);
    TRY(tenant_enter(co->tenants, &ask, now_us, &account, refusal));
    enum status st = request_reserve(co->requests, owner, h->id, h->digest, now_us, out);
    if (st != ST_OK) {
        tenant_leave(co->tenants, account, 1);
        return st;
    }
    (*out)->account = account;
    (*out)->n_entered = 1;
    (*out)->resumed = h->has_resume;
    (*out)->tenant = h->tenant;
    (*out)->grace_ms = h->has_grace ? h->grace_ms : co->cfg.client_grace_ms;
    return ST_OK;
}

static void reject(struct coordinator *co, struct client *c, const char *id, enum status st,
                   bool passes, const char *detail, const struct tenant_refusal *why,
                   uint64_t now_us)
{
    struct client_msg m = {.type = MSG_REJECTED};
    metrics_rejected(&co->metrics, st);
    m.u.error = (struct msg_error){.request_id = id,
                                   .code = st,
                                   .detail = detail,
                                   .field = why->field,
                                   .retryable = passes,
                                   .retry_after_ms = st == ST_BUSY ? why->retry_after_ms
                                                     : passes      ? RETRY_MS
                                                                   : 0,
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
    if (r && r->abandoned && h->has_resume && !r->dirty) { /* its client is back: it goes on */
        request_remove(co->requests, r);
        r = NULL;
    }
    if (r && r->state == REQ_RESERVED && r->resumed && (r->recovered || !h->has_resume)) {
        reject(co, c, h->id, ST_BUSY, true, "the request is being resumed", &refusal, now_us);
        return;
    }
    const char *why = r ? why_not_attached(r, h, &refusal.field) : NULL;
    if (r && why &&
        r->recovered) { /* its client had more than the journal: it goes on from there */
        r->abandoned = true;
        answer_cancel(co, r, REASON_CANCELLED, now_us);
        reject(co, c, h->id, ST_BUSY, true, "the request is being resumed", &refusal, now_us);
        return;
    }
    if (r && !why) {
        if (h->has_grace)
            r->grace_ms = h->grace_ms;
        attach(co, c, r, h, now_us);
        return;
    }
    if (r) {
        reject(co, c, h->id, ST_RANGE, false, why, &refusal, now_us);
        return;
    }
    enum status st = may_take(co, &owner, h);
    if (st != ST_OK) {
        reject(co, c, h->id, st, true, status_text(), &refusal, now_us);
        return;
    }
    st = take_request(co, &owner, h, now_us, &r, &refusal);
    if (st == ST_OK) {
        st = text_requests_submit(co, c, h, r);
        if (st != ST_OK) {
            answer_release_account(co, r);
            request_remove(co->requests, r);
        }
    }
    if (st != ST_OK) {
        reject(co, c, h->id, st, reply_passes(st), status_text(), &refusal, now_us);
        return;
    }
    request_join(co->requests, r, c, &c->requests);
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

/* On the clock of arrived_us; 0 = none. */
static uint64_t deadline_of(const struct request *r)
{
    uint64_t us = 1000U * (uint64_t)r->ask->deadline_ms;
    if (us == 0)
        return 0;
    return r->arrived_us + (us > r->before_us ? us - r->before_us : 0);
}

static enum status submit_samples(struct coordinator *co, struct request *r)
{
    const struct resolved *ask = r->ask;
    uint64_t salt = salt_of(co, &r->owner);
    for (uint32_t i = 0; i < r->n_samples; i++) {
        struct sample *s = &r->samples[i];
        if (s->done)
            continue;
        struct sched_req q = {
            .seq_id = s->seq_id,
            .group_id = request_key(r),
            .tenant = salt,
            .salt = salt,
            .label = r->id,
            .owner = r->owner.bytes,
            .tokens = s->tokens,
            .n_tokens = s->n,
            .n_prompt = ask->n_prompt,
            .max_new = ask->n_prompt + ask->max_new - s->n,
            .deadline_us = deadline_of(r),
            .resumed = r->resumed,
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
        q.sp.prompt_logprobs = ask->sp.prompt_logprobs && i == 0;
        q.sp.prompt_top = i == 0 ? ask->sp.prompt_top : 0;
        if (q.sp.prompt_logprobs) /* the first token has an entry, and no score */
            q.n_scored = r->scores->n - 1;
        enum status st = fleet_submit(co->fleet, &q);
        if (st == ST_OK) {
            journal_submit(co->journal, &q);
            continue;
        }
        for (uint32_t k = 0; k < i; k++) {
            (void)fleet_cancel(co->fleet, r->samples[k].seq_id);
            journal_cancel(co->journal, r->samples[k].seq_id, FINISH_CANCELLED);
        }
        return st;
    }
    return ST_OK;
}

static enum status resume(struct coordinator *co, struct request *r, const char **field)
{
    r->before_us = 1000U * (uint64_t)r->ask->resumed->elapsed_ms;
    if (r->recovered)
        TRY(recovery_check(co, r, field));
    else
        TRY(resume_check(r->ask->resumed, &co->identity, &co->served, field));
    return resume_samples(r, field);
}

/* Room for the log probabilities of its prompt. */
static enum status take_score_memory(struct coordinator *co, struct request *r,
                                     const struct resolved *ask)
{
    if (!ask->sp.prompt_logprobs || r->resumed)
        return ST_OK;
    snprintf(r->field, sizeof r->field, "sampling.prompt_logprobs");
    TRY(request_score_room(co->requests, ask, co->cfg.max_score_bytes));
    r->field[0] = '\0';
    return ST_OK;
}

static enum status admit(struct coordinator *co, struct request *r, struct text_job *job,
                         uint64_t now_us)
{
    struct resolved **ask = &job->resolved;
    struct sched_stats stats;
    if ((*ask)->grammar_kind && !co->shape.masks) {
        snprintf(r->field, sizeof r->field, "grammar");
        FAIL(ST_UNSUPPORTED, "the worker group's backend %s cannot follow grammars",
             co->shape.backend);
    }
    if ((*ask)->sp.embed && !embeddings_given(co)) {
        snprintf(r->field, sizeof r->field, "embed");
        FAIL(ST_UNSUPPORTED,
             "the worker group gives no embeddings of %d components (--embed, --rerank)",
             co->mt.modules.dim);
    }
    if (!(*ask)->sp.embed && co->mt.modules.whole)
        FAIL(ST_UNSUPPORTED, "this model is an encoder: it gives %s, no answers",
             co->mt.modules.scores ? "scores (rerank)" : "embeddings (embed)");
    if (!(*ask)->sp.embed && co->shape.headless)
        FAIL(ST_UNSUPPORTED, "this model's files have no head: it gives embeddings alone");
    TRY(take_score_memory(co, r, *ask));
    TRY(grammars_take(co->grammars, *ask, &r->owner, &r->grammar));
    fleet_stats(co->fleet, &stats);
    r->queue_position = stats.waiting;
    TRY(request_start(r, ask, co->mt.tok));
    if (r->resumed) {
        const char *field = "";
        enum status st = resume(co, r, &field);
        if (st != ST_OK) {
            snprintf(r->field, sizeof r->field, "%s", field);
            return st;
        }
    }
    TRY(admissions_add(co, r, (struct wire_bytes){job->kept, job->n_kept}, now_us));
    return submit_samples(co, r);
}

/* The other samples of the request count too, and all that wait. */
static enum status enter_samples(const struct tenant_table *t, struct request *r,
                                 const struct resolved *ask)
{
    struct tenant_refusal why;
    if (r->resumed) {
        tenant_more_resumed(r->account, ask->n_samples - 1);
        r->n_entered = ask->n_samples;
        return ST_OK;
    }
    enum status st = tenant_more(t, r->account, ask->n_samples - 1, &why);
    if (st == ST_OK) {
        r->n_entered = ask->n_samples;
        st = tenant_queue(t, r->account, ask->n_samples, ask->n_prompt, &why);
    }
    if (st == ST_OK) {
        r->n_queued = ask->n_samples;
        r->queued_tokens = ask->n_prompt;
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
        answer_fail(co, r, job->status, reply_passes(job->status), job->detail, now_us);
        return;
    }
    enum status st = enter_samples(co->tenants, r, job->resolved);
    if (st == ST_OK)
        st = admit(co, r, job, now_us);
    if (st != ST_OK) {
        answer_fail(co, r, st, reply_passes(st), status_text(), now_us);
        return;
    }
    r->state = REQ_LIVE;
    r->admitted = true;
    co->n.prompt_tokens += r->ask->n_prompt;
    if (!r->resumed)
        tenant_charge(r->account, r->ask->n_prompt, now_us);
    answer_mark(co, r);
    answer_end_if_done(co, r, now_us);
}
