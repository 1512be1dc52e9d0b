/* Command buffers: kernels are encoded into one until somebody waits, an event is marked or its work
 * is large; they run in the order in which they are committed. */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "backends/metal/metal_backend.h"
#include "backends/metal/objc.h"
#include "common/clock.h"

enum { COMPLETED = 4, ERROR = 5 }; /* MTLCommandBufferStatus */
enum { SYNC_LIMIT_S = 300 };       /* longer than any step: the device hangs */
enum { POLL_NS = 20000 };

static enum status begin(struct backend *be)
{
    void *pool = objc_autoreleasePoolPush();
    id commands = MTL_GET(command_buffer, be->queue);
    id encoder = commands ? MTL_GET(encoder, commands) : NULL;
    if (encoder) {
        be->commands = MTL_GET(retain, commands);
        be->encoder = MTL_GET(retain, encoder);
    }
    objc_autoreleasePoolPop(pool);
    if (!encoder)
        FAIL(ST_DEVICE, "Metal device %s gives no command buffer", be->name);
    be->work = 0;
    return ST_OK;
}

enum status metal_dispatch(struct backend *be, enum metal_kernel kernel, const void *args,
                           size_t args_bytes, const struct metal_bound *bound, int n,
                           struct mtl_size groups, unsigned long threads, uint64_t work)
{
    assert(n <= MAX_BOUND && threads % 32 == 0);
    if (be->commands && be->work + work > METAL_MAX_WORK)
        TRY(metal_commit(be));
    if (!be->commands)
        TRY(begin(be));
    MTL(set_pipeline, be->encoder, be->pipeline[kernel]);
    MTL(set_bytes, be->encoder, args, args_bytes, 0);
    for (int i = 0; i < n; i++) { /* an argument without bytes is not read, but has to be there */
        const struct buf *b = bound[i].buf->buffer ? bound[i].buf : be->scratch;
        size_t off = b == bound[i].buf ? bound[i].off : 0;
        MTL(set_buffer, be->encoder, b->buffer, off, (unsigned long)i + 1);
    }
    MTL(dispatch, be->encoder, groups, ((struct mtl_size){threads, 1, 1}));
    be->work += work;
    be->last_kernel = kernel;
    be->n_dispatched++;
    return ST_OK;
}

enum status metal_commit(struct backend *be)
{
    if (!be->commands)
        return ST_OK;
    MTL_GET(end_encoding, be->encoder);
    metal_give(&be->encoder);
    MTL_GET(commit, be->commands);
    be->n_committed++;
    for (int i = 0; i < N_EVENTS; i++)
        if (be->event[i].marked && !be->event[i].after)
            be->event[i].after = MTL_GET(retain, be->commands);
    metal_give(&be->committed);
    be->committed = be->commands;
    be->commands = NULL;
    return ST_OK;
}

/* Has the command buffer ended?  One that failed is an error of the device. */
static enum status ended(struct backend *be, id commands, bool *out)
{
    unsigned long status = MTL_GET(buffer_status, commands);
    *out = status == COMPLETED;
    if (status != ERROR)
        return ST_OK;
    void *pool = objc_autoreleasePoolPush();
    id error = MTL_GET(buffer_error, commands);
    enum status st =
        status_fail(ST_DEVICE, __FILE__, __LINE__, "Metal device %s, commands up to kernel %s: %s",
                    be->name, metal_kernel_names[be->last_kernel], metal_error_text(error));
    objc_autoreleasePoolPop(pool);
    return st;
}

static enum status wait_for(struct backend *be, id commands, uint64_t wait_us, bool *out)
{
    uint64_t from = clock_us();
    for (;;) {
        TRY(ended(be, commands, out));
        if (*out || clock_us() - from >= wait_us)
            return ST_OK;
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

enum status metal_sync(struct backend *be)
{
    bool done = true;
    TRY(metal_commit(be));
    if (be->committed)
        TRY(wait_for(be, be->committed, SYNC_LIMIT_S * UINT64_C(1000000), &done));
    if (!done)
        FAIL(ST_DEVICE, "Metal device %s has not finished after %d s", be->name, SYNC_LIMIT_S);
    return ST_OK;
}

void metal_drop_queue(struct backend *be)
{
    for (int i = 0; i < N_EVENTS; i++) {
        metal_give(&be->event[i].before);
        metal_give(&be->event[i].after);
    }
    if (be->encoder)
        MTL_GET(end_encoding, be->encoder); /* it may not be released open */
    metal_give(&be->encoder);
    metal_give(&be->commands);
    if (be->committed)
        MTL_GET(wait, be->committed); /* its buffers are about to go */
    metal_give(&be->committed);
}

/* The slot's work is all that was committed: with nothing under way it has passed. */
enum status metal_event_mark(struct backend *be, int slot)
{
    assert(slot >= 0 && slot < N_EVENTS);
    struct metal_event *e = &be->event[slot];
    TRY(metal_commit(be));
    metal_give(&e->before);
    metal_give(&e->after);
    e->marked = true;
    if (be->committed)
        e->before = MTL_GET(retain, be->committed);
    return ST_OK;
}

enum status metal_event_wait(struct backend *be, int slot, uint64_t wait_us, bool *passed)
{
    assert(slot >= 0 && slot < N_EVENTS);
    *passed = true;
    return be->event[slot].before ? wait_for(be, be->event[slot].before, wait_us, passed) : ST_OK;
}

enum status metal_event_elapsed(struct backend *be, int from, int to, uint64_t *ns)
{
    assert(from >= 0 && from < N_EVENTS && to >= 0 && to < N_EVENTS);
    const struct metal_event *a = &be->event[from], *b = &be->event[to];
    bool done;
    *ns = 0;
    if (!a->after || a->before == b->before)
        return ST_OK; /* nothing is between them */
    TRY(wait_for(be, b->before, SYNC_LIMIT_S * UINT64_C(1000000), &done));
    if (!done)
        FAIL(ST_DEVICE, "Metal device %s has not finished after %d s", be->name, SYNC_LIMIT_S);
    double s = MTL_GET(gpu_end, b->before) - MTL_GET(gpu_start, a->after);
    *ns = s > 0 ? (uint64_t)(s * 1e9) : 0;
    return ST_OK;
}
