#include "worker/rank_step_sizes.h"

struct draw_shape sizes_shape(const struct rank_step_config *cfg, int32_t n_rows)
{
    return (struct draw_shape){.n_ranks = cfg->world,
                               .n_rows = n_rows,
                               .k = MAX_CANDIDATES,
                               .n_slices = cfg->parts[0].n_slices,
                               .vocab = cfg->step.vocab};
}

size_t sizes_words(const struct rank_step_config *cfg, int32_t n_rows)
{
    struct draw_shape shape = sizes_shape(cfg, n_rows);
    return draw_words(&shape);
}

int32_t sizes_widest_part(const struct rank_step_config *cfg)
{
    int32_t most = 1;
    for (int r = 0; r < cfg->world; r++)
        if (cfg->parts[r].n_cols > most)
            most = cfg->parts[r].n_cols;
    return most;
}

size_t sizes_full(const struct rank_step_config *cfg)
{
    return (size_t)cfg->world * FULL_ROWS * (size_t)sizes_widest_part(cfg) * sizeof(float);
}

int32_t sizes_rows(const struct rank_step_config *cfg)
{
    return cfg->step.max_seqs + cfg->step.max_scored;
}

static size_t sizes_top(const struct rank_step_config *cfg)
{
    return (size_t)cfg->world * sizes_words(cfg, sizes_rows(cfg)) * sizeof(int32_t);
}

size_t sizes_pick_row(const struct rank_step_config *cfg)
{
    return (size_t)cfg->step.max_scored * sizeof(int32_t);
}

size_t sizes_picked(const struct rank_step_config *cfg)
{
    return (size_t)cfg->world * (size_t)cfg->step.max_scored * sizeof(float);
}

size_t sizes_states(const struct rank_step_config *cfg)
{
    return STATE_ROWS * (size_t)cfg->pool->hidden;
}

size_t sizes_vectors(const struct rank_step_config *cfg)
{
    return (size_t)cfg->step.max_seqs * (size_t)cfg->pool->modules->dim;
}

/* What take_pool takes. */
static size_t pool_bytes(const struct rank_step_config *cfg)
{
    size_t of_step = sizeof(struct result_embedding) * (size_t)cfg->step.max_seqs;
    if (!cfg->pool || cfg->rank != 0)
        return 0;
    return pooler_bytes(cfg->pool) + sizes_states(cfg) * sizeof(float) +
           MAX_STEPS_IN_FLIGHT * (of_step + sizes_vectors(cfg) * sizeof(float));
}

struct masks_config sizes_masks(const struct rank_step_config *cfg)
{
    return (struct masks_config){.max_open = cfg->step.max_open,
                                 .max_seqs = sizes_rows(cfg),
                                 .vocab = cfg->step.vocab,
                                 .part = cfg->parts[cfg->rank],
                                 .forced = cfg->forced_tokens && cfg->rank == 0};
}

size_t sizes_ids(const struct rank_step_config *cfg)
{
    return ((size_t)sizes_rows(cfg) + 15) / 16 * 16;
}

size_t sizes_out(const struct rank_step_config *cfg)
{
    return sizes_ids(cfg) * sizeof(int32_t) + sizes_top(cfg);
}

size_t sizes_back(const struct rank_step_config *cfg)
{
    if (cfg->rank == 0)
        return sizes_out(cfg);
    return cfg->masks ? sizes_ids(cfg) * sizeof(int32_t) : 0;
}

struct mem_bytes rank_step_bytes(const struct rank_step_config *cfg)
{
    struct mem_bytes n = step_bytes(&cfg->step);
    size_t out = alloc_bytes(sizes_out(cfg));
    n.device += out + alloc_bytes(sizes_full(cfg)) + alloc_bytes(FULL_ROWS * sizeof(int32_t));
    if (cfg->step.max_scored)
        n.device += alloc_bytes(sizes_pick_row(cfg)) + alloc_bytes(sizes_picked(cfg));
    if (cfg->masks) {
        struct masks_config mc = sizes_masks(cfg);
        n.device += masks_bytes(&mc).device;
        n.pinned += masks_bytes(&mc).pinned;
    }
    n.pinned += MAX_STEPS_IN_FLIGHT * alloc_bytes(sizes_back(cfg));
    return n;
}

/* What take_host takes. */
static size_t draw_bytes(const struct rank_step_config *cfg)
{
    size_t vocab = (size_t)cfg->step.vocab, max_seqs = (size_t)cfg->step.max_seqs;
    size_t flights = MAX_STEPS_IN_FLIGHT * max_seqs * sizeof(struct out_row);
    size_t of_token = 2 * sizeof(float) + sizeof(int32_t) + 2 * sizeof(uint64_t);
    size_t of_seq = sizeof(struct draw_sums) + sizeof(struct result_token);
    size_t more = (size_t)cfg->step.max_scored + MAX_FORCED_TOKENS;
    size_t scored = more * sizeof(struct result_token) + sizes_picked(cfg);
    return cfg->rank == 0
               ? flights + sizes_full(cfg) + vocab * of_token + max_seqs * of_seq + scored
               : flights;
}

size_t rank_step_host_bytes(const struct rank_step_config *cfg)
{
    struct masks_config mc = sizes_masks(cfg);
    size_t masks = cfg->masks ? masks_host_bytes(&mc) : 0;
    return draw_bytes(cfg) + step_host_bytes(&cfg->step) + masks + pool_bytes(cfg);
}

size_t rank_step_coll_bytes(const struct rank_step_config *cfg)
{
    return sizes_top(cfg) > sizes_full(cfg) ? sizes_top(cfg) : sizes_full(cfg);
}
