/* Rows with scales beside their codes, in place of blocks: the types of HuggingFace folders, IQ4_NL and
 * MXFP4.  scaled.c writes them.
 *   part   the head, then the rows
 *   head   LEVELS, SMALL, IQ4_NL: the levels of the 16 codes, f32; SMALL: behind them the scales that the 256 bytes stand
 *          for, f32.  Indexed types: the groups of the columns, u16
 *   row    scales [n_scales] (f32; SMALL: bytes; IQ4_NL and integers in blocks: f16 or bf16), then with zero points these
 *          [n_scales] int8, of indexed types the minima [n_scales] f32; from codes_at on the codes of the slices,
 *          of 4 or 8 bits, a column behind the other, each slice at a multiple of 8 columns
 * A scale is of the columns that metal_scale_shift says, of indexed types of a group. */

template <int TYPE> static inline bool is_scaled()
{
    return TYPE >= METAL_E4M3 && TYPE < N_METAL_WEIGHT_TYPES;
}

template <int TYPE> static inline bool has_bytes()
{
    return TYPE == METAL_E4M3 || TYPE == METAL_INT8_BF16 || TYPE == METAL_INT8_ZERO_F16 ||
           TYPE == METAL_INT8_ZERO_BF16 || TYPE == METAL_INT8_INDEX;
}

template <int TYPE> static inline bool has_index()
{
    return TYPE == METAL_INT4_INDEX || TYPE == METAL_INT8_INDEX;
}

template <int TYPE> static inline bool has_zero()
{
    return TYPE == METAL_INT4_ZERO_F16 || TYPE == METAL_INT4_ZERO_BF16 ||
           TYPE == METAL_INT8_ZERO_F16 || TYPE == METAL_INT8_ZERO_BF16;
}

template <int TYPE> static inline bool has_levels_of_codes()
{
    return TYPE == METAL_LEVELS || TYPE == METAL_SMALL || TYPE == METAL_IQ4_NL;
}

/* The slice of a part's rows that is at hand. */
struct row_slice {
    const device uint8_t *head;
    int n_scales;
    int start;         /* its first column */
    int shift;         /* columns of a scale: 1 << shift */
    int codes, scales; /* of a row: the byte where the slice's codes begin, the first of its scales; */
    int next_codes, next_scales; /* those of the next slice */
};

/* Before the first slice. */
static inline struct row_slice no_slice(constant struct metal_form &form, const device uint8_t *part)
{
    struct row_slice s;
    s.head = part;
    s.n_scales = form.n_scales;
    s.start = s.shift = s.codes = s.scales = s.next_scales = 0;
    s.next_codes = form.codes_at;
    return s;
}

/* [start, end), which follows the slice at hand. */
template <int TYPE>
static inline void enter_slice(thread struct row_slice &s, constant struct metal_form &form,
                               int start, int end)
{
    if (!is_scaled<TYPE>())
        return;
    s.start = start;
    s.codes = s.next_codes;
    s.scales = s.next_scales;
    s.next_codes += metal_stored_cols(end - start) / (has_bytes<TYPE>() ? 1 : 2);
    if (has_index<TYPE>())
        return;
    s.shift = metal_scale_shift(form.skip, form.block, start, end);
    s.next_scales += (int)(((uint32_t)(end - start) + (1U << s.shift) - 1U) >> s.shift);
}

/* Is a piece of columns of one scale? */
template <int TYPE> static inline bool has_pieces(const thread struct row_slice &s)
{
    return !is_scaled<TYPE>() || has_index<TYPE>() || s.shift >= (has_bytes<TYPE>() ? 3 : 4);
}

/* The bits of `mask` at bit `at` of u as a number, less `less`: exact and without a conversion, which
 * is slow.  at and the mask's bits: 23 at most; `less` is a whole number. */
static inline float field(uint32_t u, int at, uint32_t mask, float less)
{
    uint32_t one = (uint32_t)(127 + 23 - at) << 23; /* 2^(23 - at), whose mantissa counts ones at `at` */
    return f32_of_bits((u & (mask << at)) | one) - (f32_of_bits(one) + less);
}

/* Scale i of the slice. */
template <int TYPE>
static inline float slice_scale(const thread struct row_slice &s, const device uint8_t *row, int i)
{
    i += s.scales;
    if (TYPE == METAL_E4M3 || TYPE == METAL_LEVELS)
        return ((const device float *)row)[i];
    if (TYPE == METAL_SMALL)
        return ((const device float *)s.head)[16 + row[i]];
    uint16_t h = ((const device uint16_t *)row)[i];
    return TYPE == METAL_INT4_ZERO_F16 || TYPE == METAL_INT8_ZERO_F16 || TYPE == METAL_IQ4_NL
               ? widened_f16(h)
               : f32_of_bf16(h);
}

/* What is added for the zero point that belongs to scale i, exactly. */
static inline float slice_minimum(const thread struct row_slice &s, const device uint8_t *row,
                                  int i, float scale)
{
    return scale * -(float)((const device int8_t *)row)[2 * s.n_scales + s.scales + i];
}

/* The numbers of N codes of a slice from its column k on, to weights. */
template <int TYPE, int N>
static inline void scale_codes(const thread struct row_slice &s, const device uint8_t *row, int k,
                               thread float *w)
{
    if (has_index<TYPE>()) {
        const device uint16_t *index = (const device uint16_t *)s.head + s.start + k;
        const device float *scale = (const device float *)row, *least = scale + s.n_scales;
        UNROLL for (int j = 0; j < N; j++)
            w[j] = fmaf(w[j], scale[index[j]], least[index[j]]);
        return;
    }
    float scale = slice_scale<TYPE>(s, row, k >> s.shift);
    if (has_zero<TYPE>()) {
        float least = slice_minimum(s, row, k >> s.shift, scale);
        UNROLL for (int j = 0; j < N; j++)
            w[j] = fmaf(w[j], scale, least);
        return;
    }
    UNROLL for (int j = 0; j < N; j++)
        w[j] = w[j] * scale;
}

template <int TYPE>
static inline float scaled_at(const thread struct row_slice &s, const device uint8_t *row, int k)
{
    int code = has_bytes<TYPE>() ? row[s.codes + k] : (row[s.codes + k / 2] >> (k % 2 * 4)) & 15;
    float w[1];
    if (TYPE == METAL_E4M3)
        w[0] = f32_of_e4m3((uint8_t)code);
    else if (has_levels_of_codes<TYPE>())
        w[0] = ((const device float *)s.head)[code];
    else
        w[0] = (float)(has_bytes<TYPE>() ? (int)(int8_t)code : TYPE == METAL_INT4_BF16 ? code - 8 : code);
    scale_codes<TYPE, 1>(s, row, k, w);
    return w[0];
}

/* The four bytes of u as int8. */
static inline void signed_bytes(uint32_t u, thread float *w)
{
    uint32_t v = u ^ 0x80808080U, high = v >> 12;
    w[0] = field(v, 0, 255, 128.0f);
    w[1] = field(v, 8, 255, 128.0f);
    w[2] = field(high, 4, 255, 128.0f);
    w[3] = field(high, 12, 255, 128.0f);
}

/* The eight halves of bytes of u, less `less`. */
static inline void half_bytes(uint32_t u, float less, thread float *w)
{
    uint32_t high = u >> 12;
    UNROLL for (int j = 0; j < 5; j++)
        w[j] = field(u, 4 * j, 15, less);
    UNROLL for (int j = 5; j < 8; j++)
        w[j] = field(high, 4 * j - 12, 15, less);
}

/* The 8 bytes of a piece: 8 or 16 columns. */
template <int TYPE>
static inline void scaled_piece(const thread struct row_slice &s, const device uint8_t *row,
                                uint piece, thread float *w)
{
    const int n = has_bytes<TYPE>() ? 8 : 16;
    const device uint32_t *codes = (const device uint32_t *)(row + s.codes + 8 * (int64_t)piece);
    UNROLL for (int i = 0; i < 2; i++) {
        uint32_t u = codes[i];
        thread float *to = w + n / 2 * i;
        if (TYPE == METAL_E4M3)
            UNROLL for (int j = 0; j < 4; j++)
                to[j] = f32_of_e4m3((uint8_t)(u >> (8 * j)));
        else if (has_levels_of_codes<TYPE>())
            UNROLL for (int j = 0; j < 8; j++)
                to[j] = ((const device float *)s.head)[(u >> (4 * j)) & 15];
        else if (has_bytes<TYPE>())
            signed_bytes(u, to);
        else
            half_bytes(u, TYPE == METAL_INT4_BF16 ? 8.0f : 0.0f, to);
    }
    if (has_bytes<TYPE>())
        scale_codes<TYPE, 8>(s, row, n * (int)piece, w);
    else
        scale_codes<TYPE, 16>(s, row, n * (int)piece, w);
}
