/* Ops over rows that some families have between the usual parts: norms of heads, residual streams,
 * gates cut by their row's statistics.  Rows are on group.x. */

/* ---- heads: a simdgroup each, METAL_HEAD_SIMDS of them on group.y ---- */

static inline int head_of(uint3 group, uint simd)
{
    return (int)group.y * METAL_HEAD_SIMDS + (int)simd;
}

/* Of n elements: lane j has j, j + 32, ... in one chain, then tree_sum. */
static inline float squares_of(const device float *x, int n, uint lane)
{
    float sum = 0.0f;
    for (int i = (int)lane; i < n; i += 32)
        sum = fmaf(x[i], x[i], sum);
    return tree_sum(sum);
}

KERNEL head_squares(constant struct metal_heads_args &a BUF(0), const device float *x BUF(1),
                    device float *out BUF(2), GRID)
{
    (void)index;
    int h = head_of(group, simd);
    if (h >= a.n)
        return; /* the whole simdgroup */
    float sum = squares_of(x + (int64_t)group.x * a.x_stride + (int64_t)h * a.d, a.d, lane);
    if (lane == 0)
        out[(int64_t)group.x * a.other_stride + h] = sum;
}

KERNEL wide_norm(constant struct metal_heads_args &a BUF(0), const device float *squares BUF(1),
                 const device float *w BUF(2), device float *x BUF(3), GRID)
{
    (void)index;
    int h = head_of(group, simd);
    if (h >= a.n)
        return;
    const device float *s =
        squares + (int64_t)group.x * a.other_stride + (a.first + h) / a.group * a.group;
    device float *v = x + (int64_t)group.x * a.x_stride + (int64_t)h * a.d;
    float sum = 0.0f;
    for (int i = 0; i < a.group; i++)
        sum += s[i];
    float factor = 1.0f / sqrtf(sum / ((float)a.group * (float)a.d) + a.eps);
    for (int i = (int)lane; i < a.d; i += 32)
        v[i] = v[i] * factor * w[(int64_t)h * a.d + i];
}

KERNEL gated_norm(constant struct metal_heads_args &a BUF(0), const device float *w BUF(1),
                  const device float *gates BUF(2), device float *x BUF(3), GRID)
{
    (void)index;
    int h = head_of(group, simd);
    if (h >= a.n)
        return;
    const device float *z = gates + (int64_t)group.x * a.other_stride + (int64_t)h * a.d;
    device float *v = x + (int64_t)group.x * a.x_stride + (int64_t)h * a.d;
    float factor = 1.0f / sqrtf(squares_of(v, a.d, lane) / (float)a.d + a.eps);
    for (int i = (int)lane; i < a.d; i += 32)
        v[i] = v[i] * factor * w[i] * exact_silu(z[i]);
}

/* ---- residual streams: strips of METAL_STRIP columns on group.y ---- */

KERNEL predict_streams(constant struct metal_streams_args &a BUF(0), const device float *coef BUF(1),
                       device float *x BUF(2), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index);
    float in[METAL_MAX_STREAMS];
    if (i >= a.d)
        return;
    const device float *c = coef + (int64_t)group.x * a.coef_stride;
    device float *v = x + (int64_t)group.x * a.x_stride + i;
    for (int p = 0; p < METAL_MAX_STREAMS; p++)
        in[p] = p < a.n ? v[(int64_t)p * a.d] : 0.0f;
    for (int j = 0; j < a.n; j++) {
        float acc = 0.0f, own = 0.0f;
        for (int p = 0; p < METAL_MAX_STREAMS; p++) {
            acc = p < a.n ? fmaf(c[j * a.n + p], in[p], acc) : acc;
            own = p == j ? in[p] : own;
        }
        v[(int64_t)j * a.d] = acc + own;
    }
}

KERNEL correct_streams(constant struct metal_streams_args &a BUF(0), const device float *coef BUF(1),
                       const device float *w BUF(2), device float *x BUF(3),
                       device float *active BUF(4), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index);
    if (i >= a.d)
        return;
    const device float *c = coef + (int64_t)group.x * a.coef_stride;
    device float *v = x + (int64_t)group.x * a.x_stride + i;
    device float *to = active + (int64_t)group.x * a.active_stride + i;
    float more = *to - v[(int64_t)a.i * a.d], own = 0.0f;
    for (int j = 0; j < a.n; j++) {
        float next = fmaf(more, c[j] + 1.0f, v[(int64_t)j * a.d]);
        v[(int64_t)j * a.d] = next;
        own = j == a.i ? next : own;
    }
    *to = a.has_weight != 0 ? own * w[i] : own;
}

/* The mean of a row's squares, by a group of METAL_NORM_THREADS. */
static inline float mean_square(const device float *x, int d, threadgroup float *part, uint index,
                                uint lane, uint simd)
{
    float sum = 0.0f;
    for (int i = (int)index; i < d; i += METAL_NORM_THREADS)
        sum = fmaf(x[i], x[i], sum);
    return group_sum(sum, part, lane, simd, METAL_NORM_THREADS / 32) / (float)d;
}

KERNEL match_rms(constant struct metal_match_args &a BUF(0), const device float *like BUF(1),
                 device float *x BUF(2), GRID)
{
    SHARED(float, part, [32]);
    device float *v = x + (int64_t)group.x * a.x_stride;
    float own = mean_square(v, a.d, part, index, lane, simd);
    float other =
        mean_square(like + (int64_t)group.x * a.like_stride, a.d, part, index, lane, simd);
    own = own < 1e-5f ? 1e-5f : own;
    float factor = sqrtf(other) / sqrtf(own);
    for (int i = (int)index; i < a.d; i += METAL_NORM_THREADS)
        v[i] = factor * v[i];
}

/* Groups: strips of tokens. */
KERNEL known_ids(constant struct metal_known_args &a BUF(0), const device int32_t *ids BUF(1),
                 device int32_t *out BUF(2), GRID)
{
    (void)lane, (void)simd;
    int64_t t = (int64_t)group.x * METAL_STRIP + index;
    if (t >= a.n_tokens)
        return;
    int id = ids[t * a.id_stride];
    out[t * a.out_stride] = id >= 0 && id < a.n ? id : 0;
}

/* ---- gates that are cut ---- */

/* Groups: [rows, slices], of METAL_NORM_THREADS. */
KERNEL slice_stats(constant struct metal_stats_args &a BUF(0), const device float *x BUF(1),
                   device float *out BUF(2), GRID)
{
    SHARED(float, part, [32]);
    int s = (int)group.y, first = s > 0 ? a.slice_end[s - 1] : 0, n = a.slice_end[s] - first;
    const device float *v = x + (int64_t)group.x * a.x_stride + first;
    float sum = 0.0f, squares = 0.0f;
    for (int i = (int)index; i < n; i += METAL_NORM_THREADS)
        sum += v[i];
    sum = group_sum(sum, part, lane, simd, METAL_NORM_THREADS / 32);
    float mean = n > 0 ? sum / (float)n : 0.0f;
    for (int i = (int)index; i < n; i += METAL_NORM_THREADS)
        squares = fmaf(v[i] - mean, v[i] - mean, squares);
    squares = group_sum(squares, part, lane, simd, METAL_NORM_THREADS / 32);
    if (index == 0) {
        device float *to = out + (int64_t)group.x * a.out_stride + 3 * s;
        to[0] = (float)n;
        to[1] = mean;
        to[2] = squares;
    }
}

/* Groups: [rows, strips of columns]. */
KERNEL cut_gates(constant struct metal_cut_args &a BUF(0), const device float *stats BUF(1),
                 device float *x BUF(2), GRID)
{
    (void)lane, (void)simd;
    int i = strip_at(group, index);
    const device float *st = stats + (int64_t)group.x * a.stats_stride;
    float n = 0.0f, sum = 0.0f, squares = 0.0f;
    if (i >= a.n)
        return;
    for (int s = 0; s < a.n_slices; s++) {
        n += st[3 * s];
        sum = fmaf(st[3 * s], st[3 * s + 1], sum);
    }
    float mean = sum / n;
    for (int s = 0; s < a.n_slices; s++) {
        float d = st[3 * s + 1] - mean;
        squares = (squares + st[3 * s + 2]) + st[3 * s] * (d * d);
    }
    device float *v = x + (int64_t)group.x * a.x_stride + i;
    float above = *v - (mean + a.factor * sqrtf(squares / n));
    *v = above < 0.0f ? 0.0f : above;
}
