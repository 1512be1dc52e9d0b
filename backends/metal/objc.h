/* Metal from C: the messages that this backend sends, through the functions of the Objective-C
 * runtime.  On Apple's systems objc_msgSend is called with the message's own type; elsewhere the
 * method is looked up first (GNU's libobjc), which is how the tests' double of Metal is reached.
 * Nothing but this file knows the runtime. */
#ifndef BACKENDS_METAL_OBJC_H
#define BACKENDS_METAL_OBJC_H

#include <stdbool.h>
#include <stddef.h>

#include "backends/metal/metal_backend.h"

#ifdef __APPLE__
#include <objc/message.h>
#include <objc/runtime.h>
#else
/* The subset of GNU's <objc/runtime.h> and <objc/message.h> that is used. */
typedef struct objc_object *id;
typedef const struct objc_selector *SEL;
typedef struct objc_class *Class;
typedef id (*IMP)(id, SEL, ...);
Class objc_getClass(const char *name);
SEL sel_registerName(const char *name);
IMP objc_msg_lookup(id receiver, SEL sel);
#endif

/* Of Metal and of the runtime, both C. */
id MTLCreateSystemDefaultDevice(void);
void *objc_autoreleasePoolPush(void);
void objc_autoreleasePoolPop(void *pool);

/* X(name, result, selector, signature, arguments...): the signature is that of the runtime's type
 * encodings without sizes: the result, then the arguments; S is struct mtl_size by value. */
#define MTL_MESSAGES(X)                                                                            \
    X(retain, id, "retain", "@", id, SEL)                                                          \
    X(release, void, "release", "v", id, SEL)                                                      \
    X(string, id, "stringWithUTF8String:", "@*", id, SEL, const char *)                            \
    X(utf8, const char *, "UTF8String", "*", id, SEL)                                              \
    X(description, id, "localizedDescription", "@", id, SEL)                                       \
    X(device_name, id, "name", "@", id, SEL)                                                       \
    X(supports_family, bool, "supportsFamily:", "Bq", id, SEL, long)                               \
    X(unified, bool, "hasUnifiedMemory", "B", id, SEL)                                             \
    X(working_set, unsigned long, "recommendedMaxWorkingSetSize", "Q", id, SEL)                    \
    X(allocated, unsigned long, "currentAllocatedSize", "Q", id, SEL)                              \
    X(max_buffer, unsigned long, "maxBufferLength", "Q", id, SEL)                                  \
    X(new_queue, id, "newCommandQueue", "@", id, SEL)                                              \
    X(new_library, id, "newLibraryWithSource:options:error:", "@@@^", id, SEL, id, id, id *)       \
    X(new_object, id, "new", "@", id, SEL)                                                         \
    X(set_fast_math, void, "setFastMathEnabled:", "vB", id, SEL, bool)                             \
    X(set_math_mode, void, "setMathMode:", "vq", id, SEL, long)                                    \
    X(responds, bool, "respondsToSelector:", "B:", id, SEL, SEL)                                   \
    X(new_function, id, "newFunctionWithName:", "@@", id, SEL, id)                                 \
    X(new_pipeline, id, "newComputePipelineStateWithFunction:error:", "@@^", id, SEL, id, id *)    \
    X(process_info, id, "processInfo", "@", id, SEL)                                               \
    X(os_version, id, "operatingSystemVersionString", "@", id, SEL)                                \
    X(file_url, id, "fileURLWithPath:", "@@", id, SEL, id)                                         \
    X(array_of_one, id, "arrayWithObject:", "@@", id, SEL, id)                                     \
    X(set_url, void, "setUrl:", "v@", id, SEL, id)                                                 \
    X(new_archive, id, "newBinaryArchiveWithDescriptor:error:", "@@^", id, SEL, id, id *)          \
    X(set_function, void, "setComputeFunction:", "v@", id, SEL, id)                                \
    X(set_archives, void, "setBinaryArchives:", "v@", id, SEL, id)                                 \
    X(pipeline_of, id, "newComputePipelineStateWithDescriptor:options:reflection:error:", "@@Q^^", \
      id, SEL, id, unsigned long, id *, id *)                                                      \
    X(add_to_archive, bool, "addComputePipelineFunctionsWithDescriptor:error:", "B@^", id, SEL,    \
      id, id *)                                                                                    \
    X(serialize, bool, "serializeToURL:error:", "B@^", id, SEL, id, id *)                          \
    X(simd_width, unsigned long, "threadExecutionWidth", "Q", id, SEL)                             \
    X(max_threads, unsigned long, "maxTotalThreadsPerThreadgroup", "Q", id, SEL)                   \
    X(new_buffer, id, "newBufferWithLength:options:", "@QQ", id, SEL, unsigned long,               \
      unsigned long)                                                                               \
    X(map_buffer, id, "newBufferWithBytesNoCopy:length:options:deallocator:", "@^QQ@", id, SEL,    \
      void *, unsigned long, unsigned long, id)                                                    \
    X(contents, void *, "contents", "^", id, SEL)                                                  \
    X(command_buffer, id, "commandBuffer", "@", id, SEL)                                           \
    X(encoder, id, "computeCommandEncoder", "@", id, SEL)                                          \
    X(set_pipeline, void, "setComputePipelineState:", "v@", id, SEL, id)                           \
    X(set_bytes, void, "setBytes:length:atIndex:", "v^QQ", id, SEL, const void *, unsigned long,   \
      unsigned long)                                                                               \
    X(set_buffer, void, "setBuffer:offset:atIndex:", "v@QQ", id, SEL, id, unsigned long,           \
      unsigned long)                                                                               \
    X(dispatch, void, "dispatchThreadgroups:threadsPerThreadgroup:", "vSS", id, SEL,               \
      struct mtl_size, struct mtl_size)                                                            \
    X(end_encoding, void, "endEncoding", "v", id, SEL)                                             \
    X(commit, void, "commit", "v", id, SEL)                                                        \
    X(wait, void, "waitUntilCompleted", "v", id, SEL)                                              \
    X(buffer_status, unsigned long, "status", "Q", id, SEL)                                        \
    X(buffer_error, id, "error", "@", id, SEL)                                                     \
    X(gpu_start, double, "GPUStartTime", "d", id, SEL)                                             \
    X(gpu_end, double, "GPUEndTime", "d", id, SEL)

#define MTL_FUNCTION(name, result, selector, signature, ...)                                       \
    typedef result (*mtl_##name##_fn)(__VA_ARGS__);
MTL_MESSAGES(MTL_FUNCTION)
#undef MTL_FUNCTION

enum mtl_message {
#define MTL_ENUM(name, ...) MTL_##name,
    MTL_MESSAGES(MTL_ENUM)
#undef MTL_ENUM
        N_MTL_MESSAGES
};

struct mtl_message_row {
    const char *selector, *signature;
};
extern const struct mtl_message_row mtl_messages[N_MTL_MESSAGES];

/* The selectors, after mtl_register. */
extern SEL mtl_selector[N_MTL_MESSAGES];
void mtl_register(void);

/* A class method's receiver: the class of that name, NULL if there is none. */
id mtl_class(const char *name);

/* An NSString of the innermost pool. */
id mtl_string(const char *s);

#ifdef __APPLE__
#define MTL_TARGET(object, message) objc_msgSend
#else
#define MTL_TARGET(object, message) objc_msg_lookup((object), mtl_selector[message])
#endif

/* Sends a message of the table: MTL(new_buffer, device, bytes, options); MTL_GET(unified, device). */
#define MTL_CALL(name, object)                                                                     \
    ((mtl_##name##_fn)(void (*)(void))MTL_TARGET((id)(object), MTL_##name))
#define MTL(name, object, ...)                                                                     \
    MTL_CALL(name, object)((id)(object), mtl_selector[MTL_##name], __VA_ARGS__)
#define MTL_GET(name, object) MTL_CALL(name, object)((id)(object), mtl_selector[MTL_##name])

#endif
