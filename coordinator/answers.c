/* From sampled tokens to what the client reads. */
#include "coordinator/answers.h"

#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/embeddings.h"
#include "coordinator/grammars.h"

void answer_mark(struct coordinator *co, struct request *r)
{
    if (r->dirty)
        return;
    r->dirty = true;
    r->next_dirty = co->dirty;
    co->dirty = r;
}

void answer_release_account(struct coordinator *co, struct request *r)
{
    if (!r->account)
        return;
    tenant_unqueue(r->account, r->n_queued, r->queued_tokens);
    tenant_leave(co->tenants, r->account, r->n_entered);
    r->account = NULL;
    r->n_queued = 0;
}

/* The sample runs: it does not wait any more, also when it is paused later. */
static void note_started(struct request *r, struct sample *s)
{
    if (s->started || !r->n_queued)
        return;
    s->started = true;
    r->n_queued--;
    tenant_unqueue(r->account, 1, r->queued_tokens);
}

static void end_request(struct coordinator *co, struct request *r, uint64_t now_us)
{
    if (r->state == REQ_ENDED)
        return;
    request_end(co->requests, r, now_us);
    answer_release_account(co, r);
    grammars_release(co->grammars, r->grammar);
    r->grammar = 0;
    journal_ended(co->journal, r->admission);
    r->admission = NULL;
    metrics_ended(&co->metrics, r);
    co->live--;
    if (r->client)
        r->client->n_requests--;
    answer_mark(co, r);
}

static void stop_samples(struct coordinator *co, struct request *r, enum msg_reason reason)
{
    for (uint32_t i = 0; r->samples && i < r->n_samples; i++) {
        struct sample *s = &r->samples[i];
        if (s->done)
            continue;
        if (co->fleet) {
            (void)fleet_cancel(co->fleet, s->seq_id);
            journal_cancel(co->journal, s->seq_id, FINISH_CANCELLED);
        }
        enum status st = sample_end(r, s, reason);
        if (st != ST_OK)
            log_failure(LOG_WARN, st, "the end of an answer");
    }
}

void answer_fail(struct coordinator *co, struct request *r, enum status code, bool retryable,
                 const char *detail, uint64_t now_us)
{
    if (r->state == REQ_ENDED)
        return;
    r->failed = code;
    r->retryable = retryable;
    snprintf(r->detail, sizeof r->detail, "%s", detail);
    stop_samples(co, r, REASON_FAILED);
    if (r->recovered && !r->admitted)
        log_line(LOG_INFO, "request %s of the journal does not go on: %s", r->id, detail);
    if (r->admitted)
        co->n.failed++;
    else
        metrics_rejected(&co->metrics, code);
    end_request(co, r, now_us);
}

void answer_cancel(struct coordinator *co, struct request *r, enum msg_reason reason,
                   uint64_t now_us)
{
    if (r->state == REQ_ENDED)
        return;
    if (r->state == REQ_RESERVED)
        text_service_drop(co->text, 0, request_key(r));
    r->cancelled = true;
    co->n.cancelled++;
    stop_samples(co, r, reason);
    end_request(co, r, now_us);
}

void answer_end_if_done(struct coordinator *co, struct request *r, uint64_t now_us)
{
    if (r->state != REQ_LIVE || r->n_done < r->n_samples)
        return;
    co->n.finished++;
    end_request(co, r, now_us);
}

void answer_fail_all(struct coordinator *co, enum status code, const char *detail, uint64_t now_us)
{
    uint32_t at = 0;
    struct request *r;
    while ((r = request_next(co->requests, &at)))
        answer_fail(co, r, code, true, detail, now_us);
}

/* ---- effects of a step ---- */

static enum msg_reason reason_of(enum finish_reason r)
{
    switch (r) {
    case FINISH_STOP_ID:
    case FINISH_GRAMMAR_COMPLETE:
        return REASON_EOS;
    case FINISH_LENGTH:
    case FINISH_EMBEDDED:
        return REASON_LENGTH;
    case FINISH_STOP_STRING:
        return REASON_STOP;
    case FINISH_CANCELLED:
        return REASON_CANCELLED;
    case FINISH_DEADLINE:
        return REASON_DEADLINE;
    default:
        return REASON_FAILED;
    }
}

/* What a token brings cannot be kept.  Lack of memory passes, and the client has what it needs to go on with the request
 * (RESUMING in ingot.proto). */
static void fail_kept(struct coordinator *co, struct request *r, enum status st, uint64_t now_us)
{
    answer_fail(co, r, st, st == ST_NOMEM, status_text(), now_us);
}

static void on_token(struct coordinator *co, struct request *r, struct sample *s,
                     const struct result_token *t, uint64_t now_us)
{
    bool ended = false;
    if (s->done)
        return; /* it ended by a stop string in this very step */
    metrics_token(&co->metrics, r, s, now_us);
    if (!r->first_token_us)
        r->first_token_us = now_us;
    co->n.tokens_generated++;
    r->losses = 0;
    tenant_charge(r->account, 1, now_us);
    enum status st = sample_token(r, s, t, &ended);
    if (st != ST_OK) {
        fail_kept(co, r, st, now_us);
        return;
    }
    if (!ended)
        return;
    (void)fleet_cancel(co->fleet, s->seq_id);
    journal_cancel(co->journal, s->seq_id, FINISH_STOP_STRING);
    if (sample_end(r, s, REASON_STOP) != ST_OK)
        log_failure(LOG_WARN, ST_BUG, "the end of an answer");
}

static void on_scored(struct coordinator *co, struct request *r, const struct result_token *t,
                      uint64_t now_us)
{
    enum status st = prompt_scores_add(r->scores, t);
    if (st != ST_OK)
        fail_kept(co, r, st, now_us);
}

static void fail_not_finite(struct coordinator *co, struct request *r, const struct sample *s,
                            uint64_t now_us)
{
    char why[256];
    bool f16 = strstr(co->served.numerics, "/kv-f16/") != NULL;
    snprintf(
        why, sizeof why, "sample %u, position %u: the logits are not finite numbers%s",
        (unsigned)(s - r->samples), s->n,
        f16 ? "; values may exceed the range of the f16 KV cache: --kv-dtype bf16 has that of f32"
            : "");
    answer_fail(co, r, ST_DEVICE, false, why, now_us);
}

/* Where in the grammar's source the sequence's rank was. */
static const char *stuck_place(const struct step_result *result, uint64_t seq_id)
{
    for (uint32_t i = 0; result && i < result->n; i++)
        if (result->tokens[i].seq_id == seq_id && result->tokens[i].place)
            return result->tokens[i].place;
    return "an unknown place";
}

static void fail_stuck(struct coordinator *co, struct request *r, const struct sample *s,
                       const char *place, uint64_t now_us)
{
    char why[400];
    snprintf(why, sizeof why,
             "sample %u, position %u: no token of the vocabulary can follow the grammar at %s",
             (unsigned)(s - r->samples), s->n, place);
    answer_fail(co, r, ST_UNSUPPORTED, false, why, now_us);
}

static void on_finished(struct coordinator *co, struct request *r, struct sample *s,
                        const struct sched_effect *fx, const struct step_result *result,
                        uint64_t now_us)
{
    if (fx->reason == FINISH_FAILED) {
        answer_fail(co, r, ST_NOMEM, false,
                    "the sequence does not fit the KV cache of the worker group any more", now_us);
        return;
    }
    if (fx->reason == FINISH_NOT_FINITE) {
        fail_not_finite(co, r, s, now_us);
        return;
    }
    if (fx->reason == FINISH_GRAMMAR_STUCK) {
        fail_stuck(co, r, s, stuck_place(result, fx->seq_id), now_us);
        return;
    }
    if (fx->reason == FINISH_STOP_ID && !s->done && s->n > r->ask->n_prompt)
        s->stop_id = s->tokens[s->n - 1];
    bool own = s->stop_id >= 0 && !resolved_is_end_id(r->ask, s->stop_id);
    enum status st = sample_end(r, s, own ? REASON_STOP : reason_of(fx->reason));
    if (st != ST_OK)
        fail_kept(co, r, st, now_us);
}

void answer_effects(struct coordinator *co, const struct step_result *result, size_t n_fx,
                    uint64_t now_us)
{
    for (size_t i = 0; i < n_fx; i++) {
        const struct sched_effect *fx = &co->fx[i];
        struct sample *s;
        struct request *r = request_of_seq(co->requests, fx->seq_id, &s);
        if (!r || r->state == REQ_ENDED)
            continue;
        switch (fx->kind) {
        case FX_TOKEN:
            on_token(co, r, s, &result->tokens[fx->i_result], now_us);
            break;
        case FX_SCORED:
            on_scored(co, r, &result->tokens[fx->i_result], now_us);
            break;
        case FX_EMBEDDED:
            r->losses = 0;
            if (embeddings_take(co, r, result, fx->i_result) != ST_OK)
                fail_kept(co, r, ST_NOMEM, now_us);
            break;
        case FX_FINISHED:
            on_finished(co, r, s, fx, result, now_us);
            break;
        case FX_PREEMPTED:
            r->preemptions++;
            break;
        case FX_ADMITTED:
            metrics_admitted(&co->metrics, r, fx->n);
            note_started(r, s);
            if (!r->planned_us) {
                r->planned_us = now_us;
                r->cached_tokens = fx->n;
                co->n.cached_tokens += fx->n;
            }
            break;
        }
        answer_end_if_done(co, r, now_us);
        answer_mark(co, r);
    }
}

/* ---- sending ---- */

struct msg_accepted answer_accepted(const struct coordinator *co, const struct request *r)
{
    const struct resolved *q = r->ask;
    return (struct msg_accepted){
        .request_id = r->id,
        .attached = r->attached,
        .prompt_tokens = q->n_prompt,
        .queue_position = r->queue_position,
        .seed = q->sp.seed,
        .prompt_digest = q->digest,
        .n_prompt_ids = q->want_prompt_ids ? q->n_prompt : 0,
        .prompt_ids = q->prompt,
        .has_clock = q->is_chat,
        .clock_s = q->clock_s,
        .zone_s = q->zone_s,
        .max_tokens = q->max_new,
        .n_stop_ids = q->n_stop_ids,
        .stop_ids = q->stop_ids,
        .sampling = {.sp = q->sp,
                     .has_seed = true,
                     .ignore_eos = q->ignore_eos,
                     .n_bias = q->n_bias,
                     .bias = q->bias,
                     .n_stop_ids = q->n_stop_ids - q->n_eos,
                     .stop_ids = q->stop_ids + q->n_eos},
        .starts_in_reasoning = q->starts_in_reasoning,
        .weights = co->served.has_weights ? co->served.weights : NULL,
        .text = co->identity.has_text ? co->identity.text : NULL,
        .numerics = co->served.numerics,
        .prompt_text = {q->prompt_text.data, q->prompt_text.len},
    };
}

static enum send_result send_accepted(struct coordinator *co, struct request *r, uint64_t now_us)
{
    struct client_msg m = {.type = MSG_ACCEPTED};
    if (r->ask)
        m.u.accepted = answer_accepted(co, r);
    else /* it was cancelled before its prompt was known */
        m.u.accepted = (struct msg_accepted){.request_id = r->id, .attached = r->attached};
    return client_port_send(co->client_port, r->client, &m, now_us);
}

static enum send_result send_delta(struct coordinator *co, struct request *r, uint32_t i,
                                   uint64_t now_us)
{
    struct sample *s = &r->samples[i];
    struct token_facts *f = &s->facts;
    uint32_t have = s->n - r->ask->n_prompt, n = have - s->sent_tokens;
    struct client_msg m = {.type = MSG_DELTA};
    struct msg_delta *d = &m.u.delta;

    if (i == 0 && r->scores)
        prompt_scores_next(r->scores, &d->prompt);
    if (n == 0 && s->text.len == s->sent_text && d->prompt.n == 0)
        return SEND_OK;
    d->request_id = r->id;
    d->sample = i;
    d->seq = s->seq;
    d->n = n;
    d->ids = s->tokens + r->ask->n_prompt + s->sent_tokens;
    d->text = (struct wire_text){s->text.data + s->sent_text, s->text.len - s->sent_text};
    if (f->logprobs)
        d->logprobs = f->logprobs + s->sent_tokens;
    if (f->n_top) {
        d->n_top = f->n_top + s->sent_tokens;
        d->top = f->top + f->sent_top;
    }
    if (f->n_token_text) {
        d->n_token_text = f->n_token_text + s->sent_tokens;
        d->token_text = f->token_text.data + f->sent_token_text;
    }
    if (f->n_top && f->n_top_text) {
        d->n_top_text = f->n_top_text + f->sent_top;
        d->top_text = f->top_text.data + f->sent_top_text;
    }
    enum send_result res = client_port_send(co->client_port, r->client, &m, now_us);
    if (res == SEND_OK) {
        s->seq++;
        f->sent_token_text = f->token_text.len;
        f->sent_top_text = f->top_text.len;
        f->sent_top = f->n_top_all;
        s->sent_tokens = have;
        s->sent_text = s->text.len;
        if (d->prompt.n)
            prompt_scores_took(r->scores, &d->prompt);
    }
    return res;
}

static enum send_result send_finish(struct coordinator *co, struct request *r, uint64_t now_us)
{
    struct msg_sample_end ends[MAX_SAMPLES];
    struct client_msg m = {.type = MSG_FINISH};
    struct msg_finish *f = &m.u.finish;
    f->request_id = r->id;
    f->n_samples = r->samples ? r->n_samples : 1; /* 1: cancelled before its prompt was known */
    f->samples = ends;
    ends[0] = (struct msg_sample_end){.reason = REASON_CANCELLED, .stop_id = -1};
    for (uint32_t i = 0; r->samples && i < r->n_samples; i++) {
        const struct sample *s = &r->samples[i];
        ends[i] = (struct msg_sample_end){.sample = i,
                                          .reason = s->reason,
                                          .stop_id = s->stop_id,
                                          .completion_tokens = s->n - r->ask->n_prompt};
        if (s->matched_stop >= 0)
            ends[i].matched_stop = r->ask->stops[s->matched_stop];
        f->completion_tokens += ends[i].completion_tokens;
    }
    f->prompt_tokens = r->ask ? r->ask->n_prompt : 0;
    f->cached_tokens = r->cached_tokens;
    f->queue_us = (r->planned_us ? r->planned_us : r->ended_us) - r->arrived_us;
    f->first_token_us = r->first_token_us ? r->first_token_us - r->arrived_us : 0;
    f->total_us = r->ended_us - r->arrived_us + r->before_us;
    f->preemptions = r->preemptions;
    f->recoveries = r->recoveries;
    f->n_embedding = r->n_embedding;
    f->embedding = r->embedding;
    return client_port_send(co->client_port, r->client, &m, now_us);
}

static enum send_result send_failed(struct coordinator *co, struct request *r, uint64_t now_us)
{
    struct client_msg m = {.type = r->admitted ? MSG_ERROR : MSG_REJECTED};
    m.u.error = (struct msg_error){.request_id = r->id,
                                   .request = MSG_GENERATE,
                                   .code = r->failed,
                                   .detail = r->detail,
                                   .field = r->field,
                                   .retryable = r->retryable,
                                   .retry_after_ms = !r->retryable       ? 0
                                                     : r->retry_after_ms ? r->retry_after_ms
                                                                         : 1000};
    return client_port_send(co->client_port, r->client, &m, now_us);
}

/* Sends everything that the request has for its client, in order; stops at the first message that
 * cannot be sent. */
static enum send_result send_request(struct coordinator *co, struct request *r, uint64_t now_us)
{
    enum send_result res = SEND_OK;
    if (!r->client)
        r->terminal_sent = r->state == REQ_ENDED; /* no client waits for it */
    if (r->state == REQ_RESERVED || !r->client)
        return SEND_OK;
    if (!r->accepted_sent && (r->admitted || r->failed == ST_OK)) {
        /* without the numerics of what computes it, its client could not go on behind our end */
        if (r->state != REQ_ENDED && !*co->served.numerics &&
            !(co->fleet && fleet_n_open(co->fleet)))
            return SEND_BLOCKED;
        if ((res = send_accepted(co, r, now_us)) != SEND_OK)
            return res;
        r->accepted_sent = true;
    }
    while (r->scores && r->accepted_sent && r->scores->sent < r->scores->n)
        if ((res = send_delta(co, r, 0, now_us)) != SEND_OK)
            return res;
    for (uint32_t i = 0; r->samples && r->accepted_sent && i < r->n_samples; i++)
        if ((res = send_delta(co, r, i, now_us)) != SEND_OK)
            return res;
    if (r->state == REQ_ENDED && !r->terminal_sent) {
        res = r->failed != ST_OK ? send_failed(co, r, now_us) : send_finish(co, r, now_us);
        r->terminal_sent = res == SEND_OK;
    }
    return res;
}

void answer_flush(struct coordinator *co, uint64_t now_us)
{
    struct request *list = co->dirty;
    co->dirty = NULL;
    while (list) {
        struct request *r = list;
        list = r->next_dirty;
        r->dirty = false;
        if (send_request(co, r, now_us) == SEND_BLOCKED)
            answer_mark(co, r); /* again when the client reads */
        else if (r->terminal_sent && r->failed != ST_OK && (!r->admitted || r->retryable))
            request_remove(co->requests, r); /* no answer to attach to: it may be sent again */
    }
}
