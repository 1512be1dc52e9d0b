/* Groups of a quantised matrix in a lane's registers, for the kernels of quant_*.cu. */
#ifndef BACKENDS_CUDA_QUANT_DEVICE_H
#define BACKENDS_CUDA_QUANT_DEVICE_H

#include "backends/cuda/gpu.h"
#include "backends/cuda/quant_kernels.h"

enum { QUADS = QUANT_GROUP / 4 };

/* Scales of a group: 2 where the codes have 2, 3 or 6 bits. */
template <int BITS> struct quant_bits {
    static const int halves = BITS == 2 || BITS == 3 || BITS == 6 ? 2 : 1;
};

/* One group of one row as it is stored: a lane's share of the planes and of the head. */
template <int BITS> struct quant_group {
    uint4 eight[BITS & 8 ? 2 : 1], four;
    uint2 two;
    uint32_t one, d, sub, sub_min;
};

/* The head of group g of a panel, and the group: bytes from the panel's begin. */
DEVICE uint32_t head_at(const struct quant_place &p, int32_t g)
{
    const int32_t block = (g + p.before) >> p.super_shift;
    const int32_t groups = block > 0 ? (block << p.super_shift) - p.before : 0;
    return (uint32_t)block * (uint32_t)p.head_bytes + (uint32_t)groups * (uint32_t)p.group_bytes;
}

DEVICE uint32_t group_at(const struct quant_place &p, int32_t g)
{
    const int32_t heads = ((g + p.before) >> p.super_shift) + 1;
    return (uint32_t)heads * (uint32_t)p.head_bytes + (uint32_t)g * (uint32_t)p.group_bytes;
}

/* Group g of row `lane` of a panel. */
template <int BITS>
DEVICE void load_group(struct quant_group<BITS> &q, const struct quant_matrix &m,
                       const unsigned char *panel, int32_t g, int lane)
{
    const unsigned char *head = panel + head_at(m.at, g), *codes = panel + group_at(m.at, g);
    if (BITS & 8) {
        q.eight[0] = ld_stream_128(codes + lane * 16);
        q.eight[1] = ld_stream_128(codes + (QUANT_PANEL + lane) * 16);
        codes += QUANT_PANEL * 32;
    }
    if (BITS & 4) {
        q.four = ld_stream_128(codes + lane * 16);
        codes += QUANT_PANEL * 16;
    }
    if (BITS & 2) {
        q.two = ld_stream_64(codes + lane * 8);
        codes += QUANT_PANEL * 8;
    }
    if (BITS & 1)
        q.one = ld_stream_32(codes + lane * 4);
    if (m.minimum == MINIMUM_NONE)
        q.d = ((const uint16_t *)head)[lane];
    else
        q.d = ((const uint32_t *)head)[lane];
    q.sub = q.sub_min = 0;
    if (m.sub != SUB_NONE) {
        const int32_t i = (g + m.at.before) & (QUANT_SUPER - 1);
        const unsigned char *sub = head + m.at.sub_bytes;
        if (quant_bits<BITS>::halves == 2)
            q.sub = ((const uint16_t *)sub)[i * QUANT_PANEL + lane];
        else
            q.sub = sub[i * QUANT_PANEL + lane];
        if (m.sub == SUB_BYTES && m.minimum != MINIMUM_NONE)
            q.sub_min = head[m.at.min_bytes + i * QUANT_PANEL + lane];
    }
}

DEVICE float f32_of_i8(uint32_t byte)
{
    return (float)(int32_t)(int8_t)byte;
}

/* Scale and minimum (0: the type has none) of half h. */
template <int BITS>
DEVICE float scale_of(const struct quant_group<BITS> &q, const struct quant_matrix &m, int h,
                      float &minimum)
{
    const uint16_t low = (uint16_t)q.d, high = (uint16_t)(q.d >> 16);
    const uint32_t sub = q.sub >> (8 * h);
    float scale = m.bf16 ? f32_of_bf16(low) : widen_f16(low);
    minimum = 0.0f;
    if (m.minimum == MINIMUM_F16)
        minimum = widen_f16(high);
    if (m.sub == SUB_BYTES) {
        scale *= f32_of_i8(sub);
        minimum *= f32_of_i8(q.sub_min);
    } else if (m.sub == SUB_NIBBLES) {
        scale *= (float)(int32_t)(sub & 15U);
        minimum *= (float)(int32_t)(sub >> 4 & 15U);
    }
    if (m.minimum == MINIMUM_ZERO)
        minimum = scale * -f32_of_i8(high);
    return scale;
}

/* Eight codes of 4 bits as the bytes values[code], the first four and the others. */
DEVICE void look_up(uint32_t &a, uint32_t &b, uint32_t codes, const uint32_t (&values)[4])
{
    const uint32_t index = codes & 0x77777777U, upper = codes >> 1 & 0x44444444U;
    const uint32_t pick = 0x32103210U | upper;
    a = byte_perm(byte_perm(values[0], values[1], index), byte_perm(values[2], values[3], index),
                  pick);
    b = byte_perm(byte_perm(values[0], values[1], index >> 16),
                  byte_perm(values[2], values[3], index >> 16), pick >> 16);
}

/* The group's 32 values (without low) as int8, element 4 j + b in byte b of quad j. */
template <int BITS>
DEVICE void unpack_group(uint32_t (&v)[QUADS], const struct quant_group<BITS> &q,
                         const struct quant_matrix &m)
{
    if (BITS == 8) {
        UNROLL
        for (int i = 0; i < 2; i++) {
            v[4 * i] = q.eight[i].x;
            v[4 * i + 1] = q.eight[i].y;
            v[4 * i + 2] = q.eight[i].z;
            v[4 * i + 3] = q.eight[i].w;
        }
        return;
    }
    const uint32_t w[4] = {q.four.x, q.four.y, q.four.z, q.four.w};
    if (BITS == 4 && m.has_values) {
        UNROLL
        for (int i = 0; i < 4; i++)
            look_up(v[2 * i], v[2 * i + 1], w[i], m.values);
        return;
    }
    UNROLL
    for (int j = 0; j < QUADS; j++) {
        v[j] = BITS & 4 ? w[j % 4] >> (j / 4 * 4) & 0x0f0f0f0fU : 0U;
        if (BITS & 2)
            v[j] |= ((j < 4 ? q.two.x : q.two.y) >> (j % 4 * 2) & 0x03030303U) << (BITS & 4);
        if (BITS & 1)
            v[j] |= (q.one >> j & 0x01010101U) << (BITS & 6);
    }
}

DEVICE struct quant_info info_of(uint4 u)
{
    return {f32_of_bits(u.x), f32_of_bits(u.y), {(int32_t)u.z, (int32_t)u.w}};
}

/* acc [tokens] of one row after a group, whose records for the tokens are at x. */
template <int BITS, int NT>
DEVICE void add_group(float (&acc)[NT], const struct quant_group<BITS> &q,
                      const struct quant_matrix &m, const unsigned char *x, int n_tokens)
{
    constexpr int halves = quant_bits<BITS>::halves, quads = QUADS / halves;
    uint32_t v[QUADS];
    float scale[halves], minimum[halves];
    unpack_group(v, q, m);
    UNROLL
    for (int h = 0; h < halves; h++)
        scale[h] = scale_of(q, m, h, minimum[h]);
    UNROLL
    for (int t = 0; t < NT; t++) {
        if (t >= n_tokens)
            break;
        const unsigned char *record = x + t * QUANT_RECORD;
        const uint4 u = ld_128(record), w = ld_128(record + 16);
        const struct quant_info info = info_of(ld_128(record + QUANT_GROUP));
        const uint32_t a[QUADS] = {u.x, u.y, u.z, u.w, w.x, w.y, w.z, w.w};
        UNROLL
        for (int h = 0; h < halves; h++) {
            const int32_t sum = halves == 1 ? info.sum[0] + info.sum[1] : info.sum[h];
            int32_t dot = m.low * sum;
            UNROLL
            for (int j = 0; j < quads; j++)
                dot = dp4a(v[h * quads + j], a[h * quads + j], dot);
            acc[t] = fmaf((float)dot, scale[h] * info.d, acc[t]);
            if (m.minimum != MINIMUM_NONE)
                acc[t] = fmaf(minimum[h], halves == 1 ? info.d_sum : info.d * (float)sum, acc[t]);
        }
    }
}

#endif
