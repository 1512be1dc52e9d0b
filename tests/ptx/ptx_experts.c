/* A layer of three experts, two for each of 19 tokens, with slices: on the CUDA backend of the PTX
 * machine and on the CPU. */
#include "ptx/ptx_experts.h"

#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "quant_blocks.h"

enum { E = 3, TOP_K = 2, T = 19, SLICES = 2 };

/* D = F = k */
struct layer {
    enum dtype type;
    int32_t k;
    unsigned char *blocks; /* [E][gate, up, down][k, k] */
    float x[T * QUANT_BLOCK_MAX], weights[T * TOP_K];
    int32_t ids[T * TOP_K];
};

static size_t row_bytes(const struct layer *l)
{
    const struct quant_form *f = quant_form(l->type);
    return (size_t)(l->k / f->block) * (size_t)f->n_bytes;
}

static struct weight_part part_of(const struct layer *l, int e, int i)
{
    return (struct weight_part){.data =
                                    l->blocks + (size_t)(3 * e + i) * (size_t)l->k * row_bytes(l),
                                .row_bytes = row_bytes(l),
                                .dtype = l->type,
                                .rows = l->k};
}

static void sources_of(const struct layer *l, struct weight_src gate_up[E],
                       struct weight_src down[E])
{
    for (int e = 0; e < E; e++) {
        gate_up[e] = (struct weight_src){.name = "gate and up",
                                         .cols = l->k,
                                         .n_parts = 2,
                                         .part = {part_of(l, e, 0), part_of(l, e, 1)},
                                         .n_slices = 1,
                                         .slice_end = {l->k}};
        down[e] = (struct weight_src){.name = "down",
                                      .cols = l->k,
                                      .n_parts = 1,
                                      .part = {part_of(l, e, 2)},
                                      .n_slices = SLICES,
                                      .slice_end = {l->k / 2, l->k}};
    }
}

static enum status take(struct backend *be, int32_t rows, int32_t cols, enum dtype t,
                        const void *data, struct view *out)
{
    *out = (struct view){.rows = rows, .cols = cols, .stride = cols, .dtype = t};
    TRY(backend_ops_of(be)->alloc(be, (size_t)rows * (size_t)cols * 4, MEM_DEVICE, &out->buf));
    return data ? backend_ops_of(be)->write(be, *out, data) : ST_OK;
}

/* out [T, k] */
static enum status run(struct backend *be, const struct layer *l, float *out)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct weight_src gate_up[E], down[E];
    struct weight *w[2];
    struct view v[5];
    sources_of(l, gate_up, down);
    TRY(op->load_stack(be, gate_up, E, &w[0]));
    TRY(op->load_stack(be, down, E, &w[1]));
    struct moe_layer ml = {.n_experts = E,
                           .top_k = TOP_K,
                           .hidden = l->k,
                           .ffn = l->k,
                           .scale = 1,
                           .act = ACT_SILU,
                           .gate_up = w[0],
                           .down = w[1]};
    TRY(take(be, T, l->k, DT_F32, l->x, &v[0]));
    TRY(take(be, T, TOP_K, DT_I32, l->ids, &v[1]));
    TRY(take(be, T, TOP_K, DT_F32, l->weights, &v[2]));
    TRY(take(be, 1, (int32_t)(op->moe_scratch(be, &ml, T) / sizeof(float)), DT_F32, NULL, &v[3]));
    TRY(take(be, T, l->k, DT_F32, NULL, &v[4]));
    TRY(op->moe_ffn(be, &ml, v[0], v[1], v[2], v[3], v[4]));
    TRY(op->read(be, out, v[4]));
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        op->free(be, v[i].buf);
    op->free_weight(be, w[0]);
    op->free_weight(be, w[1]);
    return ST_OK;
}

static enum status run_on(const char *name, const struct layer *l, float *out)
{
    struct backend *be;
    TRY(backend_open(&be, name, &(struct backend_config){.threads = 1, .isa = "plain"}));
    enum status st = run(be, l, out);
    backend_ops_of(be)->close(be);
    return st;
}

static bool fill(struct layer *l)
{
    size_t n = 3 * E * (size_t)l->k * (size_t)l->k;
    l->blocks = quant_random_blocks(l->type, n, l->k == QUANT_BLOCK_MAX ? 3e-4f : 0.01f, 7);
    for (int i = 0; i < T * l->k; i++)
        l->x[i] = (float)((i * 37 + 11) % 101) * 0.013f - 0.6f;
    for (int i = 0; i < T * TOP_K; i++) {
        l->weights[i] = (float)(i * 29 % 53 + 1) * 0.017f;
        l->ids[i] = i / TOP_K % 7 == 0 ? (i + 1) % TOP_K + 1 : 1 - i % TOP_K;
    }
    return l->blocks != NULL;
}

void ptx_check_experts(struct tap *t)
{
    static const enum dtype types[] = {DT_Q2_K, DT_Q3_K, DT_Q4_0, DT_Q5_0, DT_Q6_K, DT_Q8_0};
    static struct layer l;
    static float got[T * QUANT_BLOCK_MAX], want[T * QUANT_BLOCK_MAX];
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        l.type = types[i];
        l.k = quant_form(types[i])->block == QUANT_BLOCK_MAX ? QUANT_BLOCK_MAX : 64;
        bool filled = fill(&l);
        bool ran = filled && run_on("cuda", &l, got) == ST_OK && run_on("cpu", &l, want) == ST_OK;
        bool same = ran && memcmp(got, want, (size_t)T * (size_t)l.k * sizeof *got) == 0;
        tap_ok(t, same, "experts of %s%s%s", dtype_name(types[i]), same ? "" : ": ",
               same  ? ""
               : ran ? "other bits than the CPU's"
                     : status_text());
        free(l.blocks);
    }
}
