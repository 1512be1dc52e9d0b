#include "worker/load/ints.h"

#include <string.h>

#include "worker/load/site.h"

static const char *codes_name(enum int_storage s)
{
    return s == INTS_PACKED                   ? "weight_packed"
           : s == INTS_BYTES || s == INTS_SCB ? "weight"
                                              : "qweight";
}

bool ints_stored(const struct loader *ld, const char *pattern, int32_t layer, int32_t expert)
{
    enum int_storage s = loader_config(ld)->ints;
    struct stored_tensor t;
    return s != INTS_NONE && site_has(ld, pattern, layer, expert, codes_name(s), &t) &&
           ((s != INTS_BYTES && s != INTS_SCB) || strcmp(t.type_name, "I8") == 0);
}

static size_t words(size_t n, size_t bits)
{
    return (n * bits + 31) / 32;
}

static bool has(const struct site *s, const char *end, struct stored_tensor *out)
{
    return site_has(s->ld, s->pattern, s->layer, s->expert, end, out);
}

/* AutoGPTQ's and AutoAWQ's: transposed, [cols, rows]. */
static enum status open_transposed(struct ints *m, const struct site *s)
{
    bool awq = m->storage == INTS_AWQ;
    struct stored_tensor index;
    if (m->rows * m->bits % 32 || m->cols * m->bits % 32)
        FAIL(ST_UNSUPPORTED,
             "tensor %s: %zu x %zu integers of %zu bits do not fill words of 32 bits", s->pattern,
             m->rows, m->cols, m->bits);
    TRY(awq ? site_part(s, "qweight", "I32", m->cols, words(m->rows, m->bits), &m->codes)
            : site_part(s, "qweight", "I32", words(m->cols, m->bits), m->rows, &m->codes));
    TRY(site_part(s, "scales", "float", m->n_groups, m->rows, &m->scales));
    TRY(site_part(s, "qzeros", "I32", m->n_groups, words(m->rows, m->bits), &m->zeros));
    if (!awq && (has(s, "g_idx", &index) || loader_config(s->ld)->int_order))
        TRY(site_part(s, "g_idx", "I32", m->cols, 0, &m->index));
    return ST_OK;
}

/* [shape of NAME] beside packed integers. */
static enum status check_shape(const struct ints *m, const struct site *s)
{
    struct stored_tensor t;
    uint64_t shape[2];
    if (!has(s, "weight_shape", &t))
        return ST_OK;
    TRY(site_part(s, "weight_shape", strcmp(t.type_name, "I32") == 0 ? "I32" : "I64", 2, 0, &t));
    for (int i = 0; i < 2; i++) {
        int32_t small;
        memcpy(t.n_bytes == sizeof shape ? (void *)&shape[i] : (void *)&small,
               t.data + (size_t)i * t.n_bytes / 2, t.n_bytes / 2);
        if (t.n_bytes != sizeof shape)
            shape[i] = (uint64_t)small;
    }
    if (shape[0] != m->rows || shape[1] != m->cols)
        FAIL(ST_FORMAT, "tensor %s: expected [%zu,%zu] got [%llu,%llu]", t.name, m->rows, m->cols,
             (unsigned long long)shape[0], (unsigned long long)shape[1]);
    return ST_OK;
}

static enum status open_compressed(struct ints *m, const struct site *s)
{
    const struct model_config *mc = loader_config(s->ld);
    bool packed = m->storage == INTS_PACKED;
    struct stored_tensor scale;
    TRY(packed ? site_part(s, "weight_packed", "I32", m->rows, words(m->cols, m->bits), &m->codes)
               : site_part(s, "weight", "I8", m->rows, m->cols, &m->codes));
    if (packed)
        TRY(check_shape(m, s));
    m->one_scale = has(s, "weight_scale", &scale) && scale.n_dims == 1 && m->n_groups == 1 &&
                   scale.shape[0] == 1;
    size_t rows = m->one_scale ? 1 : m->rows, groups = m->one_scale ? 0 : m->n_groups;
    TRY(site_part(s, "weight_scale", "float", rows, groups, &m->scales));
    if (mc->int_zeros && packed)
        TRY(site_part(s, "weight_zero_point", "I32", words(rows, m->bits), groups, &m->zeros));
    else if (mc->int_zeros)
        TRY(site_part(s, "weight_zero_point", "I8", rows, groups, &m->zeros));
    if (mc->int_order)
        TRY(site_part(s, "weight_g_idx", "I32", m->cols, 0, &m->index));
    return ST_OK;
}

/* bitsandbytes' 8 bits: the scale is 127 times too great.  weight_format 0 says that the rows are in
 * order; the others were tiles of GPUs. */
static enum status open_scb(struct ints *m, const struct site *s)
{
    struct stored_tensor form;
    TRY(site_part(s, "weight", "I8", m->rows, m->cols, &m->codes));
    TRY(site_part(s, "SCB", "F32", m->rows, 0, &m->scales));
    if (!has(s, "weight_format", &form))
        return ST_OK;
    TRY(site_part(s, "weight_format", "U8", 0, 0, &form));
    if (form.data[0] != 0)
        FAIL(ST_UNSUPPORTED, "tensor %s is %d: rows in another order are not supported", form.name,
             form.data[0]);
    return ST_OK;
}

enum status ints_open(struct ints *out, struct loader *ld, const char *pattern, int32_t layer,
                      int32_t expert, size_t rows, size_t cols)
{
    const struct model_config *mc = loader_config(ld);
    const struct site s = {ld, pattern, layer, expert};
    *out = (struct ints){.storage = mc->ints,
                         .bits = (size_t)mc->int_bits,
                         .rows = rows,
                         .cols = cols,
                         .symmetric = !mc->int_zeros,
                         .in_order = !mc->int_order,
                         .sorted = mc->int_sorted,
                         .group = mc->int_group ? (size_t)mc->int_group : cols};
    out->n_groups = (cols + out->group - 1) / out->group;
    if (mc->int_zeros_less_one) /* GPTQModel adds to whole words, so that a carry goes on */
        out->add = out->bits == 4 ? 0x11111111U : 0x01010101U;
    if (out->storage == INTS_SCB)
        return open_scb(out, &s);
    return out->storage == INTS_GPTQ || out->storage == INTS_AWQ ? open_transposed(out, &s)
                                                                 : open_compressed(out, &s);
}

static uint32_t word_at(const struct stored_tensor *t, size_t i)
{
    const unsigned char *p = t->data + 4 * i;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Integer i of a word. */
static unsigned field(uint32_t word, size_t i, size_t bits)
{
    return word >> i * bits & ((1U << bits) - 1);
}

/* AWQ: where in a word the i-th of 8 neighbours is. */
static size_t awq_place(size_t i)
{
    static const uint8_t place[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    return place[i];
}

/* Neighbours in words that are `step` words apart, from word `at` on. */
static void codes_of_words(const struct ints *m, size_t at, size_t step, size_t n, uint8_t *out)
{
    const unsigned mask = (1U << m->bits) - 1;
    for (size_t i = 0; i < n; at += step) {
        uint32_t word = word_at(&m->codes, at);
        for (size_t end = i + 32 / m->bits; i < end && i < n; word >>= m->bits)
            out[i++] = (uint8_t)(word & mask);
    }
}

void ints_codes(const struct ints *m, size_t row, size_t col, size_t n, uint8_t *out)
{
    size_t word = col * m->bits / 32, place = awq_place(row % 8);
    switch (m->storage) {
    case INTS_GPTQ:
        codes_of_words(m, word * m->rows + row, m->rows, n, out);
        break;
    case INTS_AWQ:
        for (size_t i = 0; i < n; i++)
            out[i] =
                (uint8_t)field(word_at(&m->codes, (col + i) * (m->rows / 8) + row / 8), place, 4);
        break;
    case INTS_PACKED:
        codes_of_words(m, row * words(m->cols, m->bits) + word, 1, n, out);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            out[i] = (uint8_t)(m->codes.data[row * m->cols + col + i] ^ 0x80);
        break;
    }
}

unsigned ints_zero(const struct ints *m, size_t row, size_t group)
{
    size_t each = 32 / m->bits, words_of_rows = words(m->rows, m->bits);
    if (!m->zeros.data)
        return 1U << (m->bits - 1);
    row = m->one_scale ? 0 : row;
    switch (m->storage) {
    case INTS_GPTQ:
        return field(word_at(&m->zeros, group * words_of_rows + row / each) + m->add, row % each,
                     m->bits);
    case INTS_AWQ:
        return field(word_at(&m->zeros, group * words_of_rows + row / 8), awq_place(row % 8), 4);
    case INTS_PACKED:
        return field(word_at(&m->zeros, row / each * m->n_groups + group), row % each, m->bits);
    default:
        return m->zeros.data[row * m->n_groups + group] ^ 0x80U;
    }
}

float ints_scale(const struct ints *m, size_t row, size_t group, uint16_t *bits)
{
    bool transposed = m->storage == INTS_GPTQ || m->storage == INTS_AWQ;
    size_t at = m->one_scale ? 0 : transposed ? group * m->rows + row : row * m->n_groups + group;
    const unsigned char *p = m->scales.data + at * dtype_size(m->scales.dtype);
    float f;
    *bits = (uint16_t)(p[0] | p[1] << 8);
    if (m->scales.dtype != DT_F32)
        return m->scales.dtype == DT_F16 ? f32_of_f16(*bits) : f32_of_bf16(*bits);
    memcpy(&f, p, sizeof f);
    return m->storage == INTS_SCB ? f * (1.0f / 127) : f;
}

size_t ints_group(const struct ints *m, size_t col)
{
    return m->index.data ? word_at(&m->index, col) : col / m->group;
}
