/* Groups of a quantised panel as bytes and f32 scales, over the vectors of one instruction set.
 * The including file has included bytes_X.h, which defines VL and, for vectors of VL columns x 4
 * bytes,
 *   b_load, b_store, b_splat, b_add, b_or, b_field, b_table, b_lookup */
#ifndef BACKENDS_CPU_QUANT_UNPACK_H
#define BACKENDS_CPU_QUANT_UNPACK_H

#include "backends/cpu/kernels.h"
#include "backends/cpu/read_ahead.h"
#include "backends/cpu/slice_tree.h"
#include <stdalign.h>

#include "backends/cpu/vectors.h"

/* One group. */
struct unpacked {
    alignas(64) uint8_t bytes[QUADS * PANEL * 4];
    float scale[2][PANEL], min[2][PANEL];
    /* [QUADS][PANEL][4] (DOT_MATRIX: see quant_neon.h): bytes, or the panel itself where it has them so */
    const uint8_t *w;
};

enum {
    UNPACK_GROUPS = 8,         /* groups unpacked at a time: 12 KiB */
    AHEAD_OF_GROUPS = 9 << 10, /* at least their bytes in a panel */
};

#ifdef DOT_MATRIX
enum { HAS_MATRIX = 1 };
#else
enum { HAS_MATRIX = 0 };
#endif

struct quant_scratch {
    struct unpacked group[UNPACK_GROUPS];
    struct slice_tree sums;
};

struct bytes {
    vb a, b;
};

struct scales {
    struct pair scale, min;
};

ALWAYS_INLINE struct bytes both_fields(vb v, int from_a, int from_b, int to, int mask)
{
    return (struct bytes){b_field(v, from_a - to, mask << to), b_field(v, from_b - to, mask << to)};
}

ALWAYS_INLINE struct bytes with_fields(struct bytes c, struct bytes more)
{
    return (struct bytes){b_or(c.a, more.a), b_or(c.b, more.b)};
}

/* Codes of quad j, pair q of the columns.  See quant_panels.h. */
ALWAYS_INLINE struct bytes load_codes(struct quant_layout l, const uint8_t *group, int j, int q)
{
    struct bytes c;
    group += 4 * VL * q;
    if (l.bits == 8)
        return (struct bytes){b_load(group + j * 128), b_load(group + j * 128 + 64)};
    if (l.bits & 4)
        c = both_fields(b_load(group + quant_line_at(&l, j, 4)), 0, 4, 0, 15);
    if (l.bits & 2) {
        int at = j % 2 * 4;
        struct bytes two =
            both_fields(b_load(group + quant_line_at(&l, j, 2)), at, at + 2, l.bits & 4, 3);
        c = l.bits & 4 ? with_fields(c, two) : two;
    }
    if (l.bits & 1) {
        int at = j % 4 * 2;
        c = with_fields(
            c, both_fields(b_load(group + quant_line_at(&l, j, 1)), at, at + 1, l.bits & 6, 1));
    }
    return c;
}

/* Maps codes to weights plus an offset: a table for 4 bits, otherwise a number to add. */
ALWAYS_INLINE vb code_map(struct quant_layout l, const struct quant_pack *p, int offset)
{
    uint8_t table[CODES_MAX];
    if (l.bits != 4)
        return b_splat(p->low + offset);
    for (int i = 0; i < CODES_MAX; i++)
        table[i] = (uint8_t)(quant_q(p, (unsigned)i) + offset);
    return b_table(table);
}

ALWAYS_INLINE struct bytes load_weights(struct quant_layout l, vb map, const uint8_t *group, int j,
                                        int q, int offset)
{
    struct bytes c = load_codes(l, group, j, q);
    if (l.bits == 8 && offset == 128)
        return c; /* stored as q + 128 */
    if (l.bits == 4)
        return (struct bytes){b_lookup(map, c.a), b_lookup(map, c.b)};
    return (struct bytes){b_add(c.a, map), b_add(c.b, map)};
}

/* Bytes of a quad with its portion of the head. */
ALWAYS_INLINE size_t quad_bytes_of(const struct quant_layout *l)
{
    return (quant_group_bytes(l) + quant_head_bytes(l) / (size_t)l->super) / QUADS;
}

/* The address of group g of a panel if heads were spread evenly over their groups. */
ALWAYS_INLINE const char *group_spread(const struct quant_layout *l, const char *panel, int32_t g)
{
    return panel + (size_t)g * QUADS * quad_bytes_of(l);
}

enum { QUAD_LINES = 4 }; /* most lines of a quad with its portion of the head */

/* Reads ahead of quad j of the group at `spread`: its share of the group's lines, all of which begin
 * at multiples of 64 bytes but for those of K types, or a line for about every 128 bytes. */
ALWAYS_INLINE void read_ahead_quad(struct read_ahead r, const char *spread, int j,
                                   size_t quad_bytes)
{
    int lines = (int)(QUADS * quad_bytes + 63) / 64;
    if (r.eighths == 8) {
        UNROLL
        for (int i = 0; i < QUAD_LINES; i++)
            if (lines * j / QUADS + i < lines * (j + 1) / QUADS)
                __builtin_prefetch(spread + r.bytes + 64 * (lines * j / QUADS + i), 0, 2);
    } else if (r.eighths > 0 && (j % 2 == 0 || quad_bytes > 96)) {
        read_ahead(r, spread + (size_t)j * quad_bytes, 1);
    }
}

ALWAYS_INLINE struct pair mul_pair(struct pair x, vf a, vf b)
{
    return (struct pair){v_mul(x.a, a), v_mul(x.b, b)};
}

/* What the groups behind a head share, pair q of the columns: d, d_min (or -d zero). */
ALWAYS_INLINE struct scales load_head(struct quant_layout l, const char *head, int q)
{
    const uint16_t *d = (const uint16_t *)(const void *)head + VL * q;
    struct scales s = {{v_load_f16(d), v_load_f16(d + PANEL / 2)}, {v_splat(0), v_splat(0)}};
    if (l.bf16)
        s.scale = (struct pair){v_load_bf16(d), v_load_bf16(d + PANEL / 2)};
    if (l.has_zero) {
        const int8_t *zero =
            (const int8_t *)((const uint16_t *)(const void *)head + PANEL) + VL * q;
        vf minus = v_splat(-1);
        s.min = mul_pair(s.scale, v_mul(v_load_i8(zero), minus),
                         v_mul(v_load_i8(zero + PANEL / 2), minus));
    } else if (l.has_min)
        s.min = (struct pair){v_load_f16(d + PANEL), v_load_f16(d + PANEL + PANEL / 2)};
    return s;
}

/* Scales of half a group, pair q of the columns; s: load_head's. */
ALWAYS_INLINE struct scales sub_scales(struct quant_layout l, struct scales s, const char *sub,
                                       int q)
{
    const int8_t *m = (const int8_t *)sub + VL * q, *m_min = m + quant_sub_min_step(&l);
    if (l.nibble_subs) {
        vf a, b, a_min, b_min;
        v_load_halves((const uint8_t *)m, &a, &a_min);
        v_load_halves((const uint8_t *)m + PANEL / 2, &b, &b_min);
        s.scale = mul_pair(s.scale, a, b);
        s.min = mul_pair(s.min, a_min, b_min);
    } else if (l.super > 1) {
        s.scale = mul_pair(s.scale, v_load_i8(m), v_load_i8(m + PANEL / 2));
        if (l.has_min)
            s.min = mul_pair(s.min, v_load_i8(m_min), v_load_i8(m_min + PANEL / 2));
    }
    return s;
}

/* Pair q of the columns of two quads, to the group's bytes from the first quad on. */
ALWAYS_INLINE void put_quads(uint8_t *bytes, int q, const struct bytes w[2])
{
#ifdef DOT_MATRIX
    UNROLL
    for (int i = 0; i < 2; i++) {
        vb low, high;
        b_zip_quads(i ? w[0].b : w[0].a, i ? w[1].b : w[1].a, &low, &high);
        b_store(bytes + i * PANEL * 4 + 8 * VL * q, low);
        b_store(bytes + i * PANEL * 4 + 8 * VL * q + 4 * VL, high);
    }
#else
    UNROLL
    for (int i = 0; i < 2; i++) {
        b_store(bytes + i * PANEL * 4 + 4 * VL * q, w[i].a);
        b_store(bytes + i * PANEL * 4 + 64 + 4 * VL * q, w[i].b);
    }
#endif
}

/* Groups [g, g + n), weights as their codes or as the bytes q + offset. */
ALWAYS_INLINE void unpack_groups(struct quant_layout l, const struct quant_panel *t, int32_t g,
                                 int n, struct unpacked *out, bool as_codes, int offset)
{
    vb map = code_map(l, t->pack, offset);
    for (int i = 0; i < n; i++, g++, out++) {
        const char *head = t->panel + quant_head_at(&l, t->shape.skip, g);
        const uint8_t *group = (const uint8_t *)t->panel + quant_group_at(&l, t->shape.skip, g);
        bool in_place = l.bits == 8 && offset == 128 && !HAS_MATRIX; /* stored as q + 128 */
        out->w = in_place ? group : out->bytes;
        UNROLL
        for (int j = 0; j < QUADS && !in_place; j += 2)
            for (int q = 0; q < PAIRS; q++) {
                struct bytes w[2];
                UNROLL
                for (int i_quad = 0; i_quad < 2; i_quad++)
                    w[i_quad] = as_codes ? load_codes(l, group, j + i_quad, q)
                                         : load_weights(l, map, group, j + i_quad, q, offset);
                put_quads(out->bytes + j * PANEL * 4, q, w);
            }
        for (int h = 0; h < l.halves; h++)
            for (int q = 0; q < PAIRS; q++) {
                const char *sub = t->panel + quant_sub_at(&l, t->shape.skip, g) + PANEL * h;
                struct scales s = sub_scales(l, load_head(l, head, q), sub, q);
                v_store(out->scale[h] + VL * q, s.scale.a);
                v_store(out->scale[h] + PANEL / 2 + VL * q, s.scale.b);
                v_store(out->min[h] + VL * q, s.min.a);
                v_store(out->min[h] + PANEL / 2 + VL * q, s.min.b);
            }
    }
}

typedef void unpack_fn(const struct quant_panel *t, int32_t g, int n, struct unpacked *out);

/* The factor of the minimum of half h of a group. */
ALWAYS_INLINE float min_factor(const struct quant_x *x, int halves, int h)
{
    if (halves == 1)
        return x->d_sum;
    return x->d * (float)((h == 0 ? x->start_low : x->start - x->start_low) / -128);
}

#endif
