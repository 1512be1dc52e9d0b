#define _GNU_SOURCE /* memmem */
#include "common/grammar/schema_style.h"

#include <stdio.h>
#include <string.h>

const struct schema_style schema_json = {{0}, {0}};

/* ---- texts ---- */

static enum status write_json(const char *text, size_t n, struct text_buf *out)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escape[] = "\"\\bfnrt";
    TRY(text_buf_append(out, "\"", 1));
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *special = c ? strchr(plain, c) : NULL;
        char e[8];
        if (special)
            snprintf(e, sizeof e, "\\%c", escape[special - plain]);
        else if (c < 0x20 || c == 0x7f)
            snprintf(e, sizeof e, "\\u%04x", c);
        else
            snprintf(e, sizeof e, "%c", c);
        TRY(text_buf_append(out, e, strlen(e)));
    }
    return text_buf_append(out, "\"", 1);
}

enum status style_write_string(const struct schema_style *s, const char *text, size_t n,
                               struct text_buf *out)
{
    if (style_is_json(s))
        return write_json(text, n, out);
    if (n && memmem(text, n, s->text.data, s->text.len))
        FAIL(ST_UNSUPPORTED, "a text with %.*s in it", (int)s->text.len, s->text.data);
    TRY(text_buf_append(out, s->quote.data, s->quote.len));
    if (n)
        TRY(text_buf_append(out, text, n));
    return text_buf_append(out, s->quote.data, s->quote.len);
}

static bool is_word(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
        if (!letter && (i == 0 || !((c >= '0' && c <= '9') || c == '-' || c == '.')) && c != '_' &&
            c != '$')
            return false;
    }
    return n > 0;
}

enum status style_write_name(const struct schema_style *s, const char *text, size_t n,
                             struct text_buf *out)
{
    if (!style_is_json(s) && is_word(text, n))
        return text_buf_append(out, text, n);
    return style_write_string(s, text, n, out);
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

int style_compare_names(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t n = n_a < n_b ? n_a : n_b;
    for (size_t i = 0; i < n; i++)
        if (lower(a[i]) != lower(b[i]))
            return lower(a[i]) - lower(b[i]);
    if (n_a != n_b)
        return n_a < n_b ? -1 : 1;
    return n ? memcmp(a, b, n) : 0;
}

/* ---- expressions ---- */

uint32_t style_quoted(const struct schema_style *s, struct expr_pool *p, uint32_t inner)
{
    if (style_is_json(s)) {
        uint32_t quote = expr_range(p, '"', '"');
        return expr_concat(p, quote, expr_concat(p, inner, quote));
    }
    uint32_t quote = expr_literal(p, s->quote.data, s->quote.len);
    uint32_t has = expr_concat(p, expr_literal(p, s->text.data, s->text.len), EXPR_ALL);
    inner = expr_and2(p, inner, expr_not(p, expr_concat(p, EXPR_ALL, has)));
    return expr_concat(p, quote, expr_concat(p, inner, quote));
}

uint32_t style_any_string(const struct schema_style *s, struct expr_pool *p)
{
    uint32_t one = style_is_json(s) ? charset_json_any(p) : charset_any(p, TEXT_PLAIN);
    return style_quoted(s, p, expr_repeat(p, one, 0, EXPR_NO_LIMIT));
}
