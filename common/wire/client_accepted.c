/* Accepted, which is a reply and, in Generate.resume, a part of a request. */
#include "common/wire/client_pb.h"

static ProtobufCBinaryData digest_bytes(const uint8_t *digest)
{
    return (ProtobufCBinaryData){SHA256_BYTES, (uint8_t *)(uintptr_t)digest};
}

enum status accepted_encode(Ingot__Accepted *m, const struct msg_accepted *a, struct wire_mem *mem)
{
    ingot__accepted__init(m);
    m->request_id = string_of(a->request_id);
    SET(*m, prompt_tokens, a->prompt_tokens);
    SET(*m, seed, a->seed);
    SET(*m, queue_position, a->queue_position);
    SET(*m, attached, a->attached);
    if (a->prompt_digest) {
        SET(*m, prompt_digest, digest_bytes(a->prompt_digest));
        m->n_prompt_id = a->n_prompt_ids;
        m->prompt_id = (int32_t *)(uintptr_t)a->prompt_ids;
        SET(*m, max_tokens, a->max_tokens);
        m->n_stop_token_id = a->n_stop_ids;
        m->stop_token_id = (int32_t *)(uintptr_t)a->stop_ids;
        Ingot__Sampling *sampling;
        MEM_ARRAY(sampling, 1, mem);
        TRY(sampling_encode(sampling, &a->sampling, mem));
        m->sampling = sampling;
        if (a->starts_in_reasoning)
            SET(*m, starts_in_reasoning, true);
        if (a->prompt_text.data)
            SET(*m, prompt_text, bytes_of(a->prompt_text));
    }
    if (a->has_clock) {
        SET(*m, clock_s, a->clock_s);
        SET(*m, zone_s, a->zone_s);
    }
    if (a->weights)
        SET(*m, weights_digest, digest_bytes(a->weights));
    if (a->text)
        SET(*m, text_digest, digest_bytes(a->text));
    m->numerics = string_of(a->numerics);
    return ST_OK;
}

static enum status get_digest(const uint8_t **out, protobuf_c_boolean has, ProtobufCBinaryData b)
{
    *out = has ? b.data : NULL;
    if (has && b.len != SHA256_BYTES)
        FAIL(ST_FORMAT, "Accepted with a digest of %zu bytes", b.len);
    return ST_OK;
}

enum status accepted_decode(struct msg_accepted *a, const Ingot__Accepted *m, struct wire_mem *mem,
                            const char **field)
{
    a->prompt_tokens = m->prompt_tokens;
    a->queue_position = m->queue_position;
    a->seed = m->seed;
    a->attached = m->attached;
    a->numerics = pb_string(m->numerics);
    TRY(get_digest(&a->weights, m->has_weights_digest, m->weights_digest));
    TRY(get_digest(&a->text, m->has_text_digest, m->text_digest));
    if (!m->has_prompt_digest)
        return ST_OK;
    if (m->prompt_digest.len != PROMPT_DIGEST || !m->sampling)
        FAIL(ST_FORMAT, "Accepted with a prompt_digest of %zu bytes, or without sampling",
             m->prompt_digest.len);
    a->prompt_digest = m->prompt_digest.data;
    a->n_prompt_ids = (uint32_t)m->n_prompt_id;
    a->prompt_ids = m->prompt_id;
    a->has_clock = m->has_clock_s;
    a->clock_s = m->clock_s;
    a->zone_s = m->zone_s;
    a->max_tokens = m->max_tokens;
    a->n_stop_ids = (uint32_t)m->n_stop_token_id;
    a->stop_ids = m->stop_token_id;
    a->starts_in_reasoning = m->starts_in_reasoning;
    if (m->has_prompt_text)
        a->prompt_text = text_of(true, m->prompt_text);
    return sampling_decode(&a->sampling, m->sampling, mem, field);
}

/* ---- Generate.resume ---- */

enum status resume_encode(Ingot__Resume *m, const struct msg_resume *r, struct wire_mem *mem)
{
    Ingot__ResumedSample *samples;
    ingot__resume__init(m);
    MEM_ARRAY(m->accepted, 1, mem);
    TRY(accepted_encode(m->accepted, r->accepted, mem));
    MEM_ARRAY(samples, r->n_samples, mem);
    MEM_ARRAY(m->sample, r->n_samples, mem);
    m->n_sample = r->n_samples;
    for (uint32_t i = 0; i < r->n_samples; i++) {
        ingot__resumed_sample__init(&samples[i]);
        m->sample[i] = &samples[i];
        samples[i].n_id = r->samples[i].n;
        samples[i].id = (int32_t *)(uintptr_t)r->samples[i].ids;
        SET(samples[i], text_bytes, r->samples[i].n_text);
        if (r->samples[i].n_scores)
            SET(samples[i], prompt_logprobs, r->samples[i].n_scores);
    }
    SET(*m, elapsed_ms, r->elapsed_ms);
    return ST_OK;
}

enum status resume_decode(const struct msg_resume **out, const Ingot__Resume *m, uint32_t n,
                          struct wire_mem *mem, const char **field)
{
    struct msg_resume *r;
    struct msg_accepted *a;
    struct msg_resumed_sample *samples;
    MEM_ARRAY(r, 1, mem);
    MEM_ARRAY(a, 1, mem);
    MEM_ARRAY(samples, m->n_sample, mem);
    *out = r;
    if (m->n_sample != n)
        FAIL_FIELD("resume.sample", ST_RANGE, "resume has %zu samples, the request has %u",
                   m->n_sample, n);
    if (!m->accepted || !m->accepted->has_prompt_digest)
        FAIL_FIELD("resume.accepted", ST_RANGE, "resume needs an Accepted with prompt_digest");
    *a = (struct msg_accepted){.request_id = pb_string(m->accepted->request_id)};
    *field = "resume.accepted";
    TRY(accepted_decode(a, m->accepted, mem, field));
    *field = "";
    for (uint32_t i = 0; i < n; i++)
        samples[i] = (struct msg_resumed_sample){.n = (uint32_t)m->sample[i]->n_id,
                                                 .ids = m->sample[i]->id,
                                                 .n_text = m->sample[i]->text_bytes,
                                                 .n_scores = m->sample[i]->prompt_logprobs};
    *r = (struct msg_resume){
        .accepted = a, .n_samples = n, .elapsed_ms = m->elapsed_ms, .samples = samples};
    return ST_OK;
}
