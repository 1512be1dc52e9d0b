/* Ops over rows of logits: edits, masks, the k greatest with the sums of vocabulary slices, draws. */
#include "backends/cuda/gpu.h"

#include "common/draw.h"

enum { EDIT_THREADS = 128 };

/* grid R, a block a row: one without edits has nothing to do.  20 bytes an edit, scattered: bound
 * by latency (a row has a few hundred) */
KERNEL(EDIT_THREADS)
edit_kernel(float *logits, int32_t stride, int32_t first_id, int32_t n_cols, const int32_t *start,
            int32_t start_stride, const int32_t *words)
{
    pdl_wait();
    int32_t r = (int32_t)blockIdx.x, end = start[(int64_t)(r + 1) * start_stride];
    for (int32_t i = start[(int64_t)r * start_stride] + (int32_t)threadIdx.x * EDIT_WORDS; i < end;
         i += EDIT_THREADS * EDIT_WORDS) {
        int64_t c = (int64_t)words[i] - first_id;
        float bias = f32_of_bits((uint32_t)words[i + 1]);
        float mul = f32_of_bits((uint32_t)words[i + 2]), add = f32_of_bits((uint32_t)words[i + 3]);
        if (c < 0 || c >= n_cols)
            continue;
        float *l = logits + (int64_t)r * stride + c;
        float m = *l + bias;
        *l = (m > 0.0f ? m / mul : m * mul) + add;
    }
}

extern "C" enum status cuda_edit_logits(struct backend *be, const struct vocab_part *part,
                                        struct view logits, struct view start, struct view words)
{
    assert(logits.cols == part->n_cols && start.rows == logits.rows + 1 && words.rows == 1);
    if (logits.rows == 0)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, edit_kernel, (unsigned)logits.rows, EDIT_THREADS, 0,
                            view_f32(logits), logits.stride, part->first_id, part->n_cols,
                            view_i32(start), start.stride, view_i32(words));
}

enum { MASK_THREADS = 256 };

/* grid (R, strips of columns); a bit of the mask a column, 4 bytes written for each token that the mask lacks: bound by
 * memory where it lacks most of them.  The mask comes by an upload, which pdl_wait does not cover, so the kernel is
 * launched behind it (LAUNCH) and waits for nothing. */
KERNEL(MASK_THREADS)
mask_kernel(float *logits, int32_t stride, int32_t first_id, int32_t n_cols, const int32_t *mask,
            int32_t mask_stride)
{
    int32_t c = (int32_t)(blockIdx.y * MASK_THREADS + threadIdx.x), id = first_id + c;
    if (c >= n_cols)
        return;
    uint32_t word = (uint32_t)mask[(int64_t)blockIdx.x * mask_stride + id / 32];
    if (!(word >> (id % 32) & 1U))
        logits[(int64_t)blockIdx.x * stride + c] = -INFINITY;
}

extern "C" enum status cuda_mask_logits(struct backend *be, const struct vocab_part *part,
                                        struct view logits, struct view mask)
{
    assert(logits.cols == part->n_cols && mask.rows == logits.rows);
    assert((part->first_id + part->n_cols + 31) / 32 <= mask.cols);
    if (logits.rows == 0 || logits.cols == 0)
        return ST_OK;
    dim3 grid((unsigned)logits.rows, (unsigned)blocks_for(logits.cols, MASK_THREADS));
    return LAUNCH(be, mask_kernel, grid, MASK_THREADS, 0, view_f32(logits), logits.stride,
                  part->first_id, part->n_cols, view_i32(mask), mask.stride);
}

/* topk.  Each vocabulary slice is cut into chunks, from its first column on; a block handles one
 * chunk of one row, a second kernel joins a row's chunks.
 *
 * A logit and its column are one 64-bit key whose greatest comes first: the logit's bits in an
 * order that integers have (-0 as +0), then the column's complement.  Key 0 is no entry; NaN has
 * it. */
enum {
    TOPK_THREADS = 256,
    CHUNK = 4096, /* columns */
    PER_THREAD = CHUNK / TOPK_THREADS,
    LIST_MIN = 32,
    LIST_MAX = 256, /* largest k */
};

struct chunk_slices {
    int32_t n, end[N_SLICES]; /* of vocab_part */
};

/* Of one row and chunk: max m, sum exp(l - m), sum exp((l - m) * inv_temp). */
struct chunk_stat {
    float max, cold, warm;
};

static int32_t n_chunks_of(const struct chunk_slices *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n; i++)
        n += (s->end[i] - (i > 0 ? s->end[i - 1] : 0) + CHUNK - 1) / CHUNK;
    return n;
}

/* Columns [from, to) of a chunk. */
DEVICE void chunk_range(const struct chunk_slices *s, int chunk, int *from, int *to)
{
    int start = 0;
    *from = *to = 0;
    for (int i = 0; i < s->n; start = s->end[i++]) {
        int n = (s->end[i] - start + CHUNK - 1) / CHUNK;
        if (chunk < n) {
            *from = start + chunk * CHUNK;
            *to = *from + CHUNK < s->end[i] ? *from + CHUNK : s->end[i];
            return;
        }
        chunk -= n;
    }
}

DEVICE uint64_t key_of(float v, uint32_t col)
{
    uint32_t u = bits_of_f32(v + 0.0f);
    u = u & 0x80000000U ? ~u : u | 0x80000000U;
    return v == v ? (uint64_t)u << 32 | (0xffffffffU - col) : 0;
}

DEVICE void order_pair(uint64_t *a, uint64_t *b, bool descending)
{
    uint64_t x = *a, y = *b;
    if ((x < y) == descending) {
        *a = y;
        *b = x;
    }
}

/* Bitonic sort of every `size` neighbours of keys [CHUNK], greatest first. */
DEVICE void sort_lists(uint64_t *keys, int size)
{
    for (int run = 2; run <= size; run *= 2)
        for (int apart = run / 2; apart > 0; apart /= 2) {
            for (int t = (int)threadIdx.x; t < CHUNK / 2; t += TOPK_THREADS) {
                int i = 2 * t - (t & (apart - 1));
                order_pair(&keys[i], &keys[i + apart], (i & (size - 1) & run) == 0);
            }
            SYNC_THREADS(); /* one step of the network is done */
        }
}

/* n lists of `size` keys, a power of two, each sorted: the first becomes the greatest of all.  Of a
 * pair, the greater of a[i] and b[size - 1 - i] are the greatest `size`, as a bitonic sequence. */
DEVICE void join_lists(uint64_t *keys, int n, int size)
{
    for (int apart = 1; apart < n; apart *= 2) {
        int pairs = n / 2 / apart;
        for (int t = (int)threadIdx.x; t < pairs * size; t += TOPK_THREADS) {
            uint64_t *a = keys + t / size * 2 * apart * size, *b = a + apart * size;
            int i = t % size;
            if (b[size - 1 - i] > a[i])
                a[i] = b[size - 1 - i];
        }
        SYNC_THREADS(); /* the greater halves are in place */
        for (int half = size / 2; half > 0; half /= 2) {
            for (int t = (int)threadIdx.x; t < pairs * size / 2; t += TOPK_THREADS) {
                uint64_t *a = keys + t / (size / 2) * 2 * apart * size;
                int u = t % (size / 2), i = 2 * u - (u & (half - 1));
                order_pair(&a[i], &a[i + half], true);
            }
            SYNC_THREADS(); /* one step of the network is done */
        }
    }
}

/* grid (R, chunks), 32 KiB of shared memory; 4 V bytes a row read once.  Bound by the networks
 * (about 60 steps with a barrier each), not by memory: chunks run side by side.  A sum is in chains
 * of a thread's 16 columns (256 apart), then block_sum. */
KERNEL(TOPK_THREADS)
topk_chunk_kernel(const float *logits, int32_t stride, struct chunk_slices slices,
                  const float *inv_temp, int32_t temp_stride, int list, uint64_t *keys_out,
                  struct chunk_stat *stat_out)
{
    pdl_wait();
    DYN_SMEM(uint64_t, keys);
    int64_t at = (int64_t)blockIdx.x * gridDim.y + blockIdx.y;
    const float *row = logits + (int64_t)blockIdx.x * stride;
    float t = inv_temp[(int64_t)blockIdx.x * temp_stride];
    int from, to;
    if (t < 0.0f)
        return; /* nobody wants the row */
    chunk_range(&slices, (int)blockIdx.y, &from, &to);
    float v[PER_THREAD], most = -INFINITY;
    UNROLL
    for (int j = 0; j < PER_THREAD; j++) {
        int i = (int)threadIdx.x + j * TOPK_THREADS, col = from + i;
        v[j] = col < to ? row[col] : -INFINITY;
        keys[i] = col < to ? key_of(v[j], (uint32_t)col) : 0;
        most = v[j] > most ? v[j] : most;
    }
    most = block_max(most);
    float base = most == -INFINITY ? 0.0f : most, cold = 0.0f, warm = 0.0f;
    UNROLL
    for (int j = 0; j < PER_THREAD; j++)
        if (v[j] != -INFINITY) {
            cold += exact_exp(v[j] - base);
            warm += exact_exp((v[j] - base) * t);
        }
    cold = block_sum(cold);
    warm = block_sum(warm);
    if (threadIdx.x == 0)
        stat_out[at] = {most, cold, warm};
    if (list == 0)
        return;
    SYNC_THREADS(); /* keys are written */
    sort_lists(keys, list);
    join_lists(keys, CHUNK / list, list);
    for (int i = (int)threadIdx.x; i < list; i += TOPK_THREADS)
        keys_out[at * list + i] = keys[i];
}

/* Chunks are joined in ascending order.  A chunk without a number adds its 0, or its NaN. */
DEVICE void join_stats(const struct chunk_slices *slices, int slice, const struct chunk_stat *stat,
                       float *out)
{
    int start = 0, first = 0, n = 0;
    for (int i = 0; i <= slice; start = slices->end[i++]) {
        first += n;
        n = (slices->end[i] - start + CHUNK - 1) / CHUNK;
    }
    struct chunk_stat all = {-INFINITY, 0.0f, 0.0f};
    for (int i = first; i < first + n; i++)
        all.max = stat[i].max > all.max ? stat[i].max : all.max;
    for (int i = first; i < first + n && all.max > -INFINITY; i++) {
        float d = stat[i].max == all.max ? 0.0f : stat[i].max - all.max;
        all.cold = fmaf(stat[i].cold, exact_exp(d), all.cold);
        all.warm = fmaf(stat[i].warm, exact_exp(d * out[2]), all.warm);
    }
    out[0] = all.max;
    out[1] = all.cold;
    out[2] = all.warm;
}

/* grid R, 32 KiB of shared memory; reads the chunks' lists and sums */
KERNEL(TOPK_THREADS)
topk_join_kernel(const float *logits, int32_t stride, struct chunk_slices slices, int n_chunks,
                 int32_t first_id, const float *inv_temp, int32_t temp_stride, int list,
                 const uint64_t *keys_in, const struct chunk_stat *stat_in, int k, float *val,
                 int32_t val_stride, int32_t *id, int32_t id_stride, float *stat,
                 int32_t stat_stride)
{
    pdl_wait();
    DYN_SMEM(uint64_t, keys);
    int64_t r = blockIdx.x;
    float t = inv_temp[r * temp_stride];
    if (t < 0.0f)
        return; /* as above */
    keys_in += r * n_chunks * list;
    if ((int)threadIdx.x < slices.n) {
        float s[3] = {0.0f, 0.0f, t};
        join_stats(&slices, (int)threadIdx.x, stat_in + r * n_chunks, s);
        for (int i = 0; i < 3; i++)
            stat[r * stat_stride + 3 * (int)threadIdx.x + i] = s[i];
    }
    if (list == 0)
        return;
    /* The first list stays, behind it as many as there is room for. */
    for (int i = (int)threadIdx.x; i < list; i += TOPK_THREADS)
        keys[i] = n_chunks > 0 ? keys_in[i] : 0;
    for (int done = 1; done < n_chunks;) {
        int n = n_chunks - done, room = CHUNK / list - 1, lists = 2;
        n = n < room ? n : room;
        while (lists < n + 1)
            lists *= 2;
        for (int i = (int)threadIdx.x; i < (lists - 1) * list; i += TOPK_THREADS)
            keys[list + i] = i < n * list ? keys_in[(int64_t)done * list + i] : 0;
        SYNC_THREADS(); /* the lists are there */
        join_lists(keys, lists, list);
        done += n;
    }
    SYNC_THREADS(); /* the result is there, when one list is all */
    for (int i = (int)threadIdx.x; i < k; i += TOPK_THREADS) {
        uint32_t col = 0xffffffffU - (uint32_t)keys[i];
        bool any = keys[i] != 0;
        val[r * val_stride + i] = any ? logits[r * stride + col] : -INFINITY;
        id[r * id_stride + i] = any ? first_id + (int32_t)col : -1;
    }
}

static struct view rows_of(struct view v, int32_t first, int32_t n)
{
    v.off += (size_t)first * (size_t)v.stride * dtype_size(v.dtype);
    v.rows = n;
    return v;
}

static enum status topk_rows(struct backend *be, const struct chunk_slices *slices, int n_chunks,
                             int list, int32_t first_id, struct view logits, struct view inv_temp,
                             struct view val, struct view id, struct view stat)
{
    unsigned rows = (unsigned)logits.rows;
    size_t n = (size_t)logits.rows * (size_t)n_chunks, smem = CHUNK * sizeof(uint64_t);
    uint64_t *keys = (uint64_t *)be->scratch->data;
    struct chunk_stat *stats = (struct chunk_stat *)(keys + n * (size_t)list);
    if (n_chunks > 0)
        TRY(LAUNCH_DEPENDENT(be, topk_chunk_kernel, dim3(rows, (unsigned)n_chunks), TOPK_THREADS,
                             smem, view_f32(logits), logits.stride, *slices, view_f32(inv_temp),
                             inv_temp.stride, list, keys, stats));
    return LAUNCH_DEPENDENT(be, topk_join_kernel, rows, TOPK_THREADS, smem, view_f32(logits),
                            logits.stride, *slices, n_chunks, first_id, view_f32(inv_temp),
                            inv_temp.stride, list, keys, stats, val.cols, view_f32(val), val.stride,
                            view_i32(id), id.stride, view_f32(stat), stat.stride);
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
    struct chunk_slices slices = {};
    slices.n = part->n_slices;
    memcpy(slices.end, part->slice_end, sizeof slices.end);
    int n_chunks = n_chunks_of(&slices), list = val.cols > 0 ? LIST_MIN : 0;
    while (list < val.cols)
        list *= 2;
    size_t row_bytes = (size_t)(n_chunks > 0 ? n_chunks : 1) *
                       ((size_t)list * sizeof(uint64_t) + sizeof(struct chunk_stat));
    size_t most = SCRATCH_BYTES / row_bytes;
    if (most == 0)
        FAIL(ST_UNSUPPORTED, "topk of %d columns", logits.cols);
    for (int32_t r = 0, n; r < logits.rows; r += n) {
        n = (size_t)(logits.rows - r) < most ? logits.rows - r : (int32_t)most;
        TRY(topk_rows(be, &slices, n_chunks, list, part->first_id, rows_of(logits, r, n),
                      rows_of(inv_temp, r, n), rows_of(val, r, n), rows_of(id, r, n),
                      rows_of(stat, r, n)));
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

/* grid T / 128; 12 T bytes */
KERNEL(EDIT_THREADS)
take_tokens_kernel(int32_t *token, int32_t token_stride, const int32_t *from, int32_t from_stride,
                   const int32_t *last, int32_t last_stride, int32_t n)
{
    pdl_wait();
    int64_t t = (int64_t)blockIdx.x * EDIT_THREADS + threadIdx.x;
    if (t < n && from[t * from_stride] >= 0)
        token[t * token_stride] = last[(int64_t)from[t * from_stride] * last_stride];
}

extern "C" enum status cuda_take_tokens(struct backend *be, struct view token, struct view from,
                                        struct view last)
{
    assert(token.rows == from.rows);
    if (token.rows == 0)
        return ST_OK;
    return LAUNCH_DEPENDENT(be, take_tokens_kernel, (unsigned)blocks_for(token.rows, EDIT_THREADS),
                            EDIT_THREADS, 0, view_i32(token), token.stride, view_i32(from),
                            from.stride, view_i32(last), last.stride, token.rows);
}
