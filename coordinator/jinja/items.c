/* Lists, and the items that a value gives when it is iterated over. */
#include <string.h>

#include "coordinator/jinja/run.h"
#include "coordinator/jinja/utf8.h"

enum status jlist_new(struct jrun *r, size_t cap, struct jlist **out)
{
    struct jlist *l = jmem_alloc(&r->mem, sizeof *l);
    if (!l)
        return jmem_full(&r->mem);
    *l = (struct jlist){0};
    if (cap) {
        l->items = jmem_array(&r->mem, cap, sizeof *l->items);
        if (!l->items)
            return jmem_full(&r->mem);
        l->cap = cap;
    }
    *out = l;
    return ST_OK;
}

enum status jlist_push(struct jrun *r, struct jlist *l, const struct jval *v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 4;
        struct jval *items = jmem_array(&r->mem, cap, sizeof *items);
        if (!items)
            return jmem_full(&r->mem);
        if (l->n)
            memcpy(items, l->items, l->n * sizeof *items);
        l->items = items;
        l->cap = cap;
    }
    l->items[l->n++] = *v;
    return ST_OK;
}

enum status jlist_pair(struct jrun *r, const struct jval *a, const struct jval *b,
                       struct jlist **out)
{
    TRY(jlist_new(r, 2, out));
    (*out)->items[0] = *a;
    (*out)->items[1] = *b;
    (*out)->n = 2;
    return ST_OK;
}

enum status jval_length(struct jrun *r, const struct jval *v, size_t *out)
{
    switch (v->type) {
    case J_UNDEF:
        *out = 0;
        return ST_OK;
    case J_STR:
        *out = v->u.s->n_chars;
        return ST_OK;
    case J_LIST:
    case J_TUPLE:
        *out = v->u.list->n;
        return ST_OK;
    case J_DICT:
        *out = v->u.dict->n;
        return ST_OK;
    case J_VIEW:
        *out = v->u.view->dict->n;
        return ST_OK;
    case J_RANGE:
        *out = (size_t)v->u.range->n;
        return ST_OK;
    case J_LOOP:
        TRY(j_loop_fill(r, v->u.loop, SIZE_MAX));
        *out = v->u.loop->items->n;
        return ST_OK;
    default:
        FAIL(ST_UNSUPPORTED, "a value of type %s has no length", jtype_name(v));
    }
}

static enum status chars_of(struct jrun *r, const struct jstr *s, struct jlist **out)
{
    TRY(j_charge(r, s->n_chars));
    TRY(jlist_new(r, s->n_chars, out));
    struct jstr *chars = jmem_array(&r->mem, s->n_chars, sizeof *chars);
    if (!chars)
        return jmem_full(&r->mem);
    size_t at = 0;
    for (size_t i = 0; i < s->n_chars; i++) {
        chars[i] = (struct jstr){s->p + at, u8_length(s->p[at]), 1};
        at += chars[i].n;
        (*out)->items[i] = jv_str(&chars[i]);
    }
    (*out)->n = s->n_chars;
    return ST_OK;
}

static enum status dict_items(struct jrun *r, const struct jdict *d, enum jview_kind kind,
                              struct jlist **out)
{
    TRY(j_charge(r, d->n));
    TRY(jlist_new(r, d->n, out));
    for (size_t i = 0; i < d->n; i++) {
        struct jval item = kind == JVIEW_KEYS ? d->pairs[i].key : d->pairs[i].value;
        if (kind == JVIEW_ITEMS) {
            struct jlist *pair;
            TRY(jlist_pair(r, &d->pairs[i].key, &d->pairs[i].value, &pair));
            item = jv_tuple(pair);
        }
        (*out)->items[i] = item;
    }
    (*out)->n = d->n;
    return ST_OK;
}

static enum status range_items(struct jrun *r, const struct jrange *range, struct jlist **out)
{
    TRY(j_charge(r, (uint64_t)range->n));
    TRY(jlist_new(r, (size_t)range->n, out));
    for (int64_t i = 0; i < range->n; i++)
        (*out)->items[i] = jv_int(range->start + i * range->step);
    (*out)->n = (size_t)range->n;
    return ST_OK;
}

static enum status rest_of_iter(struct jrun *r, struct jiter *it, struct jlist **out)
{
    struct jlist *l;
    TRY(jlist_new(r, 0, &l));
    if (it->at < it->items->n) {
        l->items = it->items->items + it->at;
        l->n = l->cap = it->items->n - it->at;
    }
    it->at = it->items->n;
    *out = l;
    return ST_OK;
}

enum status jval_items(struct jrun *r, const struct jval *v, struct jlist **out)
{
    switch (v->type) {
    case J_UNDEF:
        return jlist_new(r, 0, out);
    case J_STR:
        return chars_of(r, v->u.s, out);
    case J_LIST:
    case J_TUPLE:
        *out = v->u.list;
        return ST_OK;
    case J_DICT:
        return dict_items(r, v->u.dict, JVIEW_KEYS, out);
    case J_VIEW:
        return dict_items(r, v->u.view->dict, v->u.view->kind, out);
    case J_RANGE:
        return range_items(r, v->u.range, out);
    case J_ITER:
        return rest_of_iter(r, v->u.iter, out);
    default:
        FAIL(ST_UNSUPPORTED, "a value of type %s cannot be iterated over", jtype_name(v));
    }
}
