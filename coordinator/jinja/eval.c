/* Expressions -> values. */
#include <string.h>

#include "coordinator/jinja/run.h"

static enum status eval_name(struct jrun *r, const struct jscope *s, const struct jsym *name,
                             struct jval *out)
{
    for (; s; s = s->parent) {
        for (size_t i = s->n; i-- > 0;) {
            if (s->vars[i].name == name) {
                *out = s->vars[i].value;
                return ST_OK;
            }
        }
    }
    struct jval *global = &r->globals[name->index];
    if (global->type == J_MISSING) {
        struct jpair *p;
        const struct jfunc *f = j_find_function(&name->s);
        struct jval key = jv_str(&name->s);
        TRY(jdict_find(r, r->context, &key, &p));
        if (p)
            *global = p->value;
        else if (f)
            *global = (struct jval){.type = J_FUNC, .u.func = f};
        else
            TRY(j_new_undef(r, &name->s, NULL, false, global));
    }
    *out = *global;
    return ST_OK;
}

static enum status eval_items(struct jrun *r, struct jscope *s, const struct jbody *kids,
                              struct jlist **out)
{
    TRY(jlist_new(r, kids->n, out));
    for (size_t i = 0; i < kids->n; i++)
        TRY(j_eval(r, s, kids->items[i], &(*out)->items[i]));
    (*out)->n = kids->n;
    return ST_OK;
}

static enum status eval_dict(struct jrun *r, struct jscope *s, const struct jnode *n,
                             struct jval *out)
{
    struct jdict *d;
    struct jval key, value;
    TRY(jdict_new(r, &d));
    for (size_t i = 0; i < n->kids.n; i += 2) {
        TRY(j_eval(r, s, n->kids.items[i], &key));
        TRY(j_eval(r, s, n->kids.items[i + 1], &value));
        TRY(jdict_set(r, d, &key, &value));
    }
    *out = jv_dict(d);
    return ST_OK;
}

static enum status eval_slice(struct jrun *r, struct jscope *s, const struct jnode *n,
                              struct jval *out)
{
    struct jval v, part[3];
    TRY(j_eval(r, s, n->a, &v));
    for (size_t i = 0; i < 3; i++) {
        part[i] = jv_none();
        if (n->kids.items[i])
            TRY(j_eval(r, s, n->kids.items[i], &part[i]));
    }
    return j_slice(r, &v, &part[0], &part[1], &part[2], out);
}

static enum status eval_compare(struct jrun *r, struct jscope *s, const struct jnode *n,
                                struct jval *out)
{
    struct jval left, right;
    bool holds = true;
    TRY(j_eval(r, s, n->a, &left));
    for (size_t i = 0; holds && i < n->kids.n; i++) {
        const struct jnode *operand = n->kids.items[i];
        TRY(j_eval(r, s, operand->b, &right));
        TRY(j_compare_op(r, (enum jop)operand->op, &left, &right, &holds));
        left = right;
    }
    *out = jv_bool(holds);
    return ST_OK;
}

static enum status eval_concat(struct jrun *r, struct jscope *s, const struct jnode *n,
                               struct jval *out)
{
    struct jlist *items;
    TRY(eval_items(r, s, &n->kids,
                   &items)); /* all before any: an item may emit while it is evaluated */
    size_t mark = j_mark(r);
    for (size_t i = 0; i < items->n; i++)
        TRY(j_emit_str(r, &items->items[i]));
    return j_take(r, mark, out);
}

static enum status eval_binary(struct jrun *r, struct jscope *s, const struct jnode *n,
                               struct jval *out)
{
    struct jval a, b;
    TRY(j_eval(r, s, n->a, &a));
    TRY(j_eval(r, s, n->b, &b));
    return j_binary(r, (enum jop)n->op, &a, &b, out);
}

static enum status eval_cond(struct jrun *r, struct jscope *s, const struct jnode *n,
                             struct jval *out)
{
    struct jval test;
    TRY(j_eval(r, s, n->b, &test));
    if (jval_truth(&test))
        return j_eval(r, s, n->a, out);
    if (n->c)
        return j_eval(r, s, n->c, out);
    *out = jv_undef();
    return ST_OK;
}

/* and, or: the value that decided. */
static enum status eval_logic(struct jrun *r, struct jscope *s, const struct jnode *n,
                              struct jval *out)
{
    TRY(j_eval(r, s, n->a, out));
    return jval_truth(out) == (n->type == N_AND) ? j_eval(r, s, n->b, out) : ST_OK;
}

static enum status eval_filter(struct jrun *r, struct jscope *s, const struct jnode *n,
                               struct jval *out)
{
    struct jval in;
    struct jargs args;
    TRY(j_eval(r, s, n->a, &in));
    TRY(j_eval_args(r, s, n, &args));
    return j_filter(r, &n->sym->s, &in, &args, out);
}

static enum status eval_test(struct jrun *r, struct jscope *s, const struct jnode *n,
                             struct jval *out)
{
    struct jval in;
    struct jargs args;
    bool holds;
    TRY(j_eval(r, s, n->a, &in));
    TRY(j_eval_args(r, s, n, &args));
    TRY(j_test(r, &n->sym->s, &in, &args, &holds));
    *out = jv_bool(holds);
    return ST_OK;
}

static enum status eval_call(struct jrun *r, struct jscope *s, const struct jnode *n,
                             struct jval *out)
{
    struct jval f;
    struct jargs args;
    TRY(j_eval(r, s, n->a, &f));
    TRY(j_eval_args(r, s, n, &args));
    return j_call(r, &f, &args, out);
}

static enum status eval_node(struct jrun *r, struct jscope *s, const struct jnode *n,
                             struct jval *out)
{
    struct jval a, b;
    struct jlist *items;
    switch ((enum jnode_type)n->type) {
    case N_TUPLE:
    case N_LIST:
        TRY(eval_items(r, s, &n->kids, &items));
        *out = n->type == N_LIST ? jv_list(items) : jv_tuple(items);
        return ST_OK;
    case N_DICT:
        return eval_dict(r, s, n, out);
    case N_ATTR:
        TRY(j_eval(r, s, n->a, &a));
        return j_getattr(r, &a, &n->sym->s, out);
    case N_ITEM:
        TRY(j_eval(r, s, n->a, &a));
        TRY(j_eval(r, s, n->b, &b));
        return j_getitem(r, &a, &b, out);
    case N_SLICE:
        return eval_slice(r, s, n, out);
    case N_CALL:
        return eval_call(r, s, n, out);
    case N_FILTER:
        return eval_filter(r, s, n, out);
    case N_TEST:
        return eval_test(r, s, n, out);
    case N_COND:
        return eval_cond(r, s, n, out);
    case N_OR:
    case N_AND:
        return eval_logic(r, s, n, out);
    case N_NOT:
        TRY(j_eval(r, s, n->a, &a));
        *out = jv_bool(!jval_truth(&a));
        return ST_OK;
    case N_NEG:
    case N_POS:
        TRY(j_eval(r, s, n->a, &a));
        return j_negate(&a, n->type == N_NEG, out);
    case N_BINARY:
        return eval_binary(r, s, n, out);
    case N_COMPARE:
        return eval_compare(r, s, n, out);
    case N_CONCAT:
        return eval_concat(r, s, n, out);
    default:
        FAIL(ST_BUG, "expression of kind %d", n->type);
    }
}

enum status j_eval(struct jrun *r, struct jscope *s, const struct jnode *n, struct jval *out)
{
    TRY(j_charge(r, 1));
    if (n->type == N_CONST) {
        *out = n->value;
        return ST_OK;
    }
    if (n->type == N_NAME)
        return eval_name(r, s, n->sym, out);
    r->line = n->line;
    TRY(j_enter(r));
    TRY(eval_node(r, s, n, out));
    j_leave(r);
    return ST_OK;
}
