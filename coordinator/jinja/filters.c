/* The table of filters, and those that work on one value. */
#include "coordinator/jinja/filter.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/jinja/str.h"

FILTER(f_default)
{
    static const char *const names[] = {"default_value", "boolean"};
    struct jval v[2];
    TRY(j_bind(r, "default", args, names, 2, 0, v));
    bool missing = in->type == J_UNDEF || (j_flag(&v[1], false) && !jval_truth(in));
    *out = *in;
    if (!missing)
        return ST_OK;
    if (v[0].type == J_MISSING)
        return jstr_literal(&r->mem, "", out);
    *out = v[0];
    return ST_OK;
}

FILTER(f_length)
{
    size_t n;
    TRY(j_bind(r, "length", args, NULL, 0, 0, NULL));
    TRY(jval_length(r, in, &n));
    *out = jv_int((int64_t)n);
    return ST_OK;
}

FILTER(f_attr)
{
    static const char *const names[] = {"name"};
    struct jval name, shown;
    TRY(j_bind(r, "attr", args, names, 1, 1, &name));
    TRY(j_to_str(r, &name, &shown));
    if (in->type == J_DICT && !j_find_dict_method(shown.u.s))
        return j_new_undef(r, shown.u.s, "dict", false, out); /* attributes alone, no keys */
    return j_getattr(r, in, shown.u.s, out);
}

/* --- numbers --- */

/* The text without blanks around and single underscores between digits, as C can read it; false:
 * too long or no number's form. */
static bool plain_number(const struct jstr *s, char *text, size_t size)
{
    const char *p = s->p, *end = s->p + s->n;
    size_t n = 0;
    while (p < end && isspace((unsigned char)*p))
        p++;
    while (end > p && isspace((unsigned char)end[-1]))
        end--;
    for (; p < end; p++) {
        if (*p == '_' && n && isdigit((unsigned char)p[-1]) && p + 1 < end &&
            isdigit((unsigned char)p[1]))
            continue;
        if (n + 1 >= size || !*p || *p == '_' || isspace((unsigned char)*p))
            return false;
        text[n++] = *p;
    }
    text[n] = 0;
    return n > 0;
}

static bool text_to_float(const struct jstr *s, double *out)
{
    char text[400], *end;
    if (!plain_number(s, text, sizeof text) ||
        strpbrk(text, "xXpP(")) /* C reads hexadecimal, Python does not */
        return false;
    *out = strtod(text, &end);
    return *end == 0;
}

static bool text_to_int(const struct jstr *s, int base, int64_t *out)
{
    char text[400], *digits = text;
    uint64_t v = 0;
    if (!plain_number(s, text, sizeof text))
        return false;
    bool minus = *text == '-';
    digits += *text == '-' || *text == '+';
    if (digits[0] == '0' && digits[1] &&
        ((base == 16 && (digits[1] | 32) == 'x') || (base == 8 && (digits[1] | 32) == 'o') ||
         (base == 2 && (digits[1] | 32) == 'b')))
        digits += 2;
    if (!*digits)
        return false;
    for (; *digits; digits++) {
        int d = isdigit((unsigned char)*digits)   ? *digits - '0'
                : isalpha((unsigned char)*digits) ? (*digits | 32) - 'a' + 10
                                                  : 99;
        if (d >= base || v > ((uint64_t)INT64_MAX - (uint64_t)d) / (uint64_t)base)
            return false;
        v = v * (uint64_t)base + (uint64_t)d;
    }
    *out = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

/* The whole part of f; *out stays (the default) when f is no finite number. */
static enum status truncate_float(double f, struct jval *out)
{
    if (!isfinite(f))
        return ST_OK;
    if (fabs(f) >= 9.2e18)
        FAIL(ST_UNSUPPORTED, "int: %g does not fit into 64 bits", f);
    *out = jv_int((int64_t)f);
    return ST_OK;
}

FILTER(f_int)
{
    static const char *const names[] = {"default", "base"};
    struct jval v[2];
    int64_t i, base = 10;
    double f;
    TRY(j_bind(r, "int", args, names, 2, 0, v));
    if (v[1].type != J_MISSING)
        TRY(j_want_int("int", &v[1], &base));
    if (base < 2 || base > 36)
        FAIL(ST_UNSUPPORTED, "int: the base is not between 2 and 36");
    if (in->type == J_UNDEF)
        return j_undef_error(in);
    TRY(j_charge(r, in->type == J_STR ? 8 : 0)); /* reading a number is slow work */
    *out = v[0].type == J_MISSING ? jv_int(0) : v[0];
    if (in->type == J_BIG)
        *out = *in;
    else if (jval_as_int(in, &i) || (in->type == J_STR && text_to_int(in->u.s, (int)base, &i)))
        *out = jv_int(i);
    else if (in->type == J_FLOAT || (in->type == J_STR && text_to_float(in->u.s, &f)))
        return truncate_float(in->type == J_FLOAT ? in->u.f : f, out);
    return ST_OK;
}

FILTER(f_float)
{
    static const char *const names[] = {"default"};
    struct jval v;
    double f;
    TRY(j_bind(r, "float", args, names, 1, 0, &v));
    if (in->type == J_UNDEF)
        return j_undef_error(in);
    TRY(j_charge(r, in->type == J_STR ? 8 : 0));
    *out = v.type == J_MISSING ? jv_float(0) : v;
    if (jval_is_number(in) && in->type != J_BIG)
        *out = jv_float(jval_as_float(in));
    else if ((in->type == J_STR || in->type == J_BIG) && text_to_float(in->u.s, &f))
        *out = jv_float(f);
    return ST_OK;
}

FILTER(f_abs)
{
    int64_t i;
    TRY(j_bind(r, "abs", args, NULL, 0, 0, NULL));
    if (in->type == J_FLOAT) {
        *out = jv_float(fabs(in->u.f));
        return ST_OK;
    }
    TRY(j_want_int("abs", in, &i));
    return j_negate(&(struct jval){.type = J_INT, .u.i = i}, i < 0, out);
}

/* Python's round: to the nearest, ties to even, by the exact decimal value. */
static enum status round_common(double f, int64_t precision, double *out)
{
    char text[700];
    if (precision < 0) {
        double scale = pow(10, (double)-precision);
        *out = nearbyint(f / scale) * scale;
        return ST_OK;
    }
    snprintf(text, sizeof text, "%.*f", (int)precision, f);
    *out = strtod(text, NULL);
    return ST_OK;
}

FILTER(f_round)
{
    static const char *const names[] = {"precision", "method"};
    struct jval v[2];
    int64_t precision = 0, i;
    const struct jstr *method = NULL;
    double f;
    TRY(j_bind(r, "round", args, names, 2, 0, v));
    if (v[0].type != J_MISSING)
        TRY(j_want_int("round", &v[0], &precision));
    if (precision < -300 || precision > 300)
        FAIL(ST_UNSUPPORTED, "round: the precision is not between -300 and 300");
    if (v[1].type != J_MISSING)
        TRY(j_want_str("round", &v[1], &method));
    bool is_int = jval_as_int(in, &i);
    if (!is_int && in->type != J_FLOAT)
        FAIL(ST_UNSUPPORTED, "round needs a number, not a value of type %s", jtype_name(in));
    f = jval_as_float(in);
    if (!method || jstr_is(method, "common", 6)) {
        if (is_int && precision >= 0) {
            *out = jv_int(i);
            return ST_OK;
        }
        TRY(round_common(f, precision, &f));
        *out = is_int ? jv_int((int64_t)f) : jv_float(f);
        return ST_OK;
    }
    bool up = jstr_is(method, "ceil", 4);
    if (!up && !jstr_is(method, "floor", 5))
        FAIL(ST_UNSUPPORTED, "round: the method is 'common', 'ceil' or 'floor'");
    double scale = pow(10, (double)precision);
    *out = jv_float((up ? ceil(f * scale) : floor(f * scale)) / scale);
    return ST_OK;
}

/* --- JSON --- */

static enum status json_indent(struct jrun *r, const struct jval *v, const struct jstr **out)
{
    static const struct jstr blank = {" ", 1, 1};
    struct jval text;
    int64_t width;
    if (v->type == J_STR) {
        *out = v->u.s;
        return ST_OK;
    }
    TRY(j_want_int("tojson: indent", v, &width));
    struct jstr empty = {"", 0, 0};
    TRY(j_str_justify(r, &empty, width, '<', &blank, &text));
    *out = text.u.s;
    return ST_OK;
}

FILTER(f_tojson)
{
    static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys"};
    static const struct jstr comma = {", ", 2, 2}, bare_comma = {",", 1, 1}, colon = {": ", 2, 2};
    struct jdump how = {.item_sep = &comma, .key_sep = &colon};
    struct jval v[4];
    size_t mark = j_mark(r);
    TRY(j_bind(r, "tojson", args, names, 4, 0, v));
    how.ascii = j_flag(&v[0], false);
    how.sort_keys = j_flag(&v[3], false);
    if (v[1].type != J_MISSING && v[1].type != J_NONE) {
        TRY(json_indent(r, &v[1], &how.indent));
        how.item_sep = &bare_comma;
    }
    if (v[2].type != J_MISSING && v[2].type != J_NONE) {
        struct jlist *seps;
        TRY(jval_items(r, &v[2], &seps));
        if (seps->n != 2)
            FAIL(ST_UNSUPPORTED, "tojson: separators are a pair");
        TRY(j_want_str("tojson: separators", &seps->items[0], &how.item_sep));
        TRY(j_want_str("tojson: separators", &seps->items[1], &how.key_sep));
    }
    TRY(j_json_dump(r, in, &how));
    return j_take(r, mark, out);
}

static const struct jfilter FILTERS[] = {
    {"tojson", f_tojson}, {"length", f_length}, {"default", f_default}, {"count", f_length},
    {"d", f_default},     {"int", f_int},       {"float", f_float},     {"abs", f_abs},
    {"round", f_round},   {"attr", f_attr},     {NULL, NULL},
};

static const struct jfilter *find(const struct jfilter *table, const struct jstr *name)
{
    for (; table->name; table++)
        if (jstr_is(name, table->name, strlen(table->name)))
            return table;
    return NULL;
}

bool j_has_filter(const struct jstr *name)
{
    return find(FILTERS, name) || find(j_text_filters, name) || find(j_seq_filters, name);
}

enum status j_filter(struct jrun *r, const struct jstr *name, const struct jval *in,
                     const struct jargs *args, struct jval *out)
{
    const struct jfilter *f = find(FILTERS, name);
    if (!f)
        f = find(j_text_filters, name);
    if (!f)
        f = find(j_seq_filters, name);
    if (!f)
        FAIL(ST_UNSUPPORTED, "there is no filter '%.*s'", J_STR_ARG(name));
    TRY(j_charge(r, 1));
    return f->call(r, in, args, out);
}
