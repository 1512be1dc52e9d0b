/* Snapshots of sequences' states: which row of the ranks' memory has the state behind which block.  Bookkeeping only:
 * the contents are on the ranks.
 *
 * A row is free, being taken (a step in flight writes it) or known: it has the state behind the last token of a known
 * block.  Known rows are in the order of their last use; the first one is given up when no row is free.
 *
 * Part of the scheduler's single allocation; asserts on misuse; one thread. */
#ifndef COORDINATOR_SCHED_SNAPSHOT_POOL_H
#define COORDINATOR_SCHED_SNAPSHOT_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct snapshot {
    int32_t block;      /* behind which it was taken; -1: it is not known */
    int32_t next, prev; /* of known rows in order; next also in the list of free ones; -1: end */
    uint64_t seq_id;    /* the sequence whose next snapshot replaces this one, 0: none */
};

struct snapshot_pool {
    uint32_t n_rows, n_free, n_known; /* the others are being taken */
    int32_t free_head, known_head, known_tail;
    struct snapshot *rows; /* [n_rows] */
    int32_t *of_block;     /* [blocks] row of each, or -1; used only if there are rows */
};

/* Frees all rows.  The arrays and n_rows must be there. */
void snapshot_pool_reset(struct snapshot_pool *p, uint32_t n_blocks);

/* The row of a block, or -1. */
static inline int32_t snapshot_find(const struct snapshot_pool *p, int32_t block)
{
    return p->n_rows ? p->of_block[block] : -1;
}

/* A row for the next snapshot of a sequence: a free one, else `own` if that is known as that sequence's (-1: it has
 * none), else the one that was used least recently.  -1: all are being taken. */
int32_t snapshot_take(struct snapshot_pool *p, int32_t own, uint64_t seq_id);

/* The row being taken is the state behind that block now.  Returns the row that has it, which is an older one if there
 * is one already. */
int32_t snapshot_know(struct snapshot_pool *p, int32_t row, int32_t block, uint64_t seq_id);

/* A known row, or one being taken, is free. */
void snapshot_free(struct snapshot_pool *p, int32_t row);

/* A known row is used: it becomes the last to be given up. */
void snapshot_use(struct snapshot_pool *p, int32_t row);

/* The block is no longer known. */
void snapshot_forget(struct snapshot_pool *p, int32_t block);

#endif
