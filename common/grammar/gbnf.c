#include "common/grammar/gbnf.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/grammar/gbnf_fold.h"

struct compiler {
    struct gbnf_tree tree;
    struct gbnf_fold fold;
    struct rules *rules;
    uint32_t *rule_of; /* [tree.n_rules] of those that are not folded */
    uint32_t i_rule;   /* whose parts are made */
};

/* A list of rules that grows; the parts of a node that become expressions are joined while they fit. */
struct parts {
    uint32_t *list, n;
    uint32_t *run; /* expressions that wait to be joined */
    uint32_t n_run, size;
};

static uint32_t make(struct compiler *k, uint32_t node);

static const struct gbnf_node *node_of(const struct compiler *k, uint32_t node)
{
    return &k->tree.nodes[node];
}

static void set_place(struct compiler *k, uint32_t line)
{
    const struct gbnf_rule *r = &k->tree.rules[k->i_rule];
    char place[GBNF_MAX_NAME + 40];
    snprintf(place, sizeof place, "line %u, rule %.*s", line, (int)r->n_name,
             k->tree.text + r->name);
    rules_at(k->rules, place);
}

static void end_run(struct compiler *k, struct parts *p, enum gbnf_kind kind)
{
    struct expr_pool *pool = k->rules->pool;
    uint32_t e = EXPR_EMPTY;
    if (p->n_run == 0)
        return;
    if (kind == GB_ALT) {
        e = expr_or(pool, p->run, p->n_run);
    } else {
        for (uint32_t i = p->n_run; i > 0; i--)
            e = expr_concat(pool, p->run[i - 1], e);
    }
    p->list[p->n++] = rules_lexeme(k->rules, e);
    p->n_run = p->size = 0;
}

/* The children as rules: neighbours that are expressions, or of an alternative all of these, are one. */
static void make_children(struct compiler *k, const struct gbnf_node *x, struct parts *p)
{
    bool alt = x->kind == GB_ALT;
    if (alt && (p->run[0] = gbnf_fold_texts(&k->fold, x)) != EXPR_NONE)
        p->n_run = 1;
    for (uint32_t c = x->first; c != GBNF_NONE; c = node_of(k, c)->next) {
        uint32_t size = node_of(k, c)->size;
        if (alt && node_of(k, c)->kind == GB_TEXT)
            continue;
        if (size == GBNF_NOT_FOLDED) {
            if (!alt)
                end_run(k, p, x->kind);
            p->list[p->n++] = make(k, c);
            continue;
        }
        if (p->size + (uint64_t)size > GBNF_MAX_FOLD)
            end_run(k, p, x->kind);
        p->run[p->n_run++] = gbnf_fold_expr(&k->fold, c);
        p->size += size;
    }
    end_run(k, p, x->kind);
}

static uint32_t make_list(struct compiler *k, const struct gbnf_node *x)
{
    struct parts p = {0};
    uint32_t n = 0, rule = 0;
    for (uint32_t c = x->first; c != GBNF_NONE; c = node_of(k, c)->next)
        n++;
    p.list = calloc((size_t)n + 1, sizeof *p.list);
    p.run = calloc((size_t)n + 1, sizeof *p.run);
    if (p.list && p.run) {
        make_children(k, x, &p);
        set_place(k, x->line);
        rule =
            x->kind == GB_ALT ? rules_alt(k->rules, p.list, p.n) : rules_seq(k->rules, p.list, p.n);
    } else {
        work_no_memory(k->rules->work);
    }
    free(p.list);
    free(p.run);
    return rule;
}

/* x? is an alternative: a frame of a repetition would stay on the stack of a rule that ends with (... x)?. */
static uint32_t make_repeat(struct compiler *k, const struct gbnf_node *x)
{
    if (x->max == 0)
        return 0;
    uint32_t child = make(k, x->first);
    set_place(k, x->line);
    if (x->max == 1)
        return x->min == 1 ? child : rules_alt(k->rules, (uint32_t[]){child, 0}, 2);
    return rules_repeat(k->rules, child, x->min, x->max);
}

static uint32_t make(struct compiler *k, uint32_t node)
{
    const struct gbnf_node *x = node_of(k, node);
    set_place(k, x->line);
    if (x->size != GBNF_NOT_FOLDED)
        return rules_lexeme(k->rules, gbnf_fold_expr(&k->fold, node));
    switch (x->kind) {
    case GB_REF:
        return k->rule_of[x->value];
    case GB_REPEAT:
        return make_repeat(k, x);
    default:
        return make_list(k, x);
    }
}

static enum status make_rules(struct compiler *k, uint32_t *root)
{
    uint32_t n = k->tree.n_rules;
    k->rule_of = calloc(n, sizeof *k->rule_of);
    if (!k->rule_of)
        FAIL(ST_NOMEM, "no memory for %u rules", n);
    for (k->i_rule = 0; k->i_rule < n; k->i_rule++) {
        if (k->fold.size[k->i_rule] != GBNF_NOT_FOLDED)
            continue;
        set_place(k, k->tree.rules[k->i_rule].line);
        k->rule_of[k->i_rule] = rules_reserve(k->rules);
    }
    for (k->i_rule = 0; k->i_rule < n && k->rules->status == ST_OK; k->i_rule++)
        if (k->rule_of[k->i_rule])
            rules_define(k->rules, k->rule_of[k->i_rule], make(k, k->tree.rules[k->i_rule].body));
    k->i_rule = k->tree.root;
    set_place(k, k->tree.rules[k->i_rule].line);
    *root = k->rule_of[k->i_rule];
    if (k->fold.size[k->i_rule] != GBNF_NOT_FOLDED)
        *root = rules_lexeme(k->rules, k->fold.expr[k->i_rule]);
    return k->rules->status;
}

enum status gbnf_compile(struct rules *rules, const char *text, size_t n, uint32_t *root)
{
    struct compiler k = {.rules = rules};
    work_spend(rules->work, n / 16);
    rules_at(rules, "grammar");
    enum status st = gbnf_parse(&k.tree, rules->pool, text, n);
    if (st == ST_OK)
        st = gbnf_fold(&k.fold, &k.tree, rules->pool, rules->work);
    if (st == ST_OK)
        st = make_rules(&k, root);
    free(k.rule_of);
    gbnf_fold_free(&k.fold);
    gbnf_tree_free(&k.tree);
    return st;
}
