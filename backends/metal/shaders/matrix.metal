/* Matrix products by products of 8x8 matrices, out = x w^T, instead of chains: INGOT_METAL_PRODUCTS.
 * Which lane has which elements of a matrix, and in which order a product's terms are added, is not
 * specified.  So a lane finds out its elements' places, and the contract stands on one property: a
 * row of a product has the same bits in every place and beside any other rows.  The same products
 * then serve every number of rows of x; rows that are missing are zeros. */

/* Rows of w in a simdgroup, in tiles of 8. */
#define MATRIX_TILES (METAL_MATRIX_ROWS / 8)

/* The places, row 8 + column, of the two elements that a lane has of a matrix.  By the whole group. */
static inline void find_places(threadgroup float *place, uint index, thread int *at)
{
    simdgroup_float8x8 m;
    if (index < 64)
        place[index] = (float)index;
    BARRIER(); /* the places are written */
    simdgroup_load(m, place, 8);
    at[0] = (int)m.thread_elements()[0];
    at[1] = (int)m.thread_elements()[1];
}

/* What a lane has of w and x: element e of a matrix of x is in row x_row[e], which is no row of zeros
 * if has_x[tile], and column x_col[e]; of one of w in row w_row[tile], column w_col[e].  Rows as
 * offsets. */
template <int X_TILES> struct lane_parts {
    int64_t w_row[2 * MATRIX_TILES], x_row[2 * X_TILES];
    bool has_x[2 * X_TILES];
    uint w_col[2], x_col[2];
};

/* sum += the products of 4 columns for each w_col and x_col, one matrix for each. */
template <int X_TILES>
static inline void add_matrices(thread simdgroup_float8x8 *sum, thread simdgroup_float8x8 &left,
                                const thread simdgroup_float8x8 *right, int t, int step)
{
    UNROLL for (int r = 0; r < MATRIX_TILES; r++)
        simdgroup_multiply_accumulate(sum[t * MATRIX_TILES + r], left, right[16 * r + step],
                                      sum[t * MATRIX_TILES + r]);
}

/* Pieces [p, p + 8) of those before `last`: column c of the matrices is piece p + c, so that a lane's
 * elements of successive matrices lie together. */
template <int TYPE, int X_TILES>
static inline void add_pieces(const thread struct lane_parts<X_TILES> &a,
                              const thread struct row_slice &in, const device uint8_t *w,
                              const device float *x, uint p, uint last,
                              thread simdgroup_float8x8 *sum)
{
    const int runs = piece_runs<TYPE>();
    simdgroup_float8x8 left[4], right[16 * MATRIX_TILES];
    UNROLL for (int r = 0; r < MATRIX_TILES; r++)
        UNROLL for (int e = 0; e < 2; e++) {
            float f[16];
            UNROLL for (int i = 0; i < 4 * runs; i++)
                f[i] = 0.0f;
            if (p + a.w_col[e] < last)
                piece_weights<TYPE>(in, w + a.w_row[2 * r + e], p + a.w_col[e], f);
            UNROLL for (int i = 0; i < 4 * runs; i++)
                right[16 * r + i].thread_elements()[e] = f[i];
        }
    UNROLL for (int t = 0; t < X_TILES; t++)
        UNROLL for (int j = 0; j < runs; j++) {
            UNROLL for (int e = 0; e < 2; e++) {
                bool has = a.has_x[2 * t + e] && p + a.x_col[e] < last;
                const device float *from = x + a.x_row[2 * t + e] + run_at<TYPE>(j);
                UNROLL for (int i = 0; i < 4; i++)
                    left[i].thread_elements()[e] = 0.0f;
                if (has) {
                    packed_float4 v =
                        *(const device packed_float4 *)(from + piece_at<TYPE>(p + a.x_col[e]));
                    UNROLL for (int i = 0; i < 4; i++)
                        left[i].thread_elements()[e] = v[i];
                }
            }
            UNROLL for (int i = 0; i < 4; i++)
                add_matrices<X_TILES>(sum, left[i], right, t, 4 * j + i);
        }
}

/* Columns [k, k + 8) of those before `last`, one by one. */
template <int TYPE, int X_TILES>
static inline void add_columns(const thread struct lane_parts<X_TILES> &a,
                               const thread struct row_slice &in, const device uint8_t *w,
                               const device float *x, int k, int last,
                               thread simdgroup_float8x8 *sum)
{
    simdgroup_float8x8 left, right[16 * MATRIX_TILES];
    UNROLL for (int r = 0; r < MATRIX_TILES; r++)
        UNROLL for (int e = 0; e < 2; e++) {
            int at = k + (int)a.w_col[e];
            right[16 * r].thread_elements()[e] =
                at < last ? weight_at<TYPE>(in, w + a.w_row[2 * r + e], at) : 0.0f;
        }
    UNROLL for (int t = 0; t < X_TILES; t++) {
        UNROLL for (int e = 0; e < 2; e++) {
            int at = k + (int)a.x_col[e];
            left.thread_elements()[e] =
                a.has_x[2 * t + e] && at < last ? x[a.x_row[2 * t + e] + at] : 0.0f;
        }
        add_matrices<X_TILES>(sum, left, right, t, 0);
    }
}

/* Sums over columns [start, end): whole units of pieces, then what is left on both sides. */
template <int TYPE, int X_TILES>
static inline void matrix_sums(const thread struct lane_parts<X_TILES> &a,
                               const thread struct row_slice &in, const device uint8_t *w,
                               const device float *x, int start, int end,
                               thread simdgroup_float8x8 *sum)
{
    const int origin = origin_of<TYPE>(start);
    struct column_span s = span_of<TYPE>(in, start - origin, end - origin);
    w += origin_bytes<TYPE>(origin);
    x += origin;
    UNROLL for (int i = 0; i < X_TILES * MATRIX_TILES; i++)
        sum[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint p = s.first; p < s.last; p += 8)
        add_pieces<TYPE, X_TILES>(a, in, w, x, p, s.last, sum);
    for (int side = 0; side < 2; side++) {
        int last = side == 0 ? s.left : end - origin;
        for (int k = side == 0 ? start - origin : s.right; k < last; k += 8)
            add_columns<TYPE, X_TILES>(a, in, w, x, k, last, sum);
    }
}

template <int X_TILES>
static inline struct lane_parts<X_TILES> parts_of(constant struct metal_linear_args &a, int row,
                                                  int token, const thread int *at)
{
    struct lane_parts<X_TILES> m;
    UNROLL for (int e = 0; e < 2; e++) {
        m.x_col[e] = (uint)(at[e] % 8);
        m.w_col[e] = (uint)(at[e] / 8);
        UNROLL for (int r = 0; r < MATRIX_TILES; r++) {
            int n = row + 8 * r + at[e] % 8; /* beyond the last row it is taken again */
            m.w_row[2 * r + e] =
                a.form.head + (int64_t)(n < a.rows ? n : a.rows - 1) * a.row_bytes;
        }
        UNROLL for (int t = 0; t < X_TILES; t++) {
            int n = token + 8 * t + at[e] / 8;
            m.has_x[2 * t + e] = n < a.n_tokens;
            m.x_row[2 * t + e] = (int64_t)n * a.x_stride;
        }
    }
    return m;
}

/* A simdgroup has METAL_MATRIX_ROWS rows of w and 8 X_TILES rows of x. */
template <int TYPE, int X_TILES>
static inline void matrix_rows(constant struct metal_linear_args &a, const device uint8_t *w,
                               const device float *x, const device float *bias, device float *out,
                               const thread int *at, uint3 group, uint simd)
{
    const int n = 2 * X_TILES * MATRIX_TILES;
    int row = ((int)group.x * METAL_LINEAR_SIMDS + (int)simd) * METAL_MATRIX_ROWS;
    int token = (int)group.y * 8 * X_TILES;
    simdgroup_float8x8 sum[X_TILES * MATRIX_TILES];
    float acc[n], level[3 * n];
    if (row >= a.rows)
        return; /* the whole simdgroup */
    w += (int64_t)group.z * a.w_step * 16;
    x += (int64_t)group.z * a.x_step;
    out += (int64_t)group.z * a.out_step;
    struct lane_parts<X_TILES> m = parts_of<X_TILES>(a, row, token, at);
    UNROLL for (int i = 0; i < 3 * n; i++)
        level[i] = 0.0f;
    struct row_slice in = no_slice(a.form, w);
    for (int s = 0, start = 0; s < a.n_slices; start = a.slice_end[s++]) {
        enter_slice<TYPE>(in, a.form, start, a.slice_end[s]);
        matrix_sums<TYPE, X_TILES>(m, in, w, x, start, a.slice_end[s], sum);
        UNROLL for (int i = 0; i < n; i++)
            acc[i] = sum[i / 2].thread_elements()[i % 2];
        add_slice<n>(s, acc, level);
    }
    UNROLL for (int i = 0; i < n; i++) {
        int t = token + i / 2 / MATRIX_TILES * 8 + at[i % 2] / 8;
        int r = row + i / 2 % MATRIX_TILES * 8 + at[i % 2] % 8;
        if (t < a.n_tokens && r < a.rows)
            out[(int64_t)t * a.out_stride + r] = a.has_bias != 0 ? acc[i] + bias[r] : acc[i];
    }
}

#define MATRIX(name, type, n_tokens)                                                               \
    KERNEL name(constant struct metal_linear_args &a BUF(0), const device uint8_t *w BUF(1),       \
                const device float *x BUF(2), const device float *bias BUF(3),                     \
                device float *out BUF(4), GRID)                                                    \
    {                                                                                              \
        SHARED(float, place, [64]);                                                                \
        int at[2];                                                                                 \
        (void)lane;                                                                                \
        find_places(place, index, at);                                                             \
        matrix_rows<type, n_tokens / 8>(a, w, x, bias, out, at, group, simd);                      \
    }
#define MATRIX_OF(a, b, name, type)                                                                \
    MATRIX(matrix_##name, type, METAL_MATRIX_TOKENS)                                               \
    MATRIX(matrix_one_##name, type, METAL_MATRIX_ONE)
METAL_EACH_TYPE(MATRIX_OF, , )
