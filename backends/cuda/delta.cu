/* Gated delta nets and Mamba-2: each sequence's tokens one after the other, a thread for each channel
 * of the convolution, four lanes for each column of a head's state, which is in registers from the first
 * token of a step to the last.
 *
 * Order of the rule's sums over d_k: 16 chains, chain j over the rows i with i mod 16 = j, ascending; then
 * (0 + 1) + (2 + 3) of each four neighbours, and the four sums alike.  It depends on neither the step's
 * tokens nor d_k's padding with zeros. */
#include "backends/cuda/gpu.h"
#include "backends/cuda/smem.h"

enum {
    THREADS = 128,
    WARPS = THREADS / 32,
    FEW_TAPS = 4,
    AT_ONCE = 8,       /* tokens of a channel that are loaded together */
    COLUMNS = 32,      /* of a block of delta_rule_kernel: eight a warp */
    CHAINS = 16,       /* four a lane */
    BATCH = 16,        /* tokens that are in shared memory together */
    MAX_D_K = 2 * 128, /* rows of a state */
};

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
 * taps and the last TAPS - 1 inputs are in registers; TAPS >= a.taps.  Bound by the instructions of a
 * channel's tokens, one after the other. */
template <int TAPS> KERNEL(THREADS) delta_conv_kernel(struct delta_args a)
{
    pdl_wait();
    const struct delta_rows r = rows_of(a);
    const int32_t c = (int32_t)(blockIdx.y * THREADS + threadIdx.x), absent = TAPS - a.taps;
    if (c >= a.channels || r.n == 0)
        return;
    float *past = a.past + (int64_t)r.slot * a.past_stride + c;
    float tap[TAPS], in[TAPS - 1 + AT_ONCE]; /* the inputs before the tokens, then these */
    UNROLL
    for (int32_t i = 0; i < TAPS; i++)
        tap[i] = i >= absent ? a.conv[(int64_t)(i - absent) * a.channels + c] : 0.0f;
    UNROLL
    for (int32_t i = 0; i < TAPS - 1; i++)
        in[i] = i < absent || r.begins ? 0.0f : past[(int64_t)(i - absent) * a.channels];
    const float bias = a.bias ? a.bias[c] : 0.0f;
    NO_UNROLL
    for (int32_t t = 0; t < r.n; t += AT_ONCE) {
        float *x = a.qkv + (int64_t)(r.first + t) * a.qkv_stride + c;
        const int32_t n = r.n - t < AT_ONCE ? r.n - t : AT_ONCE;
        UNROLL
        for (int32_t j = 0; j < AT_ONCE; j++)
            in[TAPS - 1 + j] = j < n ? x[(int64_t)j * a.qkv_stride] : 0.0f;
        UNROLL
        for (int32_t j = 0; j < AT_ONCE; j++)
            if (j < n) {
                float acc = bias;
                UNROLL
                for (int32_t i = 0; i < TAPS; i++)
                    acc = i >= absent ? fmaf(tap[i], in[j + i], acc) : acc;
                x[(int64_t)j * a.qkv_stride] = exact_silu(acc);
            }
        UNROLL
        for (int32_t i = 0; i < TAPS - 1;
             i++) { /* the newest inputs are those before the next tokens */
            float next = in[i + AT_ONCE];
            UNROLL
            for (int32_t j = 1; j < AT_ONCE; j++)
                next = j == n ? in[i + j] : next;
            in[i] = next;
        }
    }
    UNROLL
    for (int32_t i = 0; i < TAPS - 1; i++)
        if (i >= absent)
            past[(int64_t)(i - absent) * a.channels] = in[i];
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
    const dim3 grid((unsigned)st->n_seqs, (unsigned)blocks_for(C, THREADS));
    if (dl->taps <= FEW_TAPS)
        TRY(LAUNCH_DEPENDENT(be, delta_conv_kernel<FEW_TAPS>, grid, THREADS, 0, a));
    else
        TRY(LAUNCH_DEPENDENT(be, delta_conv_kernel<DELTA_MAX_TAPS>, grid, THREADS, 0, a));
    if (dl->skip || dl->n_k == 0)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, delta_unit_kernel,
                            dim3((unsigned)qkv.rows, (unsigned)blocks_for(2 * dl->n_k, WARPS)),
                            THREADS, 0, a);
}

/* What a block needs of BATCH tokens. */
template <int ROWS> struct rule_batch {
    float q[BATCH][ROWS], k[BATCH][ROWS]; /* zeros from d_k on */
    float v[BATCH][COLUMNS];              /* zeros from d_v on */
    float decay[BATCH], rate[BATCH];      /* g; beta, or with skip the step */
};

/* Four of n elements at src, from element i on, zeros behind them.  `whole`: src is aligned and n a
 * multiple of four. */
DEVICE void copy_4(float *dst, const float *src, int32_t i, int32_t n, bool whole)
{
    if (whole) {
        cp_async_16(dst, src + i, i < n);
        return;
    }
    UNROLL
    for (int32_t e = 0; e < 4; e++)
        dst[e] = i + e < n ? src[i + e] : 0.0f;
}

/* Tokens [t, t + n) of the block's head and columns. */
template <int ROWS>
DEVICE void load_batch(const struct delta_args &a, rule_batch<ROWS> &b, int32_t t, int32_t n,
                       bool whole)
{
    enum { FOURS = (2 * ROWS + COLUMNS) / 4 };
    const int32_t h = (int32_t)blockIdx.y, j = (int32_t)blockIdx.z * COLUMNS;
    const int32_t k_head = (h + a.v_offset) / a.v_per_k % a.n_k, keys = a.n_k * a.d_k;
    for (int32_t i = (int32_t)threadIdx.x; i < n * FOURS; i += THREADS) {
        const int32_t row = i / FOURS, c = i % FOURS * 4;
        const float *q = a.qkv + (int64_t)(t + row) * a.qkv_stride + (int64_t)k_head * a.d_k;
        const float *v = q + 2 * (int64_t)keys + (int64_t)h * a.d_v - (int64_t)k_head * a.d_k + j;
        if (c < ROWS)
            copy_4(b.q[row] + c, q, c, a.d_k, whole);
        else if (c < 2 * ROWS)
            copy_4(b.k[row] + c - ROWS, q + keys, c - ROWS, a.d_k, whole);
        else
            copy_4(b.v[row] + c - 2 * ROWS, v, c - 2 * ROWS, a.d_v - j, whole);
    }
    if ((int32_t)threadIdx.x < n) {
        const float *ba = a.ba + (int64_t)(t + (int32_t)threadIdx.x) * a.ba_stride;
        float step = exact_softplus(ba[a.n_v + h] + a.dt[h]);
        if (a.skip) {
            step = step < a.dt_min ? a.dt_min : step;
            step = step > a.dt_max ? a.dt_max : step;
        }
        b.decay[threadIdx.x] = exact_exp(a.decay[h] * step);
        b.rate[threadIdx.x] = a.skip ? step : gate(1.0f, ba[h]);
    }
}

/* Sum of a column's chains, four of them in each of four neighbouring lanes: all four get it. */
DEVICE float sum_chains(const float (&c)[4])
{
    float sum = (c[0] + c[1]) + (c[2] + c[3]);
    sum += shfl_xor(sum, 1);
    return sum + shfl_xor(sum, 2);
}

/* One token: the lane's rows of its column's state go on.  The column's output. */
template <int ROWS, bool SKIP>
DEVICE float rule_token(const rule_batch<ROWS> &b, int32_t t, float skip, int32_t column,
                        float (&s)[ROWS / CHAINS][4])
{
    const float g = b.decay[t], v = b.v[t][column];
    const float *k = b.k[t] + lane_id() % 4 * 4, *q = b.q[t] + lane_id() % 4 * 4;
    float u = b.rate[t], sum[4] = {0.0f, 0.0f, 0.0f, 0.0f}, out[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    UNROLL
    for (int32_t i = 0; i < ROWS / CHAINS; i++) {
        const float4 ki = ld_f32x4(k + CHAINS * i);
        const float four[4] = {ki.x, ki.y, ki.z, ki.w};
        UNROLL
        for (int32_t e = 0; e < 4; e++) {
            s[i][e] *= g;
            if (!SKIP)
                sum[e] = fmaf(s[i][e], four[e], sum[e]);
        }
    }
    u *= SKIP ? v : v - sum_chains(sum);
    UNROLL
    for (int32_t i = 0; i < ROWS / CHAINS; i++) {
        const float4 ki = ld_f32x4(k + CHAINS * i), qi = ld_f32x4(q + CHAINS * i);
        const float of_k[4] = {ki.x, ki.y, ki.z, ki.w}, of_q[4] = {qi.x, qi.y, qi.z, qi.w};
        UNROLL
        for (int32_t e = 0; e < 4; e++) {
            s[i][e] = fmaf(of_k[e], u, s[i][e]);
            out[e] = fmaf(s[i][e], of_q[e], out[e]);
        }
    }
    const float all = sum_chains(out);
    return SKIP ? fmaf(skip, v, all) : all;
}

/* grid (sequences, n_v, d_v / COLUMNS); lane l of a warp has rows i of column l / 4 with i / 4 mod 4 = l mod 4.
 * The next batch of tokens is on its way while one is used.  Bound: a decode by the states, read and
 * written once; else by the instructions of a column's tokens, one after the other. */
template <int ROWS, bool SKIP> KERNEL(THREADS) delta_rule_kernel(struct delta_args a)
{
    DYN_SMEM(rule_batch<ROWS>, batch);
    pdl_wait();
    const struct delta_rows r = rows_of(a);
    const int32_t h = (int32_t)blockIdx.y, column = (int32_t)threadIdx.x / 4, part = lane_id() % 4;
    const int32_t j = (int32_t)blockIdx.z * COLUMNS + column;
    const bool real = j < a.d_v,
               whole = ((a.d_k | a.d_v | a.qkv_stride) & 3) == 0 && ((uintptr_t)a.qkv & 15) == 0;
    if (r.n == 0)
        return;
    float *state = a.rule + (int64_t)r.slot * a.rule_stride + (int64_t)h * a.d_k * a.d_v + j;
    float s[ROWS / CHAINS][4];
    UNROLL
    for (int32_t i = 0; i < ROWS / CHAINS; i++) {
        UNROLL
        for (int32_t e = 0; e < 4; e++) {
            const int32_t row = CHAINS * i + 4 * part + e;
            const bool there = real && row < a.d_k && !r.begins;
            s[i][e] = there ? state[(int64_t)row * a.d_v] : 0.0f;
        }
    }
    load_batch(a, batch[0], r.first, r.n < BATCH ? r.n : BATCH, whole);
    cp_async_commit();
    NO_UNROLL
    for (int32_t t0 = 0; t0 < r.n; t0 += BATCH) {
        const int32_t n = r.n - t0 < BATCH ? r.n - t0 : BATCH, after = t0 + BATCH,
                      left = r.n - after;
        const rule_batch<ROWS> &now = batch[t0 / BATCH % 2];
        cp_async_wait<0>();
        SYNC_THREADS(); /* the batch is written; the one before it is used up */
        if (left > 0)
            load_batch(a, batch[after / BATCH % 2], r.first + after, left < BATCH ? left : BATCH,
                       whole);
        cp_async_commit();
        NO_UNROLL
        for (int32_t t = 0; t < n; t++) {
            const float out = rule_token<ROWS, SKIP>(now, t, SKIP ? a.skip[h] : 0.0f, column, s);
            if (real && part == 0)
                a.out[(int64_t)(r.first + t0 + t) * a.out_stride + (int64_t)h * a.d_v + j] = out;
        }
    }
    UNROLL
    for (int32_t i = 0; i < ROWS / CHAINS; i++) {
        UNROLL
        for (int32_t e = 0; e < 4; e++) {
            const int32_t row = CHAINS * i + 4 * part + e;
            if (real && row < a.d_k)
                state[(int64_t)row * a.d_v] = s[i][e];
        }
    }
}

template <int ROWS>
static enum status run_rule(struct backend *be, const struct delta_args &a, dim3 grid)
{
    const size_t smem = 2 * sizeof(rule_batch<ROWS>);
    static_assert(2 * sizeof(rule_batch<ROWS>) <= BLOCK_SMEM, "every device has so much");
    if (a.skip)
        return LAUNCH_DEPENDENT(be, (delta_rule_kernel<ROWS, true>), grid, THREADS, smem, a);
    return LAUNCH_DEPENDENT(be, (delta_rule_kernel<ROWS, false>), grid, THREADS, smem, a);
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
    if (dl->d_k > MAX_D_K)
        FAIL(ST_UNSUPPORTED, "states of %d rows: the CUDA backend takes up to %d", dl->d_k,
             MAX_D_K);
    struct delta_args a = args_of(dl, st, qkv);
    a.ba = view_f32(ba);
    a.ba_stride = ba.stride;
    a.rule = view_f32(s.rule);
    a.rule_stride = s.rule.stride;
    a.out = view_f32(out);
    a.out_stride = out.stride;
    const dim3 grid((unsigned)st->n_seqs, (unsigned)dl->n_v,
                    (unsigned)blocks_for(dl->d_v, COLUMNS));
    return dl->d_k <= MAX_D_K / 2 ? run_rule<MAX_D_K / 2>(be, a, grid)
                                  : run_rule<MAX_D_K>(be, a, grid);
}
