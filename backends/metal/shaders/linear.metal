/* Matrix products and rows of matrices.  A matrix is stored as in the file: rows of elements or of
 * blocks. */

template <int TYPE>
static inline void embed_rows(constant struct metal_embed_args &a, const device uint8_t *w,
                              const device int32_t *ids, device float *out, uint3 group, uint index)
{
    int64_t row = (int64_t)ids[(int64_t)group.x * a.id_stride] - a.first_id;
    int i = strip_at(group, index), start = 0;
    if (i >= a.k)
        return;
    device float *o = out + (int64_t)group.x * a.out_stride + i;
    struct row_slice s = no_slice(a.form, w);
    for (int j = 0; is_scaled<TYPE>() && j < a.n_slices && start <= i; start = a.slice_end[j++])
        enter_slice<TYPE>(s, a.form, start, a.slice_end[j]);
    if (row >= a.row0 && row < (int64_t)a.row0 + a.rows)
        *o = weight_at<TYPE>(s, w + a.form.head + (row - a.row0) * a.row_bytes, i - s.start) + 0.0f;
    else if (a.fills != 0 && (row < 0 || row >= a.n))
        *o = 0.0f;
}

#define EMBED(name, type)                                                                          \
    KERNEL name(constant struct metal_embed_args &a BUF(0), const device uint8_t *w BUF(1),        \
                const device int32_t *ids BUF(2), device float *out BUF(3), GRID)                  \
    {                                                                                              \
        (void)lane, (void)simd;                                                                    \
        embed_rows<type>(a, w, ids, out, group, index);                                            \
    }
#define EMBED_OF(a, b, name, type) EMBED(embed_##name, type)
METAL_EACH_TYPE(EMBED_OF, , )

/* Pairs of neighbours are added, level by level: the tree of struct weight_src. */
static inline float slice_tree(thread float *part, int n)
{
    for (int apart = 1; apart < n; apart *= 2)
        for (int i = 0; i + apart < n; i += 2 * apart)
            part[i] += part[i + apart];
    return part[0];
}

/* Sums acc [n] of slice s, added to those of the slices before it in slice_tree's order; level [3 n]
 * is kept between calls.  Behind the last slice acc has the whole sums. */
template <int N> static inline void add_slice(int s, thread float *acc, thread float *level)
{
    bool open = true;
    UNROLL for (int l = 0; l < 3; l++) {
        bool right = (s >> l & 1) != 0;
        UNROLL for (int i = 0; i < N; i++) {
            float held = level[l * N + i];
            level[l * N + i] = open && !right ? acc[i] : held;
            acc[i] = open && right ? held + acc[i] : acc[i];
        }
        open = open && right;
    }
}

/* Of ROWS rows of w, row[r] bytes behind w, of which `in` is slice [start, end), with n <= TOKENS rows of x, at[t] elements behind x: sums
 * over columns [start, end) to acc [ROWS, TOKENS].  Lane j adds every 32nd piece from the j-th on, then every 32nd column of what
 * is left on both sides, in one chain of fused multiply-adds; then warp_sum.  ROWS, TOKENS and n do not
 * change the order. */
template <int TYPE, int ROWS, int TOKENS>
static inline void strip_sums(const thread struct row_slice &in, const thread int64_t *row,
                              const device uint8_t *w, const thread int64_t *at,
                              const device float *x, int n, int start, int end, thread float *acc,
                              uint lane)
{
    const int runs = piece_runs<TYPE>(), origin = origin_of<TYPE>(start);
    struct column_span s = span_of<TYPE>(in, start - origin, end - origin);
    w += origin_bytes<TYPE>(origin);
    x += origin;
    UNROLL for (int i = 0; i < ROWS * TOKENS; i++)
        acc[i] = 0.0f;
    for (uint p = s.first + lane; p < s.last; p += 32) {
        float f[ROWS * 16];
        const device float *from = x + piece_at<TYPE>(p);
        UNROLL for (int r = 0; r < ROWS; r++)
            piece_weights<TYPE>(in, w + row[r], p, f + 16 * r);
        UNROLL for (int t = 0; t < TOKENS; t++) {
            if (TOKENS > 1 && t >= n)
                continue;
            UNROLL for (int j = 0; j < runs; j++) {
                packed_float4 v =
                    *(const device packed_float4 *)(from + at[t] + run_at<TYPE>(j));
                UNROLL for (int r = 0; r < ROWS; r++)
                    UNROLL for (int i = 0; i < 4; i++)
                        acc[r * TOKENS + t] =
                            fmaf(v[i], f[16 * r + 4 * j + i], acc[r * TOKENS + t]);
            }
        }
    }
    for (int side = 0; side < 2; side++) {
        int last = side == 0 ? s.left : end - origin;
        for (int k = (side == 0 ? start - origin : s.right) + (int)lane; k < last; k += 32)
            UNROLL for (int r = 0; r < ROWS; r++) {
                float f = weight_at<TYPE>(in, w + row[r], k);
                UNROLL for (int t = 0; t < TOKENS; t++)
                    if (t < n)
                        acc[r * TOKENS + t] = fmaf(x[at[t] + k], f, acc[r * TOKENS + t]);
            }
    }
    UNROLL for (int i = 0; i < ROWS * TOKENS; i++)
        if (i % TOKENS < n)
            acc[i] = warp_sum(acc[i]);
}

/* Of one row w of a part with n <= METAL_LINEAR_TOKENS rows of x, which begin at[t] elements behind x: w is
 * read once for them.  sum[t METAL_MAX_SLICES + s] is that over slice s, in the order of linear. */
template <int TYPE>
static inline void row_sums(constant struct metal_form &form, const device uint8_t *part,
                            const device uint8_t *w, const device float *x, const thread int64_t *at,
                            int n, int n_slices, constant int32_t *slice_end, thread float *sum,
                            uint lane)
{
    const int64_t row[1] = {0};
    struct row_slice in = no_slice(form, part);
    float acc[METAL_LINEAR_TOKENS];
    for (int s = 0, start = 0; s < n_slices; start = slice_end[s++]) {
        enter_slice<TYPE>(in, form, start, slice_end[s]);
        strip_sums<TYPE, 1, METAL_LINEAR_TOKENS>(in, row, w, at, x, n, start, slice_end[s], acc,
                                                 lane);
        UNROLL for (int t = 0; t < METAL_LINEAR_TOKENS; t++)
            sum[t * METAL_MAX_SLICES + s] = acc[t];
    }
}

/* A simdgroup has ROWS rows of w and TOKENS rows of x.  The slices are added as a tree, the bias
 * last. */
template <int TYPE, int ROWS, int TOKENS>
static inline void linear_rows(constant struct metal_linear_args &a, const device uint8_t *w,
                               const device float *x, const device float *bias, device float *out,
                               uint3 group, uint lane, uint simd)
{
    int first = ((int)group.x * METAL_LINEAR_SIMDS + (int)simd) * ROWS;
    int token = (int)group.y * TOKENS, n = a.n_tokens - token;
    float acc[ROWS * TOKENS], level[3 * ROWS * TOKENS];
    int64_t row[ROWS], x_at[TOKENS];
    if (first >= a.rows)
        return; /* the whole simdgroup */
    w += (int64_t)group.z * a.w_step * 16;
    x += (int64_t)group.z * a.x_step;
    out += (int64_t)group.z * a.out_step;
    UNROLL for (int r = 0; r < ROWS; r++) /* beyond the last row it is taken again */
        row[r] = a.form.head + (int64_t)(first + r < a.rows ? first + r : a.rows - 1) * a.row_bytes;
    UNROLL for (int t = 0; t < TOKENS; t++)
        x_at[t] = (int64_t)(token + t) * a.x_stride;
    UNROLL for (int i = 0; i < 3 * ROWS * TOKENS; i++)
        level[i] = 0.0f;
    struct row_slice in = no_slice(a.form, w);
    for (int s = 0, start = 0; s < a.n_slices; start = a.slice_end[s++]) {
        enter_slice<TYPE>(in, a.form, start, a.slice_end[s]);
        strip_sums<TYPE, ROWS, TOKENS>(in, row, w, x_at, x, n, start, a.slice_end[s], acc, lane);
        add_slice<ROWS * TOKENS>(s, acc, level);
    }
    UNROLL for (int r = 0; r < ROWS; r++)
        UNROLL for (int t = 0; t < TOKENS; t++) {
            float v = acc[r * TOKENS + t];
            if (lane == 0 && t < n && first + r < a.rows)
                out[(int64_t)(token + t) * a.out_stride + first + r] =
                    a.has_bias != 0 ? v + bias[first + r] : v;
        }
}

/* Groups: [rows of w, rows of x, matrices of a stack], the first two by what a group has of them. */
#define LINEAR(name, type, n_rows, n_tokens)                                                       \
    KERNEL name(constant struct metal_linear_args &a BUF(0), const device uint8_t *w BUF(1),       \
                const device float *x BUF(2), const device float *bias BUF(3),                     \
                device float *out BUF(4), GRID)                                                    \
    {                                                                                              \
        (void)index;                                                                               \
        linear_rows<type, n_rows, n_tokens>(a, w, x, bias, out, group, lane, simd);                \
    }
#define LINEAR_OF(a, b, name, type)                                                                \
    LINEAR(linear_##name, type, METAL_LINEAR_ROWS, METAL_LINEAR_TOKENS)                            \
    LINEAR(linear_one_##name, type, METAL_LINEAR_ROWS_ONE, 1)
METAL_EACH_TYPE(LINEAR_OF, , )
