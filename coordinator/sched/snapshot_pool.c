#include "coordinator/sched/snapshot_pool.h"

#include <assert.h>

void snapshot_pool_reset(struct snapshot_pool *p, uint32_t n_blocks)
{
    p->n_free = p->n_rows;
    p->n_known = 0;
    p->free_head = p->n_rows ? 0 : -1;
    p->known_head = p->known_tail = -1;
    for (uint32_t i = 0; i < p->n_rows; i++)
        p->rows[i] = (struct snapshot){
            .block = -1, .prev = -1, .next = i + 1 < p->n_rows ? (int32_t)i + 1 : -1};
    for (uint32_t b = 0; p->n_rows && b < n_blocks; b++)
        p->of_block[b] = -1;
}

static void unlink_known(struct snapshot_pool *p, int32_t row)
{
    struct snapshot *r = &p->rows[row];
    *(r->prev < 0 ? &p->known_head : &p->rows[r->prev].next) = r->next;
    *(r->next < 0 ? &p->known_tail : &p->rows[r->next].prev) = r->prev;
    r->prev = r->next = -1;
}

static void append_known(struct snapshot_pool *p, int32_t row)
{
    p->rows[row].next = -1;
    p->rows[row].prev = p->known_tail;
    *(p->known_tail < 0 ? &p->known_head : &p->rows[p->known_tail].next) = row;
    p->known_tail = row;
}

/* A known row is being taken again. */
static void lose(struct snapshot_pool *p, int32_t row)
{
    unlink_known(p, row);
    p->n_known--;
    p->of_block[p->rows[row].block] = -1;
    p->rows[row].block = -1;
    p->rows[row].seq_id = 0;
}

int32_t snapshot_take(struct snapshot_pool *p, int32_t own, uint64_t seq_id)
{
    int32_t row = p->free_head;
    if (row >= 0) {
        p->free_head = p->rows[row].next;
        p->rows[row].next = -1;
        p->n_free--;
        return row;
    }
    bool mine = own >= 0 && p->rows[own].block >= 0 && p->rows[own].seq_id == seq_id;
    row = mine ? own : p->known_head;
    if (row >= 0)
        lose(p, row);
    return row;
}

int32_t snapshot_know(struct snapshot_pool *p, int32_t row, int32_t block, uint64_t seq_id)
{
    int32_t old = p->of_block[block];
    assert(p->rows[row].block < 0);
    if (old >= 0) {
        if (seq_id == 0)
            p->rows[old].seq_id = 0;
        snapshot_free(p, row);
        snapshot_use(p, old);
        return old;
    }
    p->rows[row].block = block;
    p->rows[row].seq_id = seq_id;
    p->of_block[block] = row;
    p->n_known++;
    append_known(p, row);
    return row;
}

void snapshot_free(struct snapshot_pool *p, int32_t row)
{
    if (p->rows[row].block >= 0)
        lose(p, row);
    p->rows[row].next = p->free_head;
    p->free_head = row;
    p->n_free++;
}

void snapshot_use(struct snapshot_pool *p, int32_t row)
{
    assert(p->rows[row].block >= 0);
    unlink_known(p, row);
    append_known(p, row);
}

void snapshot_forget(struct snapshot_pool *p, int32_t block)
{
    int32_t row = snapshot_find(p, block);
    if (row >= 0)
        snapshot_free(p, row);
}
