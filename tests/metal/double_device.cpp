/* The double's device, buffers, library and pipelines. */
#include "double_objects.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern "C" const char metal_source[];

namespace metal_double
{

/* ---- buffers ---- */

/* Are all its pages mapped? */
static bool is_mapped(void *data, size_t length)
{
    std::vector<unsigned char> in_core(length / (size_t)sysconf(_SC_PAGESIZE) + 1);
    return mincore(data, length, in_core.data()) == 0;
}

void buffer::check_memory() const
{
    if (!of_caller)
        return;
    if (!is_mapped(data, length))
        wrong("the memory under a buffer of %zu bytes is gone", length);
    else if (digest() != first)
        wrong("the memory under a buffer of %zu bytes has changed", length);
}

buffer::~buffer()
{
    check_memory();
    if (!intact())
        wrong("a kernel wrote beyond the end of a buffer of %zu bytes", length);
    if (map)
        munmap(map, mapped + (size_t)sysconf(_SC_PAGESIZE));
    mtl.allocated -= length;
    mtl.n_buffers--;
}

static id device_new_buffer(id, SEL, unsigned long length, unsigned long options)
{
    check_seal("buffer");
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
    mtl.n_buffers++;
    return ident(make("MTLBuffer", b));
}

/* Over the caller's memory, which it keeps. */
static id device_map_buffer(id, SEL, void *data, unsigned long length, unsigned long options,
                            id deallocator)
{
    check_seal("buffer");
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (options != 0 || deallocator)
        wrong("a buffer over memory with options %lu%s", options, deallocator ? ", to be freed" : "");
    if ((uintptr_t)data % page != 0 || length % page != 0 || length == 0) {
        wrong("a buffer over %lu bytes at %p: pages have %zu", length, data, page);
        return nullptr;
    }
    if (length > mtl.max_buffer || length > mtl.working_set - mtl.allocated)
        return nullptr;
    if (!is_mapped(data, length)) {
        wrong("a buffer over %lu bytes that are not mapped", length);
        return nullptr;
    }
    buffer *b = new buffer;
    b->of_caller = true;
    b->data = (char *)data;
    b->length = length;
    b->first = b->digest();
    mtl.allocated += length;
    mtl.n_buffers++;
    return ident(make("MTLBuffer", b));
}

static void *buffer_contents(id self, SEL)
{
    return inside<buffer>(self)->data;
}

/* ---- device, library, pipelines ---- */

unsigned long threads_of(const metal_double_kernel *k)
{
    return strncmp(k->name, "matrix_", 7) == 0 ? mtl.matrix_threads : mtl.max_threads;
}

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
    if (!mtl.math_mode)
        wrong("MTLCompileOptions has no method setMathMode:");
    inside<options>(self)->safe = mode == 0;
}

static void options_fast(id self, SEL, unsigned char on)
{
    inside<options>(self)->safe = !on;
}

static unsigned char options_responds(id self, SEL, SEL sel)
{
    (void)self;
    return mtl.math_mode && strcmp(sel_getName(sel), "setMathMode:") == 0;
}

struct library : contents {
    const std::vector<metal_double_kernel> &kernels;
    explicit library(const std::vector<metal_double_kernel> &all) : kernels(all)
    {
    }
};

static id device_new_library(id, SEL, id source, id opts, id *error)
{
    check_seal("library");
    if (!opts || !inside<options>(opts)->safe)
        wrong("the kernels are compiled with fast math");
    for (const metal_double_text &t : metal_double_texts())
        if (inside<text>(source)->s == t.source)
            return ident(make("MTLLibrary", new library(t.kernels())));
    set_error(error, "the source is not that of the kernels which the double runs");
    return nullptr;
}

static id library_new_function(id self, SEL, id name)
{
    for (const metal_double_kernel &k : inside<library>(self)->kernels)
        if (inside<text>(name)->s == k.name)
            return ident(make("MTLFunction", new kernel_object(&k)));
    return nullptr;
}

static id device_new_pipeline(id, SEL, id function, id *error)
{
    check_seal("pipeline");
    if (!function) {
        set_error(error, "no function");
        return nullptr;
    }
    mtl.n_pipelines++;
    mtl.n_compiled++;
    return ident(make("MTLComputePipelineState",
                      new kernel_object(inside<kernel_object>(function)->kernel)));
}

static unsigned long pipeline_width(id, SEL)
{
    return mtl.simd_width;
}

static unsigned long pipeline_threads(id self, SEL)
{
    return threads_of(inside<kernel_object>(self)->kernel);
}

/* ---- the classes ---- */

void make_device_classes()
{
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
                METHOD("newBinaryArchiveWithDescriptor:error:", "@@^", device_new_archive),
                METHOD("newComputePipelineStateWithDescriptor:options:reflection:error:", "@@Q^^",
                       device_pipeline_of),
                METHOD("newBufferWithLength:options:", "@QQ", device_new_buffer),
                METHOD("newBufferWithBytesNoCopy:length:options:deallocator:", "@^QQ@",
                       device_map_buffer)});
    make_class("MTLLibrary", {METHOD("newFunctionWithName:", "@@", library_new_function)});
    make_class("MTLFunction", {});
    make_class("MTLComputePipelineState",
               {METHOD("threadExecutionWidth", "Q", pipeline_width),
                METHOD("maxTotalThreadsPerThreadgroup", "Q", pipeline_threads)});
    make_class("MTLBuffer", {METHOD("contents", "^", buffer_contents)});
}

} // namespace metal_double

std::vector<metal_double_text> &metal_double_texts()
{
    static std::vector<metal_double_text> all = {{metal_source, metal_double_kernels}};
    return all;
}

extern "C" id MTLCreateSystemDefaultDevice(void)
{
    make_classes();
    return mtl.family ? ident(make("MTLDevice", new contents)) : nullptr;
}
