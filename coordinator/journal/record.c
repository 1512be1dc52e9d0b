#include "coordinator/journal/record.h"

#include "common/hash.h"

uint64_t record_check(uint64_t number, uint32_t type, const void *data, size_t n)
{
    return hash_bytes(hash_mix(number) + type, data, n);
}

uint64_t record_chain(uint64_t before, uint32_t type, const void *data, size_t n)
{
    return hash_bytes(hash_mix(before) + type, data, n);
}

uint32_t record_head_check(uint64_t before, uint32_t type, uint32_t n)
{
    return (uint32_t)(hash_mix(hash_mix(before + type) + n) >> 32);
}

uint64_t record_seal(uint64_t *chain, uint32_t type, const void *data, size_t n)
{
    uint64_t head = record_head_check(*chain, type, (uint32_t)n);
    *chain = record_chain(*chain, type, data, n);
    return head << 32 | (uint32_t)*chain;
}

void put_text(struct byte_writer *w, const char *text, size_t max_bytes)
{
    size_t n = 0;
    while (text && n < max_bytes && text[n])
        n++;
    put_u32(w, (uint32_t)n);
    put_bytes(w, text, n);
}

void get_text(struct byte_reader *r, char *out, size_t cap)
{
    uint32_t n = get_u32(r);
    const unsigned char *p = n < cap ? get_bytes(r, n) : NULL;
    out[0] = 0;
    if (!p || memchr(p, 0, n)) {
        r->bad = true;
        return;
    }
    memcpy(out, p, n);
    out[n] = 0;
}

void put_config(struct byte_writer *w, const struct sched_config *c)
{
    put_u32(w, c->max_seqs);
    put_u32(w, c->max_step_tokens);
    put_u32(w, c->max_waiting);
    put_u64(w, c->max_waiting_tokens);
    put_u32(w, c->max_ctx);
    put_u32(w, c->n_blocks);
    put_u32(w, c->block_len);
    put_u32(w, (uint32_t)c->prefix_cache | (uint32_t)c->has_states << 1);
    put_u32(w, c->max_inflight);
    put_u32(w, c->overtake);
    put_u32(w, c->target_itl_us);
    put_u32(w, c->max_step_us);
    put_u32(w, c->turn_tokens);
    put_u32(w, c->prefill_loss_pct);
    put_u32(w, c->target_of_all);
    put_u32(w, c->queue_for);
    put_u32(w, c->n_snapshots);
}

struct sched_config get_config(struct byte_reader *r, uint32_t version)
{
    struct sched_config c = {0};
    c.max_seqs = get_u32(r);
    c.max_step_tokens = get_u32(r);
    c.max_waiting = get_u32(r);
    c.max_waiting_tokens = get_u64(r);
    c.max_ctx = get_u32(r);
    c.n_blocks = get_u32(r);
    c.block_len = get_u32(r);
    uint32_t sharing = get_u32(r);
    c.prefix_cache = sharing & 1;
    c.has_states = sharing >> 1 & 1;
    c.max_inflight = get_u32(r);
    c.overtake = get_u32(r);
    if (version > 1) {
        c.target_itl_us = get_u32(r);
        c.max_step_us = get_u32(r);
        c.turn_tokens = get_u32(r);
        c.prefill_loss_pct = version > 7 ? get_u32(r) : 2;
        c.target_of_all = version > 7 && get_u32(r) != 0;
    }
    c.queue_for = version > 7 ? get_u32(r) : 0;
    c.n_snapshots = version > 8 ? get_u32(r) : 0;
    return c;
}

static void put_params(struct byte_writer *w, const struct sample_params *p)
{
    put_f32(w, p->temperature);
    put_f32(w, p->top_p);
    put_f32(w, p->min_p);
    put_u32(w, p->top_k);
    put_f32(w, p->repetition_penalty);
    put_f32(w, p->presence_penalty);
    put_f32(w, p->frequency_penalty);
    put_u32(w, p->min_new);
    put_u64(w, p->seed);
    put_u32(w, p->top_logprobs);
    put_u32(w, p->logprobs);
    put_u32(w, p->prompt_logprobs);
    put_u32(w, p->prompt_top);
    put_u32(w, (uint32_t)p->embed);
}

static struct sample_params get_params(struct byte_reader *r, uint32_t version)
{
    struct sample_params p = {0};
    p.temperature = get_f32(r);
    p.top_p = get_f32(r);
    p.min_p = get_f32(r);
    p.top_k = get_u32(r);
    p.repetition_penalty = get_f32(r);
    p.presence_penalty = get_f32(r);
    p.frequency_penalty = get_f32(r);
    p.min_new = get_u32(r);
    p.seed = get_u64(r);
    p.top_logprobs = get_u32(r);
    p.logprobs = get_u32(r) != 0;
    if (version > 6) {
        p.prompt_logprobs = get_u32(r) != 0;
        p.prompt_top = get_u32(r);
    }
    uint32_t embed = version > 7 ? get_u32(r) : 0;
    r->bad = r->bad || embed >= EMBED_N;
    p.embed = embed < EMBED_N ? (enum embed_rows)embed : EMBED_NONE;
    return p;
}

static const uint8_t no_owner[SHA256_BYTES]; /* zeros; also an unknown digest */

void put_request(struct byte_writer *w, const struct sched_req *q, uint32_t n_known)
{
    put_text(w, q->label, MAX_LABEL);
    put_u64(w, q->seq_id);
    put_u64(w, q->group_id);
    put_u64(w, q->tenant);
    put_u64(w, q->salt);
    put_bytes(w, q->owner ? q->owner : no_owner, SHA256_BYTES);
    put_u64(w, q->deadline_us);
    put_u32(w, q->n_tokens);
    put_u32(w, q->n_prompt);
    put_u32(w, q->max_new);
    put_u32(w, (uint32_t)q->priority);
    put_params(w, &q->sp);
    put_u32(w, q->n_scored);
    put_u32(w, n_known);
    put_u32(w, q->n_stop_ids);
    put_u32(w, q->n_bias);
    put_u32(w, q->resumed);
    put_u64(w, q->grammar);
    put_u32(w, q->grammar ? q->grammar_kind : 0);
    put_u32(w, q->grammar ? q->n_grammar : 0);
    put_i32s(w, q->tokens, n_known);
    put_i32s(w, q->stop_ids, q->n_stop_ids);
    for (uint32_t i = 0; i < q->n_bias; i++) {
        put_u32(w, (uint32_t)q->bias[i].id);
        put_f32(w, q->bias[i].bias);
    }
    if (q->grammar)
        put_bytes(w, q->grammar_source, q->n_grammar);
}

void get_request(struct byte_reader *r, uint32_t version, struct sched_req *q,
                 char label[MAX_LABEL + 1], uint8_t owner[SHA256_BYTES], uint32_t *n_known)
{
    memset(q, 0, sizeof *q);
    get_text(r, label, MAX_LABEL + 1);
    q->seq_id = get_u64(r);
    q->group_id = get_u64(r);
    q->tenant = version > 1 ? get_u64(r) : 0;
    q->salt = get_u64(r);
    const unsigned char *p = version > 2 ? get_bytes(r, SHA256_BYTES) : NULL;
    memcpy(owner, p ? p : no_owner, SHA256_BYTES);
    q->deadline_us = get_u64(r);
    q->n_tokens = get_u32(r);
    q->n_prompt = get_u32(r);
    q->max_new = get_u32(r);
    q->priority = (int32_t)get_u32(r);
    q->sp = get_params(r, version);
    q->n_scored = version > 6 ? get_u32(r) : 0;
    *n_known = get_u32(r);
    q->n_stop_ids = get_u32(r);
    q->n_bias = get_u32(r);
    q->resumed = version > 3 && get_u32(r) != 0;
    if (version > 5) {
        q->grammar = get_u64(r);
        q->grammar_kind = get_u32(r);
        q->n_grammar = get_u32(r);
    }
}

void get_grammar(struct byte_reader *r, struct sched_req *q)
{
    q->grammar_source = (const char *)get_bytes(r, q->n_grammar);
}

/* ---- admissions ---- */

size_t admission_bytes(const struct journal_admission *a)
{
    struct byte_writer count = {0};
    put_admission(&count, a);
    return count.n;
}

void put_admission(struct byte_writer *w, const struct journal_admission *a)
{
    put_u64(w, a->key);
    put_u64(w, a->began_us);
    put_text(w, a->id, MAX_LABEL);
    put_bytes(w, a->owner, SHA256_BYTES);
    put_u32(w, a->n_samples);
    put_u32(w, a->n_tenant);
    put_u32(w, a->n_accepted);
    put_u32(w, a->n_request);
    put_bytes(w, a->tenant, a->n_tenant);
    put_bytes(w, a->accepted, a->n_accepted);
    put_bytes(w, a->request, a->n_request);
}

void get_admission(struct byte_reader *r, struct journal_admission *a, char id[MAX_LABEL + 1])
{
    *a = (struct journal_admission){.key = get_u64(r), .id = id};
    a->began_us = get_u64(r);
    get_text(r, id, MAX_LABEL + 1);
    a->owner = get_bytes(r, SHA256_BYTES);
    a->n_samples = get_u32(r);
    a->n_tenant = get_u32(r);
    a->n_accepted = get_u32(r);
    a->n_request = get_u32(r);
    a->tenant = get_bytes(r, a->n_tenant);
    a->accepted = get_bytes(r, a->n_accepted);
    a->request = get_bytes(r, a->n_request);
}

static void put_digest(struct byte_writer *w, bool known, const uint8_t digest[SHA256_BYTES])
{
    put_u32(w, known);
    put_bytes(w, known ? digest : no_owner, SHA256_BYTES);
}

static bool get_digest(struct byte_reader *r, uint8_t digest[SHA256_BYTES])
{
    bool known = get_u32(r) != 0;
    const unsigned char *p = get_bytes(r, SHA256_BYTES);
    memcpy(digest, p ? p : no_owner, SHA256_BYTES);
    return known;
}

void put_served(struct byte_writer *w, const struct journal_served *s)
{
    put_digest(w, s->has_text, s->text);
    put_digest(w, s->has_weights, s->weights);
    put_text(w, s->numerics, MAX_NUMERICS - 1);
}

void get_served(struct byte_reader *r, struct journal_served *s)
{
    s->has_text = get_digest(r, s->text);
    s->has_weights = get_digest(r, s->weights);
    get_text(r, s->numerics, MAX_NUMERICS);
}

/* ---- digests ---- */

static uint64_t add(uint64_t h, uint64_t v)
{
    return hash_mix(h * 3 + v);
}

static uint64_t add_f32(uint64_t h, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return add(h, bits);
}

static uint64_t add_i32s(uint64_t h, const int32_t *v, uint32_t n)
{
    h = add(h, n);
    for (uint32_t i = 0; i < n; i++)
        h = add(h, (uint32_t)v[i]);
    return h;
}

static uint64_t add_open(uint64_t h, const struct plan_open *o)
{
    const struct sample_params *p = &o->sp;
    const float f[] = {
        p->temperature,      p->top_p, p->min_p, p->repetition_penalty, p->presence_penalty,
        p->frequency_penalty};
    const uint64_t u[] = {o->seq_id,   p->top_k,    p->min_new,   p->seed,        p->top_logprobs,
                          p->logprobs, o->n_prompt, o->n_history, o->history_off, o->n_stop_ids,
                          o->stop_off, o->n_bias,   o->bias_off};
    for (size_t i = 0; i < ARRAY_LEN(f); i++)
        h = add_f32(h, f[i]);
    for (size_t i = 0; i < ARRAY_LEN(u); i++)
        h = add(h, u[i]);
    if (p->prompt_logprobs)
        h = add(h, 1 + p->prompt_top);
    if (p->embed)
        h = add(h, (uint64_t)p->embed << 32);
    return o->grammar ? add(h, o->grammar) : h;
}

uint64_t plan_digest(const struct step_plan *p)
{
    uint64_t h = add(add(add(1, p->step_id), p->epoch), p->n_seqs);
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        const struct plan_seq *q = &p->seqs[i];
        h = add(add(h, q->seq_id), (uint64_t)q->pos << 32 | q->n_tokens);
        h = add(h, (uint64_t)q->token_off << 32 | q->n_blocks);
        h = add(h, (uint64_t)q->block_off << 32 | (uint32_t)q->want);
        if (q->n_score)
            h = add_i32s(h, p->scores + q->score_off, q->n_score);
        if (q->restore || q->keep)
            h = add(h, (uint64_t)q->restore << 32 | q->keep);
    }
    h = add_i32s(h, p->tokens, p->n_tokens);
    h = add_i32s(h, p->blocks, p->n_blocks);
    h = add(h, p->n_opens);
    for (uint32_t i = 0; i < p->n_opens; i++)
        h = add_open(h, &p->opens[i]);
    h = add(h, p->n_closes);
    for (uint32_t i = 0; i < p->n_closes; i++)
        h = add(h, p->closes[i]);
    h = add_i32s(h, p->history, p->n_history);
    h = add_i32s(h, p->stop_ids, p->n_stop_ids);
    h = add(h, p->n_bias);
    for (uint32_t i = 0; i < p->n_bias; i++)
        h = add_f32(add(h, (uint32_t)p->bias[i].id), p->bias[i].bias);
    return h;
}

uint64_t fx_digest(const struct sched_effect *fx, size_t n)
{
    uint64_t h = add(2, n);
    for (size_t i = 0; i < n; i++) {
        const struct sched_effect *e = &fx[i];
        h = add(add(h, e->seq_id), (uint64_t)e->kind << 32 | (uint32_t)e->token);
        h = add(add(h, (uint64_t)e->i_result << 32 | e->n), (uint64_t)e->reason);
    }
    return h;
}
