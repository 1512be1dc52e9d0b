/* Data races: two accesses of a byte by different threads, one of them a write, that nothing orders
 * (manual, chapter 8, "Memory Consistency Model").  Time is counted in barriers:
 *   - bar.sync orders all accesses of a block before it with those after it,
 *   - bar.warp.sync those of a warp (shfl, vote and matrix instructions order no memory),
 *   - a kernel's end orders it before the next one of its stream; a kernel that has begun before is
 *     ordered after it from griddepcontrol.wait on,
 *   - blocks of a kernel, and kernels of different streams, are ordered only by a release that an
 *     acquire observed: all that the releasing block did before its last barrier is then before
 *     what the acquiring thread does next, and what its block does after its next barrier,
 *   - volatile, relaxed, acquire, release and atomic accesses do not race with each other. */
#ifndef TESTS_PTX_PTX_RACE_H
#define TESTS_PTX_PTX_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* A warp between two barriers.  grid: number of the launch, from 1. */
struct ptx_time {
    uint32_t grid, block, barriers;
    uint16_t warp, warp_barriers;
    uint8_t stream;
};

/* The times of a run by their numbers, from `first` on: a number below it is before all of them. */
struct ptx_times {
    struct ptx_time *time;
    uint32_t first, n, max;
};

/* Who has accessed one byte: numbers of times (0: none), lanes with PTX_STRONG.  many: since the last write other
 * threads than the reader have read it too: 1 of its warp, 2 of its block, 3 of other blocks. */
struct ptx_mark {
    uint32_t written, read;
    uint8_t writer, reader, many, zero;
};

enum { PTX_STRONG = 32 };

/* Accesses of a block before its barrier `barriers` are known; thread -1: to all threads. */
struct ptx_known {
    uint32_t grid, block, barriers;
    int32_t thread;
};

/* What a block has acquired. */
struct ptx_clock {
    struct ptx_known *known;
    size_t n;
};

/* The accesses that are before all of a thread's: those of earlier runs, and of grids below `own` of its stream. */
struct ptx_horizon {
    const struct ptx_times *times;
    const struct ptx_clock *clock;
    uint32_t own;
    bool of_block; /* shared memory: marks of other blocks are of those that had it before */
};

/* *out: the number of a new time. */
MUST_CHECK enum status ptx_times_add(struct ptx_times *t, const struct ptx_time *time,
                                     uint32_t *out);
/* The run has ended: all times are past. */
void ptx_times_end(struct ptx_times *t);
void ptx_times_fini(struct ptx_times *t);

/* Notes an access of n bytes by a lane (with PTX_STRONG) at time `now` and checks it against earlier ones.  ST_BUG: a
 * race. */
MUST_CHECK enum status ptx_race_note(struct ptx_mark *mark, size_t n, uint32_t now, uint8_t lane,
                                     const struct ptx_horizon *horizon, bool writes);

/* Adds, or raises, what is known of a block. */
MUST_CHECK enum status ptx_clock_add(struct ptx_clock *c, struct ptx_known k);
/* The block passes a barrier: what one thread knows all know. */
void ptx_clock_barrier(struct ptx_clock *c);
void ptx_clock_fini(struct ptx_clock *c);

/* Marks of `bytes` bytes of memory, made when they are asked for. */
struct ptx_mark **ptx_marks_create(size_t bytes);
void ptx_marks_destroy(struct ptx_mark **marks, size_t bytes);
/* Those of the bytes from `offset`; an access that is aligned to its size has all of its marks there.
 * NULL: no memory. */
struct ptx_mark *ptx_marks_at(struct ptx_mark **marks, size_t offset);

#endif
