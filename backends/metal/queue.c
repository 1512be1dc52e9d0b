/* Command buffers: kernels are encoded into one until the host waits, an event is marked or its work
 * is large; they run in the order in which they are committed. */
#include <stdio.h>
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
    be->work = be->n_in_commands = 0;
    return ST_OK;
}

static enum status failed(struct backend *be, const struct metal_committed *c)
{
    char kernels[128];
    const char *first = metal_kernel_names[c->first], *last = metal_kernel_names[c->last];
    if (c->n_dispatches == 1)
        snprintf(kernels, sizeof kernels, "kernel %s", first);
    else
        snprintf(kernels, sizeof kernels, "kernels %s to %s (%llu dispatches)", first, last,
                 (unsigned long long)c->n_dispatches);
    void *pool = objc_autoreleasePoolPush();
    id error = MTL_GET(buffer_error, c->commands);
    enum status st = status_fail(ST_DEVICE, __FILE__, __LINE__, "Metal device %s, %s: %s", be->name,
                                 kernels, metal_error_text(error));
    objc_autoreleasePoolPop(pool);
    return st;
}

/* Have `commands`, and so all before it, ended?  One that failed is an error of the device, now and
 * at every later question.  Command buffers end in the order in which they were committed; one that
 * is not under way any more has ended well. */
static enum status ended(struct backend *be, id commands, bool *out)
{
    int at = -1, done = 0;
    for (int i = 0; i < be->n_under_way; i++)
        if (be->under_way[i].commands == commands)
            at = i;
    for (; done <= at; done++) {
        unsigned long status = MTL_GET(buffer_status, be->under_way[done].commands);
        if (status == ERROR)
            return failed(be, &be->under_way[done]);
        if (status != COMPLETED)
            break;
    }
    *out = done > at;
    for (int i = 0; i < done; i++)
        metal_give(&be->under_way[i].commands);
    be->n_under_way -= done;
    memmove(be->under_way, be->under_way + done, (size_t)be->n_under_way * sizeof be->under_way[0]);
    return ST_OK;
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

/* As wait_for, without an end. */
static enum status wait_long(struct backend *be, id commands)
{
    bool done;
    TRY(wait_for(be, commands, SYNC_LIMIT_S * UINT64_C(1000000), &done));
    if (!done)
        FAIL(ST_DEVICE, "Metal device %s has not finished after %d s", be->name, SYNC_LIMIT_S);
    return ST_OK;
}

/* Room for one more command buffer under way: the oldest is waited for. */
static enum status make_room(struct backend *be)
{
    return be->n_under_way < METAL_MAX_COMMITTED ? ST_OK : wait_long(be, be->under_way[0].commands);
}

enum status metal_commit(struct backend *be)
{
    if (!be->commands)
        return ST_OK;
    TRY(make_room(be));
    MTL_GET(end_encoding, be->encoder);
    metal_give(&be->encoder);
    MTL_GET(commit, be->commands);
    be->n_committed++;
    be->under_way[be->n_under_way++] =
        (struct metal_committed){.commands = MTL_GET(retain, be->commands),
                                 .first = be->first_kernel,
                                 .last = be->last_kernel,
                                 .n_dispatches = be->n_in_commands};
    for (int i = 0; i < N_EVENTS; i++)
        if (be->event[i].marked && !be->event[i].after)
            be->event[i].after = MTL_GET(retain, be->commands);
    metal_give(&be->committed);
    be->committed = be->commands;
    be->commands = NULL;
    return ST_OK;
}

enum status metal_dispatch(struct backend *be, enum metal_kernel kernel, const void *args,
                           size_t args_bytes, const struct metal_bound *bound, int n,
                           struct mtl_size groups, unsigned long threads, uint64_t work)
{
    assert(n <= MAX_BOUND && threads % 32 == 0);
    if (be->commands && be->work + work > be->max_work)
        TRY(metal_commit(be));
    if (!be->commands)
        TRY(begin(be));
    TRY(metal_make_pipeline(be, kernel)); /* there already, but of a kernel that no plan told of */
    MTL(set_pipeline, be->encoder, be->pipeline[kernel]);
    MTL(set_bytes, be->encoder, args, args_bytes, 0);
    for (int i = 0; i < n; i++) { /* an argument without bytes is not read, but has to be there */
        const struct buf *b = bound[i].buf->buffer ? bound[i].buf : be->scratch;
        size_t off = b->at + (b == bound[i].buf ? bound[i].off : 0);
        MTL(set_buffer, be->encoder, b->buffer, off, (unsigned long)i + 1);
    }
    MTL(dispatch, be->encoder, groups, ((struct mtl_size){threads, 1, 1}));
    be->work += work;
    be->last_kernel = kernel;
    if (be->n_in_commands++ == 0)
        be->first_kernel = kernel;
    be->n_dispatched++;
    return ST_OK;
}

enum status metal_sync(struct backend *be)
{
    TRY(metal_commit(be));
    return be->committed ? wait_long(be, be->committed) : ST_OK;
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
    for (int i = 0; i < be->n_under_way; i++)
        metal_give(&be->under_way[i].commands);
    be->n_under_way = 0;
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
    *ns = 0;
    if (!a->after || a->before == b->before)
        return ST_OK; /* nothing is between them */
    TRY(wait_long(be, b->before));
    double s = MTL_GET(gpu_end, b->before) - MTL_GET(gpu_start, a->after);
    *ns = s > 0 ? (uint64_t)(s * 1e9) : 0;
    return ST_OK;
}
