/* Replies: coordinator -> client. */
#include <assert.h>
#include <string.h>

#include "common/wire/client_pb.h"

/* ---- encode ---- */

static enum status put_models(Ingot__ModelInfo ***list, size_t *n_list,
                              const struct msg_model *models, uint32_t n, struct wire_mem *mem)
{
    Ingot__ModelInfo *m;
    MEM_ARRAY(m, n, mem);
    MEM_ARRAY(*list, n, mem);
    *n_list = n;
    for (uint32_t i = 0; i < n; i++) {
        ingot__model_info__init(&m[i]);
        m[i].name = string_of(models[i].name);
        if (models[i].has_weights)
            SET(m[i], weights_digest, pb_digest(models[i].weights));
        if (models[i].has_text)
            SET(m[i], text_digest, pb_digest(models[i].text));
        m[i].weights_from = string_of(models[i].weights_from);
        SET(m[i], vocab, models[i].vocab);
        SET(m[i], max_ctx, models[i].max_ctx);
        SET(m[i], world, models[i].world);
        SET(m[i], chat, models[i].chat);
        m[i].tool_format = string_of(models[i].tool_format);
        if (models[i].think_open.n) {
            SET(m[i], think_open, bytes_of(models[i].think_open));
            SET(m[i], think_close, bytes_of(models[i].think_close));
        }
        if (models[i].embedding)
            SET(m[i], embedding, models[i].embedding);
        if (models[i].rerank)
            SET(m[i], rerank, true);
        (*list)[i] = &m[i];
    }
    return ST_OK;
}

static enum status encode_welcome(struct wire_bytes *out, const struct msg_welcome *w,
                                  struct wire_mem *mem)
{
    Ingot__Welcome m = INGOT__WELCOME__INIT;
    Ingot__Limits limits = INGOT__LIMITS__INIT;
    SET(m, major, w->major);
    SET(m, minor, w->minor);
    SET(m, epoch, w->epoch);
    m.server = string_of(w->server);
    SET(limits, max_message_bytes, w->max_message_bytes);
    SET(limits, max_prompt_tokens, w->max_prompt_tokens);
    SET(limits, max_queued, w->max_queued);
    SET(limits, max_samples, w->max_samples);
    SET(limits, heartbeat_ms, w->heartbeat_ms);
    m.limits = &limits;
    if (w->tenant.n)
        SET(m, tenant, tenant_bytes(&w->tenant));
    SET(m, any_tenant, w->any_tenant);
    TRY(put_models(&m.models, &m.n_models, w->models, w->n_models, mem));
    return pb_pack(out, MSG_WELCOME, &m.base, mem);
}

/* The most probable tokens of n places. */
static enum status put_top(Ingot__TopLogprobs ***out, size_t *n_out, uint32_t n,
                           const uint32_t *n_top, const struct token_logprob *from,
                           const uint32_t *n_text, const char *text, struct wire_mem *mem)
{
    Ingot__TopLogprobs *tops;
    *n_out = n;
    MEM_ARRAY(*out, n, mem);
    MEM_ARRAY(tops, n, mem);
    for (uint32_t i = 0; i < n; i++) {
        Ingot__TokenLogprob *entries;
        ingot__top_logprobs__init(&tops[i]);
        (*out)[i] = &tops[i];
        tops[i].n_entry = n_top[i];
        MEM_ARRAY(tops[i].entry, n_top[i], mem);
        MEM_ARRAY(entries, n_top[i], mem);
        for (uint32_t k = 0; k < n_top[i]; k++, from++) {
            ingot__token_logprob__init(&entries[k]);
            SET(entries[k], id, from->id);
            SET(entries[k], logprob, from->logprob);
            if (n_text) {
                SET(entries[k], text, bytes_of((struct wire_text){text, *n_text}));
                text += *n_text++;
            }
            tops[i].entry[k] = &entries[k];
        }
    }
    return ST_OK;
}

/* n texts of those lengths, which are concatenated at `text`; lengths NULL: none. */
static enum status put_texts(ProtobufCBinaryData **out, size_t *n_out, const char *text,
                             const uint32_t *lengths, uint32_t n, struct wire_mem *mem)
{
    if (!lengths)
        return ST_OK;
    *n_out = n;
    MEM_ARRAY(*out, n, mem);
    for (uint32_t i = 0; i < n; text += lengths[i++])
        (*out)[i] = bytes_of((struct wire_text){text, lengths[i]});
    return ST_OK;
}

static enum status put_prompt_scores(Ingot__Delta *m, const struct msg_prompt_scores *p,
                                     struct wire_mem *mem)
{
    if (p->n == 0)
        return ST_OK;
    m->n_prompt_logprob = m->n_prompt_rank = p->n;
    m->prompt_logprob = (float *)(uintptr_t)p->logprobs;
    m->prompt_rank = (uint32_t *)(uintptr_t)p->ranks;
    if (p->n_top)
        TRY(put_top(&m->prompt_top, &m->n_prompt_top, p->n, p->n_top, p->top, p->n_top_text,
                    p->top_text, mem));
    return put_texts(&m->prompt_token_text, &m->n_prompt_token_text, p->token_text, p->n_token_text,
                     p->n, mem);
}

static enum status encode_delta(struct wire_bytes *out, const struct msg_delta *d,
                                struct wire_mem *mem)
{
    Ingot__Delta m = INGOT__DELTA__INIT;
    m.request_id = string_of(d->request_id);
    SET(m, sample, d->sample);
    SET(m, seq, d->seq);
    m.n_id = d->n;
    m.id = (int32_t *)(uintptr_t)d->ids;
    if (d->text.n)
        SET(m, text, bytes_of(d->text));
    if (d->logprobs) {
        m.n_logprob = d->n;
        m.logprob = (float *)(uintptr_t)d->logprobs;
    }
    if (d->n_top)
        TRY(put_top(&m.top, &m.n_top, d->n, d->n_top, d->top, d->n_top_text, d->top_text, mem));
    TRY(put_texts(&m.token_text, &m.n_token_text, d->token_text, d->n_token_text, d->n, mem));
    TRY(put_prompt_scores(&m, &d->prompt, mem));
    return pb_pack(out, MSG_DELTA, &m.base, mem);
}

static enum status encode_finish(struct wire_bytes *out, const struct msg_finish *f,
                                 struct wire_mem *mem)
{
    Ingot__Finish m = INGOT__FINISH__INIT;
    Ingot__SampleEnd *ends;
    m.request_id = string_of(f->request_id);
    MEM_ARRAY(ends, f->n_samples, mem);
    MEM_ARRAY(m.sample, f->n_samples, mem);
    m.n_sample = f->n_samples;
    for (uint32_t i = 0; i < f->n_samples; i++) {
        const struct msg_sample_end *s = &f->samples[i];
        ingot__sample_end__init(&ends[i]);
        SET(ends[i], sample, s->sample);
        SET(ends[i], reason, (Ingot__Reason)s->reason);
        if (s->matched_stop.n)
            SET(ends[i], matched_stop, bytes_of(s->matched_stop));
        if (s->stop_id >= 0)
            SET(ends[i], stop_id, s->stop_id);
        SET(ends[i], completion_tokens, s->completion_tokens);
        m.sample[i] = &ends[i];
    }
    SET(m, prompt_tokens, f->prompt_tokens);
    SET(m, cached_tokens, f->cached_tokens);
    SET(m, completion_tokens, f->completion_tokens);
    SET(m, queue_us, f->queue_us);
    SET(m, first_token_us, f->first_token_us);
    SET(m, total_us, f->total_us);
    SET(m, preemptions, f->preemptions);
    SET(m, recoveries, f->recoveries);
    m.n_embedding = f->n_embedding;
    m.embedding = (float *)(uintptr_t)f->embedding;
    return pb_pack(out, MSG_FINISH, &m.base, mem);
}

static enum status encode_error(struct wire_bytes *out, enum msg_type type,
                                const struct msg_error *e, struct wire_mem *mem)
{
    if (type == MSG_ERROR) {
        Ingot__Error m = INGOT__ERROR__INIT;
        m.request_id = string_of(e->request_id);
        SET(m, code, (Ingot__Code)e->code);
        m.detail = string_of(e->detail);
        m.field = string_of(e->field);
        SET(m, retryable, e->retryable);
        if (e->request)
            SET(m, request, (Ingot__Type)e->request);
        return pb_pack(out, (uint16_t)type, &m.base, mem);
    }
    Ingot__Rejected m = INGOT__REJECTED__INIT;
    m.request_id = string_of(e->request_id);
    SET(m, code, (Ingot__Code)e->code);
    m.detail = string_of(e->detail);
    m.field = string_of(e->field);
    SET(m, retryable, e->retryable);
    if (e->retry_after_ms)
        SET(m, retry_after_ms, e->retry_after_ms);
    if (e->draining)
        SET(m, draining, true);
    return pb_pack(out, (uint16_t)type, &m.base, mem);
}

static enum status encode_accepted(struct wire_bytes *out, const struct msg_accepted *a,
                                   struct wire_mem *mem)
{
    Ingot__Accepted m;
    TRY(accepted_encode(&m, a, mem));
    return pb_pack(out, MSG_ACCEPTED, &m.base, mem);
}

static enum status encode_pong(struct wire_bytes *out, const struct msg_pong *p,
                               struct wire_mem *mem)
{
    Ingot__Pong m = INGOT__PONG__INIT;
    m.request_id = string_of(p->request_id);
    SET(m, steps, p->steps);
    SET(m, last_step_age_us, p->last_step_age_us);
    SET(m, running, p->running);
    SET(m, waiting, p->waiting);
    SET(m, epoch, p->epoch);
    SET(m, ready, p->ready);
    SET(m, draining, p->draining);
    return pb_pack(out, MSG_PONG, &m.base, mem);
}

enum status client_msg_encode_reply(struct wire_bytes *out, const struct client_msg *msg,
                                    struct wire_mem *mem)
{
    switch (msg->type) {
    case MSG_WELCOME:
        return encode_welcome(out, &msg->u.welcome, mem);
    case MSG_ACCEPTED:
        return encode_accepted(out, &msg->u.accepted, mem);
    case MSG_DELTA:
        return encode_delta(out, &msg->u.delta, mem);
    case MSG_FINISH:
        return encode_finish(out, &msg->u.finish, mem);
    case MSG_ERROR:
    case MSG_REJECTED:
        return encode_error(out, msg->type, &msg->u.error, mem);
    case MSG_STATS_REPLY:
        return stats_encode(out, &msg->u.stats, mem);
    case MSG_PONG:
        return encode_pong(out, &msg->u.pong, mem);
    case MSG_TOKENS: {
        Ingot__Tokens m = INGOT__TOKENS__INIT;
        m.request_id = string_of(msg->u.tokens.request_id);
        m.n_id = msg->u.tokens.n_tokens;
        m.id = (int32_t *)(uintptr_t)msg->u.tokens.tokens;
        TRY(put_texts(&m.token_text, &m.n_token_text, msg->u.tokens.token_text,
                      msg->u.tokens.n_token_text, msg->u.tokens.n_tokens, mem));
        TRY(put_texts(&m.spelling, &m.n_spelling, msg->u.tokens.spelling, msg->u.tokens.n_spelling,
                      msg->u.tokens.n_tokens, mem));
        return pb_pack(out, MSG_TOKENS, &m.base, mem);
    }
    case MSG_TEXT: {
        Ingot__Text m = INGOT__TEXT__INIT;
        m.request_id = string_of(msg->u.text.request_id);
        SET(m, text, bytes_of(msg->u.text.text));
        return pb_pack(out, MSG_TEXT, &m.base, mem);
    }
    case MSG_MODEL_LIST: {
        Ingot__ModelList m = INGOT__MODEL_LIST__INIT;
        m.request_id = string_of(msg->u.model_list.request_id);
        TRY(put_models(&m.model, &m.n_model, msg->u.model_list.models, msg->u.model_list.n_models,
                       mem));
        return pb_pack(out, MSG_MODEL_LIST, &m.base, mem);
    }
    case MSG_DRAINING: {
        Ingot__Draining m = INGOT__DRAINING__INIT;
        m.request_id = string_of(msg->u.simple.request_id);
        SET(m, running, msg->u.simple.value);
        return pb_pack(out, MSG_DRAINING, &m.base, mem);
    }
    case MSG_CANCEL_REPLY: {
        Ingot__CancelReply m = INGOT__CANCEL_REPLY__INIT;
        m.request_id = string_of(msg->u.cancel_reply.request_id);
        SET(m, result, (Ingot__CancelResult)msg->u.cancel_reply.result);
        return pb_pack(out, MSG_CANCEL_REPLY, &m.base, mem);
    }
    default:
        FAIL(ST_BUG, "message type %d is not a reply", (int)msg->type);
    }
}

/* ---- decode ---- */

static enum status get_models(const struct msg_model **out, uint32_t *n_out,
                              Ingot__ModelInfo *const *list, size_t n, struct wire_mem *mem)
{
    struct msg_model *models;
    MEM_ARRAY(models, n, mem);
    for (size_t i = 0; i < n; i++) {
        struct msg_model *to = &models[i];
        *to = (struct msg_model){
            .name = pb_string(list[i]->name),
            .weights_from = pb_string(list[i]->weights_from),
            .vocab = list[i]->vocab,
            .max_ctx = list[i]->max_ctx,
            .world = list[i]->world,
            .chat = list[i]->chat,
            .tool_format = pb_string(list[i]->tool_format),
            .think_open = text_of(list[i]->has_think_open, list[i]->think_open),
            .think_close = text_of(list[i]->has_think_close, list[i]->think_close),
            .embedding = list[i]->embedding,
            .rerank = list[i]->rerank};
        TRY(pb_get_digest(to->weights, &to->has_weights, list[i]->has_weights_digest,
                          list[i]->weights_digest, "weights_digest"));
        TRY(pb_get_digest(to->text, &to->has_text, list[i]->has_text_digest, list[i]->text_digest,
                          "text_digest"));
    }
    *out = models;
    *n_out = (uint32_t)n;
    return ST_OK;
}

static enum status decode_welcome(struct msg_welcome *w, const Ingot__Welcome *m,
                                  struct wire_mem *mem)
{
    w->major = m->major;
    w->minor = m->minor;
    w->epoch = m->epoch;
    w->server = pb_string(m->server);
    if (m->limits) {
        w->max_message_bytes = m->limits->max_message_bytes;
        w->max_prompt_tokens = m->limits->max_prompt_tokens;
        w->max_queued = m->limits->max_queued;
        w->max_samples = m->limits->max_samples;
        w->heartbeat_ms = m->limits->heartbeat_ms;
    }
    if (m->has_tenant)
        TRY(tenant_of_bytes(&w->tenant, m->tenant.data, m->tenant.len));
    w->any_tenant = m->any_tenant;
    return get_models(&w->models, &w->n_models, m->models, m->n_models, mem);
}

/* The texts of n items one after the other, with their lengths. */
static enum status get_texts(const char **out, const uint32_t **n_out,
                             const ProtobufCBinaryData *texts, size_t n, struct wire_mem *mem)
{
    size_t total = 0;
    uint32_t *lengths;
    char *bytes;
    for (size_t i = 0; i < n; i++)
        total += texts[i].len;
    MEM_ARRAY(lengths, n, mem);
    MEM_ARRAY(bytes, total, mem);
    *out = bytes;
    *n_out = lengths;
    for (size_t i = 0; i < n; bytes += texts[i++].len) {
        lengths[i] = (uint32_t)texts[i].len;
        if (texts[i].len)
            memcpy(bytes, texts[i].data, texts[i].len);
    }
    return ST_OK;
}

static enum status decode_tokens(struct msg_tokens *t, const Ingot__Tokens *m, struct wire_mem *mem)
{
    size_t n = m->n_id;
    t->n_tokens = (uint32_t)n;
    t->tokens = m->id;
    if ((m->n_token_text && m->n_token_text != n) || (m->n_spelling && m->n_spelling != n))
        FAIL(ST_FORMAT, "Tokens with %zu ids, %zu texts and %zu spellings", n, m->n_token_text,
             m->n_spelling);
    if (m->n_token_text)
        TRY(get_texts(&t->token_text, &t->n_token_text, m->token_text, n, mem));
    return m->n_spelling ? get_texts(&t->spelling, &t->n_spelling, m->spelling, n, mem) : ST_OK;
}

struct tops { /* of n places, as in struct msg_delta */
    const uint32_t *n_top, *n_text;
    const struct token_logprob *top;
    const char *text;
};

static enum status get_top(struct tops *out, Ingot__TopLogprobs *const *list, size_t n,
                           struct wire_mem *mem)
{
    size_t total = 0, n_texts = 0, at = 0;
    uint32_t *counts;
    struct token_logprob *top;
    ProtobufCBinaryData *texts;
    *out = (struct tops){0};
    if (n == 0)
        return ST_OK;
    for (size_t i = 0; i < n; i++)
        total += list[i]->n_entry;
    MEM_ARRAY(counts, n, mem);
    MEM_ARRAY(top, total, mem);
    MEM_ARRAY(texts, total, mem);
    out->n_top = counts;
    out->top = top;
    for (size_t i = 0; i < n; i++) {
        counts[i] = (uint32_t)list[i]->n_entry;
        for (size_t k = 0; k < list[i]->n_entry; k++, at++) {
            const Ingot__TokenLogprob *e = list[i]->entry[k];
            top[at] = (struct token_logprob){e->id, e->logprob};
            texts[at] = e->text;
            n_texts += e->has_text ? 1 : 0;
        }
    }
    if (n_texts && n_texts != total)
        FAIL(ST_FORMAT, "Delta with %zu texts for %zu log probabilities", n_texts, total);
    return n_texts ? get_texts(&out->text, &out->n_text, texts, total, mem) : ST_OK;
}

static enum status decode_prompt_scores(struct msg_prompt_scores *p, const Ingot__Delta *m,
                                        struct wire_mem *mem)
{
    size_t n = m->n_prompt_logprob;
    struct tops tops;
    p->n = (uint32_t)n;
    if (m->n_prompt_rank != n || (m->n_prompt_top && m->n_prompt_top != n) ||
        (m->n_prompt_token_text && m->n_prompt_token_text != n))
        FAIL(ST_FORMAT,
             "Delta with %zu log probabilities of the prompt, %zu ranks, %zu lists, %zu texts", n,
             m->n_prompt_rank, m->n_prompt_top, m->n_prompt_token_text);
    if (n == 0)
        return ST_OK;
    p->logprobs = m->prompt_logprob;
    p->ranks = m->prompt_rank;
    if (m->n_prompt_token_text)
        TRY(get_texts(&p->token_text, &p->n_token_text, m->prompt_token_text, n, mem));
    TRY(get_top(&tops, m->prompt_top, m->n_prompt_top, mem));
    p->n_top = tops.n_top;
    p->top = tops.top;
    p->n_top_text = tops.n_text;
    p->top_text = tops.text;
    return ST_OK;
}

static enum status decode_delta(struct msg_delta *d, const Ingot__Delta *m, struct wire_mem *mem)
{
    size_t n = m->n_id;
    struct tops tops;
    d->sample = m->sample;
    d->seq = m->seq;
    d->n = (uint32_t)n;
    d->ids = m->id;
    d->text = text_of(m->has_text, m->text);
    if ((m->n_logprob && m->n_logprob != n) || (m->n_top && m->n_top != n) ||
        (m->n_token_text && m->n_token_text != n))
        FAIL(ST_FORMAT, "Delta with %zu tokens and %zu logprobs, %zu lists of them, %zu texts", n,
             m->n_logprob, m->n_top, m->n_token_text);
    if (m->n_logprob)
        d->logprobs = m->logprob;
    if (m->n_token_text)
        TRY(get_texts(&d->token_text, &d->n_token_text, m->token_text, n, mem));
    TRY(get_top(&tops, m->top, m->n_top, mem));
    d->n_top = tops.n_top;
    d->top = tops.top;
    d->n_top_text = tops.n_text;
    d->top_text = tops.text;
    return decode_prompt_scores(&d->prompt, m, mem);
}

static enum status decode_finish(struct msg_finish *f, const Ingot__Finish *m, struct wire_mem *mem)
{
    struct msg_sample_end *ends;
    MEM_ARRAY(ends, m->n_sample, mem);
    for (size_t i = 0; i < m->n_sample; i++) {
        const Ingot__SampleEnd *s = m->sample[i];
        ends[i] =
            (struct msg_sample_end){.sample = s->sample,
                                    .reason = (enum msg_reason)s->reason,
                                    .matched_stop = text_of(s->has_matched_stop, s->matched_stop),
                                    .stop_id = s->has_stop_id ? s->stop_id : -1,
                                    .completion_tokens = s->completion_tokens};
    }
    f->n_samples = (uint32_t)m->n_sample;
    f->samples = ends;
    f->prompt_tokens = m->prompt_tokens;
    f->cached_tokens = m->cached_tokens;
    f->completion_tokens = m->completion_tokens;
    f->queue_us = m->queue_us;
    f->first_token_us = m->first_token_us;
    f->total_us = m->total_us;
    f->preemptions = m->preemptions;
    f->recoveries = m->recoveries;
    f->n_embedding = (uint32_t)m->n_embedding;
    f->embedding = m->embedding;
    return ST_OK;
}

static enum status decode_code(enum status *out, uint32_t code)
{
    if (code >= ST_N)
        FAIL(ST_FORMAT, "error code %u", code);
    *out = (enum status)code;
    return ST_OK;
}

static const ProtobufCMessageDescriptor *reply_descriptor(uint16_t type)
{
    static const ProtobufCMessageDescriptor *const all[] = {
        [MSG_WELCOME - MSG_WELCOME] = &ingot__welcome__descriptor,
        [MSG_ACCEPTED - MSG_WELCOME] = &ingot__accepted__descriptor,
        [MSG_DELTA - MSG_WELCOME] = &ingot__delta__descriptor,
        [MSG_FINISH - MSG_WELCOME] = &ingot__finish__descriptor,
        [MSG_ERROR - MSG_WELCOME] = &ingot__error__descriptor,
        [MSG_REJECTED - MSG_WELCOME] = &ingot__rejected__descriptor,
        [MSG_TOKENS - MSG_WELCOME] = &ingot__tokens__descriptor,
        [MSG_TEXT - MSG_WELCOME] = &ingot__text__descriptor,
        [MSG_MODEL_LIST - MSG_WELCOME] = &ingot__model_list__descriptor,
        [MSG_STATS_REPLY - MSG_WELCOME] = &ingot__stats_reply__descriptor,
        [MSG_PONG - MSG_WELCOME] = &ingot__pong__descriptor,
        [MSG_DRAINING - MSG_WELCOME] = &ingot__draining__descriptor,
        [MSG_CANCEL_REPLY - MSG_WELCOME] = &ingot__cancel_reply__descriptor,
    };
    return type >= MSG_WELCOME && type - MSG_WELCOME < (int)ARRAY_LEN(all) ? all[type - MSG_WELCOME]
                                                                           : NULL;
}

enum status client_msg_decode_reply(struct client_msg *out, const void *data, size_t n,
                                    struct wire_mem *mem)
{
    struct frame f;
    ProtobufCMessage *m;
    const char *field;
    TRY(frame_parse(&f, data, n));
    const ProtobufCMessageDescriptor *d = reply_descriptor(f.type);
    if (!d)
        FAIL(ST_UNSUPPORTED, "message type %u is not a reply", f.type);
    TRY(pb_unpack(&m, d, f.body, f.n_body, mem, &field));
    memset(out, 0, sizeof *out);
    out->type = (enum msg_type)f.type;
    if (out->type == MSG_WELCOME)
        return decode_welcome(&out->u.welcome, (const void *)m, mem);
    /* every other reply has its request_id at the same place, first in its struct */
    const char *id = pb_string(((const Ingot__Pong *)m)->request_id);
    out->u.simple.request_id = id;
    switch (out->type) {
    case MSG_ACCEPTED:
        return accepted_decode(&out->u.accepted, (const void *)m, mem, &field);
    case MSG_DELTA:
        return decode_delta(&out->u.delta, (const void *)m, mem);
    case MSG_FINISH:
        return decode_finish(&out->u.finish, (const void *)m, mem);
    case MSG_ERROR: {
        const Ingot__Error *e = (const void *)m;
        out->u.error.detail = pb_string(e->detail);
        out->u.error.field = pb_string(e->field);
        out->u.error.retryable = e->retryable;
        out->u.error.request = (enum msg_type)e->request;
        return decode_code(&out->u.error.code, (uint32_t)e->code);
    }
    case MSG_REJECTED: {
        const Ingot__Rejected *e = (const void *)m;
        out->u.error.detail = pb_string(e->detail);
        out->u.error.field = pb_string(e->field);
        out->u.error.retryable = e->retryable;
        out->u.error.retry_after_ms = e->retry_after_ms;
        out->u.error.draining = e->draining;
        return decode_code(&out->u.error.code, (uint32_t)e->code);
    }
    case MSG_TOKENS:
        return decode_tokens(&out->u.tokens, (const void *)m, mem);
    case MSG_TEXT:
        out->u.text.text =
            text_of(((const Ingot__Text *)m)->has_text, ((const Ingot__Text *)m)->text);
        return ST_OK;
    case MSG_MODEL_LIST:
        return get_models(&out->u.model_list.models, &out->u.model_list.n_models,
                          ((const Ingot__ModelList *)m)->model,
                          ((const Ingot__ModelList *)m)->n_model, mem);
    case MSG_STATS_REPLY: {
        TRY(stats_decode(&out->u.stats, (const void *)m, mem));
        out->u.stats.request_id = id;
        return ST_OK;
    }
    case MSG_PONG: {
        const Ingot__Pong *p = (const void *)m;
        out->u.pong = (struct msg_pong){.request_id = id,
                                        .steps = p->steps,
                                        .last_step_age_us = p->last_step_age_us,
                                        .epoch = p->epoch,
                                        .running = p->running,
                                        .waiting = p->waiting,
                                        .ready = p->ready,
                                        .draining = p->draining};
        return ST_OK;
    }
    case MSG_DRAINING:
        out->u.simple.value = ((const Ingot__Draining *)m)->running;
        return ST_OK;
    case MSG_CANCEL_REPLY:
        out->u.cancel_reply.result = (enum cancel_result)((const Ingot__CancelReply *)m)->result;
        return ST_OK;
    default:
        FAIL(ST_BUG, "message type %d has a descriptor and no decoder", (int)out->type);
    }
}
