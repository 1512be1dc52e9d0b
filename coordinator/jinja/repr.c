/* Values as text: Python's str() and repr(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/jinja/run.h"
#include "coordinator/jinja/utf8.h"

/* The shortest digits that read back as f, as "d.ddde-xx" (the C locale's point is a full stop;
 * Ingot never sets another). */
static void shortest(double f, char *text, size_t size)
{
    for (int digits = 0; digits < 17; digits++) {
        snprintf(text, size, "%.*e", digits, f);
        if (strtod(text, NULL) == f)
            return;
    }
}

/* d digits with the decimal point after place: 0.00ddd, dd.dd or dd00.0 */
static size_t fixed(const char *d, int n, int place, char *text)
{
    char *p = text;
    if (place <= 0) {
        *p++ = '0';
        *p++ = '.';
        for (int i = place; i < 0; i++)
            *p++ = '0';
    }
    for (int i = 0; i < n || i < place; i++) {
        if (i == place && i > 0)
            *p++ = '.';
        *p++ = i < n ? d[i] : '0';
    }
    if (place >= n) {
        *p++ = '.';
        *p++ = '0';
    }
    return (size_t)(p - text);
}

size_t j_float_repr(double f, char *text)
{
    if (isnan(f))
        return (size_t)snprintf(text, 40, "nan");
    if (isinf(f))
        return (size_t)snprintf(text, 40, f < 0 ? "-inf" : "inf");
    if (fabs(f) < 1e15 && f == (double)(int64_t)f && (f != 0 || !signbit(f)))
        return (size_t)snprintf(text, 40, "%" PRId64 ".0", (int64_t)f);
    char e[40], d[20];
    int n = 0;
    shortest(fabs(f), e, sizeof e);
    char *mark = strchr(e, 'e');
    int exponent = atoi(mark + 1);
    for (char *p = e; p < mark; p++)
        if (*p != '.')
            d[n++] = *p;
    while (n > 1 && d[n - 1] == '0')
        n--;
    char *p = text;
    if (signbit(f))
        *p++ = '-';
    if (exponent >= -4 && exponent < 16)
        return (size_t)(p - text) + fixed(d, n, exponent + 1, p);
    *p++ = d[0];
    if (n > 1) {
        *p++ = '.';
        memcpy(p, d + 1, (size_t)n - 1);
        p += n - 1;
    }
    return (size_t)(p - text) + (size_t)snprintf(p, 8, "e%+03d", exponent);
}

enum status j_emit_escaped(struct jrun *r, const char *p, size_t n)
{
    static const struct {
        char c;
        const char *text;
    } escapes[] = {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&#34;"}, {'\'', "&#39;"}};
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < ARRAY_LEN(escapes); k++) {
            if (p[i] != escapes[k].c)
                continue;
            TRY(j_emit(r, p + from, i - from));
            TRY(j_emit_text(r, escapes[k].text));
            from = i + 1;
        }
    }
    TRY(j_charge_bytes(r, n * 4));
    return j_emit(r, p + from, n - from);
}

static enum status emit_repr_char(struct jrun *r, const char *p, size_t n, uint32_t c, char quote)
{
    char text[12];
    const char *plain = c == '\n'   ? "\\n"
                        : c == '\r' ? "\\r"
                        : c == '\t' ? "\\t"
                        : c == '\\' ? "\\\\"
                                    : NULL;
    if (plain)
        return j_emit_text(r, plain);
    if (c == (uint32_t)quote) {
        snprintf(text, sizeof text, "\\%c", quote);
        return j_emit_text(r, text);
    }
    if (u8_is_printable(c))
        return j_emit(r, p, n);
    snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    return j_emit_text(r, text);
}

static enum status emit_str_repr(struct jrun *r, const struct jstr *s)
{
    char quote = s->n && memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    TRY(j_charge(r, s->n_chars / 4));
    TRY(j_emit(r, &quote, 1));
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = u8_decode(s->p + i, &n);
        TRY(emit_repr_char(r, s->p + i, n, c, quote));
    }
    return j_emit(r, &quote, 1);
}

static enum status emit_items(struct jrun *r, const char *open, const struct jlist *l,
                              const char *close)
{
    TRY(j_emit_text(r, open));
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            TRY(j_emit_text(r, ", "));
        TRY(j_emit_repr(r, &l->items[i]));
    }
    return j_emit_text(r, close);
}

static enum status emit_dict(struct jrun *r, const struct jdict *d)
{
    TRY(j_emit_text(r, "{"));
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            TRY(j_emit_text(r, ", "));
        TRY(j_emit_repr(r, &d->pairs[i].key));
        TRY(j_emit_text(r, ": "));
        TRY(j_emit_repr(r, &d->pairs[i].value));
    }
    return j_emit_text(r, "}");
}

static enum status emit_view(struct jrun *r, const struct jval *v)
{
    static const char *const open[] = {"dict_keys([", "dict_values([", "dict_items(["};
    struct jlist *items;
    TRY(jval_items(r, v, &items));
    return emit_items(r, open[v->u.view->kind], items, "])");
}

static enum status emit_object(struct jrun *r, const struct jval *v)
{
    char text[160];
    const struct jrange *range = v->u.range;
    const struct jsym *name;
    switch (v->type) {
    case J_RANGE:
        snprintf(text, sizeof text,
                 range->step == 1 ? "range(%" PRId64 ", %" PRId64 ")"
                                  : "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                 range->start, range->start + range->n * range->step, range->step);
        break;
    case J_MACRO:
        name = v->u.macro->node->sym;
        if (name)
            snprintf(text, sizeof text, "<Macro '%.*s'>", J_STR_ARG(&name->s));
        else
            snprintf(text, sizeof text, "<Macro anonymous>");
        break;
    case J_METHOD:
        snprintf(text, sizeof text, "<built-in method %.60s of %s object>", v->u.method->def->name,
                 jtype_name(&v->u.method->self));
        break;
    case J_FUNC:
        snprintf(text, sizeof text, "<function %.60s>", v->u.func->name);
        break;
    case J_LOOP:
        TRY(j_loop_fill(r, v->u.loop, SIZE_MAX));
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", v->u.loop->i + 1, v->u.loop->items->n);
        break;
    default:
        snprintf(text, sizeof text, "<%s object>", jtype_name(v));
        break;
    }
    return j_emit_text(r, text);
}

static enum status emit_composed(struct jrun *r, const struct jval *v)
{
    switch (v->type) {
    case J_LIST:
        return emit_items(r, "[", v->u.list, "]");
    case J_TUPLE:
        return emit_items(r, "(", v->u.list, v->u.list->n == 1 ? ",)" : ")");
    case J_DICT:
        return emit_dict(r, v->u.dict);
    case J_NAMESPACE:
        TRY(j_emit_text(r, "<Namespace "));
        TRY(emit_dict(r, v->u.dict));
        return j_emit_text(r, ">");
    case J_VIEW:
        return emit_view(r, v);
    default:
        return emit_object(r, v);
    }
}

enum status j_emit_repr(struct jrun *r, const struct jval *v)
{
    char text[40];
    switch (v->type) {
    case J_UNDEF:
        return j_emit_text(r, "Undefined");
    case J_NONE:
        return j_emit_text(r, "None");
    case J_BOOL:
        return j_emit_text(r, v->u.b ? "True" : "False");
    case J_INT:
        return j_emit_own(r, text, (size_t)snprintf(text, sizeof text, "%" PRId64, v->u.i));
    case J_FLOAT:
        return j_emit(r, text, j_float_repr(v->u.f, text));
    case J_BIG:
        return j_emit(r, v->u.s->p, v->u.s->n);
    case J_STR:
        if (!v->safe)
            return emit_str_repr(r, v->u.s);
        TRY(j_emit_text(r, "Markup("));
        TRY(emit_str_repr(r, v->u.s));
        return j_emit_text(r, ")");
    default:
        TRY(j_charge(r, 1));
        TRY(j_enter(r));
        TRY(emit_composed(r, v));
        j_leave(r);
        return ST_OK;
    }
}

enum status j_emit_str(struct jrun *r, const struct jval *v)
{
    if (v->type == J_STR)
        return j_emit(r, v->u.s->p, v->u.s->n);
    return v->type == J_UNDEF ? ST_OK : j_emit_repr(r, v);
}

enum status j_to_str(struct jrun *r, const struct jval *v, struct jval *out)
{
    size_t mark = j_mark(r);
    if (v->type == J_STR) {
        *out = *v;
        return ST_OK;
    }
    TRY(j_emit_str(r, v));
    return j_take(r, mark, out);
}
