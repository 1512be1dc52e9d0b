/* A copy of some bytes that ends where memory ends: reading one byte too far is a fault. */
#ifndef TESTS_MODEL_GUARD_H
#define TESTS_MODEL_GUARD_H

#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct guarded {
    unsigned char *data;
    size_t len;
    void *map;
    size_t map_len;
};

static inline struct guarded guard_copy(const void *data, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (len + page - 1) / page * page;
    struct guarded g = {.len = len, .map_len = body + page};
    g.map = mmap(NULL, g.map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    cr_assert_neq(g.map, MAP_FAILED);
    cr_assert_eq(mprotect((char *)g.map + body, page, PROT_NONE), 0);
    g.data = (unsigned char *)g.map + body - len;
    if (len)
        memcpy(g.data, data, len);
    return g;
}

static inline void guard_free(struct guarded *g)
{
    munmap(g->map, g->map_len);
}

#endif
