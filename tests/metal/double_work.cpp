/* The double's command buffers and encoders: what is bound and dispatched, and the kernels' run. */
#include "double_objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/dtype.h"

namespace metal_double
{

/* ---- running ---- */

static buffer *buffer_of(object *o)
{
    return static_cast<buffer *>(o->of);
}

static double now_s()
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* What the file of INGOT_METAL_FAIL asks for; it is read once. */
static void read_fail_file()
{
    char kernel[64] = "";
    FILE *f = mtl.fail_file.empty() ? nullptr : fopen(mtl.fail_file.c_str(), "r");
    if (!f)
        return;
    if (fscanf(f, "%63s", kernel) == 1)
        mtl.fails = kernel;
    fclose(f);
    remove(mtl.fail_file.c_str());
}

static const char *running = "";

static bool run_dispatch(const dispatch &d, std::string *error)
{
    running = d.kernel->name;
    void *bound[MAX_BUFFERS] = {};
    char said[400];
    for (size_t i = 0; i < d.bound.size(); i++)
        bound[i] = buffer_of(d.bound[i].buffer)->data + d.bound[i].off;
    uint64_t seed = mtl.seed ? mtl.seed + mtl.n_dispatches : 0;
    bool ran = run_kernel(
        d.kernel->name, d.groups, d.threads, 0, MAX_SHARED, false, seed,
        [&] { d.kernel->run(d.args.data(), bound); }, said, sizeof said);
    mtl.n_dispatches++;
    if (!ran) {
        wrong("%s", said);
        *error = said;
    }
    for (const bound_buffer &b : d.bound)
        if (!buffer_of(b.buffer)->intact()) {
            wrong("kernel %s wrote beyond the end of a buffer", d.kernel->name);
            memset(buffer_of(b.buffer)->data + buffer_of(b.buffer)->length, GUARD,
                   buffer_of(b.buffer)->guard_bytes());
        }
    if (ran && mtl.fails == d.kernel->name) {
        mtl.fails.clear();
        *error = "a failure that a test asked for";
        ran = false;
    }
    return ran;
}

/* Everything in use has the bytes that it had when it was committed, or that kernels wrote. */
static void check_in_use()
{
    for (auto &u : mtl.in_use) {
        buffer_of(u.first)->check_memory();
        if (mtl.check_writes && !buffer_of(u.first)->of_caller &&
            buffer_of(u.first)->digest() != buffer_of(u.first)->hash)
            wrong("a buffer of %zu bytes was written by the host while commands that use it are "
                  "under way",
                  buffer_of(u.first)->length);
    }
}

static void hash_in_use()
{
    for (auto &u : mtl.in_use)
        if (mtl.check_writes && !buffer_of(u.first)->of_caller)
            buffer_of(u.first)->hash = buffer_of(u.first)->digest();
}

static void run_first()
{
    object *o = mtl.queue.front();
    commands *c = static_cast<commands *>(o->of);
    mtl.queue.pop_front();
    check_in_use();
    read_fail_file();
    c->start = now_s();
    bool fine = true;
    for (size_t i = 0; i < c->work.size() && fine; i++)
        fine = run_dispatch(c->work[i], &c->error);
    c->end = now_s();
    c->status = fine ? COMPLETED : FAILED;
    mtl.n_commands++;
    for (object *b : c->held) {
        if (--mtl.in_use[b] == 0)
            mtl.in_use.erase(b);
        release(b);
    }
    c->held.clear();
    c->work.clear();
    hash_in_use();
    release(o);
}

static void run_until(object *o)
{
    while (static_cast<commands *>(o->of)->status == COMMITTED)
        run_first();
}

/* ---- command buffers ---- */

void commands::check_release()
{
    if (open)
        wrong("a command buffer is released while its encoder is open");
    for (object *b : held)
        release(b);
}

static id queue_command_buffer(id, SEL)
{
    return autorelease(make("MTLCommandBuffer", new commands));
}

static id commands_encoder(id self, SEL)
{
    commands *c = inside<commands>(self);
    if (c->open)
        wrong("two encoders of a command buffer are open");
    if (c->status != NOT_ENQUEUED)
        wrong("an encoder of a command buffer that is committed");
    retain(obj(self));
    object *e = make("MTLComputeCommandEncoder", new encoder(obj(self)));
    c->open = e;
    return autorelease(e);
}

static void commands_commit(id self, SEL)
{
    commands *c = inside<commands>(self);
    if (c->open) {
        wrong("commit while an encoder is open");
        return;
    }
    if (c->status != NOT_ENQUEUED) {
        wrong("a command buffer is committed twice");
        return;
    }
    c->status = COMMITTED;
    mtl.sealed |= mtl.seal_at_commit;
    retain(obj(self));
    mtl.queue.push_back(obj(self));
    check_in_use();
    for (object *b : c->held)
        mtl.in_use[b]++;
    hash_in_use();
}

static void commands_wait(id self, SEL)
{
    if (inside<commands>(self)->status == NOT_ENQUEUED)
        wrong("a wait for a command buffer that is not committed");
    run_until(obj(self));
}

/* Under way when it is asked for the first time. */
static unsigned long commands_status(id self, SEL)
{
    commands *c = inside<commands>(self);
    if (c->status == COMMITTED && c->polls++ > 0)
        run_until(obj(self));
    return (unsigned long)c->status;
}

static id commands_error(id self, SEL)
{
    commands *c = inside<commands>(self);
    return c->status == FAILED ? autorelease(make("NSError", new text(c->error.c_str()))) : nullptr;
}

static double commands_start(id self, SEL)
{
    return inside<commands>(self)->start;
}

static double commands_end(id self, SEL)
{
    return inside<commands>(self)->end;
}

/* ---- encoders ---- */

void encoder::check_release()
{
    if (!ended)
        wrong("an encoder is released without endEncoding");
}

encoder::~encoder()
{
    commands *c = static_cast<commands *>(owner->of);
    if (!ended && c)
        c->open = nullptr;
    release(owner);
}

static encoder *open_encoder(id self, const char *what)
{
    encoder *e = inside<encoder>(self);
    if (e->ended)
        wrong("%s after endEncoding", what);
    return e->ended ? nullptr : e;
}

static void encoder_set_pipeline(id self, SEL, id pipeline)
{
    if (encoder *e = open_encoder(self, "setComputePipelineState"))
        e->pipeline = pipeline ? inside<kernel_object>(pipeline)->kernel : nullptr;
}

static void encoder_set_bytes(id self, SEL, const void *bytes, unsigned long length,
                              unsigned long at)
{
    encoder *e = open_encoder(self, "setBytes");
    if (!e)
        return;
    if (length == 0 || length > MAX_BYTES || at >= MAX_BUFFERS) {
        wrong("setBytes of %lu bytes at index %lu", length, at);
        return;
    }
    e->bound.erase(at);
    e->bytes[at].assign((const unsigned char *)bytes, (const unsigned char *)bytes + length);
}

static void encoder_set_buffer(id self, SEL, id b, unsigned long off, unsigned long at)
{
    encoder *e = open_encoder(self, "setBuffer");
    if (!e)
        return;
    if (mtl.was.count(b)) {
        wrong("setBuffer of a released %s", mtl.was[b].c_str());
        return;
    }
    if (!b || at >= MAX_BUFFERS || off >= inside<buffer>(b)->length) {
        wrong("setBuffer at index %lu: offset %lu of %zu bytes", at, off,
              b ? inside<buffer>(b)->length : 0);
        return;
    }
    e->bytes.erase(at);
    e->bound[at] = {obj(b), off};
}

/* The arguments of a dispatch as the kernel declares them; false: one is wrong. */
static bool gather_arguments(encoder *e, dispatch *d)
{
    const metal_double_kernel *k = d->kernel;
    if (!e->bytes.count(0) || e->bytes[0].size() != k->args_bytes) {
        wrong("kernel %s: %zu bytes of arguments, its struct has %zu", k->name,
              e->bytes.count(0) ? e->bytes[0].size() : 0, k->args_bytes);
        return false;
    }
    d->args = e->bytes[0];
    for (size_t i = 0; i < k->align.size(); i++) {
        auto b = e->bound.find(i + 1);
        if (b == e->bound.end()) {
            wrong("kernel %s: argument %zu is not bound", k->name, i + 1);
            return false;
        }
        if (b->second.off % k->align[i] != 0) {
            wrong("kernel %s: argument %zu: offset %zu of elements of %zu bytes", k->name, i + 1,
                  b->second.off, k->align[i]);
            return false;
        }
        d->bound.push_back(b->second);
    }
    return true;
}

struct size3 {
    unsigned long width, height, depth;
};

static void encoder_dispatch(id self, SEL, size3 groups, size3 threads)
{
    encoder *e = open_encoder(self, "dispatchThreadgroups");
    if (!e)
        return;
    unsigned long n = threads.width * threads.height * threads.depth;
    if (!e->pipeline) {
        wrong("a dispatch without a pipeline");
        return;
    }
    if (n == 0 || n > threads_of(e->pipeline) || n % 32 != 0 || groups.width == 0 ||
        groups.height == 0 || groups.depth == 0) {
        wrong("kernel %s: %lu x %lu x %lu groups of %lu threads", e->pipeline->name, groups.width,
              groups.height, groups.depth, n);
        return;
    }
    dispatch d = {e->pipeline, {}, {}, {}, {}};
    if (!gather_arguments(e, &d))
        return;
    d.groups = dim3((unsigned)groups.width, (unsigned)groups.height, (unsigned)groups.depth);
    d.threads = dim3((unsigned)threads.width, (unsigned)threads.height, (unsigned)threads.depth);
    commands *c = static_cast<commands *>(e->owner->of);
    for (bound_buffer &b : d.bound) {
        retain(b.buffer);
        c->held.push_back(b.buffer);
    }
    c->work.push_back(d);
}

static void encoder_end(id self, SEL)
{
    if (encoder *e = open_encoder(self, "endEncoding")) {
        e->ended = true;
        static_cast<commands *>(e->owner->of)->open = nullptr;
    }
}

/* ---- the classes ---- */

void make_work_classes()
{
    make_class("MTLCommandQueue", {METHOD("commandBuffer", "@", queue_command_buffer)});
    make_class(
        "MTLCommandBuffer",
        {METHOD("computeCommandEncoder", "@", commands_encoder),
         METHOD("commit", "v", commands_commit), METHOD("waitUntilCompleted", "v", commands_wait),
         METHOD("status", "Q", commands_status), METHOD("error", "@", commands_error),
         METHOD("GPUStartTime", "d", commands_start), METHOD("GPUEndTime", "d", commands_end)});
    make_class("MTLComputeCommandEncoder",
               {METHOD("setComputePipelineState:", "v@", encoder_set_pipeline),
                METHOD("setBytes:length:atIndex:", "v^QQ", encoder_set_bytes),
                METHOD("setBuffer:offset:atIndex:", "v@QQ", encoder_set_buffer),
                METHOD("dispatchThreadgroups:threadsPerThreadgroup:", "vSS", encoder_dispatch),
                METHOD("endEncoding", "v", encoder_end)});
}

} // namespace metal_double

void metal_double_exchange()
{
    if (mtl.family < FAMILY_APPLE6)
        wrong("kernel %s: an exchange in a simdgroup on a GPU of family Apple%ld", running,
              mtl.family - FAMILY_APPLE);
}
