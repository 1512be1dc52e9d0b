/* A fork-join pool private to the CPU backend.  A job is cut into n_parts parts, a number that the
 * caller chose.  The calling thread and n_threads - 1 others run them, thread p % n_threads part p.
 * Between jobs a thread spins for at most SPIN_US, then sleeps.
 * One thread calls pool_run at a time. */
#ifndef COMMON_POOL_H
#define COMMON_POOL_H

#include <stdbool.h>

#include "common/status.h"

struct pool;

typedef void pool_fn(void *ctx, int part, int n_parts);

/* n_parts >= 1, 1 <= n_threads; at most n_parts threads are started.  pin: each of them, the caller
 * excepted, is bound to one of the cores that the process may use.  ST_NOMEM, ST_IO. */
MUST_CHECK enum status pool_create(struct pool **out, int n_parts, int n_threads, bool pin);
void pool_destroy(struct pool *p);

/* Runs fn(ctx, part, n_parts) for every part and returns when all are done. */
void pool_run(struct pool *p, pool_fn *fn, void *ctx);

typedef void pool_item_fn(void *ctx, long item, int part);

/* Runs fn(ctx, item, part) once for each of n < 2^28 items, on as many threads; part is that of the
 * calling thread, for what a thread has of its own.  A thread begins with its pool_share of the
 * items, ascending; one that is through takes half of what a neighbour has left, so that no thread
 * waits for a slow one. */
void pool_run_items(struct pool *p, long n, pool_item_fn *fn, void *ctx);

int pool_parts(const struct pool *p);
int pool_threads(const struct pool *p);

/* Items [*from, *to) of n that part takes. */
static inline void pool_share(long n, int part, int n_parts, long *from, long *to)
{
    *from = (long)((long long)n * part / n_parts);
    *to = (long)((long long)n * (part + 1) / n_parts);
}

#endif
