/* How products walk over the columns of a row.  A lane takes a piece at a time: RUNS runs of 4
 * neighbouring columns, whose codes lie together and share scales.  Pieces are numbered along the row;
 * those of a unit fill its columns.  Weights have the bits of weight_at. */

/* Runs of a piece. */
template <int TYPE> static inline int piece_runs()
{
    return TYPE == METAL_Q4_K || TYPE == METAL_Q5_K || TYPE == METAL_Q6_K || TYPE == METAL_IQ4_XS ||
                   (is_scaled<TYPE>() && !has_bytes<TYPE>())
               ? 4
               : 2;
}

/* Columns of a unit. */
template <int TYPE> static inline int unit_cols()
{
    return TYPE == METAL_Q4_0 || TYPE == METAL_IQ4_XS ? 32
           : TYPE == METAL_Q4_K || TYPE == METAL_Q5_K ? 64
           : TYPE == METAL_Q6_K                        ? 128
                                                       : 4 * piece_runs<TYPE>();
}

/* Pieces of a unit. */
template <int TYPE> static inline int unit_pieces()
{
    return unit_cols<TYPE>() / (4 * piece_runs<TYPE>());
}

/* The first column of a piece, and from there that of a run. */
template <int TYPE> static inline int piece_at(uint piece)
{
    const uint n = (uint)unit_pieces<TYPE>(), apart = TYPE == METAL_Q4_0 || TYPE == METAL_Q6_K ? 4 : 8;
    return (int)(piece / n * (uint)unit_cols<TYPE>() + piece % n * apart);
}

template <int TYPE> static inline int run_at(int run)
{
    return TYPE == METAL_Q4_0                          ? 16 * run
           : TYPE == METAL_Q4_K || TYPE == METAL_Q5_K ? run / 2 * 32 + run % 2 * 4
           : TYPE == METAL_IQ4_XS                      ? run / 2 * 16 + run % 2 * 4
           : TYPE == METAL_Q6_K                        ? 32 * run
                                                       : 4 * run;
}

static inline float f16_low(uint32_t u)
{
    return widened_f16((uint16_t)(u & 0xffffU));
}

static inline float f16_high(uint32_t u)
{
    return widened_f16((uint16_t)(u >> 16));
}

static inline void f16_piece(const device uint8_t *p, thread float *w)
{
    UNROLL for (int i = 0; i < 2; i++) {
        packed_ushort4 u = ((const device packed_ushort4 *)p)[i];
        UNROLL for (int j = 0; j < 4; j++)
            w[4 * i + j] = widened_f16(u[j]);
    }
}

static inline void bf16_piece(const device uint8_t *p, thread float *w)
{
    UNROLL for (int i = 0; i < 2; i++) {
        packed_ushort4 u = ((const device packed_ushort4 *)p)[i];
        UNROLL for (int j = 0; j < 4; j++)
            w[4 * i + j] = f32_of_bf16(u[j]);
    }
}

static inline void f32_piece(const device uint8_t *p, thread float *w)
{
    UNROLL for (int i = 0; i < 2; i++) {
        packed_float4 v = ((const device packed_float4 *)p)[i];
        UNROLL for (int j = 0; j < 4; j++)
            w[4 * i + j] = v[j];
    }
}

/* Bytes 8 i to 8 i + 7 of a block's codes. */
static inline void q8_0_piece(const device uint8_t *p, uint i, thread float *w)
{
    packed_ushort4 u = *(const device packed_ushort4 *)(p + 2 + 8 * i);
    float d = f16_in(p);
    UNROLL for (int j = 0; j < 4; j++) {
        uint32_t v = (uint32_t)u[j] ^ 0x8080U;
        w[2 * j] = field(v, 0, 255, 128.0f) * d;
        w[2 * j + 1] = field(v, 8, 255, 128.0f) * d;
    }
}

/* Low and high halves of bytes 4 i to 4 i + 3. */
static inline void q4_0_piece(const device uint8_t *p, uint i, thread float *w)
{
    float d = f16_in(p);
    UNROLL for (int j = 0; j < 2; j++) {
        uint32_t v = ((const device uint16_t *)(p + 2 + 4 * i))[j];
        w[2 * j] = field(v, 0, 15, 8.0f) * d;
        w[2 * j + 1] = field(v, 8, 15, 8.0f) * d;
        w[4 + 2 * j] = field(v, 4, 15, 8.0f) * d;
        w[5 + 2 * j] = field(v, 12, 15, 8.0f) * d;
    }
}

/* Scales and minima (these negative) of groups 2 part and 2 part + 1 of a Q4_K or Q5_K block, whose
 * first 16 bytes are `head`. */
static inline void k_scales(packed_uint4 head, uint part, thread float *scale, thread float *least)
{
    uint32_t by = part % 2 * 16, a = head[1] >> by, b = head[2] >> by, c = head[3] >> by;
    uint32_t s = part < 2 ? a : (c & 0x0f0fU) | (a >> 2 & 0x3030U);
    uint32_t m = part < 2 ? b : (c >> 4 & 0x0f0fU) | (b >> 2 & 0x3030U);
    float d = f16_low(head[0]), d_least = -f16_high(head[0]);
    scale[0] = d * field(s, 0, 63, 0.0f);
    scale[1] = d * field(s, 8, 63, 0.0f);
    least[0] = d_least * field(m, 0, 63, 0.0f);
    least[1] = d_least * field(m, 8, 63, 0.0f);
}

/* Low halves of 8 bytes, which are of one group, then high halves, of the next. */
static inline void q4_k_piece(const device uint8_t *p, uint i, thread float *w)
{
    uint part = i / 4;
    float s[2], m[2];
    k_scales(*(const device packed_uint4 *)p, part, s, m);
    UNROLL for (int j = 0; j < 2; j++) {
        uint32_t u = ((const device uint32_t *)(p + 16 + 32 * part + i % 4 * 8))[j], v = u >> 12;
        thread float *low = w + 4 * j, *high = w + 8 + 4 * j;
        low[0] = fmaf(field(u, 0, 15, 0.0f), s[0], m[0]);
        low[1] = fmaf(field(u, 8, 15, 0.0f), s[0], m[0]);
        low[2] = fmaf(field(u, 16, 15, 0.0f), s[0], m[0]);
        low[3] = fmaf(field(v, 12, 15, 0.0f), s[0], m[0]);
        high[0] = fmaf(field(u, 4, 15, 0.0f), s[1], m[1]);
        high[1] = fmaf(field(u, 12, 15, 0.0f), s[1], m[1]);
        high[2] = fmaf(field(v, 8, 15, 0.0f), s[1], m[1]);
        high[3] = fmaf(field(v, 16, 15, 0.0f), s[1], m[1]);
    }
}

/* As q4_k_piece; a fifth bit of each code is bit 2 part or 2 part + 1 of the 8 bytes at 16. */
static inline void q5_k_piece(const device uint8_t *p, uint i, thread float *w)
{
    uint part = i / 4, at = i % 4 * 8;
    float s[2], m[2];
    k_scales(*(const device packed_uint4 *)p, part, s, m);
    UNROLL for (int j = 0; j < 2; j++) {
        uint32_t u = ((const device uint32_t *)(p + 48 + 32 * part + at))[j];
        uint32_t h = ((const device uint32_t *)(p + 16 + at))[j] >> (2 * part);
        uint32_t low = (u & 0x0f0f0f0fU) | (h << 4 & 0x10101010U);
        uint32_t high = (u >> 4 & 0x0f0f0f0fU) | (h << 3 & 0x10101010U);
        thread float *to = w + 4 * j;
        UNROLL for (int b = 0; b < 3; b++) {
            to[b] = fmaf(field(low, 8 * b, 31, 0.0f), s[0], m[0]);
            to[8 + b] = fmaf(field(high, 8 * b, 31, 0.0f), s[1], m[1]);
        }
        to[3] = fmaf(field(low >> 8, 16, 31, 0.0f), s[0], m[0]);
        to[11] = fmaf(field(high >> 8, 16, 31, 0.0f), s[1], m[1]);
    }
}

/* Four columns, and those 32, 64 and 96 behind them: one byte of `high` has their upper bits. */
static inline void q6_k_piece(const device uint8_t *p, uint i, thread float *w)
{
    uint part = i / 8, at = i % 8 * 4;
    const device uint16_t *low = (const device uint16_t *)(p + 64 * part + at);
    const device uint16_t *high = (const device uint16_t *)(p + 128 + 32 * part + at);
    const device uint8_t *scale = p + 192 + 8 * part + at / 16;
    float d = f16_in(p + 208), s[4];
    UNROLL for (int r = 0; r < 4; r++)
        s[r] = d * field((uint32_t)scale[2 * r] ^ 0x80U, 0, 255, 128.0f);
    UNROLL for (int j = 0; j < 2; j++) {
        uint32_t a = low[j], b = low[16 + j], h = high[j];
        uint32_t codes[4];
        codes[0] = (a & 0x0f0fU) | (h << 4 & 0x3030U);
        codes[1] = (b & 0x0f0fU) | (h << 2 & 0x3030U);
        codes[2] = (a >> 4 & 0x0f0fU) | (h & 0x3030U);
        codes[3] = (b >> 4 & 0x0f0fU) | (h >> 2 & 0x3030U);
        UNROLL for (int r = 0; r < 4; r++) {
            w[4 * r + 2 * j] = field(codes[r], 0, 63, 32.0f) * s[r];
            w[4 * r + 2 * j + 1] = field(codes[r], 8, 63, 32.0f) * s[r];
        }
    }
}

/* Low halves of 8 bytes, then high halves: 16 columns apart, of one group. */
static inline void iq4_xs_piece(const device uint8_t *p, uint i, thread float *w)
{
    const device uint32_t *head = (const device uint32_t *)p;
    const device uint32_t *codes = (const device uint32_t *)(p + 8 + 8 * i);
    uint g = i / 2;
    uint32_t s = (head[1] >> (4 * g) & 15U) | (head[0] >> (16 + 2 * g) & 3U) << 4;
    float scale = f16_low(head[0]) * field(s, 0, 63, 32.0f);
    UNROLL for (int j = 0; j < 8; j++) {
        uint32_t u = codes[j / 4] >> (j % 4 * 8);
        w[j] = iq4_levels[u & 15U] * scale;
        w[8 + j] = iq4_levels[u >> 4 & 15U] * scale;
    }
}

/* The weights of a piece, run by run: [4 piece_runs]. */
template <int TYPE>
static inline void piece_weights(const thread struct row_slice &in, const device uint8_t *row,
                                 uint piece, thread float *w)
{
    const uint wide = TYPE == METAL_F32 ? 32 : 16; /* bytes of a piece of floats */
    const uint large = 256 / (4 * (uint)piece_runs<TYPE>()); /* pieces of a block of 256 */
    if (TYPE == METAL_F32)
        f32_piece(row + wide * piece, w);
    else if (TYPE == METAL_F16)
        f16_piece(row + wide * piece, w);
    else if (TYPE == METAL_BF16)
        bf16_piece(row + wide * piece, w);
    else if (TYPE == METAL_Q8_0)
        q8_0_piece(row + piece / 4 * 34, piece % 4, w);
    else if (TYPE == METAL_Q4_0)
        q4_0_piece(row + piece / 4 * 18, piece % 4, w);
    else if (TYPE == METAL_Q4_K)
        q4_k_piece(row + piece / large * 144, piece % large, w);
    else if (TYPE == METAL_Q5_K)
        q5_k_piece(row + piece / large * 176, piece % large, w);
    else if (TYPE == METAL_Q6_K)
        q6_k_piece(row + piece / large * 210, piece % large, w);
    else if (TYPE == METAL_IQ4_XS)
        iq4_xs_piece(row + piece / large * 136, piece % large, w);
    else if (is_scaled<TYPE>())
        scaled_piece<TYPE>(in, row, piece, w);
    else
        UNROLL for (int j = 0; j < 8; j++)
            w[j] = weight_at<TYPE>(in, row, (int)(8 * piece) + j);
}

/* Sums over a slice depend on its columns alone, wherever they begin in this row.  So pieces of types
 * without blocks in the row are numbered from the slice's first column on, and those of others, whose slices
 * begin with a block where ranks share a row, from the row's.  The column that is counted as 0, and its place
 * in the row in bytes; scaled types: in row_slice. */
template <int TYPE> static inline int origin_of(int start)
{
    return TYPE == METAL_F32 || TYPE == METAL_F16 || TYPE == METAL_BF16 || is_scaled<TYPE>() ? start
                                                                                             : 0;
}

template <int TYPE> static inline int64_t origin_bytes(int origin)
{
    return is_scaled<TYPE>() ? 0 : (int64_t)origin * (TYPE == METAL_F32 ? 4 : 2);
}

/* The whole units of the columns [start, end), and what is left of them on both sides: everything where a
 * piece has several scales. */
struct column_span {
    uint first, last; /* pieces [first, last) */
    int left, right;  /* columns [start, left) and [right, end) */
};

template <int TYPE>
static inline struct column_span span_of(const thread struct row_slice &in, int start, int end)
{
    const int cols = unit_cols<TYPE>(), pieces = unit_pieces<TYPE>();
    int a = (start + cols - 1) / cols, b = end / cols;
    bool within = a > b || !has_pieces<TYPE>(in); /* one unit, or none */
    struct column_span s;
    s.first = within ? 0 : (uint)(a * pieces);
    s.last = within ? 0 : (uint)(b * pieces);
    s.left = within ? end : a * cols;
    s.right = within ? end : b * cols;
    return s;
}
