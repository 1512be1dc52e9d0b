/* The double's classes: what Metal's objects promise, checked at each message. */
#include "double.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <string>

#include "common/dtype.h"

#include "block.h"
#include "kernel.h"
#include "objc_classes.h"

extern "C" const char metal_source[];

enum {
    MAX_BYTES = 4096,      /* of setBytes */
    MAX_BUFFERS = 31,      /* of an encoder */
    MAX_THREADS = 1024,    /* of a pipeline */
    MAX_SHARED = 32 << 10, /* threadgroup memory */
    OFFSET_ALIGN = 4,      /* least alignment of setBuffer's offset */
    FAMILY_APPLE7 = 1007,  /* M1 */
    BUFFER_ALIGN = 256,    /* of contents, and so of the guard behind them */
};
enum { NOT_ENQUEUED = 0, COMMITTED = 2, COMPLETED = 4, FAILED = 5 }; /* MTLCommandBufferStatus */
static const unsigned char GUARD = 0xa5;

/* Every object; the runtime owns the first member. */
struct object {
    Class isa;
    long refs;
    struct contents *of;
};

/* What an object holds; ended when it is released. */
struct contents {
    virtual ~contents() = default;
    virtual void check_release()
    {
    }
};

struct text : contents {
    std::string s;
    explicit text(const char *from) : s(from)
    {
    }
};

struct buffer : contents {
    char *map = nullptr, *data = nullptr;
    size_t mapped = 0, length = 0;
    uint64_t hash = 0;
    int in_use = 0; /* command buffers under way that use it */
    ~buffer() override;
    size_t guard_bytes() const
    {
        return (size_t)(map + mapped - (data + length));
    }
    bool intact() const
    {
        for (size_t i = 0; i < guard_bytes(); i++)
            if ((unsigned char)data[length + i] != GUARD)
                return false;
        return true;
    }
    uint64_t digest() const
    {
        uint64_t h = 1469598103934665603U;
        for (size_t i = 0; i < length; i++)
            h = (h ^ (unsigned char)data[i]) * 1099511628211U;
        return h;
    }
};

struct kernel_object : contents { /* a function or a pipeline */
    const metal_double_kernel *kernel;
    explicit kernel_object(const metal_double_kernel *k) : kernel(k)
    {
    }
};

struct bound_buffer {
    object *buffer;
    size_t off;
};

struct dispatch {
    const metal_double_kernel *kernel;
    std::vector<unsigned char> args;
    std::vector<bound_buffer> bound;
    dim3 groups, threads;
};

struct commands : contents {
    std::vector<dispatch> work;
    std::vector<object *> held; /* buffers, released when the work has ended */
    object *open = nullptr;     /* encoder */
    int status = NOT_ENQUEUED, polls = 0;
    std::string error;
    double start = 0, end = 0;
    void check_release() override;
};

struct encoder : contents {
    object *owner; /* retained command buffer */
    bool ended = false;
    const metal_double_kernel *pipeline = nullptr;
    std::map<unsigned long, bound_buffer> bound;
    std::map<unsigned long, std::vector<unsigned char>> bytes;
    explicit encoder(object *o) : owner(o)
    {
    }
    ~encoder() override;
    void check_release() override;
};

struct method {
    const char *selector, *types;
    IMP imp;
};

static struct {
    bool catching = false, check_writes = false, made = false;
    std::string first_error, told, fails;
    size_t max_buffer = (size_t)1 << 30, working_set = (size_t)4 << 30, allocated = 0, live = 0;
    long family = FAMILY_APPLE7;
    uint64_t seed = 0, n_commands = 0, n_dispatches = 0;
    std::deque<object *> queue; /* committed, retained, not run */
    std::map<object *, int> in_use;
    std::vector<std::vector<object *>> pools;
    std::map<std::string, std::string> signatures;
    std::map<std::string, Class> classes;
    std::map<const void *, std::string> was; /* released objects' classes */
} mtl;

__attribute__((format(printf, 1, 2))) static void wrong(const char *fmt, ...)
{
    char s[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(s, sizeof s, fmt, args);
    va_end(args);
    if (!mtl.catching) {
        fprintf(stderr, "double of Metal: %s\n", s);
        abort();
    }
    if (mtl.first_error.empty())
        mtl.first_error = s;
}

/* ---- objects ---- */

static object *obj(id o)
{
    return (object *)(void *)o;
}

static id ident(object *o)
{
    return (id)(void *)o;
}

template <typename T> static T *inside(id o)
{
    return static_cast<T *>(obj(o)->of);
}

static object *make(const char *name, contents *of)
{
    object *o = obj(class_createInstance(mtl.classes.at(name), sizeof(object) - sizeof(Class)));
    o->refs = 1;
    o->of = of;
    mtl.live++;
    return o;
}

static void retain(object *o)
{
    o->refs++;
}

/* The object stays as one of a class without methods: later messages are found. */
static void release(object *o)
{
    if (--o->refs > 0)
        return;
    o->of->check_release();
    mtl.was[o] = class_getName(class_of(o));
    object_setClass(ident(o), mtl.classes.at("released"));
    contents *of = o->of;
    o->of = nullptr;
    mtl.live--;
    delete of;
}

static id autorelease(object *o)
{
    if (mtl.pools.empty()) {
        wrong("an autoreleased %s without a pool", class_getName(o->isa));
        mtl.pools.emplace_back();
    }
    mtl.pools.back().push_back(o);
    return ident(o);
}

extern "C" void *objc_autoreleasePoolPush(void)
{
    mtl.pools.emplace_back();
    return (void *)(uintptr_t)mtl.pools.size();
}

extern "C" void objc_autoreleasePoolPop(void *pool)
{
    size_t n = (size_t)(uintptr_t)pool;
    if (n == 0 || n != mtl.pools.size()) {
        wrong("an autorelease pool that is not the innermost is ended");
        return;
    }
    std::vector<object *> all = mtl.pools.back();
    mtl.pools.pop_back();
    for (object *o : all)
        release(o);
}

static id no_method(id, SEL, ...)
{
    return nullptr;
}

static IMP unknown_message(id receiver, SEL sel)
{
    auto dead = mtl.was.find(receiver);
    if (dead != mtl.was.end())
        wrong("message %s to a released %s", sel_getName(sel), dead->second.c_str());
    else
        wrong("%s has no method %s", receiver ? class_getName(class_of(receiver)) : "nil",
              sel_getName(sel));
    return no_method;
}

static id any_retain(id self, SEL)
{
    retain(obj(self));
    return self;
}

static void any_release(id self, SEL)
{
    release(obj(self));
}

/* ---- strings and errors ---- */

static id string_make(id, SEL, const char *s)
{
    return autorelease(make("NSString", new text(s)));
}

static const char *string_utf8(id self, SEL)
{
    return inside<text>(self)->s.c_str();
}

static id error_description(id self, SEL)
{
    return autorelease(make("NSString", new text(inside<text>(self)->s.c_str())));
}

static void set_error(id *error, const char *s)
{
    if (error)
        *error = autorelease(make("NSError", new text(s)));
}

/* ---- buffers ---- */

buffer::~buffer()
{
    if (!intact())
        wrong("a kernel wrote beyond the end of a buffer of %zu bytes", length);
    if (map)
        munmap(map, mapped + (size_t)sysconf(_SC_PAGESIZE));
    mtl.allocated -= length;
}

static id device_new_buffer(id, SEL, unsigned long length, unsigned long options)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), held = (length + page - 1) / page * page;
    if (length == 0 || length > mtl.max_buffer || length > mtl.working_set - mtl.allocated)
        return nullptr;
    if (options != 0)
        wrong("a buffer with options %lu", options);
    void *map =
        mmap(nullptr, held + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return nullptr;
    mprotect((char *)map + held, page, PROT_NONE);
    buffer *b = new buffer;
    b->map = (char *)map;
    b->mapped = held;
    b->length = length;
    b->data =
        b->map + (held - length) / BUFFER_ALIGN * BUFFER_ALIGN; /* the guard is close behind */
    memset(b->data, 0xff, length); /* NaNs: Metal promises no contents */
    memset(b->data + length, GUARD, b->guard_bytes());
    mtl.allocated += length;
    return ident(make("MTLBuffer", b));
}

static void *buffer_contents(id self, SEL)
{
    return inside<buffer>(self)->data;
}

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

static bool run_dispatch(const dispatch &d, std::string *error)
{
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
    for (auto &u : mtl.in_use)
        if (mtl.check_writes && buffer_of(u.first)->digest() != buffer_of(u.first)->hash)
            wrong("a buffer of %zu bytes was written by the host while commands that use it are "
                  "under way",
                  buffer_of(u.first)->length);
}

static void hash_in_use()
{
    for (auto &u : mtl.in_use)
        if (mtl.check_writes)
            buffer_of(u.first)->hash = buffer_of(u.first)->digest();
}

static void run_first()
{
    object *o = mtl.queue.front();
    commands *c = static_cast<commands *>(o->of);
    mtl.queue.pop_front();
    check_in_use();
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
    if (n == 0 || n > MAX_THREADS || n % 32 != 0 || groups.width == 0 || groups.height == 0 ||
        groups.depth == 0) {
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

/* ---- device, library, pipelines ---- */

static id device_name(id, SEL)
{
    return autorelease(make("NSString", new text("emulated GPU")));
}

static unsigned char device_family(id, SEL, long family)
{
    return family <= mtl.family;
}

static unsigned char yes(id, SEL)
{
    return 1;
}

static unsigned long device_working_set(id, SEL)
{
    return mtl.working_set;
}

static unsigned long device_allocated(id, SEL)
{
    return mtl.allocated;
}

static unsigned long device_max_buffer(id, SEL)
{
    return mtl.max_buffer;
}

static id device_new_queue(id, SEL)
{
    return ident(make("MTLCommandQueue", new contents));
}

struct options : contents {
    bool safe = false;
};

static id options_new(id, SEL)
{
    return ident(make("MTLCompileOptions", new options));
}

static void options_math(id self, SEL, long mode)
{
    inside<options>(self)->safe = mode == 0;
}

static void options_fast(id self, SEL, unsigned char on)
{
    inside<options>(self)->safe = !on;
}

static unsigned char options_responds(id self, SEL, SEL sel)
{
    (void)self;
    return strcmp(sel_getName(sel), "setMathMode:") == 0;
}

static id device_new_library(id, SEL, id source, id opts, id *error)
{
    if (!opts || !inside<options>(opts)->safe)
        wrong("the kernels are compiled with fast math");
    if (inside<text>(source)->s != metal_source) {
        set_error(error, "the source is not that of the kernels which the double runs");
        return nullptr;
    }
    return ident(make("MTLLibrary", new contents));
}

static id library_new_function(id, SEL, id name)
{
    for (const metal_double_kernel &k : metal_double_kernels())
        if (inside<text>(name)->s == k.name)
            return ident(make("MTLFunction", new kernel_object(&k)));
    return nullptr;
}

static id device_new_pipeline(id, SEL, id function, id *error)
{
    if (!function) {
        set_error(error, "no function");
        return nullptr;
    }
    return ident(make("MTLComputePipelineState",
                      new kernel_object(inside<kernel_object>(function)->kernel)));
}

static unsigned long pipeline_width(id, SEL)
{
    return 32;
}

static unsigned long pipeline_threads(id, SEL)
{
    return MAX_THREADS;
}

/* ---- the classes ---- */

#define METHOD(selector, types, fn)                                                                \
    {                                                                                              \
        selector, types, (IMP)(void (*)(void))fn                                                   \
    }

static void add_methods(Class c, const std::vector<method> &all)
{
    for (const method &m : all) {
        std::string types(1, m.types[0]);
        types += "@:";
        for (const char *t = m.types + 1; *t; t++)
            types += *t == 'S' ? std::string("{?=QQQ}") : std::string(1, *t);
        class_addMethod(c, sel_registerName(m.selector), m.imp, types.c_str());
        mtl.signatures[m.selector] = m.types;
    }
}

static void make_class(const char *name, const std::vector<method> &of_objects,
                       const std::vector<method> &of_class = {})
{
    Class c = objc_allocateClassPair(nullptr, name, 0);
    class_addIvar(c, "isa", sizeof(Class), 3, "#");
    add_methods(c, {METHOD("retain", "@", any_retain), METHOD("release", "v", any_release)});
    add_methods(c, of_objects);
    objc_registerClassPair(c);
    add_methods(class_of(c), of_class);
    mtl.classes[name] = c;
}

static void make_classes()
{
    if (mtl.made)
        return;
    mtl.made = true;
    if (const char *seed = getenv("INGOT_EMULATE_SEED"))
        mtl.seed = strtoull(seed, nullptr, 10);
    __objc_msg_forward2 = unknown_message;
    Class released = objc_allocateClassPair(nullptr, "released", 0);
    class_addIvar(released, "isa", sizeof(Class), 3, "#");
    objc_registerClassPair(released);
    mtl.classes["released"] = released;
    make_class("NSString", {METHOD("UTF8String", "*", string_utf8)},
               {METHOD("stringWithUTF8String:", "@*", string_make)});
    make_class("NSError", {METHOD("localizedDescription", "@", error_description)});
    make_class("MTLCompileOptions",
               {METHOD("setMathMode:", "vq", options_math),
                METHOD("setFastMathEnabled:", "vB", options_fast),
                METHOD("respondsToSelector:", "B:", options_responds)},
               {METHOD("new", "@", options_new)});
    make_class("MTLDevice",
               {METHOD("name", "@", device_name), METHOD("supportsFamily:", "Bq", device_family),
                METHOD("hasUnifiedMemory", "B", yes),
                METHOD("recommendedMaxWorkingSetSize", "Q", device_working_set),
                METHOD("currentAllocatedSize", "Q", device_allocated),
                METHOD("maxBufferLength", "Q", device_max_buffer),
                METHOD("newCommandQueue", "@", device_new_queue),
                METHOD("newLibraryWithSource:options:error:", "@@@^", device_new_library),
                METHOD("newComputePipelineStateWithFunction:error:", "@@^", device_new_pipeline),
                METHOD("newBufferWithLength:options:", "@QQ", device_new_buffer)});
    make_class("MTLLibrary", {METHOD("newFunctionWithName:", "@@", library_new_function)});
    make_class("MTLFunction", {});
    make_class("MTLComputePipelineState",
               {METHOD("threadExecutionWidth", "Q", pipeline_width),
                METHOD("maxTotalThreadsPerThreadgroup", "Q", pipeline_threads)});
    make_class("MTLCommandQueue", {METHOD("commandBuffer", "@", queue_command_buffer)});
    make_class("MTLBuffer", {METHOD("contents", "^", buffer_contents)});
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

extern "C" id MTLCreateSystemDefaultDevice(void)
{
    make_classes();
    return mtl.family ? ident(make("MTLDevice", new contents)) : nullptr;
}

/* ---- for tests ---- */

void metal_double_seed(uint64_t seed)
{
    mtl.seed = seed;
}

void metal_double_catch(bool on)
{
    mtl.catching = on;
    mtl.first_error.clear();
}

const char *metal_double_error(void)
{
    mtl.told = mtl.first_error;
    mtl.first_error.clear();
    return mtl.told.empty() ? nullptr : mtl.told.c_str();
}

void metal_double_limits(size_t max_buffer, size_t working_set)
{
    mtl.max_buffer = max_buffer;
    mtl.working_set = working_set;
}

void metal_double_family(long family)
{
    mtl.family = family;
}

void metal_double_fail(const char *kernel)
{
    mtl.fails = kernel ? kernel : "";
}

void metal_double_check_writes(bool on)
{
    mtl.check_writes = on;
}

size_t metal_double_live(void)
{
    return mtl.live;
}

uint64_t metal_double_commands(void)
{
    return mtl.n_commands;
}

uint64_t metal_double_dispatches(void)
{
    return mtl.n_dispatches;
}

const char *metal_double_signature(const char *selector)
{
    make_classes();
    auto found = mtl.signatures.find(selector);
    return found == mtl.signatures.end() ? nullptr : found->second.c_str();
}
