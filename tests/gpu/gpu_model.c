/* Whole models on GPU 0:
 *   gpu_model --models DIR [--stories DIR] [--only same|ranks|nccl|golden|stories] [--few]
 *   mpirun -np N gpu_model --models DIR --ranks COLLECTIVE
 *   same             one sequence token by token against batches, chunks, a reused prefix and
 *                    recorded graphs
 *   ranks            2 and 4 ranks on this GPU (gpu_ranks.c)
 *   nccl             two ranks with an NCCL_HOSTID each, only when asked for
 *   golden, stories  numbers of other programs
 * The first three must have the bits of one rank.  TAP on stdout. */
#include "gpu/gpu_model.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_ranks.h"
#include "gpu/gpu_step.h"

int32_t greatest(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

struct decoder_config rank_config(const struct model_config *mc, enum dtype kv, int rank, int world)
{
    return (struct decoder_config){.rank = rank,
                                   .world = world,
                                   .max_tokens = 68,
                                   .max_seqs = 4,
                                   .max_out = 68,
                                   .n_blocks = 160,
                                   .block_len = 16,
                                   .n_snapshots = 1,
                                   .max_ctx = mc->max_ctx < 512 ? mc->max_ctx : 512,
                                   .kv_dtype = kv};
}

static enum status open_rank(struct rank_engine *r, const char *dir, enum dtype kv,
                             const struct rank_place *p, enum activations a, bool rounds_inputs)
{
    memset(r, 0, sizeof *r);
    TRY(backend_open(&r->be, "cuda", &(struct backend_config){.activations = a}));
    TRY(loader_open(&r->ld, dir));
    if (rounds_inputs)
        TRY(loader_round_inputs(r->ld));
    struct backend_info info;
    backend_ops_of(r->be)->info(r->be, &info);
    loader_sort_columns(r->ld, info.features);
    struct decoder_config cfg =
        rank_config(loader_config(r->ld), kv, p ? p->rank : 0, p ? p->world : 1);
    if (p)
        TRY(p->join(p, r));
    return engine_create(&r->e, r->ld, r->be, r->co, &cfg);
}

enum status rank_open(struct rank_engine *r, const char *dir, enum dtype kv,
                      const struct rank_place *p)
{
    return open_rank(r, dir, kv, p, ACTIVATIONS_AUTO, false);
}

enum status rank_open_f32(struct rank_engine *r, const char *dir, enum dtype kv)
{
    return open_rank(r, dir, kv, NULL, ACTIVATIONS_F32, false);
}

enum status rank_open_rounded(struct rank_engine *r, const char *dir, enum dtype kv)
{
    return open_rank(r, dir, kv, NULL, ACTIVATIONS_F32, true);
}

void rank_close(struct rank_engine *r)
{
    engine_destroy(r->e);
    if (r->co)
        r->co->ops->close(r->co);
    loader_close(r->ld);
    if (r->be)
        backend_ops_of(r->be)->close(r->be);
    memset(r, 0, sizeof *r);
}

/* ---- one sequence alone, and everything that must have its bits ---- */

static const float *truth_row(const struct truth *t, int32_t i)
{
    return t->row + (size_t)i * (size_t)t->vocab;
}

enum status truth_same(const struct truth *t, const float *got, int32_t i, const char *what)
{
    if (memcmp(got, truth_row(t, i), (size_t)t->vocab * sizeof(float)) != 0)
        FAIL(ST_BUG, "%s: the logits after token %d have other bits", what, i);
    return ST_OK;
}

enum status truth_open(struct truth *t)
{
    TRY(rank_open(&t->r, t->dir, t->kv, NULL));
    t->vocab = engine_config(t->r.e)->vocab;
    t->row = calloc((size_t)(TRUTH_LEN * t->vocab), sizeof(float));
    t->got = calloc((size_t)(TRUTH_LEN * t->vocab), sizeof(float));
    if (!t->row || !t->got)
        FAIL(ST_NOMEM, "no memory for logits");
    for (int32_t i = 0; i < TRUTH_LEN; i++)
        t->ids[i] = (i * 31 + 5) % t->vocab;
    TRY(engine_prepare(t->r.e, 1000, 0));
    for (int32_t i = 0; i < TRUTH_LEN; i++)
        TRY(engine_decode(t->r.e, 1000, t->ids[i], i, t->row + (size_t)i * (size_t)t->vocab));
    engine_release(t->r.e, 1000);
    return ST_OK;
}

void truth_close(struct truth *t)
{
    rank_close(&t->r);
    free(t->row);
    free(t->got);
}

static enum status same_in_chunks(struct truth *t)
{
    static const int32_t cuts[] = {0, 1, 7, 16, 23};
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        if (cuts[i])
            TRY(engine_prefill(t->r.e, 1, t->ids, cuts[i], t->got));
        TRY(engine_prefill(t->r.e, 1, t->ids + cuts[i], TRUTH_LEN - cuts[i], t->got));
        TRY(truth_same(t, t->got, TRUTH_LEN - 1, "chunks"));
        engine_release(t->r.e, 1);
    }
    TRY(engine_prepare(t->r.e, 1, TRUTH_LEN));
    TRY(engine_forward_verify(t->r.e, 1, t->ids, TRUTH_LEN, t->got));
    for (int32_t i = 0; i < TRUTH_LEN; i++)
        TRY(truth_same(t, t->got + (size_t)i * (size_t)t->vocab, i, "all rows at once"));
    engine_release(t->r.e, 1);
    return ST_OK;
}

/* Four copies of the sequence at four places of it. */
static enum status same_in_batches(struct truth *t)
{
    for (int32_t n = 2; n <= 4; n++) {
        struct engine_token batch[4];
        for (int32_t s = 0; s < n; s++)
            TRY(engine_prefill(t->r.e, (uint64_t)s, t->ids, 2 + 5 * s, t->got));
        for (int32_t step = 0; step < 3; step++) {
            for (int32_t s = 0; s < n; s++) {
                int32_t pos = 2 + 5 * s + step;
                batch[n - 1 - s] = (struct engine_token){(uint64_t)s, t->ids[pos], pos};
            }
            TRY(engine_decode_batch(t->r.e, batch, n, t->got));
            for (int32_t s = 0; s < n; s++)
                TRY(truth_same(t, t->got + (size_t)(n - 1 - s) * (size_t)t->vocab, 2 + 5 * s + step,
                               "batch"));
        }
        engine_reset(t->r.e);
    }
    return ST_OK;
}

/* A prompt chunk and decodes in one step. */
static enum status same_in_mixed_steps(struct truth *t)
{
    TRY(engine_prefill(t->r.e, 1, t->ids, 9, t->got));
    TRY(engine_prefill(t->r.e, 2, t->ids, 4, t->got));
    struct engine_chunk c[3] = {
        {1, t->ids + 9, 1, 9, true}, {3, t->ids, 18, 0, true}, {2, t->ids + 4, 1, 4, true}};
    static const int32_t at[] = {9, 17, 4};
    TRY(engine_unified_forward(t->r.e, c, 3, t->got));
    for (int32_t i = 0; i < 3; i++)
        TRY(truth_same(t, t->got + (size_t)i * (size_t)t->vocab, at[i], "mixed step"));
    engine_reset(t->r.e);
    return ST_OK;
}

/* ---- a prefix of PREFIX tokens that is taken to another sequence, and one that is kept ---- */

enum { PREFIX = 11 };
static const int32_t wrong[] = {3, 2, 1}; /* a continuation that is given up */

static void free_layers(struct engine_kv *kv, int32_t n_layers)
{
    for (int32_t i = 0; kv && i < n_layers; i++) {
        free(kv[i].k);
        free(kv[i].v);
        free(kv[i].k_scale);
        free(kv[i].v_scale);
        free(kv[i].conv);
        free(kv[i].rule);
    }
    free(kv);
}

/* Room for a prefix of each layer: keys and values, or states. */
static enum status take_layers(const struct engine *e, struct engine_kv **out)
{
    size_t n = (size_t)engine_config(e)->n_layers, conv, rule;
    size_t rows = engine_kv_row_bytes(e) * PREFIX;
    size_t scales = (size_t)engine_config(e)->n_kv * PREFIX * sizeof(float);
    struct engine_kv *kv = *out = calloc(n, sizeof *kv);
    engine_state_sizes(e, &conv, &rule);
    for (size_t i = 0; kv && i < n; i++) {
        kv[i] = (struct engine_kv){.k = malloc(rows),
                                   .v = malloc(rows),
                                   .k_scale = malloc(scales),
                                   .v_scale = malloc(scales),
                                   .conv = calloc(conv + 1, sizeof(float)),
                                   .rule = calloc(rule + 1, sizeof(float))};
        if (!kv[i].k || !kv[i].v || !kv[i].k_scale || !kv[i].v_scale || !kv[i].conv || !kv[i].rule)
            break;
        if (i == n - 1)
            return ST_OK;
    }
    FAIL(ST_NOMEM, "no memory for a KV cache");
}

/* Takes the prefix of sequence 1 to sequence 2. */
static enum status move_prefix(const struct truth *t)
{
    struct engine_kv *kv;
    enum status st = take_layers(t->r.e, &kv);
    if (st == ST_OK)
        st = engine_export_kv(t->r.e, 1, kv);
    if (st == ST_OK)
        st = engine_init_kv_cache(t->r.e, 2, kv, PREFIX);
    free_layers(kv, engine_config(t->r.e)->n_layers);
    return st;
}

static enum status same_with_reused_prefix(struct truth *t)
{
    const int32_t *rest = t->ids + PREFIX;
    TRY(engine_prefill(t->r.e, 1, t->ids, PREFIX, t->got));
    TRY(move_prefix(t));
    TRY(engine_prefill(t->r.e, 2, rest, TRUTH_LEN - PREFIX, t->got));
    TRY(truth_same(t, t->got, TRUTH_LEN - 1, "a prefix from elsewhere"));
    engine_release(t->r.e, 2);
    TRY(engine_prefill(t->r.e, 1, wrong, ARRAY_LEN(wrong), t->got));
    enum status st = engine_truncate_kv(t->r.e, 1, PREFIX);
    if (model_n_delta(engine_config(t->r.e))) { /* snapshots lead back: same_from_graphs */
        if (st != ST_UNSUPPORTED)
            FAIL(ST_BUG, "a sequence with states was cut");
        return ST_OK;
    }
    TRY(st);
    TRY(engine_prefill(t->r.e, 1, rest, TRUTH_LEN - PREFIX, t->got));
    return truth_same(t, t->got, TRUTH_LEN - 1, "a prefix that was kept");
}

/* ---- recorded steps ---- */

struct recorded {
    struct decoder *m;
    struct gpu_step step;
    struct graph *graph;
    struct view logits;
};

/* The step of `batch` equal sequences at `past`, recorded at the first call, launched later. */
static enum status graph_step(struct truth *t, struct recorded *g, int32_t batch, int32_t past,
                              int32_t id)
{
    const struct backend_ops *op = backend_ops_of(t->r.be);
    int32_t token[4] = {id, id, id, id};
    TRY(gpu_step_set(&g->step, batch, 1, past, TRUTH_LEN, token));
    if (!g->graph) {
        TRY(decoder_forward(g->m, &g->step.dev, &g->logits)); /* prepares what is not recorded */
        TRY(op->sync(t->r.be));
        TRY(op->graph_begin(t->r.be));
        enum status st = decoder_forward(g->m, &g->step.dev, &g->logits);
        enum status ended = op->graph_end(t->r.be, &g->graph);
        TRY(st);
        TRY(ended);
    }
    TRY(op->graph_launch(t->r.be, g->graph));
    return op->read(t->r.be, t->got, g->logits);
}

static enum status true_steps(struct truth *t, struct recorded *g, int32_t batch, int32_t from,
                              int32_t to)
{
    for (int32_t past = from; past < to; past++) {
        TRY(graph_step(t, g, batch, past, t->ids[past]));
        for (int32_t i = 0; i < batch; i++)
            TRY(truth_same(t, t->got + (size_t)i * (size_t)t->vocab, past, "graph"));
    }
    return ST_OK;
}

/* On the way a snapshot of the first sequence's states is taken, and all go back to it after wrong
 * tokens; the snapshot is in the row behind those of the sequences. */
static enum status graph_steps(struct truth *t, struct recorded *g, int32_t batch)
{
    struct decoder_config cfg = rank_config(loader_config(t->r.ld), t->kv, 0, 1);
    TRY(decoder_open(&g->m, loader_config(t->r.ld), t->r.ld, t->r.be, NULL, &cfg));
    TRY(gpu_step_init(&g->step, t->r.be, cfg.max_tokens, cfg.max_seqs, TRUTH_LEN, cfg.block_len));
    TRY(true_steps(t, g, batch, 0, PREFIX));
    TRY(decoder_copy_states(g->m, 0, cfg.max_seqs));
    for (int32_t i = 0; i < (int32_t)ARRAY_LEN(wrong); i++)
        TRY(graph_step(t, g, batch, PREFIX + i, wrong[i]));
    for (int32_t i = 0; i < batch; i++)
        TRY(decoder_copy_states(g->m, cfg.max_seqs, i));
    return true_steps(t, g, batch, PREFIX, TRUTH_LEN);
}

static enum status same_from_graphs(struct truth *t)
{
    enum status st = ST_OK;
    for (int32_t batch = 1; batch <= 4 && st == ST_OK; batch *= 4) {
        struct recorded g = {0};
        st = graph_steps(t, &g, batch);
        if (g.graph)
            backend_ops_of(t->r.be)->graph_free(t->r.be, g.graph);
        if (g.step.be)
            gpu_step_fini(&g.step);
        decoder_close(g.m);
    }
    return st;
}

/* ---- the suites ---- */

static const struct model_row {
    const char *name;
    enum dtype kv;
    bool few;
} rows[] = {
    {"llama-gqa", DT_BF16, false},
    {"llama-sharded-bf16", DT_BF16, true},
    {"llama-gqa", DT_F32, false},
    {"llama-tied-f16", DT_F16, false},
    {"mistral-window", DT_F32, false},
    {"qwen3", DT_BF16, false},
    {"qwen2", DT_F32, false},
    {"qwen3", DT_I8, false},
    {"llama-gqa", DT_E4M3, false},
    {"qwen3moe-v5-bf16", DT_BF16, true},
    {"mixtral", DT_F32, false},
    {"qwen3moe-dense-first", DT_I8, false},
    {"llama-fp8-block", DT_BF16, false},
    {"llama-gptq-order", DT_BF16, false},
    {"qwen3moe-nvfp4", DT_BF16, false},
    {"gpt-oss", DT_BF16, false},
    {"deepseek3", DT_BF16, false},
    {"qwen3next", DT_BF16, true},
    {"nemotron-h-moe", DT_BF16, true},
};

static void check_row(struct tap *tap, const struct options *o, const struct model_row *row)
{
    static const struct {
        const char *name;
        enum status (*run)(struct truth *t);
    } all[] = {
        {"chunks", same_in_chunks},
        {"batches", same_in_batches},
        {"mixed steps", same_in_mixed_steps},
        {"reused prefix", same_with_reused_prefix},
        {"graphs", same_from_graphs},
        {"2 ranks as threads, one-shot kernel", same_on_two_threads},
        {"4 ranks as threads, one-shot kernel", same_on_four_threads},
    };
    struct truth t = {.kv = row->kv};
    snprintf(t.dir, sizeof t.dir, "%s/%s", o->models, row->name);
    if (truth_open(&t) != ST_OK) {
        tap_ok(tap, false, "%s, %s cache: %s", row->name, dtype_name(row->kv), status_detail());
    } else {
        for (size_t i = 0; i < ARRAY_LEN(all); i++) {
            bool fine = all[i].run(&t) == ST_OK;
            tap_ok(tap, fine, "%s, %s cache, %s%s%s", row->name, dtype_name(row->kv), all[i].name,
                   fine ? "" : ": ", fine ? "" : status_detail());
            engine_reset(t.r.e);
        }
    }
    truth_close(&t);
}

static void check_same(struct tap *t, const struct options *o)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].few || !o->few)
            check_row(t, o, &rows[i]);
}

static bool wanted(const char *only, const char *suite)
{
    return !only || strcmp(only, suite) == 0;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    const char *only = NULL, *ranks = NULL;
    struct tap t = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--few") == 0)
            o.few = true;
        else if (strcmp(argv[i], "--models") == 0 && i + 1 < argc)
            o.models = argv[++i];
        else if (strcmp(argv[i], "--stories") == 0 && i + 1 < argc)
            o.stories = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--ranks") == 0 && i + 1 < argc)
            ranks = argv[++i];
        else
            o.models = NULL, argc = 0;
    }
    if (!o.models) {
        fprintf(stderr, "usage: gpu_model --models DIR [--stories DIR] "
                        "[--only same|ranks|nccl|golden|stories] [--few]\n"
                        "       mpirun -np N gpu_model --models DIR --ranks COLLECTIVE\n");
        return 2;
    }
    /* Loading a kernel late waits for the device: for ever when another rank's kernel waits for
     * this one. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    if (ranks)
        return check_mpi_ranks(&o, ranks);
    if (wanted(only, "ranks"))
        check_processes(&t, &o); /* before this process uses CUDA */
    if (only && strcmp(only, "nccl") == 0)
        check_nccl(&t, &o);
    if (wanted(only, "same"))
        check_same(&t, &o);
    if (wanted(only, "golden"))
        check_golden(&t, &o);
    if (wanted(only, "stories"))
        check_stories(&t, &o);
    return tap_end(&t);
}
