/* Generators, paths of attributes and sorting, for the files of filters. */
#include "coordinator/jinja/filter.h"

#include <string.h>

#include "coordinator/jinja/str.h"

enum status j_iter(struct jrun *r, struct jlist *items, struct jval *out)
{
    struct jiter *it = jmem_alloc(&r->mem, sizeof *it);
    if (!it)
        return jmem_full(&r->mem);
    *it = (struct jiter){items, 0};
    *out = (struct jval){.type = J_ITER, .u.iter = it};
    return ST_OK;
}

static enum status path_step(struct jrun *r, const struct jstr *part, struct jval *v)
{
    struct jval key = jv_str(part), of = *v;
    int64_t i = 0;
    bool number = part->n > 0 && part->n < 18;
    for (size_t k = 0; k < part->n && number; k++) {
        number = part->p[k] >= '0' && part->p[k] <= '9';
        i = i * 10 + (part->p[k] - '0');
    }
    if (number)
        key = jv_int(i);
    return j_getitem(r, &of, &key, v);
}

enum status j_attribute_path(struct jrun *r, const struct jval *v, const struct jval *path,
                             struct jval *out)
{
    static const struct jstr dot = {".", 1, 1};
    struct jlist *parts;
    *out = *v;
    if (path->type != J_STR)
        return j_getitem(r, v, path, out);
    TRY(j_str_split(r, path->u.s, &dot, -1, &parts));
    for (size_t i = 0; i < parts->n; i++)
        TRY(path_step(r, parts->items[i].u.s, out));
    return ST_OK;
}

enum status j_sort_key(struct jrun *r, const struct jval *v, bool case_sensitive, struct jval *out)
{
    *out = *v;
    return v->type == J_STR && !case_sensitive ? j_str_case(r, v->u.s, JCASE_LOWER, out) : ST_OK;
}

/* Merges two sorted neighbours of order (positions into keys). */
static enum status merge(struct jrun *r, const struct jval *keys, const size_t *a, size_t n_a,
                         const size_t *b, size_t n_b, bool reverse, size_t *out)
{
    while (n_a && n_b) {
        int order;
        TRY(j_charge(r, 1));
        TRY(jval_compare(r, &keys[*b], &keys[*a], &order));
        bool take_b = reverse ? order > 0 : order < 0;
        *out++ = take_b ? *b++ : *a++;
        take_b ? n_b-- : n_a--;
    }
    memcpy(out, n_a ? a : b, (n_a + n_b) * sizeof *out);
    return ST_OK;
}

static enum status sorted_order(struct jrun *r, const struct jval *keys, size_t n, bool reverse,
                                size_t **out)
{
    size_t *from = jmem_array(&r->mem, n, sizeof *from), *to = jmem_array(&r->mem, n, sizeof *to);
    if (!from || !to)
        return jmem_full(&r->mem);
    for (size_t i = 0; i < n; i++)
        from[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t at = 0; at < n; at += 2 * width) {
            size_t left = n - at < width ? n - at : width;
            size_t right = n - at - left < width ? n - at - left : width;
            TRY(merge(r, keys, from + at, left, from + at + left, right, reverse, to + at));
        }
        size_t *swap = from;
        from = to;
        to = swap;
    }
    *out = from;
    return ST_OK;
}

enum status j_sort(struct jrun *r, struct jval *items, struct jval *keys, size_t n, bool reverse)
{
    size_t *order = NULL;
    TRY(sorted_order(r, keys, n, reverse, &order));
    struct jval *sorted = jmem_array(&r->mem, n, 2 * sizeof *sorted);
    if (!sorted)
        return jmem_full(&r->mem);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = items[order[i]];
        sorted[n + i] = keys[order[i]];
    }
    if (n) {
        memcpy(items, sorted, n * sizeof *items);
        memcpy(keys, sorted + n, n * sizeof *keys);
    }
    return ST_OK;
}
