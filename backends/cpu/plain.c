/* The executable specification: portable C, slow and clear.  The kernels over one row are in
 * row_kernels.h. */
#include "backends/cpu/attn_round.h"
#include "backends/cpu/row_kernels.h"

static float tile_weight(const struct linear_tile *t, size_t row, int32_t k, int col)
{
    if (pack_scaled(t->pack))
        return panel_scaled_value(t->pack, t->panel, t->head, t->slice_end[t->n_slices - 1], k,
                                  col);
    return panel_value(t->pack, t->panel, row, col);
}

static void plain_linear_tile(const struct linear_tile *t)
{
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < t->cols; c++) {
            float slice[N_SLICES];
            int k = 0;
            for (int s = 0; s < t->n_slices; s++) {
                size_t row = pack_rows(t->pack, t->slice_end, s, k);
                float acc = 0.0f;
                for (; k < t->slice_end[s]; k++, row++)
                    acc = fmaf(t->x[k * t->rows + r], tile_weight(t, row, k, c), acc);
                slice[s] = acc;
            }
            for (int n = t->n_slices / 2; n > 0; n /= 2)
                for (int s = 0; s < n; s++)
                    slice[s] = slice[2 * s] + slice[2 * s + 1];
            t->out[(size_t)r * t->out_stride + (size_t)c] =
                t->bias ? slice[0] + t->bias[c] : slice[0];
        }
}

/* o [d_value] += p v over keys [lo, hi), each a chain. */
static void plain_values(const struct attn_split *a, const float *p, int lo, int hi, float *o)
{
    for (int j = lo; j < hi; j++) {
        size_t at = kv_row(a->blocks, a->block_len, a->first_key + j);
        for (int i = 0; i < a->d_value; i++)
            o[i] = fmaf(p[j], kv_value(&a->v, at, i), o[i]);
    }
}

static void plain_values_i8(const struct attn_split *a, const float *p, int lo, int hi, float *o)
{
    float weight[SPLIT];
    int16_t w[SPLIT];
    for (int j = lo; j < hi; j++)
        weight[j] = p[j] * int8_scale(&a->v, kv_row(a->blocks, a->block_len, a->first_key + j));
    float unit = round_16(weight + lo, hi - lo, weight_top(), w + lo);
    for (int i = 0; i < a->d_value; i++) {
        int32_t sum = 0;
        for (int j = lo; j < hi; j++)
            sum += w[j] * int8_at(&a->v, kv_row(a->blocks, a->block_len, a->first_key + j), i);
        o[i] = (float)sum * unit;
    }
}

static float plain_score(const struct attn_split *a, const float *q, size_t at)
{
    float dot = 0.0f;
    for (int i = 0; i < a->d; i++)
        dot = fmaf(q[i], kv_value(&a->k, at, i), dot);
    return dot * a->scale;
}

static float plain_score_i8(const struct attn_split *a, const int16_t *q, float unit, size_t at)
{
    int32_t sum = 0;
    for (int i = 0; i < a->d; i++)
        sum += q[i] * int8_at(&a->k, at, i);
    return (float)sum * (unit * a->scale * int8_scale(&a->k, at));
}

static void plain_attn_head(const struct attn_split *a, float *scratch)
{
    float *p = scratch; /* [SPLIT] scores, then weights; 0 for keys that the row does not see */
    int16_t words[HEAD_MAX];
    int d = a->d, n = a->d_value;
    bool i8 = a->k.dtype == DT_I8;
    for (int row = 0; row < a->rows; row++) {
        const float *q = a->q + (size_t)(row / a->n_heads) * a->q_stride +
                         (size_t)(row % a->n_heads) * (size_t)d;
        float *o = a->partial + (size_t)row * (size_t)(n + 2), m = -INFINITY, lane[LANES] = {0};
        float unit = i8 ? round_16(q, d, query_top(d), words) : 0.0f;
        int lo, hi;
        attn_range(a, row, &lo, &hi);
        memset(o, 0, (size_t)(n + 2) * sizeof *o);
        if (lo >= hi)
            continue;
        for (int j = lo; j < hi; j++) {
            size_t at = kv_row(a->blocks, a->block_len, a->first_key + j);
            p[j] = i8 ? plain_score_i8(a, words, unit, at) : plain_score(a, q, at);
            if (a->rel_bias)
                p[j] += attn_rel_bias(a, row, j);
            if (a->cap > 0.0f)
                p[j] = exact_soft_cap(p[j], a->cap);
            m = p[j] > m ? p[j] : m;
        }
        for (int j = lo; j < hi; j++) {
            p[j] = exact_exp(p[j] - m);
            lane[j % LANES] += p[j];
        }
        (i8 ? plain_values_i8 : plain_values)(a, p, lo, hi, o);
        o[n] = m;
        o[n + 1] = lane_sum(lane);
    }
}

static void plain_attn_split(const struct attn_split *a, float *scratch)
{
    for (int g = 0; g < a->n_kv; g++) {
        struct attn_split one = attn_kv_head(a, g);
        plain_attn_head(&one, scratch);
    }
}

/* One column after the other: a column needs no other one. */
static void plain_mamba_head(const struct delta_head *h)
{
    for (int t = 0; t < h->n; t++) {
        const float *q = h->q + (size_t)t * h->qkv_stride, *k = h->k + (size_t)t * h->qkv_stride;
        const float *v = h->v + (size_t)t * h->qkv_stride;
        float g = h->g[(size_t)t * h->gate_stride], step = h->beta[(size_t)t * h->gate_stride];
        for (int j = 0; j < h->cols; j++) {
            float out = 0.0f, u = step * v[j], *s = h->state + j;
            for (int i = 0; i < h->d_k; i++) {
                s[(size_t)i * h->stride] = fmaf(k[i], u, g * s[(size_t)i * h->stride]);
                out = fmaf(s[(size_t)i * h->stride], q[i], out);
            }
            h->out[(size_t)t * h->out_stride + (size_t)j] = fmaf(*h->skip, v[j], out);
        }
    }
}

static void plain_delta_head(const struct delta_head *h)
{
    if (h->skip) {
        plain_mamba_head(h);
        return;
    }
    for (int t = 0; t < h->n; t++) {
        const float *q = h->q + (size_t)t * h->qkv_stride, *k = h->k + (size_t)t * h->qkv_stride;
        const float *v = h->v + (size_t)t * h->qkv_stride;
        float g = h->g[(size_t)t * h->gate_stride], beta = h->beta[(size_t)t * h->gate_stride];
        for (int j = 0; j < h->cols; j++) {
            float m = 0.0f, out = 0.0f, *s = h->state + j;
            for (int i = 0; i < h->d_k; i++)
                m = fmaf(g * s[(size_t)i * h->stride], k[i], m);
            float u = (v[j] - m) * beta;
            for (int i = 0; i < h->d_k; i++) {
                s[(size_t)i * h->stride] = fmaf(k[i], u, g * s[(size_t)i * h->stride]);
                out = fmaf(s[(size_t)i * h->stride], q[i], out);
            }
            h->out[(size_t)t * h->out_stride + (size_t)j] = out;
        }
    }
}

const struct kernels kernels_plain = {
    .name = "plain",
    .tile_rows = TILE_MAX,
    .attn_scratch = SPLIT,
    .linear_tile = plain_linear_tile,
    .attn_split = plain_attn_split,
    .delta_head = plain_delta_head,
    ROW_KERNELS,
};
