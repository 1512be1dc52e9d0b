/* What stands behind a primary expression: subscripts, calls, filters and tests. */
#include "coordinator/jinja/parser.h"

#include <string.h>

/* --- calls --- */

static enum status push_keyword(struct jparser *p, struct jcall *call, const struct jsym *name,
                                struct jnode *value)
{
    size_t n = call->n_keywords;
    if ((n & (n - 1)) == 0) { /* full at 0, 1, 2, 4, ... */
        struct jkeyword *keywords = jmem_array(p->mem, n ? n * 2 : 1, sizeof *keywords);
        if (!keywords)
            return jmem_full(p->mem);
        if (n)
            memcpy(keywords, call->keywords, n * sizeof *keywords);
        call->keywords = keywords;
    }
    call->keywords[call->n_keywords++] = (struct jkeyword){name, value};
    return ST_OK;
}

static enum status parse_argument(struct jparser *p, struct jcall *call)
{
    uint32_t line = jp_current(p)->line;
    struct jnode *value;
    bool wrong;
    if (jp_skip_op(p, "*")) {
        wrong = call->star || call->star_star;
        TRY(jp_expression(p, true, &call->star));
    } else if (jp_skip_op(p, "**")) {
        wrong = call->star_star != NULL;
        TRY(jp_expression(p, true, &call->star_star));
    } else if (jp_current(p)->type == T_NAME && jp_is_op(jp_next_token(p), "=")) {
        const struct jsym *name;
        wrong = call->star_star != NULL;
        TRY(jp_take_name(p, &name));
        TRY(jp_expect_op(p, "="));
        TRY(jp_expression(p, true, &value));
        TRY(push_keyword(p, call, name, value));
    } else {
        wrong = call->star || call->star_star || call->n_keywords;
        TRY(jp_expression(p, true, &value));
        TRY(jp_push(p, &call->args, value));
    }
    if (wrong)
        PARSE_FAIL("%u: an argument stands after one that must come last", line);
    return ST_OK;
}

static enum status parse_call_args(struct jparser *p, struct jcall **out)
{
    struct jcall *call = jmem_alloc(p->mem, sizeof *call);
    if (!call)
        return jmem_full(p->mem);
    *call = (struct jcall){0};
    TRY(jp_expect_op(p, "("));
    for (bool first = true; !jp_is_op(jp_current(p), ")"); first = false) {
        if (!first) {
            TRY(jp_expect_op(p, ","));
            if (jp_is_op(jp_current(p), ")"))
                break;
        }
        TRY(parse_argument(p, call));
    }
    *out = call;
    return jp_expect_op(p, ")");
}

static enum status parse_call(struct jparser *p, struct jnode **node)
{
    struct jnode *n;
    TRY(jp_node(p, N_CALL, jp_current(p)->line, &n));
    n->a = *node;
    *node = n;
    return parse_call_args(p, &n->call);
}

/* --- subscripts --- */

static enum status parse_subscribed(struct jparser *p, struct jnode **out)
{
    struct jnode *part[3] = {NULL, NULL, NULL}, *n;
    uint32_t line = jp_current(p)->line;
    if (!jp_is_op(jp_current(p), ":")) {
        TRY(jp_expression(p, true, &part[0]));
        if (!jp_is_op(jp_current(p), ":")) {
            *out = part[0];
            return ST_OK;
        }
    }
    for (int i = 1; i < 3 && jp_skip_op(p, ":"); i++) {
        const struct jtoken *t = jp_current(p);
        if (!jp_is_op(t, ":") && !jp_is_op(t, "]") && !jp_is_op(t, ","))
            TRY(jp_expression(p, true, &part[i]));
    }
    TRY(jp_node(p, N_SLICE, line, &n));
    for (int i = 0; i < 3; i++)
        TRY(jp_push(p, &n->kids, part[i]));
    *out = n;
    return ST_OK;
}

static enum status parse_dot(struct jparser *p, struct jnode **node)
{
    struct jnode *n;
    const struct jtoken *t = jp_current(p);
    if (t->type == T_NAME) {
        TRY(jp_node(p, N_ATTR, t->line, &n));
        TRY(jp_take_name(p, &n->sym));
    } else if (t->type == T_NUMBER && t->value.type == J_INT) {
        TRY(jp_node(p, N_ITEM, t->line, &n));
        TRY(jp_node(p, N_CONST, t->line, &n->b));
        n->b->value = t->value;
        p->at++;
    } else {
        return jp_unexpected(p, "a name or a number after '.'");
    }
    n->a = *node;
    *node = n;
    return ST_OK;
}

static enum status parse_brackets(struct jparser *p, uint32_t line, struct jnode **node)
{
    struct jnode *n, *arg, *tuple;
    struct jbody args = {0};
    while (!jp_is_op(jp_current(p), "]")) {
        if (args.n)
            TRY(jp_expect_op(p, ","));
        TRY(parse_subscribed(p, &arg));
        TRY(jp_push(p, &args, arg));
    }
    TRY(jp_expect_op(p, "]"));
    if (args.n != 1) {
        TRY(jp_node(p, N_TUPLE, line, &tuple));
        tuple->kids = args;
        for (size_t i = 0; i < args.n; i++)
            if (args.items[i]->type == N_SLICE)
                PARSE_FAIL("%u: a slice among several subscripts", line);
        arg = tuple;
    } else {
        arg = args.items[0];
    }
    if (arg->type == N_SLICE) {
        arg->a = *node;
        *node = arg;
        return ST_OK;
    }
    TRY(jp_node(p, N_ITEM, line, &n));
    n->a = *node;
    n->b = arg;
    *node = n;
    return ST_OK;
}

enum status jp_postfix(struct jparser *p, struct jnode **node)
{
    for (;;) {
        uint32_t line = jp_current(p)->line;
        if (jp_skip_op(p, "."))
            TRY(parse_dot(p, node));
        else if (jp_skip_op(p, "["))
            TRY(parse_brackets(p, line, node));
        else if (jp_is_op(jp_current(p), "("))
            TRY(parse_call(p, node));
        else
            return ST_OK;
    }
}

/* --- filters and tests --- */

/* a.b.c as one name. */
static enum status dotted_name(struct jparser *p, const struct jsym **out)
{
    TRY(jp_take_name(p, out));
    if (jp_is_op(jp_current(p), "."))
        return jp_unexpected(p, "the name of a filter or test of Jinja itself");
    return ST_OK;
}

enum status jp_filters(struct jparser *p, struct jnode *in, bool first_inline, struct jnode **out)
{
    while (first_inline || jp_skip_op(p, "|")) {
        struct jnode *n;
        first_inline = false;
        TRY(jp_node(p, N_FILTER, jp_current(p)->line, &n));
        TRY(dotted_name(p, &n->sym));
        if (jp_is_op(jp_current(p), "("))
            TRY(parse_call_args(p, &n->call));
        n->a = in;
        in = n;
    }
    *out = in;
    return ST_OK;
}

/* Does the token begin the one argument that a test may have without parentheses? */
static bool begins_test_argument(const struct jtoken *t)
{
    switch (t->type) {
    case T_NAME:
        return !jp_is_name(t, "else") && !jp_is_name(t, "or") && !jp_is_name(t, "and");
    case T_STRING:
    case T_NUMBER:
        return true;
    default:
        return jp_is_op(t, "[") || jp_is_op(t, "{");
    }
}

static enum status parse_test(struct jparser *p, struct jnode **node)
{
    uint32_t line = jp_current(p)->line;
    bool negated = jp_skip_name(p, "not");
    struct jnode *n, *arg;
    TRY(jp_node(p, N_TEST, line, &n));
    TRY(dotted_name(p, &n->sym));
    n->a = *node;
    if (jp_is_op(jp_current(p), "(")) {
        TRY(parse_call_args(p, &n->call));
    } else if (begins_test_argument(jp_current(p))) {
        if (jp_is_name(jp_current(p), "is"))
            PARSE_FAIL("%u: tests with 'is' cannot be chained", line);
        TRY(jp_primary(p, &arg));
        TRY(jp_postfix(p, &arg));
        n->call = jmem_alloc(p->mem, sizeof *n->call);
        if (!n->call)
            return jmem_full(p->mem);
        *n->call = (struct jcall){0};
        TRY(jp_push(p, &n->call->args, arg));
    }
    if (!negated) {
        *node = n;
        return ST_OK;
    }
    TRY(jp_node(p, N_NOT, line, node));
    (*node)->a = n;
    return ST_OK;
}

enum status jp_filter_expr(struct jparser *p, struct jnode **node)
{
    for (;;) {
        if (jp_is_op(jp_current(p), "|"))
            TRY(jp_filters(p, *node, false, node));
        else if (jp_skip_name(p, "is"))
            TRY(parse_test(p, node));
        else if (jp_is_op(jp_current(p), "("))
            TRY(parse_call(p, node));
        else
            return ST_OK;
    }
}
