/* Filters that work on lists, dicts and other things with items. */
#include <string.h>

#include "coordinator/jinja/filter.h"
#include "coordinator/jinja/str.h"

static bool given(const struct jval *v)
{
    return v->type != J_MISSING && v->type != J_NONE;
}

static enum status plain_key(struct jrun *r, const struct jval *item, const struct jval *attribute,
                             bool case_sensitive, struct jval *out)
{
    struct jval v = *item;
    if (given(attribute))
        TRY(j_attribute_path(r, item, attribute, &v));
    return j_sort_key(r, &v, case_sensitive, out);
}

/* The key of an item: by attribute ("a.b"), or with several a list of keys ("a,b", also of one), so
 * that equal keys need no order. */
static enum status key_of(struct jrun *r, const struct jval *item, const struct jval *attribute,
                          bool several, bool case_sensitive, struct jval *out)
{
    static const struct jstr comma = {",", 1, 1};
    struct jlist *paths, *keys;
    struct jval key;
    if (!several)
        return plain_key(r, item, attribute, case_sensitive, out);
    TRY(jlist_new(r, 1, &keys));
    *out = jv_list(keys);
    if (!given(attribute) || attribute->type != J_STR) {
        TRY(plain_key(r, item, attribute, case_sensitive, &key));
        return jlist_push(r, keys, &key);
    }
    TRY(j_str_split(r, attribute->u.s, &comma, -1, &paths));
    for (size_t i = 0; i < paths->n; i++) {
        TRY(plain_key(r, item, &paths->items[i], case_sensitive, &key));
        TRY(jlist_push(r, keys, &key));
    }
    return ST_OK;
}

static enum status copy_list(struct jrun *r, const struct jval *in, struct jlist **out)
{
    struct jlist *items;
    TRY(jval_items(r, in, &items));
    TRY(j_charge(r, items->n));
    TRY(jlist_new(r, items->n, out));
    if (items->n)
        memcpy((*out)->items, items->items, items->n * sizeof *items->items);
    (*out)->n = items->n;
    return ST_OK;
}

static enum status keys_of(struct jrun *r, const struct jlist *items, const struct jval *attribute,
                           bool several, bool case_sensitive, struct jval **out)
{
    struct jval *keys = jmem_array(&r->mem, items->n, sizeof *keys);
    if (!keys)
        return jmem_full(&r->mem);
    for (size_t i = 0; i < items->n; i++)
        TRY(key_of(r, &items->items[i], attribute, several, case_sensitive, &keys[i]));
    *out = keys;
    return ST_OK;
}

/* --- whole lists --- */

FILTER(f_list)
{
    struct jlist *l;
    TRY(j_bind(r, "list", args, NULL, 0, 0, NULL));
    TRY(copy_list(r, in, &l));
    *out = jv_list(l);
    return ST_OK;
}

static enum status no_item(struct jrun *r, const char *what, struct jval *out)
{
    struct jval name;
    TRY(jstr_literal(&r->mem, what, &name));
    return j_new_undef(r, name.u.s, "empty sequence", false, out);
}

FILTER(f_first)
{
    struct jlist *l;
    TRY(j_bind(r, "first", args, NULL, 0, 0, NULL));
    if (in->type == J_ITER && in->u.iter->at < in->u.iter->items->n) { /* takes one of it */
        *out = in->u.iter->items->items[in->u.iter->at++];
        return ST_OK;
    }
    TRY(jval_items(r, in, &l));
    if (!l->n)
        return no_item(r, "first", out);
    *out = l->items[0];
    return ST_OK;
}

FILTER(f_last)
{
    struct jlist *l;
    TRY(j_bind(r, "last", args, NULL, 0, 0, NULL));
    if (in->type == J_ITER)
        FAIL(ST_UNSUPPORTED, "last: a generator has no last item");
    TRY(jval_items(r, in, &l));
    if (!l->n)
        return no_item(r, "last", out);
    *out = l->items[l->n - 1];
    return ST_OK;
}

FILTER(f_reverse)
{
    struct jlist *items, *l;
    size_t mark = j_mark(r);
    TRY(j_bind(r, "reverse", args, NULL, 0, 0, NULL));
    TRY(jval_items(r, in, &items));
    TRY(j_charge(r, items->n));
    if (in->type == J_STR) {
        for (size_t i = items->n; i-- > 0;)
            TRY(j_emit_str(r, &items->items[i]));
        return j_take(r, mark, out);
    }
    TRY(jlist_new(r, items->n, &l));
    for (size_t i = items->n; i-- > 0;)
        TRY(jlist_push(r, l, &items->items[i]));
    return j_iter(r, l, out);
}

FILTER(f_sort)
{
    static const char *const names[] = {"reverse", "case_sensitive", "attribute"};
    struct jval v[3], *keys;
    struct jlist *l;
    TRY(j_bind(r, "sort", args, names, 3, 0, v));
    TRY(copy_list(r, in, &l));
    TRY(keys_of(r, l, &v[2], true, j_flag(&v[1], false), &keys));
    TRY(j_sort(r, l->items, keys, l->n, j_flag(&v[0], false)));
    *out = jv_list(l);
    return ST_OK;
}

FILTER(f_dictsort)
{
    static const char *const names[] = {"case_sensitive", "by", "reverse"};
    struct jval v[3], *keys, which = jv_int(0), all;
    struct jlist *l;
    TRY(j_bind(r, "dictsort", args, names, 3, 0, v));
    if (in->type == J_UNDEF)
        return j_undef_error(in);
    if (in->type != J_DICT)
        FAIL(ST_UNSUPPORTED, "dictsort needs a dict, not a value of type %s", jtype_name(in));
    if (v[1].type == J_STR && jstr_is(v[1].u.s, "value", 5))
        which = jv_int(1);
    else if (v[1].type != J_MISSING && !(v[1].type == J_STR && jstr_is(v[1].u.s, "key", 3)))
        FAIL(ST_UNSUPPORTED, "dictsort: by is 'key' or 'value'");
    struct jview view = {JVIEW_ITEMS, in->u.dict};
    all = (struct jval){.type = J_VIEW, .u.view = &view};
    TRY(copy_list(r, &all, &l));
    TRY(keys_of(r, l, &which, false, j_flag(&v[0], false), &keys));
    TRY(j_sort(r, l->items, keys, l->n, j_flag(&v[2], false)));
    *out = jv_list(l);
    return ST_OK;
}

FILTER(f_items)
{
    struct jlist *l;
    TRY(j_bind(r, "items", args, NULL, 0, 0, NULL));
    if (in->type == J_UNDEF) {
        TRY(jlist_new(r, 0, &l));
        return j_iter(r, l, out);
    }
    if (in->type != J_DICT)
        FAIL(ST_UNSUPPORTED, "items needs a dict, not a value of type %s", jtype_name(in));
    struct jview view = {JVIEW_ITEMS, in->u.dict};
    struct jval all = {.type = J_VIEW, .u.view = &view};
    TRY(jval_items(r, &all, &l));
    return j_iter(r, l, out);
}

static enum status extreme(struct jrun *r, const char *what, const struct jval *in,
                           const struct jargs *args, int wanted, struct jval *out)
{
    static const char *const names[] = {"case_sensitive", "attribute"};
    struct jval v[2], *keys;
    struct jlist *items;
    size_t best = 0;
    TRY(j_bind(r, what, args, names, 2, 0, v));
    TRY(jval_items(r, in, &items));
    if (!items->n)
        return no_item(r, what, out);
    TRY(j_charge(r, items->n));
    TRY(keys_of(r, items, &v[1], false, j_flag(&v[0], false), &keys));
    for (size_t i = 1; i < items->n; i++) {
        int order;
        TRY(jval_compare(r, &keys[i], &keys[best], &order));
        if (order * wanted > 0)
            best = i;
    }
    *out = items->items[best];
    return ST_OK;
}

FILTER(f_min)
{
    return extreme(r, "min", in, args, -1, out);
}

FILTER(f_max)
{
    return extreme(r, "max", in, args, 1, out);
}

FILTER(f_sum)
{
    static const char *const names[] = {"attribute", "start"};
    struct jval v[2], item, total;
    struct jlist *items;
    TRY(j_bind(r, "sum", args, names, 2, 0, v));
    TRY(jval_items(r, in, &items));
    TRY(j_charge(r, items->n));
    *out = v[1].type == J_MISSING ? jv_int(0) : v[1];
    if (out->type == J_STR)
        FAIL(ST_UNSUPPORTED, "sum does not join strings");
    for (size_t i = 0; i < items->n; i++) {
        item = items->items[i];
        if (given(&v[0]))
            TRY(j_attribute_path(r, &items->items[i], &v[0], &item));
        total = *out;
        TRY(j_binary(r, OP_ADD, &total, &item, out));
    }
    return ST_OK;
}

/* --- choosing and changing items --- */

FILTER(f_unique)
{
    static const char *const names[] = {"case_sensitive", "attribute"};
    struct jval v[2], *keys, yes = jv_bool(true);
    struct jlist *items, *l;
    struct jdict *seen;
    TRY(j_bind(r, "unique", args, names, 2, 0, v));
    TRY(jval_items(r, in, &items));
    TRY(keys_of(r, items, &v[1], false, j_flag(&v[0], false), &keys));
    TRY(jdict_new(r, &seen));
    TRY(jlist_new(r, 0, &l));
    for (size_t i = 0; i < items->n; i++) {
        struct jpair *p;
        TRY(j_charge(r, 1));
        TRY(jdict_find(r, seen, &keys[i], &p));
        if (p)
            continue;
        TRY(jdict_set(r, seen, &keys[i], &yes));
        TRY(jlist_push(r, l, &items->items[i]));
    }
    return j_iter(r, l, out);
}

FILTER(f_groupby)
{
    static const char *const names[] = {"attribute", "default", "case_sensitive"};
    struct jval v[3], *keys;
    struct jlist *l, *groups, *group = NULL, *pair;
    TRY(j_bind(r, "groupby", args, names, 3, 1, v));
    TRY(copy_list(r, in, &l));
    bool case_sensitive = j_flag(&v[2], false);
    TRY(keys_of(r, l, &v[0], false, true, &keys));
    for (size_t i = 0; i < l->n; i++) {
        if (keys[i].type == J_UNDEF && given(&v[1]))
            keys[i] = v[1];
        TRY(j_sort_key(r, &keys[i], case_sensitive, &keys[i]));
    }
    TRY(j_sort(r, l->items, keys, l->n, false));
    TRY(jlist_new(r, 0, &groups));
    for (size_t i = 0; i < l->n; i++) {
        bool same = false;
        if (i)
            TRY(jval_equal(r, &keys[i - 1], &keys[i], &same));
        if (!same) {
            struct jval name, items, tuple;
            TRY(jlist_new(r, 0, &group));
            items = jv_list(group);
            TRY(j_attribute_path(r, &l->items[i], &v[0], &name)); /* as it is written first */
            if (name.type == J_UNDEF && given(&v[1]))
                name = v[1];
            TRY(jlist_pair(r, &name, &items, &pair));
            tuple = jv_tuple(pair);
            TRY(jlist_push(r, groups, &tuple));
        }
        TRY(jlist_push(r, group, &l->items[i]));
    }
    *out = jv_list(groups);
    return ST_OK;
}

/* map, select and their like take None and everything else that is false for nothing at all. */
static enum status empty_iter(struct jrun *r, struct jval *out)
{
    struct jlist *l;
    TRY(jlist_new(r, 0, &l));
    return j_iter(r, l, out);
}

/* The arguments without the first n. */
static struct jargs rest_of(const struct jargs *args, size_t n)
{
    return (struct jargs){n < args->n ? args->pos + n : NULL, args->n - n, args->kw, args->n_kw};
}

static enum status map_attribute(struct jrun *r, const struct jlist *items,
                                 const struct jargs *args, struct jlist *l)
{
    static const char *const names[] = {"attribute", "default"};
    struct jval v[2], item;
    TRY(j_bind(r, "map", args, names, 2, 1, v));
    for (size_t i = 0; i < items->n; i++) {
        TRY(j_attribute_path(r, &items->items[i], &v[0], &item));
        if (item.type == J_UNDEF && v[1].type != J_MISSING)
            item = v[1];
        TRY(jlist_push(r, l, &item));
    }
    return ST_OK;
}

FILTER(f_map)
{
    struct jlist *items, *l;
    const struct jstr *name;
    struct jval item;
    if (!jval_truth(in))
        return empty_iter(r, out);
    TRY(jval_items(r, in, &items));
    TRY(jlist_new(r, items->n, &l));
    TRY(j_charge(r, items->n));
    if (!args->n) {
        TRY(map_attribute(r, items, args, l));
        return j_iter(r, l, out);
    }
    TRY(j_want_str("map", &args->pos[0], &name));
    struct jargs rest = rest_of(args, 1);
    TRY(j_enter(r));
    for (size_t i = 0; i < items->n; i++) {
        TRY(j_filter(r, name, &items->items[i], &rest, &item));
        TRY(jlist_push(r, l, &item));
    }
    j_leave(r);
    return j_iter(r, l, out);
}

/* select, reject; with by_attribute the first argument is the attribute that is tested. */
static enum status choose(struct jrun *r, const char *what, const struct jval *in,
                          const struct jargs *args, bool by_attribute, bool keep, struct jval *out)
{
    struct jlist *items, *l;
    const struct jstr *test = NULL;
    size_t n_own = by_attribute;
    if (!jval_truth(in))
        return empty_iter(r, out);
    if (args->n < n_own)
        FAIL(ST_UNSUPPORTED, "%s needs the name of an attribute", what);
    if (args->n > n_own)
        TRY(j_want_str(what, &args->pos[n_own], &test));
    struct jargs rest = rest_of(args, test ? n_own + 1 : args->n);
    TRY(jval_items(r, in, &items));
    TRY(jlist_new(r, 0, &l));
    for (size_t i = 0; i < items->n; i++) {
        struct jval v = items->items[i];
        bool holds;
        TRY(j_charge(r, 1));
        if (by_attribute)
            TRY(j_attribute_path(r, &items->items[i], &args->pos[0], &v));
        if (test)
            TRY(j_test(r, test, &v, &rest, &holds));
        else
            holds = jval_truth(&v);
        if (holds == keep)
            TRY(jlist_push(r, l, &items->items[i]));
    }
    return j_iter(r, l, out);
}

FILTER(f_select)
{
    return choose(r, "select", in, args, false, true, out);
}

FILTER(f_reject)
{
    return choose(r, "reject", in, args, false, false, out);
}

FILTER(f_selectattr)
{
    return choose(r, "selectattr", in, args, true, true, out);
}

FILTER(f_rejectattr)
{
    return choose(r, "rejectattr", in, args, true, false, out);
}

/* --- cutting into pieces --- */

static enum status count_and_fill(struct jrun *r, const char *what, const struct jargs *args,
                                  size_t *count, struct jval *fill)
{
    const char *const names[] = {what[0] == 'b' ? "linecount" : "slices", "fill_with"};
    struct jval v[2];
    int64_t n;
    TRY(j_bind(r, what, args, names, 2, 1, v));
    TRY(j_want_int(what, &v[0], &n));
    if (n < 1 || n > INT32_MAX)
        FAIL(ST_UNSUPPORTED, "%s: the number of pieces is out of range", what);
    *count = (size_t)n;
    *fill = v[1].type == J_MISSING ? jv_none() : v[1];
    return ST_OK;
}

static enum status push_piece(struct jrun *r, struct jlist *pieces, const struct jlist *items,
                              size_t from, size_t to, size_t n_fill, const struct jval *fill)
{
    struct jlist *piece;
    TRY(j_charge(r, to - from + n_fill + 1));
    TRY(jlist_new(r, to - from + n_fill, &piece));
    for (size_t i = from; i < to; i++)
        TRY(jlist_push(r, piece, &items->items[i]));
    for (size_t i = 0; i < n_fill; i++)
        TRY(jlist_push(r, piece, fill));
    struct jval v = jv_list(piece);
    return jlist_push(r, pieces, &v);
}

FILTER(f_batch)
{
    struct jlist *items, *pieces;
    struct jval fill;
    size_t size;
    TRY(count_and_fill(r, "batch", args, &size, &fill));
    TRY(jval_items(r, in, &items));
    TRY(jlist_new(r, 0, &pieces));
    for (size_t at = 0; at < items->n; at += size) {
        size_t n = items->n - at < size ? items->n - at : size;
        size_t n_fill = fill.type == J_NONE ? 0 : size - n;
        TRY(push_piece(r, pieces, items, at, at + n, n_fill, &fill));
    }
    return j_iter(r, pieces, out);
}

FILTER(f_slice)
{
    struct jlist *items, *pieces;
    struct jval fill;
    size_t n, at = 0;
    TRY(count_and_fill(r, "slice", args, &n, &fill));
    TRY(jval_items(r, in, &items));
    TRY(jlist_new(r, 0, &pieces));
    for (size_t i = 0; i < n; i++) {
        size_t size = items->n / n + (i < items->n % n);
        size_t n_fill = fill.type != J_NONE && i >= items->n % n && items->n % n;
        if (fill.type != J_NONE && items->n % n == 0)
            n_fill = 1; /* as Jinja does */
        TRY(push_piece(r, pieces, items, at, at + size, n_fill, &fill));
        at += size;
    }
    return j_iter(r, pieces, out);
}

const struct jfilter j_seq_filters[] = {
    {"items", f_items},
    {"list", f_list},
    {"first", f_first},
    {"last", f_last},
    {"selectattr", f_selectattr},
    {"rejectattr", f_rejectattr},
    {"map", f_map},
    {"select", f_select},
    {"reject", f_reject},
    {"dictsort", f_dictsort},
    {"sort", f_sort},
    {"unique", f_unique},
    {"reverse", f_reverse},
    {"min", f_min},
    {"max", f_max},
    {"sum", f_sum},
    {"groupby", f_groupby},
    {"batch", f_batch},
    {"slice", f_slice},
    {NULL, NULL},
};
