/* Stacks: the matrices of a layer's experts in one allocation.  The slices of a matrix are matrices
 * of their own, because moe_ffn adds the experts within each slice; their panels of the same rows
 * are adjacent, so that reading a panel of all slices reads contiguous memory. */
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu_backend.h"
#include "backends/weight_stack.h"
#include "common/quant.h"

enum { ALIGN = 64 }; /* bytes, of a matrix */

/* Slice s of a matrix as a matrix of its own. */
static struct weight_src slice_of(const struct weight_src *src, int32_t s)
{
    struct weight_src out = *src;
    int32_t from = s ? src->slice_end[s - 1] : 0;
    out.cols = src->slice_end[s] - from;
    out.n_slices = 1;
    out.slice_end[0] = out.cols;
    for (int i = 0; i < src->n_parts; i++) {
        struct weight_part *p = &out.part[i];
        const struct quant_form *f = quant_form(p->dtype);
        int32_t at = p->skip + from, block = f ? f->block : 1;
        size_t bytes = f ? (size_t)f->n_bytes : dtype_size(p->dtype);
        if (p->dtype == DT_E4M3) {
            p->data = (const char *)p->data + from;
            p->scale = p->scale ? p->scale + at / FP8_BLOCK : NULL; /* NULL: sizes are asked for */
            p->skip = at % FP8_BLOCK;
            continue;
        }
        if (has_levels(p->dtype)) {
            p->data = (const char *)p->data + from;
            p->scale = p->scale ? p->scale + at / p->block : NULL;
            p->small_scale = p->small_scale ? p->small_scale + at / p->block : NULL;
            p->skip = at % p->block;
            continue;
        }
        if (is_indexed(p->dtype)) {
            p->data = (const char *)p->data + from;
            p->index = p->index ? p->index + from : NULL; /* scales are of the whole row */
            continue;
        }
        p->data = (const char *)p->data + (size_t)(at / block) * bytes;
        p->skip = at % block;
    }
    return out;
}

static size_t matrix_bytes(const struct weight_src *src)
{
    size_t bytes = 0;
    for (int32_t s = 0; s < src->n_slices; s++) {
        struct weight_src slice = slice_of(src, s);
        bytes += weight_data_bytes(&slice);
    }
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t cpu_stack_bytes(struct backend *be, const struct weight_src *src, int32_t n)
{
    (void)be;
    return sizeof(struct weight) + (size_t)n * (size_t)src->n_slices * sizeof(struct weight) +
           mem_held((size_t)n * matrix_bytes(src));
}

static enum status check_stack(const struct backend *be, const struct weight_src *src, int32_t n)
{
    struct weight w;
    TRY(weight_stack_check(src, n));
    for (int32_t i = 0; i < n; i++) {
        TRY(weight_describe(&src[i], &w));
        for (int32_t s = 1; s < w.n_types; s++)
            if (strip_kind(be, &w.panels[s]) != strip_kind(be, w.panels))
                FAIL(
                    ST_UNSUPPORTED,
                    "weight %s: a stack of floats beside quantised blocks, or of bf16 beside other "
                    "floats without --activations f32",
                    src->name);
        if (is_sorted(w.panels[0].dtype) && !moe_strips_fit(&src[i], &w))
            FAIL(ST_UNSUPPORTED,
                 "weight %s: a stack of %d groups of columns in any order for %d columns",
                 src->name, w.panels[0].groups, src->cols);
        if (w.n_types > 1 && src->n_slices > 1)
            FAIL(ST_UNSUPPORTED, "weight %s: a stack of several types in slices", src->name);
    }
    return ST_OK;
}

/* w [n_slices]: one matrix at `data`, which has its bytes already or is filled. */
static enum status lay_matrix(struct backend *be, const struct weight_src *src, bool fill,
                              char *data, struct weight *w)
{
    size_t panel = 0, plan = 0;
    for (int32_t s = 0; s < src->n_slices; s++) {
        struct weight_src slice = slice_of(src, s);
        TRY(weight_describe(&slice, &w[s]));
        w[s].data.data = data;
        if (src->n_slices > 1) {
            w[s].panels[0].plan_at = plan;
            w[s].panels[0].at = panel;
        }
        plan += w[s].panels[0].plan_bytes;
        panel += w[s].panels[0].panel_bytes;
    }
    for (int32_t s = 0; s < src->n_slices; s++) {
        struct weight_src slice = slice_of(src, s);
        if (src->n_slices > 1) {
            w[s].panels[0].at += plan;
            w[s].panels[0].stride = panel;
        }
        if (fill)
            weight_fill(be, &slice, &w[s]);
        weight_compare_plans(&w[s]);
    }
    return ST_OK;
}

static enum status fill_stack(struct backend *be, const struct weight_src *src, int32_t n,
                              const void *packed, struct weight *stack)
{
    size_t each = matrix_bytes(src);
    for (int32_t i = 0; i < n; i++)
        TRY(lay_matrix(be, &src[i], !packed, (char *)stack->data.data + (size_t)i * each,
                       &stack->mat[i * src->n_slices]));
    return ST_OK;
}

/* packed: the stack's bytes, or NULL. */
static enum status make_stack(struct backend *be, const struct weight_src *src, int32_t n,
                              const void *packed, struct weight **out)
{
    struct weight *w = calloc(1, sizeof *w);
    if (!w)
        FAIL(ST_NOMEM, "no memory for weight %s", src->name);
    enum status st = weight_describe(src, w);
    if (st == ST_OK)
        st = weight_take(be, w, (size_t)n * matrix_bytes(src), packed);
    if (st == ST_OK) {
        w->n_mat = n;
        w->mat = calloc((size_t)n * (size_t)src->n_slices, sizeof *w->mat);
        st = w->mat
                 ? fill_stack(be, src, n, packed, w)
                 : status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for weight %s", src->name);
    }
    if (st != ST_OK) {
        cpu_free_weight(be, w);
        return st;
    }
    *out = w;
    return ST_OK;
}

enum status cpu_load_stack(struct backend *be, const struct weight_src *src, int32_t n,
                           struct weight **out)
{
    TRY(check_stack(be, src, n));
    return make_stack(be, src, n, NULL, out);
}

enum status cpu_load_packed_stack(struct backend *be, const struct weight_src *src, int32_t n,
                                  const void *data, size_t n_bytes, struct weight **out)
{
    TRY(check_stack(be, src, n));
    if (n_bytes != (size_t)n * matrix_bytes(src))
        FAIL(ST_FORMAT, "weight %s: %zu packed bytes, the stack has %zu", src->name, n_bytes,
             (size_t)n * matrix_bytes(src));
    return make_stack(be, src, n, data, out);
}
