/* Elements of quantised rows: the blocks of common/quant.h, to the bits of its quant_value.  A product
 * of a code and a scale is exact in f32. */

/* At an even address. */
static inline float f16_in(const device uint8_t *p)
{
    return widened_f16(*(const device uint16_t *)p);
}

/* 16 bytes: elements 0 to 15 in the low halves, 16 to 31 in the high ones. */
static inline int half_byte(const device uint8_t *p, int i)
{
    return (p[i % 16] >> (i / 16 * 4)) & 15;
}

/* Elements 64 j to 64 j + 31 in the low halves of 32 bytes, the next 32 in the high ones. */
static inline int k_half_byte(const device uint8_t *p, int i)
{
    return (p[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4)) & 15;
}

static inline int bit_of(const device uint8_t *p, int byte, int bit)
{
    return (p[byte] >> bit) & 1;
}

static inline int two_bits(const device uint8_t *p, int i)
{
    return (p[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2)) & 3;
}

/* Element i, of code q, of a Q4_K or Q5_K block: scales and minima of 6 bits for 32 elements. */
static inline float k_value(const device uint8_t *block, int i, int q)
{
    const device uint8_t *s = block + 4;
    int g = i / 32, scale, least;
    if (g < 4) {
        scale = s[g] & 63;
        least = s[g + 4] & 63;
    } else {
        scale = (s[g + 4] & 15) | ((s[g - 4] >> 6) << 4);
        least = (s[g + 4] >> 4) | ((s[g] >> 6) << 4);
    }
    return fmaf((float)q, f16_in(block) * (float)scale, -(f16_in(block + 2) * (float)least));
}

static inline float q2_k_at(const device uint8_t *p, int i)
{
    int s = p[i / 16];
    return fmaf((float)two_bits(p + 16, i), f16_in(p + 80) * (float)(s & 15),
                -(f16_in(p + 82) * (float)(s >> 4)));
}

static inline float q3_k_at(const device uint8_t *p, int i)
{
    const device uint8_t *s = p + 96;
    int g = i / 16, low = (s[g % 8] >> (g / 8 * 4)) & 15, high = (s[8 + g % 4] >> (g / 4 * 2)) & 3;
    int q = two_bits(p + 32, i) - (bit_of(p, i % 32, i / 32) != 0 ? 0 : 4);
    return (float)q * (f16_in(p + 108) * (float)((low | (high << 4)) - 32));
}

static inline float q6_k_at(const device uint8_t *p, int i)
{
    int part = i / 128, at = i % 128;
    int low = (p[64 * part + at % 64] >> (at / 64 * 4)) & 15;
    int high = (p[128 + 32 * part + at % 32] >> (at / 32 * 2)) & 3;
    int scale = ((const device int8_t *)p)[192 + i / 16];
    return (float)(low + 16 * high - 32) * (f16_in(p + 208) * (float)scale);
}

constant float iq4_levels[16] = {-127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f,
                                 1.0f,    13.0f,   25.0f,  38.0f,  53.0f,  69.0f,  89.0f,  113.0f};

static inline float iq4_xs_at(const device uint8_t *p, int i)
{
    int g = i / 32, low = (p[4 + g / 2] >> (g % 2 * 4)) & 15;
    int high = (*(const device uint16_t *)(p + 2) >> (2 * g)) & 3;
    return iq4_levels[half_byte(p + 8 + 16 * g, i % 32)] *
           (f16_in(p) * (float)((low | (high << 4)) - 32));
}

/* Blocks of 32 elements with one scale. */
template <int TYPE> static inline float small_at(const device uint8_t *p, int i)
{
    float d = f16_in(p);
    if (TYPE == METAL_Q8_0)
        return (float)((const device int8_t *)p)[2 + i] * d;
    if (TYPE == METAL_Q4_0)
        return (float)(half_byte(p + 2, i) - 8) * d;
    if (TYPE == METAL_Q4_1)
        return fmaf((float)half_byte(p + 4, i), d, f16_in(p + 2));
    if (TYPE == METAL_Q5_0)
        return (float)(half_byte(p + 6, i) + 16 * bit_of(p + 2, i / 8, i % 8) - 16) * d;
    return fmaf((float)(half_byte(p + 8, i) + 16 * bit_of(p + 4, i / 8, i % 8)), d, f16_in(p + 2));
}

/* Blocks of 256. */
template <int TYPE> static inline float large_at(const device uint8_t *p, int i)
{
    if (TYPE == METAL_Q2_K)
        return q2_k_at(p, i);
    if (TYPE == METAL_Q3_K)
        return q3_k_at(p, i);
    if (TYPE == METAL_Q4_K)
        return k_value(p, i, k_half_byte(p + 16, i));
    if (TYPE == METAL_Q5_K)
        return k_value(p, i, k_half_byte(p + 48, i) + 16 * bit_of(p + 16, i % 32, i / 32));
    return TYPE == METAL_Q6_K ? q6_k_at(p, i) : iq4_xs_at(p, i);
}

/* Bytes of a block, the n_bytes of quant_form. */
template <int TYPE> static inline int block_bytes()
{
    return TYPE == METAL_Q8_0     ? 34
           : TYPE == METAL_Q4_0   ? 18
           : TYPE == METAL_Q4_1   ? 20
           : TYPE == METAL_Q5_0   ? 22
           : TYPE == METAL_Q5_1   ? 24
           : TYPE == METAL_Q2_K   ? 84
           : TYPE == METAL_Q3_K   ? 110
           : TYPE == METAL_Q4_K   ? 144
           : TYPE == METAL_Q5_K   ? 176
           : TYPE == METAL_Q6_K   ? 210
                                  : 136;
}

template <int TYPE> static inline float quant_at(const device uint8_t *row, int k)
{
    bool large = TYPE == METAL_Q2_K || TYPE == METAL_Q3_K || TYPE == METAL_Q4_K ||
                 TYPE == METAL_Q5_K || TYPE == METAL_Q6_K || TYPE == METAL_IQ4_XS;
    return large ? large_at<TYPE>(row + k / 256 * block_bytes<TYPE>(), k % 256)
                 : small_at<TYPE>(row + k / 32 * block_bytes<TYPE>(), k % 32);
}

/* Element k of a row of any type; scaled ones: of a slice. */
template <int TYPE>
static inline float weight_at(const thread struct row_slice &in, const device uint8_t *row, int k)
{
    if (is_scaled<TYPE>())
        return scaled_at<TYPE>(in, row, k);
    if (TYPE == METAL_F32)
        return ((const device float *)row)[k];
    if (TYPE == METAL_F16)
        return widened_f16(((const device uint16_t *)row)[k]);
    if (TYPE == METAL_BF16)
        return f32_of_bf16(((const device uint16_t *)row)[k]);
    return quant_at<TYPE>(row, k);
}
