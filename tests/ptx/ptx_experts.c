/* A layer of three experts, two for each token, with slices: on the CUDA backend of the PTX
 * machine and on the CPU. */
#include "ptx/ptx_experts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "quant_blocks.h"

enum { E = 3, TOP_K = 2, MAX_T = 200, SLICES = 2, SCALES = 8 };

/* D = F = k */
struct layer {
    enum dtype type;
    int32_t k, T;
    unsigned char *blocks; /* [E][gate, up, down][k, k] */
    /* Types with scales in f32: a scale (and minimum, and e4m3 one) for each row and SCALES of its
     * columns; the groups of the columns. */
    float scale[3 * E * QUANT_BLOCK_MAX * SCALES], min[3 * E * QUANT_BLOCK_MAX * SCALES];
    uint8_t small[3 * E * QUANT_BLOCK_MAX * SCALES];
    int8_t zero[3 * E * QUANT_BLOCK_MAX * SCALES];
    uint16_t index[3 * E][QUANT_BLOCK_MAX]; /* of each tensor */
    float x[MAX_T * QUANT_BLOCK_MAX], weights[MAX_T * TOP_K];
    int32_t ids[MAX_T * TOP_K];
};

static size_t row_bytes(const struct layer *l)
{
    const struct quant_form *f = quant_form(l->type);
    if (!f)
        return (size_t)l->k; /* a byte for each element */
    return (size_t)(l->k / f->block) * (size_t)f->n_bytes;
}

/* Columns of a scale. */
static int32_t block_of(const struct layer *l)
{
    return l->type == DT_NVFP4 ? 16 : l->type == DT_NF4 ? 64 : l->k / SCALES;
}

static struct weight_part part_of(const struct layer *l, int e, int i)
{
    size_t row = (size_t)(3 * e + i) * (size_t)l->k;
    return (struct weight_part){.data = l->blocks + row * row_bytes(l),
                                .row_bytes = row_bytes(l),
                                .dtype = l->type,
                                .rows = l->k,
                                .scale = l->scale + row * SCALES,
                                .min = l->min + row * SCALES,
                                .small_scale = l->small + row * SCALES,
                                .scale_stride = SCALES,
                                .zero = l->zero + row * SCALES,
                                .index = l->index[3 * e + i],
                                .block = block_of(l),
                                .factor = 0.05f,
                                .divisor = 1.0f};
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
    TRY(take(be, l->T, l->k, DT_F32, l->x, &v[0]));
    TRY(take(be, l->T, TOP_K, DT_I32, l->ids, &v[1]));
    TRY(take(be, l->T, TOP_K, DT_F32, l->weights, &v[2]));
    TRY(take(be, 1, (int32_t)(op->moe_scratch(be, &ml, l->T) / sizeof(float)), DT_F32, NULL,
             &v[3]));
    TRY(take(be, l->T, l->k, DT_F32, NULL, &v[4]));
    TRY(op->moe_ffn(be, &ml, v[0], v[1], v[2], v[3], v[4]));
    TRY(op->read(be, out, v[4]));
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        op->free(be, v[i].buf);
    op->free_weight(be, w[0]);
    op->free_weight(be, w[1]);
    return ST_OK;
}

static enum status run_on(const char *name, enum activations a, const struct layer *l, float *out)
{
    struct backend *be;
    TRY(backend_open(&be, name,
                     &(struct backend_config){.threads = 1, .isa = "plain", .activations = a}));
    enum status st = run(be, l, out);
    backend_ops_of(be)->close(be);
    return st;
}

static bool fill(struct layer *l)
{
    size_t n = 3 * E * (size_t)l->k * (size_t)l->k;
    if (quant_form(l->type)) {
        l->blocks = quant_random_blocks(l->type, n, l->k == QUANT_BLOCK_MAX ? 3e-4f : 0.01f, 7);
    } else {
        l->blocks = malloc(n);
        for (size_t i = 0; l->blocks && i < n; i++)
            l->blocks[i] = (unsigned char)(i * 2654435761U >> 9 & (l->type == DT_E4M3 ? 63 : 15));
        for (size_t i = 0; i < ARRAY_LEN(l->scale); i++) {
            l->scale[i] = 0.01f + 0.0003f * (float)(i * 41 % 83);
            l->min[i] = -0.1f + 0.001f * (float)(i * 7 % 53);
            l->small[i] = e4m3_of_f32(0.3f + 0.01f * (float)(i * 41 % 83));
            l->zero[i] = (int8_t)(i * 11 % 16);
        }
        for (uint16_t i = 0; i < 3 * E; i++)
            for (uint16_t k = 0; k < l->k; k++)
                l->index[i][k] = (uint16_t)((k * 7 + k / 9 + i) % SCALES);
    }
    for (int i = 0; i < l->T * l->k; i++)
        l->x[i] = (float)((i * 37 + 11) % 101) * 0.013f - 0.6f;
    for (int i = 0; i < l->T * TOP_K; i++) {
        l->weights[i] = (float)(i * 29 % 53 + 1) * 0.017f;
        l->ids[i] = i / TOP_K % 7 == 0 ? (i + 1) % TOP_K + 1 : 1 - i % TOP_K;
    }
    return l->blocks != NULL;
}

static void check(struct tap *t, struct layer *l, enum dtype type)
{
    static float got[MAX_T * QUANT_BLOCK_MAX], want[MAX_T * QUANT_BLOCK_MAX];
    const struct quant_form *f = quant_form(type);
    l->type = type;
    l->T = 19;
    l->k = type == DT_E4M3 || (f && f->block == QUANT_BLOCK_MAX) ? QUANT_BLOCK_MAX : 64;
    bool ran = fill(l) && run_on("cuda", ACTIVATIONS_F32, l, got) == ST_OK &&
               run_on("cpu", ACTIVATIONS_F32, l, want) == ST_OK;
    bool same = ran && memcmp(got, want, (size_t)l->T * (size_t)l->k * sizeof *got) == 0;
    tap_ok(t, same, "experts of %s%s%s", dtype_name(type), same ? "" : ": ",
           same  ? ""
           : ran ? "other bits than the CPU's"
                 : status_text());
    free(l->blocks);
}

/* On matrix units, x in f16: near the CPU, and not its bits.  The number of tokens decides which kernels. */
static void check_mma(struct tap *t, struct layer *l, enum dtype type, int32_t tokens)
{
    static float got[MAX_T * QUANT_BLOCK_MAX], want[MAX_T * QUANT_BLOCK_MAX];
    l->type = type;
    l->k = 128;
    l->T = tokens;
    bool ran = fill(l) && run_on("cuda", ACTIVATIONS_AUTO, l, got) == ST_OK &&
               run_on("cpu", ACTIVATIONS_F32, l, want) == ST_OK;
    double most = 0, off = 0;
    for (int i = 0; i < l->T * l->k; i++) {
        most = fmax(most, fabs((double)want[i]));
        off = fmax(off, fabs((double)got[i] - (double)want[i]));
    }
    tap_ok(t, ran && off > 0 && off < most * 0x1p-9,
           "experts of %s on matrix units, %d tokens: %g of %g off%s%s", dtype_name(type), tokens,
           off, most, ran ? "" : ": ", ran ? "" : status_text());
    free(l->blocks);
}

void ptx_check_experts(struct tap *t)
{
    static const enum dtype types[] = {
        DT_Q2_K,       DT_Q3_K,       DT_Q4_0, DT_Q5_0,  DT_Q6_K,        DT_Q8_0,       DT_E4M3,
        DT_INT8_INDEX, DT_INT4_INDEX, DT_NF4,  DT_NVFP4, DT_INT4_SORTED, DT_INT8_SORTED};
    static struct layer l;
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        check(t, &l, types[i]);
    static const int32_t tokens[] = {19, 40, MAX_T};
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        check_mma(t, &l, DT_E4M3, tokens[i]);
        check_mma(t, &l, DT_NVFP4, tokens[i]);
        check_mma(t, &l, DT_NF4, tokens[i]);
    }
}
