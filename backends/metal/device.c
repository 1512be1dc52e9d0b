/* The device, its queue and the pipelines of kernels, made from the text in the binary: those that every model needs
 * when the device is opened, the others with the model's weights and in `prepare`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/metal/archive.h"
#include "backends/metal/metal_backend.h"
#include "backends/metal/objc.h"

enum {
    FAMILY_APPLE7 = 1007,     /* MTLGPUFamilyApple7: M1 and A14 */
    FAMILY_APPLE_LAST = 1099, /* of those that there will be */
    MATH_MODE_SAFE = 0,       /* MTLMathModeSafe */
    SHARED_STORAGE = 0,       /* MTLResourceStorageModeShared, tracked hazards */
};

const char *const metal_kernel_names[N_METAL_KERNELS] = {
#define METAL_NAME(name) [KERNEL_##name] = #name,
    METAL_KERNELS(METAL_NAME)
#undef METAL_NAME
};

/* INGOT_METAL_GPU=any takes older GPUs, too, for tests of single kernels on hosted machines: a kernel is compiled
 * when it is first used, and what the GPU lacks is that kernel's error. */
static enum status choose_gpu(struct backend *be)
{
    const char *s = getenv("INGOT_METAL_GPU");
    be->any_gpu = s != NULL;
    if (s && strcmp(s, "any") != 0)
        FAIL(ST_RANGE, "INGOT_METAL_GPU=%s: there is any", s);
    return ST_OK;
}

static enum status check_device(struct backend *be)
{
    const char *name = MTL_GET(utf8, MTL_GET(device_name, be->device));
    snprintf(be->name, sizeof be->name, "%s", name ? name : "?");
    TRY(choose_gpu(be));
    /* simdgroup matrices are of the same family */
    if (!be->any_gpu &&
        (!MTL(supports_family, be->device, FAMILY_APPLE7) || !MTL_GET(unified, be->device)))
        FAIL(ST_UNSUPPORTED, "Metal device %s: needed is a GPU of family Apple7 (M1) or later",
             be->name);
    for (be->family = METAL_FAMILY_APPLE; be->family < FAMILY_APPLE_LAST; be->family++)
        if (!MTL(supports_family, be->device, be->family + 1))
            break;
    be->max_buffer = MTL_GET(max_buffer, be->device);
    return ST_OK;
}

/* Fast math would fuse, reorder and flush: systems from macOS 15 on have a mode for it, others a
 * switch. */
static enum status make_library(struct backend *be)
{
    id error = NULL, options = MTL_GET(new_object, mtl_class("MTLCompileOptions"));
    bool has_mode = MTL(responds, options, mtl_selector[MTL_set_math_mode]);
    be->math = has_mode ? "math mode safe" : "no fast math";
    if (has_mode)
        MTL(set_math_mode, options, MATH_MODE_SAFE);
    else
        MTL(set_fast_math, options, false);
    be->library = MTL(new_library, be->device, mtl_string(metal_source), options, &error);
    MTL_GET(release, options);
    if (!be->library)
        FAIL(ST_DEVICE, "Metal device %s does not compile the kernels: %s", be->name,
             metal_error_text(error));
    return ST_OK;
}

/* Most threads of a group of any kernel, and of those of matrices, which take many registers. */
enum { MAX_THREADS = 256, MATRIX_THREADS = 32 * METAL_LINEAR_SIMDS, SIMD_WIDTH = 32 };

static enum status make_one(struct backend *be, int i)
{
    id error = NULL, function = MTL(new_function, be->library, mtl_string(metal_kernel_names[i]));
    if (!function)
        FAIL(ST_DEVICE, "kernel %s is not in the Metal library", metal_kernel_names[i]);
    be->pipeline[i] = metal_new_pipeline(be, function, &error);
    MTL_GET(release, function);
    if (!be->pipeline[i])
        FAIL(ST_DEVICE, "kernel %s: %s", metal_kernel_names[i], metal_error_text(error));
    unsigned long width = MTL_GET(simd_width, be->pipeline[i]);
    unsigned long threads = MTL_GET(max_threads, be->pipeline[i]);
    unsigned long needed = metal_kernel_is_of_matrices(i) ? MATRIX_THREADS : MAX_THREADS;
    if (width != SIMD_WIDTH || threads < needed)
        FAIL(
            ST_UNSUPPORTED,
            "kernel %s: simdgroups of %lu threads and groups of at most %lu; needed are %d and %lu",
            metal_kernel_names[i], width, threads, SIMD_WIDTH, needed);
    return ST_OK;
}

/* Kernels that models differ in: of types of weights, of caches, and for rounded inputs. */
static bool by_model(int i)
{
    return i <= (int)KERNEL_round_experts ||
           (i >= (int)KERNEL_attention_f32 && i <= (int)KERNEL_attention_e4m3);
}

enum status metal_make_pipeline(struct backend *be, enum metal_kernel kernel)
{
    if (be->pipeline[kernel])
        return ST_OK;
    void *pool = objc_autoreleasePoolPush();
    enum status st = make_one(be, (int)kernel);
    objc_autoreleasePoolPop(pool);
    return st;
}

static enum status take_all(struct backend *be)
{
    be->device = MTLCreateSystemDefaultDevice();
    if (!be->device)
        FAIL(ST_DEVICE, "no Metal device on this machine");
    TRY(check_device(be));
    be->queue = MTL_GET(new_queue, be->device);
    if (!be->queue)
        FAIL(ST_DEVICE, "Metal device %s gives no command queue", be->name);
    TRY(make_library(be));
    metal_open_archive(be);
    for (int i = 0; i < N_METAL_KERNELS && !be->any_gpu; i++)
        if (!by_model(i))
            TRY(make_one(be, i));
    return ST_OK;
}

enum status metal_make_products(struct backend *be, enum metal_type type, bool stack)
{
    static const enum metal_kernel chains[] = {KERNEL_linear_f32, KERNEL_linear_one_f32},
                                   matrices[] = {KERNEL_matrix_f32, KERNEL_matrix_one_f32},
                                   experts[] = {KERNEL_experts_matrix_f32,
                                                KERNEL_experts_matrix_one_f32};
    if (be->any_gpu)
        return ST_OK;
    for (int i = 0; i < 2; i++)
        TRY(metal_make_pipeline(be, metal_kernel_of((be->matrices ? matrices : chains)[i], type)));
    if (!stack)
        return metal_make_pipeline(be, metal_kernel_of(KERNEL_embed_f32, type));
    for (int i = 0; i < 2 && be->matrices; i++)
        TRY(metal_make_pipeline(be, metal_kernel_of(experts[i], type)));
    return be->matrices ? ST_OK
                        : metal_make_pipeline(be, metal_kernel_of(KERNEL_experts_f32, type));
}

enum status metal_take_device(struct backend *be)
{
    mtl_register();
    void *pool = objc_autoreleasePoolPush();
    enum status st = take_all(be);
    objc_autoreleasePoolPop(pool);
    return st;
}

void metal_give_device(struct backend *be)
{
    for (int i = 0; i < N_METAL_KERNELS; i++)
        metal_give(&be->pipeline[i]);
    metal_give(&be->archive);
    metal_give(&be->library);
    metal_give(&be->queue);
    metal_give(&be->device);
}

size_t metal_device_bytes(const struct backend *be, size_t *used)
{
    *used = MTL_GET(allocated, be->device);
    return MTL_GET(working_set, be->device);
}

enum status metal_new_buffer(struct backend *be, size_t bytes, objc_ref *buffer, char **data)
{
    if (bytes > be->max_buffer)
        FAIL(ST_NOMEM, "Metal device %s: a buffer of %zu bytes, the largest it has is %zu",
             be->name, bytes, be->max_buffer);
    *buffer = MTL(new_buffer, be->device, bytes, SHARED_STORAGE);
    if (!*buffer)
        FAIL(ST_NOMEM, "Metal device %s: no memory for a buffer of %zu bytes", be->name, bytes);
    *data = MTL_GET(contents, *buffer);
    return ST_OK;
}

enum status metal_map_buffer(struct backend *be, char *data, size_t bytes, objc_ref *buffer)
{
    if (bytes > be->max_buffer)
        FAIL(ST_NOMEM, "Metal device %s: %zu bytes to be mapped as one buffer, the largest is %zu",
             be->name, bytes, be->max_buffer);
    *buffer = MTL(map_buffer, be->device, data, bytes, SHARED_STORAGE, NULL);
    if (!*buffer)
        FAIL(ST_NOMEM, "Metal device %s does not map %zu bytes of a file", be->name, bytes);
    return ST_OK;
}
