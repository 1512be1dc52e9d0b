/* What the tests of the Metal backend's parts share: a backend on the double, and its end. */
#ifndef TESTS_METAL_METAL_CASE_H
#define TESTS_METAL_METAL_CASE_H

#include "double.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "common/quant.h"
#include "no_cache.h"

#define MUST(call) cr_assert_eq((call), ST_OK, "%s", status_detail())

static inline struct backend *open_metal(void)
{
    struct backend *be = NULL;
    MUST(backend_open(&be, "metal", &(struct backend_config){0}));
    return be;
}

static inline void close_metal(struct backend *be)
{
    backend_ops_of(be)->close(be);
    cr_assert_eq(metal_double_live(), 0, "%zu objects are left", metal_double_live());
}

static inline void says(const char *word)
{
    cr_assert_not_null(strstr(status_text(), word), "'%s' does not say '%s'", status_text(), word);
}

/* INGOT_METAL_PRODUCTS. */
static inline void choose(const char *products)
{
    cr_assert_eq(setenv("INGOT_METAL_PRODUCTS", products, 1), 0);
}

/* A matrix or a stack [8, 256] of a type is loaded and freed. */
static inline void load_type(struct backend *be, enum dtype t, bool stack)
{
    static const char data[8 * 256 * 4];
    static const float scale[8 * 16] = {1};
    struct weight *w;
    const struct quant_form *f = quant_form(t);
    const struct weight_src src = {
        .name = "w",
        .cols = 256,
        .n_parts = 1,
        .n_slices = 1,
        .slice_end = {256},
        .part = {{.data = data,
                  .row_bytes = f ? (size_t)(256 / f->block * f->n_bytes) : 256 * dtype_size(t),
                  .dtype = t,
                  .rows = 8,
                  .scale = scale,
                  .scale_stride = 16,
                  .block = 128}}};
    MUST(stack ? metal_load_stack(be, &src, 1, &w) : metal_load_weight(be, &src, &w));
    metal_free_weight(be, w);
}

static inline struct view f32_view(struct buf *b, size_t off, int32_t rows, int32_t cols,
                                   int32_t stride)
{
    return (struct view){
        .buf = b, .off = off, .rows = rows, .cols = cols, .stride = stride, .dtype = DT_F32};
}

#endif
