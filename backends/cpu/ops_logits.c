/* edit_logits, mask_logits, topk, sample, take_tokens */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu_backend.h"
#include "common/draw.h"

enum status cpu_edit_logits(struct backend *be, const struct vocab_part *vocab, struct view logits,
                            struct view start, struct view words)
{
    (void)be;
    assert(logits.cols == vocab->n_cols && start.rows == logits.rows + 1 && words.rows == 1);
    for (int32_t r = 0; r < logits.rows; r++) {
        assert(col_i32(start, r + 1) <= words.cols);
        for (int32_t i = col_i32(start, r); i < col_i32(start, r + 1); i += EDIT_WORDS) {
            struct logit_edit e;
            memcpy(&e, view_i32(words, 0) + i, sizeof e);
            int64_t c = (int64_t)e.id - vocab->first_id;
            if (c < 0 || c >= vocab->n_cols)
                continue;
            float *l = view_f32(logits, r) + c;
            float m = *l + e.bias;
            *l = (m > 0.0f ? m / e.mul : m * e.mul) + e.add;
        }
    }
    return ST_OK;
}

struct mask_job {
    const struct vocab_part *vocab;
    struct view logits, mask;
};

/* Most words of a mask are all ones or all zeros. */
static void mask_row(float *l, const uint32_t *words, int32_t first_id, int32_t n_cols)
{
    for (int32_t c = 0, n; c < n_cols; c += n) {
        int32_t bit = (first_id + c) % 32;
        n = 32 - bit < n_cols - c ? 32 - bit : n_cols - c;
        uint32_t bits = words[(first_id + c) / 32] >> bit, all = UINT32_MAX >> (32 - n);
        if ((bits & all) == all)
            continue;
        for (int32_t i = 0; i < n; i++)
            l[c + i] = bits >> i & 1U ? l[c + i] : -INFINITY;
    }
}

static void mask_part(void *ctx, int part, int n_parts)
{
    const struct mask_job *j = ctx;
    long from, to;
    pool_share(j->logits.rows, part, n_parts, &from, &to);
    for (int32_t r = (int32_t)from; r < to; r++)
        mask_row(view_f32(j->logits, r), (const uint32_t *)view_i32(j->mask, r), j->vocab->first_id,
                 j->logits.cols);
}

enum status cpu_mask_logits(struct backend *be, const struct vocab_part *vocab, struct view logits,
                            struct view mask)
{
    assert(logits.cols == vocab->n_cols && mask.rows == logits.rows);
    assert((vocab->first_id + vocab->n_cols + 31) / 32 <= mask.cols);
    struct mask_job j = {.vocab = vocab, .logits = logits, .mask = mask};
    rows_run(be, mask_part, &j, logits.rows, logits.cols);
    return ST_OK;
}

/* Rows [row0, row0 + rows) of topk.  A part takes neighbouring (row, slice); the slices of a row
 * that it takes fill one list, that of the first of them.  Then the lists of each row are merged:
 * there are several only where a row is divided between threads. */
struct topk_job {
    struct backend *be;
    const struct vocab_part *vocab;
    struct view logits, inv_temp, val, id, stat;
    int32_t row0, rows;
    int lists_n[TOPK_ROWS * N_SLICES];
};

static struct topk_list list_of(struct topk_job *j, long i)
{
    return (struct topk_list){.k = j->val.cols,
                              .val = j->be->topk_val + i * TOPK_MAX,
                              .id = j->be->topk_id + i * TOPK_MAX};
}

static bool wanted(const struct topk_job *j, int32_t row)
{
    return !(*view_f32(j->inv_temp, row) < 0.0f);
}

static void scan_part(void *ctx, int part, int n_parts)
{
    struct topk_job *j = ctx;
    const struct vocab_part *v = j->vocab;
    long from, to;
    pool_share((long)j->rows * v->n_slices, part, n_parts, &from, &to);
    struct topk_list list = {0};
    for (long u = from, first = from; u < to; u++) {
        int32_t r = j->row0 + (int32_t)(u / v->n_slices), s = (int32_t)(u % v->n_slices);
        int32_t c0 = s > 0 ? v->slice_end[s - 1] : 0;
        if (!wanted(j, r))
            continue;
        if (u == from || s == 0) {
            first = u;
            list = list_of(j, u);
            long end = u - s + v->n_slices < to ? u - s + v->n_slices : to; /* of its slices */
            if (list.k > 0)
                list.floor =
                    j->be->kernels->topk_floor(view_f32(j->logits, r) + c0,
                                               v->slice_end[(end - 1) % v->n_slices] - c0, list.k);
        }
        j->lists_n[u] = 0;
        j->be->kernels->topk_slice(view_f32(j->logits, r) + c0, v->slice_end[s] - c0,
                                   v->first_id + c0, *view_f32(j->inv_temp, r), &list,
                                   view_f32(j->stat, r) + 3 * s);
        j->lists_n[first] = list.n;
    }
}

/* Slices ascend in ids, so of equal values the first slice's goes first. */
static void merge_row(struct topk_job *j, int32_t i)
{
    int at[N_SLICES] = {0}, n_slices = j->vocab->n_slices;
    long row = (long)i * n_slices;
    float *val = view_f32(j->val, j->row0 + i);
    int32_t *id = view_i32(j->id, j->row0 + i);
    bool one_list = true;
    for (int s = 1; s < n_slices; s++)
        one_list &= j->lists_n[row + s] == 0;
    if (one_list && j->lists_n[row] == j->val.cols) {
        memcpy(val, list_of(j, row).val, (size_t)j->val.cols * sizeof *val);
        memcpy(id, list_of(j, row).id, (size_t)j->val.cols * sizeof *id);
        return;
    }
    for (int32_t o = 0; o < j->val.cols; o++) {
        int best = -1;
        for (int s = 0; s < n_slices; s++)
            if (at[s] < j->lists_n[row + s] &&
                (best < 0 || list_of(j, row + s).val[at[s]] > list_of(j, row + best).val[at[best]]))
                best = s;
        if (best < 0) {
            val[o] = -INFINITY;
            id[o] = -1;
            continue;
        }
        struct topk_list l = list_of(j, row + best);
        val[o] = l.val[at[best]];
        id[o] = l.id[at[best]++];
    }
}

enum status cpu_topk(struct backend *be, const struct vocab_part *vocab, struct view logits,
                     struct view inv_temp, struct view val, struct view id, struct view stat)
{
    assert(logits.cols == vocab->n_cols && vocab->n_slices >= 1 && vocab->n_slices <= N_SLICES);
    assert(vocab->slice_end[vocab->n_slices - 1] == vocab->n_cols &&
           stat.cols == 3 * vocab->n_slices);
    assert(val.rows == logits.rows && id.rows == logits.rows && id.cols == val.cols);
    if (val.cols > TOPK_MAX)
        FAIL(ST_UNSUPPORTED, "topk of %d, the CPU backend takes up to %d", val.cols, TOPK_MAX);
    for (int32_t row0 = 0; row0 < logits.rows; row0 += TOPK_ROWS) {
        int32_t rows = logits.rows - row0 < TOPK_ROWS ? logits.rows - row0 : TOPK_ROWS;
        struct topk_job j = {.be = be,
                             .vocab = vocab,
                             .logits = logits,
                             .inv_temp = inv_temp,
                             .val = val,
                             .id = id,
                             .stat = stat,
                             .row0 = row0,
                             .rows = rows};
        rows_run(be, scan_part, &j, rows, logits.cols);
        for (int32_t i = 0; i < rows; i++)
            if (wanted(&j, row0 + i))
                merge_row(&j, i);
    }
    return ST_OK;
}

enum status cpu_sample(struct backend *be, const struct draw_shape *shape, struct view top,
                       struct view row, struct view id)
{
    (void)be;
    assert(top.rows == shape->n_ranks && (size_t)top.cols == draw_words(shape));
    assert(top.stride == top.cols && shape->k <= DRAW_MAX_K);
    assert(row.rows == shape->n_rows && row.cols == DRAW_ROW_WORDS && id.rows == shape->n_rows);
    for (int32_t r = 0; r < shape->n_rows; r++) {
        struct draw_row how;
        memcpy(&how, view_i32(row, r), sizeof how);
        *view_i32(id, r) = draw_row_token(shape, view_i32(top, 0), r, &how);
    }
    return ST_OK;
}

enum status cpu_take_tokens(struct backend *be, struct view token, struct view from,
                            struct view last)
{
    (void)be;
    assert(token.rows == from.rows);
    for (int32_t t = 0; t < token.rows; t++) {
        int32_t r = col_i32(from, t);
        assert(r < last.rows);
        if (r >= 0)
            *view_i32(token, t) = col_i32(last, r);
    }
    return ST_OK;
}
