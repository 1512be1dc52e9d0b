#include "coordinator/jinja/run.h"

#include <inttypes.h>
#include <string.h>

enum status j_out_of_steps(const struct jrun *r)
{
    FAIL(ST_NOMEM, "needs more than the %" PRIu64 " steps of work it may take", r->max_steps);
}

enum status j_too_deep(const struct jrun *r)
{
    FAIL(ST_NOMEM, "nests deeper than the %u levels it may", r->max_depth);
}

/* The marks of n bytes at p. */
static void read_marks(const struct jrun *r, const char *p, size_t n, char *out)
{
    const char *marks = jmem_mark(&r->mem, p);
    bool in_source =
        (uintptr_t)p >= (uintptr_t)r->source && (uintptr_t)p - (uintptr_t)r->source < r->n_source;
    if (marks)
        memcpy(out, marks, n);
    else
        memset(out, !in_source && !jmem_has(r->own, p), n);
}

void j_copy_marks(const struct jrun *r, const char *to, const char *from, size_t n)
{
    char *marks = n ? jmem_mark(&r->mem, to) : NULL;
    if (marks)
        read_marks(r, from, n, marks);
}

static enum status append(struct jrun *r, const char *p, size_t n)
{
    if (n > r->max_output - r->out.len)
        FAIL(ST_NOMEM, "gives more than the %zu bytes of text it may", r->max_output);
    TRY(j_charge_bytes(r, n));
    TRY(text_buf_append(&r->out, p, n));
    if (!r->mem.marked)
        return ST_OK;
    r->content.len = r->out.len - n;
    TRY(text_buf_reserve(&r->content, n));
    r->content.len += n;
    return ST_OK;
}

enum status j_emit(struct jrun *r, const char *p, size_t n)
{
    TRY(append(r, p, n));
    if (r->mem.marked && n)
        read_marks(r, p, n, r->content.data + r->content.len - n);
    return ST_OK;
}

enum status j_emit_made(struct jrun *r, const char *from, const char *p, size_t n)
{
    char mark;
    TRY(append(r, p, n));
    if (!r->mem.marked || n == 0)
        return ST_OK;
    read_marks(r, from, 1, &mark);
    memset(r->content.data + r->content.len - n, mark, n);
    return ST_OK;
}

enum status j_emit_own(struct jrun *r, const char *p, size_t n)
{
    TRY(append(r, p, n));
    if (r->mem.marked && n)
        memset(r->content.data + r->content.len - n, 0, n);
    return ST_OK;
}

enum status j_emit_text(struct jrun *r, const char *text)
{
    return j_emit(r, text, strlen(text));
}

enum status j_take(struct jrun *r, size_t mark, struct jval *out)
{
    size_t n = r->out.len - mark;
    r->out.len = mark;
    TRY(jstr_copy(&r->mem, n ? r->out.data + mark : "", n, out));
    if (r->mem.marked && n)
        memcpy(jmem_mark(&r->mem, out->u.s->p), r->content.data + mark, n);
    return ST_OK;
}

enum status j_find(struct jrun *r, const char *hay, size_t n_hay, const char *needle,
                   size_t n_needle, size_t *at)
{
    const char *p = hay, *last = hay + n_hay - n_needle;
    *at = SIZE_MAX;
    if (n_needle > n_hay)
        return ST_OK;
    if (n_needle == 0) {
        *at = 0;
        return ST_OK;
    }
    TRY(j_charge_bytes(r, n_hay));
    while (p <= last && (p = memchr(p, needle[0], (size_t)(last - p) + 1))) {
        TRY(j_charge_bytes(r, n_needle));
        if (memcmp(p, needle, n_needle) == 0) {
            *at = (size_t)(p - hay);
            return ST_OK;
        }
        p++;
    }
    return ST_OK;
}

static enum status bind_keyword(const char *what, const struct jkwarg *kw, const char *const *names,
                                size_t n, struct jval *values)
{
    for (size_t i = 0; i < n; i++) {
        if (!jstr_is(kw->name, names[i], strlen(names[i])))
            continue;
        if (values[i].type != J_MISSING)
            FAIL(ST_UNSUPPORTED, "%s got two values for the argument '%s'", what, names[i]);
        values[i] = kw->value;
        return ST_OK;
    }
    FAIL(ST_UNSUPPORTED, "%s has no argument named '%.*s'", what, J_STR_ARG(kw->name));
}

enum status j_bind(struct jrun *r, const char *what, const struct jargs *args,
                   const char *const *names, size_t n, size_t n_required, struct jval *values)
{
    (void)r;
    if (args->n > n)
        FAIL(ST_UNSUPPORTED, "%s takes at most %zu arguments, not %zu", what, n, args->n);
    for (size_t i = 0; i < n; i++)
        values[i] = i < args->n ? args->pos[i] : (struct jval){.type = J_MISSING};
    for (size_t i = 0; i < args->n_kw; i++)
        TRY(bind_keyword(what, &args->kw[i], names, n, values));
    for (size_t i = 0; i < n_required; i++)
        if (values[i].type == J_MISSING)
            FAIL(ST_UNSUPPORTED, "%s needs the argument '%s'", what, names[i]);
    return ST_OK;
}

enum status j_want_int(const char *what, const struct jval *v, int64_t *out)
{
    if (v->type == J_UNDEF)
        return j_undef_error(v);
    if (!jval_as_int(v, out))
        FAIL(ST_UNSUPPORTED, "%s needs a whole number, not a value of type %s", what,
             jtype_name(v));
    return ST_OK;
}

enum status j_want_str(const char *what, const struct jval *v, const struct jstr **out)
{
    if (v->type == J_UNDEF)
        return j_undef_error(v);
    if (v->type != J_STR)
        FAIL(ST_UNSUPPORTED, "%s needs a string, not a value of type %s", what, jtype_name(v));
    *out = v->u.s;
    return ST_OK;
}

enum status j_new_undef(struct jrun *r, const struct jstr *name, const char *of, bool forbidden,
                        struct jval *out)
{
    struct jundef *u = jmem_alloc(&r->mem, sizeof *u);
    if (!u)
        return jmem_full(&r->mem);
    *u = (struct jundef){name, of, forbidden};
    *out = (struct jval){.type = J_UNDEF, .u.undef = u};
    return ST_OK;
}

enum status j_undef_error(const struct jval *v)
{
    const struct jundef *u = v->u.undef;
    if (!u || !u->name)
        FAIL(ST_UNSUPPORTED, "a value is undefined");
    if (u->forbidden)
        FAIL(ST_UNSUPPORTED, "the sandbox does not allow '%.*s' of a %s", J_STR_ARG(u->name),
             u->of);
    if (u->of)
        FAIL(ST_UNSUPPORTED, "a value of type %s has no '%.*s'", u->of, J_STR_ARG(u->name));
    FAIL(ST_UNSUPPORTED, "'%.*s' is undefined", J_STR_ARG(u->name));
}
