/* Kernels over one row: one text for all instruction sets.  Each table's file includes this and is
 * compiled with its own flags; the loops are written in LANES lanes so that the compiler's vectors
 * and the scalar code do the same IEEE operations in the same order. */
#ifndef BACKENDS_CPU_ROW_KERNELS_H
#define BACKENDS_CPU_ROW_KERNELS_H

#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/kv_types.h"
#include "backends/cpu/row_sums.h"
#include "backends/cpu/stream_kernels.h"
#include "backends/exact_math.h"

static inline void scale_rms(const float *x, const float *w, float eps, float *out, int n)
{
    float r = 1.0f / sqrtf(sum_of_squares(x, 0.0f, n) / (float)n + eps);
    for (int i = 0; i < n; i++)
        out[i] = x[i] * r * w[i];
}

static inline void unit_rms(float *x, float eps, int n)
{
    float r = 1.0f / sqrtf(sum_of_squares(x, 0.0f, n) / (float)n + eps);
    for (int i = 0; i < n; i++)
        x[i] = x[i] * r;
}

static void row_add_rms_norm(float *resid, const float *x, const float *x_bias, const float *w,
                             float eps, float *out, int n)
{
    if (x && x_bias)
        for (int i = 0; i < n; i++)
            resid[i] += x[i] + x_bias[i];
    else if (x)
        for (int i = 0; i < n; i++)
            resid[i] += x[i];
    scale_rms(resid, w, eps, out, n);
}

static void row_layer_norm(const float *x, const float *w, const float *b, float eps, float *out,
                           int n)
{
    float mean = sum_of(x, n) / (float)n;
    float r = 1.0f / sqrtf(sum_of_squares(x, mean, n) / (float)n + eps);
    if (b)
        for (int i = 0; i < n; i++)
            out[i] = fmaf((x[i] - mean) * r, w[i], b[i]);
    else
        for (int i = 0; i < n; i++)
            out[i] = (x[i] - mean) * r * w[i];
}

static void row_activate(enum act act, const float *x, float *out, int n)
{
    switch (act) {
    case ACT_SILU:
        for (int i = 0; i < n; i++)
            out[i] = exact_silu(x[i]);
        break;
    case ACT_GELU:
        for (int i = 0; i < n; i++)
            out[i] = exact_gelu(x[i]);
        break;
    case ACT_GELU_TANH:
        for (int i = 0; i < n; i++)
            out[i] = exact_gelu_tanh(x[i]);
        break;
    case ACT_RELU:
        for (int i = 0; i < n; i++)
            out[i] = exact_relu(x[i]);
        break;
    case ACT_RELU2:
        for (int i = 0; i < n; i++)
            out[i] = exact_relu2(x[i]);
        break;
    }
}

static void row_scale(float *x, float factor, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = factor * x[i];
}

static void row_soft_cap(float *x, float cap, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = exact_soft_cap(x[i], cap);
}

static void row_act_mul(enum act act, const float *g, const float *up, float *out, int n)
{
    switch (act) {
    case ACT_SILU:
        for (int i = 0; i < n; i++)
            out[i] = exact_silu(g[i]) * up[i];
        break;
    case ACT_GELU:
        for (int i = 0; i < n; i++)
            out[i] = exact_gelu(g[i]) * up[i];
        break;
    case ACT_GELU_TANH:
        for (int i = 0; i < n; i++)
            out[i] = exact_gelu_tanh(g[i]) * up[i];
        break;
    case ACT_RELU:
        for (int i = 0; i < n; i++)
            out[i] = exact_relu(g[i]) * up[i];
        break;
    case ACT_RELU2:
        for (int i = 0; i < n; i++)
            out[i] = exact_relu2(g[i]) * up[i];
        break;
    }
}

static void row_clamped_glu(float limit, float alpha, const float *g, const float *up, float *out,
                            int n)
{
    for (int i = 0; i < n; i++) {
        float a = g[i] > limit ? limit : g[i], u = up[i] > limit ? limit : up[i];
        u = u < -limit ? -limit : u;
        out[i] = (u + 1.0f) * gate(a, alpha * a);
    }
}

static void row_add(float *dst, const float *src, float scale, int n)
{
    for (int i = 0; i < n; i++)
        dst[i] = fmaf(scale, src[i], dst[i]);
}

static void row_add_bias(float *x, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        x[i] += b[i];
}

static void row_sigmoid_mul(float *x, const float *z, bool one, int n)
{
    if (one)
        for (int i = 0; i < n; i++)
            x[i] = gate(x[i], z[0]);
    else
        for (int i = 0; i < n; i++)
            x[i] = gate(x[i], z[i]);
}

static float row_squares(const float *x, int n)
{
    return sum_of_squares(x, 0.0f, n);
}

static void row_mul(float *x, float factor, const float *w, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = x[i] * factor * w[i];
}

static void row_conv(const float *const *in, const float *w, size_t w_stride, int taps,
                     const float *bias, float *out, int n)
{
    for (int c = 0; c < n; c += LANES) {
        float acc[LANES] = {0};
        int m = n - c < LANES ? n - c : LANES;
        for (int j = 0; bias && j < m; j++)
            acc[j] = bias[c + j];
        for (int i = 0; i < taps; i++)
            for (int j = 0; j < m; j++)
                acc[j] = fmaf(w[(size_t)i * w_stride + (size_t)(c + j)], in[i][c + j], acc[j]);
        for (int j = 0; j < m; j++)
            out[c + j] = exact_silu(acc[j]);
    }
}

static void row_delta_gates(float *b, float *a, const float *decay, const float *dt, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = gate(1.0f, b[i]);
    for (int i = 0; i < n; i++)
        a[i] = exact_exp(decay[i] * exact_softplus(a[i] + dt[i]));
}

static void row_mamba_gates(float *b, float *a, const float *decay, const float *dt, float dt_min,
                            float dt_max, int n)
{
    for (int i = 0; i < n; i++) {
        float s = exact_softplus(a[i] + dt[i]);
        s = s < dt_min ? dt_min : s;
        b[i] = s > dt_max ? dt_max : s;
    }
    for (int i = 0; i < n; i++)
        a[i] = exact_exp(decay[i] * b[i]);
}

static void row_gated_norm(float *x, const float *w, float eps, const float *z, int n)
{
    scale_rms(x, w, eps, x, n);
    for (int i = 0; i < n; i++)
        x[i] = x[i] * exact_silu(z[i]);
}

static void row_rotate_head(const struct head_rot *r, float *x)
{
    int half = r->rot / 2;
    if (r->norm)
        scale_rms(x, r->norm, r->eps, x, r->d);
    else if (r->unit)
        unit_rms(x, r->eps, r->d);
    int step = r->interleaved ? 2 : 1, apart = r->interleaved ? 1 : half;
    for (int i = 0; i < half; i++) {
        float a = x[i * step], b = x[i * step + apart];
        x[i * step] = fmaf(a, r->cos[i], -(b * r->sin[i]));
        x[i * step + apart] = fmaf(a, r->sin[i], b * r->cos[i]);
    }
}

/* Nearest integer, ties to even, cut to [-127, 127]; any value for NaN. */
static inline int8_t i8_of_f32(float x)
{
    const float magic = 0x1.8p23f;
    x = x > 127.0f ? 127.0f : x;
    x = x < -127.0f ? -127.0f : x;
    return (int8_t)(uint8_t)(bits_of_f32(x + magic) & 0xffU);
}

/* The scale is |x|max / the type's greatest value, or NaN where x is not finite; rows too small to invert
 * become zeros. */
static void row_kv_store(enum dtype t, const float *x, int n, void *dst, float *scale)
{
    if (t == DT_F32) {
        for (int i = 0; i < n; i++)
            ((float *)dst)[i] = kv_f32(x[i]);
    } else if (t == DT_F16) {
        for (int i = 0; i < n; i++)
            ((uint16_t *)dst)[i] = kv_f16_of_f32(x[i]);
    } else if (t == DT_BF16) {
        for (int i = 0; i < n; i++)
            ((uint16_t *)dst)[i] = kv_bf16_of_f32(x[i]);
    } else {
        float most = 0.0f, top = t == DT_I8 ? 127.0f : 448.0f;
        bool finite = true;
        for (int i = 0; i < n; i++) {
            float a = x[i] < 0.0f ? -x[i] : x[i];
            most = a > most ? a : most;
            finite = finite && a < INFINITY;
        }
        bool small = most < 0x1p-100f;
        float inv = small ? 0.0f : top / most;
        *scale = !finite ? NAN : small ? 0.0f : most / top;
        if (t == DT_I8)
            for (int i = 0; i < n; i++)
                ((int8_t *)dst)[i] = i8_of_f32(x[i] * inv);
        else
            for (int i = 0; i < n; i++)
                ((uint8_t *)dst)[i] = e4m3_of_f32(x[i] * inv);
    }
}

/* The first split that has keys is taken as it is. */
static void row_attn_merge(float *state, const float *partial, int d)
{
    float *m = &state[d], *l = &state[d + 1];
    if (partial[d + 1] == 0.0f)
        return;
    if (*l == 0.0f) {
        memcpy(state, partial, (size_t)(d + 2) * sizeof *state);
        return;
    }
    float most = partial[d] > *m ? partial[d] : *m;
    float a = exact_exp(*m - most), b = exact_exp(partial[d] - most);
    for (int i = 0; i < d; i++)
        state[i] = fmaf(state[i], a, partial[i] * b);
    *l = fmaf(*l, a, partial[d + 1] * b);
    *m = most;
}

static void row_attn_finish(const float *state, float *out, int d)
{
    float inv = 1.0f / state[d + 1];
    for (int i = 0; i < d; i++)
        out[i] = state[i] * inv;
}

static inline float greatest(const float *x, int n)
{
    float lane[LANES], most = -INFINITY;
    int i = 0;
    for (int j = 0; j < LANES; j++)
        lane[j] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (int j = 0; i + j < n; j++)
        lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (int j = 0; j < LANES; j++)
        most = lane[j] > most ? lane[j] : most;
    return most;
}

/* v is beyond the list's last entry, or the list has room.  Its place is counted, not searched: the
 * comparisons are vectors, and no branch depends on v. */
static inline void topk_insert(struct topk_list *l, float v, int32_t id)
{
    int last = l->n < l->k ? l->n++ : l->k - 1, at = 0;
    for (int i = 0; i < last; i++)
        at += l->val[i] >= v;
    memmove(l->val + at + 1, l->val + at, (size_t)(last - at) * sizeof *l->val);
    memmove(l->id + at + 1, l->id + at, (size_t)(last - at) * sizeof *l->id);
    l->val[at] = v;
    l->id[at] = id;
}

static inline bool any_above(const float *x, float least)
{
    int any = 0;
    for (int j = 0; j < LANES; j++)
        any |= x[j] > least;
    return any;
}

static inline bool any_from(const float *x, float least)
{
    int any = 0;
    for (int j = 0; j < LANES; j++)
        any |= x[j] >= least;
    return any;
}

/* Ids ascend, so an equal later value never moves an earlier one.  NaN is never taken. */
static void topk_take(const float *x, int n, int32_t first_id, struct topk_list *list)
{
    int i = 0;
    while (i < n) {
        bool full = list->n == list->k;
        float last = full ? list->val[list->k - 1] : 0.0f;
        if (i + LANES <= n && !(full ? any_above(x + i, last) : any_from(x + i, list->floor))) {
            i += LANES;
            continue;
        }
        int end = i + LANES < n ? i + LANES : n;
        for (; i < end; i++)
            if (list->n < list->k ? x[i] >= list->floor : x[i] > list->val[list->k - 1])
                topk_insert(list, x[i], first_id + i);
    }
}

enum { FLOOR_GROUPS = 4 * TOPK_MAX };

/* Integers in the order of the floats, -0 below +0; its own inverse. */
static inline int32_t order_of(int32_t bits)
{
    return bits ^ (bits >> 31 & INT32_MAX);
}

/* The greatest of columns i, i + n_groups, ... become group i's; a NaN counts as -INFINITY. */
static inline void group_greatest(const float *x, int n, int n_groups, float *most)
{
    for (int i = 0; i < n_groups; i++)
        most[i] = -INFINITY;
    int c = 0;
    for (; c + n_groups <= n; c += n_groups)
        for (int i = 0; i < n_groups; i++)
            most[i] = x[c + i] > most[i] ? x[c + i] : most[i];
    for (int i = 0; c + i < n; i++)
        most[i] = x[c + i] > most[i] ? x[c + i] : most[i];
}

/* The k-th greatest of 4 k groups' greatest, or a little less, by bisection.  Of logits in random
 * order about 1.2 k are not below it, where a list that begins empty takes k (1 + ln(n / k)). */
static float row_topk_floor(const float *logits, int n, int k)
{
    float most[FLOOR_GROUPS], out;
    int32_t key[FLOOR_GROUPS];
    int n_groups = 4 * k < FLOOR_GROUPS ? 4 * k : FLOOR_GROUPS;
    group_greatest(logits, n, n_groups, most);
    memcpy(key, most, (size_t)n_groups * sizeof *key);
    for (int i = 0; i < n_groups; i++)
        key[i] = order_of(key[i]);
    const float least = -INFINITY, greatest = INFINITY;
    int32_t low, high;
    memcpy(&low, &least, sizeof low);
    memcpy(&high, &greatest, sizeof high);
    low = order_of(low); /* at least k are not below low, or low is -INFINITY */
    high = order_of(high);
    for (int count = 0; low < high && (count < k || count > k + k / 16);) {
        int32_t middle = (int32_t)(((int64_t)low + high + 1) >> 1);
        count = 0;
        for (int i = 0; i < n_groups; i++)
            count += key[i] >= middle;
        if (count >= k)
            low = middle;
        else
            high = middle - 1;
    }
    low = order_of(low);
    memcpy(&out, &low, sizeof out);
    return out;
}

/* lane += e^((x - m) factor) */
static inline void add_exps(const float *x, int n, float m, float factor, float *lane)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += exact_exp((x[i + j] - m) * factor);
    for (int j = 0; i + j < n; j++)
        lane[j] += exact_exp((x[i + j] - m) * factor);
}

static void row_topk_slice(const float *logits, int n, int32_t first_id, float inv_temp,
                           struct topk_list *list, float stat[3])
{
    if (list->k > 0)
        topk_take(logits, n, first_id, list);
    float m = greatest(logits, n);
    float cold[LANES] = {0}, warm[LANES] = {0};
    stat[0] = m;
    stat[1] = stat[2] = 0.0f;
    if (m == -INFINITY)
        return;
    add_exps(logits, n, m, 1.0f, cold);
    if (inv_temp != 1.0f) /* else the same numbers */
        add_exps(logits, n, m, inv_temp, warm);
    stat[1] = lane_sum(cold);
    stat[2] = inv_temp != 1.0f ? lane_sum(warm) : stat[1];
}

#define ROW_KERNELS                                                                                \
    .add_rms_norm = row_add_rms_norm, .layer_norm = row_layer_norm, .activate = row_activate,      \
    .scale = row_scale, .soft_cap = row_soft_cap, .act_mul = row_act_mul, .add = row_add,          \
    .clamped_glu = row_clamped_glu, .add_bias = row_add_bias, .sigmoid_mul = row_sigmoid_mul,      \
    .conv_row = row_conv, .delta_gates = row_delta_gates, .mamba_gates = row_mamba_gates,          \
    .gated_norm = row_gated_norm, .squares = row_squares, .mul = row_mul,                          \
    .rotate_head = row_rotate_head, .kv_store = row_kv_store, .attn_merge = row_attn_merge,        \
    .attn_finish = row_attn_finish, .topk_floor = row_topk_floor, .topk_slice = row_topk_slice,    \
    STREAM_KERNELS

#endif
