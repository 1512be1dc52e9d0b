/* Prefetching for a thread that reads memory in address order once, faster than a core does by
 * itself: its loads alone keep too few lines under way.  How much helps depends on the processor's
 * own prefetchers, see read_ahead.c.  Bursts help far less than lines that are asked for evenly over
 * the time in which a page is used. */
#ifndef BACKENDS_CPU_READ_AHEAD_H
#define BACKENDS_CPU_READ_AHEAD_H

#include <stdint.h>

enum { READ_AHEAD_BYTES = 24 << 10, READ_AHEAD_PAGE = 4096, READ_AHEAD_EIGHTHS = 3 };

/* Which lines are asked for. */
struct read_ahead {
    uint32_t bytes;   /* so far ahead of what is read */
    uint16_t eighths; /* only in the first eighths of each page, 1 to 8: all of the page */
    uint16_t second;  /* also the line so many bytes behind that one; 0: none */
};

/* The pattern for this processor. */
struct read_ahead read_ahead_here(void);

/* To be called for about every 128 bytes that are read, where they are read. */
static inline __attribute__((always_inline)) void read_ahead(struct read_ahead r, const void *at)
{
    uintptr_t a = (uintptr_t)at + r.bytes, in_page = a % READ_AHEAD_PAGE;
    const char *line = (const char *)(a - in_page + in_page * r.eighths / 8);
    __builtin_prefetch(line);
    if (r.second)
        __builtin_prefetch(line + r.second);
}

#endif
