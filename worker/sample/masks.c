#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "worker/sample/mask_parts.h"

/* ---- life ---- */

static int32_t words_of(const struct masks_config *cfg)
{
    return (cfg->vocab + 31) / 32;
}

static size_t rows_bytes(const struct masks_config *cfg)
{
    return (size_t)cfg->max_seqs * (size_t)words_of(cfg) * sizeof(uint32_t);
}

struct mem_bytes masks_bytes(const struct masks_config *cfg)
{
    size_t one = alloc_bytes(rows_bytes(cfg));
    return (struct mem_bytes){.device = 2 * one, .pinned = 2 * one};
}

size_t masks_host_bytes(const struct masks_config *cfg)
{
    return (size_t)cfg->max_seqs * (sizeof(int32_t) + sizeof(char *) + sizeof(bool)) +
           (size_t)cfg->max_open * sizeof(struct slot) + (size_t)words_of(cfg) * sizeof(uint32_t);
}

static enum status take_memory(struct masks *m)
{
    const struct backend_ops *ops = backend_ops_of(m->be);
    m->slots = calloc((size_t)m->cfg.max_open, sizeof *m->slots);
    m->endings = calloc((size_t)m->cfg.max_seqs, sizeof *m->endings);
    m->places = calloc((size_t)m->cfg.max_seqs, sizeof *m->places);
    m->dear = calloc((size_t)m->cfg.max_seqs, sizeof *m->dear);
    m->ahead_row = calloc((size_t)m->n_words, sizeof *m->ahead_row);
    if (!m->slots || !m->endings || !m->places || !m->dear || !m->ahead_row)
        FAIL(ST_NOMEM, "no memory for the masks of %d sequences", m->cfg.max_seqs);
    for (size_t i = 0; i < ARRAY_LEN(m->image); i++) {
        TRY(ops->alloc(m->be, rows_bytes(&m->cfg), MEM_PINNED, &m->image[i]));
        TRY(ops->alloc(m->be, rows_bytes(&m->cfg), MEM_DEVICE, &m->words[i]));
    }
    return ops->sync(m->be); /* an upload would run beside the zeroing */
}

enum status masks_create(struct masks **out, const struct masks_config *cfg, struct backend *be)
{
    *out = NULL;
    struct masks *m = calloc(1, sizeof *m);
    if (!m)
        FAIL(ST_NOMEM, "no memory for masks");
    m->cfg = *cfg;
    m->be = be;
    m->n_words = words_of(cfg);
    m->lands = backend_ops_of(be)->upload != NULL;
    m->memory.max = MASKS_MAX_BYTES;
    enum status st = take_memory(m);
    if (st == ST_OK)
        st = compiler_create(&m->compiler);
    if (st == ST_OK)
        st = side_thread_create(&m->side);
    if (st != ST_OK) {
        masks_destroy(m);
        return st;
    }
    *out = m;
    return ST_OK;
}

static void release(struct masks *m, struct entry *e)
{
    if (e->id || e->n_users)
        return;
    grammar_memory_leave(&m->memory, &e->share);
    grammar_destroy(e->grammar);
    e->grammar = NULL;
}

static void close_slot(struct masks *m, struct slot *t)
{
    matcher_destroy(t->matcher);
    if (t->entry) {
        t->entry->n_users--;
        release(m, t->entry);
    }
    *t = (struct slot){.last_row = -1};
}

void masks_reset(struct masks *m)
{
    for (int32_t i = 0; i < m->cfg.max_open; i++)
        close_slot(m, &m->slots[i]);
    m->involved = m->any = m->need_last = false;
}

void masks_destroy(struct masks *m)
{
    if (!m)
        return;
    if (m->slots)
        masks_reset(m);
    for (size_t i = 0; i < ARRAY_LEN(m->entries); i++) {
        if (m->entries[i].job)
            compiler_drop(m->compiler, m->entries[i].job);
        grammar_destroy(m->entries[i].grammar);
    }
    compiler_destroy(m->compiler);
    side_thread_destroy(m->side);
    struct buf *bufs[] = {m->image[0], m->image[1], m->words[0], m->words[1]};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        if (bufs[i])
            backend_ops_of(m->be)->free(m->be, bufs[i]);
    token_trie_destroy(m->trie);
    free(m->slots);
    free(m->endings);
    free(m->places);
    free(m->dear);
    free(m->ahead_row);
    free(m);
}

/* ---- what the coordinator sends ---- */

enum status masks_set_vocabulary(struct masks *m, const uint8_t *bytes, const uint32_t *n,
                                 uint32_t n_tokens, const int32_t *end_ids, uint32_t n_end_ids)
{
    uint32_t vocab = (uint32_t)m->cfg.vocab;
    if (n_tokens > vocab || n_end_ids > MAX_STOP_IDS)
        FAIL(ST_PEER, "a vocabulary of %u tokens and %u end ids, the model's is %u", n_tokens,
             n_end_ids, vocab);
    for (uint32_t i = 0; i < n_end_ids; i++)
        if (end_ids[i] < 0 || end_ids[i] >= m->cfg.vocab)
            FAIL(ST_PEER, "end id %d of a vocabulary of %u", end_ids[i], vocab);
    for (size_t i = 0; i < ARRAY_LEN(m->entries); i++) /* it comes before all grammars */
        if (m->entries[i].id)
            masks_remove(m, m->entries[i].id);
    if (m->trie)
        return ST_OK; /* another group's coordinator has the same: the text digests are equal */
    const uint8_t **first = calloc(vocab, sizeof *first);
    uint32_t *length = calloc(vocab, sizeof *length);
    enum status st = first && length ? ST_OK : ST_NOMEM;
    for (uint32_t i = 0; st == ST_OK && i < n_tokens; bytes += n[i++]) {
        first[i] = bytes;
        length[i] = n[i];
    }
    for (uint32_t i = 0; st == ST_OK && i < n_end_ids; i++)
        length[end_ids[i]] = 0; /* they end texts, whatever they spell */
    if (st == ST_OK)
        st = token_trie_create(&m->trie, first, length, vocab);
    free(first);
    free(length);
    memcpy(m->end, end_ids, n_end_ids * sizeof *m->end);
    m->n_end = n_end_ids;
    return st;
}

static struct entry *find(const struct masks *m, uint64_t id)
{
    for (size_t i = 0; i < ARRAY_LEN(m->entries); i++)
        if (m->entries[i].id == id && (m->entries[i].job || m->entries[i].grammar))
            return (struct entry *)&m->entries[i];
    return NULL;
}

enum status masks_add(struct masks *m, uint64_t id, const struct grammar_source *source)
{
    struct entry *e = NULL;
    if (find(m, id))
        return ST_OK;
    for (size_t i = 0; i < ARRAY_LEN(m->entries) && !e; i++)
        if (!m->entries[i].job && !m->entries[i].grammar)
            e = &m->entries[i];
    if (!m->trie || !e || m->n_known == MASKS_MAX_GRAMMARS)
        FAIL(ST_PEER, "a grammar came %s",
             m->trie ? "beyond the greatest number" : "before the vocabulary");
    TRY(compiler_add(m->compiler, source, &e->job));
    e->id = id;
    m->n_known++;
    return ST_OK;
}

bool masks_compiled(const struct masks *m, uint64_t id)
{
    const struct entry *e = find(m, id);
    return !e || !e->job || compiler_done(m->compiler, e->job);
}

static enum status check_thinking(const struct masks *m, const struct grammar *g)
{
    const struct thinking_rule *rule = grammar_thinking(g);
    for (uint32_t i = 0; rule && i < rule->n_close_ids; i++)
        if (rule->close_ids[i] >= m->cfg.vocab)
            FAIL(ST_PEER, "thinking is closed by id %d of a vocabulary of %d", rule->close_ids[i],
                 m->cfg.vocab);
    return ST_OK;
}

/* Waits for its grammar. */
static enum status take_grammar(struct masks *m, struct entry *e)
{
    struct compile_job *job = e->job;
    if (!job)
        return ST_OK;
    e->job = NULL;
    enum status st = compiler_take(m->compiler, job, &e->grammar);
    if (st == ST_OK)
        grammar_memory_used(&m->memory, &e->share, e->grammar);
    if (st == ST_OK)
        return check_thinking(m, e->grammar);
    if (st == ST_NOMEM)
        return st;
    FAIL(ST_PEER, "the coordinator sent a grammar that does not compile");
}

void masks_remove(struct masks *m, uint64_t id)
{
    struct entry *e = find(m, id);
    if (!e)
        return;
    e->id = 0;
    m->n_known--;
    if (e->job)
        compiler_drop(m->compiler, e->job);
    e->job = NULL;
    release(m, e);
}

/* ---- sequences ---- */

enum status masks_check(struct masks *m, const struct step_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_opens; i++) {
        const struct plan_open *o = &plan->opens[i];
        struct entry *e = o->grammar ? find(m, o->grammar) : NULL;
        if (o->grammar && !e)
            FAIL(ST_PEER, "sequence %llu: grammar %016llx is not known",
                 (unsigned long long)o->seq_id, (unsigned long long)o->grammar);
        if (e)
            TRY(take_grammar(m, e));
    }
    return ST_OK;
}

static enum status open_slot(struct masks *m, const struct step *s, const struct step_plan *plan,
                             const struct plan_open *o)
{
    struct slot *t = &m->slots[step_find(s, o->seq_id)];
    close_slot(m, t);
    if (!o->grammar)
        return ST_OK;
    t->entry = find(m, o->grammar);
    t->entry->n_users++;
    t->n_stop = (int32_t)o->n_stop_ids;
    memcpy(t->stop, plan->stop_ids + o->stop_off, o->n_stop_ids * sizeof *t->stop);
    const struct thinking_rule *rule = grammar_thinking(t->entry->grammar);
    if (rule)
        thinking_begin(rule, &t->thinking);
    if (!grammar_is_open(t->entry->grammar))
        TRY(matcher_create(&t->matcher, t->entry->grammar));
    for (uint32_t i = o->n_prompt; i < o->n_history; i++)
        TRY(slot_feed(m, t, plan->history[o->history_off + i]));
    return ST_OK;
}

static enum status feed_seq(struct masks *m, const struct step *s, const struct step_plan *plan,
                            const struct plan_seq *q, const int32_t *last)
{
    int32_t slot = step_find(s, q->seq_id);
    struct slot *t = &m->slots[slot];
    uint32_t n_prompt = (uint32_t)step_seq(s, slot)->n_prompt;
    for (uint32_t k = 0; t->entry && k < q->n_tokens; k++) {
        int32_t token = plan->tokens[q->token_off + k];
        if (token == TOKEN_OF_LAST_STEP)
            token = last[t->last_row];
        if (q->pos + k >= n_prompt)
            TRY(slot_feed(m, t, token));
    }
    return ST_OK;
}

enum status masks_open(struct masks *m, const struct step *s, const struct step_plan *plan)
{
    m->involved = m->any = m->need_last = false;
    m->n_forced = 0;
    for (uint32_t i = 0; i < plan->n_opens; i++)
        TRY(open_slot(m, s, plan, &plan->opens[i]));
    for (uint32_t i = 0; i < plan->n_seqs; i++) {
        const struct plan_seq *q = &plan->seqs[i];
        if (!m->slots[step_find(s, q->seq_id)].entry)
            continue;
        m->involved = true;
        if (q->n_tokens && plan->tokens[q->token_off] == TOKEN_OF_LAST_STEP)
            m->need_last = true;
    }
    for (int32_t i = 0; i < step_n_out(s); i++)
        if (m->slots[step_out_slot(s, i)].entry)
            m->any = true;
    return ST_OK;
}

bool masks_involved(const struct masks *m)
{
    return m->involved;
}

bool masks_need_last(const struct masks *m)
{
    return m->need_last;
}

bool masks_any(const struct masks *m)
{
    return m->any;
}

/* ---- masks ---- */

enum status masks_make(struct masks *m, const struct step *s, const struct step_plan *plan,
                       const int32_t *last)
{
    uint64_t begin = clock_us();
    for (uint32_t i = 0; i < plan->n_seqs; i++)
        TRY(feed_seq(m, s, plan, &plan->seqs[i], last));
    for (int32_t i = 0; i < step_n_out(s); i++)
        m->slots[step_out_slot(s, i)].last_row = i;
    if (m->any)
        TRY(mask_rows(m, s));
    m->stats.us += clock_us() - begin;
    return ST_OK;
}

static enum status make_aside(void *ctx)
{
    struct masks *m = ctx;
    return masks_make(m, m->making.s, m->making.plan, m->making.last);
}

void masks_begin(struct masks *m, const struct step *s, const struct step_plan *plan,
                 const int32_t *last)
{
    m->making = (struct making){s, plan, last};
    side_thread_begin(m->side, make_aside, m);
}

enum status masks_end(struct masks *m)
{
    return side_thread_end(m->side);
}

enum status masks_apply(struct masks *m, struct view logits)
{
    const struct backend_ops *ops = backend_ops_of(m->be);
    struct view words = {.buf = m->words[m->i_image],
                         .rows = logits.rows,
                         .cols = m->n_words,
                         .stride = m->n_words,
                         .dtype = DT_I32},
                image = words;
    image.buf = m->image[m->i_image];
    TRY(m->lands ? ops->upload(m->be, words, image) : ops->copy(m->be, words, image));
    return ops->mask_logits(m->be, &m->cfg.part, logits, words);
}

void masks_waited(struct masks *m, uint64_t us)
{
    m->stats.wait_us += us;
}

int32_t masks_ending(const struct masks *m, int32_t i_row)
{
    return m->any ? m->endings[i_row] : 0;
}

const char *masks_place(struct masks *m, int32_t i_row)
{
    if (!m->dear[i_row])
        return m->places[i_row];
    snprintf(m->place, sizeof m->place, "%.80s: finding the tokens takes too many steps",
             m->places[i_row]);
    return m->place;
}

const struct forced_token *masks_forced(const struct masks *m, uint32_t *n)
{
    *n = m->n_forced;
    return m->forced;
}

struct masks_stats masks_take_stats(struct masks *m)
{
    struct masks_stats stats = m->stats;
    m->stats = (struct masks_stats){0};
    return stats;
}
