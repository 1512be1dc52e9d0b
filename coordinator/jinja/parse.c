/* The parser of chat templates: statements; expressions are in parse_expr.c and parse_postfix.c. */
#include "coordinator/jinja/parser.h"

#include <string.h>

enum { N_BUCKETS = 256 }; /* of the names */

static enum status parse_body(struct jparser *p, const char *const *ends, uint32_t line,
                              struct jbody *out);

static enum status expect_type(struct jparser *p, enum jtoken_type type, const char *what)
{
    if (jp_current(p)->type != type)
        return jp_unexpected(p, what);
    p->at++;
    return ST_OK;
}

static const char *const END_FOR[] = {"endfor", "else", NULL};
static const char *const END_FOR_ELSE[] = {"endfor", NULL};
static const char *const END_IF[] = {"elif", "else", "endif", NULL};
static const char *const END_IF_ELSE[] = {"endif", NULL};
static const char *const END_SET[] = {"endset", NULL};
static const char *const END_MACRO[] = {"endmacro", NULL};
static const char *const END_CALL[] = {"endcall", NULL};
static const char *const END_FILTER[] = {"endfilter", NULL};
static const char *const END_WITH[] = {"endwith", NULL};
static const char *const END_GENERATION[] = {"endgeneration", NULL};

/* The rest of the opening tag, then the body up to one of the end names, which stays the current
 * token. */
static enum status block_body(struct jparser *p, const char *const *ends, struct jbody *out)
{
    uint32_t line = jp_current(p)->line; /* where the tag ends: near enough to where it begins */
    jp_skip_op(p, ":");
    TRY(expect_type(p, T_BLOCK_END, "'%}'"));
    return parse_body(p, ends, line, out);
}

/* The same, and takes the end name. */
static enum status whole_body(struct jparser *p, const char *const *ends, struct jbody *out)
{
    TRY(block_body(p, ends, out));
    p->at++;
    return ST_OK;
}

static enum status parse_for(struct jparser *p, struct jnode **out)
{
    TRY(jp_node(p, N_FOR, jp_current(p)->line, out));
    struct jnode *n = *out;
    struct jsym *loop;
    p->at++;
    TRY(jtree_intern(p->mem, p->tree, "loop", 4, &loop));
    n->sym = loop;
    TRY(jp_target(p, false, "in", &n->a));
    if (!jp_skip_name(p, "in"))
        return jp_unexpected(p, "'in'");
    TRY(jp_tuple(p, false, "recursive", false, &n->b));
    if (jp_skip_name(p, "if"))
        TRY(jp_expression(p, true, &n->c));
    n->recursive = jp_skip_name(p, "recursive");
    p->loops++;
    TRY(block_body(p, END_FOR, &n->body));
    p->loops--;
    if (jp_skip_name(p, "endfor"))
        return ST_OK;
    p->at++;
    return whole_body(p, END_FOR_ELSE, &n->other);
}

static enum status parse_if(struct jparser *p, struct jnode **out)
{
    struct jnode **link = out;
    for (;;) {
        struct jnode *n;
        TRY(jp_node(p, N_IF, jp_current(p)->line, &n));
        p->at++;
        TRY(jp_tuple(p, false, NULL, false, &n->a));
        TRY(block_body(p, END_IF, &n->body));
        *link = n;
        link = &n->c;
        if (jp_is_name(jp_current(p), "elif"))
            continue;
        if (jp_skip_name(p, "else"))
            return whole_body(p, END_IF_ELSE, &n->other);
        p->at++;
        return ST_OK;
    }
}

static enum status parse_set(struct jparser *p, struct jnode **out)
{
    TRY(jp_node(p, N_SET, jp_current(p)->line, out));
    p->at++;
    TRY(jp_target(p, true, NULL, &(*out)->a));
    if (jp_skip_op(p, "="))
        return jp_tuple(p, true, NULL, false, &(*out)->b);
    (*out)->type = N_SET_BLOCK;
    TRY(jp_filters(p, NULL, false, &(*out)->b));
    return whole_body(p, END_SET, &(*out)->body);
}

static enum status parse_signature(struct jparser *p, struct jsignature *s)
{
    TRY(jp_expect_op(p, "("));
    while (!jp_is_op(jp_current(p), ")")) {
        struct jparam param = {0};
        if (s->n_params)
            TRY(jp_expect_op(p, ","));
        uint32_t line = jp_current(p)->line;
        TRY(jp_take_name(p, &param.name));
        if (jp_skip_op(p, "="))
            TRY(jp_expression(p, true, &param.value));
        else if (s->n_params && s->params[s->n_params - 1].value)
            PARSE_FAIL("%u: a parameter without a default after one with a default", line);
        for (size_t i = 0; i < s->n_params; i++)
            if (s->params[i].name == param.name)
                PARSE_FAIL("%u: two parameters named '%.*s'", line, (int)param.name->s.n,
                           param.name->s.p);
        if ((s->n_params & (s->n_params - 1)) == 0) { /* full at 0, 1, 2, 4, ... */
            struct jparam *params =
                jmem_array(p->mem, s->n_params ? s->n_params * 2 : 1, sizeof *params);
            if (!params)
                return jmem_full(p->mem);
            if (s->n_params)
                memcpy(params, s->params, s->n_params * sizeof *params);
            s->params = params;
        }
        s->params[s->n_params++] = param;
    }
    return jp_expect_op(p, ")");
}

static void drop_if_parameter(const struct jsignature *s, const struct jsym **name)
{
    for (size_t i = 0; i < s->n_params; i++)
        if (s->params[i].name == *name)
            *name = NULL;
}

/* The body of a macro or call block; a break inside does not reach a loop outside. */
static enum status macro_body(struct jparser *p, struct jnode *n, const char *const *ends)
{
    struct jmacro_level level = {p->macros, n->signature};
    unsigned loops = p->loops;
    p->macros = &level;
    p->loops = 0;
    enum status st = whole_body(p, ends, &n->body);
    p->macros = level.outer;
    p->loops = loops;
    TRY(st);
    drop_if_parameter(n->signature, &n->signature->caller);
    drop_if_parameter(n->signature, &n->signature->varargs);
    drop_if_parameter(n->signature, &n->signature->kwargs);
    return ST_OK;
}

static enum status new_signature(struct jparser *p, struct jnode *n)
{
    n->signature = jmem_alloc(p->mem, sizeof *n->signature);
    if (!n->signature)
        return jmem_full(p->mem);
    *n->signature = (struct jsignature){0};
    return ST_OK;
}

static enum status parse_macro(struct jparser *p, struct jnode **out)
{
    TRY(jp_node(p, N_MACRO, jp_current(p)->line, out));
    p->at++;
    TRY(jp_take_name(p, &(*out)->sym));
    TRY(new_signature(p, *out));
    TRY(parse_signature(p, (*out)->signature));
    return macro_body(p, *out, END_MACRO);
}

static enum status parse_call_block(struct jparser *p, struct jnode **out)
{
    uint32_t line = jp_current(p)->line;
    TRY(jp_node(p, N_CALL_BLOCK, line, out));
    p->at++;
    TRY(new_signature(p, *out));
    if (jp_is_op(jp_current(p), "("))
        TRY(parse_signature(p, (*out)->signature));
    TRY(jp_expression(p, true, &(*out)->a));
    if ((*out)->a->type != N_CALL)
        PARSE_FAIL("%u: expected a call after 'call'", line);
    return macro_body(p, *out, END_CALL);
}

static enum status parse_filter_block(struct jparser *p, struct jnode **out)
{
    TRY(jp_node(p, N_FILTER_BLOCK, jp_current(p)->line, out));
    p->at++;
    TRY(jp_filters(p, NULL, true, &(*out)->b));
    return whole_body(p, END_FILTER, &(*out)->body);
}

static enum status parse_with(struct jparser *p, struct jnode **out)
{
    struct jnode *part;
    TRY(jp_node(p, N_WITH, jp_current(p)->line, out));
    p->at++;
    while (jp_current(p)->type != T_BLOCK_END) {
        if ((*out)->kids.n)
            TRY(jp_expect_op(p, ","));
        TRY(jp_target(p, false, NULL, &part));
        TRY(jp_push(p, &(*out)->kids, part));
        TRY(jp_expect_op(p, "="));
        TRY(jp_expression(p, true, &part));
        TRY(jp_push(p, &(*out)->kids, part));
    }
    return whole_body(p, END_WITH, &(*out)->body);
}

static enum status parse_generation(struct jparser *p, struct jnode **out)
{
    TRY(jp_node(p, N_SCOPE, jp_current(p)->line, out));
    p->at++;
    return whole_body(p, END_GENERATION, &(*out)->body);
}

static enum status parse_print(struct jparser *p, struct jnode **out)
{
    struct jnode *item;
    TRY(jp_node(p, N_PRINT, jp_current(p)->line, out));
    TRY(jp_node(p, N_CONCAT, jp_current(p)->line, &(*out)->a));
    p->at++;
    do {
        TRY(jp_expression(p, true, &item));
        TRY(jp_push(p, &(*out)->a->kids, item));
    } while (jp_skip_op(p, ","));
    return ST_OK;
}

static enum status parse_jump(struct jparser *p, struct jnode **out)
{
    const struct jtoken *t = jp_current(p);
    bool is_break = jp_is_name(t, "break");
    TRY(jp_node(p, is_break ? N_BREAK : N_CONTINUE, t->line, out));
    p->at++;
    if (!p->loops)
        PARSE_FAIL("%u: '%s' outside of a loop", t->line, is_break ? "break" : "continue");
    return ST_OK;
}

static enum status parse_statement(struct jparser *p, struct jnode **out)
{
    static const struct {
        const char *name;
        enum status (*parse)(struct jparser *p, struct jnode **out);
    } statements[] = {
        {"set", parse_set},         {"if", parse_if},
        {"for", parse_for},         {"macro", parse_macro},
        {"break", parse_jump},      {"continue", parse_jump},
        {"call", parse_call_block}, {"filter", parse_filter_block},
        {"with", parse_with},       {"generation", parse_generation},
        {"print", parse_print},
    };
    static const char *const others[] = {"block",  "extends", "include",
                                         "import", "from",    "autoescape"};
    const struct jtoken *t = jp_current(p);
    if (t->type != T_NAME)
        return jp_unexpected(p, "the name of a statement");
    for (size_t i = 0; i < ARRAY_LEN(statements); i++)
        if (jp_is_name(t, statements[i].name))
            return statements[i].parse(p, out);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (jp_is_name(t, others[i]))
            FAIL(ST_UNSUPPORTED, "chat template line %u: '%s' is not supported in a chat template",
                 t->line, others[i]);
    PARSE_FAIL("%u: unknown statement '%.*s'", t->line, (int)(t->n < 40 ? t->n : 40), t->p);
}

static bool is_one_of(const struct jtoken *t, const char *const *names)
{
    for (; names && *names; names++)
        if (jp_is_name(t, *names))
            return true;
    return false;
}

static enum status parse_item(struct jparser *p, struct jbody *out)
{
    const struct jtoken *t = jp_current(p);
    struct jnode *n;
    if (t->type == T_DATA) {
        TRY(jp_node(p, N_TEXT, t->line, &n));
        n->value = t->value;
        p->at++;
    } else if (t->type == T_VAR_BEGIN) {
        TRY(jp_node(p, N_PRINT, t->line, &n));
        p->at++;
        TRY(jp_tuple(p, true, NULL, false, &n->a));
        TRY(expect_type(p, T_VAR_END, "'}}'"));
    } else {
        TRY(parse_statement(p, &n));
        TRY(expect_type(p, T_BLOCK_END, "'%}'"));
    }
    return jp_push(p, out, n);
}

/* Everything up to the end of the template, or to a tag that begins with one of the end names; line
 * is that of the tag before. */
static enum status parse_body(struct jparser *p, const char *const *ends, uint32_t line,
                              struct jbody *out)
{
    TRY(jp_enter(p));
    while (jp_current(p)->type != T_EOF) {
        if (jp_current(p)->type == T_BLOCK_BEGIN) {
            p->at++;
            if (is_one_of(jp_current(p), ends)) {
                p->depth--;
                return ST_OK;
            }
        }
        TRY(parse_item(p, out));
    }
    p->depth--;
    if (ends)
        PARSE_FAIL("%u: the block that begins here has no '%s'", line, ends[0]);
    return ST_OK;
}

enum status jinja_parse(struct jmem *m, const char *source, size_t len, struct jtree *out)
{
    struct jparser p = {.mem = m, .tree = out};
    *out = (struct jtree){.n_buckets = N_BUCKETS};
    out->buckets = jmem_array(m, N_BUCKETS, sizeof(*out->buckets));
    if (!out->buckets)
        return jmem_full(m);
    memset(out->buckets, 0, N_BUCKETS * sizeof(*out->buckets));
    TRY(jinja_lex(m, source, len, &p.tokens));
    return parse_body(&p, NULL, 1, &out->body);
}
