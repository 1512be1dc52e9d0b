/* Inputs and buffers for the op tests: deterministic values, typed loads and stores, views. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/op_cases.h"

float in_f32(uint32_t stream, int64_t i, int64_t j)
{
    uint64_t h = (uint64_t)stream * 0x9e3779b97f4a7c15U + (uint64_t)i * 0xbf58476d1ce4e5b9U +
                 (uint64_t)j * 0x94d049bb133111ebU;
    h = (h ^ h >> 31) * 0xd6e8feb86659fd93U;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93U;
    return (float)((int32_t)(h >> 40) - (1 << 23)) * 0x1p-23f;
}

void store_at(void *dst, enum dtype t, size_t i, float v)
{
    uint16_t h = t == DT_F16 ? f16_of_f32(v) : bf16_of_f32(v);
    if (t == DT_F32)
        memcpy((char *)dst + 4 * i, &v, 4);
    else if (t == DT_E4M3)
        ((uint8_t *)dst)[i] = e4m3_of_f32(v);
    else
        memcpy((char *)dst + 2 * i, &h, 2);
}

float load_at(const void *src, enum dtype t, size_t i)
{
    uint16_t h;
    float v;
    if (t == DT_E4M3)
        return f32_of_e4m3(((const uint8_t *)src)[i]);
    if (t == DT_F32) {
        memcpy(&v, (const char *)src + 4 * i, 4);
        return v;
    }
    memcpy(&h, (const char *)src + 2 * i, 2);
    return t == DT_F16 ? f32_of_f16(h) : f32_of_bf16(h);
}

bool op_kv_scaled(enum dtype t)
{
    return t == DT_I8 || t == DT_E4M3;
}

double op_kv_element(const void *data, enum dtype t, size_t i)
{
    if (t == DT_I8)
        return ((const int8_t *)data)[i];
    if (t != DT_E4M3)
        return load_at(data, t, i);
    int b = ((const uint8_t *)data)[i], exp = b >> 3 & 15, man = b & 7;
    double v = exp ? ldexp(8 + man, exp - 10) : ldexp(man, -9);
    return (b & 0x7f) == 0x7f ? NAN : b & 0x80 ? -v : v;
}

float stored_f32(enum dtype t, float v)
{
    char b[4];
    store_at(b, t, 0, v);
    return load_at(b, t, 0);
}

float *in_rows(uint32_t stream, int32_t first, int32_t n, int32_t cols)
{
    float *x = malloc(((size_t)n * (size_t)cols + 1) * sizeof *x);
    for (int32_t i = 0; x && i < n; i++)
        for (int32_t j = 0; j < cols; j++)
            x[(size_t)i * (size_t)cols + (size_t)j] = in_f32(stream, first + i, j);
    return x;
}

struct op_env env_open(struct backend *be)
{
    return (struct op_env){.be = be, .ops = backend_ops_of(be), .st = ST_OK};
}

enum status env_close(struct op_env *e)
{
    for (int i = 0; i < e->n_bufs; i++)
        e->ops->free(e->be, e->bufs[i]);
    for (int i = 0; i < e->n_weights; i++)
        e->ops->free_weight(e->be, e->weights[i]);
    return e->st;
}

static struct view view_of(struct op_env *e, int32_t rows, int32_t cols, int32_t stride, size_t off,
                           enum dtype t, const void *data)
{
    struct view v = {.off = off, .rows = rows, .cols = cols, .stride = stride, .dtype = t};
    size_t bytes = off + (size_t)rows * (size_t)stride * dtype_size(t) + 1;
    if (e->st != ST_OK)
        return v;
    e->st = e->ops->alloc(e->be, bytes, MEM_DEVICE, &v.buf);
    if (e->st != ST_OK)
        return v;
    e->bufs[e->n_bufs++] = v.buf;
    if (data)
        e->st = e->ops->write(e->be, v, data);
    return v;
}

struct view env_view(struct op_env *e, int32_t rows, int32_t cols, enum dtype t, const void *data)
{
    return view_of(e, rows, cols, cols + 3, 64, t, data);
}

struct view env_packed(struct op_env *e, int32_t rows, int32_t cols, enum dtype t, const void *data)
{
    return view_of(e, rows, cols, cols, 0, t, data);
}

struct weight *env_vector(struct op_env *e, const float *data, int32_t n)
{
    struct weight_src src = {.name = "vector",
                             .vector = true,
                             .cols = n,
                             .n_parts = 1,
                             .part = {{.data = data, .dtype = DT_F32, .rows = 1}}};
    struct weight *w = NULL;
    if (e->st == ST_OK)
        e->st = e->ops->load_weight(e->be, &src, &w);
    if (w)
        e->weights[e->n_weights++] = w;
    return w;
}

struct weight *env_matrix(struct op_env *e, enum dtype t, uint32_t stream, int32_t n, int32_t k,
                          int32_t n_slices, const float *bias)
{
    size_t row = (size_t)k * dtype_size(t);
    char *data = malloc((size_t)n * row + 1);
    struct weight_src src = {.name = "matrix",
                             .cols = k,
                             .n_parts = 1,
                             .part = {{.data = data,
                                       .row_bytes = row,
                                       .dtype = t,
                                       .rows = n,
                                       .bias = bias,
                                       .bias_dtype = DT_F32}},
                             .n_slices = n_slices};
    struct weight *w = NULL;
    for (int32_t i = 0; data && i < n * k; i++)
        store_at(data, t, (size_t)i, in_f32(stream, i / k, i % k));
    for (int32_t i = 0; i < n_slices; i++)
        src.slice_end[i] = (int32_t)((int64_t)k * (i + 1) / n_slices);
    if (e->st == ST_OK)
        e->st = e->ops->load_weight(e->be, &src, &w);
    if (w)
        e->weights[e->n_weights++] = w;
    free(data);
    return w;
}

static enum status check_operand(const struct op_env *e, const struct weight *w,
                                 enum operand_source from)
{
    if (!e->ops->reads_operand || !e->ops->reads_operand(e->be, w, from))
        FAIL(ST_UNSUPPORTED, "the matrix has no operand of source %d", (int)from);
    return ST_OK;
}

struct view env_operand(struct op_env *e, struct view v, const struct weight *w,
                        enum operand_source from)
{
    ENV_RUN(e, check_operand(e, w, from));
    v.reader = w;
    return v;
}

void env_read(struct op_env *e, void *dst, struct view v)
{
    if (e->st == ST_OK)
        e->st = e->ops->read(e->be, dst, v);
}

const char *op_case_name(const struct op_case *c)
{
    static char s[256];
    int n = snprintf(
        s, sizeof s,
        "%s rows %d k %d n %d %s slices %d variant %d bias %d parts %d act %d heads %d/%d d "
        "%d rot %d "
        "per %d+%d window %d block %d seqs %d past %d norm %d",
        c->op->name, c->rows, c->k, c->n, dtype_name(c->dtype), c->n_slices, c->variant, c->bias,
        c->n_parts, (int)c->act, c->n_q, c->n_kv, c->d, c->rot, c->q_per_kv, c->q_offset, c->window,
        c->block_len, c->n_seqs, c->past, c->qk_norm);
    if (c->n_experts && n < (int)sizeof s)
        snprintf(s + n, sizeof s - (size_t)n, " experts %d/%d", c->top_k, c->n_experts);
    if (c->cap > 0 && n < (int)sizeof s)
        snprintf(s + n, sizeof s - (size_t)n, " cap %g", (double)c->cap);
    return s;
}
