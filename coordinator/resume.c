#include "coordinator/resume.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/model_identity.h"
#include "coordinator/served.h"

/* FAIL that also names the field */
#define FAIL_FIELD(name, ...)                                                                      \
    do {                                                                                           \
        *field = (name);                                                                           \
        FAIL(ST_RANGE, __VA_ARGS__);                                                               \
    } while (0)

void resume_fill(struct msg_generate *g)
{
    const struct msg_accepted *a = g->resume->accepted;
    if (!g->sampling.has_seed)
        g->sampling.sp.seed = a->sampling.sp.seed;
    g->sampling.has_seed = true;
    if (g->kind != PROMPT_CHAT || !a->has_clock)
        return;
    if (!g->chat.has_clock)
        g->chat.clock_s = a->clock_s;
    if (!g->chat.has_zone)
        g->chat.zone_s = a->zone_s;
    g->chat.has_clock = g->chat.has_zone = true;
}

/* ---- the resolved request ---- */

#define SAME(a, b, name)                                                                           \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            FAIL_FIELD("resume.accepted." name,                                                    \
                       "this server carries the request out with another %s", (name));             \
    } while (0)

static enum status compare_sampling(const struct resolved *q, const struct msg_sampling *s,
                                    const char **field)
{
    const struct sample_params *a = &q->sp, *b = &s->sp;
    SAME(a->seed, b->seed, "sampling.seed");
    SAME(a->temperature, b->temperature, "sampling.temperature");
    SAME(a->top_p, b->top_p, "sampling.top_p");
    SAME(a->min_p, b->min_p, "sampling.min_p");
    SAME(a->top_k, b->top_k, "sampling.top_k");
    SAME(a->repetition_penalty, b->repetition_penalty, "sampling.repetition_penalty");
    SAME(a->presence_penalty, b->presence_penalty, "sampling.presence_penalty");
    SAME(a->frequency_penalty, b->frequency_penalty, "sampling.frequency_penalty");
    SAME(a->min_new, b->min_new, "sampling.min_tokens");
    SAME(a->logprobs, b->logprobs, "sampling.logprobs");
    SAME(a->top_logprobs, b->top_logprobs, "sampling.top_logprobs");
    SAME(a->prompt_logprobs, b->prompt_logprobs, "sampling.prompt_logprobs");
    SAME(a->prompt_top, b->prompt_top, "sampling.prompt_top");
    SAME(q->ignore_eos, s->ignore_eos, "sampling.ignore_eos");
    SAME(q->n_bias, s->n_bias, "sampling.logit_bias");
    for (uint32_t i = 0; i < q->n_bias; i++) {
        SAME(q->bias[i].id, s->bias[i].id, "sampling.logit_bias");
        SAME(q->bias[i].bias, s->bias[i].bias, "sampling.logit_bias");
    }
    return ST_OK;
}

static enum status compare(const struct resolved *q, const struct msg_accepted *a,
                           const char **field)
{
    SAME(memcmp(q->digest, a->prompt_digest, sizeof q->digest), 0, "prompt_digest");
    SAME(q->max_new, a->max_tokens, "max_tokens");
    SAME(q->n_stop_ids, a->n_stop_ids, "stop_token_id");
    for (uint32_t i = 0; i < q->n_stop_ids; i++)
        SAME(q->stop_ids[i], a->stop_ids[i], "stop_token_id");
    return compare_sampling(q, &a->sampling, field);
}

static enum status check_ids(const struct msg_resume *m, uint32_t max_new, uint32_t vocab,
                             size_t *n_ids, const char **field)
{
    *n_ids = 0;
    for (uint32_t i = 0; i < m->n_samples; i++) {
        const struct msg_resumed_sample *s = &m->samples[i];
        if (s->n > max_new)
            FAIL_FIELD("resume.sample.id", "sample %u has %u ids, max_tokens is %u", i, s->n,
                       max_new);
        for (uint32_t k = 0; k < s->n; k++)
            if (s->ids[k] < 0 || s->ids[k] >= (int32_t)vocab)
                FAIL_FIELD("resume.sample.id", "id %d of sample %u: the vocabulary ends at %u",
                           s->ids[k], i, vocab - 1);
        *n_ids += s->n;
    }
    return ST_OK;
}

/* The entries of the prompt's log probabilities: all of them come before the first id. */
static enum status check_scores(const struct resolved *q, const struct msg_resume *m,
                                const char **field)
{
    uint32_t most = q->sp.prompt_logprobs ? q->n_prompt : 0;
    for (uint32_t i = 0; i < m->n_samples; i++)
        if (m->samples[i].n_scores > (i == 0 ? most : 0))
            FAIL_FIELD("resume.sample.prompt_logprobs",
                       "sample %u has %u log probabilities of the prompt, at most %u are possible",
                       i, m->samples[i].n_scores, i == 0 ? most : 0);
    if (m->samples[0].n > 0 && m->samples[0].n_scores < most)
        FAIL_FIELD("resume.sample.prompt_logprobs",
                   "sample 0 has ids, but only %u of %u log probabilities of the prompt",
                   m->samples[0].n_scores, most);
    return ST_OK;
}

enum status resume_take(struct resolved *q, const struct msg_generate *g, uint32_t vocab,
                        const char **field)
{
    const struct msg_resume *m = g->resume;
    const struct msg_accepted *a = m->accepted;
    size_t n_ids;
    TRY(compare(q, a, field));
    if (strlen(a->numerics) >= NUMERICS_ID_SIZE)
        FAIL_FIELD("resume.accepted.numerics", "numerics has more than %d bytes",
                   NUMERICS_ID_SIZE - 1);
    TRY(check_ids(m, q->max_new, vocab, &n_ids, field));
    TRY(check_scores(q, m, field));
    struct resumed *u = calloc(1, sizeof *u + n_ids * sizeof *u->ids);
    if (!u)
        FAIL(ST_NOMEM, "no memory for %zu tokens", n_ids);
    q->resumed = u;
    u->has_weights = a->weights != NULL;
    u->has_text = a->text != NULL;
    if (a->weights)
        memcpy(u->weights, a->weights, sizeof u->weights);
    if (a->text)
        memcpy(u->text, a->text, sizeof u->text);
    memcpy(u->numerics, a->numerics, strlen(a->numerics));
    u->elapsed_ms = m->elapsed_ms;
    u->n_samples = m->n_samples;
    u->received = n_ids || m->samples[0].n_scores;
    q->n_scores_received = m->samples[0].n_scores;
    int32_t *ids = u->ids;
    for (uint32_t i = 0; i < m->n_samples; ids += m->samples[i++].n) {
        u->samples[i] = (struct resumed_sample){
            .ids = ids, .n = m->samples[i].n, .n_text = m->samples[i].n_text};
        if (m->samples[i].n)
            memcpy(ids, m->samples[i].ids, m->samples[i].n * sizeof *ids);
    }
    return ST_OK;
}

/* ---- from the journal ---- */

/* Tokens that the client is to be told more of than their ids need what the journal may not have. */
static bool can_continue(const struct recovered_request *r, const struct sample_params *sp)
{
    bool all = true;
    for (uint32_t i = 0; i < r->a.n_samples; i++)
        all = all && (r->samples[i].n == 0 || r->samples[i].has_logprobs);
    return !sp->top_logprobs && !sp->prompt_logprobs && (!sp->logprobs || all);
}

enum status resume_from_journal(struct msg_resume *out, struct msg_resumed_sample *samples,
                                const struct recovered_request *r, const struct msg_generate *g,
                                struct wire_mem *mem)
{
    struct client_msg *m = wire_mem_alloc(mem, sizeof *m);
    if (!m)
        FAIL(ST_NOMEM, "no memory for a request of the journal");
    TRY(client_msg_decode_reply(m, r->a.accepted, r->a.n_accepted, mem));
    if (m->type != MSG_ACCEPTED || !m->u.accepted.prompt_digest || r->a.n_samples != g->n)
        FAIL(ST_FORMAT, "the journal's Accepted is none of this request");
    out->accepted = &m->u.accepted;
    out->n_samples = r->a.n_samples;
    bool go_on = can_continue(r, &m->u.accepted.sampling.sp);
    for (uint32_t i = 0; i < r->a.n_samples; i++)
        samples[i] =
            (struct msg_resumed_sample){.n = go_on ? r->samples[i].n : 0, .ids = r->samples[i].ids};
    return ST_OK;
}

void resume_add_facts(struct resumed *u, const struct recovered_request *r)
{
    u->begun = !r->a.key;
    for (uint32_t i = 0; i < u->n_samples; i++) {
        u->begun = u->begun || r->samples[i].n;
        u->samples[i].logprobs = r->samples[i].logprobs;
    }
}

/* ---- what computes ---- */

enum status resume_check(const struct resumed *u, const struct model_identity *id,
                         const struct served *served, const char **field)
{
    /* Accepted where no group was, and nothing drawn yet: it begins here. */
    bool begun = u->received || u->begun;
    if (!u->has_weights && begun)
        FAIL_FIELD("resume.accepted.weights_digest",
                   "the answer began before its server knew the weights digest: none can "
                   "continue it with the same bits for certain");
    if (strstr(u->numerics, NUMERICS_ID_FAST))
        FAIL_FIELD("resume.accepted.numerics",
                   "the answer began with fast numerics: none can continue it with the same bits");
    if (u->has_text != id->has_text || memcmp(u->text, id->text, sizeof u->text) != 0)
        FAIL_FIELD("resume.accepted.text_digest", "this server has another tokenizer or template");
    if (!*served->numerics || !served->has_weights)
        FAIL(ST_BUSY, "the weights digest of this server is not known yet");
    if (u->has_weights && memcmp(u->weights, served->weights, sizeof u->weights) != 0)
        FAIL_FIELD("resume.accepted.weights_digest", "this server has other weights");
    if ((begun || *u->numerics) && strcmp(u->numerics, served->numerics) != 0)
        FAIL_FIELD("resume.accepted.numerics",
                   "the answer began with numerics %s, here they are %s", u->numerics,
                   served->numerics);
    return ST_OK;
}

/* ---- the samples ---- */

static bool stops(const struct resolved *q, int32_t id)
{
    for (uint32_t i = 0; i < q->n_stop_ids; i++)
        if (q->stop_ids[i] == id)
            return true;
    return false;
}

/* As when a step brings the token. */
static enum status push(struct request *r, struct sample *s, int32_t id, float logprob)
{
    const struct resolved *q = r->ask;
    struct result_token t = {.seq_id = s->seq_id, .token = id, .logprob = logprob};
    bool ended;
    s->tokens[s->n] = id;
    TRY(sample_token(r, s, &t, &ended));
    if (ended)
        return sample_end(r, s, REASON_STOP);
    if (stops(q, id)) {
        s->stop_id = id;
        return sample_end(r, s, resolved_is_end_id(q, id) ? REASON_EOS : REASON_STOP);
    }
    return s->n == q->n_prompt + q->max_new ? sample_end(r, s, REASON_LENGTH) : ST_OK;
}

static enum status resume_sample(struct request *r, uint32_t i, const char **field)
{
    const struct resumed_sample *u = &r->ask->resumed->samples[i];
    struct sample *s = &r->samples[i];
    for (uint32_t k = 0; k < u->n; k++) {
        if (s->done)
            FAIL_FIELD("resume.sample.id", "sample %u ends with its id %u, but %u came", i, k,
                       u->n);
        TRY(push(r, s, u->ids[k], u->logprobs ? u->logprobs[k] : 0.0f));
    }
    if (u->n_text > s->text.len)
        FAIL_FIELD("resume.sample.text_bytes",
                   "the ids of sample %u make %zu bytes of text, not %llu", i, s->text.len,
                   (unsigned long long)u->n_text);
    s->n_resumed = u->logprobs ? 0 : u->n;
    sample_seek(s, u->n, u->n_text);
    return ST_OK;
}

enum status resume_samples(struct request *r, const char **field)
{
    for (uint32_t i = 0; i < r->n_samples; i++)
        TRY(resume_sample(r, i, field));
    return ST_OK;
}
