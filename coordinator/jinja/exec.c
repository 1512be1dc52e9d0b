/* Statements: they emit text and set names. */
#include <string.h>

#include "coordinator/jinja/run.h"

/* --- scopes --- */

enum status j_scope_new(struct jrun *r, struct jscope *parent, struct jscope **out)
{
    struct jscope *s = jmem_alloc(&r->mem, sizeof *s);
    if (!s)
        return jmem_full(&r->mem);
    *s = (struct jscope){.parent = parent};
    *out = s;
    return ST_OK;
}

enum status j_scope_set(struct jrun *r, struct jscope *s, const struct jsym *name,
                        const struct jval *v)
{
    if (!s) {
        r->globals[name->index] = *v;
        return ST_OK;
    }
    for (size_t i = 0; i < s->n; i++) {
        if (s->vars[i].name == name) {
            s->vars[i].value = *v;
            return ST_OK;
        }
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 4;
        struct jvar *vars = jmem_array(&r->mem, cap, sizeof *vars);
        if (!vars)
            return jmem_full(&r->mem);
        if (s->n)
            memcpy(vars, s->vars, s->n * sizeof *vars);
        s->vars = vars;
        s->cap = cap;
    }
    s->vars[s->n++] = (struct jvar){name, *v};
    return ST_OK;
}

static enum status assign_ref(struct jrun *r, struct jscope *s, const struct jnode *target,
                              const struct jval *v)
{
    struct jnode name = {.type = N_NAME, .sym = target->sym, .line = target->line};
    struct jval space, key;
    TRY(j_eval(r, s, &name, &space));
    if (space.type != J_NAMESPACE)
        FAIL(ST_UNSUPPORTED, "cannot set the attribute '%.*s' of a value of type %s",
             J_STR_ARG(&target->attr->s), jtype_name(&space));
    key = jv_str(&target->attr->s);
    return jdict_set(r, space.u.dict, &key, v);
}

static enum status unpack(struct jrun *r, struct jscope *s, const struct jnode *target,
                          const struct jval *v)
{
    struct jlist *items;
    TRY(jval_items(r, v, &items));
    if (items->n != target->kids.n)
        FAIL(ST_UNSUPPORTED, "%zu values for %zu names", items->n, target->kids.n);
    for (size_t i = 0; i < items->n; i++)
        TRY(j_assign(r, s, target->kids.items[i], &items->items[i]));
    return ST_OK;
}

enum status j_assign(struct jrun *r, struct jscope *s, const struct jnode *target,
                     const struct jval *v)
{
    if (target->type == N_NAME)
        return j_scope_set(r, s, target->sym, v);
    return target->type == N_NSREF ? assign_ref(r, s, target, v) : unpack(r, s, target, v);
}

/* --- loops --- */

/* Does the item pass the loop's filter?  It sees the loop's own names in a scope that is dropped
 * again. */
static enum status passes(struct jrun *r, const struct jloop *loop, const struct jval *item,
                          bool *out)
{
    struct jscope *s;
    struct jval v;
    TRY(j_scope_new(r, loop->scope, &s));
    TRY(j_assign(r, s, loop->node->a, item));
    TRY(j_eval(r, s, loop->node->c, &v));
    *out = jval_truth(&v);
    return ST_OK;
}

static enum status fill_loop(struct jrun *r, struct jloop *loop, size_t n)
{
    if (!loop->node->c)
        return ST_OK; /* items is the source */
    while (loop->items->n < n && loop->i_source < loop->source->n) {
        struct jval item = loop->source->items[loop->i_source++];
        bool keep;
        TRY(passes(r, loop, &item, &keep));
        if (keep)
            TRY(jlist_push(r, loop->items, &item));
    }
    return ST_OK;
}

static enum status loop_new(struct jrun *r, struct jscope *s, const struct jnode *n,
                            const struct jval *items, unsigned depth0, struct jloop **out)
{
    struct jlist *source;
    struct jloop *loop = jmem_alloc(&r->mem, sizeof *loop);
    if (!loop)
        return jmem_full(&r->mem);
    TRY(jval_items(r, items, &source));
    *loop = (struct jloop){.fill = fill_loop,
                           .items = source,
                           .source = source,
                           .depth0 = depth0,
                           .node = n,
                           .scope = s};
    if (n->c)
        TRY(jlist_new(r, 0, &loop->items));
    *out = loop;
    return ST_OK;
}

static enum status exec_loop(struct jrun *r, struct jscope *s, const struct jnode *n,
                             const struct jval *items, unsigned depth0)
{
    struct jscope *inner = NULL;
    struct jloop *loop = NULL;
    enum jflow flow = JFLOW_GO;
    struct jval self = {.type = J_LOOP};
    TRY(loop_new(r, s, n, items, depth0, &loop));
    self.u.loop = loop;
    for (; flow != JFLOW_BREAK; loop->i++) {
        TRY(j_charge(r, 1));
        TRY(j_loop_fill(r, loop, loop->i + 1));
        if (loop->i >= loop->items->n)
            break;
        if (inner && !inner->captured)
            inner->n = 0;
        else
            TRY(j_scope_new(r, s, &inner));
        TRY(j_scope_set(r, inner, n->sym, &self));
        TRY(j_assign(r, inner, n->a, &loop->items->items[loop->i]));
        TRY(j_exec_body(r, inner, &n->body, &flow));
    }
    if (loop->i > 0 || !n->other.n)
        return ST_OK;
    TRY(j_scope_new(r, s, &inner));
    return j_exec_body(r, inner, &n->other, &flow);
}

enum status j_loop_again(struct jrun *r, const struct jloop *loop, const struct jval *items,
                         struct jval *out)
{
    size_t mark = j_mark(r);
    if (!loop->node->recursive)
        FAIL(ST_UNSUPPORTED, "this loop is not marked recursive");
    TRY(exec_loop(r, loop->scope, loop->node, items, loop->depth0 + 1));
    return j_take(r, mark, out);
}

/* --- the other statements --- */

static enum status exec_if(struct jrun *r, struct jscope *s, const struct jnode *n,
                           enum jflow *flow)
{
    for (; n; n = n->c) {
        struct jval test;
        TRY(j_eval(r, s, n->a, &test));
        if (jval_truth(&test))
            return j_exec_body(r, s, &n->body, flow);
        if (n->other.n)
            return j_exec_body(r, s, &n->other, flow);
    }
    return ST_OK;
}

/* The text that a body gives, in a scope of its own. */
static enum status capture(struct jrun *r, struct jscope *s, const struct jbody *body,
                           enum jflow *flow, struct jval *out)
{
    struct jscope *inner;
    size_t mark = j_mark(r);
    TRY(j_scope_new(r, s, &inner));
    TRY(j_exec_body(r, inner, body, flow));
    return j_take(r, mark, out);
}

/* Applies the filters n (the innermost has no input of its own) to v. */
static enum status apply_filters(struct jrun *r, struct jscope *s, const struct jnode *n,
                                 struct jval *v)
{
    struct jargs args;
    struct jval in;
    if (!n)
        return ST_OK;
    TRY(j_enter(r));
    TRY(apply_filters(r, s, n->a, v));
    j_leave(r);
    in = *v;
    TRY(j_eval_args(r, s, n, &args));
    return j_filter(r, &n->sym->s, &in, &args, v);
}

static enum status exec_set_block(struct jrun *r, struct jscope *s, const struct jnode *n,
                                  enum jflow *flow)
{
    struct jval v;
    TRY(capture(r, s, &n->body, flow, &v));
    if (*flow != JFLOW_GO)
        return ST_OK;
    TRY(apply_filters(r, s, n->b, &v));
    return j_assign(r, s, n->a, &v);
}

static enum status exec_filter_block(struct jrun *r, struct jscope *s, const struct jnode *n,
                                     enum jflow *flow)
{
    struct jval v;
    TRY(capture(r, s, &n->body, flow, &v));
    if (*flow != JFLOW_GO)
        return ST_OK;
    TRY(apply_filters(r, s, n->b, &v));
    return j_emit_str(r, &v);
}

static enum status new_macro(struct jrun *r, struct jscope *s, const struct jnode *n,
                             struct jval *out)
{
    struct jmacro *m = jmem_alloc(&r->mem, sizeof *m);
    if (!m)
        return jmem_full(&r->mem);
    *m = (struct jmacro){n, s};
    for (struct jscope *up = s; up && !up->captured; up = up->parent)
        up->captured = true;
    *out = (struct jval){.type = J_MACRO, .u.macro = m};
    return ST_OK;
}

static enum status exec_call_block(struct jrun *r, struct jscope *s, const struct jnode *n)
{
    static const struct jstr caller_name = {"caller", 6, 6};
    struct jval f, result;
    struct jargs args;
    TRY(j_eval(r, s, n->a->a, &f));
    TRY(j_eval_args(r, s, n->a, &args));
    struct jkwarg *kw = jmem_array(&r->mem, args.n_kw + 1, sizeof *kw);
    if (!kw)
        return jmem_full(&r->mem);
    if (args.n_kw)
        memcpy(kw, args.kw, args.n_kw * sizeof *kw);
    kw[args.n_kw].name = &caller_name;
    TRY(new_macro(r, s, n, &kw[args.n_kw].value));
    args.kw = kw;
    args.n_kw++;
    TRY(j_call(r, &f, &args, &result));
    return j_emit_str(r, &result);
}

static enum status exec_with(struct jrun *r, struct jscope *s, const struct jnode *n,
                             enum jflow *flow)
{
    struct jscope *inner;
    TRY(j_scope_new(r, s, &inner));
    for (size_t i = 0; i < n->kids.n; i += 2) {
        struct jval v;
        TRY(j_eval(r, s, n->kids.items[i + 1],
                   &v)); /* sees the names outside, not its neighbours */
        TRY(j_assign(r, inner, n->kids.items[i], &v));
    }
    return j_exec_body(r, inner, &n->body, flow);
}

static enum status exec_node(struct jrun *r, struct jscope *s, const struct jnode *n,
                             enum jflow *flow)
{
    struct jval v;
    struct jscope *inner;
    switch ((enum jnode_type)n->type) {
    case N_TEXT:
        return j_emit(r, n->value.u.s->p, n->value.u.s->n);
    case N_PRINT:
        TRY(j_eval(r, s, n->a, &v));
        return j_emit_str(r, &v);
    case N_IF:
        return exec_if(r, s, n, flow);
    case N_FOR:
        TRY(j_eval(r, s, n->b, &v));
        return exec_loop(r, s, n, &v, 0);
    case N_SET:
        TRY(j_eval(r, s, n->b, &v));
        return j_assign(r, s, n->a, &v);
    case N_SET_BLOCK:
        return exec_set_block(r, s, n, flow);
    case N_MACRO:
        TRY(new_macro(r, s, n, &v));
        return j_scope_set(r, s, n->sym, &v);
    case N_CALL_BLOCK:
        return exec_call_block(r, s, n);
    case N_FILTER_BLOCK:
        return exec_filter_block(r, s, n, flow);
    case N_WITH:
        return exec_with(r, s, n, flow);
    case N_SCOPE:
        TRY(j_scope_new(r, s, &inner));
        return j_exec_body(r, inner, &n->body, flow);
    case N_BREAK:
        *flow = JFLOW_BREAK;
        return ST_OK;
    case N_CONTINUE:
        *flow = JFLOW_CONTINUE;
        return ST_OK;
    default:
        FAIL(ST_BUG, "statement of kind %d", n->type);
    }
}

enum status j_exec_body(struct jrun *r, struct jscope *s, const struct jbody *body,
                        enum jflow *flow)
{
    *flow = JFLOW_GO;
    TRY(j_enter(r));
    for (size_t i = 0; i < body->n && *flow == JFLOW_GO; i++) {
        TRY(j_charge(r, 1));
        r->line = body->items[i]->line;
        TRY(exec_node(r, s, body->items[i], flow));
    }
    j_leave(r);
    return ST_OK;
}
