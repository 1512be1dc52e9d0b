/* The allocator's functions with a question before each call.  A program that includes this file once, and is linked with
 * ingot_wrap_allocator (tests/CMakeLists.txt), has them in place of the C library's (--wrap of the linker). */
#ifndef TESTS_WRAP_ALLOCATOR_H
#define TESTS_WRAP_ALLOCATOR_H

#include <stdbool.h>
#include <stdlib.h>

/* The includer's: an allocation is asked for; true: it gets no memory. */
static bool allocation_fails(void);

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n)
{
    return allocation_fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
    return allocation_fails() ? NULL : __real_calloc(count, n);
}

void *__wrap_realloc(void *p, size_t n)
{
    return allocation_fails() ? NULL : __real_realloc(p, n);
}

#endif
