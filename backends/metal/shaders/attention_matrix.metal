/* Attention by products of 8x8 matrices (matrix.metal), for heads of up to METAL_MATRIX_WIDE_HEAD elements: of
 * larger ones a lane's part of the output does not fit into registers.  A threadgroup has
 * 8 rows, each a token and a head, of one sequence and heads of one KV head: a prefill's tokens, or in a decode
 * the heads that share keys, padded with zeros.  Keys are in splits of 32 at absolute positions; simdgroup j
 * takes the splits whose number modulo METAL_LINEAR_SIMDS is j, in ascending order, with an online softmax
 * (Milakov and Gimelshein 2018, arXiv 1805.02867), and the simdgroups' results are merged in order.  A split
 * of which a row sees no key leaves the row's bits, so they do not depend on the tile's other rows. */

/* Rows of a threadgroup, and what they see: of row r keys [lo[r], hi[r]); of them together [first, end), and
 * [all_from, all_to) are seen by all rows. */
struct row_tile {
    int seq, token, head, rows; /* first token of the sequence in this step, first head of the KV head; rows of it */
    int row;                    /* of the tile's first row */
    int first, end, all_from, all_to;
};

/* Tiles of a sequence begin here: at least as many as its rows need are before the next one's. */
static inline int first_row_tile(const device int32_t *q_start, int q_per_kv, int seq)
{
    return q_start[seq] * q_per_kv / 8 + seq;
}

static inline struct row_tile row_tile_of(constant struct metal_attention_args &a,
                                          const device int32_t *q_start, uint3 group)
{
    struct row_tile t;
    int lo = 0, hi = a.n_seqs - 1, tile = a.first + (int)group.x;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (first_row_tile(q_start, a.q_per_kv, mid) <= tile)
            lo = mid;
        else
            hi = mid - 1;
    }
    t.seq = lo;
    t.token = q_start[lo];
    t.head = (int)group.y * a.q_per_kv - a.q_offset;
    t.rows = (q_start[lo + 1] - q_start[lo]) * a.q_per_kv;
    t.row = 8 * (tile - first_row_tile(q_start, a.q_per_kv, lo));
    t.first = t.end = t.all_from = t.all_to = 0;
    return t;
}

/* Head and token of row r of the tile; false: it has none. */
static inline bool find_row(constant struct metal_attention_args &a, const thread struct row_tile &t, int r,
                            thread int *token, thread int *head)
{
    int i = t.row + r;
    *token = t.token + i / a.q_per_kv;
    *head = t.head + i % a.q_per_kv;
    return i < t.rows && *head >= 0 && *head < a.n_q;
}

/* The keys of each row to keys [2, 8], none of a row of padding, and the queries to q [8, COLS], with zeros.
 * By all threads of the group. */
template <int COLS>
static inline void enter_tile(constant struct metal_attention_args &a, thread struct row_tile &t,
                              const device float *queries, const device int32_t *positions,
                              const device int32_t *kv_len, threadgroup int32_t *keys,
                              threadgroup float *q, uint index)
{
    int token, head;
    if (index < 8) {
        int lo = 0, hi = 0;
        if (find_row(a, t, (int)index, &token, &head))
            keys_of(a, positions[token], kv_len[t.seq], &lo, &hi);
        keys[index] = lo;
        keys[8 + index] = hi;
    }
    for (int i = (int)index; i < 8 * COLS; i += 32 * METAL_LINEAR_SIMDS) {
        bool is = find_row(a, t, i / COLS, &token, &head) && i % COLS < a.d;
        q[i] = is ? queries[(int64_t)token * a.q_stride + (int64_t)head * a.d + i % COLS] : 0.0f;
    }
    BARRIER(); /* keys and q are whole */
    bool none = true;
    for (int r = 0; r < 8; r++) {
        int lo = keys[r], hi = keys[8 + r];
        if (hi <= lo)
            continue;
        t.first = none || lo < t.first ? lo : t.first;
        t.end = none || hi > t.end ? hi : t.end;
        t.all_from = none || lo > t.all_from ? lo : t.all_from;
        t.all_to = none || hi < t.all_to ? hi : t.all_to;
        none = false;
    }
}

/* Elements [i, i + 4) of n in a row of the cache; zeros behind them. */
template <int TYPE>
static inline void four_of(const device uint8_t *p, int64_t row, int i, int n, thread float *to)
{
    if (i + 4 > n) {
        UNROLL for (int j = 0; j < 4; j++)
            to[j] = i + j < n ? cache_at<TYPE>(p, row + i + j) : 0.0f;
    } else if (TYPE == METAL_I8 || TYPE == METAL_E4M3) {
        packed_uchar4 v = *(const device packed_uchar4 *)(p + row + i);
        UNROLL for (int j = 0; j < 4; j++)
            to[j] = TYPE == METAL_I8 ? (float)(int8_t)v[j] : f32_of_e4m3(v[j]);
    } else if (TYPE == METAL_F32) {
        packed_float4 v = *(const device packed_float4 *)((const device float *)p + row + i);
        UNROLL for (int j = 0; j < 4; j++)
            to[j] = v[j];
    } else {
        packed_ushort4 v = *(const device packed_ushort4 *)((const device uint16_t *)p + row + i);
        UNROLL for (int j = 0; j < 4; j++)
            to[j] = TYPE == METAL_F16 ? widened_f16(v[j]) : f32_of_bf16(v[j]);
    }
}

/* s[i], [8 rows, keys 8 i and behind]: queries times keys of a split; key_row: the cache's row of a lane's
 * elements, -1: no key.  Matrices of a block of 32 dimensions have those 4 apart, so that a lane's lie
 * together. */
template <int TYPE, int COLS>
static inline void split_scores(constant struct metal_attention_args &a, const device uint8_t *k,
                                const threadgroup float *q, int g, const thread int *at,
                                const thread int *key_row, thread simdgroup_float8x8 *s)
{
    UNROLL for (int i = 0; i < 4; i++)
        s[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (int d0 = 0; d0 < a.d; d0 += 32) {
        simdgroup_float8x8 left[4], right[4];
        UNROLL for (int e = 0; e < 2; e++) {
            const threadgroup float *from = q + at[e] / 8 * COLS + d0 + 4 * (at[e] % 8);
            UNROLL for (int j = 0; j < 4; j++)
                left[j].thread_elements()[e] = from[j];
        }
        UNROLL for (int i = 0; i < 4; i++) {
            UNROLL for (int e = 0; e < 2; e++) {
                int row = key_row[2 * i + e];
                float v[4];
                UNROLL for (int j = 0; j < 4; j++)
                    v[j] = 0.0f;
                if (row >= 0)
                    four_of<TYPE>(k, (int64_t)row * a.k_row + (int64_t)g * a.d,
                                  d0 + 4 * (at[e] / 8), a.d, v);
                UNROLL for (int j = 0; j < 4; j++)
                    right[j].thread_elements()[e] = v[j];
            }
            UNROLL for (int j = 0; j < 4; j++)
                simdgroup_multiply_accumulate(s[i], left[j], right[j], s[i]);
        }
    }
}

/* o[0..4) += p times 8 keys' values, of which a number is none: a row that does not see its key may not get it.
 * So each row has a product of its own, without the values that it does not see. */
static inline void add_apart(thread simdgroup_float8x8 *o, thread simdgroup_float8x8 &p,
                             thread simdgroup_float8x8 *values, int key0,
                             const threadgroup int32_t *keys, const thread int *at)
{
    UNROLL for (int j = 0; j < 4; j++) {
        simdgroup_float8x8 sum = o[j];
        for (int r = 0; r < 8; r++) {
            simdgroup_float8x8 seen = values[j], one;
            UNROLL for (int e = 0; e < 2; e++) {
                int key = key0 + at[e] / 8;
                bool sees = key >= keys[r] && key < keys[8 + r];
                seen.thread_elements()[e] = sees ? values[j].thread_elements()[e] : 0.0f;
            }
            simdgroup_multiply_accumulate(one, p, seen, o[j]);
            UNROLL for (int e = 0; e < 2; e++)
                if (at[e] / 8 == r)
                    sum.thread_elements()[e] = one.thread_elements()[e];
        }
        o[j] = sum;
    }
}

/* o += p times the values of 8 keys from key0 on; value_row: the cache's row of a lane's elements.  o[4 b + j]
 * has the columns 32 b + j, + 4, + 8 ... */
template <int TYPE, int COLS>
static inline void add_values(constant struct metal_attention_args &a, const thread struct row_tile &t,
                              const device uint8_t *v, int g, int key0, const thread int *at,
                              const thread int *value_row, const threadgroup int32_t *keys,
                              thread simdgroup_float8x8 &p, thread simdgroup_float8x8 *o)
{
    bool by_all = key0 >= t.all_from && key0 + 8 <= t.all_to;
    UNROLL for (int b = 0; b < COLS / 32; b++) {
        simdgroup_float8x8 right[4];
        float strange = 0.0f;
        if (32 * b >= a.d_value)
            continue; /* the whole simdgroup */
        UNROLL for (int e = 0; e < 2; e++) {
            float f[4];
            UNROLL for (int j = 0; j < 4; j++)
                f[j] = 0.0f;
            if (value_row[e] >= 0)
                four_of<TYPE>(v, (int64_t)value_row[e] * a.v_row + (int64_t)g * a.d_value,
                              32 * b + 4 * (at[e] % 8), a.d_value, f);
            UNROLL for (int j = 0; j < 4; j++) {
                right[j].thread_elements()[e] = f[j];
                strange = f[j] - f[j] != 0.0f ? 1.0f : strange; /* of infinities it is NaN */
            }
        }
        if (!by_all && warp_max(strange) > 0.0f)
            add_apart(o + 4 * b, p, right, key0, keys, at);
        else
            UNROLL for (int j = 0; j < 4; j++)
                simdgroup_multiply_accumulate(o[4 * b + j], p, right[j], o[4 * b + j]);
    }
}

/* The scores of a lane's elements, scaled, -inf where the row does not see the key; *most: the greatest of them
 * and before, of the lane. */
static inline float score_of(constant struct metal_attention_args &a, const device float *rel_bias,
                             float dot, int key, int pos, int head)
{
    float s = dot * a.scale;
    s = a.has_rel_bias != 0 ? s + rel_bias[(int64_t)head * REL_COLS + rel_at(key - pos)] : s;
    return a.cap > 0.0f ? exact_soft_cap(s, a.cap) : s;
}

/* peak [64] of this simdgroup: the greatest element of each row of a matrix and of m, to m.  By whole simdgroups. */
static inline void rows_most(threadgroup float *peak, const thread int *at, const thread float *x,
                             thread float *m)
{
    peak[at[0]] = x[0];
    peak[at[1]] = x[1];
    SIMD_BARRIER(); /* peaks are written */
    UNROLL for (int e = 0; e < 2; e++)
        for (int c = 0; c < 8; c++) {
            float v = peak[at[e] / 8 * 8 + c];
            m[e] = v > m[e] ? v : m[e];
        }
    SIMD_BARRIER(); /* they are read before the next ones are written */
}

/* p [8 rows, 8 keys from key0 on] times the scales of the keys' values.  A row that does not see its key keeps 0:
 * the scale may be no number. */
template <int TYPE>
static inline void weigh_values(constant struct metal_attention_args &a, const device float *v_scale,
                                int g, int key0, const thread int *at, const thread int *key_row,
                                const threadgroup int32_t *keys, thread simdgroup_float8x8 &p)
{
    if (TYPE != METAL_I8 && TYPE != METAL_E4M3)
        return;
    UNROLL for (int e = 0; e < 2; e++) {
        int key = key0 + at[e] % 8, r = at[e] / 8;
        if (key >= keys[r] && key < keys[8 + r])
            p.thread_elements()[e] = p.thread_elements()[e] *
                                     scale_at<TYPE>(v_scale, (int64_t)key_row[e] * a.n_kv + g);
    }
}

/* A simdgroup's part of the 8 rows, of its splits: the sum of weighted values, o and l not yet divided. */
template <int TYPE, int COLS>
static inline void attend_splits(constant struct metal_attention_args &a, const thread struct row_tile &t,
                                 const device uint8_t *k, const device uint8_t *v,
                                 const device float *k_scale, const device float *v_scale,
                                 const device int32_t *positions, const device int32_t *blocks,
                                 const device float *rel_bias, const threadgroup float *q,
                                 const threadgroup int32_t *keys, threadgroup float *peak, int g,
                                 const thread int *at, uint lane, uint simd, thread float *m,
                                 thread simdgroup_float8x8 &l, thread simdgroup_float8x8 *o)
{
    simdgroup_float8x8 ones = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
    int pos[2], head[2], first = t.first / 32, token;
    UNROLL for (int e = 0; e < 2; e++) {
        bool is = find_row(a, t, at[e] / 8, &token, &head[e]);
        pos[e] = is ? positions[token] : 0;
    }
    first += ((int)simd + METAL_LINEAR_SIMDS - first % METAL_LINEAR_SIMDS) % METAL_LINEAR_SIMDS;
    for (int key0 = 32 * first; key0 < t.end; key0 += 32 * METAL_LINEAR_SIMDS) {
        simdgroup_float8x8 s[4];
        int mine = key0 + (int)lane, row = -1, key_row[8], value_row[8];
        float best[2] = {-INFINITY, -INFINITY}, corr[2], base[2];
        if (mine >= t.first && mine < t.end)
            row = blocks[mine / a.block_len] * a.block_len + mine % a.block_len;
        UNROLL for (int i = 0; i < 4; i++)
            UNROLL for (int e = 0; e < 2; e++) {
                key_row[2 * i + e] = simd_shuffle(row, (ushort)(8 * i + at[e] % 8));
                value_row[2 * i + e] = simd_shuffle(row, (ushort)(8 * i + at[e] / 8));
            }
        split_scores<TYPE, COLS>(a, k, q, g, at, key_row, s);
        UNROLL for (int i = 0; i < 4; i++)
            UNROLL for (int e = 0; e < 2; e++) {
                int key = key0 + 8 * i + at[e] % 8, r = at[e] / 8;
                float x = -INFINITY;
                if (key >= keys[r] && key < keys[8 + r])
                    x = score_of(a, rel_bias,
                                 s[i].thread_elements()[e] *
                                     scale_at<TYPE>(k_scale, (int64_t)key_row[2 * i + e] * a.n_kv + g),
                                 key, pos[e], head[e]);
                s[i].thread_elements()[e] = x;
                best[e] = x > best[e] ? x : best[e];
            }
        UNROLL for (int e = 0; e < 2; e++)
            corr[e] = m[e];
        rows_most(peak, at, best, m);
        UNROLL for (int e = 0; e < 2; e++) {
            base[e] = m[e] == -INFINITY ? 0.0f : m[e];
            corr[e] = exact_exp(corr[e] - base[e]);
            l.thread_elements()[e] = l.thread_elements()[e] * corr[e];
            UNROLL for (int i = 0; i < COLS / 8; i++)
                o[i].thread_elements()[e] = o[i].thread_elements()[e] * corr[e];
            UNROLL for (int i = 0; i < 4; i++)
                s[i].thread_elements()[e] = exact_exp(s[i].thread_elements()[e] - base[e]);
        }
        UNROLL for (int i = 0; i < 4; i++) {
            simdgroup_multiply_accumulate(l, s[i], ones, l);
            weigh_values<TYPE>(a, v_scale, g, key0 + 8 * i, at, key_row + 2 * i, keys, s[i]);
            add_values<TYPE, COLS>(a, t, v, g, key0 + 8 * i, at, value_row + 2 * i, keys, s[i], o);
        }
    }
}

/* The simdgroups' results, in order, to sum [8, COLS] and total [8]; most [simdgroups, 8]: their maxima. */
template <int COLS>
static inline void merge_splits(const thread int *at, uint simd, const thread float *m,
                                thread simdgroup_float8x8 &l, thread simdgroup_float8x8 *o,
                                threadgroup float *most, threadgroup float *sum,
                                threadgroup float *total)
{
    float factor[2];
    UNROLL for (int e = 0; e < 2; e++)
        if (at[e] % 8 == 0)
            most[8 * simd + (uint)(at[e] / 8)] = m[e];
    BARRIER(); /* maxima are written; q, whose memory sum has, is read */
    UNROLL for (int e = 0; e < 2; e++) {
        float all = -INFINITY;
        for (int j = 0; j < METAL_LINEAR_SIMDS; j++)
            all = most[8 * j + at[e] / 8] > all ? most[8 * j + at[e] / 8] : all;
        factor[e] = exact_exp(m[e] - (all == -INFINITY ? 0.0f : all));
    }
    for (uint j = 0; j < METAL_LINEAR_SIMDS; j++) {
        if (simd == j)
            UNROLL for (int e = 0; e < 2; e++) {
                threadgroup float *to = sum + at[e] / 8 * COLS + 4 * (at[e] % 8);
                UNROLL for (int i = 0; i < COLS / 8; i++) {
                    threadgroup float *one = to + 32 * (i / 4) + i % 4;
                    *one = fmaf(o[i].thread_elements()[e], factor[e], j == 0 ? 0.0f : *one);
                }
                threadgroup float *row = total + at[e] / 8;
                if (at[e] % 8 == 0)
                    *row = fmaf(l.thread_elements()[e], factor[e], j == 0 ? 0.0f : *row);
            }
        BARRIER(); /* the next one adds to it */
    }
}

/* Groups: [tiles of 8 rows at most from the first of the dispatch on, KV heads]. */
template <int TYPE, int COLS>
static inline void
attend_tile(constant struct metal_attention_args &a, const device float *queries,
            const device uint8_t *k, const device uint8_t *v, const device float *k_scale,
            const device float *v_scale, const device int32_t *positions, const device int32_t *q_start, const device int32_t *kv_len, const device int32_t *table,
            const device float *sinks, const device float *rel_bias, device float *out,
            threadgroup float *q, threadgroup float *peak, threadgroup float *most,
            threadgroup float *total, threadgroup int32_t *keys, const thread int *at, uint3 group,
            uint index, uint lane, uint simd)
{
    simdgroup_float8x8 o[COLS / 8], l = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    float m[2] = {-INFINITY, -INFINITY};
    int token, head;
    struct row_tile t = row_tile_of(a, q_start, group);
    if (t.row >= t.rows)
        return; /* the whole group */
    enter_tile<COLS>(a, t, queries, positions, kv_len, keys, q, index);
    UNROLL for (int i = 0; i < COLS / 8; i++)
        o[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    attend_splits<TYPE, COLS>(a, t, k, v, k_scale, v_scale, positions, table + (int64_t)t.seq * a.table_stride, rel_bias,
                              q, keys, peak + 64 * simd, (int)group.y, at, lane, simd, m, l, o);
    merge_splits<COLS>(at, simd, m, l, o, most, q, total);
    for (int i = (int)index; i < 8 * COLS; i += 32 * METAL_LINEAR_SIMDS) {
        int r = i / COLS, c = i % COLS;
        float factor = 1.0f, sum = total[r], all = -INFINITY;
        if (c >= a.d_value || !find_row(a, t, r, &token, &head))
            continue;
        if (a.has_sinks != 0) {
            for (int j = 0; j < METAL_LINEAR_SIMDS; j++)
                all = most[8 * j + r] > all ? most[8 * j + r] : all;
            float top = sinks[head] > all ? sinks[head] : all;
            factor = exact_exp(all - top);
            sum = fmaf(sum, factor, exact_exp(sinks[head] - top));
        }
        out[(int64_t)token * a.out_stride + (int64_t)head * a.d_value + c] =
            q[i] * factor / sum + 0.0f; /* one zero */
    }
}

#define ATTENTION_MATRIX(name, type, cols)                                                         \
    KERNEL name(constant struct metal_attention_args &a BUF(0), const device float *queries BUF(1), \
                const device uint8_t *k BUF(2), const device uint8_t *v BUF(3),                    \
                const device float *k_scale BUF(4), const device float *v_scale BUF(5),            \
                const device int32_t *positions BUF(6), const device int32_t *q_start BUF(7),      \
                const device int32_t *kv_len BUF(8), const device int32_t *table BUF(9),           \
                const device float *sinks BUF(10), const device float *rel_bias BUF(11),           \
                device float *out BUF(12), GRID)                                                   \
    {                                                                                              \
        SHARED(float, place, [64]);                                                                \
        SHARED(float, q, [8 * cols]);                                                              \
        SHARED(float, peak, [64 * METAL_LINEAR_SIMDS]);                                            \
        SHARED(float, most, [8 * METAL_LINEAR_SIMDS]);                                             \
        SHARED(float, total, [8]);                                                                 \
        SHARED(int32_t, keys, [16]);                                                               \
        int at[2];                                                                                 \
        find_places(place, index, at);                                                             \
        attend_tile<type, cols>(a, queries, k, v, k_scale, v_scale, positions, q_start, kv_len, table, \
                                sinks, rel_bias, out, q, peak, most, total, keys, at, group, index, lane, simd);    \
    }
ATTENTION_MATRIX(attention_matrix_f32, METAL_F32, METAL_MATRIX_HEAD)
ATTENTION_MATRIX(attention_matrix_f16, METAL_F16, METAL_MATRIX_HEAD)
ATTENTION_MATRIX(attention_matrix_bf16, METAL_BF16, METAL_MATRIX_HEAD)
ATTENTION_MATRIX(attention_matrix_i8, METAL_I8, METAL_MATRIX_HEAD)
ATTENTION_MATRIX(attention_matrix_e4m3, METAL_E4M3, METAL_MATRIX_HEAD)
ATTENTION_MATRIX(attention_matrix_wide_f32, METAL_F32, METAL_MATRIX_WIDE_HEAD)
ATTENTION_MATRIX(attention_matrix_wide_f16, METAL_F16, METAL_MATRIX_WIDE_HEAD)
ATTENTION_MATRIX(attention_matrix_wide_bf16, METAL_BF16, METAL_MATRIX_WIDE_HEAD)
ATTENTION_MATRIX(attention_matrix_wide_i8, METAL_I8, METAL_MATRIX_WIDE_HEAD)
ATTENTION_MATRIX(attention_matrix_wide_e4m3, METAL_E4M3, METAL_MATRIX_WIDE_HEAD)
