/* The step plan on the wire: columns, one entry for each sequence.  Called by worker_msg.c. */
#include "common/wire/worker_pb.h"

static struct plan_open open_of(const Ingot__Worker__Open *m)
{
    return (struct plan_open){
        .seq_id = m->seq_id,
        .n_prompt = m->n_prompt,
        .grammar = m->grammar,
        .sp = {.temperature = m->temperature,
               .top_p = m->top_p,
               .min_p = m->min_p,
               .top_k = m->top_k,
               .repetition_penalty = m->repetition_penalty,
               .presence_penalty = m->presence_penalty,
               .frequency_penalty = m->frequency_penalty,
               .min_new = m->min_new,
               .seed = m->seed,
               .top_logprobs = m->top_logprobs,
               .logprobs = m->logprobs,
               .prompt_top = m->prompt_top,
               .embed = (enum embed_rows)m->embed},
    };
}

static enum status decode_opens(struct step_plan *p, const Ingot__Worker__StepPlan *m,
                                struct wire_mem *mem)
{
    size_t n_history = 0, n_stop = 0, n_bias = 0;
    for (size_t i = 0; i < m->n_open; i++) {
        const Ingot__Worker__Open *o = m->open[i];
        if (o->n_bias != o->n_bias_id)
            FAIL(ST_FORMAT, "open[%zu]: %zu bias ids, %zu biases", i, o->n_bias_id, o->n_bias);
        n_history += o->n_history;
        n_stop += o->n_stop_id;
        n_bias += o->n_bias;
    }
    p->n_opens = (uint32_t)m->n_open;
    p->n_history = (uint32_t)n_history;
    p->n_stop_ids = (uint32_t)n_stop;
    p->n_bias = (uint32_t)n_bias;
    MEM_ARRAY(p->opens, m->n_open, mem);
    MEM_ARRAY(p->history, n_history, mem);
    MEM_ARRAY(p->stop_ids, n_stop, mem);
    MEM_ARRAY(p->bias, n_bias, mem);
    uint32_t at_history = 0, at_stop = 0, at_bias = 0;
    for (size_t i = 0; i < m->n_open; i++) {
        const Ingot__Worker__Open *o = m->open[i];
        struct plan_open *d = &p->opens[i];
        if (o->embed >= EMBED_N)
            FAIL(ST_FORMAT, "open[%zu]: embed %u", i, o->embed);
        *d = open_of(o);
        TRY(sample_params_check(&d->sp, NULL));
        d->history_off = at_history;
        d->n_history = (uint32_t)o->n_history;
        d->stop_off = at_stop;
        d->n_stop_ids = (uint32_t)o->n_stop_id;
        d->bias_off = at_bias;
        d->n_bias = (uint32_t)o->n_bias;
        for (size_t k = 0; k < o->n_history; k++)
            p->history[at_history++] = o->history[k];
        for (size_t k = 0; k < o->n_stop_id; k++)
            p->stop_ids[at_stop++] = o->stop_id[k];
        for (size_t k = 0; k < o->n_bias; k++)
            p->bias[at_bias++] = (struct logit_bias){o->bias_id[k], o->bias[k]};
    }
    return ST_OK;
}

enum status worker_plan_decode(struct step_plan *p, const Ingot__Worker__StepPlan *m,
                               struct wire_mem *mem)
{
    size_t n = m->n_seq_id;
    TRY(pb_need(m->has_step_id, "step_id"));
    TRY(pb_need(m->has_epoch, "epoch"));
    if (m->n_pos != n || m->n_n_tokens != n || m->n_n_blocks != n || m->n_want != n)
        FAIL(ST_FORMAT, "step plan: columns of %zu, %zu, %zu, %zu and %zu entries", n, m->n_pos,
             m->n_n_tokens, m->n_n_blocks, m->n_want);
    if (m->n_n_score && m->n_n_score != n)
        FAIL(ST_FORMAT, "step plan: n_score of %zu entries for %zu sequences", m->n_n_score, n);
    if ((m->n_restore && m->n_restore != n) || (m->n_keep && m->n_keep != n))
        FAIL(ST_FORMAT, "step plan: %zu and %zu snapshots for %zu sequences", m->n_restore,
             m->n_keep, n);
    *p = (struct step_plan){.step_id = m->step_id,
                            .epoch = m->epoch,
                            .n_seqs = (uint32_t)n,
                            .n_tokens = (uint32_t)m->n_token,
                            .n_blocks = (uint32_t)m->n_block,
                            .n_closes = (uint32_t)m->n_close,
                            .n_scores = (uint32_t)m->n_scored_id,
                            .tokens = m->token,
                            .scores = m->scored_id,
                            .closes = m->close};
    MEM_ARRAY(p->seqs, n, mem);
    MEM_ARRAY(p->blocks, m->n_block, mem);
    for (size_t i = 0; i < m->n_block; i++) {
        if (m->block[i] > INT32_MAX)
            FAIL(ST_FORMAT, "step plan: block %u", m->block[i]);
        p->blocks[i] = (int32_t)m->block[i];
    }
    uint64_t at_token = 0, at_block = 0, at_score = 0;
    for (size_t i = 0; i < n; i++) {
        if (m->want[i] > WANT_EMBEDDING)
            FAIL(ST_FORMAT, "step plan: want %u", m->want[i]);
        p->seqs[i] = (struct plan_seq){.seq_id = m->seq_id[i],
                                       .pos = m->pos[i],
                                       .n_tokens = m->n_tokens[i],
                                       .token_off = (uint32_t)at_token,
                                       .n_blocks = m->n_blocks[i],
                                       .block_off = (uint32_t)at_block,
                                       .want = (enum plan_want)m->want[i],
                                       .n_score = m->n_n_score ? m->n_score[i] : 0,
                                       .score_off = (uint32_t)at_score,
                                       .restore = m->n_restore ? m->restore[i] : 0,
                                       .keep = m->n_keep ? m->keep[i] : 0};
        at_score += p->seqs[i].n_score;
        at_token += m->n_tokens[i];
        at_block += m->n_blocks[i];
    }
    if (at_token != m->n_token || at_block != m->n_block)
        FAIL(ST_FORMAT, "step plan: %zu tokens and %zu blocks, the sequences say %llu and %llu",
             m->n_token, m->n_block, (unsigned long long)at_token, (unsigned long long)at_block);
    if (at_score != m->n_scored_id)
        FAIL(ST_FORMAT, "step plan: %zu scored tokens, the sequences say %llu", m->n_scored_id,
             (unsigned long long)at_score);
    return decode_opens(p, m, mem);
}

static enum status encode_open(Ingot__Worker__Open *m, const struct step_plan *p,
                               const struct plan_open *o, struct wire_mem *mem)
{
    const struct sample_params *sp = &o->sp;
    ingot__worker__open__init(m);
    SET(*m, seq_id, o->seq_id);
    SET(*m, temperature, sp->temperature);
    SET(*m, top_p, sp->top_p);
    SET(*m, min_p, sp->min_p);
    SET(*m, top_k, sp->top_k);
    SET(*m, repetition_penalty, sp->repetition_penalty);
    SET(*m, presence_penalty, sp->presence_penalty);
    SET(*m, frequency_penalty, sp->frequency_penalty);
    SET(*m, min_new, sp->min_new);
    SET(*m, seed, sp->seed);
    SET(*m, top_logprobs, sp->top_logprobs);
    SET(*m, logprobs, sp->logprobs);
    SET(*m, n_prompt, o->n_prompt);
    if (sp->prompt_top)
        SET(*m, prompt_top, sp->prompt_top);
    if (o->grammar)
        SET(*m, grammar, o->grammar);
    if (sp->embed)
        SET(*m, embed, (uint32_t)sp->embed);
    m->n_history = o->n_history;
    m->history = p->history + o->history_off;
    m->n_stop_id = o->n_stop_ids;
    m->stop_id = p->stop_ids + o->stop_off;
    m->n_bias = m->n_bias_id = o->n_bias;
    MEM_ARRAY(m->bias_id, o->n_bias, mem);
    MEM_ARRAY(m->bias, o->n_bias, mem);
    for (uint32_t k = 0; k < o->n_bias; k++) {
        m->bias_id[k] = p->bias[o->bias_off + k].id;
        m->bias[k] = p->bias[o->bias_off + k].bias;
    }
    return ST_OK;
}

static enum status encode_snapshots(Ingot__Worker__StepPlan *m, const struct step_plan *p,
                                    struct wire_mem *mem)
{
    uint32_t any = 0;
    for (uint32_t i = 0; i < p->n_seqs; i++)
        any |= p->seqs[i].restore | p->seqs[i].keep;
    if (!any)
        return ST_OK;
    m->n_restore = m->n_keep = p->n_seqs;
    MEM_ARRAY(m->restore, p->n_seqs, mem);
    MEM_ARRAY(m->keep, p->n_seqs, mem);
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        m->restore[i] = p->seqs[i].restore;
        m->keep[i] = p->seqs[i].keep;
    }
    return ST_OK;
}

enum status worker_plan_encode(struct wire_bytes *out, const struct step_plan *p,
                               struct wire_mem *mem)
{
    Ingot__Worker__StepPlan m = INGOT__WORKER__STEP_PLAN__INIT;
    Ingot__Worker__Open *opens;
    size_t n = p->n_seqs;

    SET(m, step_id, p->step_id);
    SET(m, epoch, p->epoch);
    m.n_seq_id = m.n_pos = m.n_n_tokens = m.n_n_blocks = m.n_want = n;
    MEM_ARRAY(m.seq_id, n, mem);
    MEM_ARRAY(m.pos, n, mem);
    MEM_ARRAY(m.n_tokens, n, mem);
    MEM_ARRAY(m.n_blocks, n, mem);
    MEM_ARRAY(m.want, n, mem);
    for (size_t i = 0; i < n; i++) {
        m.seq_id[i] = p->seqs[i].seq_id;
        m.pos[i] = p->seqs[i].pos;
        m.n_tokens[i] = p->seqs[i].n_tokens;
        m.n_blocks[i] = p->seqs[i].n_blocks;
        m.want[i] = (uint32_t)p->seqs[i].want;
    }
    if (p->n_scores) {
        m.n_n_score = n;
        MEM_ARRAY(m.n_score, n, mem);
        for (size_t i = 0; i < n; i++)
            m.n_score[i] = p->seqs[i].n_score;
    }
    TRY(encode_snapshots(&m, p, mem));
    m.n_scored_id = p->n_scores;
    m.scored_id = p->scores;
    m.n_token = p->n_tokens;
    m.token = p->tokens;
    m.n_block = p->n_blocks;
    MEM_ARRAY(m.block, m.n_block, mem);
    for (size_t i = 0; i < m.n_block; i++)
        m.block[i] = (uint32_t)p->blocks[i];
    m.n_close = p->n_closes;
    m.close = p->closes;
    m.n_open = p->n_opens;
    MEM_ARRAY(m.open, m.n_open, mem);
    MEM_ARRAY(opens, m.n_open, mem);
    for (size_t i = 0; i < m.n_open; i++) {
        TRY(encode_open(&opens[i], p, &p->opens[i], mem));
        m.open[i] = &opens[i];
    }
    return pb_pack(out, WMSG_STEP_PLAN, &m.base, mem);
}
