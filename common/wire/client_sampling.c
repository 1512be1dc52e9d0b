/* Sampling parameters, in requests and replies. */
#include <stdio.h>

#include "common/wire/client_pb.h"

enum status sampling_encode(Ingot__Sampling *m, const struct msg_sampling *s, struct wire_mem *mem)
{
    const struct sample_params *sp = &s->sp;
    Ingot__LogitBias *bias;
    ingot__sampling__init(m);
    if (!(s->unset & UNSET_TEMPERATURE))
        SET(*m, temperature, sp->temperature);
    if (!(s->unset & UNSET_TOP_P))
        SET(*m, top_p, sp->top_p);
    if (!(s->unset & UNSET_MIN_P))
        SET(*m, min_p, sp->min_p);
    if (!(s->unset & UNSET_TOP_K))
        SET(*m, top_k, sp->top_k);
    if (!(s->unset & UNSET_REPETITION_PENALTY))
        SET(*m, repetition_penalty, sp->repetition_penalty);
    SET(*m, presence_penalty, sp->presence_penalty);
    SET(*m, frequency_penalty, sp->frequency_penalty);
    SET(*m, min_tokens, sp->min_new);
    if (s->has_seed)
        SET(*m, seed, sp->seed);
    SET(*m, logprobs, sp->logprobs);
    SET(*m, top_logprobs, sp->top_logprobs);
    if (sp->prompt_logprobs)
        SET(*m, prompt_logprobs, true);
    if (sp->prompt_top)
        SET(*m, prompt_top, sp->prompt_top);
    SET(*m, ignore_eos, s->ignore_eos);
    m->n_stop_token_id = s->n_stop_ids;
    m->stop_token_id = (int32_t *)(uintptr_t)s->stop_ids;
    MEM_ARRAY(bias, s->n_bias, mem);
    MEM_ARRAY(m->logit_bias, s->n_bias, mem);
    m->n_logit_bias = s->n_bias;
    for (uint32_t i = 0; i < s->n_bias; i++) {
        ingot__logit_bias__init(&bias[i]);
        m->logit_bias[i] = &bias[i];
        SET(bias[i], id, s->bias[i].id);
        SET(bias[i], bias, s->bias[i].bias);
    }
    return ST_OK;
}

static const char *path_of(const char *name, struct wire_mem *mem)
{
    enum { CAP = 64 };
    char *path = wire_mem_alloc(mem, CAP);
    if (!path)
        return "sampling";
    snprintf(path, CAP, "sampling.%s", name);
    return path;
}

enum status sampling_decode(struct msg_sampling *s, const Ingot__Sampling *m, struct wire_mem *mem,
                            const char **field)
{
    struct sample_params *sp = &s->sp;
    const char *name;
    sp->temperature = m->temperature;
    sp->top_p = m->top_p;
    sp->min_p = m->min_p;
    sp->top_k = m->top_k;
    sp->repetition_penalty = m->repetition_penalty;
    sp->presence_penalty = m->presence_penalty;
    sp->frequency_penalty = m->frequency_penalty;
    sp->min_new = m->min_tokens;
    sp->seed = m->seed;
    sp->logprobs = m->logprobs || m->top_logprobs;
    sp->top_logprobs = m->top_logprobs;
    sp->prompt_logprobs = m->prompt_logprobs || m->prompt_top;
    sp->prompt_top = m->prompt_top;
    s->unset = (m->has_temperature ? 0 : UNSET_TEMPERATURE) | (m->has_top_p ? 0 : UNSET_TOP_P) |
               (m->has_min_p ? 0 : UNSET_MIN_P) | (m->has_top_k ? 0 : UNSET_TOP_K) |
               (m->has_repetition_penalty ? 0 : UNSET_REPETITION_PENALTY);
    s->has_seed = m->has_seed;
    s->ignore_eos = m->ignore_eos;
    if (m->n_stop_token_id > MAX_STOP_IDS)
        FAIL_FIELD("sampling.stop_token_id", ST_RANGE, "%zu stop token ids: at most %d are taken",
                   m->n_stop_token_id, MAX_STOP_IDS);
    if (m->n_logit_bias > MAX_LOGIT_BIAS)
        FAIL_FIELD("sampling.logit_bias", ST_RANGE, "%zu logit biases: at most %d are taken",
                   m->n_logit_bias, MAX_LOGIT_BIAS);
    s->n_stop_ids = (uint32_t)m->n_stop_token_id;
    s->stop_ids = m->stop_token_id;
    struct logit_bias *bias;
    MEM_ARRAY(bias, m->n_logit_bias, mem);
    for (size_t i = 0; i < m->n_logit_bias; i++) {
        bias[i] = (struct logit_bias){m->logit_bias[i]->id, m->logit_bias[i]->bias};
        if (!m->logit_bias[i]->has_id)
            FAIL_FIELD("sampling.logit_bias.id", ST_RANGE, "logit_bias[%zu] has no id", i);
        if (!(bias[i].bias >= -100.0f && bias[i].bias <= 100.0f))
            FAIL_FIELD("sampling.logit_bias.bias", ST_RANGE,
                       "logit_bias of token %d is %g: it must be between -100 and 100", bias[i].id,
                       (double)bias[i].bias);
    }
    s->n_bias = (uint32_t)m->n_logit_bias;
    s->bias = bias;
    enum status st = sample_params_check(sp, &name);
    if (st != ST_OK)
        *field = path_of(name, mem);
    return st;
}
