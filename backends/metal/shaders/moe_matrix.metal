/* The experts' products by products of 8x8 matrices: matrix.metal, with the pairs of a tile as rows of x. */

/* What a lane has of rows [row, row + METAL_MATRIX_ROWS) of a part, which begin at `rows` behind w, and of
 * the n pairs from place `first` on. */
template <int X_TILES>
static inline struct lane_parts<X_TILES> expert_parts(constant struct metal_experts_args &a, int row,
                                                      int first, int n, const device int32_t *pair,
                                                      const thread int *at)
{
    struct lane_parts<X_TILES> m;
    UNROLL for (int e = 0; e < 2; e++) {
        m.x_col[e] = (uint)(at[e] % 8);
        m.w_col[e] = (uint)(at[e] / 8);
        UNROLL for (int r = 0; r < MATRIX_TILES; r++) {
            int i = row + 8 * r + at[e] % 8; /* beyond the last row it is taken again */
            m.w_row[2 * r + e] =
                a.form.head + (int64_t)(a.first + (i < a.rows ? i : a.rows - 1)) * a.row_bytes;
        }
        UNROLL for (int t = 0; t < X_TILES; t++) {
            int i = 8 * t + at[e] / 8, place = first + (i < n ? i : 0);
            m.has_x[2 * t + e] = i < n;
            m.x_row[2 * t + e] =
                (int64_t)(a.by_token != 0 ? pair[place] / a.top_k : place) * a.x_stride;
        }
    }
    return m;
}

/* A simdgroup has METAL_MATRIX_ROWS rows of an expert's part and a tile of 8 X_TILES pairs. */
template <int TYPE, int X_TILES>
static inline void expert_matrices(constant struct metal_experts_args &a, const device uint8_t *w,
                                   const device float *x, const device int32_t *start,
                                   const device int32_t *first_tile, const device int32_t *pair,
                                   device float *out, const thread int *at, uint3 group, uint simd)
{
    const int n = 2 * X_TILES * MATRIX_TILES;
    int row = ((int)group.x * METAL_LINEAR_SIMDS + (int)simd) * METAL_MATRIX_ROWS;
    int tile = (int)group.y;
    simdgroup_float8x8 sum[X_TILES * MATRIX_TILES];
    float acc[n], level[3 * n];
    if (row >= a.rows || tile >= first_tile[a.n_experts])
        return; /* the whole simdgroup */
    int e = expert_of(first_tile, a.n_experts, tile);
    int first = start[e] + (tile - first_tile[e]) * 8 * X_TILES, pairs = start[e + 1] - first;
    w += (int64_t)e * a.expert_step * 16;
    struct lane_parts<X_TILES> m = expert_parts<X_TILES>(a, row, first, pairs, pair, at);
    struct row_slice in = no_slice(a.form, w);
    UNROLL for (int i = 0; i < 3 * n; i++)
        level[i] = 0.0f;
    for (int s = 0, from = 0; s < a.n_slices; from = a.slice_end[s++]) {
        bool last = a.by_slice != 0 || s + 1 == a.n_slices;
        enter_slice<TYPE>(in, a.form, from, a.slice_end[s]);
        matrix_sums<TYPE, X_TILES>(m, in, w, x, from, a.slice_end[s], sum);
        UNROLL for (int i = 0; i < n; i++)
            acc[i] = sum[i / 2].thread_elements()[i % 2];
        if (a.by_slice == 0)
            add_slice<n>(s, acc, level);
        UNROLL for (int i = 0; i < n; i++) {
            int t = i / 2 / MATRIX_TILES * 8 + at[i % 2] / 8;
            int r = row + i / 2 % MATRIX_TILES * 8 + at[i % 2] % 8;
            int64_t to = a.by_slice != 0 ? (int64_t)(first + t) * a.n_slices + s : first + t;
            if (last && t < pairs && r < a.rows)
                out[to * a.out_stride + r] = acc[i];
        }
    }
}

/* Groups: [rows of w, tiles at most]. */
#define EXPERT_MATRICES(name, type, n_pairs)                                                       \
    KERNEL name(constant struct metal_experts_args &a BUF(0), const device uint8_t *w BUF(1),      \
                const device float *x BUF(2), const device int32_t *start BUF(3),                  \
                const device int32_t *first_tile BUF(4), const device int32_t *pair BUF(5),        \
                device float *out BUF(6), GRID)                                                    \
    {                                                                                              \
        SHARED(float, place, [64]);                                                                \
        int at[2];                                                                                 \
        (void)lane;                                                                                \
        find_places(place, index, at);                                                             \
        expert_matrices<type, n_pairs / 8>(a, w, x, start, first_tile, pair, out, at, group,       \
                                           simd);                                                  \
    }
#define EXPERT_MATRICES_OF(a, b, name, type)                                                       \
    EXPERT_MATRICES(experts_matrix_##name, type, METAL_MATRIX_TOKENS)                              \
    EXPERT_MATRICES(experts_matrix_one_##name, type, METAL_MATRIX_ONE)
METAL_EACH_TYPE(EXPERT_MATRICES_OF, , )
