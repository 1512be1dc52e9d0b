#include "bench/step_run.h"

#include <stdlib.h>
#include <string.h>

#include "bench/ceilings.h"
#include "worker/load/pack_cache.h"

enum { BLOCK_LEN = 16, DEADLINE_MS = 120000 };

static int32_t max_i32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* The least sizes that all rows fit into. */
static void set_sizes(struct step_rig *r)
{
    struct decoder_config *dc = &r->dc;
    *dc = (struct decoder_config){.rank = r->cfg.rank,
                                  .world = r->cfg.world,
                                  .max_tokens = max_i32(r->cfg.first_prompt, 1),
                                  .max_ctx = r->cfg.first_prompt,
                                  .n_blocks = r->cfg.first_prompt / BLOCK_LEN + 1,
                                  .max_seqs = 1,
                                  .block_len = BLOCK_LEN,
                                  .kv_dtype = r->cfg.kv_dtype};
    for (int i = 0; i < r->cfg.n_rows; i++) {
        const struct step_row *row = &r->cfg.row[i];
        int32_t blocks = (row->context + row->n + BLOCK_LEN - 1) / BLOCK_LEN;
        int32_t tokens = row->kind == ROW_DECODE ? row->seqs : row->n;
        dc->max_ctx = max_i32(dc->max_ctx, blocks * BLOCK_LEN);
        dc->max_seqs = max_i32(dc->max_seqs, row->seqs);
        dc->max_tokens = max_i32(dc->max_tokens, tokens);
        dc->n_blocks = max_i32(dc->n_blocks, row->seqs * blocks);
    }
    if (dc->max_tokens > r->cfg.max_chunk)
        dc->max_tokens = max_i32(r->cfg.max_chunk, dc->max_seqs);
    dc->max_out = dc->max_seqs;
}

static enum status open_coll(struct step_rig *r, const struct model_config *mc)
{
    struct coll_config cc = {.rank = r->cfg.rank,
                             .world = r->cfg.world,
                             .be = r->be,
                             .deadline_ms = DEADLINE_MS,
                             .session = r->cfg.session,
                             .one_host = true};
    if (r->cfg.world == 1)
        return ST_OK;
    TRY(engine_coll_bytes(&cc.max_bytes, mc, &r->dc));
    return coll_open(&r->co, "shm", &cc);
}

static enum status take_arrays(struct step_rig *r, const struct model_config *mc)
{
    size_t n = (size_t)max_i32(r->dc.max_ctx, 1);
    r->tokens = calloc(n, sizeof *r->tokens);
    r->logits = calloc((size_t)r->dc.max_out * (size_t)mc->vocab, sizeof *r->logits);
    if (!r->tokens || !r->logits)
        FAIL(ST_NOMEM, "no memory for logits");
    for (size_t i = 0; i < n; i++)
        r->tokens[i] = (int32_t)((i * 2654435761U + 12345) % (uint32_t)mc->vocab);
    return ST_OK;
}

enum status step_rig_open(struct step_rig *r, struct loader *ld, const struct step_rig_config *cfg)
{
    struct backend_config bc = {
        .threads = cfg->threads, .isa = cfg->isa, .activations = cfg->activations};
    *r = (struct step_rig){.cfg = *cfg};
    set_sizes(r);
    TRY(take_arrays(r, loader_config(ld)));
    TRY(backend_open(&r->be, "cpu", &bc));
    struct backend_info info;
    backend_ops_of(r->be)->info(r->be, &info);
    loader_sort_columns(ld, info.features);
    TRY(open_coll(r, loader_config(ld)));
    struct pack_cache *cache = cfg->pack_cache ? pack_cache_attach(ld, cfg->model, cfg->pack_cache,
                                                                   r->be, cfg->rank, cfg->world)
                                               : NULL;
    enum status st = engine_create(&r->engine, ld, r->be, r->co, &r->dc);
    loader_set_cache(ld, NULL);
    pack_cache_close(cache, st == ST_OK);
    return st;
}

void step_rig_close(struct step_rig *r)
{
    engine_destroy(r->engine);
    if (r->co)
        r->co->ops->close(r->co);
    if (r->be)
        backend_ops_of(r->be)->close(r->be);
    free(r->tokens);
    free(r->logits);
    *r = (struct step_rig){0};
}

enum status step_rig_first_token(struct step_rig *r)
{
    TRY(engine_prefill(r->engine, 0, r->tokens, r->cfg.first_prompt, r->logits));
    engine_release(r->engine, 0);
    return ST_OK;
}

/* Random entries of the cache's type, small and without NaN. */
static void fill_entries(void *data, size_t n, enum dtype t)
{
    uint32_t rng = 7;
    for (size_t i = 0; i < n; i++) {
        rng = rng * 1664525U + 1013904223U;
        float f = (float)(rng >> 8) * 0x1p-24f - 0.5f;
        uint16_t h = t == DT_F16 ? f16_of_f32(f) : bf16_of_f32(f);
        uint8_t b = t == DT_E4M3 ? e4m3_of_f32(f) : (uint8_t)(rng >> 24);
        memcpy((char *)data + i * dtype_size(t),
               t == DT_F32          ? (void *)&f
               : dtype_size(t) == 2 ? (void *)&h
                                    : (void *)&b,
               dtype_size(t));
    }
}

/* Opens the row's sequences, each with `context` entries that were not computed but made up. */
static enum status open_seqs(struct step_rig *r, const struct step_row *row)
{
    const struct model_config *mc = engine_config(r->engine);
    size_t len = (size_t)row->context, n_layers = (size_t)mc->n_layers;
    size_t bytes = len * engine_kv_row_bytes(r->engine);
    void *entries = malloc(bytes + 1);
    float *scale = malloc((len * (size_t)mc->n_kv + 1) * sizeof *scale);
    struct engine_kv *kv = calloc(n_layers, sizeof *kv);
    size_t conv, rule;
    engine_state_sizes(r->engine, &conv, &rule);
    float *state = calloc(conv + rule + 1, sizeof *state);
    enum status st = ST_OK;
    if (!entries || !scale || !kv || !state)
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for a context");
    if (st == ST_OK)
        fill_entries(entries, bytes / dtype_size(r->dc.kv_dtype), r->dc.kv_dtype);
    for (size_t i = 0; st == ST_OK && i < len * (size_t)mc->n_kv; i++)
        scale[i] = 0x1p-8f;
    for (size_t i = 0; st == ST_OK && i < n_layers; i++)
        kv[i] = (struct engine_kv){entries, entries, scale, scale, state, state};
    for (int32_t s = 0; st == ST_OK && s < row->seqs; s++) {
        st = engine_init_kv_cache(r->engine, (uint64_t)s, kv, row->context);
        if (st == ST_OK)
            st = engine_prepare(r->engine, (uint64_t)s, row->context + row->n);
    }
    free(entries);
    free(scale);
    free(state);
    free(kv);
    return st;
}

static enum status run_decode(struct step_rig *r, const struct step_row *row)
{
    struct engine_token batch[MAX_BATCH];
    for (int32_t i = 0; i < row->n; i++) {
        for (int32_t s = 0; s < row->seqs; s++)
            batch[s] = (struct engine_token){(uint64_t)s, r->tokens[(i + s) % r->dc.max_ctx],
                                             row->context + i};
        TRY(engine_decode_batch(r->engine, batch, row->seqs, r->logits));
    }
    return ST_OK;
}

static enum status run_once(struct step_rig *r, const struct step_row *row, double *seconds)
{
    TRY(open_seqs(r, row));
    uint64_t begin = bench_now_ns();
    if (row->kind == ROW_DECODE)
        TRY(run_decode(r, row));
    else
        TRY(engine_prefill(r->engine, 0, r->tokens, row->n, r->logits));
    *seconds = (double)(bench_now_ns() - begin) * 1e-9;
    engine_reset(r->engine);
    return ST_OK;
}

enum status step_rig_run(struct step_rig *r, struct step_row *row)
{
    double warm_up;
    TRY(run_once(r, row, &warm_up));
    for (int i = 0; i < r->cfg.reps; i++)
        TRY(run_once(r, row, &row->seconds[i]));
    return ST_OK;
}
