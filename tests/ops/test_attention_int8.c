/* Attention over int8 entries on the CPU: every instruction set gives the bits of its specification
 * (backends/cpu/kernels.h), which is computed here in doubles and 64-bit integers, rounded to f32 where it
 * says so; exp is that of backends/exact_math.h.  And what is not finite stays so. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/exact_math.h"
#include "isas.h"
#include "ops/op_cases.h"

enum { SPLIT = 256, LANES = 16, BLOCK = 16, MOST_D = 576 };

struct shape {
    int32_t rows, past; /* tokens of the step, and before them, of one sequence */
    int32_t n_kv, per, d, d_value;
    int32_t window;
    float cap;
    float loud;  /* factor on some elements of queries and some scales */
    bool shared; /* values are the keys */
};

/* The inputs of a shape. */
struct inputs {
    float *q;           /* [rows, n_kv * per * d] */
    int8_t *kv[2];      /* [keys, n_kv * d]; values n_kv * d_value */
    float *kv_scale[2]; /* [keys, n_kv] */
};

static int32_t n_keys(const struct shape *s)
{
    return s->past + s->rows;
}

static size_t at(int64_t row, int64_t cols, int64_t i)
{
    return (size_t)(row * cols + i);
}

static struct inputs inputs_of(const struct shape *s)
{
    int32_t nq = s->n_kv * s->per * s->d, keys = n_keys(s);
    struct inputs in = {.q = in_rows(91, 0, s->rows, nq)};
    for (int32_t i = 0; i < s->rows * nq; i++)
        in.q[i] = 4 * in.q[i] * (i % 37 == 5 ? s->loud : 1.0f);
    for (int w = 0; w < 2; w++) {
        int32_t cols = s->n_kv * (w ? s->d_value : s->d);
        in.kv[w] = malloc((size_t)keys * (size_t)cols);
        in.kv_scale[w] = malloc((size_t)(keys * s->n_kv) * sizeof(float));
        for (int32_t j = 0; j < keys; j++) {
            for (int32_t i = 0; i < cols; i++) /* -127 to 127, the greatest ones often */
                in.kv[w][at(j, cols, i)] =
                    (int8_t)fmaxf(-127, fminf(127, 190.0f * in_f32(92 + (uint32_t)w, j, i)));
            for (int32_t g = 0; g < s->n_kv; g++)
                in.kv_scale[w][at(j, s->n_kv, g)] = (1.01f + in_f32(94 + (uint32_t)w, j, g)) *
                                                    0x1p-8f * (j % 41 == 3 ? s->loud : 1.0f);
        }
    }
    return in;
}

static void free_inputs(struct inputs *in)
{
    free(in->q);
    for (int w = 0; w < 2; w++) {
        free(in->kv[w]);
        free(in->kv_scale[w]);
    }
}

/* ---- the specification ---- */

static float mul(float a, float b)
{
    return (float)((double)a * (double)b);
}

/* Nearest integers of x * (top / m), m the greatest |x|; the unit m / top. */
static float round_to(const float *x, int32_t n, int64_t top, int64_t *out)
{
    float most = 0;
    for (int32_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(x[i]));
    bool none = (double)most < 0x1p-100;
    float inv = none ? 0.0f : (float)((double)top / (double)most);
    for (int32_t i = 0; i < n; i++)
        out[i] = (int64_t)rint((double)mul(x[i], inv));
    return none ? 0.0f : (float)((double)most / (double)top);
}

static float of_int(int64_t sum)
{
    cr_assert(sum > -0x7fffffffLL && sum < 0x7fffffffLL, "a sum beyond 32 bits");
    return (float)(double)sum;
}

struct state {
    float o[MOST_D], m, l;
};

/* Keys [from, to) of one split, of KV head g, for a row whose query is a [d] times unit. */
static void spec_split(const struct shape *s, const struct inputs *in, const int64_t *a, float unit,
                       int32_t g, int32_t from, int32_t to, struct state *st)
{
    float p[SPLIT], lane[LANES] = {0}, x[SPLIT];
    int64_t w[SPLIT];
    st->m = -INFINITY;
    for (int32_t j = from; j < to; j++) {
        int64_t sum = 0;
        for (int32_t i = 0; i < s->d; i++)
            sum += a[i] * in->kv[0][at(j, s->n_kv * s->d, g * s->d + i)];
        float factor =
            mul(mul(unit, 1.0f / sqrtf((float)s->d)), in->kv_scale[0][at(j, s->n_kv, g)]);
        float score = mul(of_int(sum), factor);
        score = s->cap > 0 ? exact_soft_cap(score, s->cap) : score;
        p[j - from] = score;
        st->m = score > st->m ? score : st->m;
    }
    int v = s->shared ? 0 : 1, v_cols = v ? s->n_kv * s->d_value : s->d;
    for (int32_t j = from; j < to; j++) {
        float e = exact_exp(p[j - from] - st->m);
        lane[j % LANES] += e;
        x[j - from] = mul(e, in->kv_scale[v][at(j, s->n_kv, g)]);
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    st->l = lane[0];
    float value_unit = round_to(x, to - from, 32767, w);
    for (int32_t i = 0; i < s->d_value; i++) {
        int64_t sum = 0;
        for (int32_t j = from; j < to; j++)
            sum += w[j - from] * in->kv[v][at(j, v_cols, g * s->d_value + i)];
        st->o[i] = mul(of_int(sum), value_unit);
    }
}

static void spec_row(const struct shape *s, const struct inputs *in, int32_t t, int32_t head,
                     float *out)
{
    int32_t pos = s->past + t, from = 0, g = head / s->per;
    int64_t a[MOST_D], top = 0x7fffffff / (128 * s->d);
    float unit = round_to(in->q + at(t, s->n_kv * s->per * s->d, head * s->d), s->d,
                          top < 32767 ? top : 32767, a);
    struct state all, one;
    if (s->window > 0 && pos >= s->window)
        from = pos - s->window + 1;
    for (int32_t k = from, first = 1, end; k <= pos; k = end, first = 0) {
        end = k / SPLIT * SPLIT + SPLIT < pos + 1 ? k / SPLIT * SPLIT + SPLIT : pos + 1;
        spec_split(s, in, a, unit, g, k, end, first ? &all : &one);
        if (first)
            continue;
        float most = one.m > all.m ? one.m : all.m;
        float x = exact_exp(all.m - most), y = exact_exp(one.m - most);
        for (int32_t i = 0; i < s->d_value; i++)
            all.o[i] = fmaf(all.o[i], x, one.o[i] * y);
        all.l = fmaf(all.l, x, one.l * y);
        all.m = most;
    }
    float inv = 1.0f / all.l;
    for (int32_t i = 0; i < s->d_value; i++)
        out[i] = mul(all.o[i], inv);
}

/* ---- the op ---- */

/* Rows [first, first + n) of the shape as one step. */
static void run(struct backend *be, const struct shape *s, const struct inputs *in, int32_t first,
                int32_t n, float *out)
{
    struct op_env e = env_open(be);
    int32_t keys = n_keys(s), blocks = (keys + BLOCK - 1) / BLOCK, n_q = s->n_kv * s->per;
    int32_t *pos = malloc((size_t)n * 4), *table = malloc((size_t)blocks * 4);
    struct kv_layer kv;
    for (int w = 0; w < 2; w++) { /* blocks in reverse; what lies behind the keys is -1 and NaN */
        int32_t cols = s->n_kv * (w ? s->d_value : s->d);
        char *data = malloc((size_t)(blocks * BLOCK * cols));
        float *scale = malloc((size_t)(blocks * BLOCK * s->n_kv) * sizeof *scale);
        memset(data, 0xff, (size_t)(blocks * BLOCK * cols));
        memset(scale, 0xff, (size_t)(blocks * BLOCK * s->n_kv) * sizeof *scale);
        for (int32_t j = 0; j < s->past + first + n; j++) {
            int32_t row = (blocks - 1 - j / BLOCK) * BLOCK + j % BLOCK;
            memcpy(data + at(row, cols, 0), in->kv[w] + at(j, cols, 0), (size_t)cols);
            memcpy(scale + at(row, s->n_kv, 0), in->kv_scale[w] + at(j, s->n_kv, 0),
                   (size_t)s->n_kv * sizeof *scale);
        }
        *(w ? &kv.v : &kv.k) = env_packed(&e, blocks * BLOCK, cols, DT_I8, data);
        *(w ? &kv.v_scale : &kv.k_scale) = env_packed(&e, blocks * BLOCK, s->n_kv, DT_F32, scale);
        free(data);
        free(scale);
    }
    if (s->shared) {
        kv.v = kv.k;
        kv.v.cols = s->d_value;
        kv.v_scale = kv.k_scale;
    }
    for (int32_t i = 0; i < n; i++)
        pos[i] = s->past + first + i;
    for (int32_t i = 0; i < blocks; i++)
        table[i] = blocks - 1 - i;
    struct attn_layer al = {.n_q = n_q,
                            .n_kv = s->n_kv,
                            .d_head = s->d,
                            .d_value = s->d_value,
                            .q_per_kv = s->per,
                            .window = s->window,
                            .scale = 1.0f / sqrtf((float)s->d),
                            .cap = s->cap};
    int32_t start[] = {0, n}, len[] = {s->past + first + n};
    struct step_dev st = {.n_tokens = n,
                          .n_seqs = 1,
                          .max_q = n,
                          .max_kv = len[0],
                          .block_len = BLOCK,
                          .pos = env_packed(&e, n, 1, DT_I32, pos),
                          .q_start = env_packed(&e, 2, 1, DT_I32, start),
                          .kv_len = env_packed(&e, 1, 1, DT_I32, len),
                          .block_table = env_packed(&e, 1, blocks, DT_I32, table)};
    struct view q = env_packed(&e, n, n_q * s->d, DT_F32, in->q + at(first, n_q * s->d, 0)),
                o = env_packed(&e, n, n_q * s->d_value, DT_F32, NULL);
    ENV_RUN(&e, e.ops->attention(be, &al, &st, q, kv, o));
    env_read(&e, out, o);
    free(pos);
    free(table);
    cr_assert_eq(env_close(&e), ST_OK, "%s", status_detail());
}

static void check(struct backend *be, const char *isa, const struct shape *s,
                  const struct inputs *in, const float *want, int32_t chunk)
{
    int32_t cols = s->n_kv * s->per * s->d_value;
    float *got = malloc((size_t)(s->rows * cols) * sizeof *got);
    for (int32_t t = 0; t < s->rows; t += chunk)
        run(be, s, in, t, s->rows - t < chunk ? s->rows - t : chunk, got + at(t, cols, 0));
    for (int32_t i = 0; i < s->rows * cols; i++)
        cr_assert(memcmp(&got[i], &want[i], sizeof *got) == 0,
                  "%s, heads of %d, %d rows behind %d, by %d: row %d, %d: %a, not %a", isa, s->d,
                  s->rows, s->past, chunk, i / cols, i % cols, (double)got[i], (double)want[i]);
    free(got);
}

static const struct shape shapes[] = {
    {.rows = 1, .past = 0, .n_kv = 1, .per = 1, .d = 1, .d_value = 1, .loud = 1},
    {.rows = 3, .past = 37, .n_kv = 2, .per = 3, .d = 33, .d_value = 33, .loud = 20},
    {.rows = 2, .past = 510, .n_kv = 2, .per = 4, .d = 64, .d_value = 64, .loud = 1},
    {.rows = 40, .past = 250, .n_kv = 2, .per = 2, .d = 64, .d_value = 64, .loud = 3},
    {.rows = 21,
     .past = 600,
     .n_kv = 1,
     .per = 7,
     .d = 80,
     .d_value = 80,
     .window = 290,
     .loud = 9},
    {.rows = 5, .past = 530, .n_kv = 3, .per = 1, .d = 128, .d_value = 128, .cap = 4, .loud = 1},
    /* rows 2 KiB apart */
    {.rows = 1, .past = 300, .n_kv = 16, .per = 4, .d = 128, .d_value = 128, .loud = 1},
    {.rows = 2,
     .past = 300,
     .n_kv = 1,
     .per = 8,
     .d = 256,
     .d_value = 256,
     .window = 9,
     .loud = 99},
    {.rows = 2, .past = 260, .n_kv = 1, .per = 12, .d = 512, .d_value = 512, .loud = 1},
    {.rows = 3,
     .past = 300,
     .n_kv = 1,
     .per = 16,
     .d = 576,
     .d_value = 512,
     .loud = 2,
     .shared = true},
};

Test(attention_int8, bits_of_the_specification)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        const struct shape *s = &shapes[i];
        struct inputs in = inputs_of(s);
        int32_t n_q = s->n_kv * s->per, cols = n_q * s->d_value;
        float *want = malloc((size_t)(s->rows * cols) * sizeof *want);
        for (int32_t h = 0; h < s->rows * n_q; h++)
            spec_row(s, &in, h / n_q, h % n_q, want + (size_t)(h * s->d_value));
        for (size_t k = 0; k < ARRAY_LEN(float_isas); k++) {
            struct backend *be = open_isa(float_isas[k], 1);
            for (int32_t chunk = 1; be && chunk <= s->rows;
                 chunk = chunk < s->rows && 4 * chunk > s->rows ? s->rows : 4 * chunk)
                check(be, float_isas[k], s, &in, want, chunk);
            close_isa(be);
        }
        free(want);
        free_inputs(&in);
    }
}

/* Sums at the bounds of 32 bits: every element the greatest of its sign, every weight the same. */
Test(attention_int8, greatest_sums)
{
    static const int32_t sizes[] = {64, 512, 576};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct shape s = {.rows = 2, .past = 254, .n_kv = 1, .per = 2, .d = sizes[i], .loud = 1};
        s.d_value = s.d < 512 ? s.d : 512;
        struct inputs in = inputs_of(&s);
        for (int32_t k = 0; k < s.rows * s.per * s.d; k++)
            in.q[k] = k / s.d % 2 ? -3.0f : 3.0f;
        memset(in.kv[0], 127, (size_t)(n_keys(&s) * s.d));
        memset(in.kv[1], -127, (size_t)(n_keys(&s) * s.d_value));
        for (int32_t k = 0; k < n_keys(&s); k++)
            in.kv_scale[0][k] = in.kv_scale[1][k] = 0x1p-7f;
        float *want = malloc((size_t)(s.rows * s.per * s.d_value) * sizeof *want);
        for (int32_t h = 0; h < s.rows * s.per; h++)
            spec_row(&s, &in, h / s.per, h % s.per, want + (size_t)(h * s.d_value));
        for (size_t k = 0; k < ARRAY_LEN(float_isas); k++) {
            struct backend *be = open_isa(float_isas[k], 1);
            if (be)
                check(be, float_isas[k], &s, &in, want, 2);
            close_isa(be);
        }
        free(want);
        free_inputs(&in);
    }
}

/* A query, the scale of a key or of a value that is not a number: all that see it are none, nothing else
 * changes.  Queries and scales of 0 are numbers. */
Test(attention_int8, not_a_number)
{
    const struct shape s = {
        .rows = 30, .past = 10, .n_kv = 2, .per = 2, .d = 24, .d_value = 24, .loud = 1};
    const int32_t cols = s.n_kv * s.per * s.d, seen = 12; /* the key of row 2 */
    float *want = malloc((size_t)(s.rows * cols) * sizeof *want),
          *got = malloc((size_t)(s.rows * cols) * sizeof *got);
    for (size_t k = 0; k < ARRAY_LEN(float_isas); k++) {
        struct backend *be = open_isa(float_isas[k], 1);
        for (int what = 0; be && what < 5; what++)
            for (int32_t chunk = 1; chunk <= s.rows; chunk += s.rows - 1) {
                struct inputs in = inputs_of(&s);
                float bad = what == 4 ? 0.0f : what == 3 ? INFINITY : NAN;
                for (int32_t t = 0; t < s.rows; t += chunk)
                    run(be, &s, &in, t, chunk, want + at(t, cols, 0));
                if (what == 1 || what == 2)
                    in.kv_scale[what - 1][at(seen, s.n_kv, 1)] = bad;
                else
                    in.q[at(2, cols, s.d + 5)] = bad; /* head 1 */
                for (int32_t i = 0; what == 4 && i < s.d; i++)
                    in.q[at(2, cols, s.d + i)] = in.kv_scale[0][at(seen, s.n_kv, 1)] = 0.0f;
                for (int32_t t = 0; t < s.rows; t += chunk)
                    run(be, &s, &in, t, chunk, got + at(t, cols, 0));
                for (int32_t i = 0; i < s.rows * cols; i++) {
                    int32_t row = i / cols, head = i % cols / s.d;
                    bool key = what == 1 || what == 2,
                         hit = key ? row >= 2 && head >= 2 : row == 2 && head == 1;
                    if (what == 4)
                        cr_assert(isfinite(got[i]), "%s: %d", float_isas[k], i);
                    else if (hit)
                        cr_assert(isnan(got[i]), "%s, %d: %d is %g", float_isas[k], what, i,
                                  (double)got[i]);
                    else
                        cr_assert(memcmp(&got[i], &want[i], sizeof *got) == 0, "%s, %d: %d",
                                  float_isas[k], what, i);
                }
                free_inputs(&in);
            }
        close_isa(be);
    }
    free(want);
    free(got);
}
