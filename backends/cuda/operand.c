/* Which matrices read operands, and where these are. */
#include "backends/cuda/operand.h"

#include <string.h>

#include "backends/cuda/linear_kernels.h"

enum { TOKENS = 16 }; /* of a block of fragments */

bool cuda_reads_operand(const struct backend *be, const struct weight *w, enum operand_source from)
{
    (void)be;
    if (!w || w->vector || w->n_stacked || w->n_parts || has_panels(w) || !w->data)
        return false;
    if (w->dtype != DT_BF16 && w->dtype != DT_F16)
        return false;
    int64_t row = w->k_layout.at[w->k_layout.n_slices],
            n_seg = w->k_layout.seg[w->k_layout.n_slices];
    /* in the 4 T K bytes of the elements: 33 tokens take 48 / 33 of their own 2 T row bytes */
    if (3 * row + 4 * n_seg > 4 * (int64_t)w->k)
        return false;
    return from != OPERAND_ATTENTION || operand_by_element(w);
}

bool operand_by_element(const struct weight *w)
{
    const struct k_layout *k = &w->k_layout;
    bool no_zeros = w->dtype == DT_BF16;
    for (int i = 0; i <= k->n_slices; i++)
        no_zeros &= k->at[i] == k->col[i];
    return no_zeros;
}

bool operand_fits(const struct weight *w, const struct weight *reader)
{
    return w == reader || (!has_panels(w) && !w->n_parts && w->dtype == reader->dtype &&
                           memcmp(&w->k_layout, &reader->k_layout, sizeof w->k_layout) == 0);
}

struct operand operand_of(const struct backend *be, struct view v)
{
    const struct weight *w = v.reader;
    int32_t row = w->k_layout.at[w->k_layout.n_slices];
    bool rows = v.rows <= ROWS_MAX || (be->lt && w->dtype == DT_BF16);
    size_t tokens = rows ? (size_t)v.rows : round_up_size((size_t)v.rows, TOKENS);
    assert(v.cols == w->k && v.stride == v.cols && v.dtype == DT_F32);
    char *at = view_ptr(v);
    assert((uintptr_t)at % 16 == 0);
    return (struct operand){.packed = (uint16_t *)(void *)at,
                            .unscale = (float *)(void *)(at + tokens * (size_t)row * 2),
                            .row = row,
                            .fragments = !rows};
}
