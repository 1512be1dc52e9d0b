/* Ops over rows of logits: edits, masks, the k greatest with the sums of vocabulary slices. */

/* Groups: rows.  An edit is {id, bias, mul, add} in four words. */
KERNEL edit_logits(constant struct metal_edit_args &a BUF(0), const device int32_t *start BUF(1),
                   const device int32_t *words BUF(2), device float *logits BUF(3), GRID)
{
    (void)lane, (void)simd;
    int64_t r = group.x;
    int end = start[(r + 1) * a.start_stride];
    for (int i = start[r * a.start_stride] + 4 * (int)index; i < end; i += 4 * METAL_STRIP) {
        int64_t c = (int64_t)words[i] - a.first_id;
        if (c < 0 || c >= a.n_cols)
            continue;
        device float *l = logits + r * a.stride + c;
        float m = *l + f32_of_bits((uint32_t)words[i + 1]);
        float mul = f32_of_bits((uint32_t)words[i + 2]), add = f32_of_bits((uint32_t)words[i + 3]);
        *l = (m > 0.0f ? m / mul : m * mul) + add;
    }
}

KERNEL mask_logits(constant struct metal_mask_args &a BUF(0), const device int32_t *mask BUF(1),
                   device float *logits BUF(2), GRID)
{
    (void)lane, (void)simd;
    int64_t r = group.x;
    int i = strip_at(group, index), id = a.first_id + i;
    if (i < a.n_cols && ((uint32_t)mask[r * a.mask_stride + id / 32] >> (id % 32) & 1U) == 0)
        logits[r * a.stride + i] = -INFINITY;
}

/* topk.  Each vocabulary slice is cut into chunks of METAL_CHUNK columns, from its first column on;
 * a group handles one chunk of one row, a second kernel joins a row's chunks.
 *
 * A logit and its column are one 64-bit key whose greatest comes first: the logit's bits in an order
 * that integers have (-0 as +0), then the column's complement.  Key 0 is no entry; NaN has it. */

static inline int chunks_of(constant struct metal_topk_args &a, int slice)
{
    int start = slice > 0 ? a.slice_end[slice - 1] : 0;
    return (a.slice_end[slice] - start + METAL_CHUNK - 1) / METAL_CHUNK;
}

static inline uint64_t key_of(float v, uint32_t col)
{
    uint32_t u = bits_of_f32(v + 0.0f);
    u = (u & 0x80000000U) != 0 ? ~u : u | 0x80000000U;
    return v == v ? (uint64_t)u << 32 | (0xffffffffU - col) : 0;
}

static inline void order_pair(threadgroup uint64_t *a, threadgroup uint64_t *b, bool descending)
{
    uint64_t x = *a, y = *b;
    if ((x < y) == descending) {
        *a = y;
        *b = x;
    }
}

/* Bitonic sort of every `size` neighbours of keys [METAL_CHUNK], greatest first. */
static inline void sort_lists(threadgroup uint64_t *keys, int size, uint index)
{
    for (int run = 2; run <= size; run *= 2)
        for (int apart = run / 2; apart > 0; apart /= 2) {
            for (int t = (int)index; t < METAL_CHUNK / 2; t += METAL_TOPK_THREADS) {
                int i = 2 * t - (t & (apart - 1));
                order_pair(&keys[i], &keys[i + apart], (i & (size - 1) & run) == 0);
            }
            BARRIER(); /* one step of the network is done */
        }
}

/* n lists of `size` keys, powers of two, each sorted: the first becomes the greatest of all.  Of a
 * pair, the greater of a[i] and b[size - 1 - i] are the greatest `size`, as a bitonic sequence. */
static inline void join_lists(threadgroup uint64_t *keys, int n, int size, uint index)
{
    for (int apart = 1; apart < n; apart *= 2) {
        int pairs = n / 2 / apart;
        for (int t = (int)index; t < pairs * size; t += METAL_TOPK_THREADS) {
            threadgroup uint64_t *a = keys + t / size * 2 * apart * size;
            threadgroup uint64_t *b = a + apart * size;
            int i = t % size;
            if (b[size - 1 - i] > a[i])
                a[i] = b[size - 1 - i];
        }
        BARRIER(); /* the greater halves are in place */
        for (int half_size = size / 2; half_size > 0; half_size /= 2) {
            for (int t = (int)index; t < pairs * size / 2; t += METAL_TOPK_THREADS) {
                threadgroup uint64_t *a = keys + t / (size / 2) * 2 * apart * size;
                int u = t % (size / 2), i = 2 * u - (u & (half_size - 1));
                order_pair(&a[i], &a[i + half_size], true);
            }
            BARRIER(); /* one step of the network is done */
        }
    }
}

/* Groups: [rows, chunks].  Of a chunk: its `list` greatest keys; its maximum m, the sum of
 * exp(l - m) and that of exp((l - m) inv_temp).  A sum is in chains of a thread's columns, then
 * block_sum. */
KERNEL topk_chunk(constant struct metal_topk_args &a BUF(0), const device float *logits BUF(1),
                  const device float *inv_temp BUF(2), device uint64_t *keys_out BUF(3),
                  device float *stat_out BUF(4), GRID)
{
    SHARED(uint64_t, keys, [METAL_CHUNK]);
    SHARED(float, part, [32]);
    const int PER_THREAD = METAL_CHUNK / METAL_TOPK_THREADS;
    int64_t r = group.x, at = r * a.n_chunks + group.y;
    float temp = inv_temp[r * a.temp_stride], v[PER_THREAD], most = -INFINITY;
    int slice = 0, chunk = (int)group.y;
    if (temp < 0.0f)
        return; /* the row is not wanted */
    while (chunk >= chunks_of(a, slice))
        chunk -= chunks_of(a, slice++);
    int from = (slice > 0 ? a.slice_end[slice - 1] : 0) + chunk * METAL_CHUNK;
    int to = a.slice_end[slice] < from + METAL_CHUNK ? a.slice_end[slice] : from + METAL_CHUNK;
    for (int j = 0; j < PER_THREAD; j++) {
        int i = (int)index + j * METAL_TOPK_THREADS, col = from + i;
        v[j] = col < to ? logits[r * a.stride + col] : -INFINITY;
        keys[i] = col < to ? key_of(v[j], (uint32_t)col) : 0;
        most = v[j] > most ? v[j] : most;
    }
    most = block_max(most, part, lane, simd, METAL_TOPK_THREADS / 32);
    float base = most == -INFINITY ? 0.0f : most, cold = 0.0f, warm = 0.0f;
    for (int j = 0; j < PER_THREAD; j++)
        if (v[j] != -INFINITY) {
            cold += exact_exp(v[j] - base);
            warm += exact_exp((v[j] - base) * temp);
        }
    cold = block_sum(cold, part, lane, simd, METAL_TOPK_THREADS / 32);
    warm = block_sum(warm, part, lane, simd, METAL_TOPK_THREADS / 32);
    if (index == 0) {
        stat_out[3 * at] = most;
        stat_out[3 * at + 1] = cold;
        stat_out[3 * at + 2] = warm;
    }
    if (a.list == 0)
        return;
    BARRIER(); /* keys are written */
    sort_lists(keys, a.list, index);
    join_lists(keys, METAL_CHUNK / a.list, a.list, index);
    for (int i = (int)index; i < a.list; i += METAL_TOPK_THREADS)
        keys_out[at * a.list + i] = keys[i];
}

/* Chunks are joined in ascending order.  A chunk without a number adds its 0, or its NaN. */
static inline void join_stats(constant struct metal_topk_args &a, int slice,
                              const device float *chunk, float temp, device float *out)
{
    int first = 0;
    for (int i = 0; i < slice; i++)
        first += chunks_of(a, i);
    float most = -INFINITY, cold = 0.0f, warm = 0.0f;
    int n = chunks_of(a, slice);
    chunk += 3 * first;
    for (int i = 0; i < n; i++)
        most = chunk[3 * i] > most ? chunk[3 * i] : most;
    for (int i = 0; i < n && most > -INFINITY; i++) {
        float d = chunk[3 * i] == most ? 0.0f : chunk[3 * i] - most;
        cold = fmaf(chunk[3 * i + 1], exact_exp(d), cold);
        warm = fmaf(chunk[3 * i + 2], exact_exp(d * temp), warm);
    }
    out[0] = most;
    out[1] = cold;
    out[2] = warm;
}

/* Groups: rows. */
KERNEL topk_join(constant struct metal_topk_args &a BUF(0), const device float *logits BUF(1),
                 const device float *inv_temp BUF(2), const device uint64_t *keys_in BUF(3),
                 const device float *stat_in BUF(4), device float *val BUF(5),
                 device int32_t *id BUF(6), device float *stat BUF(7), GRID)
{
    SHARED(uint64_t, keys, [METAL_CHUNK]);
    (void)lane, (void)simd;
    int64_t r = group.x;
    float temp = inv_temp[r * a.temp_stride];
    if (temp < 0.0f)
        return; /* as above */
    keys_in += r * a.n_chunks * a.list;
    if ((int)index < a.n_slices)
        join_stats(a, (int)index, stat_in + 3 * r * a.n_chunks, temp,
                   stat + r * a.stat_stride + 3 * (int)index);
    if (a.list == 0)
        return;
    /* The first list stays, behind it as many as there is room for. */
    for (int i = (int)index; i < a.list; i += METAL_TOPK_THREADS)
        keys[i] = a.n_chunks > 0 ? keys_in[i] : 0;
    for (int done = 1; done < a.n_chunks;) {
        int n = a.n_chunks - done, room = METAL_CHUNK / a.list - 1, lists = 2;
        n = n < room ? n : room;
        while (lists < n + 1)
            lists *= 2;
        for (int i = (int)index; i < (lists - 1) * a.list; i += METAL_TOPK_THREADS)
            keys[a.list + i] = i < n * a.list ? keys_in[(int64_t)done * a.list + i] : 0;
        BARRIER(); /* the lists are there */
        join_lists(keys, lists, a.list, index);
        done += n;
    }
    BARRIER(); /* the result is there, when one list is all */
    for (int i = (int)index; i < a.k; i += METAL_TOPK_THREADS) {
        uint32_t col = 0xffffffffU - (uint32_t)keys[i];
        bool any = keys[i] != 0;
        val[r * a.val_stride + i] = any ? logits[r * a.stride + col] : -INFINITY;
        id[r * a.id_stride + i] = any ? a.first_id + (int32_t)col : -1;
    }
}
