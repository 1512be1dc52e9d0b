/* Gated delta nets and Mamba-2: each sequence's tokens one after the other, a thread for each channel
 * of the convolution and for each column of a head's state.  Made to be right: a decode reads and
 * writes each state twice from L2. */
#include "backends/cuda/gpu.h"

enum { THREADS = 128, WARPS = THREADS / 32 };

struct delta_args {
    int32_t n_k, n_v, d_k, d_v, v_per_k, v_offset, taps, channels;
    const float *conv, *bias, *decay, *dt, *skip;
    float dt_min, dt_max;
    const int32_t *q_start, *pos, *state;
    float *qkv, *out, *past, *rule;
    const float *ba;
    int32_t qkv_stride, ba_stride, out_stride, past_stride, rule_stride, n_tokens;
};

static struct delta_args args_of(const struct delta_layer *dl, const struct step_dev *st,
                                 struct view qkv)
{
    struct delta_args a = {};
    a.n_k = dl->n_k;
    a.n_v = dl->n_v;
    a.d_k = dl->d_k;
    a.d_v = dl->d_v;
    a.v_per_k = dl->v_per_k;
    a.v_offset = dl->v_offset;
    a.taps = dl->taps;
    a.channels = delta_channels(dl);
    a.conv = vector_of(dl->conv);
    a.bias = vector_of(dl->bias);
    a.decay = vector_of(dl->decay);
    a.dt = vector_of(dl->dt);
    a.skip = vector_of(dl->skip);
    a.dt_min = dl->dt_min;
    a.dt_max = dl->dt_max;
    a.q_start = view_i32(st->q_start);
    a.pos = view_i32(st->pos);
    a.state = view_i32(st->state);
    a.qkv = view_f32(qkv);
    a.qkv_stride = qkv.stride;
    a.n_tokens = qkv.rows;
    return a;
}

/* The tokens of sequence blockIdx.x in this step. */
struct delta_rows {
    int32_t first, n, slot;
    bool begins; /* with its first token */
};

DEVICE struct delta_rows rows_of(const struct delta_args &a)
{
    const int32_t first = a.q_start[blockIdx.x], n = a.q_start[blockIdx.x + 1] - first;
    return {first, n, a.state[blockIdx.x], n > 0 && a.pos[first] == 0};
}

/* grid (sequences, C / THREADS); of a channel: 4 a token, read and written, and the taps before.  The
 * last taps - 1 inputs are in registers. */
KERNEL(THREADS) delta_conv_kernel(struct delta_args a)
{
    pdl_wait();
    const struct delta_rows r = rows_of(a);
    const int32_t c = (int32_t)(blockIdx.y * THREADS + threadIdx.x), before = a.taps - 1;
    if (c >= a.channels || r.n == 0)
        return;
    float *past = a.past + (int64_t)r.slot * a.past_stride + c;
    float in[DELTA_MAX_TAPS]; /* the newest at DELTA_MAX_TAPS - 1 */
    UNROLL
    for (int32_t i = 0; i < DELTA_MAX_TAPS; i++) {
        const int32_t at = i - (DELTA_MAX_TAPS - before);
        in[i] = at < 0 || r.begins ? 0.0f : past[(int64_t)at * a.channels];
    }
    for (int32_t t = 0; t < r.n; t++) {
        float *x = a.qkv + (int64_t)(r.first + t) * a.qkv_stride + c;
        float acc = a.bias ? a.bias[c] : 0.0f;
        UNROLL
        for (int32_t i = 0; i < DELTA_MAX_TAPS - 1; i++)
            in[i] = in[i + 1];
        in[DELTA_MAX_TAPS - 1] = *x;
        UNROLL
        for (int32_t i = 0; i < DELTA_MAX_TAPS; i++) {
            const int32_t tap = i - (DELTA_MAX_TAPS - a.taps);
            if (tap >= 0)
                acc = fmaf(a.conv[(int64_t)tap * a.channels + c], in[i], acc);
        }
        *x = exact_silu(acc);
    }
    UNROLL
    for (int32_t i = 0; i < DELTA_MAX_TAPS; i++) {
        const int32_t at = i - (DELTA_MAX_TAPS - before);
        if (at >= 0)
            past[(int64_t)at * a.channels] = in[i];
    }
}

/* Heads of q and k to unit length, those of q by 1 / sqrt(d_k) too.  grid (T, 2 n_k / WARPS), a warp
 * each; 8 d_k + 4 d_k a head */
KERNEL(THREADS) delta_unit_kernel(struct delta_args a)
{
    pdl_wait();
    const int32_t h = (int32_t)blockIdx.y * WARPS + warp_id();
    if (h >= 2 * a.n_k)
        return;
    float *x = a.qkv + (int64_t)blockIdx.x * a.qkv_stride + (int64_t)h * a.d_k, sum = 0.0f;
    for (int32_t i = lane_id(); i < a.d_k; i += 32)
        sum = fmaf(x[i], x[i], sum);
    float unit = 1.0f / sqrtf(warp_sum(sum) + 1e-6f);
    unit = h < a.n_k ? unit * (1.0f / sqrtf((float)a.d_k)) : unit;
    for (int32_t i = lane_id(); i < a.d_k; i += 32)
        x[i] = unit * x[i];
}

extern "C" enum status cuda_delta_conv(struct backend *be, const struct delta_layer *dl,
                                       const struct step_dev *st, struct view qkv,
                                       struct delta_state s)
{
    const int32_t C = delta_channels(dl);
    assert(qkv.cols == C && qkv.rows == st->n_tokens && dl->conv->k == dl->taps * C);
    assert(!dl->bias || dl->bias->k == C);
    assert(dl->taps >= 1 && dl->taps <= DELTA_MAX_TAPS && s.conv.cols == (dl->taps - 1) * C);
    if (qkv.rows == 0 || C == 0)
        return ST_OK;
    struct delta_args a = args_of(dl, st, qkv);
    a.past = dl->taps > 1 ? view_f32(s.conv) : nullptr;
    a.past_stride = s.conv.stride;
    TRY(LAUNCH_DEPENDENT(be, delta_conv_kernel,
                         dim3((unsigned)st->n_seqs, (unsigned)blocks_for(C, THREADS)), THREADS, 0,
                         a));
    if (dl->skip || dl->n_k == 0)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, delta_unit_kernel,
                            dim3((unsigned)qkv.rows, (unsigned)blocks_for(2 * dl->n_k, WARPS)),
                            THREADS, 0, a);
}

/* grid (sequences, n_v, d_v / THREADS); a token: the column's part of the state, twice read and once
 * written, from L1 or L2; q and k, the same for all threads.  Bound by the latency of the two chains
 * over d_k. */
KERNEL(THREADS) delta_rule_kernel(struct delta_args a)
{
    pdl_wait();
    const struct delta_rows r = rows_of(a);
    const int32_t h = (int32_t)blockIdx.y, j = (int32_t)(blockIdx.z * THREADS + threadIdx.x);
    const int32_t k_head = (h + a.v_offset) / a.v_per_k % a.n_k, keys = a.n_k * a.d_k;
    if (j >= a.d_v || r.n == 0)
        return;
    float *s = a.rule + (int64_t)r.slot * a.rule_stride + (int64_t)h * a.d_k * a.d_v + j;
    for (int32_t i = 0; r.begins && i < a.d_k; i++)
        s[(int64_t)i * a.d_v] = 0.0f;
    for (int32_t t = 0; t < r.n; t++) {
        const float *row = a.qkv + (int64_t)(r.first + t) * a.qkv_stride;
        const float *ba = a.ba + (int64_t)(r.first + t) * a.ba_stride;
        const float *q = row + (int64_t)k_head * a.d_k, *k = q + keys;
        const float v = row[2 * (int64_t)keys + (int64_t)h * a.d_v + j];
        float step = exact_softplus(ba[a.n_v + h] + a.dt[h]), u, out = 0.0f;
        if (a.skip) {
            step = step < a.dt_min ? a.dt_min : step;
            step = step > a.dt_max ? a.dt_max : step;
        }
        const float g = exact_exp(a.decay[h] * step);
        if (a.skip) {
            u = step * v;
        } else {
            float m = 0.0f;
            for (int32_t i = 0; i < a.d_k; i++)
                m = fmaf(g * s[(int64_t)i * a.d_v], k[i], m);
            u = (v - m) * gate(1.0f, ba[h]);
        }
        for (int32_t i = 0; i < a.d_k; i++) {
            const float next = fmaf(k[i], u, g * s[(int64_t)i * a.d_v]);
            s[(int64_t)i * a.d_v] = next;
            out = fmaf(next, q[i], out);
        }
        a.out[(int64_t)(r.first + t) * a.out_stride + (int64_t)h * a.d_v + j] =
            a.skip ? fmaf(a.skip[h], v, out) : out;
    }
}

extern "C" enum status cuda_delta_rule(struct backend *be, const struct delta_layer *dl,
                                       const struct step_dev *st, struct view qkv, struct view ba,
                                       struct delta_state s, struct view out)
{
    assert(qkv.cols == delta_channels(dl) && ba.cols == 2 * dl->n_v);
    assert(out.cols == dl->n_v * dl->d_v && s.rule.cols == dl->n_v * dl->d_k * dl->d_v);
    assert(qkv.rows == st->n_tokens && ba.rows == qkv.rows && out.rows == qkv.rows);
    assert(dl->decay->k == dl->n_v && dl->dt->k == dl->n_v);
    assert(dl->n_k > 0 && dl->v_per_k > 0 && (!dl->skip || dl->skip->k == dl->n_v));
    if (qkv.rows == 0 || out.cols == 0)
        return ST_OK;
    struct delta_args a = args_of(dl, st, qkv);
    a.ba = view_f32(ba);
    a.ba_stride = ba.stride;
    a.rule = view_f32(s.rule);
    a.rule_stride = s.rule.stride;
    a.out = view_f32(out);
    a.out_stride = out.stride;
    const dim3 grid((unsigned)st->n_seqs, (unsigned)dl->n_v,
                    (unsigned)blocks_for(dl->d_v, THREADS));
    return LAUNCH_DEPENDENT(be, delta_rule_kernel, grid, THREADS, 0, a);
}
