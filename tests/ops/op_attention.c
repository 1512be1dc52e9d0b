/* attention */
#include <math.h>
#include <stdlib.h>

#include "ops/op_cases.h"

#define EPS 0x1p-24 /* relative rounding error of f32 */

/* ---- attention: sequence s has rows [rows s / n, rows (s + 1) / n) and past_of(s) tokens before
 * them */

static int32_t row_of_seq(const struct op_case *c, int32_t s)
{
    return (int32_t)((int64_t)c->rows * s / c->n_seqs);
}

static int32_t past_of(const struct op_case *c, int32_t s)
{
    return c->past + s * 37;
}

static int32_t seq_of(const struct op_case *c, int32_t t)
{
    int32_t s = 0;
    while (t >= row_of_seq(c, s + 1))
        s++;
    return s;
}

static int32_t pos_at(const struct op_case *c, int32_t t)
{
    int32_t s = seq_of(c, t);
    return past_of(c, s) + t - row_of_seq(c, s);
}

static int32_t max_blocks(const struct op_case *c)
{
    return (past_of(c, c->n_seqs) + c->rows) / c->block_len + 1;
}

/* Sequences' blocks alternate, from the end of the cache; short ones from its beginning, and of each four blocks
 * the middle ones change places: rows that are no neighbours, though the first and the last of 16 are as far apart as
 * neighbours' are. */
static int32_t block_at(const struct op_case *c, int32_t s, int32_t b)
{
    int32_t i = b * c->n_seqs + s, n = max_blocks(c) * c->n_seqs,
            swapped = i % 4 == 1 ? i + 1 : i - 1;
    if (c->block_len != 4)
        return n - 1 - i;
    return (i % 4 == 1 || i % 4 == 2) && swapped < n ? swapped : i;
}

/* Element i of key (which 0) or value (1) j of sequence s, as stored, and its scale. */
static float kv_scale_at(const struct op_case *c, int which, int32_t s, int32_t j, int32_t g)
{
    if (!op_kv_scaled(c->dtype))
        return 1.0f;
    return (1.1f + in_f32(53 + (uint32_t)which, s * 100000 + j, g)) *
           (c->dtype == DT_I8 ? 0x1p-7f : 0x1p-8f);
}

static void put_kv(const struct op_case *c, int which, int32_t s, int32_t j, int32_t i, void *data,
                   size_t at)
{
    float v = in_f32(51 + (uint32_t)which, s * 100000 + j, i);
    if (c->dtype == DT_I8)
        ((int8_t *)data)[at] = (int8_t)(v * 127.0f);
    else if (c->dtype == DT_E4M3)
        ((uint8_t *)data)[at] = (uint8_t)((int)(fabsf(v) * 126.0f) | (v < 0 ? 0x80 : 0));
    else
        store_at(data, c->dtype, at, v);
}

static double kv_at(const struct op_case *c, int which, int32_t s, int32_t j, int32_t i)
{
    char one[4];
    put_kv(c, which, s, j, i, one, 0);
    return op_kv_element(one, c->dtype, 0) * (double)kv_scale_at(c, which, s, j, i / c->d);
}

/* Of a value: latent attention has an own size, n, and values are the first elements of the keys. */
static int32_t d_value(const struct op_case *c)
{
    return c->op == &op_attention_latent ? c->n : c->d;
}

static int32_t attn_cols(const struct op_case *c)
{
    return c->variant ? c->n : c->n_q * d_value(c);
}

static bool is_full(const struct op_case *c)
{
    return c->op == &op_attention_full || c->op == &op_attention_rel_bias;
}

/* Chunks of `window` positions. */
static bool is_chunked(const struct op_case *c)
{
    return c->op == &op_attention_chunk;
}

/* The first key that a token at pos sees. */
static int32_t first_key(const struct op_case *c, int32_t pos)
{
    if (is_chunked(c))
        return pos - pos % c->window;
    return c->window > 0 && pos >= c->window ? pos - c->window + 1 : 0;
}

/* Added to the score of a head by the key's distance, of the size of the scores. */
static float rel_bias_at(int32_t head, int32_t distance)
{
    return 2.0f * in_f32(61, head, rel_at(distance));
}

/* Keys of sequence s behind all rows of the case. */
static int32_t seq_len(const struct op_case *c, int32_t s)
{
    return past_of(c, s) + row_of_seq(c, s + 1) - row_of_seq(c, s);
}

/* Arrays of a step that holds rows [first, first + n). */
struct step_host {
    int32_t *pos, *q_start, *kv_len, *table, *seq_id;
    int32_t n_seqs;
};

static struct step_host step_of(const struct op_case *c, int32_t first, int32_t n)
{
    size_t ns = (size_t)c->n_seqs + 2;
    struct step_host h = {.pos = malloc(((size_t)n + 1) * 4),
                          .q_start = calloc(ns, 4),
                          .kv_len = calloc(ns, 4),
                          .seq_id = calloc(ns, 4),
                          .table = calloc(ns * (size_t)max_blocks(c), 4)};
    for (int32_t t = 0; t < n; t++) {
        int32_t s = seq_of(c, first + t);
        h.pos[t] = pos_at(c, first + t);
        if (h.n_seqs == 0 || h.seq_id[h.n_seqs - 1] != s) {
            h.q_start[h.n_seqs] = t;
            h.seq_id[h.n_seqs++] = s;
        }
        h.q_start[h.n_seqs] = t + 1;
        h.kv_len[h.n_seqs - 1] = is_full(c) ? seq_len(c, s) : h.pos[t] + 1;
    }
    for (int32_t i = 0; i < h.n_seqs; i++)
        for (int32_t b = 0; b < max_blocks(c); b++)
            h.table[op_at(i, max_blocks(c), b)] = block_at(c, h.seq_id[i], b);
    return h;
}

static void step_free(struct step_host *h)
{
    free(h->pos);
    free(h->q_start);
    free(h->kv_len);
    free(h->table);
    free(h->seq_id);
}

/* The cache as it is when the step's sequences have kv_len tokens: everything else is NaN (all bits
 * set). */
static void fill_cache(const struct op_case *c, const struct step_host *h, int which, char *data,
                       float *scale)
{
    for (int32_t i = 0; i < h->n_seqs; i++)
        for (int32_t j = 0; j < h->kv_len[i]; j++) {
            int32_t s = h->seq_id[i];
            size_t row = (size_t)block_at(c, s, j / c->block_len) * (size_t)c->block_len +
                         (size_t)(j % c->block_len);
            for (int32_t x = 0; x < c->n_kv * c->d; x++)
                put_kv(c, which, s, j, x, data, op_at((int64_t)row, c->n_kv * c->d, x));
            for (int32_t g = 0; g < c->n_kv; g++)
                scale[op_at((int64_t)row, c->n_kv, g)] = kv_scale_at(c, which, s, j, g);
        }
}

/* The score of the key without a value, near the greatest of the others. */
static float sink_at(int32_t head)
{
    return 3.0f * in_f32(58, 0, head);
}

static bool has_sinks(const struct op_case *c)
{
    return c->op == &op_attention_sinks;
}

static enum status run_attention(struct backend *be, const struct op_case *c, int32_t first,
                                 int32_t n, float *out)
{
    struct op_env e = env_open(be);
    struct step_host h = step_of(c, first, n);
    int32_t kv_rows = max_blocks(c) * c->n_seqs * c->block_len, nkv = c->n_kv * c->d;
    size_t cells = op_at(kv_rows, nkv, 1), scales = op_at(kv_rows, c->n_kv, 1);
    float *q = in_rows(55, first, n, c->n_q * c->d);
    struct view v[2], vs[2] = {{0}, {0}};
    for (int j = 0; j < 2; j++) {
        char *data = malloc(cells * 4);
        float *scale = malloc(scales * 4);
        memset(data, 0xff, cells * 4);
        memset(scale, 0xff, scales * 4);
        fill_cache(c, &h, j, data, scale);
        v[j] = env_packed(&e, kv_rows, nkv, c->dtype, data);
        if (op_kv_scaled(c->dtype))
            vs[j] = env_packed(&e, kv_rows, c->n_kv, DT_F32, scale);
        free(data);
        free(scale);
    }
    if (c->op == &op_attention_latent) {
        v[1] = v[0];
        v[1].cols = c->n;
        vs[1] = vs[0];
    }
    struct attn_layer al = {.n_q = c->n_q,
                            .n_kv = c->n_kv,
                            .d_head = c->d,
                            .d_value = c->op == &op_attention_latent ? c->n : 0,
                            .q_per_kv = c->q_per_kv,
                            .q_offset = c->q_offset,
                            .window = is_chunked(c) ? 0 : c->window,
                            .chunk = is_chunked(c) ? c->window : 0,
                            .full = is_full(c),
                            .scale = 2.0f / sqrtf((float)c->d),
                            .cap = c->cap};
    float sinks[64] = {0};
    for (int32_t i = 0; i < c->n_q && i < (int32_t)ARRAY_LEN(sinks); i++)
        sinks[i] = sink_at(i);
    if (has_sinks(c))
        al.sinks = env_vector(&e, sinks, c->n_q);
    if (c->op == &op_attention_rel_bias) {
        float *rows = in_rows(61, 0, c->n_q, REL_COLS);
        for (int32_t i = 0; i < c->n_q * REL_COLS; i++)
            rows[i] *= 2.0f;
        al.rel_bias = env_vector(&e, rows, c->n_q * REL_COLS);
        free(rows);
    }
    struct kv_layer kv = {v[0], v[1], vs[0], vs[1]};
    struct step_dev st = {.n_tokens = n,
                          .n_seqs = h.n_seqs,
                          .block_len = c->block_len,
                          .pos = env_packed(&e, n, 1, DT_I32, h.pos),
                          .q_start = env_packed(&e, h.n_seqs + 1, 1, DT_I32, h.q_start),
                          .kv_len = env_packed(&e, h.n_seqs, 1, DT_I32, h.kv_len),
                          .block_table = env_packed(&e, h.n_seqs, max_blocks(c), DT_I32, h.table)};
    for (int32_t i = 0; i < h.n_seqs; i++) {
        int32_t len = h.q_start[i + 1] - h.q_start[i];
        st.max_q = len > st.max_q ? len : st.max_q;
        st.max_kv = h.kv_len[i] > st.max_kv ? h.kv_len[i] : st.max_kv;
    }
    struct view vq = env_view(&e, n, c->n_q * c->d, DT_F32, q),
                vo = env_view(&e, n, attn_cols(c), DT_F32, NULL);
    if (c->variant) { /* a product behind it, of an operand or of elements: operand_pairs.c */
        struct weight *w = env_matrix(&e, DT_BF16, 62, c->n, c->n_q * c->d, N_SLICES, NULL);
        struct view elements = env_packed(&e, n, c->n_q * c->d, DT_F32, NULL);
        if (c->variant == 1)
            elements = env_operand(&e, elements, w, OPERAND_ATTENTION);
        ENV_RUN(&e, e.ops->attention(be, &al, &st, vq, kv, elements));
        ENV_RUN(&e, e.ops->linear(be, w, elements, vo));
    } else {
        ENV_RUN(&e, e.ops->attention(be, &al, &st, vq, kv, vo));
    }
    env_read(&e, out, vo);
    free(q);
    step_free(&h);
    return env_close(&e);
}

/* Queries and weights of 16 bits against int8 entries (backends/cpu/kernels.h).  An element of a query is
 * off by at most half a unit, max |q| / top / 2, which adds up over the key to a score's error. */
static double words_score_error(const struct op_case *c, int32_t t, int32_t head, const double *key)
{
    double most = 0, sum = 0, top = fmin(32767, floor(2147483647.0 / (128 * c->d)));
    for (int32_t i = 0; i < c->d; i++) {
        most = fmax(most, fabs((double)in_f32(55, t, head * c->d + i)));
        sum += fabs(key[i]);
    }
    return most / top / 2 * sum * 2 / sqrt(c->d);
}

/* A weight p times the scale of its value is off by at most half a unit, the split's greatest such product
 * / 32767 / 2, which is multiplied with the value's bytes: what that adds to element i of the sum. */
static double words_value_error(const struct op_case *c, int32_t s, int32_t g, int32_t from,
                                int32_t end, const double *p, const double *v, int32_t i)
{
    enum { SPLIT = 256 };
    int which = c->op != &op_attention_latent;
    double error = 0;
    for (int32_t j = from, next; j < end; j = next) {
        double most = 0, bytes = 0;
        next = j / SPLIT * SPLIT + SPLIT < end ? j / SPLIT * SPLIT + SPLIT : end;
        for (int32_t k = j; k < next; k++) {
            double scale = (double)kv_scale_at(c, which, s, k, g);
            most = fmax(most, p[k] * scale);
            bytes += fabs(v[op_at(k, c->d, i)]) / scale;
        }
        error += most / 32767 / 2 * bytes;
    }
    return error;
}

static void ref_head(const struct op_case *c, int32_t t, int32_t head, const double *k,
                     const double *v, double *p, double *out, double *bound)
{
    int32_t pos = pos_at(c, t), from = first_key(c, pos);
    double m = -INFINITY, sum = 0, worst = 0, words = 0, scale = 2.0f / sqrtf((float)c->d);
    int32_t kv_head = (head + c->q_offset) / c->q_per_kv;
    int32_t end = is_full(c) ? seq_len(c, seq_of(c, t)) : pos + 1;
    if (is_full(c) && c->window > 0 && pos + c->window < end)
        end = pos + c->window;
    for (int32_t j = from; j < end; j++) {
        double dot = 0, mag = 0;
        for (int32_t i = 0; i < c->d; i++) {
            double x = in_f32(55, t, head * c->d + i) * k[op_at(j, c->d, i)];
            dot += x;
            mag += fabs(x);
        }
        p[j] = dot * scale;
        if (c->words)
            words = fmax(words, words_score_error(c, t, head, k + op_at(j, c->d, 0)));
        if (c->op == &op_attention_rel_bias)
            p[j] += (double)rel_bias_at(head, j - pos);
        if (c->cap > 0)
            p[j] = (double)c->cap * tanh(p[j] / (double)c->cap);
        worst = fmax(worst, mag * scale + (c->op == &op_attention_rel_bias
                                               ? fabs((double)rel_bias_at(head, j - pos))
                                               : 0.0));
        m = fmax(m, p[j]);
    }
    if (has_sinks(c)) {
        m = fmax(m, sink_at(head));
        sum = exp(sink_at(head) - m);
    }
    for (int32_t j = from; j < end; j++)
        sum += p[j] = exp(p[j] - m);
    for (int32_t i = 0; i < d_value(c); i++) {
        double o = 0, mag = 0;
        for (int32_t j = from; j < end; j++) {
            o += p[j] * v[op_at(j, c->d, i)];
            mag += p[j] * fabs(v[op_at(j, c->d, i)]);
        }
        out[i] = o / sum;
        bound[i] = mag / sum *
                   (4 * worst * (c->d + 4) * EPS + (end - from + 59) * EPS + 1e-6 +
                    1e-6 * (double)c->cap + 1.1 * c->x_eps * (2 * worst + 1) +
                    1.001 * 2 * words); /* e^words of every weight, and of their sum */
        if (c->words)
            bound[i] +=
                1.001 * words_value_error(c, seq_of(c, t), kv_head, from, end, p, v, i) / sum;
    }
}

static void ref_attention(const struct op_case *c, double *out, double *bound)
{
    size_t keys = (size_t)(past_of(c, c->n_seqs) + c->rows), n = keys * (size_t)c->d;
    double *k = malloc(n * sizeof *k), *v = malloc(n * sizeof *v), *p = malloc(keys * sizeof *p);
    for (int32_t s = 0; s < c->n_seqs; s++)
        for (int32_t h = 0, g = -1; h < c->n_q; h++) {
            int32_t t0 = row_of_seq(c, s), t1 = row_of_seq(c, s + 1),
                    new_g = (h + c->q_offset) / c->q_per_kv;
            for (int32_t j = 0; new_g != g && j < past_of(c, s) + t1 - t0; j++)
                for (int32_t i = 0; i < c->d; i++) {
                    k[op_at(j, c->d, i)] = kv_at(c, 0, s, j, new_g * c->d + i);
                    int which = c->op != &op_attention_latent;
                    v[op_at(j, c->d, i)] = kv_at(c, which, s, j, new_g * c->d + i);
                }
            g = new_g;
            for (int32_t t = t0; t < t1; t++) {
                size_t at = op_at(t, attn_cols(c), h * d_value(c));
                ref_head(c, t, h, k, v, p, out + at, bound + at);
            }
        }
    free(k);
    free(v);
    free(p);
}

const struct op op_attention = {"attention", attn_cols, run_attention, ref_attention};
const struct op op_attention_latent = {"attention latent", attn_cols, run_attention, ref_attention};
const struct op op_attention_full = {"attention full", attn_cols, run_attention, ref_attention};
const struct op op_attention_rel_bias = {"attention with biases of distances", attn_cols,
                                         run_attention, ref_attention};
const struct op op_attention_sinks = {"attention sinks", attn_cols, run_attention, ref_attention};
const struct op op_attention_chunk = {"attention in chunks", attn_cols, run_attention,
                                      ref_attention};
