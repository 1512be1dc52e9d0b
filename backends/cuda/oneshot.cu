/* All-reduce, gather and broadcast kernels over the areas of all ranks of one host. */
#include "backends/cuda/oneshot.h"

#include "backends/cuda/reduce_tree.h"

/* An area: flags [block][rank], the epoch that the rank has come to; epochs [block] of this rank;
 * who gave up (1 + rank); closed [rank], not 0 where the rank has closed; the buffers. */
enum {
#ifdef INGOT_EMULATE
    BLOCKS = 3,         /* the emulator runs them one after the other, */
    POLLS_PER_LOOK = 8, /* and a poll takes a turn of all its threads */
#else
    BLOCKS = 32,
    POLLS_PER_LOOK =
        1024, /* about a millisecond: a poll of this device's memory takes a microsecond */
#endif
    ONESHOT_THREADS = 256,
    FLAGS = BLOCKS * ONESHOT_MAX_WORLD,
    GAVE_UP = FLAGS + BLOCKS,
    CLOSED = GAVE_UP + 1,
    HEAD_BYTES = (CLOSED + ONESHOT_MAX_WORLD + 3) / 4 * 16, /* buffers are aligned to 16 bytes */
};

struct oneshot_peers {
    int rank, world;
    size_t piece_bytes;
    char *area[ONESHOT_MAX_WORLD];
    char *own; /* area[rank] */
    uint32_t *failed;
    uint64_t limit_ns;
};

/* area[rank]; an index that is known at run time only would copy the kernel's parameters to its
 * stack. */
DEVICE char *area_of(const oneshot_peers &p, int rank)
{
    char *a = p.area[0];
    UNROLL
    for (int r = 1; r < ONESHOT_MAX_WORLD; r++)
        a = rank == r ? p.area[r] : a;
    return a;
}

DEVICE uint32_t *flags_of(const oneshot_peers &p, int rank)
{
    return (uint32_t *)area_of(p, rank) + (int)blockIdx.x * ONESHOT_MAX_WORLD;
}

DEVICE uint32_t *epoch_of(const oneshot_peers &p)
{
    return (uint32_t *)p.own + FLAGS + (int)blockIdx.x;
}

DEVICE char *buffer_in(const oneshot_peers &p, char *area, uint32_t epoch)
{
    return area + HEAD_BYTES + (epoch % 2) * p.piece_bytes;
}

/* This block's part [*from, *to) of n things, in whole fours. */
DEVICE void part_of(int64_t n, int64_t *from, int64_t *to)
{
    int64_t each = (n / BLOCKS + 4) / 4 * 4;
    *from = each * (int)blockIdx.x < n ? each * (int)blockIdx.x : n;
    *to = *from + each < n ? *from + each : n;
}

/* Bytes [from, to) of src to dst: both buffers 16-byte aligned, or a byte at a time. */
DEVICE void copy_bytes(char *dst, const char *src, int64_t from, int64_t to)
{
    bool wide = ((uintptr_t)(dst + from) | (uintptr_t)(src + from)) % 16 == 0;
    int64_t whole = wide ? (to - from) / 16 : 0;
    for (int64_t i = threadIdx.x; i < whole; i += ONESHOT_THREADS)
        st_128(dst + from + 16 * i, ld_128(src + from + 16 * i));
    for (int64_t i = from + 16 * whole + threadIdx.x; i < to; i += ONESHOT_THREADS)
        dst[i] = src[i];
}

DEVICE bool has_come(const uint32_t *flag, uint32_t epoch)
{
    return (int32_t)(ld_acquire_sys(flag) - (epoch + 1)) >= 0;
}

DEVICE bool has_closed(const oneshot_peers &p, int r)
{
    return ld_acquire_sys((uint32_t *)p.own + CLOSED + r) != 0;
}

/* Shall the wait for rank r end without it?  The word in the host's memory is read over PCI, the clock is
 * slow too: a wait asks every POLLS_PER_LOOK turns. */
DEVICE bool gave_up(const oneshot_peers &p, int r, const uint32_t *flag, uint32_t epoch,
                    uint64_t waited_ns)
{
    volatile uint32_t *failed = p.failed;
    uint32_t who = ld_acquire_sys((uint32_t *)p.own + GAVE_UP), why = 0;
    if (who != 0)
        why = ONESHOT_MAX_WORLD + who;
    else if (has_closed(p, r) && !has_come(flag, epoch)) /* not even before it closed */
        why = 2 * ONESHOT_MAX_WORLD + (uint32_t)r + 1;
    else if (waited_ns > p.limit_ns)
        why = (uint32_t)r + 1;
    if (*failed != 0)
        return true;
    if (why != 0)
        *failed = why;
    return why != 0;
}

/* All that this block wrote before is seen by the same block of every rank after it, and the other
 * way round.  A rank that does not come in time is named in *failed, and the kernel goes on with
 * what there is: the host throws the result away. */
DEVICE void meet(const oneshot_peers &p, uint32_t epoch)
{
    SYNC_THREADS(); /* the block's writes come before the release: it is cumulative (PTX memory model) */
    int r = (int)threadIdx.x;
    if (r < p.world) {
        st_release_sys(flags_of(p, r) + p.rank, epoch + 1);
        uint64_t from = 0; /* the time of the first look */
        const uint32_t *flag = flags_of(p, p.rank) + r;
        for (uint32_t n = 1; !has_come(flag, epoch); n++) {
            if (n % POLLS_PER_LOOK != 0)
                continue;
            uint64_t now = clock_ns();
            from = from ? from : now;
            if (gave_up(p, r, flag, epoch, now - from))
                break;
        }
    }
    SYNC_THREADS(); /* all ranks' writes are seen by the block */
}

DEVICE void leave(const oneshot_peers &p, uint32_t epoch)
{
    SYNC_THREADS(); /* the block is done with the epoch */
    if (threadIdx.x == 0)
        *epoch_of(p) = epoch + 1;
}

/* Elements [i, i + 4) of all ranks' buffers, added; every rank's load is under way at once. */
DEVICE float4 reduce_4(const oneshot_peers &p, uint32_t epoch, int64_t i, int op)
{
    float4 v[ONESHOT_MAX_WORLD];
    UNROLL
    for (int r = 0; r < ONESHOT_MAX_WORLD; r++)
        if (r < p.world)
            v[r] = ld_f32x4((const float *)buffer_in(p, p.area[r], epoch) + i);
    return {reduce_tree<4>(p.world, op, [&](int r) { return v[r].x; }),
            reduce_tree<4>(p.world, op, [&](int r) { return v[r].y; }),
            reduce_tree<4>(p.world, op, [&](int r) { return v[r].z; }),
            reduce_tree<4>(p.world, op, [&](int r) { return v[r].w; })};
}

/* 32 blocks; 4 (world + 2) bytes an element, of which world - 1 over the links between devices.  A
 * buffer is a multiple of 16 bytes: the last four may be read whole. */
KERNEL(ONESHOT_THREADS, 2) oneshot_reduce_kernel(oneshot_peers p, float *x, int64_t n, int op)
{
    uint32_t epoch = *epoch_of(p);
    int64_t from, to;
    part_of(n, &from, &to);
    copy_bytes(buffer_in(p, p.own, epoch), (const char *)x, 4 * from, 4 * to);
    meet(p, epoch);
    for (int64_t i = from + 4 * (int)threadIdx.x; i < to; i += 4 * ONESHOT_THREADS) {
        float4 v = reduce_4(p, epoch, i, op);
        if (to - i >= 4 && ((uintptr_t)(x + i) & 15) == 0) {
            st_f32x4(x + i, v);
            continue;
        }
        const float f[4] = {v.x, v.y, v.z, v.w};
        UNROLL
        for (int j = 0; j < 4; j++)
            if (i + j < to)
                x[i + j] = f[j];
    }
    leave(p, epoch);
}

KERNEL(ONESHOT_THREADS, 2)
oneshot_gather_kernel(oneshot_peers p, const char *src, char *dst, int64_t bytes, int64_t apart)
{
    uint32_t epoch = *epoch_of(p);
    int64_t from, to;
    part_of(bytes, &from, &to);
    copy_bytes(buffer_in(p, p.own, epoch), src, from, to);
    meet(p, epoch);
    for (int r = 0; r < p.world; r++)
        if (dst + r * apart != src)
            copy_bytes(dst + r * apart, buffer_in(p, area_of(p, r), epoch), from, to);
    leave(p, epoch);
}

KERNEL(ONESHOT_THREADS, 2)
oneshot_broadcast_kernel(oneshot_peers p, char *x, int64_t bytes, char *root_area)
{
    uint32_t epoch = *epoch_of(p);
    int64_t from, to;
    part_of(bytes, &from, &to);
    if (p.own == root_area)
        copy_bytes(buffer_in(p, root_area, epoch), x, from, to);
    meet(p, epoch);
    if (p.own != root_area)
        copy_bytes(x, buffer_in(p, root_area, epoch), from, to);
    leave(p, epoch);
}

/* One warp. */
KERNEL(32) oneshot_give_up_kernel(oneshot_peers p)
{
    int r = (int)threadIdx.x;
    if (r < p.world && r != p.rank)
        st_release_sys((uint32_t *)area_of(p, r) + GAVE_UP, (uint32_t)p.rank + 1);
}

/* One warp.  Tells the others that this rank has closed and waits until all have, so that none of
 * their kernels reads this rank's memory any more; as long as for a collective. */
KERNEL(32) oneshot_close_kernel(oneshot_peers p)
{
    int r = (int)threadIdx.x;
    if (r >= p.world || r == p.rank)
        return;
    st_release_sys((uint32_t *)area_of(p, r) + CLOSED + p.rank, 1);
    uint64_t from = clock_ns();
    while (!has_closed(p, r) && clock_ns() - from <= p.limit_ns)
        continue;
}

static oneshot_peers peers_of(const struct oneshot *o)
{
    oneshot_peers p = {};
    p.rank = o->rank;
    p.world = o->world;
    p.piece_bytes = o->piece_bytes;
    for (int r = 0; r < o->world; r++)
        p.area[r] = (char *)o->area[r];
    p.own = (char *)o->area[o->rank];
    p.failed = o->failed;
    p.limit_ns = o->limit_ns;
    return p;
}

extern "C" enum status oneshot_reduce(struct backend *be, const struct oneshot *o, void *x,
                                      size_t n, int op)
{
    assert(n * sizeof(float) <= o->piece_bytes && o->world <= ONESHOT_MAX_WORLD);
    return LAUNCH(be, oneshot_reduce_kernel, BLOCKS, ONESHOT_THREADS, 0, peers_of(o), (float *)x,
                  (int64_t)n, op);
}

extern "C" enum status oneshot_gather(struct backend *be, const struct oneshot *o, const void *src,
                                      void *dst, size_t bytes, size_t apart)
{
    assert(bytes <= o->piece_bytes);
    return LAUNCH(be, oneshot_gather_kernel, BLOCKS, ONESHOT_THREADS, 0, peers_of(o),
                  (const char *)src, (char *)dst, (int64_t)bytes, (int64_t)apart);
}

extern "C" enum status oneshot_broadcast(struct backend *be, const struct oneshot *o, void *x,
                                         size_t bytes, int root)
{
    assert(bytes <= o->piece_bytes);
    return LAUNCH(be, oneshot_broadcast_kernel, BLOCKS, ONESHOT_THREADS, 0, peers_of(o), (char *)x,
                  (int64_t)bytes, (char *)o->area[root]);
}

extern "C" enum status oneshot_give_up(struct backend *be, const struct oneshot *o)
{
    return LAUNCH(be, oneshot_give_up_kernel, 1, 32, 0, peers_of(o));
}

extern "C" enum status oneshot_close(struct backend *be, const struct oneshot *o)
{
    return LAUNCH(be, oneshot_close_kernel, 1, 32, 0, peers_of(o));
}

extern "C" size_t oneshot_area_bytes(size_t piece_bytes)
{
    return HEAD_BYTES + 2 * piece_bytes;
}

/* CUDA shares whole allocations: the handle of the one that the area is in, and where. */
struct area_handle {
    cudaIpcMemHandle_t block;
    uint64_t offset;
};

static enum status handle_of(const struct buf *area, unsigned char *out)
{
    struct area_handle h;
    char *block = area->pool ? area->pool->at : (char *)area->data;
    static_assert(sizeof h == ONESHOT_HANDLE_BYTES, "the size of a handle");
    h.offset = (uint64_t)((char *)area->data - block);
    CUDA_TRY(cudaIpcGetMemHandle(&h.block, block));
    memcpy(out, &h, sizeof h);
    return ST_OK;
}

extern "C" enum status oneshot_make_area(struct backend *be, struct oneshot *o, struct buf **out,
                                         unsigned char *handle)
{
    assert(o->piece_bytes % 16 == 0);
    TRY(cuda_alloc(be, oneshot_area_bytes(o->piece_bytes), MEM_DEVICE, out));
    o->area[o->rank] = (*out)->data;
    TRY(cuda_sync(be)); /* it is zeroed before another rank writes into it */
    return handle ? handle_of(*out, handle) : ST_OK;
}

extern "C" enum status oneshot_map_area(struct oneshot *o, int r,
                                        const unsigned char handle[ONESHOT_HANDLE_BYTES])
{
    struct area_handle h;
    memcpy(&h, handle, sizeof h);
    CUDA_TRY(cudaIpcOpenMemHandle(&o->mapped[r], h.block, cudaIpcMemLazyEnablePeerAccess));
    o->area[r] = (char *)o->mapped[r] + h.offset;
    return ST_OK;
}

extern "C" void oneshot_unmap_areas(struct oneshot *o)
{
    for (int r = 0; r < o->world; r++)
        if (o->mapped[r])
            cudaIpcCloseMemHandle(o->mapped[r]);
}
