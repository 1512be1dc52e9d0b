/* A text on its way through normalizer and pre-tokenizer, with the input bytes that each of its
 * bytes came from; and the scratch memory that one encode call makes when it first needs it. */
#include <stdlib.h>

#include "coordinator/tokenizer/impl.h"

void ttext_begin(struct work *w)
{
    w->other->own.len = 0;
    w->other->plain = false;
}

/* A rewritten text has at most FACTOR times the bytes of the input and LITTLE more (the longest decomposition of Unicode
 * is 11 times as long, a byte-level alphabet doubles that); one beyond MUCH at most 8 times. */
enum { FACTOR = 64, LITTLE = 64 << 10, MUCH = 64 << 20, FACTOR_OF_MUCH = 8 };

void ttext_set_bounds(struct work *w)
{
    size_t few = FACTOR * w->n + LITTLE, most = FACTOR_OF_MUCH * w->n;
    most = most < MUCH ? MUCH : most;
    w->max_text = few < most ? few : most;
    w->written = 0;
}

/* Room for n more bytes.  All steps together may write max_text bytes each, however many parts the text has. */
static enum status check_bounds(struct work *w, size_t n)
{
    size_t n_steps = (size_t)w->t->n_norm + (size_t)w->t->n_pre + 1;
    if (w->other->own.len + n > w->max_text || w->written + n > n_steps * w->max_text)
        FAIL(ST_RANGE, "the tokenizer makes more than %zu bytes of a text of %zu", w->max_text,
             w->n);
    w->written += n;
    return ST_OK;
}

static enum status map_reserve(struct ttext *x, size_t n)
{
    if (n <= x->map_cap)
        return ST_OK;
    size_t cap = n + n / 2 + 64;
    struct tmap *map = realloc(x->map, cap * sizeof *map);
    if (!map)
        FAIL(ST_NOMEM, "no memory for the origins of %zu bytes", n);
    x->map = map;
    x->map_cap = cap;
    return ST_OK;
}

struct tmap ttext_origin(const struct ttext *x, size_t from, size_t to)
{
    if (x->plain)
        return (struct tmap){(uint32_t)(x->base + from), (uint32_t)(x->base + to)};
    if (x->n == 0)
        return (struct tmap){(uint32_t)x->base, (uint32_t)x->base};
    if (from >= x->n)
        return (struct tmap){x->map[x->n - 1].end, x->map[x->n - 1].end};
    if (from == to)
        return (struct tmap){x->map[from].begin, x->map[from].begin};
    return (struct tmap){x->map[from].begin, x->map[to - 1].end};
}

enum status ttext_put(struct work *w, const char *p, size_t n, size_t from, size_t to)
{
    struct ttext *x = w->other;
    TRY(check_bounds(w, n));
    if (w->mapping) {
        struct tmap m = ttext_origin(w->cur, from, to);
        TRY(map_reserve(x, x->own.len + n));
        for (size_t i = 0; i < n; i++)
            x->map[x->own.len + i] = m;
    }
    return text_buf_append(&x->own, p, n);
}

enum status ttext_keep(struct work *w, size_t from, size_t to)
{
    struct ttext *x = w->other;
    TRY(check_bounds(w, to - from));
    if (w->mapping) {
        TRY(map_reserve(x, x->own.len + (to - from)));
        for (size_t i = from; i < to; i++)
            x->map[x->own.len + (i - from)] =
                w->cur->plain
                    ? (struct tmap){(uint32_t)(w->cur->base + i), (uint32_t)(w->cur->base + i + 1)}
                    : w->cur->map[i];
    }
    return text_buf_append(&x->own, w->cur->p + from, to - from);
}

void ttext_swap(struct work *w)
{
    struct ttext *x = w->other;
    x->p = x->own.data ? x->own.data : "";
    x->n = x->own.len;
    x->base = w->cur->base;
    w->other = w->cur == &w->view ? &w->d : w->cur; /* the view's map is not its own */
    w->cur = x;
}

enum status work_regex(struct work *w)
{
    return w->regex ? ST_OK : regex_scratch_create(&w->regex);
}
