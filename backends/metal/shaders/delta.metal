/* Gated delta nets and Mamba-2: each sequence's tokens one after the other, a thread for each channel
 * of the convolution and for each column of a head's state. */

/* The tokens of a sequence in this step. */
struct delta_rows {
    int first, n, slot;
    bool begins; /* with its first token */
};

static inline struct delta_rows delta_rows_of(const device int32_t *q_start,
                                              const device int32_t *positions,
                                              const device int32_t *states, uint seq)
{
    struct delta_rows r;
    r.first = q_start[seq];
    r.n = q_start[seq + 1] - r.first;
    r.slot = states[seq];
    r.begins = r.n > 0 && positions[r.first] == 0;
    return r;
}

/* Groups: [sequences, channels / METAL_DELTA_THREADS].  The last taps - 1 inputs are in registers. */
KERNEL delta_conv(constant struct metal_delta_args &a BUF(0), const device float *conv BUF(1),
                  const device float *bias BUF(2), const device int32_t *q_start BUF(3),
                  const device int32_t *positions BUF(4), const device int32_t *states BUF(5),
                  device float *qkv BUF(6), device float *state BUF(7), GRID)
{
    (void)lane, (void)simd;
    struct delta_rows r = delta_rows_of(q_start, positions, states, group.x);
    int c = (int)group.y * METAL_DELTA_THREADS + (int)index, before = a.taps - 1;
    if (c >= a.channels || r.n == 0)
        return;
    device float *past = state + (int64_t)r.slot * a.past_stride + c;
    float in[DELTA_MAX_TAPS]; /* the newest at DELTA_MAX_TAPS - 1 */
    for (int i = 0; i < DELTA_MAX_TAPS; i++) {
        int at = i - (DELTA_MAX_TAPS - before);
        in[i] = at < 0 || r.begins ? 0.0f : past[(int64_t)at * a.channels];
    }
    for (int t = 0; t < r.n; t++) {
        device float *x = qkv + (int64_t)(r.first + t) * a.qkv_stride + c;
        float acc = a.has_bias != 0 ? bias[c] : 0.0f;
        for (int i = 0; i < DELTA_MAX_TAPS - 1; i++)
            in[i] = in[i + 1];
        in[DELTA_MAX_TAPS - 1] = *x;
        for (int i = 0; i < DELTA_MAX_TAPS; i++) {
            int tap = i - (DELTA_MAX_TAPS - a.taps);
            if (tap >= 0)
                acc = fmaf(conv[(int64_t)tap * a.channels + c], in[i], acc);
        }
        *x = exact_silu(acc);
    }
    for (int i = 0; i < DELTA_MAX_TAPS; i++) {
        int at = i - (DELTA_MAX_TAPS - before);
        if (at >= 0)
            past[(int64_t)at * a.channels] = in[i];
    }
}

/* Heads of q and k to unit length, those of q by 1 / sqrt(d_k) too.  Groups: [tokens,
 * 2 n_k / GATES_HEADS], a simdgroup for a head. */
KERNEL delta_unit(constant struct metal_delta_args &a BUF(0), device float *qkv BUF(1), GRID)
{
    (void)index;
    int h = (int)(group.y * GATES_HEADS + simd);
    if (h >= 2 * a.n_k)
        return; /* the whole simdgroup */
    device float *x = qkv + (int64_t)group.x * a.qkv_stride + (int64_t)h * a.d_k;
    float unit = 1.0f / sqrtf(warp_squares(x, a.d_k, lane) + 1e-6f);
    unit = h < a.n_k ? unit * (1.0f / sqrtf((float)a.d_k)) : unit;
    for (int i = (int)lane; i < a.d_k; i += 32)
        x[i] = unit * x[i];
}

/* Groups: [sequences, value heads, columns of the state / METAL_DELTA_THREADS].  A column is read
 * twice and written once for each token; the chains over d_k bound it. */
KERNEL delta_rule(constant struct metal_delta_args &a BUF(0), const device float *qkv BUF(1),
                  const device float *gates BUF(2), const device float *decay BUF(3),
                  const device float *dt BUF(4), const device float *skip BUF(5),
                  const device int32_t *q_start BUF(6), const device int32_t *positions BUF(7),
                  const device int32_t *states BUF(8), device float *state BUF(9),
                  device float *out BUF(10), GRID)
{
    (void)lane, (void)simd;
    struct delta_rows r = delta_rows_of(q_start, positions, states, group.x);
    int h = (int)group.y, j = (int)group.z * METAL_DELTA_THREADS + (int)index;
    int k_head = (h + a.v_offset) / a.v_per_k % a.n_k, keys = a.n_k * a.d_k;
    if (j >= a.d_v || r.n == 0)
        return;
    device float *s = state + (int64_t)r.slot * a.rule_stride + (int64_t)h * a.d_k * a.d_v + j;
    for (int i = 0; r.begins && i < a.d_k; i++)
        s[(int64_t)i * a.d_v] = 0.0f;
    for (int t = 0; t < r.n; t++) {
        const device float *row = qkv + (int64_t)(r.first + t) * a.qkv_stride;
        const device float *ba = gates + (int64_t)(r.first + t) * a.ba_stride;
        const device float *q = row + (int64_t)k_head * a.d_k, *k = q + keys;
        float v = row[2 * (int64_t)keys + (int64_t)h * a.d_v + j];
        float step = exact_softplus(ba[a.n_v + h] + dt[h]), u, sum = 0.0f;
        if (a.has_skip != 0) {
            step = step < a.dt_min ? a.dt_min : step;
            step = step > a.dt_max ? a.dt_max : step;
        }
        float g = exact_exp(decay[h] * step);
        if (a.has_skip != 0) {
            u = step * v;
        } else {
            float m = 0.0f;
            for (int i = 0; i < a.d_k; i++)
                m = fmaf(g * s[(int64_t)i * a.d_v], k[i], m);
            u = (v - m) * gate(1.0f, ba[h]);
        }
        for (int i = 0; i < a.d_k; i++) {
            float next = fmaf(k[i], u, g * s[(int64_t)i * a.d_v]);
            s[(int64_t)i * a.d_v] = next;
            sum = fmaf(next, q[i], sum);
        }
        out[(int64_t)(r.first + t) * a.out_stride + (int64_t)h * a.d_v + j] =
            a.has_skip != 0 ? fmaf(skip[h], v, sum) : sum;
    }
}
