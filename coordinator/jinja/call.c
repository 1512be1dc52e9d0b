/* Calls: arguments, macros, and everything else that can be called. */
#include <string.h>

#include "coordinator/jinja/run.h"

static enum status star_args(struct jrun *r, struct jscope *s, const struct jnode *star,
                             struct jargs *args)
{
    struct jval v;
    struct jlist *more;
    TRY(j_eval(r, s, star, &v));
    TRY(jval_items(r, &v, &more));
    struct jval *pos = jmem_array(&r->mem, args->n + more->n, sizeof *pos);
    if (!pos)
        return jmem_full(&r->mem);
    if (args->n)
        memcpy(pos, args->pos, args->n * sizeof *pos);
    if (more->n)
        memcpy(pos + args->n, more->items, more->n * sizeof *pos);
    args->pos = pos;
    args->n += more->n;
    return j_charge(r, more->n);
}

static enum status star_star_args(struct jrun *r, struct jscope *s, const struct jnode *star,
                                  struct jargs *args)
{
    struct jval v;
    TRY(j_eval(r, s, star, &v));
    if (v.type != J_DICT)
        FAIL(ST_UNSUPPORTED, "'**' needs a dict, not a value of type %s", jtype_name(&v));
    struct jkwarg *kw = jmem_array(&r->mem, args->n_kw + v.u.dict->n, sizeof *kw);
    if (!kw)
        return jmem_full(&r->mem);
    if (args->n_kw)
        memcpy(kw, args->kw, args->n_kw * sizeof *kw);
    for (size_t i = 0; i < v.u.dict->n; i++) {
        const struct jpair *p = &v.u.dict->pairs[i];
        if (p->key.type != J_STR)
            FAIL(ST_UNSUPPORTED, "'**' needs a dict whose keys are strings");
        kw[args->n_kw++] = (struct jkwarg){p->key.u.s, p->value};
    }
    args->kw = kw;
    return j_charge(r, v.u.dict->n);
}

enum status j_eval_args(struct jrun *r, struct jscope *s, const struct jnode *n, struct jargs *args)
{
    const struct jcall *call = n->call;
    *args = (struct jargs){0};
    if (!call)
        return ST_OK;
    args->pos = jmem_array(&r->mem, call->args.n, sizeof *args->pos);
    args->kw = jmem_array(&r->mem, call->n_keywords, sizeof *args->kw);
    if (!args->pos || !args->kw)
        return jmem_full(&r->mem);
    for (; args->n < call->args.n; args->n++)
        TRY(j_eval(r, s, call->args.items[args->n], &args->pos[args->n]));
    if (call->star)
        TRY(star_args(r, s, call->star, args));
    for (; args->n_kw < call->n_keywords; args->n_kw++) {
        args->kw[args->n_kw].name = &call->keywords[args->n_kw].name->s;
        TRY(j_eval(r, s, call->keywords[args->n_kw].value, &args->kw[args->n_kw].value));
    }
    if (call->star_star)
        TRY(star_star_args(r, s, call->star_star, args));
    return ST_OK;
}

/* --- macros --- */

static const char *macro_name(const struct jmacro *m, int *n)
{
    if (!m->node->sym) {
        *n = 6;
        return "caller";
    }
    *n = (int)(m->node->sym->s.n < J_SHOW ? m->node->sym->s.n : J_SHOW);
    return m->node->sym->s.p;
}

/* Takes the keyword out of args; false: it is not among them. */
static bool take_keyword(struct jargs *args, const struct jstr *name, struct jval *out)
{
    for (size_t i = 0; i < args->n_kw; i++) {
        if (!jstr_is(args->kw[i].name, name->p, name->n))
            continue;
        *out = args->kw[i].value;
        memmove(&args->kw[i], &args->kw[i + 1], (args->n_kw - i - 1) * sizeof *args->kw);
        args->n_kw--;
        return true;
    }
    return false;
}

/* Sets the parameters; defaults may use the parameters before them. */
static enum status bind_params(struct jrun *r, struct jscope *s, const struct jsignature *sig,
                               struct jargs *args)
{
    for (size_t i = 0; i < sig->n_params; i++) {
        const struct jparam *p = &sig->params[i];
        struct jval v;
        if (i < args->n)
            v = args->pos[i];
        else if (take_keyword(args, &p->name->s, &v))
            ;
        else if (p->value)
            TRY(j_eval(r, s, p->value, &v));
        else
            TRY(j_new_undef(r, &p->name->s, NULL, false, &v));
        TRY(j_scope_set(r, s, p->name, &v));
    }
    return ST_OK;
}

static enum status bind_caller(struct jrun *r, struct jscope *s, const struct jsignature *sig,
                               struct jargs *args)
{
    struct jval v;
    if (!sig->caller)
        return ST_OK;
    if (!take_keyword(args, &sig->caller->s, &v))
        TRY(j_new_undef(r, &sig->caller->s, NULL, false, &v));
    return j_scope_set(r, s, sig->caller, &v);
}

static enum status bind_kwargs(struct jrun *r, struct jscope *s, const struct jsignature *sig,
                               const struct jargs *args)
{
    struct jdict *d;
    TRY(jdict_new(r, &d));
    for (size_t i = 0; i < args->n_kw; i++) {
        struct jval key = jv_str(args->kw[i].name);
        TRY(jdict_set(r, d, &key, &args->kw[i].value));
    }
    struct jval v = jv_dict(d);
    return j_scope_set(r, s, sig->kwargs, &v);
}

static enum status bind_varargs(struct jrun *r, struct jscope *s, const struct jsignature *sig,
                                const struct jargs *args)
{
    struct jlist *l;
    TRY(jlist_new(r, 0, &l));
    for (size_t i = sig->n_params; i < args->n; i++)
        TRY(jlist_push(r, l, &args->pos[i]));
    struct jval v = jv_tuple(l);
    return j_scope_set(r, s, sig->varargs, &v);
}

static enum status bind_macro(struct jrun *r, struct jscope *s, const struct jmacro *m,
                              const struct jargs *given)
{
    const struct jsignature *sig = m->node->signature;
    struct jargs args = *given;
    int n_name;
    const char *name = macro_name(m, &n_name);
    args.kw = jmem_array(&r->mem, args.n_kw, sizeof *args.kw);
    if (!args.kw)
        return jmem_full(&r->mem);
    if (args.n_kw)
        memcpy(args.kw, given->kw, args.n_kw * sizeof *args.kw);
    TRY(bind_params(r, s, sig, &args));
    TRY(bind_caller(r, s, sig, &args));
    if (sig->kwargs)
        TRY(bind_kwargs(r, s, sig, &args));
    else if (args.n_kw)
        FAIL(ST_UNSUPPORTED, "the macro '%.*s' has no parameter '%.*s'", n_name, name,
             J_STR_ARG(args.kw[0].name));
    if (sig->varargs)
        TRY(bind_varargs(r, s, sig, &args));
    else if (args.n > sig->n_params)
        FAIL(ST_UNSUPPORTED, "the macro '%.*s' takes at most %zu arguments, not %zu", n_name, name,
             sig->n_params, args.n);
    return ST_OK;
}

static enum status call_macro(struct jrun *r, const struct jmacro *m, const struct jargs *args,
                              struct jval *out)
{
    struct jscope *s;
    enum jflow flow;
    uint32_t line = r->line;
    TRY(j_enter(r));
    TRY(j_scope_new(r, m->scope, &s));
    TRY(bind_macro(r, s, m, args));
    size_t mark = j_mark(r);
    TRY(j_exec_body(r, s, &m->node->body, &flow));
    j_leave(r);
    r->line = line;
    return j_take(r, mark, out);
}

static enum status call_cycler(struct jrun *r, const struct jval *f, const struct jargs *args,
                               struct jval *out)
{
    struct jcycler *c = f->u.cycler;
    if (args->n || args->n_kw)
        FAIL(ST_UNSUPPORTED, "a joiner is called without arguments");
    if (c->at++ == 0)
        return jstr_literal(&r->mem, "", out);
    *out = c->items->items[0];
    return ST_OK;
}

enum status j_call(struct jrun *r, const struct jval *f, const struct jargs *args, struct jval *out)
{
    switch (f->type) {
    case J_MACRO:
        return call_macro(r, f->u.macro, args, out);
    case J_FUNC:
        return f->u.func->call(r, args, out);
    case J_METHOD:
        TRY(f->u.method->def->call(r, &f->u.method->self, args, out));
        if (out->type == J_STR && f->u.method->self.type == J_STR)
            out->safe = f->u.method->self.safe; /* Markup stays Markup */
        return ST_OK;
    case J_LOOP:
        if (args->n != 1 || args->n_kw)
            FAIL(ST_UNSUPPORTED, "loop(...) takes one argument");
        return j_loop_again(r, f->u.loop, &args->pos[0], out);
    case J_JOINER:
        return call_cycler(r, f, args, out);
    case J_UNDEF:
        return j_undef_error(f);
    default:
        FAIL(ST_UNSUPPORTED, "a value of type %s cannot be called", jtype_name(f));
    }
}
