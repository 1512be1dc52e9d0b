/* Ops over rows of logits: edits, masks, the k greatest with the sums of vocabulary slices, the ids that
 * were drawn.  Rows are on group.x.  The backend defines TOPK_CHUNK, on which the order of sums depends,
 * and TOPK_KEYS(name): uint64_t name[TOPK_CHUNK] in shared memory.  Shared text: gpu.h. */
#ifndef BACKENDS_GPU_LOGITS_H
#define BACKENDS_GPU_LOGITS_H

#include "backends/gpu/args.h"
#include "backends/gpu/keys.h"

/* grid R, a block a row: one without edits has nothing to do.  An edit is {id, bias, mul, add} in four
 * words: 20 bytes, scattered: bound by latency (a row has a few hundred) */
GPU_KERNEL(EDIT_THREADS, edit, edit_args, const GLOBAL int32_t *start BUF(1),
           const GLOBAL int32_t *words BUF(2), GLOBAL float *logits BUF(3))
{
    INDICES;
    pdl_wait();
    const int32_t r = (int32_t)group.x, stride = a.stride, first_id = a.first_id, n_cols = a.n_cols;
    const int32_t end = start[(int64_t)(r + 1) * a.start_stride];
    for (int32_t i = start[(int64_t)r * a.start_stride] + (int32_t)index * EDIT_WORDS; i < end;
         i += EDIT_THREADS * EDIT_WORDS) {
        const int64_t c = (int64_t)words[i] - first_id;
        const float bias = f32_of_bits((uint32_t)words[i + 1]);
        const float mul = f32_of_bits((uint32_t)words[i + 2]);
        const float add = f32_of_bits((uint32_t)words[i + 3]);
        if (c < 0 || c >= n_cols)
            continue;
        GLOBAL float *l = logits + (int64_t)r * stride + c;
        const float m = *l + bias;
        *l = (m > 0.0f ? m / mul : m * mul) + add;
    }
}

/* grid (R, strips of columns); a bit of the mask a column, 4 bytes written for each token that the mask
 * lacks: bound by memory where it lacks most of them.  The mask comes by an upload, which pdl_wait does not
 * cover, so the kernel is launched behind it (LAUNCH) and waits for nothing. */
GPU_KERNEL(MASK_THREADS, mask, mask_args, const GLOBAL int32_t *mask BUF(1),
           GLOBAL float *logits BUF(2))
{
    INDICES;
    const int32_t c = (int32_t)(group.y * MASK_THREADS + index), id = a.first_id + c;
    if (c >= a.n_cols)
        return;
    const uint32_t word = (uint32_t)mask[(int64_t)group.x * a.mask_stride + id / 32];
    if ((word >> (id % 32) & 1U) == 0)
        logits[(int64_t)group.x * a.stride + c] = -INFINITY;
}

/* topk.  Each vocabulary slice is cut into chunks of TOPK_CHUNK columns, from its first column on; a block
 * handles one chunk of one row, a second kernel joins a row's chunks. */
enum { TOPK_PER_THREAD = TOPK_CHUNK / TOPK_THREADS };

/* A logit and its column are one key whose greatest comes first; of equal logits the lower column's.
 * Key 0 is no entry; NaN has it. */
DEVICE uint64_t logit_key(float v, uint32_t col)
{
    return v == v ? (uint64_t)ordered_bits(v) << 32 | (0xffffffffU - col) : 0;
}

/* Chunks of slice `slice`, which begins at column *start; the next one begins at *start then. */
DEVICE int32_t slice_chunks(CONSTANT struct topk_args &a, int32_t slice, PRIVATE int32_t *start)
{
    const int32_t n = (a.slice_end[slice] - *start + TOPK_CHUNK - 1) / TOPK_CHUNK;
    *start = a.slice_end[slice];
    return n;
}

DEVICE void order_pair(SHARED_MEM uint64_t *a, SHARED_MEM uint64_t *b, bool descending)
{
    const uint64_t x = *a, y = *b;
    if ((x < y) == descending) {
        *a = y;
        *b = x;
    }
}

/* Bitonic sort of every `size` neighbours of keys [TOPK_CHUNK], greatest first. */
DEVICE void sort_lists(SHARED_MEM uint64_t *keys, int32_t size, uint32_t index)
{
    for (int32_t run = 2; run <= size; run *= 2)
        for (int32_t apart = run / 2; apart > 0; apart /= 2) {
            for (int32_t t = (int32_t)index; t < TOPK_CHUNK / 2; t += TOPK_THREADS) {
                const int32_t i = 2 * t - (t & (apart - 1));
                order_pair(&keys[i], &keys[i + apart], (i & (size - 1) & run) == 0);
            }
            SYNC_THREADS(); /* one step of the network is done */
        }
}

/* n lists of `size` keys, powers of two, each sorted: the first becomes the greatest of all.  Of a
 * pair, the greater of a[i] and b[size - 1 - i] are the greatest `size`, as a bitonic sequence. */
DEVICE void join_lists(SHARED_MEM uint64_t *keys, int32_t n, int32_t size, uint32_t index)
{
    for (int32_t apart = 1; apart < n; apart *= 2) {
        const int32_t pairs = n / 2 / apart;
        for (int32_t t = (int32_t)index; t < pairs * size; t += TOPK_THREADS) {
            SHARED_MEM uint64_t *a = keys + t / size * 2 * apart * size;
            SHARED_MEM uint64_t *b = a + apart * size;
            const int32_t i = t % size;
            if (b[size - 1 - i] > a[i])
                a[i] = b[size - 1 - i];
        }
        SYNC_THREADS(); /* the greater halves are in place */
        for (int32_t half_size = size / 2; half_size > 0; half_size /= 2) {
            for (int32_t t = (int32_t)index; t < pairs * size / 2; t += TOPK_THREADS) {
                SHARED_MEM uint64_t *a = keys + t / (size / 2) * 2 * apart * size;
                const int32_t u = t % (size / 2), i = 2 * u - (u & (half_size - 1));
                order_pair(&a[i], &a[i + half_size], true);
            }
            SYNC_THREADS(); /* one step of the network is done */
        }
    }
}

/* grid (R, chunks); 4 V bytes a row read once.  Of a chunk: its `list` greatest keys; its maximum m, the
 * sum of exp(l - m) and that of exp((l - m) inv_temp).  Bound by the networks (about 60 steps with a
 * barrier each), not by memory: chunks run side by side.  A sum is in chains of a thread's columns
 * (TOPK_THREADS apart), then block_sum. */
GPU_KERNEL(TOPK_THREADS, topk_chunk, topk_args, const GLOBAL float *logits BUF(1),
           const GLOBAL float *inv_temp BUF(2), GLOBAL uint64_t *keys_out BUF(3),
           GLOBAL float *stat_out BUF(4))
{
    TOPK_KEYS(keys);
    SHARED(float, part, [32]);
    INDICES;
    pdl_wait();
    const int64_t r = group.x, at = r * a.n_chunks + group.y;
    const GLOBAL float *row = logits + r * a.stride;
    const float t = inv_temp[r * a.temp_stride];
    int32_t chunk = (int32_t)group.y, slice = 0, from = 0, end = 0;
    if (t < 0.0f)
        return; /* the row is not wanted */
    for (; slice < a.n_slices; from = end, slice++) {
        const int32_t n = slice_chunks(a, slice, &end);
        if (chunk < n)
            break;
        chunk -= n;
    }
    from += chunk * TOPK_CHUNK;
    const int32_t to = from + TOPK_CHUNK < end ? from + TOPK_CHUNK : end;
    float v[TOPK_PER_THREAD], most = -INFINITY;
    UNROLL
    for (int32_t j = 0; j < TOPK_PER_THREAD; j++) {
        const int32_t i = (int32_t)index + j * TOPK_THREADS, col = from + i;
        v[j] = col < to ? row[col] : -INFINITY;
        keys[i] = col < to ? logit_key(v[j], (uint32_t)col) : 0;
        most = v[j] > most ? v[j] : most;
    }
    most = block_max(most, part, lane, warp, TOPK_THREADS / 32);
    const float base = most == -INFINITY ? 0.0f : most;
    float cold = 0.0f, warm = 0.0f;
    UNROLL
    for (int32_t j = 0; j < TOPK_PER_THREAD; j++)
        if (v[j] != -INFINITY) {
            cold += exact_exp(v[j] - base);
            warm += exact_exp((v[j] - base) * t);
        }
    cold = block_sum(cold, part, lane, warp, TOPK_THREADS / 32);
    warm = block_sum(warm, part, lane, warp, TOPK_THREADS / 32);
    if (index == 0) {
        stat_out[3 * at] = most;
        stat_out[3 * at + 1] = cold;
        stat_out[3 * at + 2] = warm;
    }
    const int32_t list = a.list;
    if (list == 0)
        return;
    SYNC_THREADS(); /* keys are written */
    sort_lists(keys, list, index);
    join_lists(keys, TOPK_CHUNK / list, list, index);
    for (int32_t i = (int32_t)index; i < list; i += TOPK_THREADS)
        keys_out[at * list + i] = keys[i];
}

/* Chunks are joined in ascending order.  A chunk without a number adds its 0, or its NaN. */
DEVICE void join_stats(CONSTANT struct topk_args &a, int32_t slice, const GLOBAL float *stat,
                       float temp, GLOBAL float *out)
{
    int32_t start = 0, n = 0;
    for (int32_t i = 0; i <= slice; i++) {
        stat += 3 * n;
        n = slice_chunks(a, i, &start);
    }
    float most = -INFINITY, cold = 0.0f, warm = 0.0f;
    for (int32_t i = 0; i < n; i++)
        most = stat[3 * i] > most ? stat[3 * i] : most;
    for (int32_t i = 0; i < n && most > -INFINITY; i++) {
        const float d = stat[3 * i] == most ? 0.0f : stat[3 * i] - most;
        cold = fmaf(stat[3 * i + 1], exact_exp(d), cold);
        warm = fmaf(stat[3 * i + 2], exact_exp(d * temp), warm);
    }
    out[0] = most;
    out[1] = cold;
    out[2] = warm;
}

/* grid R; reads the chunks' lists and sums */
GPU_KERNEL(TOPK_THREADS, topk_join, topk_args, const GLOBAL float *logits BUF(1),
           const GLOBAL float *inv_temp BUF(2), const GLOBAL uint64_t *keys_in BUF(3),
           const GLOBAL float *stat_in BUF(4), GLOBAL float *val BUF(5), GLOBAL int32_t *id BUF(6),
           GLOBAL float *stat BUF(7))
{
    TOPK_KEYS(keys);
    INDICES;
    pdl_wait();
    const int64_t r = group.x;
    const float t = inv_temp[r * a.temp_stride];
    if (t < 0.0f)
        return; /* as above */
    keys_in += r * a.n_chunks * a.list;
    if ((int32_t)index < a.n_slices)
        join_stats(a, (int32_t)index, stat_in + 3 * r * a.n_chunks, t,
                   stat + r * a.stat_stride + 3 * (int32_t)index);
    if (a.list == 0)
        return;
    /* The first list stays, behind it as many as there is room for. */
    for (int32_t i = (int32_t)index; i < a.list; i += TOPK_THREADS)
        keys[i] = a.n_chunks > 0 ? keys_in[i] : 0;
    for (int32_t done = 1; done < a.n_chunks;) {
        int32_t n = a.n_chunks - done, room = TOPK_CHUNK / a.list - 1, lists = 2;
        n = n < room ? n : room;
        while (lists < n + 1)
            lists *= 2;
        for (int32_t i = (int32_t)index; i < (lists - 1) * a.list; i += TOPK_THREADS)
            keys[a.list + i] = i < n * a.list ? keys_in[(int64_t)done * a.list + i] : 0;
        SYNC_THREADS(); /* the lists are there */
        join_lists(keys, lists, a.list, index);
        done += n;
    }
    SYNC_THREADS(); /* the result is there, when one list is all */
    for (int32_t i = (int32_t)index; i < a.k; i += TOPK_THREADS) {
        const uint32_t col = 0xffffffffU - (uint32_t)keys[i];
        const bool any = keys[i] != 0;
        val[r * a.val_stride + i] = any ? logits[r * a.stride + col] : -INFINITY;
        id[r * a.id_stride + i] = any ? a.first_id + (int32_t)col : -1;
    }
}

/* grid T / EDIT_THREADS; 12 T bytes */
GPU_KERNEL(EDIT_THREADS, take_tokens, take_args, const GLOBAL int32_t *from BUF(1),
           const GLOBAL int32_t *last BUF(2), GLOBAL int32_t *token BUF(3))
{
    INDICES;
    pdl_wait();
    const int64_t t = (int64_t)group.x * EDIT_THREADS + index;
    if (t < a.n && from[t * a.from_stride] >= 0)
        token[t * a.token_stride] = last[(int64_t)from[t * a.from_stride] * a.last_stride];
}

#endif
