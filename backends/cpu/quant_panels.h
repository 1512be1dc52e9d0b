/* How a quantised weight is stored: panels of PANEL columns (rows of the matrix); a panel is the
 * groups of GROUP elements of k, in order, each `super` of them (a block of the file) behind a head.
 *
 *   head    d [PANEL] f16, or bf16; with a minimum d_min [PANEL] f16, or with a zero point
 *           zero [PANEL] int8
 *   subs    where super > 1, of a group: sub [halves][PANEL] int8, then sub_min likewise, or 4 bits
 *           of each in one byte (nibble_subs).  Whole lines of 64 bytes stand in front of their
 *           group's codes, so that a panel is read in address order; less (QK_K4) stands in the
 *           head, first sub of all groups, then sub_min
 *   group   the codes in planes of 8, 4, 2 and 1 bits, the most significant bits in the smaller
 *           plane.  Quad j is elements 4 j .. 4 j + 3 of a column, 4 bytes.  A plane is lines of 64
 *           bytes, [16][4] (8 bits: [PANEL][4]), in each byte from bit 0 on (quad, column):
 *             8 bits  of 1 quad:  (j, c)
 *             4 bits  of 1 quad:  (j, c), (j, c + 16)
 *             2 bits  of 2 quads: (j, c), (j, c + 16), (j + 1, c), (j + 1, c + 16)
 *             1 bit   of 4 quads: (j, c), (j, c + 16), (j + 1, c), ..., (j + 3, c + 16)
 *           The planes' lines take turns in the order in which quads need them, 1 bit before 2
 *           bits before 4 bits (quant_line_at)
 *
 * An element is q = value of its code; scale = d sub (exact in f32), minimum = d_min sub_min, each
 * for 32 / halves elements; sub = 1 where super = 1.  With a zero point the minimum is -scale zero.  A shard that begins inside a block keeps the
 * whole head and the groups that it touches.  Columns beyond the last are zero.
 *
 * The layout does not depend on the instruction set or the number of threads. */
#ifndef BACKENDS_CPU_QUANT_PANELS_H
#define BACKENDS_CPU_QUANT_PANELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/panels.h"

enum { GROUP = 32, QUADS = GROUP / 4, CODES_MAX = 16 };

/* The kinds of kernels: name, bits of a code, halves, super, has_min, nibble_subs, bf16,
 * has_zero. */
#define QUANT_KINDS(X)                                                                             \
    X(QK_8, 8, 1, 1, false, false, false, false)                                                   \
    X(QK_8_BF16, 8, 1, 1, false, false, true, false)                                               \
    X(QK_8_ZERO, 8, 1, 1, true, false, false, true)                                                \
    X(QK_8_BF16_ZERO, 8, 1, 1, true, false, true, true)                                            \
    X(QK_4, 4, 1, 1, false, false, false, false)                                                   \
    X(QK_4_BF16, 4, 1, 1, false, false, true, false)                                               \
    X(QK_4_ZERO, 4, 1, 1, true, false, false, true)                                                \
    X(QK_4_BF16_ZERO, 4, 1, 1, true, false, true, true)                                            \
    X(QK_4_MIN, 4, 1, 1, true, false, false, false)                                                \
    X(QK_5, 5, 1, 1, false, false, false, false)                                                   \
    X(QK_5_MIN, 5, 1, 1, true, false, false, false)                                                \
    X(QK_K2_MIN, 2, 2, 8, true, true, false, false)                                                \
    X(QK_K3, 3, 2, 8, false, false, false, false)                                                  \
    X(QK_K4, 4, 1, 8, false, false, false, false)                                                  \
    X(QK_K4_MIN, 4, 1, 8, true, false, false, false)                                               \
    X(QK_K5_MIN, 5, 1, 8, true, false, false, false)                                               \
    X(QK_K6, 6, 2, 8, false, false, false, false)

#define QUANT_KIND_NAME(NAME, ...) NAME,
enum quant_kind { QUANT_KINDS(QUANT_KIND_NAME) QK_N };

struct quant_layout {
    int bits, halves, super;
    bool has_min, nibble_subs;
    bool bf16;     /* d; else f16 */
    bool has_zero; /* in place of d_min */
};

/* One type's packing. */
struct quant_pack {
    enum quant_kind kind;
    const struct quant_layout *lay;
    int low;              /* value of code 0 where values are consecutive */
    int d_at, d_min_at;   /* offsets of d and d_min, or zero, (-1: none) in the file's block */
    const int8_t *values; /* [16] of 4-bit codes; NULL: code + low */
};

/* NULL: the type is not quantised, or cannot be packed. */
const struct quant_pack *quant_pack_of(enum dtype t);

/* Bytes of a group's subs, and of those that stand in front of its codes. */
ALWAYS_INLINE size_t quant_sub_bytes(const struct quant_layout *l)
{
    int kinds = l->has_min && !l->nibble_subs ? 2 : 1;
    return l->super == 1 ? 0 : PANEL * (size_t)(l->halves * kinds);
}

ALWAYS_INLINE size_t quant_near_bytes(const struct quant_layout *l)
{
    return quant_sub_bytes(l) % 64 == 0 ? quant_sub_bytes(l) : 0;
}

ALWAYS_INLINE size_t quant_head_bytes(const struct quant_layout *l)
{
    size_t far = quant_sub_bytes(l) - quant_near_bytes(l);
    return PANEL * (l->has_zero ? 3U : l->has_min ? 4U : 2U) + (size_t)l->super * far;
}

/* From a group's codes to the next ones behind the same head. */
ALWAYS_INLINE size_t quant_group_bytes(const struct quant_layout *l)
{
    return quant_near_bytes(l) + (size_t)(GROUP * PANEL / 8) * (size_t)l->bits;
}

/* Offsets in a panel whose shard begins `skip` elements into a block: of a group's head, of its codes. */
ALWAYS_INLINE size_t quant_head_at(const struct quant_layout *l, int32_t skip, int32_t group)
{
    int32_t before = skip / GROUP % l->super, head = (group + before) / l->super;
    int32_t groups = head ? head * l->super - before : 0;
    return (size_t)head * quant_head_bytes(l) + (size_t)groups * quant_group_bytes(l);
}

ALWAYS_INLINE size_t quant_group_at(const struct quant_layout *l, int32_t skip, int32_t group)
{
    int32_t heads = (group + skip / GROUP % l->super) / l->super + 1;
    return (size_t)heads * quant_head_bytes(l) + (size_t)group * quant_group_bytes(l) +
           quant_near_bytes(l);
}

/* Groups that columns [0, k) of a shard touch. */
static inline int32_t quant_groups(int32_t skip, int32_t k)
{
    return k > 0 ? (int32_t)(((int64_t)skip % GROUP + k + GROUP - 1) / GROUP) : 0;
}

static inline size_t quant_panel_bytes(const struct quant_layout *l, int32_t skip, int32_t k)
{
    int32_t n = quant_groups(skip, k);
    return n ? quant_group_at(l, skip, n - 1) + quant_group_bytes(l) - quant_near_bytes(l) : 0;
}

/* Offset in the panel of a group's sub [halves][PANEL]; from there to its sub_min, and to the next
 * group's behind the same head. */
ALWAYS_INLINE size_t quant_sub_at(const struct quant_layout *l, int32_t skip, int32_t group)
{
    if (quant_near_bytes(l))
        return quant_group_at(l, skip, group) - quant_near_bytes(l);
    size_t g = (size_t)((group + skip / GROUP) % l->super * l->halves);
    return quant_head_at(l, skip, group) + PANEL * ((l->has_min ? 4U : 2U) + g);
}

ALWAYS_INLINE size_t quant_sub_min_step(const struct quant_layout *l)
{
    return PANEL * (size_t)(l->halves * (quant_near_bytes(l) ? 1 : l->super));
}

ALWAYS_INLINE size_t quant_sub_step(const struct quant_layout *l)
{
    return quant_near_bytes(l) ? quant_group_bytes(l) : PANEL * (size_t)l->halves;
}

/* Offset in a group of the line that has quad j's `bits` (4, 2 or 1) bits. */
ALWAYS_INLINE size_t quant_line_at(const struct quant_layout *l, int j, int bits)
{
    int one = l->bits & 1, two = l->bits >> 1 & 1, four = l->bits >> 2 & 1;
    int at = j / 4 * (one + 2 * two + 4 * four);
    if (bits == 1)
        return 64 * (size_t)at;
    at += one + j % 4 / 2 * (two + 2 * four);
    return 64 * (size_t)(bits == 2 ? at : at + two + j % 2);
}

/* Code of element e of a group (at its first byte) in column col. */
static inline unsigned quant_code(const struct quant_layout *l, const uint8_t *group, int e,
                                  int col)
{
    int j = e / 4, half = col / 16, byte = col % 16 * 4 + e % 4;
    unsigned code = 0, shift = 0;
    if (l->bits & 8)
        return group[j * 128 + col * 4 + e % 4];
    if (l->bits & 4) {
        code = (unsigned)group[quant_line_at(l, j, 4) + (size_t)byte] >> 4 * half & 15U;
        shift = 4;
    }
    if (l->bits & 2) {
        unsigned line = group[quant_line_at(l, j, 2) + (size_t)byte];
        code |= (line >> (j % 2 * 4 + half * 2) & 3U) << shift;
        shift += 2;
    }
    if (l->bits & 1) {
        unsigned line = group[quant_line_at(l, j, 1) + (size_t)byte];
        code |= (line >> (j % 4 * 2 + half) & 1U) << shift;
    }
    return code;
}

static inline int quant_q(const struct quant_pack *p, unsigned code)
{
    return p->values ? p->values[code] : (int)code + p->low;
}

/* Scale and minimum (0: none) of half h of a group in column col. */
static inline float quant_scale(const struct quant_pack *p, const char *panel, int32_t skip,
                                int32_t group, int h, int col, float *min)
{
    const struct quant_layout *l = p->lay;
    const char *head = panel + quant_head_at(l, skip, group);
    const uint16_t *d = (const uint16_t *)(const void *)head;
    const int8_t *sub = (const int8_t *)panel + quant_sub_at(l, skip, group) + PANEL * h;
    int m = 1, m_min = 1;
    if (l->nibble_subs) {
        m = (uint8_t)sub[col] & 15;
        m_min = (uint8_t)sub[col] >> 4;
    } else if (l->super > 1) {
        m = sub[col];
        m_min = l->has_min ? sub[quant_sub_min_step(l) + (size_t)col] : 0;
    }
    float scale = (l->bf16 ? f32_of_bf16(d[col]) : f32_of_f16(d[col])) * (float)m;
    if (l->has_zero)
        *min = scale * -(float)((const int8_t *)(d + PANEL))[col];
    else
        *min = l->has_min ? f32_of_f16(d[PANEL + col]) * (float)m_min : 0.0f;
    return scale;
}

/* Writes a whole panel: rows[c] (NULL: none) is the file's row of column c, whose shard of k
 * elements begins `skip` into its first block. */
void quant_pack_panel(const struct quant_pack *p, enum dtype t, const char *const rows[PANEL],
                      int32_t skip, int32_t k, char *panel);

/* out [k] = the values of column col. */
void quant_panel_expand(const struct quant_pack *p, const char *panel, int32_t skip, int32_t k,
                        int col, float *out);

#endif
