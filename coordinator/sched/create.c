/* sched_create and sched_destroy: the scheduler's single allocation, divided among its arrays. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/sched/internal.h"

/* Hands out aligned pieces of one block of memory.  With base NULL it only adds up. */
struct carver {
    char *base;
    size_t used;
    bool overflow;
};

static void *carve(struct carver *c, size_t n, size_t size)
{
    size_t at = (c->used + 15) & ~(size_t)15;
    if (at < c->used || (n && size > (SIZE_MAX - at) / n)) {
        c->overflow = true;
        return NULL;
    }
    c->used = at + n * size;
    return c->base ? c->base + at : NULL;
}

static uint32_t power_of_two(uint32_t least)
{
    uint32_t n = 1;
    while (n < least)
        n *= 2;
    return n;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A step takes at most n_blocks distinct new blocks; opens repeat at most as many cached ones
 * (plan.c stops there), and the history of an open covers just its cached blocks. */
static void carve_plan(struct carver *c, const struct sched_config *cfg, struct step_plan *p)
{
    size_t n_blocks = cfg->n_blocks;
    p->seqs = carve(c, cfg->max_seqs, sizeof *p->seqs);
    p->tokens = carve(c, cfg->max_step_tokens, sizeof *p->tokens);
    p->blocks = carve(c, 2 * n_blocks, sizeof *p->blocks);
    p->opens = carve(c, cfg->max_seqs, sizeof *p->opens);
    p->closes = carve(c, cfg->max_seqs, sizeof *p->closes);
    p->history = carve(c, n_blocks * cfg->block_len, sizeof *p->history);
    p->stop_ids = carve(c, (size_t)cfg->max_seqs * MAX_STOP_IDS, sizeof *p->stop_ids);
    p->bias = carve(c, (size_t)cfg->max_seqs * MAX_LOGIT_BIAS, sizeof *p->bias);
    p->scores = carve(c, MAX_SCORED_ROWS, sizeof *p->scores);
}

/* As many again can be resumed, or, in a queue, come back. */
static uint32_t max_slots(const struct sched_config *cfg)
{
    uint32_t n = cfg->max_seqs + cfg->max_waiting;
    return n + (cfg->queue_for > n ? cfg->queue_for : n);
}

static void carve_all(struct carver *c, const struct sched_config *cfg, struct sched *s)
{
    size_t n_blocks = cfg->n_blocks;
    s->max_slots = max_slots(cfg);
    s->max_table = (uint32_t)smaller(n_blocks, blocks_for(s, cfg->max_ctx - 1));
    s->n_id_buckets = power_of_two(s->max_slots);
    s->pool.n_buckets = power_of_two(cfg->n_blocks);

    s->pool.blocks = carve(c, n_blocks, sizeof *s->pool.blocks);
    s->pool.tokens = carve(c, n_blocks * cfg->block_len, sizeof *s->pool.tokens);
    s->pool.buckets = carve(c, s->pool.n_buckets, sizeof *s->pool.buckets);
    s->pool.snapshots.n_rows = cfg->n_snapshots;
    s->pool.snapshots.rows = carve(c, cfg->n_snapshots, sizeof *s->pool.snapshots.rows);
    s->pool.snapshots.of_block =
        carve(c, cfg->n_snapshots ? n_blocks : 0, sizeof *s->pool.snapshots.of_block);
    s->seqs = carve(c, s->max_slots, sizeof *s->seqs);
    s->id_buckets = carve(c, s->n_id_buckets, sizeof *s->id_buckets);
    s->group_buckets = carve(c, s->n_id_buckets, sizeof *s->group_buckets);
    s->tables = carve(c, (size_t)cfg->max_seqs * s->max_table, sizeof *s->tables);
    s->free_rows = carve(c, cfg->max_seqs, sizeof *s->free_rows);
    s->closes = carve(c, cfg->max_seqs, sizeof *s->closes);
    s->picked = carve(c, cfg->max_seqs, sizeof *s->picked);
    s->shares = carve(c, cfg->max_seqs, sizeof *s->shares);
    s->order = carve(c, cfg->max_seqs, sizeof *s->order);
    s->flows = carve(c, s->max_slots, sizeof *s->flows);
    s->flow_buckets = carve(c, s->n_id_buckets, sizeof *s->flow_buckets);
    for (uint32_t i = 0; i < MAX_STEPS_IN_FLIGHT; i++)
        s->flights[i].seqs = carve(c, cfg->max_seqs, sizeof *s->flights[i].seqs);
    carve_plan(c, cfg, &s->plan);
}

static enum status check_range(const char *name, uint64_t v, uint64_t least, uint64_t most)
{
    if (v < least || v > most)
        FAIL(ST_RANGE, "scheduler: %s %llu is outside %llu..%llu", name, (unsigned long long)v,
             (unsigned long long)least, (unsigned long long)most);
    return ST_OK;
}

static enum status check_config(const struct sched_config *cfg)
{
    TRY(check_range("max_seqs", cfg->max_seqs, 1, 65536));
    TRY(check_range("max_step_tokens", cfg->max_step_tokens, 1, 1u << 24));
    TRY(check_range("max_waiting", cfg->max_waiting, 1, 1u << 20));
    TRY(check_range("max_waiting_tokens", cfg->max_waiting_tokens, 1, UINT64_MAX >> 1));
    TRY(check_range("max_ctx", cfg->max_ctx, 2, 1u << 30));
    TRY(check_range("n_blocks", cfg->n_blocks, 1, 1u << 28));
    TRY(check_range("block_len", cfg->block_len, 1, 1u << 16));
    TRY(check_range("max_inflight", cfg->max_inflight, 0, MAX_STEPS_IN_FLIGHT));
    TRY(check_range("overtake", cfg->overtake, 0, 1u << 20));
    TRY(check_range("turn_tokens", cfg->turn_tokens, 0, 1u << 24));
    TRY(check_range("n_snapshots", cfg->n_snapshots, 0, cfg->has_states ? 1u << 16 : 0));
    TRY(check_range("queue_for", cfg->queue_for, 0, 1u << 20));
    return ST_OK;
}

static enum status total_bytes(const struct sched_config *cfg, size_t *n_bytes)
{
    struct carver c = {0};
    struct sched s = {.cfg = *cfg};
    TRY(check_config(cfg));
    carve(&c, 1, sizeof s);
    carve_all(&c, cfg, &s);
    if (c.overflow)
        FAIL(ST_RANGE, "scheduler: the tables for %u sequences over %u blocks overflow",
             cfg->max_seqs, cfg->n_blocks);
    *n_bytes = c.used;
    return ST_OK;
}

size_t sched_bytes(const struct sched_config *cfg)
{
    size_t n_bytes;
    return total_bytes(cfg, &n_bytes) == ST_OK ? n_bytes : 0;
}

size_t sched_max_fx(const struct sched_config *cfg)
{
    return (size_t)cfg->max_seqs + max_slots(cfg) + MAX_SCORED_ROWS + MAX_FORCED_TOKENS;
}

enum status sched_create(struct sched **out, const struct sched_config *cfg)
{
    size_t n_bytes;
    *out = NULL;
    TRY(total_bytes(cfg, &n_bytes));
    struct carver c = {.base = calloc(1, n_bytes)};
    if (!c.base)
        FAIL(ST_NOMEM, "scheduler: no memory for %zu bytes", n_bytes);

    struct sched *s = carve(&c, 1, sizeof *s);
    s->cfg = *cfg;
    if (s->cfg.max_inflight == 0)
        s->cfg.max_inflight = 1;
    carve_all(&c, cfg, s);
    s->max_blocks = cfg->n_blocks;
    s->epoch = 1;
    cost_init(&s->cost);
    turns_reset(s);
    s->pool.block_len = cfg->block_len;
    block_pool_reset(&s->pool, cfg->n_blocks);

    s->waiting = (struct tree){.kind = WAITING, .root = -1};
    s->deadlines = (struct tree){.kind = DEADLINES, .root = -1};
    s->running = (struct seq_list){.head = -1, .tail = -1};
    for (uint32_t i = 0; i < s->max_slots; i++) {
        s->seqs[i].prev = -1;
        s->seqs[i].id_next = -1;
        s->seqs[i].next = i + 1 < s->max_slots ? (int32_t)i + 1 : -1;
    }
    for (uint32_t i = 0; i < s->n_id_buckets; i++)
        s->id_buckets[i] = s->group_buckets[i] = -1;
    for (uint32_t i = cfg->max_seqs; i-- > 0;)
        s->free_rows[s->n_free_rows++] = s->tables + (size_t)i * s->max_table;
    *out = s;
    return ST_OK;
}

void sched_destroy(struct sched *s)
{
    free(s);
}
