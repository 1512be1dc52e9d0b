#include "common/grammar/gbnf_fold.h"

#include <stdlib.h>
#include <string.h>

/* For each rule the rules that refer to it: users[first[i] .. first[i + 1]). */
struct users {
    uint32_t *first, *users, *missing, *todo;
    uint32_t n_todo;
};

/* A rule of the form R ::= again R | end. */
struct at_end {
    uint32_t again, end; /* expressions */
    uint32_t size;
};

static const struct gbnf_node *node_of(const struct gbnf_fold *f, uint32_t node)
{
    return &f->tree->nodes[node];
}

/* ---- sizes ---- */

static uint32_t add_sizes(uint32_t a, uint32_t b)
{
    uint64_t sum = (uint64_t)a + b;
    return a == GBNF_NOT_FOLDED || b == GBNF_NOT_FOLDED || sum > GBNF_MAX_FOLD ? GBNF_NOT_FOLDED
                                                                               : (uint32_t)sum;
}

/* Sets the sizes of a node and below it.  Nodes are nested at most GBNF_MAX_DEPTH groups deep. */
static uint32_t measure(struct gbnf_fold *f, uint32_t node)
{
    struct gbnf_node *x = &f->tree->nodes[node];
    uint32_t size = 1;
    work_spend(f->work, 1);
    if (x->kind == GB_EXPR || x->kind == GB_TEXT)
        return x->size;
    if (x->kind == GB_REF)
        size = f->size[x->value];
    for (uint32_t i = x->first; i != GBNF_NONE; i = f->tree->nodes[i].next)
        size = add_sizes(size, measure(f, i));
    x->size = size;
    return size;
}

/* ---- expressions ---- */

static uint32_t n_children(const struct gbnf_fold *f, const struct gbnf_node *x)
{
    uint32_t n = 0;
    for (uint32_t c = x->first; c != GBNF_NONE; c = node_of(f, c)->next)
        n++;
    return n;
}

uint32_t gbnf_fold_texts(const struct gbnf_fold *f, const struct gbnf_node *x)
{
    const char *bytes = f->tree->bytes;
    uint32_t n = 0, e = EXPR_NONE;
    struct expr_text *texts = calloc((size_t)n_children(f, x) + 1, sizeof *texts);
    if (!texts) {
        work_no_memory(f->work);
        return EXPR_NONE;
    }
    for (uint32_t c = x->first; c != GBNF_NONE; c = node_of(f, c)->next)
        if (node_of(f, c)->kind == GB_TEXT)
            texts[n++] =
                (struct expr_text){bytes ? bytes + node_of(f, c)->value : "", node_of(f, c)->size};
    if (n)
        e = expr_choice(f->pool, texts, n);
    free(texts);
    return e;
}

static uint32_t list_expr(const struct gbnf_fold *f, const struct gbnf_node *x)
{
    bool alt = x->kind == GB_ALT;
    uint32_t n = 0, e = EXPR_EMPTY;
    uint32_t *list = calloc((size_t)n_children(f, x) + 1, sizeof *list);
    if (!list) {
        work_no_memory(f->work);
        return EXPR_NONE;
    }
    for (uint32_t c = x->first; c != GBNF_NONE; c = node_of(f, c)->next)
        if (!alt || node_of(f, c)->kind != GB_TEXT)
            list[n++] = gbnf_fold_expr(f, c);
    if (alt) {
        list[n++] = gbnf_fold_texts(f, x);
        e = expr_or(f->pool, list, n);
    }
    for (; !alt && n > 0; n--)
        e = expr_concat(f->pool, list[n - 1], e);
    free(list);
    return e;
}

uint32_t gbnf_fold_expr(const struct gbnf_fold *f, uint32_t node)
{
    const struct gbnf_node *x = node_of(f, node);
    switch (x->kind) {
    case GB_TEXT:
        return x->size ? expr_literal(f->pool, f->tree->bytes + x->value, x->size) : EXPR_EMPTY;
    case GB_EXPR:
        return x->value;
    case GB_REF:
        return f->expr[x->value];
    case GB_REPEAT:
        return expr_repeat(f->pool, gbnf_fold_expr(f, x->first), x->min, x->max);
    default:
        return list_expr(f, x);
    }
}

/* ---- recursion at the end ---- */

static bool split(const struct gbnf_fold *f, uint32_t node, uint32_t rule, struct at_end *out);

/* What is before the last child, which is split. */
static bool split_sequence(const struct gbnf_fold *f, const struct gbnf_node *x, uint32_t rule,
                           struct at_end *out)
{
    uint32_t before = EXPR_EMPTY, size = 0, c = x->first;
    for (; node_of(f, c)->next != GBNF_NONE; c = node_of(f, c)->next) {
        size = add_sizes(size, node_of(f, c)->size);
        if (size == GBNF_NOT_FOLDED)
            return false;
        before = expr_concat(f->pool, before, gbnf_fold_expr(f, c));
    }
    if (!split(f, c, rule, out))
        return false;
    out->again = expr_concat(f->pool, before, out->again);
    out->end = expr_concat(f->pool, before, out->end);
    out->size = add_sizes(out->size, add_sizes(size, size));
    return out->size != GBNF_NOT_FOLDED;
}

/* The node as again RULE | end. */
static bool split(const struct gbnf_fold *f, uint32_t node, uint32_t rule, struct at_end *out)
{
    const struct gbnf_node *x = node_of(f, node);
    struct at_end one;
    *out = (struct at_end){EXPR_NONE, EXPR_NONE, 1};
    if (x->kind == GB_REF && x->value == rule) {
        out->again = EXPR_EMPTY;
        return true;
    }
    if (x->size != GBNF_NOT_FOLDED) {
        out->end = gbnf_fold_expr(f, node);
        out->size = x->size;
        return true;
    }
    if (x->kind == GB_SEQ)
        return split_sequence(f, x, rule, out);
    if (x->kind == GB_REPEAT && x->min == 0 && x->max == 1) {
        bool ok = split(f, x->first, rule, out);
        out->end = expr_or2(f->pool, out->end, EXPR_EMPTY);
        return ok;
    }
    if (x->kind != GB_ALT)
        return false;
    for (uint32_t c = x->first; c != GBNF_NONE; c = node_of(f, c)->next) {
        if (!split(f, c, rule, &one))
            return false;
        out->again = expr_or2(f->pool, out->again, one.again);
        out->end = expr_or2(f->pool, out->end, one.end);
        out->size = add_sizes(out->size, one.size);
        if (out->size == GBNF_NOT_FOLDED)
            return false;
    }
    return true;
}

static bool refers_to(const struct gbnf_fold *f, uint32_t node, uint32_t rule)
{
    const struct gbnf_node *x = node_of(f, node);
    bool found = x->kind == GB_REF && x->value == rule;
    for (uint32_t c = x->first; c != GBNF_NONE && !found; c = node_of(f, c)->next)
        found = refers_to(f, c, rule);
    return found;
}

/* ---- the rules in order ---- */

static void fold_rule(struct gbnf_fold *f, uint32_t rule)
{
    struct at_end parts;
    uint32_t body = f->tree->rules[rule].body, size = measure(f, body);
    f->size[rule] = size;
    if (size != GBNF_NOT_FOLDED) {
        f->expr[rule] = gbnf_fold_expr(f, body);
    } else if (refers_to(f, body, rule) && split(f, body, rule, &parts)) { /* Arden's lemma */
        f->expr[rule] =
            expr_concat(f->pool, expr_repeat(f->pool, parts.again, 0, EXPR_NO_LIMIT), parts.end);
        f->size[rule] = parts.size;
    }
}

/* Calls that are counted in u->first (step 1), or listed (step 2): node's references, but for those to the rule itself. */
static void list_references(const struct gbnf_fold *f, uint32_t node, uint32_t rule,
                            struct users *u, int step)
{
    const struct gbnf_node *x = node_of(f, node);
    if (x->kind == GB_REF && x->value != rule) {
        if (step == 1) {
            u->first[x->value + 2]++;
            u->missing[rule]++;
        } else {
            u->users[u->first[x->value + 1]++] = rule;
        }
    }
    for (uint32_t c = x->first; c != GBNF_NONE; c = node_of(f, c)->next)
        list_references(f, c, rule, u, step);
}

static enum status list_users(const struct gbnf_fold *f, struct users *u)
{
    uint32_t n = f->tree->n_rules;
    u->first = calloc((size_t)n + 2, sizeof *u->first);
    u->users = calloc((size_t)f->tree->n_nodes + 1, sizeof *u->users);
    u->missing = calloc(n, sizeof *u->missing);
    u->todo = calloc(n, sizeof *u->todo);
    if (!u->first || !u->users || !u->missing || !u->todo)
        FAIL(ST_NOMEM, "no memory for %u rules", n);
    for (uint32_t i = 0; i < n; i++)
        list_references(f, f->tree->rules[i].body, i, u, 1);
    for (uint32_t i = 2; i < n + 2; i++)
        u->first[i] += u->first[i - 1];
    for (uint32_t i = 0; i < n; i++)
        list_references(f, f->tree->rules[i].body, i, u, 2);
    return ST_OK;
}

/* Each rule when all that it refers to are done; rules of a cycle never are. */
static enum status fold_all(struct gbnf_fold *f, struct users *u)
{
    for (uint32_t i = 0; i < f->tree->n_rules; i++)
        if (u->missing[i] == 0)
            u->todo[u->n_todo++] = i;
    while (u->n_todo) {
        uint32_t rule = u->todo[--u->n_todo];
        fold_rule(f, rule);
        TRY(work_check(f->work));
        TRY(expr_status(f->pool));
        for (uint32_t i = u->first[rule]; i < u->first[rule + 1]; i++)
            if (--u->missing[u->users[i]] == 0)
                u->todo[u->n_todo++] = u->users[i];
    }
    return ST_OK;
}

enum status gbnf_fold(struct gbnf_fold *f, struct gbnf_tree *tree, struct expr_pool *pool,
                      struct grammar_work *work)
{
    struct users u = {0};
    uint32_t n = tree->n_rules;
    *f = (struct gbnf_fold){.tree = tree, .pool = pool, .work = work};
    f->expr = calloc(n, sizeof *f->expr);
    f->size = malloc(n * sizeof *f->size);
    if (!f->expr || !f->size)
        FAIL(ST_NOMEM, "no memory for %u rules", n);
    memset(f->size, 0xff, n * sizeof *f->size);
    enum status st = list_users(f, &u);
    if (st == ST_OK)
        st = fold_all(f, &u);
    free(u.first);
    free(u.users);
    free(u.missing);
    free(u.todo);
    for (uint32_t i = 0; i < n && st == ST_OK; i++)
        if (f->size[i] == GBNF_NOT_FOLDED)
            (void)measure(f, tree->rules[i].body);
    return st == ST_OK ? work_check(work) : st;
}

void gbnf_fold_free(struct gbnf_fold *f)
{
    free(f->expr);
    free(f->size);
    *f = (struct gbnf_fold){0};
}
