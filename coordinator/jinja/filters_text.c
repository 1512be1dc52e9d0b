/* Filters that give text. */
#include <string.h>

#include "coordinator/jinja/filter.h"
#include "coordinator/jinja/str.h"
#include "coordinator/jinja/utf8.h"

FILTER(f_string)
{
    TRY(j_bind(r, "string", args, NULL, 0, 0, NULL));
    return j_to_str(r, in, out);
}

static enum status change_case(struct jrun *r, const char *what, const struct jval *in,
                               const struct jargs *args, enum jcase how, struct jval *out)
{
    struct jval s;
    TRY(j_bind(r, what, args, NULL, 0, 0, NULL));
    TRY(j_to_str(r, in, &s));
    TRY(j_str_case(r, s.u.s, how, out));
    out->safe = s.safe;
    return ST_OK;
}

FILTER(f_upper)
{
    return change_case(r, "upper", in, args, JCASE_UPPER, out);
}

FILTER(f_lower)
{
    return change_case(r, "lower", in, args, JCASE_LOWER, out);
}

FILTER(f_capitalize)
{
    return change_case(r, "capitalize", in, args, JCASE_CAPITALIZE, out);
}

static bool parts_words(uint32_t c)
{
    return u8_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c));
}

/* Jinja's own title: words stand between blanks, '-', '(', '{', '[' and '<'. */
FILTER(f_title)
{
    struct jval s;
    size_t mark = j_mark(r), k = 1;
    TRY(j_bind(r, "title", args, NULL, 0, 0, NULL));
    TRY(j_to_str(r, in, &s));
    const char *p = s.u.s->p, *end = p + s.u.s->n;
    TRY(j_charge_chars(r, s.u.s->n));
    while (p < end) {
        const char *word = p;
        while (p < end && !parts_words(u8_decode(p, &k)))
            p += k;
        if (p > word) {
            size_t first = u8_length(*word);
            TRY(j_emit_case(r, word, first, JCASE_UPPER));
            TRY(j_emit_case(r, word + first, (size_t)(p - word) - first, JCASE_LOWER));
        } else {
            TRY(j_emit(r, p, k));
            p += k;
        }
    }
    return j_take(r, mark, out);
}

FILTER(f_trim)
{
    static const char *const names[] = {"chars"};
    struct jval chars, s;
    const struct jstr *set = NULL;
    TRY(j_bind(r, "trim", args, names, 1, 0, &chars));
    if (chars.type != J_MISSING && chars.type != J_NONE)
        TRY(j_want_str("trim", &chars, &set));
    TRY(j_to_str(r, in, &s));
    TRY(j_str_strip(r, s.u.s, set, true, true, out));
    out->safe = s.safe;
    return ST_OK;
}

FILTER(f_replace)
{
    static const char *const names[] = {"old", "new", "count"};
    struct jval v[3], s;
    int64_t count = -1;
    TRY(j_bind(r, "replace", args, names, 3, 2, v));
    if (v[2].type != J_MISSING && v[2].type != J_NONE)
        TRY(j_want_int("replace", &v[2], &count));
    TRY(j_to_str(r, in, &s));
    TRY(j_to_str(r, &v[0], &v[0]));
    TRY(j_to_str(r, &v[1], &v[1]));
    return j_str_replace(r, s.u.s, v[0].u.s, v[1].u.s, count, out);
}

static enum status indent_text(struct jrun *r, const struct jval *width, struct jval *out)
{
    static const struct jstr blank = {" ", 1, 1}, empty = {"", 0, 0};
    int64_t n = 4;
    if (width->type == J_STR) {
        *out = *width;
        return ST_OK;
    }
    if (width->type != J_MISSING)
        TRY(j_want_int("indent", width, &n));
    return j_str_justify(r, &empty, n, '<', &blank, out);
}

FILTER(f_indent)
{
    static const char *const names[] = {"width", "first", "blank"};
    struct jval v[3], s, by;
    struct jlist *lines;
    TRY(j_bind(r, "indent", args, names, 3, 0, v));
    bool first = j_flag(&v[1], false), blank = j_flag(&v[2], false);
    TRY(indent_text(r, &v[0], &by));
    const struct jstr *text = NULL;
    TRY(j_want_str("indent", in, &text));
    size_t mark = j_mark(r);
    TRY(j_emit(r, text->p, text->n));
    TRY(j_emit_text(r, "\n"));
    TRY(j_take(r, mark, &s));
    TRY(j_str_lines(r, s.u.s, false, &lines));
    for (size_t i = 0; i < lines->n; i++) {
        if (i)
            TRY(j_emit_text(r, "\n"));
        if (i ? blank || lines->items[i].u.s->n : first)
            TRY(j_emit(r, by.u.s->p, by.u.s->n));
        TRY(j_emit_str(r, &lines->items[i]));
    }
    return j_take(r, mark, out);
}

FILTER(f_join)
{
    static const char *const names[] = {"d", "attribute"};
    struct jval v[2], item, sep;
    struct jlist *items, *texts;
    TRY(j_bind(r, "join", args, names, 2, 0, v));
    TRY(v[0].type == J_MISSING ? jstr_literal(&r->mem, "", &sep) : j_to_str(r, &v[0], &sep));
    TRY(jval_items(r, in, &items));
    TRY(jlist_new(r, items->n, &texts));
    for (size_t i = 0; i < items->n; i++) {
        item = items->items[i];
        if (v[1].type != J_MISSING && v[1].type != J_NONE)
            TRY(j_attribute_path(r, &items->items[i], &v[1], &item));
        TRY(jlist_push(r, texts, &item));
    }
    size_t mark = j_mark(r);
    TRY(j_charge(r, texts->n));
    for (size_t i = 0; i < texts->n; i++) {
        if (i)
            TRY(j_emit_str(r, &sep));
        TRY(j_emit_str(r, &texts->items[i]));
    }
    return j_take(r, mark, out);
}

FILTER(f_safe)
{
    TRY(j_bind(r, "safe", args, NULL, 0, 0, NULL));
    TRY(j_to_str(r, in, out));
    out->safe = true;
    return ST_OK;
}

static enum status escape(struct jrun *r, const struct jval *in, bool always, struct jval *out)
{
    struct jval s;
    size_t mark = j_mark(r);
    TRY(j_to_str(r, in, &s));
    *out = s;
    if (always || !s.safe) {
        TRY(j_emit_escaped(r, s.u.s->p, s.u.s->n));
        TRY(j_take(r, mark, out));
    }
    out->safe = true;
    return ST_OK;
}

FILTER(f_escape)
{
    TRY(j_bind(r, "escape", args, NULL, 0, 0, NULL));
    return escape(r, in, false, out);
}

FILTER(f_forceescape)
{
    TRY(j_bind(r, "forceescape", args, NULL, 0, 0, NULL));
    return escape(r, in, true, out);
}

FILTER(f_center)
{
    static const char *const names[] = {"width"};
    static const struct jstr blank = {" ", 1, 1};
    struct jval v, s;
    int64_t width = 80;
    TRY(j_bind(r, "center", args, names, 1, 0, &v));
    if (v.type != J_MISSING)
        TRY(j_want_int("center", &v, &width));
    TRY(j_to_str(r, in, &s));
    return j_str_justify(r, s.u.s, width, '^', &blank, out);
}

FILTER(f_format)
{
    struct jval s, values;
    TRY(j_to_str(r, in, &s));
    if (args->n && args->n_kw)
        FAIL(ST_UNSUPPORTED, "format takes values or names, not both");
    if (args->n_kw) {
        struct jdict *d;
        TRY(jdict_new(r, &d));
        for (size_t i = 0; i < args->n_kw; i++) {
            struct jval key = jv_str(args->kw[i].name);
            TRY(jdict_set(r, d, &key, &args->kw[i].value));
        }
        values = jv_dict(d);
    } else {
        struct jlist *l;
        TRY(jlist_new(r, args->n, &l));
        for (size_t i = 0; i < args->n; i++)
            TRY(jlist_push(r, l, &args->pos[i]));
        values = jv_tuple(l);
    }
    return j_percent(r, s.u.s, &values, out);
}

/* The first n characters. */
static enum status emit_chars(struct jrun *r, const struct jstr *s, size_t n)
{
    return j_emit(r, s->p, u8_offset(s->p, s->n, n));
}

FILTER(f_truncate)
{
    static const char *const names[] = {"length", "killwords", "end", "leeway"};
    static const struct jstr dots = {"...", 3, 3};
    struct jval v[4];
    int64_t length = 255, leeway = 5;
    const struct jstr *end = &dots;
    TRY(j_bind(r, "truncate", args, names, 4, 0, v));
    if (v[0].type != J_MISSING)
        TRY(j_want_int("truncate", &v[0], &length));
    if (v[2].type != J_MISSING)
        TRY(j_want_str("truncate", &v[2], &end));
    if (v[3].type != J_MISSING && v[3].type != J_NONE)
        TRY(j_want_int("truncate", &v[3], &leeway));
    int64_t n_end = (int64_t)end->n_chars;
    if (length < n_end || leeway < 0 || leeway > INT32_MAX || length > INT32_MAX)
        FAIL(ST_UNSUPPORTED,
             "truncate: the length is too small, or the length or leeway too large");
    size_t n_in;
    TRY(jval_length(r, in, &n_in));
    *out = *in;
    if ((int64_t)n_in <= length + leeway)
        return ST_OK;
    const struct jstr *text = NULL;
    TRY(j_want_str("truncate", in, &text));
    size_t mark = j_mark(r);
    TRY(emit_chars(r, text, (size_t)(length - n_end)));
    if (!j_flag(&v[1], false))
        for (size_t at = j_mark(r); at > mark; at--)
            if (r->out.data[at - 1] == ' ') { /* back to the last blank */
                r->out.len = at - 1;
                break;
            }
    TRY(j_emit(r, end->p, end->n));
    return j_take(r, mark, out);
}

FILTER(f_wordcount)
{
    struct jval s;
    int64_t n = 0;
    bool in_word = false;
    TRY(j_bind(r, "wordcount", args, NULL, 0, 0, NULL));
    TRY(j_to_str(r, in, &s));
    TRY(j_charge_chars(r, s.u.s->n));
    for (size_t i = 0, k; i < s.u.s->n; i += k) {
        uint32_t c = u8_decode(s.u.s->p + i, &k);
        bool word = c == '_' || u8_is_alpha(c) || u8_is_decimal(c);
        n += word && !in_word;
        in_word = word;
    }
    *out = jv_int(n);
    return ST_OK;
}

/* query: as a part of a query string, where "/" is escaped too and a blank is "+". */
static enum status emit_url(struct jrun *r, const struct jval *v, bool query)
{
    struct jval s;
    TRY(j_to_str(r, v, &s));
    for (size_t i = 0; i < s.u.s->n; i++) {
        unsigned char c = (unsigned char)s.u.s->p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_.-~", c)) || (c == '/' && !query);
        if (c == ' ' && query) {
            TRY(j_emit(r, "+", 1));
            continue;
        }
        char hex[3] = {'%', "0123456789ABCDEF"[c >> 4], "0123456789ABCDEF"[c & 15]};
        TRY(plain ? j_emit(r, s.u.s->p + i, 1) : j_emit(r, hex, 3));
    }
    return j_charge_chars(r, s.u.s->n);
}

FILTER(f_urlencode)
{
    struct jlist *items;
    struct jval pairs = *in;
    size_t mark = j_mark(r);
    TRY(j_bind(r, "urlencode", args, NULL, 0, 0, NULL));
    if (in->type == J_STR || (in->type != J_DICT && in->type != J_LIST && in->type != J_TUPLE)) {
        TRY(emit_url(r, in, false));
        return j_take(r, mark, out);
    }
    struct jview view = {JVIEW_ITEMS, in->u.dict};
    if (in->type == J_DICT)
        pairs = (struct jval){.type = J_VIEW, .u.view = &view};
    TRY(jval_items(r, &pairs, &items));
    for (size_t i = 0; i < items->n; i++) {
        struct jlist *pair;
        TRY(jval_items(r, &items->items[i], &pair));
        if (pair->n != 2)
            FAIL(ST_UNSUPPORTED, "urlencode: item %zu is no pair", i);
        if (i)
            TRY(j_emit_text(r, "&"));
        TRY(emit_url(r, &pair->items[0], true));
        TRY(j_emit_text(r, "="));
        TRY(emit_url(r, &pair->items[1], true));
    }
    return j_take(r, mark, out);
}

const struct jfilter j_text_filters[] = {
    {"trim", f_trim},
    {"upper", f_upper},
    {"lower", f_lower},
    {"string", f_string},
    {"join", f_join},
    {"replace", f_replace},
    {"indent", f_indent},
    {"title", f_title},
    {"capitalize", f_capitalize},
    {"safe", f_safe},
    {"escape", f_escape},
    {"e", f_escape},
    {"format", f_format},
    {"center", f_center},
    {"forceescape", f_forceescape},
    {"truncate", f_truncate},
    {"wordcount", f_wordcount},
    {"urlencode", f_urlencode},
    {NULL, NULL},
};
