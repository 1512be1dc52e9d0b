/* The choice of matrix products, and what they have to keep for it. */
#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"

enum status metal_choose_products(struct backend *be)
{
    const char *s = getenv("INGOT_METAL_PRODUCTS");
    be->matrices = s && strcmp(s, "matrices") == 0;
    if (s && !be->matrices && strcmp(s, "chains") != 0)
        FAIL(ST_RANGE, "INGOT_METAL_PRODUCTS=%s: there are chains and matrices", s);
    return ST_OK;
}

/* ---- the check ---- */

enum { CHECK_COLS = 200, CHECK_ROWS = METAL_MATRIX_ROWS, CHECK_TOKENS = METAL_MATRIX_TOKENS };

/* In (-1, 1), all bits of the mantissa in use. */
static float some(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return (float)((int32_t)(*state >> 7) - (1 << 24)) * 0x1p-24f;
}

struct check {
    struct weight *w, *other; /* [CHECK_ROWS, CHECK_COLS]; other: every other row is large */
    struct buf *x, *out;
    float row[CHECK_COLS], alone[CHECK_ROWS];
    float in[CHECK_TOKENS][CHECK_COLS], got[CHECK_TOKENS][CHECK_ROWS];
};

static enum status product(struct backend *be, struct check *c, const struct weight *w, int32_t n)
{
    struct view x = {
        .buf = c->x, .rows = n, .cols = CHECK_COLS, .stride = CHECK_COLS, .dtype = DT_F32};
    struct view out = {
        .buf = c->out, .rows = n, .cols = CHECK_ROWS, .stride = CHECK_ROWS, .dtype = DT_F32};
    TRY(metal_write(be, x, c->in));
    TRY(metal_linear(be, w, x, out));
    return metal_read(be, c->got, out);
}

/* Every other of n rows, from `first` on, is the row that was multiplied alone; the others are large. */
static enum status check_rows(struct backend *be, struct check *c, int32_t n, int32_t first)
{
    uint32_t state = 99U;
    for (int32_t t = 0; t < n; t++)
        for (int32_t k = 0; k < CHECK_COLS; k++)
            c->in[t][k] = t % 2 == first ? c->row[k] : some(&state) * 0x1p40f;
    TRY(product(be, c, c->w, n));
    for (int32_t t = first; t < n; t += 2)
        if (memcmp(c->got[t], c->alone, sizeof c->alone) != 0)
            FAIL(ST_UNSUPPORTED,
                 "INGOT_METAL_PRODUCTS=matrices: Metal device %s gives a row of a matrix product "
                 "other bits in place %d of %d than alone",
                 be->name, t, n);
    return ST_OK;
}

/* Rows of w are columns of the product, as keys are of attention's scores. */
static enum status check_columns(struct backend *be, struct check *c)
{
    memcpy(c->in[0], c->row, sizeof c->row);
    TRY(product(be, c, c->other, 1));
    for (int32_t i = 0; i < CHECK_ROWS; i += 2)
        if (memcmp(&c->got[0][i], &c->alone[i], sizeof c->alone[i]) != 0)
            FAIL(ST_UNSUPPORTED,
                 "INGOT_METAL_PRODUCTS=matrices: Metal device %s gives column %d of a matrix "
                 "product "
                 "other bits beside other columns",
                 be->name, i);
    return ST_OK;
}

static enum status check_all(struct backend *be, struct check *c)
{
    static const int32_t n_rows[] = {METAL_MATRIX_ONE, CHECK_TOKENS};
    uint32_t state = 1U;
    for (int32_t i = 0; i < CHECK_COLS; i++)
        c->row[i] = c->in[0][i] = some(&state);
    TRY(product(be, c, c->w, 1));
    memcpy(c->alone, c->got[0], sizeof c->alone);
    for (size_t i = 0; i < ARRAY_LEN(n_rows); i++)
        for (int32_t first = 0; first < 2; first++)
            TRY(check_rows(be, c, n_rows[i], first));
    return check_columns(be, c);
}

/* Every other row times `factor`. */
static enum status load_matrix(struct backend *be, float factor, struct weight **out)
{
    uint32_t state = 7U;
    float *w = malloc(sizeof(float) * CHECK_ROWS * CHECK_COLS);
    if (!w)
        FAIL(ST_NOMEM, "no memory for the check of matrix products");
    for (int32_t i = 0; i < CHECK_ROWS * CHECK_COLS; i++)
        w[i] = some(&state) * (i / CHECK_COLS % 2 ? factor : 1.0f);
    const struct weight_src src = {.name = "check of matrix products",
                                   .cols = CHECK_COLS,
                                   .n_parts = 1,
                                   .n_slices = 1,
                                   .slice_end = {CHECK_COLS},
                                   .part = {{.data = w,
                                             .row_bytes = CHECK_COLS * sizeof(float),
                                             .dtype = DT_F32,
                                             .rows = CHECK_ROWS}}};
    enum status st = metal_load_weight(be, &src, out);
    free(w);
    return st;
}

static enum status load_check(struct backend *be, struct check *c)
{
    TRY(load_matrix(be, 1.0f, &c->w));
    TRY(load_matrix(be, 0x1p40f, &c->other));
    TRY(metal_alloc(be, sizeof c->in, MEM_DEVICE, &c->x));
    return metal_alloc(be, sizeof c->got, MEM_DEVICE, &c->out);
}

enum status metal_check_matrices(struct backend *be)
{
    struct check *c = calloc(1, sizeof *c);
    if (!c)
        FAIL(ST_NOMEM, "no memory for the check of matrix products");
    enum status st = load_check(be, c);
    if (st == ST_OK)
        st = check_all(be, c);
    metal_free(be, c->x);
    metal_free(be, c->out);
    metal_free_weight(be, c->w);
    metal_free_weight(be, c->other);
    free(c);
    return st;
}
