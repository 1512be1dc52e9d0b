/* Groups of a quantised matrix in a lane's registers, for the kernels of quant_*.cu. */
#ifndef BACKENDS_CUDA_QUANT_DEVICE_H
#define BACKENDS_CUDA_QUANT_DEVICE_H

#include "backends/cuda/gpu.h"
#include "backends/cuda/quant_kernels.h"

enum { QUADS = QUANT_GROUP / 4 };

/* Of a form (quant_kernels.h).  Scales of a group: 2 where the codes have 2, 3 or 6 bits. */
template <int FORM> struct quant_form_of {
    static const bool sorted = (FORM & QUANT_SORTED) != 0;
    static const int bits = FORM & (QUANT_SORTED - 1);
    static const int halves = bits == 2 || bits == 3 || bits == 6 ? 2 : 1;
};

/* One group of one row as it is stored: a lane's share of the planes and of the head.  Of sorted columns a chunk: `four` or
 * `eight` have its pieces at their slots, `one` a piece of one quad of 4 bits; d is the f32 scale, sub the zero point. */
template <int FORM> struct quant_group {
    uint4 eight[FORM & 8 ? 2 : 1], four;
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

/* The elements of a chunk of so many quads, which begin at `codes`, of row `lane`. */
DEVICE void load_pieces(struct quant_group<4 + QUANT_SORTED> &q, const unsigned char *codes,
                        int quads, int lane)
{
    constexpr int quad = QUANT_PANEL * 2; /* bytes */
    q.four = {0, 0, 0, 0};
    q.one = 0;
    if (quads == 8)
        q.four = ld_stream_128(codes + lane * 16);
    if (quads == 8)
        return;
    if (quads & 4) {
        const uint2 v = ld_stream_64(codes + lane * 8);
        q.four.x = v.x, q.four.y = v.y;
    }
    if (quads & 2)
        q.four.z = ld_stream_32(codes + (quads & 4) * quad + lane * 4);
    if (quads & 1)
        q.one = ld_stream_16(codes + (quads & 6) * quad + lane * 2);
}

DEVICE void load_pieces(struct quant_group<8 + QUANT_SORTED> &q, const unsigned char *codes,
                        int quads, int lane)
{
    constexpr int quad = QUANT_PANEL * 4;
    q.eight[0] = {0, 0, 0, 0};
    q.eight[1] = {0, 0, 0, 0};
    if (quads & 12)
        q.eight[0] = ld_stream_128(codes + lane * 16);
    if (quads == 8)
        q.eight[1] = ld_stream_128(codes + (QUANT_PANEL + lane) * 16);
    if (quads & 2) {
        const uint2 v = ld_stream_64(codes + (quads & 4) * quad + lane * 8);
        q.eight[1].x = v.x, q.eight[1].y = v.y;
    }
    if (quads & 1)
        q.eight[1].z = ld_stream_32(codes + (quads & 6) * quad + lane * 4);
}

/* Scale and zero point of a chunk. */
template <int FORM>
DEVICE void load_zero(struct quant_group<FORM> &q, const struct quant_matrix &m,
                      const unsigned char *panel, uint32_t group, int lane)
{
    const uint32_t at = group * QUANT_PANEL + (uint32_t)lane;
    q.d = ((const uint32_t *)panel)[at];
    q.sub = panel[m.sorted.zeros_at + at];
}

/* A word of struct sorted_chunk. */
DEVICE uint32_t chunk_group(uint32_t chunk)
{
    return chunk & 0xffffU;
}

DEVICE int chunk_quads(uint32_t chunk)
{
    return (int)(chunk >> 16 & 255U);
}

DEVICE const uint32_t *chunks_of(const struct quant_matrix &m, const unsigned char *head)
{
    return (const uint32_t *)(head + m.sorted.chunk_at);
}

DEVICE const unsigned char *chunk_codes(const struct quant_matrix &m, const unsigned char *head,
                                        const unsigned char *panel, int32_t c)
{
    const int32_t quad = ((const int32_t *)(head + m.sorted.quad_at))[c];
    return panel + m.sorted.codes_at + (size_t)quad * (size_t)(QUANT_PANEL / 2 * m.sorted.bits);
}

/* Group g, or chunk g, of row `lane` of a panel; of_matrix: the head of sorted columns. */
template <int FORM>
DEVICE void load_group(struct quant_group<FORM> &q, const struct quant_matrix &m,
                       const unsigned char *of_matrix, const unsigned char *panel, int32_t g,
                       int lane)
{
    constexpr int BITS = quant_form_of<FORM>::bits;
    if constexpr (quant_form_of<FORM>::sorted) {
        const uint32_t chunk = chunks_of(m, of_matrix)[g];
        load_pieces(q, chunk_codes(m, of_matrix, panel, g), chunk_quads(chunk), lane);
        load_zero<FORM>(q, m, panel, chunk_group(chunk), lane);
        return;
    }
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
        if (quant_form_of<FORM>::halves == 2)
            q.sub = ((const uint16_t *)sub)[i * QUANT_PANEL + lane];
        else
            q.sub = sub[i * QUANT_PANEL + lane];
        if (m.sub == SUB_BYTES && m.minimum != MINIMUM_NONE)
            q.sub_min = head[m.at.min_bytes + i * QUANT_PANEL + lane];
    }
}

/* The groups, or chunks, of a slice of a row one after the other: a warp has the words of 32 chunks at a time. */
template <int FORM> struct group_reader {
    const unsigned char *panel, *codes;
    const uint32_t *chunks;
    uint32_t window;
    int32_t g, in_window;
};

template <int FORM>
DEVICE group_reader<FORM> read_groups(const struct quant_matrix &m, const unsigned char *of_matrix,
                                      const unsigned char *panel, int32_t first, bool any)
{
    group_reader<FORM> r = {panel, nullptr, nullptr, 0, first, 0};
    if (quant_form_of<FORM>::sorted && any) {
        r.codes = chunk_codes(m, of_matrix, panel, first);
        r.chunks = chunks_of(m, of_matrix) + first;
    }
    return r;
}

/* The next one; all lanes call it. */
template <int FORM>
DEVICE void load_next(struct quant_group<FORM> &q, const struct quant_matrix &m,
                      struct group_reader<FORM> &r)
{
    constexpr int quad = QUANT_PANEL / 2 * quant_form_of<FORM>::bits; /* bytes */
    const int lane = lane_id();
    if constexpr (quant_form_of<FORM>::sorted) {
        if (r.in_window % 32 == 0)
            r.window = r.chunks[r.in_window + lane];
        const uint32_t chunk = shfl(r.window, r.in_window++ % 32);
        load_pieces(q, r.codes, chunk_quads(chunk), lane);
        load_zero<FORM>(q, m, r.panel, chunk_group(chunk), lane);
        r.codes += chunk_quads(chunk) * quad;
    } else {
        load_group<FORM>(q, m, nullptr, r.panel, r.g++, lane);
    }
}

/* The groups of a slice, of w and of x. */
struct slice_groups {
    int32_t first, n, x_at;
};

template <int FORM>
DEVICE struct slice_groups slice_groups_of(const struct quant_slices &s,
                                           const unsigned char *of_matrix, int slice)
{
    if constexpr (quant_form_of<FORM>::sorted) {
        if (!of_matrix) /* no columns */
            return {0, 0, 0};
        const int32_t *first = (const int32_t *)of_matrix + slice;
        return {first[0], first[1] - first[0], first[0]};
    }
    return {s.first[slice], s.x_at[slice + 1] - s.x_at[slice], s.x_at[slice]};
}

DEVICE float f32_of_i8(uint32_t byte)
{
    return (float)(int32_t)(int8_t)byte;
}

/* Scale and minimum (0: the type has none) of half h. */
template <int FORM>
DEVICE float scale_of(const struct quant_group<FORM> &q, const struct quant_matrix &m, int h,
                      float &minimum)
{
    if (quant_form_of<FORM>::sorted) {
        minimum = 0.0f;
        return f32_of_bits(q.d);
    }
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

/* What is added to each of a group's values. */
template <int FORM>
DEVICE int32_t low_of(const struct quant_group<FORM> &q, const struct quant_matrix &m)
{
    return quant_form_of<FORM>::sorted ? -(int32_t)(int8_t)q.sub : m.low;
}

/* The group's 32 values (without low) as int8, element 4 j + b in byte b of quad j. */
template <int FORM>
DEVICE void unpack_group(uint32_t (&v)[QUADS], const struct quant_group<FORM> &q,
                         const struct quant_matrix &m)
{
    constexpr int BITS = quant_form_of<FORM>::bits;
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
    if constexpr (quant_form_of<FORM>::sorted) {
        UNROLL
        for (int j = 0; j < QUADS; j++)
            v[j] = w[j / 2] >> j % 2 * 4 & 0x0f0f0f0fU;
        v[6] |= (q.one & 0x0f0fU) | (q.one & 0xf0f0U) << 12; /* only where w[3] is 0 */
        return;
    }
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
template <int FORM, int NT>
DEVICE void add_group(float (&acc)[NT], const struct quant_group<FORM> &q,
                      const struct quant_matrix &m, const unsigned char *x, int n_tokens)
{
    constexpr int halves = quant_form_of<FORM>::halves, quads = QUADS / halves;
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
            int32_t dot = low_of<FORM>(q, m) * sum;
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
