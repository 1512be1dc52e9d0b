/* Expressions.  The grammar and its precedences are Jinja2's: condition, or, and, not, comparison,
 * + -, ~,
 * * / // %, **, unary, then subscripts, calls, filters and tests. */
#include "coordinator/jinja/parser.h"

#include <string.h>

typedef enum status parse_fn(struct jparser *p, struct jnode **out);

static enum status parse_unary(struct jparser *p, bool with_filter, struct jnode **out);

static enum status binary(struct jparser *p, enum jnode_type type, enum jop op, uint32_t line,
                          struct jnode *a, struct jnode *b, struct jnode **out)
{
    TRY(jp_node(p, type, line, out));
    (*out)->op = (uint8_t)op;
    (*out)->a = a;
    (*out)->b = b;
    return ST_OK;
}

/* --- primaries --- */

/* "caller", "varargs" and "kwargs" are parameters of a macro only when its body uses them. */
static void note_implicit(struct jparser *p, const struct jsym *name)
{
    for (struct jmacro_level *m = p->macros; m; m = m->outer) {
        if (jstr_is(&name->s, "caller", 6))
            m->signature->caller = name;
        else if (jstr_is(&name->s, "varargs", 7))
            m->signature->varargs = name;
        else if (jstr_is(&name->s, "kwargs", 6))
            m->signature->kwargs = name;
    }
}

static bool constant_name(const struct jtoken *t, struct jval *out)
{
    if (jp_is_name(t, "true") || jp_is_name(t, "True"))
        *out = jv_bool(true);
    else if (jp_is_name(t, "false") || jp_is_name(t, "False"))
        *out = jv_bool(false);
    else if (jp_is_name(t, "none") || jp_is_name(t, "None"))
        *out = jv_none();
    else
        return false;
    return true;
}

static enum status parse_name(struct jparser *p, struct jnode **out)
{
    const struct jtoken *t = jp_current(p);
    struct jval v;
    if (constant_name(t, &v)) {
        TRY(jp_node(p, N_CONST, t->line, out));
        (*out)->value = v;
        p->at++;
        return ST_OK;
    }
    TRY(jp_node(p, N_NAME, t->line, out));
    TRY(jp_take_name(p, &(*out)->sym));
    note_implicit(p, (*out)->sym);
    return ST_OK;
}

static enum status parse_strings(struct jparser *p, struct jnode **out)
{
    TRY(jp_node(p, N_CONST, jp_current(p)->line, out));
    size_t n = 0, first = p->at;
    while (jp_current(p)->type == T_STRING)
        n += p->tokens.items[p->at++].value.u.s->n;
    if (p->at == first + 1) {
        (*out)->value = p->tokens.items[first].value;
        return ST_OK;
    }
    char *text = jmem_alloc(p->mem, n);
    if (!text)
        return jmem_full(p->mem);
    n = 0;
    for (size_t i = first; i < p->at; i++) {
        const struct jstr *s = p->tokens.items[i].value.u.s;
        memcpy(text + n, s->p, s->n);
        n += s->n;
    }
    return jstr_view(p->mem, text, n, &(*out)->value);
}

static enum status parse_list(struct jparser *p, struct jnode **out)
{
    struct jnode *item;
    TRY(jp_node(p, N_LIST, jp_current(p)->line, out));
    while (!jp_is_op(jp_current(p), "]")) {
        if ((*out)->kids.n)
            TRY(jp_expect_op(p, ","));
        if (jp_is_op(jp_current(p), "]"))
            break;
        TRY(jp_expression(p, true, &item));
        TRY(jp_push(p, &(*out)->kids, item));
    }
    return jp_expect_op(p, "]");
}

static enum status parse_dict(struct jparser *p, struct jnode **out)
{
    struct jnode *item;
    TRY(jp_node(p, N_DICT, jp_current(p)->line, out));
    while (!jp_is_op(jp_current(p), "}")) {
        if ((*out)->kids.n)
            TRY(jp_expect_op(p, ","));
        if (jp_is_op(jp_current(p), "}"))
            break;
        TRY(jp_expression(p, true, &item));
        TRY(jp_push(p, &(*out)->kids, item));
        TRY(jp_expect_op(p, ":"));
        TRY(jp_expression(p, true, &item));
        TRY(jp_push(p, &(*out)->kids, item));
    }
    return jp_expect_op(p, "}");
}

enum status jp_primary(struct jparser *p, struct jnode **out)
{
    const struct jtoken *t = jp_current(p);
    switch (t->type) {
    case T_NAME:
        return parse_name(p, out);
    case T_STRING:
        return parse_strings(p, out);
    case T_NUMBER:
        TRY(jp_node(p, N_CONST, t->line, out));
        (*out)->value = t->value;
        p->at++;
        return ST_OK;
    default:
        break;
    }
    if (jp_skip_op(p, "(")) {
        TRY(jp_tuple(p, true, NULL, true, out));
        return jp_expect_op(p, ")");
    }
    if (jp_skip_op(p, "["))
        return parse_list(p, out);
    if (jp_skip_op(p, "{"))
        return parse_dict(p, out);
    return jp_unexpected(p, "an expression");
}

/* --- operators, from the tightest to the loosest --- */

static enum status parse_unary(struct jparser *p, bool with_filter, struct jnode **out)
{
    uint32_t line = jp_current(p)->line;
    struct jnode *a;
    bool minus = jp_is_op(jp_current(p), "-");
    TRY(jp_enter(p));
    if (minus || jp_is_op(jp_current(p), "+")) {
        p->at++;
        TRY(parse_unary(p, false, &a));
        TRY(jp_node(p, minus ? N_NEG : N_POS, line, out));
        (*out)->a = a;
    } else {
        TRY(jp_primary(p, out));
    }
    TRY(jp_postfix(p, out));
    p->depth--;
    return with_filter ? jp_filter_expr(p, out) : ST_OK;
}

static enum status parse_pow(struct jparser *p, struct jnode **out)
{
    struct jnode *b;
    TRY(parse_unary(p, true, out));
    for (uint32_t line = jp_current(p)->line; jp_skip_op(p, "**"); line = jp_current(p)->line) {
        TRY(parse_unary(p, true, &b));
        TRY(binary(p, N_BINARY, OP_POW, line, *out, b, out));
    }
    return ST_OK;
}

struct operator
{
    const char *text;
    enum jop op;
};

/* left (op right)*, all ops of one precedence. */
static enum status left_chain(struct jparser *p, const struct operator* ops, size_t n_ops,
                              parse_fn *side, struct jnode **out)
{
    struct jnode *b;
    TRY(side(p, out));
    for (;;) {
        uint32_t line = jp_current(p)->line;
        size_t i = 0;
        while (i < n_ops && !jp_skip_op(p, ops[i].text))
            i++;
        if (i == n_ops)
            return ST_OK;
        TRY(side(p, &b));
        TRY(binary(p, N_BINARY, ops[i].op, line, *out, b, out));
    }
}

static enum status parse_product(struct jparser *p, struct jnode **out)
{
    static const struct operator ops[] = {
        {"*", OP_MUL}, {"/", OP_DIV}, {"//", OP_FLOORDIV}, {"%", OP_MOD}};
    return left_chain(p, ops, ARRAY_LEN(ops), parse_pow, out);
}

static enum status parse_concat(struct jparser *p, struct jnode **out)
{
    struct jnode *n, *item;
    TRY(parse_product(p, out));
    if (!jp_is_op(jp_current(p), "~"))
        return ST_OK;
    TRY(jp_node(p, N_CONCAT, jp_current(p)->line, &n));
    TRY(jp_push(p, &n->kids, *out));
    while (jp_skip_op(p, "~")) {
        TRY(parse_product(p, &item));
        TRY(jp_push(p, &n->kids, item));
    }
    *out = n;
    return ST_OK;
}

static enum status parse_sum(struct jparser *p, struct jnode **out)
{
    static const struct operator ops[] = {{"+", OP_ADD}, {"-", OP_SUB}};
    return left_chain(p, ops, ARRAY_LEN(ops), parse_concat, out);
}

static bool take_comparison(struct jparser *p, enum jop *op)
{
    static const struct operator ops[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<=", OP_LE},
                                          {">=", OP_GE}, {"<", OP_LT},  {">", OP_GT}};
    for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
        if (jp_skip_op(p, ops[i].text)) {
            *op = ops[i].op;
            return true;
        }
    }
    if (jp_skip_name(p, "in")) {
        *op = OP_IN;
        return true;
    }
    if (jp_is_name(jp_current(p), "not") && jp_is_name(jp_next_token(p), "in")) {
        p->at += 2;
        *op = OP_NOT_IN;
        return true;
    }
    return false;
}

static enum status parse_compare(struct jparser *p, struct jnode **out)
{
    struct jnode *n = NULL, *operand;
    enum jop op;
    uint32_t line = jp_current(p)->line;
    TRY(parse_sum(p, out));
    while (take_comparison(p, &op)) {
        if (!n) {
            TRY(jp_node(p, N_COMPARE, line, &n));
            n->a = *out;
            *out = n;
        }
        TRY(jp_node(p, N_BINARY, line, &operand));
        operand->op = (uint8_t)op;
        TRY(parse_sum(p, &operand->b));
        TRY(jp_push(p, &n->kids, operand));
    }
    return ST_OK;
}

static enum status parse_not(struct jparser *p, struct jnode **out)
{
    uint32_t line = jp_current(p)->line;
    struct jnode *a;
    if (!jp_skip_name(p, "not"))
        return parse_compare(p, out);
    TRY(jp_enter(p));
    TRY(parse_not(p, &a));
    p->depth--;
    TRY(jp_node(p, N_NOT, line, out));
    (*out)->a = a;
    return ST_OK;
}

static enum status parse_and(struct jparser *p, struct jnode **out)
{
    struct jnode *b;
    TRY(parse_not(p, out));
    for (uint32_t line = jp_current(p)->line; jp_skip_name(p, "and"); line = jp_current(p)->line) {
        TRY(parse_not(p, &b));
        TRY(binary(p, N_AND, 0, line, *out, b, out));
    }
    return ST_OK;
}

static enum status parse_or(struct jparser *p, struct jnode **out)
{
    struct jnode *b;
    TRY(parse_and(p, out));
    for (uint32_t line = jp_current(p)->line; jp_skip_name(p, "or"); line = jp_current(p)->line) {
        TRY(parse_and(p, &b));
        TRY(binary(p, N_OR, 0, line, *out, b, out));
    }
    return ST_OK;
}

enum status jp_expression(struct jparser *p, bool with_condition, struct jnode **out)
{
    struct jnode *test, *other;
    TRY(jp_enter(p));
    TRY(parse_or(p, out));
    for (uint32_t line = jp_current(p)->line; with_condition && jp_skip_name(p, "if");
         line = jp_current(p)->line) {
        other = NULL;
        TRY(parse_or(p, &test));
        if (jp_skip_name(p, "else"))
            TRY(jp_expression(p, true, &other));
        TRY(binary(p, N_COND, 0, line, *out, test, out));
        (*out)->c = other;
    }
    p->depth--;
    return ST_OK;
}

static bool ends_tuple(const struct jparser *p, const char *name_end)
{
    const struct jtoken *t = jp_current(p);
    return t->type == T_VAR_END || t->type == T_BLOCK_END || jp_is_op(t, ")") ||
           (name_end && jp_is_name(t, name_end));
}

/* target: only what can be assigned to. */
static enum status tuple_of(struct jparser *p, bool target, bool with_condition,
                            bool with_namespace, const char *name_end, bool in_parentheses,
                            struct jnode **out);

static enum status parse_target_item(struct jparser *p, bool with_namespace, struct jnode **out)
{
    const struct jtoken *t = jp_current(p);
    struct jval constant;
    if (jp_skip_op(p, "(")) {
        TRY(jp_enter(p));
        TRY(tuple_of(p, true, false, with_namespace, NULL, true, out));
        p->depth--;
        return jp_expect_op(p, ")");
    }
    if (t->type != T_NAME || constant_name(t, &constant))
        return jp_unexpected(p, "a name to assign to");
    bool ref = with_namespace && jp_is_op(jp_next_token(p), ".");
    TRY(jp_node(p, ref ? N_NSREF : N_NAME, t->line, out));
    TRY(jp_take_name(p, &(*out)->sym));
    if (ref) {
        TRY(jp_expect_op(p, "."));
        TRY(jp_take_name(p, &(*out)->attr));
    }
    return ST_OK;
}

static enum status tuple_of(struct jparser *p, bool target, bool with_condition,
                            bool with_namespace, const char *name_end, bool in_parentheses,
                            struct jnode **out)
{
    struct jbody items = {0};
    struct jnode *item;
    uint32_t line = jp_current(p)->line;
    bool is_tuple = false;
    for (;;) {
        if (ends_tuple(p, name_end))
            break;
        if (target)
            TRY(parse_target_item(p, with_namespace, &item));
        else
            TRY(jp_expression(p, with_condition, &item));
        TRY(jp_push(p, &items, item));
        if (!jp_skip_op(p, ","))
            break;
        is_tuple = true;
    }
    if (!is_tuple && items.n) {
        *out = items.items[0];
        return ST_OK;
    }
    if (!is_tuple && (!in_parentheses || target))
        return jp_unexpected(p, target ? "a name to assign to" : "an expression");
    TRY(jp_node(p, N_TUPLE, line, out));
    (*out)->kids = items;
    return ST_OK;
}

enum status jp_tuple(struct jparser *p, bool with_condition, const char *name_end,
                     bool in_parentheses, struct jnode **out)
{
    return tuple_of(p, false, with_condition, false, name_end, in_parentheses, out);
}

enum status jp_target(struct jparser *p, bool with_namespace, const char *name_end,
                      struct jnode **out)
{
    return tuple_of(p, true, false, with_namespace, name_end, false, out);
}
