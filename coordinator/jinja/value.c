#include "coordinator/jinja/value.h"

#include <string.h>

#include "coordinator/jinja/run.h"
#include "coordinator/jinja/utf8.h"

enum status jstr_view(struct jmem *m, const char *p, size_t n, struct jval *out)
{
    struct jstr *s = jmem_alloc(m, sizeof *s);
    if (!s)
        return jmem_full(m);
    *s = (struct jstr){p, n, u8_count(p, n)};
    *out = jv_str(s);
    return ST_OK;
}

enum status jstr_copy(struct jmem *m, const char *p, size_t n, struct jval *out)
{
    char *bytes = jmem_alloc(m, n);
    if (!bytes)
        return jmem_full(m);
    if (n)
        memcpy(bytes, p, n);
    return jstr_view(m, bytes, n, out);
}

enum status jstr_literal(struct jmem *m, const char *text, struct jval *out)
{
    return jstr_view(m, text, strlen(text), out);
}

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

/* --- what Python says --- */

const char *jtype_name(const struct jval *v)
{
    static const char *const names[] = {
        [J_UNDEF] = "Undefined", [J_NONE] = "NoneType",       [J_BOOL] = "bool",
        [J_INT] = "int",         [J_FLOAT] = "float",         [J_BIG] = "int",
        [J_STR] = "str",         [J_LIST] = "list",           [J_TUPLE] = "tuple",
        [J_DICT] = "dict",       [J_VIEW] = "dict view",      [J_RANGE] = "range",
        [J_ITER] = "generator",  [J_NAMESPACE] = "Namespace", [J_MACRO] = "Macro",
        [J_METHOD] = "method",   [J_FUNC] = "function",       [J_LOOP] = "LoopContext",
        [J_CYCLER] = "Cycler",   [J_JOINER] = "Joiner",       [J_MISSING] = "missing",
    };
    return names[v->type];
}

bool jval_truth(const struct jval *v)
{
    switch (v->type) {
    case J_UNDEF:
    case J_NONE:
        return false;
    case J_BOOL:
        return v->u.b;
    case J_INT:
        return v->u.i != 0;
    case J_FLOAT:
        return v->u.f != 0;
    case J_STR:
        return v->u.s->n > 0;
    case J_LIST:
    case J_TUPLE:
        return v->u.list->n > 0;
    case J_DICT:
        return v->u.dict->n > 0;
    case J_VIEW:
        return v->u.view->dict->n > 0;
    case J_RANGE:
        return v->u.range->n > 0;
    default:
        return true;
    }
}

static enum status lists_equal(struct jrun *r, const struct jlist *a, const struct jlist *b,
                               bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++)
        TRY(jval_equal(r, &a->items[i], &b->items[i], out));
    return ST_OK;
}

static enum status dicts_equal(struct jrun *r, const struct jdict *a, const struct jdict *b,
                               bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        struct jpair *p;
        TRY(jdict_find(r, b, &a->pairs[i].key, &p));
        *out = p != NULL;
        if (p)
            TRY(jval_equal(r, &a->pairs[i].value, &p->value, out));
    }
    return ST_OK;
}

static bool ranges_equal(const struct jrange *a, const struct jrange *b)
{
    return a->n == b->n &&
           (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

/* a == b for a whole number and a fraction, exactly. */
static bool int_equals_float(int64_t i, double f)
{
    return f >= -9223372036854775808.0 && f < 9223372036854775808.0 && (double)(int64_t)f == f &&
           (int64_t)f == i;
}

static bool numbers_equal(const struct jval *a, const struct jval *b)
{
    int64_t x, y;
    if (a->type == J_BIG || b->type == J_BIG)
        return a->type == b->type && jstr_is(a->u.s, b->u.s->p, b->u.s->n);
    bool ia = jval_as_int(a, &x), ib = jval_as_int(b, &y);
    if (ia && ib)
        return x == y;
    if (ia)
        return int_equals_float(x, b->u.f);
    if (ib)
        return int_equals_float(y, a->u.f);
    return a->u.f == b->u.f;
}

static enum status equal_of_type(struct jrun *r, const struct jval *a, const struct jval *b,
                                 bool *out)
{
    switch (a->type) {
    case J_UNDEF:
    case J_NONE:
        *out = true;
        return ST_OK;
    case J_LIST:
    case J_TUPLE:
        return lists_equal(r, a->u.list, b->u.list, out);
    case J_DICT:
        return dicts_equal(r, a->u.dict, b->u.dict, out);
    case J_RANGE:
        *out = ranges_equal(a->u.range, b->u.range);
        return ST_OK;
    default: /* identity */
        *out = a->u.list == b->u.list;
        return ST_OK;
    }
}

enum status jval_equal(struct jrun *r, const struct jval *a, const struct jval *b, bool *out)
{
    *out = false;
    if (a->type == J_STR && b->type == J_STR) {
        *out = jstr_is(a->u.s, b->u.s->p, b->u.s->n);
        return *out ? j_charge_bytes(r, a->u.s->n) : ST_OK;
    }
    if (jval_is_number(a) && jval_is_number(b)) {
        *out = numbers_equal(a, b);
        return ST_OK;
    }
    if (a->type != b->type)
        return ST_OK;
    TRY(j_charge(r, 1));
    TRY(j_enter(r));
    TRY(equal_of_type(r, a, b, out));
    j_leave(r);
    return ST_OK;
}

static int sign(double d)
{
    return d < 0 ? -1 : d > 0;
}

static int compare_bytes(const struct jstr *a, const struct jstr *b) /* = by code point */
{
    int c = memcmp(a->p, b->p, a->n < b->n ? a->n : b->n);
    return c ? c : a->n < b->n ? -1 : a->n > b->n;
}

/* The order of two whole numbers of which at least one is beyond 64 bits. */
static int compare_big(const struct jval *a, const struct jval *b)
{
    int sign_a = a->type == J_BIG ? (*a->u.s->p == '-' ? -1 : 1) : 0;
    int sign_b = b->type == J_BIG ? (*b->u.s->p == '-' ? -1 : 1) : 0;
    if (sign_a != sign_b)
        return sign_a < sign_b ? -1 : 1;
    if (a->u.s->n != b->u.s->n)
        return (a->u.s->n < b->u.s->n ? -1 : 1) * sign_a;
    return compare_bytes(a->u.s, b->u.s) * sign_a;
}

static enum status compare_lists(struct jrun *r, const struct jlist *a, const struct jlist *b,
                                 int *out)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        TRY(jval_equal(r, &a->items[i], &b->items[i], &same));
        if (!same)
            return jval_compare(r, &a->items[i], &b->items[i], out);
    }
    *out = a->n < b->n ? -1 : a->n > b->n;
    return ST_OK;
}

enum status jval_compare(struct jrun *r, const struct jval *a, const struct jval *b, int *out)
{
    int64_t x, y;
    if (a->type == J_STR && b->type == J_STR) {
        *out = compare_bytes(a->u.s, b->u.s);
        return j_charge_bytes(r, a->u.s->n < b->u.s->n ? a->u.s->n : b->u.s->n);
    }
    if (jval_as_int(a, &x) && jval_as_int(b, &y)) {
        *out = x < y ? -1 : x > y;
        return ST_OK;
    }
    if (jval_is_number(a) && jval_is_number(b) && a->type != J_BIG && b->type != J_BIG) {
        *out = sign(jval_as_float(a) - jval_as_float(b));
        return ST_OK;
    }
    if (jval_is_number(a) && jval_is_number(b) && a->type != J_FLOAT && b->type != J_FLOAT) {
        *out = compare_big(a, b);
        return ST_OK;
    }
    if (a->type == b->type && (a->type == J_LIST || a->type == J_TUPLE)) {
        TRY(j_enter(r));
        TRY(compare_lists(r, a->u.list, b->u.list, out));
        j_leave(r);
        return ST_OK;
    }
    if (a->type == J_UNDEF || b->type == J_UNDEF)
        return j_undef_error(a->type == J_UNDEF ? a : b);
    FAIL(ST_UNSUPPORTED, "values of type %s and %s have no order", jtype_name(a), jtype_name(b));
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

/* Is the needle a piece of the hay?  Byte search is right for UTF-8. */
static enum status str_contains(struct jrun *r, const struct jstr *hay, const struct jstr *needle,
                                bool *out)
{
    size_t at;
    TRY(j_find(r, hay->p, hay->n, needle->p, needle->n, &at));
    *out = at != SIZE_MAX;
    return ST_OK;
}

enum status jval_contains(struct jrun *r, const struct jval *box, const struct jval *v, bool *out)
{
    struct jpair *p;
    struct jlist *items;
    if (box->type == J_STR) {
        if (v->type != J_STR)
            FAIL(ST_UNSUPPORTED, "'in <string>' needs a string, not a value of type %s",
                 jtype_name(v));
        return str_contains(r, box->u.s, v->u.s, out);
    }
    if (box->type == J_DICT) {
        TRY(jdict_find(r, box->u.dict, v, &p));
        *out = p != NULL;
        return ST_OK;
    }
    TRY(jval_items(r, box, &items));
    TRY(j_charge(r, items->n));
    *out = false;
    for (size_t i = 0; !*out && i < items->n; i++)
        TRY(jval_equal(r, &items->items[i], v, out));
    return ST_OK;
}
