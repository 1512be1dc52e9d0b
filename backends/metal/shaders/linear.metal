/* Matrix products and rows of matrices.  A matrix is stored as in the file: rows of elements or of
 * blocks. */

template <int TYPE> static inline float weight_at(const device uint8_t *row, int k)
{
    if (TYPE == METAL_F32)
        return ((const device float *)row)[k];
    if (TYPE == METAL_F16)
        return f32_of_f16(((const device uint16_t *)row)[k]);
    if (TYPE == METAL_BF16)
        return f32_of_bf16(((const device uint16_t *)row)[k]);
    return quant_at<TYPE>(row, k);
}

template <int TYPE>
static inline void embed_rows(constant struct metal_embed_args &a, const device uint8_t *w,
                              const device int32_t *ids, device float *out, uint3 group, uint index)
{
    int64_t row = (int64_t)ids[(int64_t)group.x * a.id_stride] - a.first_id;
    int i = strip_at(group, index);
    if (i >= a.k)
        return;
    device float *o = out + (int64_t)group.x * a.out_stride + i;
    if (row >= a.row0 && row < (int64_t)a.row0 + a.rows)
        *o = weight_at<TYPE>(w + (row - a.row0) * a.row_bytes, i) + 0.0f;
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
EMBED(embed_f32, METAL_F32)
EMBED(embed_f16, METAL_F16)
EMBED(embed_bf16, METAL_BF16)
EMBED(embed_q8_0, METAL_Q8_0)
EMBED(embed_q4_0, METAL_Q4_0)
EMBED(embed_q4_1, METAL_Q4_1)
EMBED(embed_q5_0, METAL_Q5_0)
EMBED(embed_q5_1, METAL_Q5_1)
EMBED(embed_q2_k, METAL_Q2_K)
EMBED(embed_q3_k, METAL_Q3_K)
EMBED(embed_q4_k, METAL_Q4_K)
EMBED(embed_q5_k, METAL_Q5_K)
EMBED(embed_q6_k, METAL_Q6_K)
EMBED(embed_iq4_nl, METAL_IQ4_NL)
EMBED(embed_iq4_xs, METAL_IQ4_XS)
EMBED(embed_mxfp4, METAL_MXFP4)

/* Pairs of neighbours are added, level by level: the tree of struct weight_src. */
static inline float slice_tree(thread float *part, int n)
{
    for (int apart = 1; apart < n; apart *= 2)
        for (int i = 0; i + apart < n; i += 2 * apart)
            part[i] += part[i + apart];
    return part[0];
}

/* Of one row of w with n <= METAL_LINEAR_TOKENS rows of x, which begin at[t] elements behind x: w is
 * read once for them.  sum[t METAL_MAX_SLICES + s] is that over slice s: lane j adds columns
 * start + j, start + j + 32, ... in one chain of fused multiply-adds, then tree_sum. */
template <int TYPE>
static inline void row_sums(const device uint8_t *w, const device float *x, const thread int64_t *at,
                            int n, int n_slices, constant int32_t *slice_end, thread float *sum,
                            uint lane)
{
    for (int s = 0, start = 0; s < n_slices; start = slice_end[s++]) {
        float acc[METAL_LINEAR_TOKENS];
        for (int t = 0; t < n; t++)
            acc[t] = 0.0f;
        for (int k = start + (int)lane; k < slice_end[s]; k += 32) {
            float f = weight_at<TYPE>(w, k);
            for (int t = 0; t < n; t++)
                acc[t] = fmaf(x[at[t] + k], f, acc[t]);
        }
        for (int t = 0; t < n; t++)
            sum[t * METAL_MAX_SLICES + s] = tree_sum(acc[t]);
    }
}

/* A simdgroup has one row of w and METAL_LINEAR_TOKENS rows of x.  The slices are added as a tree,
 * the bias last. */
template <int TYPE>
static inline void linear_rows(constant struct metal_linear_args &a, const device uint8_t *w,
                               const device float *x, const device float *bias, device float *out,
                               uint3 group, uint lane, uint simd)
{
    int row = (int)group.x * METAL_LINEAR_SIMDS + (int)simd;
    int token = (int)group.y * METAL_LINEAR_TOKENS, n = a.n_tokens - token;
    float sum[METAL_LINEAR_TOKENS * METAL_MAX_SLICES];
    int64_t at[METAL_LINEAR_TOKENS];
    if (row >= a.rows)
        return; /* the whole simdgroup */
    n = n < METAL_LINEAR_TOKENS ? n : METAL_LINEAR_TOKENS;
    for (int t = 0; t < METAL_LINEAR_TOKENS; t++)
        at[t] = t < n ? (int64_t)(token + t) * a.x_stride : 0;
    row_sums<TYPE>(w + (int64_t)row * a.row_bytes, x, at, n, a.n_slices, a.slice_end, sum, lane);
    for (int t = 0; t < n; t++) {
        float v = slice_tree(sum + t * METAL_MAX_SLICES, a.n_slices);
        if (lane == 0)
            out[(int64_t)(token + t) * a.out_stride + row] = a.has_bias != 0 ? v + bias[row] : v;
    }
}

#define LINEAR(name, type)                                                                         \
    KERNEL name(constant struct metal_linear_args &a BUF(0), const device uint8_t *w BUF(1),       \
                const device float *x BUF(2), const device float *bias BUF(3),                     \
                device float *out BUF(4), GRID)                                                    \
    {                                                                                              \
        (void)index;                                                                               \
        linear_rows<type>(a, w, x, bias, out, group, lane, simd);                                  \
    }
LINEAR(linear_f32, METAL_F32)
LINEAR(linear_f16, METAL_F16)
LINEAR(linear_bf16, METAL_BF16)
LINEAR(linear_q8_0, METAL_Q8_0)
LINEAR(linear_q4_0, METAL_Q4_0)
LINEAR(linear_q4_1, METAL_Q4_1)
LINEAR(linear_q5_0, METAL_Q5_0)
LINEAR(linear_q5_1, METAL_Q5_1)
LINEAR(linear_q2_k, METAL_Q2_K)
LINEAR(linear_q3_k, METAL_Q3_K)
LINEAR(linear_q4_k, METAL_Q4_K)
LINEAR(linear_q5_k, METAL_Q5_K)
LINEAR(linear_q6_k, METAL_Q6_K)
LINEAR(linear_iq4_nl, METAL_IQ4_NL)
LINEAR(linear_iq4_xs, METAL_IQ4_XS)
LINEAR(linear_mxfp4, METAL_MXFP4)
