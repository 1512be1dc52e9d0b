/* Equality, order and `in`, as Python has them. */
#include <string.h>

#include "coordinator/jinja/run.h"

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
