#include "ops/moe_layers.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "common/quant.h"
#include "quant_blocks.h"

struct view view_of(struct backend *be, int32_t rows, int32_t cols, enum dtype t, const void *data)
{
    struct view v = {.rows = rows, .cols = cols, .stride = cols, .dtype = t};
    const struct backend_ops *op = backend_ops_of(be);
    size_t bytes = (size_t)rows * (size_t)cols * dtype_size(t);
    cr_assert_eq(op->alloc(be, bytes + 64, MEM_DEVICE, &v.buf), ST_OK);
    if (data)
        cr_assert_eq(op->write(be, v, data), ST_OK);
    return v;
}

static size_t row_bytes(enum dtype t, int32_t cols)
{
    const struct quant_form *f = quant_form(t);
    if (is_indexed(t) || has_levels(t))
        return (size_t)cols;
    return f ? (size_t)cols / (size_t)f->block * (size_t)f->n_bytes : (size_t)cols * dtype_size(t);
}

static bool has_scales(enum dtype t)
{
    return t == DT_E4M3 || is_indexed(t) || has_levels(t);
}

enum { GROUPS = 5 };

/* Columns of a scale. */
static int32_t scale_block(enum dtype t)
{
    return t == DT_E4M3 ? FP8_BLOCK : t == DT_NVFP4 ? 16 : 64;
}

static int32_t n_scales(enum dtype t, int32_t cols)
{
    return is_indexed(t) ? GROUPS : scale_blocks(scale_block(t), 0, cols);
}

/* The scales of `rows` rows of tensor i. */
static void make_scales(struct layer *l, int i, int32_t rows, int32_t cols)
{
    size_t n = (size_t)rows * (size_t)n_scales(l->type, cols);
    float size = l->type == DT_INT8_INDEX || l->type == DT_INT8_SORTED   ? 4e-4f
                 : l->type == DT_INT4_INDEX || l->type == DT_INT4_SORTED ? 2e-3f
                 : l->type == DT_E4M3                                    ? 0.03f
                                                                         : 0.1f;
    l->scale[i] = malloc(n * sizeof(float));
    l->min[i] = malloc(n * sizeof(float));
    l->small[i] = malloc(n);
    l->index[i] = malloc((size_t)l->E * (size_t)cols * sizeof(uint16_t));
    for (size_t j = 0; j < n; j++) {
        l->scale[i][j] = size * (1 + 0.05f * (float)(j * 41 % 83));
        l->min[i][j] = -0.02f + 0.0004f * (float)(j * 7 % 53);
        l->small[i][j] = is_sorted(l->type) ? (uint8_t)(j * 41 % 16)
                                            : e4m3_of_f32(0.3f + 0.01f * (float)(j * 41 % 83));
    }
    for (int32_t e = 0; e < l->E; e++) /* gate and up of every second expert have the same */
        for (int32_t k = 0; k < cols; k++)
            l->index[i][e * cols + k] =
                (uint16_t)((k * 7 + k / 11 + (e % 2 ? 0 : i) + 3 * e) % GROUPS);
}

/* The part, whose rows begin at `row` of tensor i with `cols` columns, from column `from` on. */
static void add_scales(const struct layer *l, int i, size_t row, int32_t from, int32_t cols,
                       struct weight_part *p)
{
    size_t n = has_scales(l->type) ? (size_t)n_scales(l->type, cols) : 0;
    if (n == 0)
        return;
    p->scale_stride = n;
    p->block = has_levels(l->type) ? scale_block(l->type) : 0;
    p->factor = 0.05f;
    p->divisor = 1.0f;
    size_t at = row * n;
    if (is_indexed(l->type)) {
        size_t e = row / (size_t)(i == 2 ? l->D : l->F);
        p->index = l->index[i] + e * (size_t)cols + from;
        p->zero = (const int8_t *)l->small[i] + at;
    } else {
        p->skip = from % scale_block(l->type);
        at += (size_t)(from / scale_block(l->type));
    }
    p->scale = l->scale[i] + at;
    p->min = l->min[i] + at;
    p->small_scale = l->small[i] + at;
}

static unsigned char *random_weights(enum dtype t, size_t n, uint32_t seed)
{
    const struct quant_form *f = quant_form(t);
    if (f)
        return quant_random_blocks(t, n, f->block == QUANT_BLOCK_MAX ? 3e-4f : 0.01f, seed);
    unsigned char *p = malloc(n * (has_scales(t) ? 1 : dtype_size(t)));
    cr_assert_not_null(p);
    for (size_t i = 0; has_scales(t) && i < n; i++) {
        uint32_t v = quant_draw(&seed);
        p[i] = (unsigned char)(t == DT_E4M3                                ? (v & 128) | v % 64
                               : t == DT_INT8_INDEX || t == DT_INT8_SORTED ? v & 255
                                                                           : v & 15);
    }
    if (has_scales(t))
        return p;
    for (size_t i = 0; i < n; i++) {
        float v = ((float)(quant_draw(&seed) % 2001) - 1000) * 2e-4f;
        uint16_t h = t == DT_F16 ? f16_of_f32(v) : bf16_of_f32(v);
        memcpy(p + i * dtype_size(t), t == DT_F32 ? (void *)&v : (void *)&h, dtype_size(t));
    }
    return p;
}

struct layer make_layer(enum dtype t, int32_t E, int32_t k, int32_t D, int32_t F, int32_t T)
{
    struct layer l = {.type = t, .E = E, .k = k, .D = D, .F = F, .T = T};
    l.unit = quant_form(t) ? quant_form(t)->block : 1;
    for (uint32_t i = 0; i < 3; i++)
        l.data[i] = random_weights(t, (size_t)E * (size_t)D * (size_t)F, 17 + i);
    for (int i = 0; i < 3 && has_scales(t); i++)
        make_scales(&l, i, E * (i == 2 ? D : F), i == 2 ? F : D);
    l.x = malloc((size_t)T * (size_t)D * sizeof *l.x);
    l.share = malloc((size_t)T * (size_t)k * sizeof *l.share);
    l.ids = malloc((size_t)T * (size_t)k * sizeof *l.ids);
    for (int32_t i = 0; i < T * D; i++)
        l.x[i] = (float)((i * 37 + 11) % 101) * 0.013f - 0.6f;
    for (int32_t i = 0; i < T * k; i++) {
        l.share[i] = (float)(i * 29 % 53 + 1) * 0.017f;
        l.ids[i] = (i / k * 3 + (k - 1 - i % k)) % E;
    }
    return l;
}

void free_layer(struct layer *l)
{
    for (int i = 0; i < 3; i++) {
        free(l->data[i]);
        free(l->scale[i]);
        free(l->min[i]);
        free(l->small[i]);
        free(l->index[i]);
    }
    free(l->x);
    free(l->share);
    free(l->ids);
}

/* Column where slice s of the whole model begins. */
static int32_t border(const struct layer *l, int32_t s)
{
    return (int32_t)((int64_t)s * (l->F / l->unit) / N_SLICES) * l->unit;
}

/* Rows [first, +n) of expert e's gate or up. */
static struct weight_part rows_of(const struct layer *l, int i, int32_t e, int32_t first, int32_t n)
{
    size_t bytes = row_bytes(l->type, l->D), row = (size_t)e * (size_t)l->F + (size_t)first;
    struct weight_part p = {
        .data = l->data[i] + row * bytes, .row_bytes = bytes, .dtype = l->type, .rows = n};
    add_scales(l, i, row, 0, l->D, &p);
    return p;
}

static struct weight_src gate_up_of(const struct layer *l, int32_t e, int32_t first, int32_t n)
{
    return (struct weight_src){.name = "gate and up",
                               .cols = l->D,
                               .n_parts = 2,
                               .part = {rows_of(l, 0, e, first, n), rows_of(l, 1, e, first, n)},
                               .n_slices = 1,
                               .slice_end = {l->D}};
}

/* Slices [s, s + n_slices) of expert e's down. */
static struct weight_src down_of(const struct layer *l, int32_t e, int32_t s, int32_t n_slices)
{
    size_t bytes = row_bytes(l->type, l->F);
    int32_t from = border(l, s);
    struct weight_src src = {.name = "down", .n_parts = 1, .n_slices = n_slices};
    src.cols = border(l, s + n_slices) - from;
    for (int32_t i = 0; i < n_slices; i++)
        src.slice_end[i] = border(l, s + i + 1) - from;
    src.part[0] = (struct weight_part){.data = l->data[2] + (size_t)e * (size_t)l->D * bytes +
                                               row_bytes(l->type, from),
                                       .row_bytes = bytes,
                                       .dtype = l->type,
                                       .rows = l->D};
    add_scales(l, 2, (size_t)e * (size_t)l->D, from, l->F, &src.part[0]);
    return src;
}

/* One rank's sources [E] each; the caller frees them. */
struct sources {
    struct weight_src *gate_up, *down;
    int32_t F;
};

static struct sources sources_of(const struct layer *l, int rank, int world)
{
    int32_t n_slices = N_SLICES / world, s = rank * n_slices, first = border(l, s);
    struct sources src = {.F = border(l, s + n_slices) - first};
    src.gate_up = calloc((size_t)l->E, sizeof *src.gate_up);
    src.down = calloc((size_t)l->E, sizeof *src.down);
    for (int32_t e = 0; e < l->E; e++) {
        src.gate_up[e] = gate_up_of(l, e, first, src.F);
        src.down[e] = down_of(l, e, s, n_slices);
    }
    return src;
}

static void free_sources(struct sources *src)
{
    free(src->gate_up);
    free(src->down);
}

struct loaded_layer load_layer(struct backend *be, const struct layer *l, int rank, int world)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct sources src = sources_of(l, rank, world);
    struct loaded_layer out;
    cr_assert_eq(op->load_stack(be, src.gate_up, l->E, &out.gate_up), ST_OK, "%s", status_detail());
    cr_assert_eq(op->load_stack(be, src.down, l->E, &out.down), ST_OK, "%s", status_detail());
    out.ml = (struct moe_layer){.n_experts = l->E,
                                .top_k = l->k,
                                .hidden = l->D,
                                .ffn = src.F,
                                .scale = 1,
                                .act = ACT_SILU,
                                .gate_up = out.gate_up,
                                .down = out.down};
    free_sources(&src);
    return out;
}

size_t layer_bytes(struct backend *be, const struct layer *l, int rank, int world)
{
    struct sources src = sources_of(l, rank, world);
    size_t bytes = backend_ops_of(be)->stack_bytes(be, src.gate_up, l->E) +
                   backend_ops_of(be)->stack_bytes(be, src.down, l->E);
    free_sources(&src);
    return bytes;
}

void unload_layer(struct backend *be, struct loaded_layer *loaded)
{
    backend_ops_of(be)->free_weight(be, loaded->gate_up);
    backend_ops_of(be)->free_weight(be, loaded->down);
}

/* out [T, D]: this rank's part, by the op. */
static void run_rank(struct backend *be, const struct layer *l, int rank, int world, float *out)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct loaded_layer loaded = load_layer(be, l, rank, world);
    int32_t floats = (int32_t)(op->moe_scratch(be, &loaded.ml, l->T) / sizeof(float));
    struct view v[] = {view_of(be, l->T, l->D, DT_F32, l->x),
                       view_of(be, l->T, l->k, DT_I32, l->ids),
                       view_of(be, l->T, l->k, DT_F32, l->share),
                       view_of(be, 1, floats, DT_F32, NULL), view_of(be, l->T, l->D, DT_F32, NULL)};
    cr_assert_eq(op->moe_ffn(be, &loaded.ml, v[0], v[1], v[2], v[3], v[4]), ST_OK, "%s",
                 status_detail());
    cr_assert_eq(op->read(be, out, v[4]), ST_OK, "%s", status_detail());
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        op->free(be, v[i].buf);
    unload_layer(be, &loaded);
}

void run_world(struct backend *be, const struct layer *l, int world, float *out)
{
    size_t n = (size_t)l->T * (size_t)l->D;
    float *part = malloc((size_t)world * n * sizeof *part);
    for (int r = 0; r < world; r++)
        run_rank(be, l, r, world, part + (size_t)r * n);
    for (int m = world / 2; m > 0; m /= 2)
        for (size_t r = 0; r < (size_t)m; r++)
            for (size_t i = 0; i < n; i++)
                part[r * n + i] = part[2 * r * n + i] + part[(2 * r + 1) * n + i];
    memcpy(out, part, n * sizeof *out);
    free(part);
}

/* row [N] = x [K] times w; act: then the activation, row [N / 2]. */
static void product(struct backend *be, const struct weight_src *src, const float *x, bool act,
                    float *row)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct weight *w;
    int32_t n = 0;
    for (int32_t i = 0; i < src->n_parts; i++)
        n += src->part[i].rows;
    cr_assert_eq(op->load_weight(be, src, &w), ST_OK, "%s", status_detail());
    struct view in = view_of(be, 1, src->cols, DT_F32, x), to = view_of(be, 1, n, DT_F32, NULL);
    struct view h = view_of(be, 1, n / 2, DT_F32, NULL);
    cr_assert_eq(op->linear(be, w, in, to), ST_OK);
    if (act)
        cr_assert_eq(op->act_mul(be, ACT_SILU, to, h), ST_OK);
    cr_assert_eq(op->read(be, row, act ? h : to), ST_OK);
    op->free(be, in.buf);
    op->free(be, to.buf);
    op->free(be, h.buf);
    op->free_weight(be, w);
}

void composed(struct backend *be, const struct layer *l, int32_t t, float *out)
{
    size_t D = (size_t)l->D;
    float *acc = calloc(N_SLICES * D, sizeof *acc), *part = malloc(D * sizeof *part);
    float *h = malloc((size_t)l->F * sizeof *h);
    for (int32_t e = 0; e < l->E; e++)
        for (int32_t i = 0; i < l->k; i++) {
            if (l->ids[t * l->k + i] != e)
                continue;
            struct weight_src gate_up = gate_up_of(l, e, 0, l->F);
            product(be, &gate_up, l->x + (size_t)t * D, true, h);
            for (int32_t s = 0; s < N_SLICES; s++) {
                struct weight_src down = down_of(l, e, s, 1);
                product(be, &down, h + border(l, s), false, part);
                for (size_t c = 0; c < D; c++)
                    acc[(size_t)s * D + c] =
                        fmaf(l->share[t * l->k + i], part[c], acc[(size_t)s * D + c]);
            }
        }
    for (size_t m = N_SLICES / 2; m > 0; m /= 2)
        for (size_t s = 0; s < m; s++)
            for (size_t c = 0; c < D; c++)
                acc[s * D + c] = acc[2 * s * D + c] + acc[(2 * s + 1) * D + c];
    memcpy(out, acc, D * sizeof *out);
    free(acc);
    free(part);
    free(h);
}

void same_bits(const struct layer *l, const float *got, const float *want, size_t n,
               const char *what, int number)
{
    for (size_t i = 0; i < n; i++)
        if (bits_of_f32(got[i]) != bits_of_f32(want[i]))
            cr_assert_fail("%s experts %d/%d, %s %d: row %zu column %zu: %a, not %a",
                           dtype_name(l->type), l->k, l->E, what, number, i / (size_t)l->D,
                           i % (size_t)l->D, (double)got[i], (double)want[i]);
}

void check_order(struct backend *be, struct backend *plain, const struct layer *l, const char *what)
{
    size_t n = (size_t)l->T * (size_t)l->D;
    float *got = malloc(n * sizeof *got), *want = malloc((size_t)l->D * sizeof *want), size = 0;
    run_world(be, l, 1, got);
    for (int32_t t = 0; t < l->T; t += l->T / 2 + 1) {
        composed(plain, l, t, want);
        same_bits(l, got + (size_t)t * (size_t)l->D, want, (size_t)l->D, what, t);
    }
    for (size_t i = 0; i < n; i++)
        size = fmaxf(size, fabsf(got[i]));
    cr_assert(size > 1e-4f && size < 1e4f, "results of size %g test nothing", (double)size);
    free(got);
    free(want);
}

void check_worlds(struct backend *be, const struct layer *l)
{
    size_t n = (size_t)l->T * (size_t)l->D;
    float *one = malloc(n * sizeof *one), *got = malloc(n * sizeof *got);
    run_world(be, l, 1, one);
    for (int world = 2; world <= N_SLICES; world *= 2) {
        run_world(be, l, world, got);
        same_bits(l, got, one, n, "world", world);
    }
    for (int32_t t = 0; t < l->T; t += l->T / 8 + 1) {
        struct layer alone = *l;
        alone.T = 1;
        alone.x += (size_t)t * (size_t)l->D;
        alone.ids += (size_t)t * (size_t)l->k;
        alone.share += (size_t)t * (size_t)l->k;
        run_world(be, &alone, 1, got);
        same_bits(l, got, one + (size_t)t * (size_t)l->D, (size_t)l->D, "token alone", t);
    }
    free(one);
    free(got);
}

void route(struct backend *be, const struct moe_layer *ml, const float *logits, int32_t T,
           int32_t *ids, float *weights)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct view v[] = {view_of(be, T, ml->n_experts, DT_F32, logits),
                       view_of(be, T, ml->top_k, DT_I32, NULL),
                       view_of(be, T, ml->top_k, DT_F32, NULL)};
    cr_assert_eq(op->moe_route(be, ml, v[0], v[1], v[2]), ST_OK);
    cr_assert_eq(op->read(be, ids, v[1]), ST_OK);
    cr_assert_eq(op->read(be, weights, v[2]), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        op->free(be, v[i].buf);
}

void check_strange_routers(struct backend *be)
{
    const float inf = INFINITY;
    const float logits[4][5] = {{1, 2, 2, 2, 1},
                                {0, -inf, 0, -inf, -inf},
                                {3, 4, NAN, 5, NAN},
                                {-1e30f, -2e30f, 1e30f, 0, -0.0f}};
    const int32_t want[4][3] = {{1, 2, 3}, {0, 2, 1}, {2, 4, 3}, {2, 3, 4}};
    for (int renormalise = 0; renormalise < 2; renormalise++) {
        struct moe_layer ml = {
            .n_experts = 5, .top_k = 3, .scale = 1, .renormalise = renormalise != 0};
        int32_t ids[4][3];
        float w[4][3];
        route(be, &ml, logits[0], 4, ids[0], w[0]);
        for (int t = 0; t < 4; t++)
            for (int i = 0; i < 3; i++)
                cr_assert_eq(ids[t][i], want[t][i], "row %d: expert %d is %d", t, i, ids[t][i]);
        cr_assert(w[0][0] == w[0][1] && w[0][1] == w[0][2] && w[0][0] > 0.2f);
        cr_assert(w[1][0] == 0.5f && w[1][1] == 0.5f && w[1][2] == 0);
        for (int i = 0; i < 3; i++)
            cr_assert(isnan(w[2][i]), "a NaN in the router must be seen");
        cr_assert(w[3][0] == 1 && w[3][1] == 0 && w[3][2] == 0);
    }
}

void check_stacks_that_cannot_be(struct backend *be)
{
    const struct backend_ops *op = backend_ops_of(be);
    static const float data[64];
    struct weight_src src[2] = {{.name = "experts",
                                 .cols = 8,
                                 .n_parts = 1,
                                 .part = {{.data = data, .row_bytes = 32, .rows = 4}},
                                 .n_slices = 1,
                                 .slice_end = {8}}};
    struct weight *w;
    src[1] = src[0];
    cr_assert_eq(op->load_stack(be, src, 2, &w), ST_OK);
    op->free_weight(be, w);
    cr_assert_eq(op->load_stack(be, src, 0, &w), ST_RANGE);
    cr_assert_eq(op->load_stack(be, src, MOE_MAX_EXPERTS + 1, &w), ST_RANGE);
    src[1].part[0].dtype = DT_F16;
    cr_assert_eq(op->load_stack(be, src, 2, &w), ST_UNSUPPORTED);
    cr_assert(strstr(status_detail(), "experts"), "%s", status_detail());
    src[1] = src[0];
    src[1].part[0].bias = data;
    cr_assert_eq(op->load_stack(be, src, 2, &w), ST_UNSUPPORTED);
}
