/* One rendering: its memory, its budget, its scopes and its output.  Internal to this folder.
 * Strings are built by appending to out and taking them off again (j_mark, j_take), so that one
 * buffer and one limit serve output, macros, set blocks and every filter.
 * With marks (mem.marked) each byte of a string carries whether it may come from the conversation.  Bytes that the
 * engine writes from memory of its own count as such, so a filter that is not aware of marks errs on the safe side. */
#ifndef COORDINATOR_JINJA_RUN_H
#define COORDINATOR_JINJA_RUN_H

#include <time.h>

#include "common/text/text_buf.h"
#include "coordinator/jinja/ast.h"
#include "coordinator/jinja/value.h"

struct jvar {
    const struct jsym *name;
    struct jval value;
};

struct jscope {            /* inner scopes only: the outermost is jrun.globals */
    struct jscope *parent; /* NULL: the globals */
    struct jvar *vars;
    size_t n, cap;
    bool captured; /* a macro lives in it: it cannot be used again for the next turn of a loop */
};

struct jkwarg {
    const struct jstr *name;
    struct jval value;
};

struct jargs {
    struct jval *pos;
    size_t n;
    struct jkwarg *kw;
    size_t n_kw;
};

struct jrun {
    struct jmem mem;
    struct text_buf out;
    struct text_buf
        content; /* mem.marked: of each byte of out, 1 = it may come from the conversation */
    const struct jmem *own; /* the template's memory and source: bytes there are its own */
    const char *source;
    size_t n_source;
    size_t max_output;   /* bytes */
    uint64_t steps_left; /* units of work */
    uint64_t max_steps;
    unsigned depth, max_depth;
    uint32_t line;         /* of the statement that runs */
    struct jval *globals;  /* by jsym.index; J_MISSING: not looked up yet */
    struct jdict *context; /* the variables of the request */
    const struct tm *now;  /* NULL: the clock */
    bool allow_mutation;
    bool refused;               /* raise_exception was called */
    const struct jstr *refusal; /* with this */
};

enum jflow { JFLOW_GO, JFLOW_BREAK, JFLOW_CONTINUE };

/* --- budget --- */

MUST_CHECK enum status j_out_of_steps(const struct jrun *r);
MUST_CHECK enum status j_too_deep(const struct jrun *r);

MUST_CHECK static inline enum status j_charge(struct jrun *r, uint64_t steps)
{
    if (steps > r->steps_left)
        return j_out_of_steps(r);
    r->steps_left -= steps;
    return ST_OK;
}

/* Copying, comparing or counting n bytes. */
MUST_CHECK static inline enum status j_charge_bytes(struct jrun *r, size_t n)
{
    return j_charge(r, n >> 7);
}

/* Looking at each character of n bytes. */
MUST_CHECK static inline enum status j_charge_chars(struct jrun *r, size_t n)
{
    return j_charge(r, n >> 3);
}

MUST_CHECK static inline enum status j_enter(struct jrun *r)
{
    if (r->depth >= r->max_depth)
        return j_too_deep(r);
    r->depth++;
    return ST_OK;
}

static inline void j_leave(struct jrun *r)
{
    r->depth--;
}

/* --- output --- */

MUST_CHECK enum status j_emit(struct jrun *r, const char *p, size_t n);
/* Bytes that were made from those at from, as in another case. */
MUST_CHECK enum status j_emit_made(struct jrun *r, const char *from, const char *p, size_t n);
/* Bytes of the engine's own: digits of a number. */
MUST_CHECK enum status j_emit_own(struct jrun *r, const char *p, size_t n);
/* n bytes at to, of r->mem, were copied from there: so are their marks. */
void j_copy_marks(const struct jrun *r, const char *to, const char *from, size_t n);
MUST_CHECK enum status j_emit_text(struct jrun *r, const char *text);

static inline size_t j_mark(const struct jrun *r)
{
    return r->out.len;
}

/* Takes what was emitted since mark off the output and makes it a string. */
MUST_CHECK enum status j_take(struct jrun *r, size_t mark, struct jval *out);

/* A string over borrowed bytes of another one. */
MUST_CHECK static inline enum status j_view(struct jrun *r, const char *p, size_t n,
                                            struct jval *out)
{
    TRY(j_charge_bytes(r, n));
    return jstr_view(&r->mem, p, n, out);
}

/* --- arguments and searching (run.c) --- */

/* *at = offset of the needle in the hay, SIZE_MAX when it is not there. */
MUST_CHECK enum status j_find(struct jrun *r, const char *hay, size_t n_hay, const char *needle,
                              size_t n_needle, size_t *at);

/* Binds arguments to the n parameters of names; values[i] is J_MISSING when not given.  The first
 * n_required must be given.  what names the callee in the error. */
MUST_CHECK enum status j_bind(struct jrun *r, const char *what, const struct jargs *args,
                              const char *const *names, size_t n, size_t n_required,
                              struct jval *values);
MUST_CHECK enum status j_want_int(const char *what, const struct jval *v, int64_t *out);
MUST_CHECK enum status j_want_str(const char *what, const struct jval *v, const struct jstr **out);
/* A name, "None" or a number of the user's data, cut to be shown in an error. */
#define J_SHOW 60
#define J_STR_ARG(s) (int)((s)->n < J_SHOW ? (s)->n : J_SHOW), (s)->p

/* --- text forms (repr.c, json.c) --- */

MUST_CHECK enum status j_emit_str(struct jrun *r, const struct jval *v);  /* Python's str() */
MUST_CHECK enum status j_emit_repr(struct jrun *r, const struct jval *v); /* Python's repr() */
MUST_CHECK enum status j_emit_escaped(struct jrun *r, const char *p, size_t n); /* HTML */
MUST_CHECK enum status j_to_str(struct jrun *r, const struct jval *v, struct jval *out);
/* Writes repr(f) into text (at least 40 bytes); returns its length. */
size_t j_float_repr(double f, char *text);

struct jdump {
    bool ascii, sort_keys;
    const struct jstr *indent; /* NULL: on one line */
    const struct jstr *item_sep, *key_sep;
};
MUST_CHECK enum status j_json_dump(struct jrun *r, const struct jval *v, const struct jdump *how);
/* Strict JSON -> values; strings are copied.  ST_FORMAT names the byte. */
MUST_CHECK enum status j_json_parse(struct jrun *r, const char *p, size_t n, struct jval *out);

/* --- operations (ops.c, attr.c, slice.c, format.c) --- */

MUST_CHECK enum status j_binary(struct jrun *r, enum jop op, const struct jval *a,
                                const struct jval *b, struct jval *out);
MUST_CHECK enum status j_negate(const struct jval *a, bool minus, struct jval *out);
MUST_CHECK enum status j_compare_op(struct jrun *r, enum jop op, const struct jval *a,
                                    const struct jval *b, bool *out);
MUST_CHECK enum status j_getattr(struct jrun *r, const struct jval *v, const struct jstr *name,
                                 struct jval *out); /* v.name */
MUST_CHECK enum status j_getitem(struct jrun *r, const struct jval *v, const struct jval *key,
                                 struct jval *out); /* v[key] */
MUST_CHECK enum status j_slice(struct jrun *r, const struct jval *v, const struct jval *start,
                               const struct jval *stop, const struct jval *step, struct jval *out);
MUST_CHECK enum status j_percent(struct jrun *r, const struct jstr *format, const struct jval *args,
                                 struct jval *out); /* format % args */
MUST_CHECK enum status j_format(struct jrun *r, const struct jstr *format, const struct jargs *args,
                                struct jval *out);          /* format.format(args) */
MUST_CHECK enum status j_undef_error(const struct jval *v); /* ST_UNSUPPORTED "'x' is undefined" */
MUST_CHECK enum status j_new_undef(struct jrun *r, const struct jstr *name, const char *of,
                                   bool forbidden, struct jval *out);

/* --- evaluation (eval.c, exec.c, call.c) --- */

MUST_CHECK enum status j_eval(struct jrun *r, struct jscope *s, const struct jnode *n,
                              struct jval *out);
MUST_CHECK enum status j_exec_body(struct jrun *r, struct jscope *s, const struct jbody *body,
                                   enum jflow *flow);
MUST_CHECK enum status j_eval_args(struct jrun *r, struct jscope *s, const struct jnode *n,
                                   struct jargs *args);
MUST_CHECK enum status j_call(struct jrun *r, const struct jval *f, const struct jargs *args,
                              struct jval *out);
MUST_CHECK enum status j_loop_again(struct jrun *r, const struct jloop *loop,
                                    const struct jval *items,
                                    struct jval *out); /* loop(...) of a recursive loop */
/* Looks at the source until the loop has n items or the source ends. */
MUST_CHECK static inline enum status j_loop_fill(struct jrun *r, struct jloop *loop, size_t n)
{
    return loop->fill(r, loop, n);
}
MUST_CHECK enum status j_scope_new(struct jrun *r, struct jscope *parent, struct jscope **out);
MUST_CHECK enum status j_scope_set(struct jrun *r, struct jscope *s, const struct jsym *name,
                                   const struct jval *v);
MUST_CHECK enum status j_assign(struct jrun *r, struct jscope *s, const struct jnode *target,
                                const struct jval *v);

/* --- tables --- */

MUST_CHECK enum status j_filter(struct jrun *r, const struct jstr *name, const struct jval *in,
                                const struct jargs *args, struct jval *out);
MUST_CHECK enum status j_test(struct jrun *r, const struct jstr *name, const struct jval *in,
                              const struct jargs *args, bool *out);
bool j_has_filter(const struct jstr *name);
/* NULL: there is none of this name. */
const struct jfunc *j_find_function(const struct jstr *name);
const struct jmethod_def *j_find_str_method(const struct jstr *name);
const struct jmethod_def *j_find_list_method(const struct jstr *name);
const struct jmethod_def *j_find_tuple_method(const struct jstr *name);
const struct jmethod_def *j_find_dict_method(const struct jstr *name);
const struct jmethod_def *j_find_loop_method(const struct jstr *name);
const struct jmethod_def *j_find_cycler_method(const struct jstr *name);

#endif
