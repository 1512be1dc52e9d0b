#define _GNU_SOURCE /* truncate under strict C */
/* The double of Metal is strict: each planted mistake is caught and named, and the host's table of
 * messages has the double's signatures. */
#include "double.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/metal/objc.h"
#include "temp_dir.h"

/* A device, a queue, a pipeline of one kernel, a buffer: what a dispatch of zero_bytes needs. */
struct rig {
    void *pool;
    id device, queue, library, pipeline, buffer; /* of 1,000 bytes */
};

static id string_of(const char *s)
{
    return MTL(string, mtl_class("NSString"), s);
}

static id library_of(id device)
{
    id error = NULL, options = MTL_GET(new_object, mtl_class("MTLCompileOptions"));
    MTL(set_math_mode, options, 0);
    id library = MTL(new_library, device, string_of(metal_source), options, &error);
    MTL_GET(release, options);
    return library;
}

static struct rig open_rig(void)
{
    struct rig r = {0};
    id error = NULL;
    mtl_register();
    metal_double_catch(true);
    r.device = MTLCreateSystemDefaultDevice();
    r.pool = objc_autoreleasePoolPush();
    r.queue = MTL_GET(new_queue, r.device);
    r.library = library_of(r.device);
    id function = MTL(new_function, r.library, string_of("zero_bytes"));
    r.pipeline = MTL(new_pipeline, r.device, function, &error);
    MTL_GET(release, function);
    r.buffer = MTL(new_buffer, r.device, 1000, 0);
    cr_assert_null(metal_double_error());
    cr_assert(r.queue && r.library && r.pipeline && r.buffer);
    return r;
}

static void caught(const char *what)
{
    const char *error = metal_double_error();
    cr_assert_not_null(error, "not caught: %s", what);
    cr_assert_not_null(strstr(error, what), "'%s' does not say '%s'", error, what);
}

static id open_encoder(const struct rig *r, id *commands)
{
    *commands = MTL_GET(command_buffer, r->queue);
    id e = MTL_GET(encoder, *commands);
    MTL(set_pipeline, e, r->pipeline);
    return e;
}

static const struct metal_move_args whole = {.n_bytes = 1000, .dst_step = 1000};

static void bind(id e, const struct rig *r, const struct metal_move_args *args)
{
    MTL(set_bytes, e, args, sizeof *args, 0);
    MTL(set_buffer, e, r->buffer, 0, 1);
}

static void dispatch(id e, unsigned long groups, unsigned long threads)
{
    MTL(dispatch, e, ((struct mtl_size){groups, 1, 1}), ((struct mtl_size){threads, 1, 1}));
}

static void finish(id e, id commands)
{
    MTL_GET(end_encoding, e);
    MTL_GET(commit, commands);
    MTL_GET(wait, commands);
}

/* The signature of C types: their codes, the receiver's and the selector's left out. */
#define CODE(type)                                                                                 \
    _Generic((type *)0, void *: 'v', id *: '@', SEL *: ':', bool *: 'B', long *: 'q',              \
             unsigned long *: 'Q', double *: 'd', const char **: '*', void **: '^',                \
             const void **: '^', id **: '^', struct mtl_size *: 'S')
#define CODES_2(a, b) CODE(a), CODE(b), 0
#define CODES_3(a, b, c) CODE(a), CODE(b), CODE(c), 0
#define CODES_4(a, b, c, d) CODE(a), CODE(b), CODE(c), CODE(d), 0
#define CODES_5(a, b, c, d, e) CODE(a), CODE(b), CODE(c), CODE(d), CODE(e), 0
#define CODES_6(a, b, c, d, e, f) CODE(a), CODE(b), CODE(c), CODE(d), CODE(e), CODE(f), 0
#define PICK(a, b, c, d, e, f, g, ...) g
#define CODES(...) PICK(__VA_ARGS__, CODES_6, CODES_5, CODES_4, CODES_3, CODES_2, 0)(__VA_ARGS__)

static const struct {
    char result, arguments[7];
} of_types[N_MTL_MESSAGES] = {
#define ROW(name, type, selector, signature, ...) [MTL_##name] = {CODE(type), {CODES(__VA_ARGS__)}},
    MTL_MESSAGES(ROW)
#undef ROW
};

Test(metal_double, signatures_are_those_of_the_types)
{
    for (int i = 0; i < N_MTL_MESSAGES; i++) {
        const char *selector = mtl_messages[i].selector, *signature = mtl_messages[i].signature;
        cr_assert_eq(of_types[i].result, signature[0], "%s", selector);
        cr_assert_eq(strncmp(of_types[i].arguments, "@:", 2), 0, "%s", selector);
        cr_assert_str_eq(of_types[i].arguments + 2, signature + 1, "%s", selector);
    }
}

Test(metal_double, messages_have_the_signatures_of_the_host)
{
    mtl_register();
    for (int i = 0; i < N_MTL_MESSAGES; i++) {
        const char *have = metal_double_signature(mtl_messages[i].selector);
        cr_assert_not_null(have, "no class has %s", mtl_messages[i].selector);
        cr_assert_str_eq(have, mtl_messages[i].signature, "%s", mtl_messages[i].selector);
        size_t colons = 0;
        for (const char *s = mtl_messages[i].selector; *s; s++)
            colons += *s == ':';
        cr_assert_eq(strlen(have) - 1, colons, "%s", mtl_messages[i].selector);
    }
}

Test(metal_double, a_right_dispatch_is_none)
{
    struct rig r = open_rig();
    id commands, e = open_encoder(&r, &commands);
    memset(MTL_GET(contents, r.buffer), 1, 1000);
    bind(e, &r, &whole);
    dispatch(e, 1, 256);
    finish(e, commands);
    cr_assert_null(metal_double_error());
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(((char *)MTL_GET(contents, r.buffer))[i], 0);
    cr_assert_eq(MTL_GET(buffer_status, commands), 4);
    objc_autoreleasePoolPop(r.pool);
    MTL_GET(release, r.buffer);
    MTL_GET(release, r.pipeline);
    MTL_GET(release, r.library);
    MTL_GET(release, r.queue);
    MTL_GET(release, r.device);
    cr_assert_eq(metal_double_live(), 0);
    cr_assert_null(metal_double_error());
}

Test(metal_double, messages_and_objects)
{
    struct rig r = open_rig();
    MTL_GET(commit, r.buffer);
    caught("MTLBuffer has no method commit");
    MTL_GET(release, r.buffer);
    MTL_GET(contents, r.buffer);
    caught("message contents to a released MTLBuffer");
    MTL_GET(release, r.buffer);
    caught("message release to a released MTLBuffer");
    objc_autoreleasePoolPop(r.pool);
    MTL_GET(command_buffer, r.queue);
    caught("an autoreleased MTLCommandBuffer without a pool");
    objc_autoreleasePoolPop(r.pool); /* twice */
    objc_autoreleasePoolPop((void *)7);
    caught("autorelease pool");
}

Test(metal_double, command_buffers_and_encoders)
{
    struct rig r = open_rig();
    id commands, e = open_encoder(&r, &commands);
    MTL_GET(commit, commands);
    caught("commit while an encoder is open");
    MTL_GET(encoder, commands);
    caught("two encoders");
    objc_autoreleasePoolPop(r.pool);
    caught("released without endEncoding");
    r.pool = objc_autoreleasePoolPush();
    e = open_encoder(&r, &commands);
    MTL_GET(wait, commands);
    caught("a wait for a command buffer that is not committed");
    MTL_GET(end_encoding, e);
    MTL(set_pipeline, e, r.pipeline);
    caught("setComputePipelineState after endEncoding");
    MTL_GET(commit, commands);
    MTL_GET(commit, commands);
    caught("committed twice");
    MTL_GET(encoder, commands);
    caught("an encoder of a command buffer that is committed");
}

Test(metal_double, arguments_of_a_dispatch)
{
    struct rig r = open_rig();
    id commands = MTL_GET(command_buffer, r.queue), e = MTL_GET(encoder, commands);
    dispatch(e, 1, 32);
    caught("a dispatch without a pipeline");
    MTL(set_pipeline, e, r.pipeline);
    dispatch(e, 1, 32);
    caught("zero_bytes: 0 bytes of arguments");
    MTL(set_bytes, e, &whole, sizeof whole - 4, 0);
    dispatch(e, 1, 32);
    caught("zero_bytes: 8 bytes of arguments, its struct has 12");
    MTL(set_bytes, e, &whole, 5000, 0);
    caught("setBytes of 5000 bytes");
    MTL(set_bytes, e, &whole, sizeof whole, 0);
    dispatch(e, 1, 32);
    caught("argument 1 is not bound");
    MTL(set_buffer, e, r.buffer, 1000, 1);
    caught("offset 1000 of 1000 bytes");
    MTL(set_buffer, e, NULL, 0, 1);
    caught("setBuffer at index 1");
    MTL(set_buffer, e, r.buffer, 0, 31);
    caught("setBuffer at index 31");
    MTL(set_buffer, e, r.buffer, 0, 1);
    dispatch(e, 1, 33);
    caught("groups of 33 threads");
    dispatch(e, 1, 288);
    caught("groups of 288 threads");
    metal_double_pipelines(32, 1024);
    dispatch(e, 1, 1056);
    caught("groups of 1056 threads");
    dispatch(e, 0, 32);
    caught("0 x 1 x 1 groups");
    id dead = MTL(new_buffer, r.device, 16, 0);
    MTL_GET(release, dead);
    MTL(set_buffer, e, dead, 0, 1);
    caught("setBuffer of a released MTLBuffer");
    finish(e, commands);
    cr_assert_null(metal_double_error());
}

Test(metal_double, offsets_are_aligned_to_elements)
{
    struct rig r = open_rig();
    id error = NULL, function = MTL(new_function, r.library, string_of("scale"));
    id commands = MTL_GET(command_buffer, r.queue), e = MTL_GET(encoder, commands);
    struct metal_rows_args args = {.n = 1, .out_stride = 1, .factor = 1};
    MTL(set_pipeline, e, MTL(new_pipeline, r.device, function, &error));
    MTL(set_bytes, e, &args, sizeof args, 0);
    MTL(set_buffer, e, r.buffer, 2, 1);
    dispatch(e, 1, 32);
    caught("offset 2 of elements of 4 bytes");
    finish(e, commands);
}

Test(metal_double, buffers)
{
    struct rig r = open_rig();
    metal_double_limits(1 << 20, 2 << 20);
    cr_assert_null(MTL(new_buffer, r.device, (1 << 20) + 1, 0));
    cr_assert_not_null(MTL(new_buffer, r.device, 1 << 20, 0));
    cr_assert_null(MTL(new_buffer, r.device, 1 << 20, 0)); /* of the working set */
    MTL(new_buffer, r.device, 16, 32);
    caught("options 32");
    id commands, e = open_encoder(&r, &commands);
    struct metal_move_args longer = {.n_bytes = 1004, .dst_step = 1004};
    bind(e, &r, &longer);
    dispatch(e, 1, 256);
    finish(e, commands);
    caught("kernel zero_bytes wrote beyond the end");
}

/* Over memory of the caller's. */
Test(metal_double, buffers_over_memory)
{
    struct rig r = open_rig();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *m = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(m, MAP_FAILED);
    MTL(map_buffer, r.device, m + 64, page, 0, NULL);
    caught("pages have");
    MTL(map_buffer, r.device, m, page + 64, 0, NULL);
    caught("pages have");
    MTL(map_buffer, r.device, m, page, 16, NULL);
    caught("with options 16");
    MTL(map_buffer, r.device, m, page, 0, r.queue);
    caught("to be freed");
    metal_double_limits(3 * page, 1 << 20);
    cr_assert_null(MTL(map_buffer, r.device, m, 4 * page, 0, NULL));
    id b = MTL(map_buffer, r.device, m, 3 * page, 0, NULL);
    cr_assert_eq(MTL_GET(contents, b), m);
    MTL_GET(release, b);
    cr_assert_null(metal_double_error());
    b = MTL(map_buffer, r.device, m, 3 * page, 0, NULL);
    id commands, e = open_encoder(&r, &commands);
    MTL(set_bytes, e, &whole, sizeof whole, 0);
    MTL(set_buffer, e, b, page, 1);
    dispatch(e, 1, 256);
    MTL_GET(end_encoding, e);
    m[page] = 1;
    MTL_GET(commit, commands);
    MTL_GET(wait, commands); /* zeros again, by the kernel */
    caught("has changed");
    m[page] = 0;
    munmap(m, 4 * page);
    MTL_GET(release, b);
    caught("is gone");
    MTL(map_buffer, r.device, m, page, 0, NULL);
    caught("not mapped");
}

Test(metal_double, writes_while_commands_are_under_way)
{
    struct rig r = open_rig();
    id commands, e = open_encoder(&r, &commands);
    metal_double_check_writes(true);
    bind(e, &r, &whole);
    dispatch(e, 1, 256);
    MTL_GET(end_encoding, e);
    MTL_GET(commit, commands);
    ((char *)MTL_GET(contents, r.buffer))[5] = 1;
    MTL_GET(wait, commands);
    caught("written by the host while commands that use it are under way");
}

Test(metal_double, what_is_made_behind_the_start)
{
    struct rig r = open_rig();
    id error = NULL, function = MTL(new_function, r.library, string_of("scale"));
    metal_double_seal(true);
    MTL(new_buffer, r.device, 16, 0);
    caught("a buffer is made after the start");
    MTL(new_pipeline, r.device, function, &error);
    caught("a pipeline is made after the start");
    library_of(r.device);
    caught("a library is made after the start");
    metal_double_seal(false);
    MTL(new_buffer, r.device, 16, 0);
    cr_assert_null(metal_double_error());
}

Test(metal_double, libraries)
{
    struct rig r = open_rig();
    id error = NULL, options = MTL_GET(new_object, mtl_class("MTLCompileOptions"));
    MTL(set_fast_math, options, true);
    MTL(new_library, r.device, string_of(metal_source), options, &error);
    caught("fast math");
    MTL(set_fast_math, options, false);
    cr_assert_null(MTL(new_library, r.device, string_of("kernel void f() {}"), options, &error));
    cr_assert_not_null(error);
    cr_assert_null(MTL(new_function, r.library, string_of("no_such_kernel")));
    cr_assert_null(metal_double_error());
    metal_double_without_math_mode(true);
    cr_assert_not(MTL(responds, options, mtl_selector[MTL_set_math_mode]));
    MTL(set_math_mode, options, 0);
    caught("no method setMathMode:");
}

/* A descriptor of the pipeline of a kernel, with the archive. */
static id pipeline_in(const struct rig *r, const char *kernel, id archive)
{
    id d = MTL_GET(new_object, mtl_class("MTLComputePipelineDescriptor"));
    MTL(set_function, d, MTL(new_function, r->library, string_of(kernel)));
    MTL(set_archives, d, MTL(array_of_one, mtl_class("NSArray"), archive));
    return d;
}

static id archive_at(const struct rig *r, const char *path, id *error)
{
    id d = MTL_GET(new_object, mtl_class("MTLBinaryArchiveDescriptor"));
    if (path)
        MTL(set_url, d, MTL(file_url, mtl_class("NSURL"), string_of(path)));
    return MTL(new_archive, r->device, d, error);
}

static bool write_archive(id archive, const char *path)
{
    id error = NULL;
    bool ok = MTL(serialize, archive, MTL(file_url, mtl_class("NSURL"), string_of(path)), &error);
    cr_assert_eq(ok, error == NULL);
    return ok;
}

Test(metal_double, archives)
{
    char dir[32], path[64], nowhere[64];
    struct rig r = open_rig();
    id error = NULL, archive = archive_at(&r, NULL, &error), d = pipeline_in(&r, "scale", archive);
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/archive", dir);
    snprintf(nowhere, sizeof nowhere, "%s/missing/archive", dir);
    uint64_t compiled = metal_double_compiled();
    cr_assert_null(MTL(pipeline_of, r.device, d, 4, NULL, &error));
    cr_assert_not_null(error);
    cr_assert_eq(metal_double_compiled(), compiled);
    cr_assert(MTL(add_to_archive, archive, d, &error));
    cr_assert_not_null(MTL(pipeline_of, r.device, d, 4, NULL, &error));
    cr_assert_eq(metal_double_compiled(), compiled + 1);
    cr_assert_eq(metal_double_taken(), 0);
    cr_assert_null(metal_double_error());
    MTL(add_to_archive, archive, d, &error);
    caught("kernel scale is in the archive already");
    cr_assert_not(write_archive(archive, nowhere));
    cr_assert(write_archive(archive, path));
    archive = archive_at(&r, path, &error);
    d = pipeline_in(&r, "scale", archive);
    cr_assert_not_null(MTL(pipeline_of, r.device, d, 4, NULL, &error));
    cr_assert_eq(metal_double_taken(), 1);
    MTL(add_to_archive, archive, d, &error);
    caught("in the archive already");
    MTL(pipeline_of, r.device, d, 8, NULL, &error);
    caught("options 8");
    metal_double_os_build("another");
    archive_at(&r, path, &error);
    caught("is opened on another");
    temp_dir_remove(dir);
}

/* A file that lacks its end, has a byte changed, is empty or is not there. */
Test(metal_double, damaged_archives_are_errors)
{
    char dir[32], path[64], bytes[256];
    struct rig r = open_rig();
    id error = NULL, archive = archive_at(&r, NULL, &error);
    temp_dir_make(dir);
    snprintf(path, sizeof path, "%s/archive", dir);
    cr_assert_null(archive_at(&r, path, &error));
    cr_assert(MTL(add_to_archive, archive, pipeline_in(&r, "scale", archive), &error));
    cr_assert(write_archive(archive, path));
    FILE *f = fopen(path, "r+b");
    size_t n = fread(bytes, 1, sizeof bytes, f);
    for (size_t i = 0; i < n; i++) {
        char other = (char)(bytes[i] ^ 1);
        cr_assert(fseek(f, (long)i, SEEK_SET) == 0 && fwrite(&other, 1, 1, f) == 1);
        fflush(f);
        error = NULL;
        cr_assert_null(archive_at(&r, path, &error), "byte %zu", i);
        cr_assert_not_null(error);
        cr_assert(fseek(f, (long)i, SEEK_SET) == 0 && fwrite(&bytes[i], 1, 1, f) == 1);
    }
    fflush(f);
    cr_assert_not_null(archive_at(&r, path, &error));
    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(truncate(path, (off_t)(n - 1 - i)), 0);
        cr_assert_null(archive_at(&r, path, &error), "%zu bytes", n - 1 - i);
    }
    fclose(f);
    cr_assert_null(metal_double_error());
    temp_dir_remove(dir);
}

Test(metal_double, released_objects_of_archives)
{
    struct rig r = open_rig();
    id error = NULL, archive = archive_at(&r, NULL, &error), d = pipeline_in(&r, "scale", archive);
    id function = MTL(new_function, r.library, string_of("scale"));
    MTL_GET(release, function);
    MTL(set_function, d, function);
    caught("setComputeFunction of a released MTLFunction");
    MTL_GET(release, archive); /* the descriptor has it still */
    cr_assert(MTL(add_to_archive, archive, d, &error));
    MTL_GET(release, d);
    objc_autoreleasePoolPop(r.pool);
    MTL(add_to_archive, archive, d, &error);
    caught("to a released MTLBinaryArchive");
    r.pool = objc_autoreleasePoolPush();
    MTL(array_of_one, mtl_class("NSArray"), archive);
    caught("arrayWithObject of a released MTLBinaryArchive");
}
