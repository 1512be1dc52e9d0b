/* Enqueueing of the kernels of backends/gpu/logits.h; draws, which need double precision, are done
 * by the host. */
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "common/draw.h"

enum status metal_edit_logits(struct backend *be, const struct vocab_part *part, struct view logits,
                              struct view start, struct view words)
{
    assert(logits.cols == part->n_cols && start.rows == logits.rows + 1 && words.rows == 1);
    if (logits.rows == 0)
        return ST_OK;
    const struct metal_bound bound[] = {bound_i32(start), bound_i32(words), bound_f32(logits)};
    const struct edit_args args = {.stride = logits.stride,
                                   .first_id = part->first_id,
                                   .n_cols = part->n_cols,
                                   .start_stride = start.stride};
    struct mtl_size groups = {(unsigned long)logits.rows, 1, 1};
    return METAL_DISPATCH(be, KERNEL_edit, args, bound, groups, EDIT_THREADS, 0);
}

enum status metal_mask_logits(struct backend *be, const struct vocab_part *part, struct view logits,
                              struct view mask)
{
    assert(logits.cols == part->n_cols && mask.rows == logits.rows);
    if (logits.rows == 0 || logits.cols == 0)
        return ST_OK;
    const struct metal_bound bound[] = {bound_i32(mask), bound_f32(logits)};
    const struct mask_args args = {.stride = logits.stride,
                                   .first_id = part->first_id,
                                   .n_cols = part->n_cols,
                                   .mask_stride = mask.stride};
    struct mtl_size groups = {(unsigned long)logits.rows, groups_for(logits.cols, MASK_THREADS), 1};
    return METAL_DISPATCH(be, KERNEL_mask, args, bound, groups, MASK_THREADS, 0);
}

static int32_t n_chunks_of(const struct vocab_part *part)
{
    int32_t n = 0;
    for (int32_t i = 0; i < part->n_slices; i++)
        n += (part->slice_end[i] - (i > 0 ? part->slice_end[i - 1] : 0) + TOPK_CHUNK - 1) /
             TOPK_CHUNK;
    return n;
}

struct topk_views {
    struct view logits, inv_temp, val, id, stat;
};

/* Rows whose lists fit the scratch memory. */
static enum status topk_rows(struct backend *be, const struct topk_args *args,
                             const struct topk_views *v)
{
    size_t lists = (size_t)v->logits.rows * (size_t)args->n_chunks * (size_t)args->list;
    struct metal_bound logits = bound_f32(v->logits), temp = bound_f32(v->inv_temp),
                       keys = {be->scratch, 0}, stat = {be->scratch, lists * sizeof(uint64_t)};
    struct mtl_size groups = {(unsigned long)v->logits.rows, (unsigned long)args->n_chunks, 1};
    const struct metal_bound chunk[] = {logits, temp, keys, stat};
    if (args->n_chunks > 0)
        TRY(METAL_DISPATCH(be, KERNEL_topk_chunk, *args, chunk, groups, TOPK_THREADS, 0));
    const struct metal_bound join[] = {
        logits, temp, keys, stat, bound_f32(v->val), bound_i32(v->id), bound_f32(v->stat)};
    groups.height = 1;
    return METAL_DISPATCH(be, KERNEL_topk_join, *args, join, groups, TOPK_THREADS, 0);
}

enum status metal_topk(struct backend *be, const struct vocab_part *part, struct view logits,
                       struct view inv_temp, struct view val, struct view id, struct view stat)
{
    assert(logits.cols == part->n_cols && part->n_slices >= 1 && part->n_slices <= N_SLICES);
    assert(part->slice_end[part->n_slices - 1] == part->n_cols && stat.cols == 3 * part->n_slices);
    assert(val.rows == logits.rows && id.rows == logits.rows && id.cols == val.cols);
    if (val.cols > TOPK_MAX)
        FAIL(ST_UNSUPPORTED, "topk of %d, the Metal backend takes up to %d", val.cols,
             (int)TOPK_MAX);
    struct topk_args args = {.stride = logits.stride,
                             .temp_stride = inv_temp.stride,
                             .first_id = part->first_id,
                             .n_slices = part->n_slices,
                             .n_chunks = n_chunks_of(part),
                             .list = val.cols > 0 ? 32 : 0,
                             .k = val.cols,
                             .val_stride = val.stride,
                             .id_stride = id.stride,
                             .stat_stride = stat.stride};
    memcpy(args.slice_end, part->slice_end, sizeof args.slice_end);
    while (args.list < val.cols)
        args.list *= 2;
    size_t row_bytes = (size_t)(args.n_chunks > 0 ? args.n_chunks : 1) *
                       ((size_t)args.list * sizeof(uint64_t) + 3 * sizeof(float));
    size_t most = be->scratch->bytes / row_bytes;
    if (most == 0)
        FAIL(ST_UNSUPPORTED, "topk of %d columns", logits.cols);
    for (int32_t r = 0, n; r < logits.rows; r += n) {
        n = (size_t)(logits.rows - r) < most ? logits.rows - r : (int32_t)most;
        const struct topk_views v = {view_rows(logits, r, n), view_rows(inv_temp, r, n),
                                     view_rows(val, r, n), view_rows(id, r, n),
                                     view_rows(stat, r, n)};
        TRY(topk_rows(be, &args, &v));
    }
    return ST_OK;
}

enum status metal_sample(struct backend *be, const struct draw_shape *shape, struct view top,
                         struct view row, struct view id)
{
    assert(top.rows == shape->n_ranks && (size_t)top.cols == draw_words(shape));
    assert(top.stride == top.cols && shape->k <= DRAW_MAX_K);
    assert(row.rows == shape->n_rows && row.cols == DRAW_ROW_WORDS && id.rows == shape->n_rows);
    if (shape->n_rows == 0)
        return ST_OK;
    TRY(metal_sync(be));
    const char *rows = view_data(row), *all = view_data(top);
    char *out = view_data(id);
    for (int32_t i = 0; i < shape->n_rows; i++) {
        struct draw_row how;
        memcpy(&how, rows + (size_t)i * view_row_step(row), sizeof how);
        int32_t token = draw_row_token(shape, all, i, &how);
        memcpy(out + (size_t)i * view_row_step(id), &token, sizeof token);
    }
    return ST_OK;
}

enum status metal_take_tokens(struct backend *be, struct view token, struct view from,
                              struct view last)
{
    assert(token.rows == from.rows);
    if (token.rows == 0)
        return ST_OK;
    const struct metal_bound bound[] = {bound_i32(from), bound_i32(last), bound_i32(token)};
    const struct take_args args = {.n = token.rows,
                                   .token_stride = token.stride,
                                   .from_stride = from.stride,
                                   .last_stride = last.stride};
    struct mtl_size groups = {groups_for(token.rows, EDIT_THREADS), 1, 1};
    return METAL_DISPATCH(be, KERNEL_take_tokens, args, bound, groups, EDIT_THREADS, 0);
}
