/* Prefetches of the KV cache for decoding, which is bound by memory: lines in address order, of each
 * page the first page_ahead bytes, evenly between the arithmetic (bursts fill the line buffers that
 * the current work needs).  The share is in read_ahead.c: three eighths by default, all of
 * it on AMD's, where the demo model's decoding with 32 and 64 sequences, whose cache is in the third
 * level, gives 10 to 14 % more tokens so (Zen 4).  Heads take turns at a row, so the order of the
 * work is not that of memory, and KV blocks may be anywhere: the lines are found ahead of the work.
 */
#ifndef BACKENDS_CPU_ATTN_AHEAD_H
#define BACKENDS_CPU_ATTN_AHEAD_H

#include "backends/cpu/attn_load.h"
#include "backends/cpu/read_ahead.h"

enum { LINE = 64 }; /* bytes that a prefetch brings */

/* Keys [key, stop) of an operand, `bytes` of each row. */
struct ahead_keys {
    const char *base;
    size_t row_bytes, bytes;
    const int32_t *blocks;
    int32_t block_len, key, stop;
};

struct ahead {
    const char *at, *end; /* of the current page */
    int lines;            /* of a step */
    int stride; /* bytes between them; below 64 some lines come twice, which costs little */
    const char *rest, *bytes_end; /* contiguous bytes behind that page */
    size_t page_ahead;
    struct ahead_keys keys, then; /* the keys that follow, one after the other */
};

/* The next contiguous bytes: rows of one KV block, or one row's bytes for the item's KV heads. */
static bool next_bytes(struct ahead *h)
{
    struct ahead_keys *k = &h->keys;
    if (k->key >= k->stop) {
        *k = h->then;
        h->then.key = h->then.stop;
    }
    int32_t n = k->stop - k->key;
    if (n <= 0)
        return false;
    int32_t in_block = k->block_len - k->key % k->block_len;
    n = k->bytes < k->row_bytes ? 1 : n < in_block ? n : in_block;
    h->rest = k->base + k->row_bytes * kv_row(k->blocks, k->block_len, k->key);
    h->bytes_end = h->rest + (size_t)n * k->bytes;
    k->key += n;
    return true;
}

/* The next page: the contiguous bytes in it, of a whole page the first page_ahead. */
static void next_page(struct ahead *h)
{
    if (h->rest >= h->bytes_end && !next_bytes(h)) {
        h->at = h->rest;
        h->end = h->rest + 1;
        h->stride = 0; /* the same line from here on */
        return;
    }
    size_t in_page = (size_t)h->rest % READ_AHEAD_PAGE, n = READ_AHEAD_PAGE - in_page;
    size_t left = (size_t)(h->bytes_end - h->rest);
    h->at = h->rest;
    h->rest += n < left ? n : left;
    h->end = in_page == 0 && left > h->page_ahead ? h->at + h->page_ahead : h->rest;
}

/* One step.  The page may end with it; ahead_turn then goes to the next. */
ALWAYS_INLINE void ahead_fetch(struct ahead *h)
{
    const char *at = h->at;
    for (int i = 0; i < h->lines; i++, at += h->stride)
        __builtin_prefetch(at, 0, 2);
    h->at = at;
}

ALWAYS_INLINE void ahead_turn(struct ahead *h)
{
    if (h->at >= h->end)
        next_page(h);
}

ALWAYS_INLINE void ahead_step(struct ahead *h)
{
    ahead_turn(h);
    ahead_fetch(h);
}

/* Keys [from, to) of a split, an operand's rows of all KV heads (d elements of each). */
static struct ahead_keys ahead_keys(const struct attn_split *a, const struct kv_operand *o, int d,
                                    int from, int to)
{
    size_t size = dtype_size(o->dtype);
    return (struct ahead_keys){.base = o->base,
                               .row_bytes = o->row_elems * size,
                               .bytes = (size_t)(a->n_kv * d) * size,
                               .blocks = a->blocks,
                               .block_len = a->block_len,
                               .key = a->first_key + from,
                               .stop = a->first_key + (to < a->hi ? to : a->hi)};
}

/* Bytes of those keys that are asked for. */
static int ahead_bytes(const struct ahead_keys *k, int page_ahead)
{
    int bytes = k->key < k->stop ? (k->stop - k->key) * (int)k->bytes : 0;
    return k->bytes == k->row_bytes ? bytes / 8 * (page_ahead * 8 / READ_AHEAD_PAGE) : bytes;
}

/* Work on the keys or values of keys [k, k + n) of the split, for all KV heads, takes n_steps.
 * Keys are followed by values, values by the next split's keys.  The distance is at most the split's
 * own length: there is nothing behind the operand that follows.  A split that is longer than the one
 * before begins with keys that nothing has asked for: the one before does with its last values. */
static struct ahead ahead_of(const struct attn_split *a, bool values, int k, int n, int n_steps)
{
    const struct kv_operand *o = values ? &a->v : &a->k;
    int d = values ? a->d_value : a->d, row = a->n_kv * d * (int)elem_size(o->dtype),
        len = a->hi - a->lo;
    int most = (READ_AHEAD_BYTES / row + PANEL - 1) / PANEL * PANEL;
    most = most < VALUE_KEYS ? VALUE_KEYS : most < SPLIT / 2 ? most : SPLIT / 2;
    int from = k + (most < len ? most : len), to = from + n;
    const struct attn_split *of = values ? a->next : a;
    /* Where no keys follow, the steps ask for a line that is in the cache already. */
    struct ahead h = {.at = o->base,
                      .end = o->base,
                      .rest = o->base,
                      .bytes_end = o->base,
                      .page_ahead = (size_t)a->page_ahead,
                      .keys = ahead_keys(a, o, d, from, to)};
    if (of && to > a->hi) {
        int shift = of->lo - a->hi, first = from > a->hi ? from : a->hi;
        int last = values && k + n >= a->hi ? of->lo + most : to + shift;
        h.then = ahead_keys(of, values ? &of->k : &of->v, values ? of->d : of->d_value,
                            first + shift, last);
    }
    int bytes = ahead_bytes(&h.keys, a->page_ahead) + ahead_bytes(&h.then, a->page_ahead);
    h.lines = (bytes + LINE * n_steps - 1) / (LINE * n_steps);
    int most_lines = n_steps * (h.lines ? h.lines : 1);
    h.stride = (bytes + most_lines - 1) / most_lines; /* at most LINE */
    return h;                                         /* the first step turns to the first page */
}

#endif
