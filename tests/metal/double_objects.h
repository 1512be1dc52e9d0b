/* What the double's files share: its objects, its state, and what they call of each other. */
#ifndef METAL_DOUBLE_OBJECTS_H
#define METAL_DOUBLE_OBJECTS_H

#include "double.h"

#include <string.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "block.h"
#include "kernel.h"
#include "objc_classes.h"

namespace metal_double
{

enum {
    MAX_BYTES = 4096,      /* of setBytes */
    MAX_BUFFERS = 31,      /* of an encoder */
    MAX_SHARED = 32 << 10, /* threadgroup memory */
    FAMILY_APPLE = 1000,   /* MTLGPUFamily: Apple5 is 1005 */
    FAMILY_APPLE6 = 1006,  /* the first with exchanges in a simdgroup */
    FAMILY_APPLE7 = 1007,  /* M1 */
    BUFFER_ALIGN = 256,    /* of contents, and so of the guard behind them */
};
enum { NOT_ENQUEUED = 0, COMMITTED = 2, COMPLETED = 4, FAILED = 5 }; /* MTLCommandBufferStatus */
const unsigned char GUARD = 0xa5;

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
    bool of_caller = false; /* its memory, which had the digest `first` */
    uint64_t first = 0;
    ~buffer() override;
    size_t guard_bytes() const
    {
        return of_caller ? 0 : (size_t)(map + mapped - (data + length));
    }
    /* The caller's memory is there, and as it was. */
    void check_memory() const;
    bool intact() const
    {
        for (size_t i = 0; i < guard_bytes(); i++)
            if ((unsigned char)data[length + i] != GUARD)
                return false;
        return true;
    }
    uint64_t digest() const
    {
        uint64_t h = 1469598103934665603U, word = 0;
        for (size_t i = 0; i < length; i += sizeof word) {
            memcpy(&word, data + i, length - i < sizeof word ? length - i : sizeof word);
            h = (h ^ word) * 1099511628211U;
        }
        return h;
    }
};

struct kernel_object : contents { /* a function or a pipeline */
    const metal_double_kernel *kernel;
    explicit kernel_object(const metal_double_kernel *k) : kernel(k)
    {
    }
};

struct archive : contents {            /* of pipelines, by their kernels' names */
    std::set<std::string> kept, added; /* those of its file, and the others */
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

struct state {
    bool catching = false, check_writes = false, made = false, sealed = false;
    bool seal_at_commit = false, math_mode = true;
    enum metal_double_break broken = MATRICES_KEEP;
    unsigned long simd_width = 32, max_threads = 256; /* of pipelines */
    unsigned long matrix_threads = 256;
    bool archives_refused = false;
    std::string first_error, told, fails, fail_file, os_build = "Version 14.5 (Build 23F79)";
    size_t max_buffer = (size_t)1 << 30, working_set = (size_t)4 << 30, allocated = 0, live = 0;
    size_t n_buffers = 0;
    long family = FAMILY_APPLE7;
    uint64_t seed = 0, matrices_seed = 0, n_commands = 0, n_dispatches = 0, n_pipelines = 0;
    uint64_t n_compiled = 0, n_taken = 0;
    std::deque<object *> queue; /* committed, retained, not run */
    std::map<object *, int> in_use;
    std::vector<std::vector<object *>> pools;
    std::map<std::string, std::string> signatures;
    std::map<std::string, Class> classes;
    std::map<const void *, std::string> was; /* released objects' classes */
};
extern state mtl;

/* A mistake of the caller: the first is kept, or ends the program. */
__attribute__((format(printf, 1, 2))) void wrong(const char *fmt, ...);

inline object *obj(id o)
{
    return (object *)(void *)o;
}

inline id ident(object *o)
{
    return (id)(void *)o;
}

template <typename T> T *inside(id o)
{
    return static_cast<T *>(obj(o)->of);
}

object *make(const char *name, contents *of);
void retain(object *o);
void release(object *o);
id autorelease(object *o);
/* Most threads of a group of the kernel's pipeline. */
unsigned long threads_of(const metal_double_kernel *k);
/* `what` is about to be made: wrong when all should have been. */
void check_seal(const char *what);
void set_error(id *error, const char *s);

#define METHOD(selector, types, fn)                                                                \
    {                                                                                              \
        selector, types, (IMP)(void (*)(void))fn                                                   \
    }

void make_class(const char *name, const std::vector<method> &of_objects,
                const std::vector<method> &of_class = {});
void make_classes();        /* all, once */
void make_work_classes();   /* command buffers and encoders */
void make_device_classes(); /* the device, and what it makes but command buffers */
void make_archive_classes();
/* Of the device. */
id device_new_archive(id, SEL, id descriptor, id *error);
id device_pipeline_of(id, SEL, id descriptor, unsigned long options, id *reflection, id *error);

} // namespace metal_double

using namespace metal_double;

#endif
