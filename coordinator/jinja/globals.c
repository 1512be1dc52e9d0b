/* The functions that every template finds: Jinja's own, and the two that HuggingFace adds. */
#include <string.h>
#include <time.h>

#include "coordinator/jinja/run.h"

enum { MAX_RANGE = 100000 /* items, as in Jinja's sandbox */, MAX_TIME_TEXT = 4096 /* bytes */ };

#define FUNCTION(name)                                                                             \
    static enum status name(struct jrun *r, const struct jargs *args, struct jval *out)

FUNCTION(fn_range)
{
    int64_t v[3] = {0, 0, 1};
    if (args->n < 1 || args->n > 3 || args->n_kw)
        FAIL(ST_UNSUPPORTED, "range takes one to three arguments");
    for (size_t i = 0; i < args->n; i++)
        TRY(j_want_int("range", &args->pos[i], &v[args->n == 1 ? 1 : i]));
    int64_t step = v[2], limit = (int64_t)1 << 60;
    if (step == 0)
        FAIL(ST_UNSUPPORTED, "range: the step is 0");
    if (v[0] > limit || v[0] < -limit || v[1] > limit || v[1] < -limit || step > limit ||
        step < -limit)
        FAIL(ST_UNSUPPORTED, "range: a number is too large");
    int64_t span = step > 0 ? v[1] - v[0] : v[0] - v[1], stride = step > 0 ? step : -step;
    struct jrange *range = jmem_alloc(&r->mem, sizeof *range);
    if (!range)
        return jmem_full(&r->mem);
    *range = (struct jrange){v[0], step, span > 0 ? (span - 1) / stride + 1 : 0};
    if (range->n > MAX_RANGE)
        FAIL(ST_UNSUPPORTED, "range: more than %d numbers", MAX_RANGE);
    *out = (struct jval){.type = J_RANGE, .u.range = range};
    return ST_OK;
}

/* Fills d from a dict or a list of pairs, and from keywords. */
static enum status fill_dict(struct jrun *r, const char *what, const struct jargs *args,
                             struct jdict *d)
{
    struct jlist *items;
    if (args->n > 1)
        FAIL(ST_UNSUPPORTED, "%s takes one argument at most", what);
    if (args->n && args->pos[0].type == J_DICT) {
        const struct jdict *from = args->pos[0].u.dict;
        TRY(j_charge(r, from->n));
        for (size_t i = 0; i < from->n; i++)
            TRY(jdict_set(r, d, &from->pairs[i].key, &from->pairs[i].value));
    } else if (args->n) {
        TRY(jval_items(r, &args->pos[0], &items));
        TRY(j_charge(r, items->n));
        for (size_t i = 0; i < items->n; i++) {
            struct jlist *pair;
            TRY(jval_items(r, &items->items[i], &pair));
            if (pair->n != 2)
                FAIL(ST_UNSUPPORTED, "%s: item %zu is no pair", what, i);
            TRY(jdict_set(r, d, &pair->items[0], &pair->items[1]));
        }
    }
    for (size_t i = 0; i < args->n_kw; i++) {
        struct jval key = jv_str(args->kw[i].name);
        TRY(jdict_set(r, d, &key, &args->kw[i].value));
    }
    return ST_OK;
}

FUNCTION(fn_dict)
{
    struct jdict *d;
    TRY(jdict_new(r, &d));
    *out = jv_dict(d);
    return fill_dict(r, "dict", args, d);
}

FUNCTION(fn_namespace)
{
    struct jdict *d;
    TRY(jdict_new(r, &d));
    *out = (struct jval){.type = J_NAMESPACE, .u.dict = d};
    return fill_dict(r, "namespace", args, d);
}

static enum status new_cycler(struct jrun *r, enum jtype type, const struct jval *items, size_t n,
                              struct jval *out)
{
    struct jcycler *c = jmem_alloc(&r->mem, sizeof *c);
    if (!c)
        return jmem_full(&r->mem);
    *c = (struct jcycler){0};
    TRY(jlist_new(r, n, &c->items));
    for (size_t i = 0; i < n; i++)
        TRY(jlist_push(r, c->items, &items[i]));
    *out = (struct jval){.type = (uint8_t)type, .u.cycler = c};
    return ST_OK;
}

FUNCTION(fn_cycler)
{
    if (!args->n || args->n_kw)
        FAIL(ST_UNSUPPORTED, "cycler needs values");
    return new_cycler(r, J_CYCLER, args->pos, args->n, out);
}

FUNCTION(fn_joiner)
{
    static const char *const names[] = {"sep"};
    struct jval sep;
    TRY(j_bind(r, "joiner", args, names, 1, 0, &sep));
    if (sep.type == J_MISSING)
        TRY(jstr_literal(&r->mem, ", ", &sep));
    return new_cycler(r, J_JOINER, &sep, 1, out);
}

FUNCTION(fn_raise_exception)
{
    static const char *const names[] = {"message"};
    struct jval message, text;
    TRY(j_bind(r, "raise_exception", args, names, 1, 1, &message));
    TRY(j_to_str(r, &message, &text));
    r->refused = true;
    r->refusal = text.u.s;
    *out = jv_none();
    FAIL(ST_RANGE, "%.*s", (int)(text.u.s->n < 900 ? text.u.s->n : 900), text.u.s->p);
}

/* strftime for one plain piece of a format.
 * A naive time has no zone, and no fraction of a second. */
static enum status emit_time(struct jrun *r, const struct tm *now, const char *format)
{
    char text[MAX_TIME_TEXT];
    size_t n = strftime(text, sizeof text, format, now);
    return j_emit(r, text, n);
}

static enum status emit_directive(struct jrun *r, const struct tm *now, const char *p, size_t n)
{
    char format[16];
    if (p[n - 1] == 'z' || p[n - 1] == 'Z')
        return ST_OK;
    if (p[n - 1] == 'f')
        return j_emit_text(r, "000000");
    if (n >= sizeof format)
        FAIL(ST_UNSUPPORTED, "strftime_now: an unknown directive");
    memcpy(format, p, n);
    format[n] = 0;
    return emit_time(r, now, format);
}

FUNCTION(fn_strftime_now)
{
    static const char *const names[] = {"format"};
    struct jval format;
    const struct jstr *s;
    struct tm local;
    const struct tm *now = r->now;
    size_t mark = j_mark(r);
    TRY(j_bind(r, "strftime_now", args, names, 1, 1, &format));
    TRY(j_want_str("strftime_now", &format, &s));
    if (!now) {
        time_t t = time(NULL);
        if (!localtime_r(&t, &local))
            FAIL(ST_IO, "the local time is not known");
        now = &local;
    }
    for (size_t i = 0; i < s->n;) {
        size_t n = 1;
        TRY(j_charge(r, 1));
        if (s->p[i] != '%' || i + 1 == s->n) {
            TRY(j_emit(r, s->p + i, 1));
        } else {
            while (i + n < s->n && strchr("-_0^#", s->p[i + n]) && s->p[i + n])
                n++;
            n += i + n < s->n && (unsigned char)s->p[i + n] < 0x80;
            TRY(emit_directive(r, now, s->p + i, n));
        }
        i += n;
    }
    return j_take(r, mark, out);
}

const struct jfunc *j_find_function(const struct jstr *name)
{
    static const struct jfunc functions[] = {
        {"raise_exception", fn_raise_exception},
        {"strftime_now", fn_strftime_now},
        {"namespace", fn_namespace},
        {"range", fn_range},
        {"dict", fn_dict},
        {"cycler", fn_cycler},
        {"joiner", fn_joiner},
    };
    for (size_t i = 0; i < ARRAY_LEN(functions); i++)
        if (jstr_is(name, functions[i].name, strlen(functions[i].name)))
            return &functions[i];
    return NULL;
}
