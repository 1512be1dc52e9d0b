/* Rows of a GGUF file to panels, and a column of a panel back to f32. */
#include <assert.h>
#include <string.h>

#include "backends/cpu/quant_panels.h"
#include "common/quant.h"

#define LAYOUT(NAME, ...) [NAME] = {__VA_ARGS__},
static const struct quant_layout layouts[QK_N] = {QUANT_KINDS(LAYOUT)};

/* IQ4: the format's 16 values. */
static const int8_t codebook[CODES_MAX] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

/* MXFP4: twice the format's 16 values. */
static const int8_t doubled[CODES_MAX] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

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
        [DT_IQ4_NL] = {QK_4, &layouts[QK_4], 0, 0, -1, codebook},
        [DT_IQ4_XS] = {QK_K4, &layouts[QK_K4], 0, 0, -1, codebook},
        [DT_MXFP4] = {QK_4_BF16, &layouts[QK_4_BF16], 0, 0, -1, doubled},
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

/* One block of type t and column col into the head of its groups. */
static void put_head(const struct quant_pack *p, enum dtype t, char *head, int col,
                     const uint8_t *block, const struct quant_block *b)
{
    const struct quant_layout *l = p->lay;
    uint16_t *d = (uint16_t *)(void *)head,
             bits = (uint16_t)(t == DT_MXFP4 ? quant_exponent(block[p->d_at])
                                             : block[p->d_at] | block[p->d_at + 1] << 8);
    float scale = f32_of_f16(bits), min = 0;
    d[col] = bits;
    if (l->has_zero) {
        ((uint8_t *)(d + PANEL))[col] = block[p->d_min_at];
    } else if (l->has_min) {
        bits = (uint16_t)(block[p->d_min_at] | block[p->d_min_at + 1] << 8);
        d[PANEL + col] = l->super > 1 ? bits ^ 0x8000U : bits; /* K types subtract it */
        min = f32_of_f16(d[PANEL + col]);
    }
    for (int g = 0; l->super > 1 && g < l->super * l->halves; g++) {
        int8_t *sub = (int8_t *)head + PANEL * ((l->has_min ? 4 : 2) + g) + col;
        int8_t m = sub_of(b->scale[g], scale), m_min = sub_of(b->min[g], min);
        *sub = (int8_t)(l->nibble_subs ? m | m_min << 4 : m);
        if (l->has_min && !l->nibble_subs)
            sub[quant_sub_min_step(l)] = m_min;
    }
}

static uint8_t code_of(const struct quant_pack *p, int8_t q)
{
    int code = q - p->low;
    for (int i = 0; p->values && i < CODES_MAX; i++)
        if (p->values[i] == q)
            code = i;
    return (uint8_t)code;
}

/* Planes of one group; code [PANEL][GROUP]. */
static void put_group(const struct quant_layout *l, uint8_t (*code)[GROUP], uint8_t *group)
{
    int shift = 0;
    memset(group, 0, quant_group_bytes(l));
    for (int plane = 8; plane > 0; plane /= 2) {
        if (!(l->bits & plane))
            continue;
        int n = 8 / plane; /* codes in a byte */
        for (int c = 0; c < PANEL; c++)
            for (int e = 0; e < GROUP; e++) {
                int i = e / 4 * 2 + c / 16; /* of the codes at this position of a byte */
                int at = i / n * 64 + c % 16 * 4 + e % 4;
                int bits = code[c][e] >> shift & ((1 << plane) - 1);
                group[at] = (uint8_t)(group[at] | bits << i % n * plane);
            }
        group += QUADS * PANEL * 4 / n;
        shift += plane;
    }
}

void quant_pack_panel(const struct quant_pack *p, enum dtype t, const char *const rows[PANEL],
                      int32_t skip, int32_t k, char *panel)
{
    const struct quant_layout *l = p->lay;
    const struct quant_form *f = quant_form(t);
    int32_t n = quant_groups(skip, k), before = skip / GROUP;
    assert(f->block == GROUP * l->super && f->group == GROUP / l->halves);
    uint8_t code[QUANT_BLOCK_MAX / GROUP][PANEL][GROUP];
    struct quant_block b;
    for (int32_t i = 0; i < n;) {
        int32_t at = i + before, end = (at / l->super + 1) * l->super - before;
        char *head = panel + quant_head_at(l, skip, i);
        memset(head, 0, quant_head_bytes(l));
        memset(code, 0, sizeof code);
        for (int c = 0; c < PANEL && rows[c]; c++) {
            const uint8_t *block =
                (const uint8_t *)rows[c] + (size_t)(at / l->super) * (size_t)f->n_bytes;
            quant_unpack(t, block, &b);
            put_head(p, t, head, c, block, &b);
            for (int32_t e = 0; e < f->block; e++)
                code[e / GROUP][c][e % GROUP] = code_of(p, b.q[e]);
        }
        for (end = end < n ? end : n; i < end; i++)
            put_group(l, code[(i + before) % l->super],
                      (uint8_t *)panel + quant_group_at(l, skip, i));
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
