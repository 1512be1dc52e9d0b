/* "%s" % value and "{}".format(value): Python's two ways to put values into a text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/jinja/run.h"
#include "coordinator/jinja/utf8.h"

enum { MAX_WIDTH = 1 << 20 /* characters */, MAX_PRECISION = 300, NUMBER_SIZE = 800 };

struct spec {
    const char *fill; /* one character */
    size_t n_fill;
    char align; /* < > ^ =, 0: as the type has it */
    char sign;  /* + - or blank */
    bool alternate;
    int64_t width;     /* characters */
    int64_t precision; /* -1: none */
    char grouping;     /* , _ or 0 */
    char type;         /* 0: none */
};

static enum status pad(struct jrun *r, const struct spec *sp, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        TRY(j_emit(r, sp->fill, sp->n_fill));
    return j_charge(r, (uint64_t)(n > 0 ? n : 0));
}

/* n_sign bytes of sign and prefix stay in front of the padding when it is aligned with '='. */
static enum status emit_padded(struct jrun *r, const struct spec *sp, const char *p, size_t n,
                               size_t n_sign, char align)
{
    int64_t missing = sp->width - (int64_t)u8_count(p, n);
    int64_t before = missing <= 0                   ? 0
                     : align == '>' || align == '=' ? missing
                     : align == '^'                 ? missing / 2
                                                    : 0;
    if (align == '=') {
        TRY(j_emit(r, p, n_sign));
        p += n_sign;
        n -= n_sign;
    }
    TRY(pad(r, sp, before));
    TRY(j_emit(r, p, n));
    return pad(r, sp, missing - before);
}

static enum status format_text(struct jrun *r, const struct jstr *s, const struct spec *sp)
{
    size_t n = s->n;
    if (sp->precision >= 0)
        n = u8_offset(s->p, s->n, (size_t)sp->precision);
    return emit_padded(r, sp, s->p, n, 0, sp->align ? sp->align : '<');
}

static size_t digits_of(uint64_t v, unsigned base, bool upper, char *end)
{
    size_t n = 0;
    do {
        *--end = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
        n++;
    } while (v /= base);
    return n;
}

/* Puts grouping marks into the whole digits at the beginning of text. */
static size_t group(char *text, size_t n, char mark, size_t every)
{
    size_t whole = 0;
    while (whole < n && text[whole] != '.' && text[whole] != 'e' && text[whole] != '%')
        whole++;
    for (size_t at = whole; mark && at > every; at -= every) {
        memmove(text + at - every + 1, text + at - every, n - (at - every));
        text[at - every] = mark;
        n++;
    }
    return n;
}

static enum status emit_number(struct jrun *r, const struct spec *sp, bool negative,
                               const char *prefix, const char *digits, size_t n)
{
    char text[NUMBER_SIZE + 16];
    size_t at = 0;
    if (negative || sp->sign == '+' || sp->sign == ' ')
        text[at++] = negative ? '-' : sp->sign;
    for (; *prefix; prefix++)
        text[at++] = *prefix;
    memcpy(text + at, digits, n);
    return emit_padded(r, sp, text, at + n, at, sp->align ? sp->align : '>');
}

static enum status format_int(struct jrun *r, int64_t v, const struct spec *sp)
{
    char digits[NUMBER_SIZE], *end = digits + 70;
    unsigned base = sp->type == 'x' || sp->type == 'X' ? 16
                    : sp->type == 'o'                  ? 8
                    : sp->type == 'b'                  ? 2
                                                       : 10;
    uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    size_t n = digits_of(magnitude, base, sp->type == 'X', end);
    memmove(digits, end - n, n);
    for (; (int64_t)n < sp->precision; n++) { /* %.5d */
        memmove(digits + 1, digits, n);
        digits[0] = '0';
    }
    n = group(digits, n, sp->grouping, base == 10 ? 3 : 4);
    char prefix[3] = {'0', sp->type, 0};
    return emit_number(r, sp, v < 0, sp->alternate && base != 10 ? prefix : "", digits, n);
}

static enum status format_float(struct jrun *r, double f, const struct spec *sp)
{
    char digits[NUMBER_SIZE], how[16];
    int n, precision = sp->precision < 0 ? 6 : (int)sp->precision;
    double v = sp->type == '%' ? f * 100 : f;
    if (!sp->type && sp->precision < 0) {
        n = (int)j_float_repr(fabs(f), digits);
    } else {
        char type = sp->type == '%' ? 'f' : sp->type ? sp->type : 'g';
        if (type == 'g' && sp->precision == 0)
            precision = 1;
        snprintf(how, sizeof how, "%%%s.*%c", sp->alternate ? "#" : "", type);
        n = snprintf(digits, sizeof digits - 2, how, precision, fabs(v));
        if (!sp->type && !strpbrk(digits, ".en")) /* a fraction always shows one */
            n += snprintf(digits + n, 3, ".0");
    }
    if (n < 0 || n > 700)
        FAIL(ST_UNSUPPORTED, "a formatted number is too long");
    if (sp->type == '%')
        digits[n++] = '%';
    size_t len = isfinite(v) ? group(digits, (size_t)n, sp->grouping, 3) : (size_t)n;
    return emit_number(r, sp, signbit(f) && !isnan(f), "", digits, len);
}

static enum status format_char(struct jrun *r, int64_t c, const struct spec *sp)
{
    char text[4];
    if (c < 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        FAIL(ST_UNSUPPORTED, "%lld is no character", (long long)c);
    return emit_padded(r, sp, text, u8_encode((uint32_t)c, text), 0, sp->align ? sp->align : '<');
}

/* --- {} --- */

static enum status read_int(const char **p, const char *end, int64_t limit, int64_t *out)
{
    for (*out = 0; *p < end && **p >= '0' && **p <= '9'; (*p)++) {
        *out = *out * 10 + (**p - '0');
        if (*out > limit)
            FAIL(ST_UNSUPPORTED, "a format asks for more than %lld characters", (long long)limit);
    }
    return ST_OK;
}

static enum status parse_spec(const char *p, const char *end, struct spec *sp)
{
    size_t n = p < end ? u8_length(*p) : 0;
    *sp = (struct spec){.fill = " ", .n_fill = 1, .precision = -1};
    if (n && p + n < end && strchr("<>^=", p[n])) {
        sp->fill = p;
        sp->n_fill = n;
        sp->align = p[n];
        p += n + 1;
    } else if (p < end && *p && strchr("<>^=", *p)) {
        sp->align = *p++;
    }
    if (p < end && (*p == '+' || *p == '-' || *p == ' '))
        sp->sign = *p++;
    if (p < end && *p == '#') {
        sp->alternate = true;
        p++;
    }
    if (p < end && *p == '0') {
        p++;
        if (!sp->align) {
            sp->fill = "0";
            sp->align = '=';
        }
    }
    TRY(read_int(&p, end, MAX_WIDTH, &sp->width));
    if (p < end && (*p == ',' || *p == '_'))
        sp->grouping = *p++;
    if (p < end && *p == '.') {
        const char *digits = ++p;
        TRY(read_int(&p, end, MAX_WIDTH, &sp->precision));
        if (p == digits)
            FAIL(ST_UNSUPPORTED, "a format has a '.' without a number after it");
    }
    if (p < end)
        sp->type = *p++;
    if (p != end)
        FAIL(ST_UNSUPPORTED, "an invalid format specification");
    return ST_OK;
}

static enum status format_one(struct jrun *r, const struct jval *v, const struct spec *sp)
{
    int64_t i;
    struct jval text;
    bool is_text =
        sp->type == 's' || (!sp->type && !jval_is_number(v)) || (!sp->type && v->type == J_BOOL);
    if (is_text || v->type == J_BIG) {
        TRY(j_to_str(r, v, &text));
        return format_text(r, text.u.s, sp);
    }
    if ((v->type == J_FLOAT || jval_as_int(v, &i)) && sp->type && strchr("eEfFgG%", sp->type)) {
        if (sp->precision > MAX_PRECISION)
            FAIL(ST_UNSUPPORTED, "a format asks for more than %d digits", MAX_PRECISION);
        return format_float(r, jval_as_float(v), sp);
    }
    if (v->type == J_FLOAT && !sp->type && sp->precision <= MAX_PRECISION)
        return format_float(r, v->u.f, sp);
    if (jval_as_int(v, &i) && sp->precision < 0) {
        if (sp->type == 'c')
            return format_char(r, i, sp);
        if (!sp->type || strchr("dxXobn", sp->type))
            return format_int(r, i, sp);
    }
    FAIL(ST_UNSUPPORTED, "the format '%c' does not fit a value of type %s", sp->type,
         jtype_name(v));
}

struct fields {
    const struct jargs *args;
    int64_t next; /* of the fields without a number; -1: they are numbered */
};

static bool is_number(const char *p, const char *end)
{
    for (const char *q = p; q < end; q++)
        if (*q < '0' || *q > '9')
            return false;
    return p < end;
}

/* The argument that the name up to '.', '[' or the end means; moves *p there. */
static enum status field_argument(struct fields *f, const char **p, const char *end,
                                  struct jval *out)
{
    const char *name = *p;
    int64_t i = f->next;
    while (*p < end && **p != '.' && **p != '[')
        (*p)++;
    if (*p == name || is_number(name, *p)) {
        if (*p == name)
            f->next++;
        else
            TRY(read_int(&name, *p, MAX_WIDTH, &i));
        if (i < 0 || (uint64_t)i >= f->args->n)
            FAIL(ST_UNSUPPORTED, "format: there is no argument %lld", (long long)i);
        *out = f->args->pos[i];
        return ST_OK;
    }
    for (size_t k = 0; k < f->args->n_kw; k++) {
        if (jstr_is(f->args->kw[k].name, name, (size_t)(*p - name))) {
            *out = f->args->kw[k].value;
            return ST_OK;
        }
    }
    FAIL(ST_UNSUPPORTED, "format: there is no argument '%.*s'",
         (int)(*p - name < J_SHOW ? *p - name : J_SHOW), name);
}

static enum status field_value(struct jrun *r, struct fields *f, const char *p, const char *end,
                               struct jval *v)
{
    TRY(field_argument(f, &p, end, v));
    while (p < end) {
        bool attr = *p++ == '.';
        const char *name = p;
        while (p < end && (attr ? *p != '.' && *p != '[' : *p != ']'))
            p++;
        struct jval key, of = *v;
        int64_t i;
        TRY(j_view(r, name, (size_t)(p - name), &key));
        if (attr) {
            TRY(j_getattr(r, &of, key.u.s, v));
            continue;
        }
        if (is_number(name, p)) {
            TRY(read_int(&name, p, MAX_WIDTH, &i));
            key = jv_int(i);
        }
        TRY(j_getitem(r, &of, &key, v));
        p += p < end;
    }
    return ST_OK;
}

static enum status format_field(struct jrun *r, struct fields *f, const char *p, const char *end)
{
    const char *colon = memchr(p, ':', (size_t)(end - p)), *name_end = colon ? colon : end;
    char conversion = 0;
    struct spec sp;
    struct jval v;
    if (memchr(p, '{', (size_t)(end - p)))
        FAIL(ST_UNSUPPORTED, "format: fields inside of fields are not supported");
    if (name_end - p >= 2 && name_end[-2] == '!') {
        conversion = name_end[-1];
        name_end -= 2;
        if (conversion != 'r' && conversion != 's')
            FAIL(ST_UNSUPPORTED, "format: unknown conversion '!%c'", conversion);
    }
    TRY(field_value(r, f, p, name_end, &v));
    TRY(parse_spec(colon ? colon + 1 : end, end, &sp));
    if (conversion) {
        size_t mark = j_mark(r);
        TRY(conversion == 'r' ? j_emit_repr(r, &v) : j_emit_str(r, &v));
        TRY(j_take(r, mark, &v));
    }
    return format_one(r, &v, &sp);
}

enum status j_format(struct jrun *r, const struct jstr *format, const struct jargs *args,
                     struct jval *out)
{
    const char *p = format->p, *end = p + format->n;
    struct fields f = {args, 0};
    size_t mark = j_mark(r);
    while (p < end) {
        const char *from = p;
        while (p < end && *p != '{' && *p != '}')
            p++;
        TRY(j_emit(r, from, (size_t)(p - from)));
        if (p == end)
            break;
        if (p + 1 < end && p[1] == *p) {
            TRY(j_emit(r, p, 1));
            p += 2;
            continue;
        }
        const char *close = memchr(p, '}', (size_t)(end - p));
        if (*p == '}' || !close)
            FAIL(ST_UNSUPPORTED, "format: a single '%c'", *p);
        TRY(j_charge(r, 1));
        TRY(format_field(r, &f, p + 1, close));
        p = close + 1;
    }
    return j_take(r, mark, out);
}

/* --- % --- */

struct values {
    const struct jval *all;
    size_t at;
};

static enum status next_value(struct jrun *r, struct values *vs, const char **p, const char *end,
                              struct jval *out)
{
    if (*p < end && **p == '(') {
        const char *name = ++*p;
        while (*p < end && **p != ')')
            (*p)++;
        struct jpair *pair = NULL;
        if (vs->all->type == J_DICT)
            TRY(jdict_find_str(r, vs->all->u.dict, name, (size_t)(*p - name), &pair));
        if (*p == end || !pair)
            FAIL(ST_UNSUPPORTED, "%%: there is no value for a name in the format");
        (*p)++;
        *out = pair->value;
        return ST_OK;
    }
    bool tuple = vs->all->type == J_TUPLE;
    if (vs->at >= (tuple ? vs->all->u.list->n : 1))
        FAIL(ST_UNSUPPORTED, "%%: not enough values for the format");
    *out = tuple ? vs->all->u.list->items[vs->at] : *vs->all;
    vs->at++;
    return ST_OK;
}

static enum status percent_flags(const char **p, const char *end, struct spec *sp)
{
    *sp = (struct spec){.fill = " ", .n_fill = 1, .precision = -1};
    for (; *p < end && **p && strchr("-+ #0", **p); (*p)++) {
        if (**p == '-')
            sp->align = '<';
        else if (**p == '#')
            sp->alternate = true;
        else if (**p != '0')
            sp->sign = sp->sign == '+' ? '+' : **p;
        else if (!sp->align) {
            sp->fill = "0";
            sp->align = '=';
        }
    }
    if (sp->align == '<')
        sp->fill = " ";
    TRY(read_int(p, end, MAX_WIDTH, &sp->width));
    if (*p < end && **p == '.') {
        (*p)++;
        TRY(read_int(p, end, MAX_PRECISION, &sp->precision));
    }
    while (*p < end && (**p == 'l' || **p == 'h' || **p == 'L'))
        (*p)++;
    return ST_OK;
}

static enum status percent_one(struct jrun *r, const struct jval *v, struct spec *sp, char type)
{
    int64_t i;
    struct jval text;
    size_t mark = j_mark(r);
    if (type == 's' || type == 'r' || type == 'a') {
        TRY(type == 's' ? j_emit_str(r, v) : j_emit_repr(r, v));
        TRY(j_take(r, mark, &text));
        sp->align = sp->align == '<' ? '<' : '>';
        sp->fill = " ";
        return format_text(r, text.u.s, sp);
    }
    sp->type = type == 'i' || type == 'u' ? 'd' : type;
    if (strchr("eEfFgG", type) && jval_is_number(v) && v->type != J_BIG)
        return format_float(r, jval_as_float(v), sp);
    if (sp->type == 'd' && v->type == J_FLOAT && fabs(v->u.f) < 9e18)
        return format_int(r, (int64_t)v->u.f, sp);
    if (strchr("dxXo", sp->type) && jval_as_int(v, &i))
        return format_int(r, i, sp);
    if (type == 'c' && jval_as_int(v, &i))
        return format_char(r, i, sp);
    if (type == 'c' && v->type == J_STR && v->u.s->n_chars == 1)
        return format_text(r, v->u.s, sp);
    FAIL(ST_UNSUPPORTED, "%%: the format '%%%c' does not fit a value of type %s", type,
         jtype_name(v));
}

static enum status percent_field(struct jrun *r, struct values *vs, const char **p, const char *end)
{
    struct spec sp;
    struct jval v = jv_none();
    const char *name = *p;
    if (*p < end && **p == '(') {
        TRY(next_value(r, vs, p, end, &v));
        vs->at = 1;
    }
    bool named = *p != name;
    TRY(percent_flags(p, end, &sp));
    if (*p == end)
        FAIL(ST_UNSUPPORTED, "%%: the format ends within a field");
    char type = *(*p)++;
    if (type == '%')
        return j_emit(r, "%", 1);
    if (!type || !strchr("srdiuxXoeEfFgGca", type))
        FAIL(ST_UNSUPPORTED, "%%: unknown format '%%%c'", type);
    if (!named)
        TRY(next_value(r, vs, p, end, &v));
    return percent_one(r, &v, &sp, type);
}

enum status j_percent(struct jrun *r, const struct jstr *format, const struct jval *args,
                      struct jval *out)
{
    const char *p = format->p, *end = p + format->n;
    struct values vs = {args, 0};
    size_t mark = j_mark(r);
    while (p < end) {
        const char *from = p;
        p = memchr(p, '%', (size_t)(end - p));
        if (!p)
            p = end;
        TRY(j_emit(r, from, (size_t)(p - from)));
        if (p == end)
            break;
        p++;
        TRY(j_charge(r, 1));
        TRY(percent_field(r, &vs, &p, end));
    }
    bool tuple = args->type == J_TUPLE;
    if (args->type != J_DICT && args->type != J_LIST && vs.at < (tuple ? args->u.list->n : 1))
        FAIL(ST_UNSUPPORTED, "%%: more values than the format takes");
    return j_take(r, mark, out);
}
