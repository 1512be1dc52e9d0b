/* Operators: arithmetic, joining, comparing. */
#include <math.h>
#include <string.h>

#include "coordinator/jinja/run.h"

static const char *const OP_TEXT[] = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

static enum status overflow(enum jop op)
{
    FAIL(ST_UNSUPPORTED, "the result of '%s' does not fit into 64 bits", OP_TEXT[op]);
}

static bool add_overflows(int64_t a, int64_t b)
{
    return b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b;
}

static bool mul_overflows(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return false;
    if (a == -1 || b == -1)
        return a == INT64_MIN || b == INT64_MIN;
    return (a > 0) == (b > 0) ? (a > 0 ? a > INT64_MAX / b : a < INT64_MAX / b)
                              : (a > 0 ? b < INT64_MIN / a : a < INT64_MIN / b);
}

/* Python's // and %: towards minus infinity, the sign of the divisor.  b is not 0. */
static void divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *quotient -= 1;
        *rest += b;
    }
}

static enum status int_power(int64_t a, int64_t b, struct jval *out)
{
    int64_t v = 1;
    if (b < 0) {
        if (a == 0)
            FAIL(ST_UNSUPPORTED, "0 to a negative power");
        *out = jv_float(pow((double)a, (double)b));
        return ST_OK;
    }
    if (a == 1 || a == -1 || a == 0)
        b = a ? b & 1 : (b > 0);
    for (; b > 0; b--) { /* at most 63 turns before it overflows */
        if (mul_overflows(v, a))
            return overflow(OP_POW);
        v *= a;
    }
    *out = jv_int(v);
    return ST_OK;
}

static enum status int_binary(enum jop op, int64_t a, int64_t b, struct jval *out)
{
    int64_t quotient, rest;
    if ((op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD) && b == 0)
        FAIL(ST_UNSUPPORTED, "division by zero");
    switch (op) {
    case OP_ADD:
        if (add_overflows(a, b))
            return overflow(op);
        *out = jv_int(a + b);
        return ST_OK;
    case OP_SUB:
        if (b == INT64_MIN ? a >= 0 : add_overflows(a, -b))
            return overflow(op);
        *out = jv_int(a - b);
        return ST_OK;
    case OP_MUL:
        if (mul_overflows(a, b))
            return overflow(op);
        *out = jv_int(a * b);
        return ST_OK;
    case OP_DIV:
        *out = jv_float((double)a / (double)b);
        return ST_OK;
    case OP_POW:
        return int_power(a, b, out);
    default:
        if (a == INT64_MIN && b == -1)
            return overflow(op);
        divide(a, b, &quotient, &rest);
        *out = jv_int(op == OP_MOD ? rest : quotient);
        return ST_OK;
    }
}

static enum status float_power(double a, double b, struct jval *out)
{
    if (a == 0 && b < 0)
        FAIL(ST_UNSUPPORTED, "0.0 to a negative power");
    double f = pow(a, b);
    if (isnan(f) && !isnan(a) && !isnan(b))
        FAIL(ST_UNSUPPORTED, "a negative number to a fractional power");
    if (isinf(f) && !isinf(a) && !isinf(b))
        FAIL(ST_UNSUPPORTED, "the result of '**' is too large");
    *out = jv_float(f);
    return ST_OK;
}

static enum status float_binary(enum jop op, double a, double b, struct jval *out)
{
    if ((op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD) && b == 0)
        FAIL(ST_UNSUPPORTED, "division by zero");
    double rest;
    switch (op) {
    case OP_ADD:
        *out = jv_float(a + b);
        return ST_OK;
    case OP_SUB:
        *out = jv_float(a - b);
        return ST_OK;
    case OP_MUL:
        *out = jv_float(a * b);
        return ST_OK;
    case OP_DIV:
        *out = jv_float(a / b);
        return ST_OK;
    case OP_POW:
        return float_power(a, b, out);
    default:
        rest = fmod(a, b);
        if (rest != 0 && (rest < 0) != (b < 0))
            rest += b;
        *out = jv_float(op == OP_MOD ? (rest == 0 ? copysign(0.0, b) : rest)
                                     : floor((a - rest) / b + 0.5));
        return ST_OK;
    }
}

static enum status join_strings(struct jrun *r, const struct jval *a, const struct jval *b,
                                struct jval *out)
{
    bool safe = a->safe || b->safe;
    if (safe) {
        size_t mark = j_mark(r);
        TRY(a->safe ? j_emit(r, a->u.s->p, a->u.s->n) : j_emit_escaped(r, a->u.s->p, a->u.s->n));
        TRY(b->safe ? j_emit(r, b->u.s->p, b->u.s->n) : j_emit_escaped(r, b->u.s->p, b->u.s->n));
        TRY(j_take(r, mark, out));
        out->safe = true;
        return ST_OK;
    }
    size_t n = a->u.s->n + b->u.s->n;
    TRY(j_charge_bytes(r, n));
    struct jstr *s = jmem_alloc(&r->mem, sizeof *s);
    char *bytes = jmem_alloc(&r->mem, n);
    if (!s || !bytes)
        return jmem_full(&r->mem);
    memcpy(bytes, a->u.s->p, a->u.s->n);
    memcpy(bytes + a->u.s->n, b->u.s->p, b->u.s->n);
    j_copy_marks(r, bytes, a->u.s->p, a->u.s->n);
    j_copy_marks(r, bytes + a->u.s->n, b->u.s->p, b->u.s->n);
    *s = (struct jstr){bytes, n, a->u.s->n_chars + b->u.s->n_chars};
    *out = jv_str(s);
    return ST_OK;
}

static enum status join_lists(struct jrun *r, const struct jval *a, const struct jval *b,
                              struct jval *out)
{
    struct jlist *l;
    size_t n = a->u.list->n + b->u.list->n;
    TRY(j_charge(r, n));
    TRY(jlist_new(r, n, &l));
    if (a->u.list->n)
        memcpy(l->items, a->u.list->items, a->u.list->n * sizeof *l->items);
    if (b->u.list->n)
        memcpy(l->items + a->u.list->n, b->u.list->items, b->u.list->n * sizeof *l->items);
    l->n = n;
    *out = a->type == J_LIST ? jv_list(l) : jv_tuple(l);
    return ST_OK;
}

static enum status repeat(struct jrun *r, const struct jval *what, int64_t times, struct jval *out)
{
    size_t mark = j_mark(r);
    struct jlist *l;
    if (what->type == J_STR) {
        for (int64_t i = 0; i < times; i++) {
            TRY(j_charge(r, 1));
            TRY(j_emit(r, what->u.s->p, what->u.s->n));
        }
        TRY(j_take(r, mark, out));
        out->safe = what->safe;
        return ST_OK;
    }
    TRY(jlist_new(r, 0, &l));
    for (int64_t i = 0; i < times; i++) {
        TRY(j_charge(r, what->u.list->n + 1));
        for (size_t k = 0; k < what->u.list->n; k++)
            TRY(jlist_push(r, l, &what->u.list->items[k]));
    }
    *out = what->type == J_LIST ? jv_list(l) : jv_tuple(l);
    return ST_OK;
}

static bool is_sequence(const struct jval *v)
{
    return v->type == J_STR || v->type == J_LIST || v->type == J_TUPLE;
}

enum status j_binary(struct jrun *r, enum jop op, const struct jval *a, const struct jval *b,
                     struct jval *out)
{
    int64_t x = 0, y = 0;
    bool ia = jval_as_int(a, &x), ib = jval_as_int(b, &y);
    if (ia && ib)
        return int_binary(op, x, y, out);
    if ((ia || a->type == J_FLOAT) && (ib || b->type == J_FLOAT))
        return float_binary(op, jval_as_float(a), jval_as_float(b), out);
    if (op == OP_MOD && a->type == J_STR)
        return j_percent(r, a->u.s, b, out);
    if (a->type == J_UNDEF || b->type == J_UNDEF)
        return j_undef_error(a->type == J_UNDEF ? a : b);
    if (op == OP_ADD && a->type == b->type && is_sequence(a))
        return a->type == J_STR ? join_strings(r, a, b, out) : join_lists(r, a, b, out);
    if (op == OP_MUL && is_sequence(a) && ib)
        return repeat(r, a, y, out);
    if (op == OP_MUL && is_sequence(b) && ia)
        return repeat(r, b, x, out);
    if (a->type == J_BIG || b->type == J_BIG)
        FAIL(ST_UNSUPPORTED, "'%s' with a whole number beyond 64 bits", OP_TEXT[op]);
    FAIL(ST_UNSUPPORTED, "'%s' does not work between values of type %s and %s", OP_TEXT[op],
         jtype_name(a), jtype_name(b));
}

enum status j_negate(const struct jval *a, bool minus, struct jval *out)
{
    int64_t x;
    if (a->type == J_UNDEF)
        return j_undef_error(a);
    if (a->type == J_FLOAT) {
        *out = jv_float(minus ? -a->u.f : a->u.f);
        return ST_OK;
    }
    if (!jval_as_int(a, &x))
        FAIL(ST_UNSUPPORTED, "a value of type %s has no sign", jtype_name(a));
    if (minus && x == INT64_MIN)
        return overflow(OP_SUB);
    *out = jv_int(minus ? -x : x);
    return ST_OK;
}

enum status j_compare_op(struct jrun *r, enum jop op, const struct jval *a, const struct jval *b,
                         bool *out)
{
    int order;
    switch (op) {
    case OP_EQ:
    case OP_NE:
        TRY(jval_equal(r, a, b, out));
        *out = *out == (op == OP_EQ);
        return ST_OK;
    case OP_IN:
    case OP_NOT_IN:
        TRY(jval_contains(r, b, a, out));
        *out = *out == (op == OP_IN);
        return ST_OK;
    default:
        break;
    }
    if ((a->type == J_FLOAT && isnan(a->u.f)) || (b->type == J_FLOAT && isnan(b->u.f))) {
        *out = false;
        return ST_OK;
    }
    TRY(jval_compare(r, a, b, &order));
    *out = op == OP_LT   ? order < 0
           : op == OP_LE ? order <= 0
           : op == OP_GT ? order > 0
                         : order >= 0;
    return ST_OK;
}
