/* Rows of quantised blocks to the panels of device memory. */
#include "backends/cuda/quant_layout.h"

#include <assert.h>
#include <string.h>

#include "common/quant.h"

const struct quant_type *quant_type_of(enum dtype t)
{
    static const struct quant_type types[DT_N] = {
        [DT_Q8_0] = {8, 1, 0, 0, 0, MINIMUM_NONE, SUB_NONE, 0, NULL},
        [DT_Q4_0] = {4, 1, -8, 0, 0, MINIMUM_NONE, SUB_NONE, 0, NULL},
        [DT_Q4_1] = {4, 1, 0, 0, 2, MINIMUM_F16, SUB_NONE, 0, NULL},
        [DT_Q5_0] = {5, 1, -16, 0, 0, MINIMUM_NONE, SUB_NONE, 0, NULL},
        [DT_Q5_1] = {5, 1, 0, 0, 2, MINIMUM_F16, SUB_NONE, 0, NULL},
        [DT_Q4_K] = {4, 1, 0, 0, 2, MINIMUM_F16, SUB_BYTES, 0, NULL},
        [DT_Q5_K] = {5, 1, 0, 0, 2, MINIMUM_F16, SUB_BYTES, 0, NULL},
        [DT_Q6_K] = {6, 2, -32, 208, 0, MINIMUM_NONE, SUB_BYTES, 0, NULL},
        [DT_Q2_K] = {2, 2, 0, 80, 82, MINIMUM_F16, SUB_NIBBLES, 0, NULL},
        [DT_Q3_K] = {3, 2, -4, 108, 0, MINIMUM_NONE, SUB_BYTES, 0, NULL},
        [DT_IQ4_NL] = {4, 1, 0, 0, 0, MINIMUM_NONE, SUB_NONE, 0, quant_iq4},
        [DT_IQ4_XS] = {4, 1, 0, 0, 0, MINIMUM_NONE, SUB_BYTES, 0, quant_iq4},
        [DT_MXFP4] = {4, 1, 0, 0, 0, MINIMUM_NONE, SUB_NONE, 1, quant_mxfp4},
        [DT_INT4_BF16] = {4, 1, -8, 0, 0, MINIMUM_NONE, SUB_NONE, 1, NULL},
        [DT_INT4_ZERO_F16] = {4, 1, 0, 0, 2, MINIMUM_ZERO, SUB_NONE, 0, NULL},
        [DT_INT4_ZERO_BF16] = {4, 1, 0, 0, 2, MINIMUM_ZERO, SUB_NONE, 1, NULL},
        [DT_INT8_BF16] = {8, 1, 0, 0, 0, MINIMUM_NONE, SUB_NONE, 1, NULL},
        [DT_INT8_ZERO_F16] = {8, 1, 0, 0, 2, MINIMUM_ZERO, SUB_NONE, 0, NULL},
        [DT_INT8_ZERO_BF16] = {8, 1, 0, 0, 2, MINIMUM_ZERO, SUB_NONE, 1, NULL},
    };
    return t >= 0 && t < DT_N && types[t].bits ? &types[t] : NULL;
}

/* Bytes of the planes before that of `plane` bits, of all lanes. */
static int32_t plane_at(const struct quant_type *q, int32_t plane)
{
    return (q->bits & ~(2 * plane - 1)) * QUANT_PANEL * QUANT_GROUP / 8;
}

struct quant_place quant_place_of(const struct quant_type *q, int32_t skip, int32_t k)
{
    struct quant_place p = {.super_shift = q->sub == SUB_NONE ? 0 : 3,
                            .group_bytes = q->bits * QUANT_PANEL * QUANT_GROUP / 8};
    int32_t super = 1 << p.super_shift;
    p.before = skip / QUANT_GROUP % super;
    p.sub_bytes = QUANT_PANEL * (q->minimum == MINIMUM_NONE ? 2 : 4);
    p.min_bytes = p.sub_bytes;
    if (q->sub != SUB_NONE)
        p.min_bytes += super * QUANT_PANEL * q->halves;
    p.head_bytes = p.min_bytes;
    if (q->sub == SUB_BYTES && q->minimum != MINIMUM_NONE)
        p.head_bytes += super * QUANT_PANEL;
    if (k > 0)
        p.n_groups = (int32_t)(((int64_t)skip % QUANT_GROUP + k + QUANT_GROUP - 1) / QUANT_GROUP);
    int32_t heads = (p.before + p.n_groups + super - 1) >> p.super_shift;
    if (p.n_groups > 0)
        p.panel_bytes =
            (size_t)heads * (size_t)p.head_bytes + (size_t)p.n_groups * (size_t)p.group_bytes;
    return p;
}

/* The whole number m with scale = d m, which is exact in f32.  Where d is not finite, one that
 * gives the same product. */
static int8_t whole_factor(float scale, float d)
{
    if (isnan(scale) || d == 0.0f)
        return 0;
    if (isinf(d))
        return (scale > 0) == (d > 0) ? 1 : -1;
    return (int8_t)(scale / d);
}

static uint16_t load_16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static void store_16(char *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

/* The head of one block for one lane. */
static void store_head(enum dtype t, const struct quant_place *at, int lane, const uint8_t *block,
                       const struct quant_block *b, char *head)
{
    const struct quant_type *q = quant_type_of(t);
    uint16_t d = t == DT_MXFP4 ? quant_exponent(block[q->d_at]) : load_16(block + q->d_at);
    char *to = head + lane * (at->sub_bytes / QUANT_PANEL);
    float scale = q->bf16 ? f32_of_bf16(d) : f32_of_f16(d), min = 0;
    store_16(to, d);
    if (q->minimum == MINIMUM_ZERO)
        store_16(to + 2, (uint16_t)(int16_t)(int8_t)block[q->min_at]);
    if (q->minimum == MINIMUM_F16) {
        uint16_t m = load_16(block + q->min_at);
        m ^= q->sub == SUB_NONE ? 0 : 0x8000U; /* K types subtract it */
        store_16(to + 2, m);
        min = f32_of_f16(m);
    }
    for (int g = 0; q->sub != SUB_NONE && g < QUANT_SUPER * q->halves; g++) {
        int8_t m = whole_factor(b->scale[g], scale), m_min = whole_factor(b->min[g], min);
        char *sub =
            head + at->sub_bytes + (g / q->halves * QUANT_PANEL + lane) * q->halves + g % q->halves;
        *sub = (char)(q->sub == SUB_NIBBLES ? m | m_min << 4 : m);
        if (at->head_bytes > at->min_bytes)
            head[at->min_bytes + g * QUANT_PANEL + lane] = (char)m_min;
    }
}

/* code [QUANT_GROUP] of one lane into the planes of a group. */
static void store_codes(const struct quant_type *q, const uint8_t *code, int lane, char *group)
{
    int from = 0; /* bits of the planes before */
    if (q->bits & 8) {
        memcpy(group + lane * 16, code, 16);
        memcpy(group + (QUANT_PANEL + lane) * 16, code + 16, 16);
    }
    if (q->bits & 4) {
        char *to = group + plane_at(q, 4) + lane * 16;
        for (int i = 0; i < 16; i++)
            to[i] = (char)(q->values ? code[2 * i] | code[2 * i + 1] << 4
                                     : (code[i] & 15) | (code[i + 16] & 15) << 4);
        from = 4;
    }
    if (q->bits & 2) {
        char *to = group + plane_at(q, 2) + lane * 8;
        for (int i = 0; i < 8; i++) {
            const uint8_t *c = code + i / 4 * 16 + i % 4;
            int four = 0;
            for (int j = 0; j < 4; j++)
                four |= (c[4 * j] >> from & 3) << 2 * j;
            to[i] = (char)four;
        }
        from += 2;
    }
    if (q->bits & 1) {
        char *to = group + plane_at(q, 1) + lane * 4;
        for (int i = 0; i < 4; i++) {
            int eight = 0;
            for (int j = 0; j < 8; j++)
                eight |= (code[4 * j + i] >> from & 1) << j;
            to[i] = (char)eight;
        }
    }
}

/* The groups of one file block, [first, end) of the panel, of one lane. */
static void store_block(enum dtype t, const struct quant_place *at, int lane, const char *data,
                        int32_t first, int32_t end, char *head)
{
    const struct quant_type *q = quant_type_of(t);
    int32_t super = 1 << at->super_shift;
    uint8_t code[QUANT_BLOCK_MAX];
    struct quant_block b;
    quant_unpack_codes(t, data, &b);
    store_head(t, at, lane, (const uint8_t *)data, &b, head);
    for (int e = 0; e < super * QUANT_GROUP; e++)
        code[e] = (uint8_t)(b.q[e] - q->low);
    char *group = head + at->head_bytes;
    for (int32_t g = first; g < end; g++, group += at->group_bytes)
        store_codes(q, code + (g + at->before) % super * QUANT_GROUP, lane, group);
}

void quant_store_panel(enum dtype t, const struct quant_place *at, const char *const *rows,
                       int32_t n, char *out)
{
    const struct quant_form *f = quant_form(t);
    int32_t super = 1 << at->super_shift;
    assert(n <= QUANT_PANEL && f->block == super * QUANT_GROUP &&
           f->group * quant_type_of(t)->halves == QUANT_GROUP);
    if (at->panel_bytes > 0)
        memset(out, 0, at->panel_bytes);
    for (int32_t g = 0, block = 0, end; g < at->n_groups; g = end, block++) {
        end = (block + 1) * super - at->before;
        end = end < at->n_groups ? end : at->n_groups;
        for (int32_t i = 0; i < n; i++)
            store_block(t, at, i, rows[i] + (size_t)block * (size_t)f->n_bytes, g, end, out);
        out += at->head_bytes + (end - g) * at->group_bytes;
    }
}
