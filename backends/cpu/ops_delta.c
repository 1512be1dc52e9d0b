/* Gated delta net and Mamba-2: the convolution by sequences and channels, the rule by sequences, value heads and columns of their
 * state, each of which one thread takes through all tokens of the sequence. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu_backend.h"

enum { CONV_COLS = 256 }; /* channels of an item */

struct delta_job {
    struct backend *be;
    const struct delta_layer *dl;
    const struct step_dev *st;
    struct view qkv, ba, out;
    struct delta_state s;
    int32_t n_blocks; /* of channels, or of a head's columns */
};

/* The tokens of a sequence in this step. */
struct delta_rows {
    int32_t first, n, slot;
    bool begins; /* with its first token */
};

static struct delta_rows rows_of(const struct delta_job *j, int32_t i_seq)
{
    const struct step_dev *st = j->st;
    int32_t first = col_i32(st->q_start, i_seq), end = col_i32(st->q_start, i_seq + 1);
    struct delta_rows r = {.first = first, .n = end - first, .slot = col_i32(st->state, i_seq)};
    assert(r.slot >= 0 && r.slot < j->s.rule.rows && end <= j->qkv.rows);
    r.begins = r.n > 0 && col_i32(st->pos, first) == 0;
    return r;
}

static void run_items(struct delta_job *j, long items, int64_t work, int64_t grain,
                      void (*item)(void *ctx, long u, int part))
{
    if (work > grain)
        pool_run_items(j->be->pool, items, item, j);
    else
        for (long u = 0; u < items; u++)
            item(j, u, 0);
}

/* ---- convolution ---- */

/* Channels [c, c + n) of a sequence, the last token first, so that each token still finds those before it. */
static void conv_item(void *ctx, long u, int part)
{
    static const float zeros[CONV_COLS];
    const struct delta_job *j = ctx;
    const struct delta_rows r = rows_of(j, (int32_t)(u / j->n_blocks));
    int32_t C = j->qkv.cols, before = j->dl->taps - 1, c = (int32_t)(u % j->n_blocks) * CONV_COLS;
    int n = C - c < CONV_COLS ? C - c : CONV_COLS;
    float *past = view_f32(j->s.conv, r.slot) + c, next[DELTA_MAX_TAPS][CONV_COLS];
    const float *in[DELTA_MAX_TAPS], *bias = j->dl->bias ? vector_of(j->dl->bias) : NULL;
    (void)part;
    for (int32_t t = r.n; r.n > 0 && t >= 0; t--) { /* t = r.n: what the next step finds */
        for (int32_t i = 0; i <= before; i++) {
            int32_t at = t - before + i;
            in[i] = at == r.n  ? NULL
                    : at >= 0  ? view_f32(j->qkv, r.first + at) + c
                    : r.begins ? zeros
                               : past + (size_t)(at + before) * (size_t)C;
        }
        for (int32_t i = 0; t == r.n && i < before; i++)
            memcpy(next[i], in[i], (size_t)n * sizeof(float));
        if (t < r.n)
            j->be->kernels->conv_row(in, vector_of(j->dl->conv) + c, (size_t)C, j->dl->taps,
                                     bias ? bias + c : NULL, view_f32(j->qkv, r.first + t) + c, n);
    }
    for (int32_t i = 0; r.n > 0 && i < before; i++)
        memcpy(past + (size_t)i * (size_t)C, next[i], (size_t)n * sizeof(float));
}

static void unit_part(void *ctx, int part, int n_parts)
{
    const struct delta_job *j = ctx;
    int32_t d = j->dl->d_k, n_k = j->dl->n_k;
    float q_scale = 1.0f / sqrtf((float)d);
    long from, to;
    pool_share(j->qkv.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        for (int32_t h = 0; h < 2 * n_k; h++) {
            float *x = view_f32(j->qkv, t) + (size_t)h * (size_t)d;
            float unit = 1.0f / sqrtf(j->be->kernels->squares(x, d) + 1e-6f);
            j->be->kernels->scale(x, h < n_k ? unit * q_scale : unit, d);
        }
}

enum status cpu_delta_conv(struct backend *be, const struct delta_layer *dl,
                           const struct step_dev *st, struct view qkv, struct delta_state s)
{
    int32_t C = delta_channels(dl);
    assert(qkv.cols == C && qkv.rows == st->n_tokens && dl->conv->k == dl->taps * C);
    assert(!dl->bias || dl->bias->k == C);
    assert(dl->taps >= 1 && dl->taps <= DELTA_MAX_TAPS && s.conv.cols == (dl->taps - 1) * C);
    struct delta_job j = {.be = be, .dl = dl, .st = st, .qkv = qkv, .s = s};
    j.n_blocks = (C + CONV_COLS - 1) / CONV_COLS;
    run_items(&j, (long)st->n_seqs * j.n_blocks, (int64_t)qkv.rows * C, ROWS_GRAIN, conv_item);
    if (!dl->skip)
        rows_run(be, unit_part, &j, qkv.rows, 2 * dl->n_k * dl->d_k);
    return ST_OK;
}

/* ---- rule ---- */

static void gates_part(void *ctx, int part, int n_parts)
{
    const struct delta_job *j = ctx;
    int32_t n = j->dl->n_v;
    long from, to;
    pool_share(j->ba.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++) {
        float *ba = view_f32(j->ba, t);
        const float *decay = vector_of(j->dl->decay), *dt = vector_of(j->dl->dt);
        if (j->dl->skip)
            j->be->kernels->mamba_gates(ba, ba + n, decay, dt, j->dl->dt_min, j->dl->dt_max, n);
        else
            j->be->kernels->delta_gates(ba, ba + n, decay, dt, n);
    }
}

static void head_item(void *ctx, long u, int part)
{
    const struct delta_job *j = ctx;
    const struct delta_layer *dl = j->dl;
    long of_seq = (long)dl->n_v * j->n_blocks;
    const struct delta_rows r = rows_of(j, (int32_t)(u / of_seq));
    int32_t h = (int32_t)(u % of_seq / j->n_blocks), c = (int32_t)(u % j->n_blocks) * DELTA_COLS;
    int32_t k_head = (h + dl->v_offset) / dl->v_per_k % dl->n_k, keys = dl->n_k * dl->d_k;
    (void)part;
    if (r.n == 0)
        return;
    const float *qkv = view_f32(j->qkv, r.first), *ba = view_f32(j->ba, r.first);
    struct delta_head head = {
        .state = view_f32(j->s.rule, r.slot) + (size_t)h * (size_t)(dl->d_k * dl->d_v) + c,
        .stride = (size_t)dl->d_v,
        .n = r.n,
        .d_k = dl->d_k,
        .cols = dl->d_v - c < DELTA_COLS ? dl->d_v - c : DELTA_COLS,
        .q = qkv + (size_t)(k_head * dl->d_k),
        .k = qkv + keys + (size_t)(k_head * dl->d_k),
        .v = qkv + 2 * keys + (size_t)(h * dl->d_v) + c,
        .qkv_stride = (size_t)j->qkv.stride,
        .g = ba + dl->n_v + h,
        .beta = ba + h,
        .skip = dl->skip ? vector_of(dl->skip) + h : NULL,
        .gate_stride = (size_t)j->ba.stride,
        .out = view_f32(j->out, r.first) + (size_t)(h * dl->d_v) + c,
        .out_stride = (size_t)j->out.stride,
    };
    for (int32_t i = 0; r.begins && i < dl->d_k; i++)
        memset(head.state + (size_t)i * head.stride, 0, (size_t)head.cols * sizeof(float));
    j->be->kernels->delta_head(&head);
}

enum status cpu_delta_rule(struct backend *be, const struct delta_layer *dl,
                           const struct step_dev *st, struct view qkv, struct view ba,
                           struct delta_state s, struct view out)
{
    assert(qkv.cols == delta_channels(dl) && ba.cols == 2 * dl->n_v);
    assert(out.cols == dl->n_v * dl->d_v && s.rule.cols == dl->n_v * dl->d_k * dl->d_v);
    assert(qkv.rows == st->n_tokens && ba.rows == qkv.rows && out.rows == qkv.rows);
    assert(dl->decay->k == dl->n_v && dl->dt->k == dl->n_v);
    assert(dl->n_k > 0 && dl->v_per_k > 0 && (!dl->skip || dl->skip->k == dl->n_v));
    struct delta_job j = {.be = be, .dl = dl, .st = st, .qkv = qkv, .ba = ba, .out = out, .s = s};
    j.n_blocks = (dl->d_v + DELTA_COLS - 1) / DELTA_COLS;
    rows_run(be, gates_part, &j, ba.rows, ba.cols);
    run_items(&j, (long)st->n_seqs * dl->n_v * j.n_blocks, (int64_t)qkv.rows * 2 * s.rule.cols,
              PRODUCT_GRAIN, head_item);
    return ST_OK;
}

/* ---- the norm behind it ---- */

struct norm_job {
    const struct kernels *kernels;
    struct view x, gate;
    const struct weight *w;
    float eps;
};

static void norm_part(void *ctx, int part, int n_parts)
{
    const struct norm_job *j = ctx;
    int32_t d = j->w->k;
    long from, to;
    pool_share(j->x.rows, part, n_parts, &from, &to);
    for (int32_t t = (int32_t)from; t < to; t++)
        for (int32_t c = 0; c < j->x.cols; c += d)
            j->kernels->gated_norm(view_f32(j->x, t) + c, vector_of(j->w), j->eps,
                                   view_f32(j->gate, t) + c, d);
}

enum status cpu_gated_norm(struct backend *be, struct view x, const struct weight *w, float eps,
                           struct view gate)
{
    assert(x.cols % w->k == 0 && gate.rows == x.rows && gate.cols == x.cols);
    struct norm_job j = {be->kernels, x, gate, w, eps};
    rows_run(be, norm_part, &j, x.rows, x.cols);
    return ST_OK;
}
