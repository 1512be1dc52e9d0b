/* Rows of a GGUF file to panels, and a column of a panel back to f32. */
#include <assert.h>
#include <string.h>

#include "backends/cpu/quant_panels.h"
#include "common/quant.h"

#define LAYOUT(NAME, ...) [NAME] = {__VA_ARGS__},
static const struct quant_layout layouts[QK_N] = {QUANT_KINDS(LAYOUT)};

const struct quant_pack *quant_pack_of(enum dtype t)
{
    static const struct quant_pack packs[DT_N] = {
        [DT_Q8_0] = {QK_8, &layouts[QK_8], -128, 0, -1, NULL},
        [DT_Q4_0] = {QK_4, &layouts[QK_4], -8, 0, -1, NULL},
        [DT_Q4_1] = {QK_4_MIN, &layouts[QK_4_MIN], 0, 0, 2, NULL},
        [DT_Q5_0] = {QK_5, &layouts[QK_5], -16, 0, -1, NULL},
        [DT_Q5_1] = {QK_5_MIN, &layouts[QK_5_MIN], 0, 0, 2, NULL},
        [DT_Q4_K] = {QK_K4_MIN, &layouts[QK_K4_MIN], 0, 0, 2, NULL},
        [DT_Q5_K] = {QK_K5_MIN, &layouts[QK_K5_MIN], 0, 0, 2, NULL},
        [DT_Q6_K] = {QK_K6, &layouts[QK_K6], -32, 208, -1, NULL},
        [DT_Q2_K] = {QK_K2_MIN, &layouts[QK_K2_MIN], 0, 80, 82, NULL},
        [DT_Q3_K] = {QK_K3, &layouts[QK_K3], -4, 108, -1, NULL},
        [DT_IQ4_NL] = {QK_4, &layouts[QK_4], 0, 0, -1, quant_iq4},
        [DT_IQ4_XS] = {QK_K4, &layouts[QK_K4], 0, 0, -1, quant_iq4},
        [DT_MXFP4] = {QK_4_BF16, &layouts[QK_4_BF16], 0, 0, -1, quant_mxfp4},
        [DT_INT4_BF16] = {QK_4_BF16, &layouts[QK_4_BF16], -8, 0, -1, NULL},
        [DT_INT4_ZERO_F16] = {QK_4_ZERO, &layouts[QK_4_ZERO], 0, 0, 2, NULL},
        [DT_INT4_ZERO_BF16] = {QK_4_BF16_ZERO, &layouts[QK_4_BF16_ZERO], 0, 0, 2, NULL},
        [DT_INT8_BF16] = {QK_8_BF16, &layouts[QK_8_BF16], -128, 0, -1, NULL},
        [DT_INT8_ZERO_F16] = {QK_8_ZERO, &layouts[QK_8_ZERO], -128, 0, 2, NULL},
        [DT_INT8_ZERO_BF16] = {QK_8_BF16_ZERO, &layouts[QK_8_BF16_ZERO], -128, 0, 2, NULL},
    };
    return t >= 0 && t < DT_N && packs[t].lay ? &packs[t] : NULL;
}

/* The whole number m with scale = d m, which is exact in f32; for a d that is not finite one that
 * gives the same product. */
static int8_t sub_of(float scale, float d)
{
    if (isnan(scale) || d == 0.0f)
        return 0;
    if (isinf(d))
        return (scale > 0) == (d > 0) ? 1 : -1;
    return (int8_t)(scale / d);
}

/* What a block of type t and column col holds for all its groups, into their head. */
static void put_head(const struct quant_pack *p, enum dtype t, char *head, int col,
                     const uint8_t *block)
{
    const struct quant_layout *l = p->lay;
    uint16_t *d = (uint16_t *)(void *)head;
    d[col] = (uint16_t)(t == DT_MXFP4 ? quant_exponent(block[p->d_at])
                                      : block[p->d_at] | block[p->d_at + 1] << 8);
    if (l->has_zero) {
        ((uint8_t *)(d + PANEL))[col] = block[p->d_min_at];
    } else if (l->has_min) {
        uint16_t bits = (uint16_t)(block[p->d_min_at] | block[p->d_min_at + 1] << 8);
        d[PANEL + col] = l->super > 1 ? bits ^ 0x8000U : bits; /* K types subtract it */
    }
}

/* Column col of a group's subs: group g of the block b behind `head`. */
static void put_subs(const struct quant_layout *l, const char *head, char *subs, int col,
                     const struct quant_block *b, int g)
{
    const uint16_t *d = (const uint16_t *)(const void *)head;
    float scale = f32_of_f16(d[col]), min = l->has_min ? f32_of_f16(d[PANEL + col]) : 0.0f;
    for (int h = 0; h < l->halves; h++) {
        int8_t *sub = (int8_t *)subs + PANEL * h + col;
        int8_t m = sub_of(b->scale[g * l->halves + h], scale);
        int8_t m_min = sub_of(b->min[g * l->halves + h], min);
        *sub = (int8_t)(l->nibble_subs ? m | m_min << 4 : m);
        if (l->has_min && !l->nibble_subs)
            sub[quant_sub_min_step(l)] = m_min;
    }
}

/* The codes of a group's panel: quad j of column c, the first of its four elements in the first byte. */
typedef uint32_t code_quads[QUADS][PANEL];

/* A plane of a group: `bits` bits of each code, from bit `shift` on. */
static inline void put_plane(const struct quant_layout *l, int bits, int shift, code_quads codes,
                             uint8_t *group)
{
    const uint32_t mask = 0x01010101U * ((1U << bits) - 1);
    const int n = 8 / bits; /* codes in a byte */
    for (int i = 0; i < 2 * QUADS; i += n) {
        uint8_t *line = group + (bits == 8 ? (size_t)i * 64 : quant_line_at(l, i / 2, bits));
        for (int c = 0; c < PANEL / 2; c++) {
            uint32_t word = 0;
            for (int k = 0; k < n; k++) {
                uint32_t quad = codes[(i + k) / 2][c + (i + k) % 2 * (PANEL / 2)];
                word |= (quad >> shift & mask) << k * bits;
            }
            memcpy(line + (size_t)c * sizeof word, &word, sizeof word);
        }
    }
}

static void put_group(const struct quant_layout *l, code_quads codes, uint8_t *group)
{
    if (l->bits & 8)
        put_plane(l, 8, 0, codes, group);
    if (l->bits & 4)
        put_plane(l, 4, 0, codes, group);
    if (l->bits & 2)
        l->bits & 4 ? put_plane(l, 2, 4, codes, group) : put_plane(l, 2, 0, codes, group);
    if (l->bits & 1)
        put_plane(l, 1, l->bits & 4 ? 4 : 2, codes, group);
}

/* Elements [GROUP] of column c, q of struct quant_block, but codes where values have a table. */
static void put_codes(const struct quant_pack *p, const int8_t *q, int c, code_quads codes)
{
    uint8_t code[GROUP];
    for (int i = 0; i < GROUP; i++)
        code[i] = (uint8_t)(q[i] - p->low);
    for (int j = 0; j < QUADS; j++)
        memcpy(&codes[j][c], code + 4 * j, sizeof codes[j][c]);
}

void quant_pack_panel(const struct quant_pack *p, enum dtype t, const char *const rows[PANEL],
                      int32_t skip, int32_t k, char *panel)
{
    const struct quant_layout *l = p->lay;
    const struct quant_form *f = quant_form(t);
    int32_t n = quant_groups(skip, k), before = skip / GROUP;
    assert(f->block == GROUP * l->super && f->group == GROUP / l->halves);
    code_quads codes[QUANT_BLOCK_MAX / GROUP] = {0}; /* columns without a row stay 0 */
    struct quant_block b;
    for (int32_t i = 0; i < n;) {
        int32_t block = (i + before) / l->super, first = block * l->super - before;
        int32_t end = first + l->super < n ? first + l->super : n;
        char *head = panel + quant_head_at(l, skip, i);
        memset(head, 0, quant_head_bytes(l));
        for (int32_t g = i; g < end; g++)
            memset(panel + quant_group_at(l, skip, g) - quant_near_bytes(l), 0,
                   quant_near_bytes(l));
        for (int c = 0; c < PANEL && rows[c]; c++) {
            const uint8_t *at = (const uint8_t *)rows[c] + (size_t)block * (size_t)f->n_bytes;
            quant_unpack_codes(t, at, &b);
            put_head(p, t, head, c, at);
            for (int32_t g = 0; g < l->super; g++)
                put_codes(p, b.q + g * GROUP, c, codes[g]);
            for (int32_t g = i; l->super > 1 && g < end; g++)
                put_subs(l, head, panel + quant_sub_at(l, skip, g), c, &b, g - first);
        }
        for (; i < end; i++)
            put_group(l, codes[i - first], (uint8_t *)panel + quant_group_at(l, skip, i));
    }
}

void quant_panel_expand(const struct quant_pack *p, const char *panel, int32_t skip, int32_t k,
                        int col, float *out)
{
    const struct quant_layout *l = p->lay;
    for (int32_t i = 0; i < k;) {
        int32_t at = skip % GROUP + i, g = at / GROUP, e = at % GROUP, half = GROUP / l->halves;
        int32_t end = i + half - e % half;
        const uint8_t *group = (const uint8_t *)panel + quant_group_at(l, skip, g);
        float min, scale = quant_scale(p, panel, skip, g, e / half, col, &min);
        for (end = end < k ? end : k; i < end; i++, e++) {
            float q = (float)quant_q(p, quant_code(l, group, e, col));
            out[i] = l->has_min ? fmaf(q, scale, min) : q * scale;
        }
    }
}
