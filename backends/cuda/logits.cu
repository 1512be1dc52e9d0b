/* Launches of the kernels of backends/gpu/logits.h; draws. */
#include "backends/cuda/gpu.h"

enum {
    TOPK_CHUNK = 4096, /* columns: 32 KiB of keys */
    LIST_MIN = 32,
    LIST_MAX = 256, /* largest k */
};
#define TOPK_KEYS(name) DYN_SMEM(uint64_t, name)
#include "backends/gpu/logits.h"
#include "common/draw.h"

extern "C" enum status cuda_edit_logits(struct backend *be, const struct vocab_part *part,
                                        struct view logits, struct view start, struct view words)
{
    assert(logits.cols == part->n_cols && start.rows == logits.rows + 1 && words.rows == 1);
    if (logits.rows == 0)
        return ST_OK;
    const struct edit_args a = {logits.stride, part->first_id, part->n_cols, start.stride};
    return LAUNCH_DEPENDENT(be, edit_kernel, (unsigned)logits.rows, EDIT_THREADS, 0, a,
                            view_i32(start), view_i32(words), view_f32(logits));
}

extern "C" enum status cuda_mask_logits(struct backend *be, const struct vocab_part *part,
                                        struct view logits, struct view mask)
{
    assert(logits.cols == part->n_cols && mask.rows == logits.rows);
    assert((part->first_id + part->n_cols + 31) / 32 <= mask.cols);
    if (logits.rows == 0 || logits.cols == 0)
        return ST_OK;
    const struct mask_args a = {logits.stride, part->first_id, part->n_cols, mask.stride};
    dim3 grid((unsigned)logits.rows, (unsigned)blocks_for(logits.cols, MASK_THREADS));
    return LAUNCH(be, mask_kernel, grid, MASK_THREADS, 0, a, view_i32(mask), view_f32(logits));
}

static int32_t n_chunks_of(const struct vocab_part *part)
{
    int32_t n = 0;
    for (int32_t i = 0; i < part->n_slices; i++)
        n += (part->slice_end[i] - (i > 0 ? part->slice_end[i - 1] : 0) + TOPK_CHUNK - 1) /
             TOPK_CHUNK;
    return n;
}

static enum status topk_rows(struct backend *be, const struct topk_args *a, struct view logits,
                             struct view inv_temp, struct view val, struct view id,
                             struct view stat)
{
    unsigned rows = (unsigned)logits.rows;
    size_t n = (size_t)logits.rows * (size_t)a->n_chunks, smem = TOPK_CHUNK * sizeof(uint64_t);
    uint64_t *keys = (uint64_t *)be->scratch->data;
    float *stats = (float *)(keys + n * (size_t)a->list);
    if (a->n_chunks > 0)
        TRY(LAUNCH_DEPENDENT(be, topk_chunk_kernel, dim3(rows, (unsigned)a->n_chunks), TOPK_THREADS,
                             smem, *a, view_f32(logits), view_f32(inv_temp), keys, stats));
    return LAUNCH_DEPENDENT(be, topk_join_kernel, rows, TOPK_THREADS, smem, *a, view_f32(logits),
                            view_f32(inv_temp), keys, stats, view_f32(val), view_i32(id),
                            view_f32(stat));
}

extern "C" enum status cuda_topk(struct backend *be, const struct vocab_part *part,
                                 struct view logits, struct view inv_temp, struct view val,
                                 struct view id, struct view stat)
{
    assert(logits.cols == part->n_cols && part->n_slices >= 1 && part->n_slices <= N_SLICES);
    assert(part->slice_end[part->n_slices - 1] == part->n_cols && stat.cols == 3 * part->n_slices);
    assert(val.rows == logits.rows && id.rows == logits.rows && id.cols == val.cols);
    if (val.cols > LIST_MAX)
        FAIL(ST_UNSUPPORTED, "topk of %d, the CUDA backend takes up to %d", val.cols,
             (int)LIST_MAX);
    struct topk_args a = {logits.stride,
                          inv_temp.stride,
                          part->first_id,
                          part->n_slices,
                          {},
                          n_chunks_of(part),
                          val.cols > 0 ? LIST_MIN : 0,
                          val.cols,
                          val.stride,
                          id.stride,
                          stat.stride};
    memcpy(a.slice_end, part->slice_end, sizeof a.slice_end);
    while (a.list < val.cols)
        a.list *= 2;
    size_t row_bytes = (size_t)(a.n_chunks > 0 ? a.n_chunks : 1) *
                       ((size_t)a.list * sizeof(uint64_t) + 3 * sizeof(float));
    size_t most = SCRATCH_BYTES / row_bytes;
    if (most == 0)
        FAIL(ST_UNSUPPORTED, "topk of %d columns", logits.cols);
    for (int32_t r = 0, n; r < logits.rows; r += n) {
        n = (size_t)(logits.rows - r) < most ? logits.rows - r : (int32_t)most;
        TRY(topk_rows(be, &a, view_rows(logits, r, n), view_rows(inv_temp, r, n),
                      view_rows(val, r, n), view_rows(id, r, n), view_rows(stat, r, n)));
    }
    return ST_OK;
}

enum { SAMPLE_SMEM_MOST = 40 * 1024 }; /* bytes, beside 2 KiB */

/* The draw of a row by a warp, with the bits of draw_row_token (common/draw.h): only what is alone there
 * is spread over the lanes. */

/* draw_row_sums: a level of the tree at a time.  part [slices of all ranks], shared memory. */
DEVICE struct draw_sums join_parts(const struct draw_shape &s, const void *top, int32_t row,
                                   float inv_t, struct draw_sums *part)
{
    const int32_t n = s.n_ranks * s.n_slices;
    for (int32_t i = lane_id(); i < n; i += 32)
        part[i] = draw_row_part(&s, top, row, i);
    sync_warp(); /* parts are written */
    for (int32_t apart = 1; apart < n; apart *= 2) {
        for (int32_t i = 2 * apart * lane_id(); i + apart < n; i += 64 * apart)
            part[i] = draw_join(part[i], part[i + apart], (double)inv_t);
        sync_warp(); /* a level is joined */
    }
    return part[0];
}

/* draw_merge of one rank's list, which is sorted; returns how many it has. */
DEVICE int32_t copy_list(const struct draw_shape &s, const float *from, const int32_t *from_id,
                         float *logit, int32_t *id)
{
    int32_t n = 0;
    for (int32_t i = lane_id(); i < s.k; i += 32) {
        logit[i] = from[i];
        id[i] = from_id[i];
        n += from_id[i] >= 0;
    }
    for (int apart = 16; apart > 0; apart /= 2)
        n += shfl_xor(n, apart);
    return n;
}

/* draw_merge: of `wide` lanes each looks at every wide-th rank's list; groups of wide lanes do the same.
 * at [n_ranks], logit and id [k], shared memory. */
DEVICE int32_t merge_lists(const struct draw_shape &s, const float *from, const int32_t *from_id,
                           uint8_t *at, float *logit, int32_t *id)
{
    const size_t stride = draw_words(&s);
    int wide = 2;
    while (wide < 32 && wide < s.n_ranks)
        wide *= 2;
    for (int32_t w = lane_id(); w < s.n_ranks; w += 32)
        at[w] = 0;
    sync_warp(); /* the lists' begins are written */
    int32_t n = 0;
    for (; n < s.k; n++) {
        int32_t best = -1, best_id = -1;
        float most = 0.0f;
        for (int32_t w = lane_id() % wide; w < s.n_ranks; w += wide) {
            const size_t i = (size_t)w * stride + at[w];
            if (at[w] >= s.k || from_id[i] < 0 || (best >= 0 && !(from[i] > most)))
                continue;
            best = w;
            best_id = from_id[i];
            most = from[i];
        }
        for (int apart = wide / 2; apart > 0; apart /= 2) { /* of equal ones the lower rank's */
            const int32_t w = shfl_xor(best, apart), other_id = shfl_xor(best_id, apart);
            const float v = shfl_xor(most, apart);
            if (w >= 0 && (best < 0 || v > most || (v == most && w < best))) {
                best = w;
                best_id = other_id;
                most = v;
            }
        }
        if (best < 0)
            break;   /* for all lanes */
        sync_warp(); /* at has been read */
        if (lane_id() == 0) {
            logit[n] = most;
            id[n] = best_id;
            at[best]++;
        }
        sync_warp(); /* at is written */
    }
    return n;
}

/* grid R, a warp draws: exponentials of 64 weights and of the joins in double side by side, then lane 0
 * adds the weights in a chain; bound by latency.  Shared memory: 24 bytes a slice of all ranks. */
KERNEL(32)
sample_kernel(struct draw_shape shape, const void *top, const int32_t *row, int32_t row_stride,
              int32_t *id, int32_t id_stride)
{
    DYN_SMEM(struct draw_sums, part);
    SHARED(uint8_t, at, [DRAW_MAX_RANKS]);
    SHARED(float, logit, [DRAW_MAX_K]);
    SHARED(int32_t, ids, [DRAW_MAX_K]);
    SHARED(double, weight, [DRAW_MAX_K]);
    pdl_wait();
    const int32_t r = (int32_t)blockIdx.x;
    struct draw_row how;
    memcpy(&how, row + (int64_t)r * row_stride, sizeof how);
    const float inv_t = draw_inv_temperature(how.rule.temperature);
    int32_t token = -1;
    struct draw_candidates c = {};
    if (how.on_device)
        c.sums = join_parts(shape, top, r, inv_t, part);
    if (how.on_device && draw_finite(&c.sums)) { /* for all lanes */
        const float *from = (const float *)top + (size_t)r * (size_t)shape.k;
        const int32_t *from_id =
            (const int32_t *)top + ((size_t)shape.n_rows + (size_t)r) * (size_t)shape.k;
        c.n = shape.n_ranks == 1 ? copy_list(shape, from, from_id, logit, ids)
                                 : merge_lists(shape, from, from_id, at, logit, ids);
        sync_warp(); /* logit and ids are written */
        c.logit = logit;
        c.id = ids;
        c.complete = c.n == shape.vocab;
        for (int32_t i = lane_id(); i < c.n; i += 32)
            weight[i] = draw_weight(&c, i, (double)inv_t);
        sync_warp(); /* weights are written */
        c.weight = weight;
        if (lane_id() == 0) {
            const uint64_t seed = (uint64_t)how.seed_hi << 32 | how.seed_lo;
            const int32_t i = draw_pick(&how.rule, &c, rng_uniform(seed, how.position));
            token = i < 0 ? -1 : ids[i];
        }
    }
    if (lane_id() == 0)
        id[(int64_t)r * id_stride] = token;
}

extern "C" enum status cuda_sample(struct backend *be, const struct draw_shape *shape,
                                   struct view top, struct view row, struct view id)
{
    assert(top.rows == shape->n_ranks && (size_t)top.cols == draw_words(shape));
    assert(top.stride == top.cols && shape->k <= DRAW_MAX_K);
    assert(row.rows == shape->n_rows && row.cols == DRAW_ROW_WORDS && id.rows == shape->n_rows);
    if (shape->n_rows == 0)
        return ST_OK;
    size_t smem = (size_t)shape->n_ranks * (size_t)shape->n_slices * sizeof(struct draw_sums);
    if (shape->n_ranks > DRAW_MAX_RANKS || smem > SAMPLE_SMEM_MOST)
        FAIL(ST_UNSUPPORTED, "a draw over %d ranks of %d slices: the CUDA backend has room for %d",
             shape->n_ranks, shape->n_slices, (int)(SAMPLE_SMEM_MOST / sizeof(struct draw_sums)));
    return LAUNCH_DEPENDENT(be, sample_kernel, (unsigned)shape->n_rows, 32, smem, *shape,
                            view_i32(top), view_i32(row), row.stride, view_i32(id), id.stride);
}

extern "C" enum status cuda_take_tokens(struct backend *be, struct view token, struct view from,
                                        struct view last)
{
    assert(token.rows == from.rows);
    if (token.rows == 0)
        return ST_OK;
    const struct take_args a = {token.rows, token.stride, from.stride, last.stride};
    return LAUNCH_DEPENDENT(be, take_tokens_kernel, (unsigned)blocks_for(token.rows, EDIT_THREADS),
                            EDIT_THREADS, 0, a, view_i32(from), view_i32(last), view_i32(token));
}
