/* Prefetching for a thread that reads memory in address order once, faster than a core does by
 * itself, on processors whose loads alone keep too few lines under way; others read no faster or more
 * slowly so, see read_ahead.c.  Bursts help far less than lines that are asked for evenly over
 * the time in which a page is used. */
#ifndef BACKENDS_CPU_READ_AHEAD_H
#define BACKENDS_CPU_READ_AHEAD_H

#include <stdint.h>

enum { READ_AHEAD_BYTES = 24 << 10, READ_AHEAD_PAGE = 4096, READ_AHEAD_EIGHTHS = 3 };

/* Which lines are asked for. */
struct read_ahead {
    uint32_t bytes; /* so far ahead of what is read */
    int eighths;    /* 1 to 7: lines of the first eighths of each page; 8: every line; 0: none */
    int kv_eighths; /* of the pages of the KV cache, 1 to 8 */
};

/* The pattern for this processor. */
struct read_ahead read_ahead_here(void);

/* The pattern, at least `bytes` ahead, for what no processor foresees: what follows `bytes` that are
 * read again and again. */
static inline struct read_ahead read_ahead_of_next(struct read_ahead r, uint32_t bytes)
{
    r.bytes = r.bytes < bytes ? bytes : r.bytes;
    r.eighths = r.eighths == 0 ? 8 : r.eighths;
    return r;
}

/* To be called where n bytes are read, about 64 to 192, for all bytes in order: asks for one line of a
 * page's first eighths, for every line, or for none. */
static inline __attribute__((always_inline)) void read_ahead(struct read_ahead r, const void *at,
                                                             int n)
{
    uintptr_t a = (uintptr_t)at + r.bytes;
    if (r.eighths == 8) {
#pragma GCC unroll 4
        for (int i = 0; i < n; i += 64)
            __builtin_prefetch((const char *)(a + (uintptr_t)i), 0, 2);
    } else if (r.eighths > 0) {
        uintptr_t in_page = a % READ_AHEAD_PAGE;
        __builtin_prefetch((const char *)(a - in_page + in_page * (uintptr_t)r.eighths / 8));
    }
}

#endif
