/* The user's own cache folder is left alone: a program with this file finds no compiled kernels, and keeps none. */
#ifndef TESTS_METAL_NO_CACHE_H
#define TESTS_METAL_NO_CACHE_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"

__attribute__((constructor)) static void no_cache(void)
{
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
}

/* Asserts that the open backend has that folder. */
static inline void check_no_cache(struct backend *be)
{
    struct backend_info info;
    backend_ops_of(be)->info(be, &info);
    cr_assert(strstr(info.about, "/dev/null/ingot/metal") || strstr(info.about, "not kept"),
              "the cache folder of this test is that of its user: %s", info.about);
}

#endif
