/* The rows of bench_gpu --rows, their shapes and the least work of each. */
#include <stdio.h>

#include "common/quant.h"
#include "gpu/bench_row.h"

const struct sizes row_sizes = {
    14336, 4096, 16,        32,     128,          128,         8,    128,
    128,   64,   16,        512,    64,           128,         64,   8,
    64,    128,  {32, 128}, {4, 8}, {2880, 2048}, {2880, 768}, 4096, &bench_shapes[1]};
const struct sizes row_sizes_tiny = {
    64, 512, 2, 4, 16, 16, 2,      4,      16,         8,          2,   32,
    16, 16,  4, 2, 64, 16, {4, 4}, {2, 2}, {256, 256}, {256, 256}, 256, &bench_tiny_shapes[0]};

static const struct {
    enum dtype type;
    const char *name;
} types[] = {{DT_Q8_0, "q8_0"},
             {DT_Q4_K, "q4_k"},
             {DT_Q6_K, "q6_k"},
             {DT_MXFP4, "mxfp4"},
             {DT_INT4_ZERO_BF16, "int4_zero_bf16"},
             {DT_E4M3, "e4m3"},
             {DT_INT4_INDEX, "int4_index"},
             {DT_INT4_SORTED, "int4_sorted"},
             {DT_NF4, "nf4"}};

#define ROW(at, ...)                                                                               \
    do {                                                                                           \
        *(at) = (struct row)__VA_ARGS__;                                                           \
    } while (0)

size_t row_list(struct row *out)
{
    static const int32_t few[] = {1, 8, 512}, delta[][2] = {{1, 1}, {64, 1}, {1, 512}};
    static const int32_t sinks[][3] = {{1, 4096, 1}, {64, 1024, 1}, {1, 2048, 2048}};
    static const int32_t latent[] = {1, 32}, ends[] = {1, 512}, heads[] = {1, 64};
    static const int32_t experts[] = {1, 64, 512}, seqs[] = {1, 16, 32};
    static const char *const parts[] = {"norm and qkv", "attention and o", "norm and ffn", "layer"};
    struct row *r = out;
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        for (size_t j = 0; j < ARRAY_LEN(few); j++, r++) {
            ROW(r, {"", ROW_LINEAR, types[i].type, 1, few[j], 0, 0});
            snprintf(r->name, sizeof r->name, "linear %s %d", types[i].name, few[j]);
        }
    for (int mamba = 0; mamba < 2; mamba++)
        for (size_t j = 0; j < 2 * ARRAY_LEN(delta); j++, r++) {
            const int32_t *d = delta[j / 2];
            ROW(r, {"", j % 2 ? ROW_DELTA_RULE : ROW_DELTA_CONV, DT_F32, d[0], d[1], 0, mamba});
            snprintf(r->name, sizeof r->name, "%s %s %d x %d", mamba ? "mamba2" : "delta net",
                     j % 2 ? "rule" : "conv", d[0], d[1]);
        }
    for (size_t j = 0; j < ARRAY_LEN(ends); j++, r++) {
        ROW(r, {"", ROW_TO_LATENT, DT_BF16, 1, ends[j], ends[j], 0});
        snprintf(r->name, sizeof r->name, "latent to cache %d", ends[j]);
    }
    for (size_t j = 0; j < ARRAY_LEN(latent); j++, r++) {
        ROW(r, {"", ROW_LATENT, DT_BF16, latent[j], 1, 4096, 0});
        snprintf(r->name, sizeof r->name, "latent attention %d x 4096", latent[j]);
    }
    for (size_t j = 0; j < ARRAY_LEN(heads); j++, r++) {
        ROW(r, {"", ROW_HEADS, DT_BF16, 1, heads[j], 0, 0});
        snprintf(r->name, sizeof r->name, "heads linear %d", heads[j]);
    }
    for (int window = 0; window < 2; window++)
        for (size_t j = 0; j < ARRAY_LEN(sinks); j++, r++) {
            const int32_t *s = sinks[j];
            ROW(r, {"", ROW_SINKS, DT_BF16, s[0], s[2], s[1], window});
            snprintf(r->name, sizeof r->name, "sinks %s%d x %d of %d", window ? "window " : "",
                     s[0], s[2], s[1]);
        }
    for (int plain = 0; plain < 2; plain++)
        for (size_t j = 0; j < ARRAY_LEN(experts); j++, r++) {
            ROW(r, {"", ROW_EXPERTS, plain ? DT_BF16 : DT_MXFP4, 1, experts[j], 0, plain});
            snprintf(r->name, sizeof r->name, "experts %s %d", plain ? "bf16" : "mxfp4",
                     experts[j]);
        }
    for (int grid = 0; grid < 2; grid++)
        for (size_t j = 0; j < ARRAY_LEN(ends); j++, r++) {
            ROW(r, {"", ROW_ROUND, DT_F32, 1, ends[j], 0, grid});
            snprintf(r->name, sizeof r->name, "round input %s %d", grid ? "e4m3" : "int8", ends[j]);
        }
    for (int part = PART_QKV; part <= PART_LAYER; part++)
        for (size_t j = 0; j < ARRAY_LEN(seqs); j++, r++) {
            ROW(r, {"", ROW_DENSE, DT_BF16, seqs[j], 1, 1024, part});
            snprintf(r->name, sizeof r->name, "%s of 8B, %d sequences", parts[part], seqs[j]);
        }
    return (size_t)(r - out);
}

double row_bits_of(enum dtype t)
{
    if (t == DT_E4M3)
        return 8 + 32.0 / FP8_BLOCK;
    if (t == DT_INT4_INDEX)
        return 4 + 64.0 / INDEX_GROUP; /* scale and minimum */
    if (t == DT_INT4_SORTED)
        return 4 + 40.0 / INDEX_GROUP; /* scale and zero point */
    if (t == DT_NF4)
        return 4 + 32.0 / LEVEL_BLOCK;
    if (t == DT_MXFP4)
        return 4.5; /* the exponent is a bf16 there */
    if (t == DT_INT4_ZERO_BF16)
        return 5; /* the zero point has 16 bits there */
    const struct quant_form *f = quant_form(t);
    return f ? 8.0 * f->n_bytes / f->block : 8.0 * (double)dtype_size(t);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

void row_work(const struct row *r, const struct sizes *z, double *bytes, double *flops)
{
    double t = (double)r->seqs * r->tokens, C, n_k, n_v, d_k, d_v, seen, pairs, d, used;
    int e = r->variant;
    switch (r->kind) {
    case ROW_LINEAR:
        *bytes = (double)z->n * z->k * row_bits_of(r->type) / 8 + 4 * t * (z->n + z->k);
        *flops = 2 * t * z->n * z->k;
        return;
    case ROW_DELTA_CONV:
    case ROW_DELTA_RULE:
        n_k = e ? z->mamba_k : z->delta_k;
        n_v = e ? z->mamba_v : z->delta_v;
        d_k = e ? z->mamba_d_k : z->d_k;
        d_v = e ? z->mamba_d_v : z->d_v;
        C = 2 * n_k * d_k + n_v * d_v;
        *bytes = r->kind == ROW_DELTA_CONV
                     ? 8 * t * C + 8.0 * r->seqs * 3 * C + 16 * C
                     : 8.0 * r->seqs * n_v * d_k * d_v + 4 * t * (C + n_v * d_v);
        *flops = r->kind == ROW_DELTA_CONV ? 8 * t * C : (e ? 4 : 6) * t * n_v * d_k * d_v;
        return;
    case ROW_TO_LATENT:
        *bytes = t * (6 * (z->latent + z->rot) + 8 * z->latent_q * z->rot);
        *flops = 0;
        return;
    case ROW_LATENT:
        d = z->latent + z->rot;
        *bytes = 2 * t * d * r->keys + 4 * t * z->latent_q * (d + z->latent);
        *flops = 2 * t * z->latent_q * r->keys * (d + z->latent);
        return;
    case ROW_HEADS:
        *bytes = z->latent_q * (2.0 * z->latent * z->nope + 4 * t * (z->latent + z->nope));
        *flops = 2 * t * z->latent_q * z->latent * z->nope;
        return;
    case ROW_SINKS:
        seen = e ? least(z->window, r->keys) : r->keys;
        pairs = t * (r->tokens == 1 || e ? seen : r->tokens / 2.0);
        *bytes = 4.0 * r->seqs * z->n_kv * z->d * (r->tokens > 1 ? r->keys : seen) +
                 8 * t * z->n_q * z->d;
        *flops = 4.0 * z->n_q * z->d * pairs;
        return;
    case ROW_EXPERTS:
        used = least(z->experts[e], t * z->top_k[e]);
        *bytes =
            used * 3 * z->hidden[e] * z->ffn[e] * row_bits_of(r->type) / 8 + 8 * t * z->hidden[e];
        *flops = 6 * t * z->top_k[e] * z->hidden[e] * z->ffn[e];
        return;
    case ROW_ROUND:
        *bytes = 8 * t * z->round;
        *flops = 0;
        return;
    case ROW_DENSE:
        dense_work(r, z->dense, bytes, flops);
        return;
    }
}
