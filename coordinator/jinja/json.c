/* JSON -> values, and values -> JSON as Python's json.dumps writes it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "coordinator/jinja/run.h"
#include "coordinator/jinja/utf8.h"

/* --- reading --- */

enum { MAX_NUMBER = 4300 /* characters, as Python limits whole numbers */ };

struct reader {
    struct jrun *r;
    const char *begin, *p, *end;
};

static enum status read_value(struct reader *x, struct jval *out);

#define JSON_FAIL(x, what) FAIL(ST_FORMAT, "%s at byte %zu", what, (size_t)((x)->p - (x)->begin))

static void skip_blanks(struct reader *x)
{
    while (x->p < x->end && (*x->p == ' ' || *x->p == '\n' || *x->p == '\r' || *x->p == '\t'))
        x->p++;
}

static bool take(struct reader *x, char c)
{
    skip_blanks(x);
    if (x->p < x->end && *x->p == c) {
        x->p++;
        return true;
    }
    return false;
}

static enum status read_hex4(struct reader *x, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, x->p++) {
        char c = x->p < x->end ? *x->p : 0;
        uint32_t d = c >= '0' && c <= '9'                 ? (uint32_t)(c - '0')
                     : (c | 32) >= 'a' && (c | 32) <= 'f' ? (uint32_t)((c | 32) - 'a' + 10)
                                                          : 16;
        if (d == 16)
            JSON_FAIL(x, "\\u needs four hexadecimal digits");
        *out = *out << 4 | d;
    }
    return ST_OK;
}

static enum status read_unicode(struct reader *x, uint32_t *c)
{
    uint32_t low;
    TRY(read_hex4(x, c));
    if (*c >= 0xdc00 && *c < 0xe000)
        JSON_FAIL(x, "half of a surrogate pair before here");
    if (*c < 0xd800 || *c >= 0xdc00)
        return ST_OK;
    if (x->end - x->p < 6 || x->p[0] != '\\' || x->p[1] != 'u')
        JSON_FAIL(x, "half of a surrogate pair before here");
    x->p += 2;
    TRY(read_hex4(x, &low));
    if (low < 0xdc00 || low >= 0xe000)
        JSON_FAIL(x, "half of a surrogate pair before here");
    *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
    return ST_OK;
}

static enum status read_escaped(struct reader *x, const char *close, struct jval *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char *text = jmem_alloc(&x->r->mem, (size_t)(close - x->p));
    size_t n = 0;
    if (!text)
        return jmem_full(&x->r->mem);
    while (x->p < close) {
        if (*x->p != '\\') {
            text[n++] = *x->p++;
            continue;
        }
        char e = x->p[1];
        const char *simple = e ? strchr(names, e) : NULL;
        x->p += 2;
        if (simple) {
            text[n++] = values[simple - names];
        } else if (e == 'u') {
            uint32_t c;
            TRY(read_unicode(x, &c));
            n += u8_encode(c, text + n);
        } else {
            x->p -= 2;
            JSON_FAIL(x, "unknown escape");
        }
    }
    return jstr_view(&x->r->mem, text, n, out);
}

static enum status read_string(struct reader *x, struct jval *out)
{
    const char *q = ++x->p;
    bool escaped = false;
    while (q < x->end && *q != '"') {
        if ((unsigned char)*q < 0x20) {
            x->p = q;
            JSON_FAIL(x, "control character in a string");
        }
        if (*q == '\\') {
            escaped = true;
            q++;
        }
        q++;
    }
    if (q >= x->end)
        JSON_FAIL(x, "a string without an end begins");
    if (escaped)
        TRY(read_escaped(x, q, out));
    else
        TRY(jstr_view(&x->r->mem, x->p, (size_t)(q - x->p), out));
    x->p = q + 1;
    return ST_OK;
}

static size_t count_digits(struct reader *x)
{
    const char *from = x->p;
    while (x->p < x->end && *x->p >= '0' && *x->p <= '9')
        x->p++;
    return (size_t)(x->p - from);
}

/* Checks the grammar of a number and moves behind it. */
static enum status scan_number(struct reader *x, bool *fraction)
{
    const char *from = x->p;
    *fraction = false;
    x->p += *x->p == '-';
    const char *digits = x->p;
    size_t n = count_digits(x);
    if (n == 0 || (n > 1 && *digits == '0'))
        JSON_FAIL(x, "no JSON value");
    if (x->p < x->end && *x->p == '.') {
        *fraction = true;
        x->p++;
        if (!count_digits(x))
            JSON_FAIL(x, "digits expected");
    }
    if (x->p < x->end && (*x->p | 32) == 'e') {
        *fraction = true;
        x->p++;
        x->p += x->p < x->end && (*x->p == '+' || *x->p == '-');
        if (!count_digits(x))
            JSON_FAIL(x, "digits expected");
    }
    if (x->p - from > MAX_NUMBER)
        JSON_FAIL(x, "a number of too many digits");
    return ST_OK;
}

static enum status read_number(struct reader *x, struct jval *out)
{
    char text[MAX_NUMBER + 1];
    const char *from = x->p;
    bool fraction;
    TRY(scan_number(x, &fraction));
    size_t n = (size_t)(x->p - from);
    if (fraction) {
        memcpy(text, from, n);
        text[n] = 0;
        *out = jv_float(strtod(text, NULL));
        return ST_OK;
    }
    bool minus = *from == '-';
    int64_t v = 0;
    for (const char *p = from + minus; p < x->p; p++) {
        if (v > (INT64_MAX - (*p - '0')) / 10) {
            TRY(jstr_view(&x->r->mem, from, n, out));
            out->type = J_BIG;
            return ST_OK;
        }
        v = v * 10 + (*p - '0');
    }
    *out = jv_int(minus ? -v : v);
    return ST_OK;
}

static enum status read_list(struct reader *x, struct jval *out)
{
    struct jlist *l;
    struct jval v;
    x->p++;
    TRY(jlist_new(x->r, 0, &l));
    *out = jv_list(l);
    if (take(x, ']'))
        return ST_OK;
    do {
        TRY(read_value(x, &v));
        TRY(jlist_push(x->r, l, &v));
    } while (take(x, ','));
    if (!take(x, ']'))
        JSON_FAIL(x, "',' or ']' expected");
    return ST_OK;
}

static enum status read_object(struct reader *x, struct jval *out)
{
    struct jdict *d;
    struct jval key, v;
    x->p++;
    TRY(jdict_new(x->r, &d));
    *out = jv_dict(d);
    if (take(x, '}'))
        return ST_OK;
    do {
        skip_blanks(x);
        if (x->p >= x->end || *x->p != '"')
            JSON_FAIL(x, "a key in quotes expected");
        TRY(read_string(x, &key));
        if (!take(x, ':'))
            JSON_FAIL(x, "':' expected");
        TRY(read_value(x, &v));
        TRY(jdict_set(x->r, d, &key, &v));
    } while (take(x, ','));
    if (!take(x, '}'))
        JSON_FAIL(x, "',' or '}' expected");
    return ST_OK;
}

static bool take_word(struct reader *x, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(x->end - x->p) < n || memcmp(x->p, word, n) != 0)
        return false;
    x->p += n;
    return true;
}

static enum status read_value(struct reader *x, struct jval *out)
{
    skip_blanks(x);
    if (x->p >= x->end)
        JSON_FAIL(x, "the text ends where a value is expected");
    if (*x->p == '"')
        return read_string(x, out);
    if (*x->p == '[' || *x->p == '{') {
        TRY(j_enter(x->r));
        TRY(*x->p == '[' ? read_list(x, out) : read_object(x, out));
        j_leave(x->r);
        return ST_OK;
    }
    if (take_word(x, "true"))
        *out = jv_bool(true);
    else if (take_word(x, "false"))
        *out = jv_bool(false);
    else if (take_word(x, "null"))
        *out = jv_none();
    else
        return read_number(x, out);
    return ST_OK;
}

enum status j_json_parse(struct jrun *r, const char *p, size_t n, struct jval *out)
{
    struct reader x = {r, p, p, p + n};
    size_t bad = utf8_valid_prefix(p, n);
    if (bad < n)
        FAIL(ST_FORMAT, "not UTF-8 at byte %zu", bad);
    TRY(read_value(&x, out));
    skip_blanks(&x);
    if (x.p < x.end)
        JSON_FAIL(&x, "more text after the value");
    return ST_OK;
}

/* --- writing --- */

static enum status dump_char(struct jrun *r, uint32_t c)
{
    static const char names[] = "\"\\\n\r\t\f\b", values[] = "\"\\nrtfb";
    char text[16];
    const char *simple = c && c < 0x80 ? strchr(names, (int)c) : NULL;
    if (simple)
        snprintf(text, sizeof text, "\\%c", values[simple - names]);
    else if (c < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", c);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                 0xdc00 + ((c - 0x10000) & 0x3ff));
    return j_emit_text(r, text);
}

static enum status dump_string(struct jrun *r, const struct jstr *s, bool ascii)
{
    size_t from = 0, n;
    TRY(j_emit(r, "\"", 1));
    for (size_t i = 0; i < s->n; i += n) {
        unsigned char b = (unsigned char)s->p[i];
        n = 1;
        if (b >= 0x20 && b != '"' && b != '\\' && (!ascii || b < 0x7f))
            continue;
        uint32_t c = u8_decode(s->p + i, &n);
        TRY(j_emit(r, s->p + from, i - from));
        TRY(j_charge(r, 1));
        TRY(dump_char(r, c));
        from = i + n;
    }
    TRY(j_emit(r, s->p + from, s->n - from));
    return j_emit(r, "\"", 1);
}

static enum status dump_float(struct jrun *r, double f)
{
    char text[40];
    if (isnan(f))
        return j_emit_text(r, "NaN");
    if (isinf(f))
        return j_emit_text(r, f < 0 ? "-Infinity" : "Infinity");
    return j_emit(r, text, j_float_repr(f, text));
}

static enum status dump_newline(struct jrun *r, const struct jdump *how, unsigned level)
{
    if (!how->indent)
        return ST_OK;
    TRY(j_emit(r, "\n", 1));
    for (unsigned i = 0; i < level; i++)
        TRY(j_emit(r, how->indent->p, how->indent->n));
    return ST_OK;
}

static enum status dump_value(struct jrun *r, const struct jval *v, const struct jdump *how,
                              unsigned level);

static enum status dump_list(struct jrun *r, const struct jlist *l, const struct jdump *how,
                             unsigned level)
{
    if (!l->n)
        return j_emit_text(r, "[]");
    TRY(j_emit(r, "[", 1));
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            TRY(j_emit(r, how->item_sep->p, how->item_sep->n));
        TRY(dump_newline(r, how, level + 1));
        TRY(dump_value(r, &l->items[i], how, level + 1));
    }
    TRY(dump_newline(r, how, level));
    return j_emit(r, "]", 1);
}

static enum status dump_key(struct jrun *r, const struct jval *key, const struct jdump *how)
{
    if (key->type == J_STR)
        return dump_string(r, key->u.s, how->ascii);
    if (key->type != J_NONE && !jval_is_number(key))
        FAIL(ST_UNSUPPORTED, "tojson: a key of type %s", jtype_name(key));
    TRY(j_emit(r, "\"", 1));
    TRY(dump_value(r, key, how, 0));
    return j_emit(r, "\"", 1);
}

/* The pairs in the order of their keys, by insertion (dicts in templates are small). */
static enum status sorted_pairs(struct jrun *r, const struct jdict *d, struct jpair **out)
{
    struct jpair *pairs = jmem_array(&r->mem, d->n, sizeof *pairs);
    if (!pairs)
        return jmem_full(&r->mem);
    for (size_t i = 0; i < d->n; i++) {
        size_t k = i;
        for (int order = 1; k > 0; k--) {
            TRY(j_charge(r, 1));
            TRY(jval_compare(r, &pairs[k - 1].key, &d->pairs[i].key, &order));
            if (order <= 0)
                break;
            pairs[k] = pairs[k - 1];
        }
        pairs[k] = d->pairs[i];
    }
    *out = pairs;
    return ST_OK;
}

static enum status dump_dict(struct jrun *r, const struct jdict *d, const struct jdump *how,
                             unsigned level)
{
    struct jpair *pairs = d->pairs;
    if (!d->n)
        return j_emit_text(r, "{}");
    if (how->sort_keys)
        TRY(sorted_pairs(r, d, &pairs));
    TRY(j_emit(r, "{", 1));
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            TRY(j_emit(r, how->item_sep->p, how->item_sep->n));
        TRY(dump_newline(r, how, level + 1));
        TRY(dump_key(r, &pairs[i].key, how));
        TRY(j_emit(r, how->key_sep->p, how->key_sep->n));
        TRY(dump_value(r, &pairs[i].value, how, level + 1));
    }
    TRY(dump_newline(r, how, level));
    return j_emit(r, "}", 1);
}

static enum status dump_composed(struct jrun *r, const struct jval *v, const struct jdump *how,
                                 unsigned level)
{
    TRY(j_enter(r));
    TRY(v->type == J_DICT ? dump_dict(r, v->u.dict, how, level)
                          : dump_list(r, v->u.list, how, level));
    j_leave(r);
    return ST_OK;
}

static enum status dump_value(struct jrun *r, const struct jval *v, const struct jdump *how,
                              unsigned level)
{
    TRY(j_charge(r, 1));
    switch (v->type) {
    case J_NONE:
        return j_emit_text(r, "null");
    case J_BOOL:
        return j_emit_text(r, v->u.b ? "true" : "false");
    case J_INT:
    case J_BIG:
        return j_emit_repr(r, v);
    case J_FLOAT:
        return dump_float(r, v->u.f);
    case J_STR:
        return dump_string(r, v->u.s, how->ascii);
    case J_LIST:
    case J_TUPLE:
    case J_DICT:
        return dump_composed(r, v, how, level);
    default:
        FAIL(ST_UNSUPPORTED, "tojson: a value of type %s is no JSON", jtype_name(v));
    }
}

enum status j_json_dump(struct jrun *r, const struct jval *v, const struct jdump *how)
{
    return dump_value(r, v, how, 0);
}
