/* What may stand behind "is". */
#include <string.h>

#include "coordinator/jinja/run.h"
#include "coordinator/jinja/utf8.h"

typedef enum status test_fn(struct jrun *r, const struct jval *in, const struct jval *arg,
                            bool *out);

struct test {
    const char *name;
    test_fn *call;
    unsigned n_args;
};

#define TEST(name)                                                                                 \
    static enum status name(struct jrun *r, const struct jval *in, const struct jval *arg,         \
                            bool *out)

/* A test that only looks at its value. */
#define SIMPLE_TEST(name, condition)                                                               \
    TEST(name)                                                                                     \
    {                                                                                              \
        (void)r;                                                                                   \
        (void)arg;                                                                                 \
        *out = (condition);                                                                        \
        return ST_OK;                                                                              \
    }

static bool is_sequence(const struct jval *v) /* has a length and items by index */
{
    return v->type == J_STR || v->type == J_LIST || v->type == J_TUPLE || v->type == J_DICT ||
           v->type == J_RANGE || v->type == J_UNDEF;
}

static bool is_iterable(const struct jval *v)
{
    return is_sequence(v) || v->type == J_VIEW || v->type == J_ITER || v->type == J_LOOP;
}

static bool is_callable(const struct jval *v)
{
    return v->type == J_MACRO || v->type == J_FUNC || v->type == J_METHOD || v->type == J_LOOP ||
           v->type == J_JOINER || v->type == J_UNDEF;
}

SIMPLE_TEST(t_defined, in->type != J_UNDEF)
SIMPLE_TEST(t_undefined, in->type == J_UNDEF)
SIMPLE_TEST(t_none, in->type == J_NONE)
SIMPLE_TEST(t_string, in->type == J_STR)
SIMPLE_TEST(t_mapping, in->type == J_DICT)
SIMPLE_TEST(t_number, jval_is_number(in))
SIMPLE_TEST(t_integer, in->type == J_INT || in->type == J_BIG)
SIMPLE_TEST(t_float, in->type == J_FLOAT)
SIMPLE_TEST(t_boolean, in->type == J_BOOL)
SIMPLE_TEST(t_true, in->type == J_BOOL && in->u.b)
SIMPLE_TEST(t_false, in->type == J_BOOL && !in->u.b)
SIMPLE_TEST(t_sequence, is_sequence(in))
SIMPLE_TEST(t_iterable, is_iterable(in))
SIMPLE_TEST(t_callable, is_callable(in))
SIMPLE_TEST(t_escaped, in->type == J_STR && in->safe)

static enum status divides(struct jrun *r, const struct jval *in, const struct jval *by,
                           int64_t rest, bool *out)
{
    struct jval left, wanted = jv_int(rest);
    TRY(j_binary(r, OP_MOD, in, by, &left));
    return jval_equal(r, &left, &wanted, out);
}

TEST(t_even)
{
    struct jval two = jv_int(2);
    (void)arg;
    return divides(r, in, &two, 0, out);
}

TEST(t_odd)
{
    struct jval two = jv_int(2);
    (void)arg;
    return divides(r, in, &two, 1, out);
}

TEST(t_divisibleby)
{
    return divides(r, in, arg, 0, out);
}

#define COMPARING_TEST(name, op)                                                                   \
    TEST(name)                                                                                     \
    {                                                                                              \
        return j_compare_op(r, op, in, arg, out);                                                  \
    }

COMPARING_TEST(t_eq, OP_EQ)
COMPARING_TEST(t_ne, OP_NE)
COMPARING_TEST(t_lt, OP_LT)
COMPARING_TEST(t_le, OP_LE)
COMPARING_TEST(t_gt, OP_GT)
COMPARING_TEST(t_ge, OP_GE)
COMPARING_TEST(t_in, OP_IN)

TEST(t_sameas)
{
    *out = false;
    if (in->type != arg->type)
        return ST_OK;
    if (in->type == J_LIST || in->type == J_DICT || in->type == J_NAMESPACE) {
        *out = in->u.list == arg->u.list;
        return ST_OK;
    }
    return jval_equal(r, in, arg, out);
}

static enum status is_cased(struct jrun *r, const struct jval *in, bool upper, bool *out)
{
    struct jval s;
    bool some = false;
    *out = false;
    TRY(j_to_str(r, in, &s));
    TRY(j_charge_chars(r, s.u.s->n));
    for (size_t i = 0, k; i < s.u.s->n; i += k) {
        uint32_t c = u8_decode(s.u.s->p + i, &k);
        if (!u8_is_cased(c))
            continue;
        if (!(upper ? u8_is_upper(c) : u8_is_lower(c)))
            return ST_OK;
        some = true;
    }
    *out = some;
    return ST_OK;
}

TEST(t_upper)
{
    (void)arg;
    return is_cased(r, in, true, out);
}

TEST(t_lower)
{
    (void)arg;
    return is_cased(r, in, false, out);
}

TEST(t_filter)
{
    (void)r;
    (void)arg;
    *out = in->type == J_STR && j_has_filter(in->u.s);
    return ST_OK;
}

TEST(t_test);

static const struct test TESTS[] = {
    {"defined", t_defined, 0},
    {"string", t_string, 0},
    {"none", t_none, 0},
    {"mapping", t_mapping, 0},
    {"iterable", t_iterable, 0},
    {"sequence", t_sequence, 0},
    {"true", t_true, 0},
    {"false", t_false, 0},
    {"undefined", t_undefined, 0},
    {"boolean", t_boolean, 0},
    {"number", t_number, 0},
    {"integer", t_integer, 0},
    {"float", t_float, 0},
    {"equalto", t_eq, 1},
    {"eq", t_eq, 1},
    {"==", t_eq, 1},
    {"ne", t_ne, 1},
    {"!=", t_ne, 1},
    {"in", t_in, 1},
    {"lt", t_lt, 1},
    {"lessthan", t_lt, 1},
    {"<", t_lt, 1},
    {"le", t_le, 1},
    {"<=", t_le, 1},
    {"gt", t_gt, 1},
    {"greaterthan", t_gt, 1},
    {">", t_gt, 1},
    {"ge", t_ge, 1},
    {">=", t_ge, 1},
    {"even", t_even, 0},
    {"odd", t_odd, 0},
    {"divisibleby", t_divisibleby, 1},
    {"sameas", t_sameas, 1},
    {"callable", t_callable, 0},
    {"escaped", t_escaped, 0},
    {"upper", t_upper, 0},
    {"lower", t_lower, 0},
    {"filter", t_filter, 0},
    {"test", t_test, 0},
};

static const struct test *find(const struct jstr *name)
{
    for (size_t i = 0; i < ARRAY_LEN(TESTS); i++)
        if (jstr_is(name, TESTS[i].name, strlen(TESTS[i].name)))
            return &TESTS[i];
    return NULL;
}

TEST(t_test)
{
    (void)r;
    (void)arg;
    *out = in->type == J_STR && find(in->u.s);
    return ST_OK;
}

enum status j_test(struct jrun *r, const struct jstr *name, const struct jval *in,
                   const struct jargs *args, bool *out)
{
    const struct test *t = find(name);
    if (!t)
        FAIL(ST_UNSUPPORTED, "there is no test '%.*s'", J_STR_ARG(name));
    if (args->n + args->n_kw != t->n_args)
        FAIL(ST_UNSUPPORTED, "the test '%s' takes %u arguments, not %zu", t->name, t->n_args,
             args->n + args->n_kw);
    const struct jval *arg = args->n ? &args->pos[0] : args->n_kw ? &args->kw[0].value : NULL;
    return t->call(r, in, arg, out);
}
