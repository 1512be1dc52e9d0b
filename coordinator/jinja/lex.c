#include "coordinator/jinja/lex.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/jinja/utf8.h"

enum { MAX_NESTING = 128 /* open brackets in one tag */, MAX_INT_DIGITS = 4300 /* Python's */ };

struct lexer {
    struct jmem *mem;
    const char *at, *end;
    uint32_t line;
    bool line_starting; /* the last thing taken ended with a newline */
    char open[MAX_NESTING];
    size_t n_open;
    struct jtokens *out;
    size_t cap;
};

#define LEX_FAIL(...) FAIL(ST_FORMAT, "chat template line " __VA_ARGS__)

static enum status push(struct lexer *x, enum jtoken_type type, const char *p, size_t n,
                        struct jval value)
{
    struct jtokens *t = x->out;
    if (t->n == x->cap) {
        size_t cap = x->cap ? x->cap * 2 : 256;
        struct jtoken *items = jmem_array(x->mem, cap, sizeof *items);
        if (!items)
            return jmem_full(x->mem);
        if (t->n)
            memcpy(items, t->items, t->n * sizeof *items);
        t->items = items;
        x->cap = cap;
    }
    t->items[t->n++] = (struct jtoken){(uint8_t)type, x->line, p, n, value};
    return ST_OK;
}

/* Moves to p, counting lines. */
static void advance(struct lexer *x, const char *p)
{
    for (const char *q = x->at; q < p; q++)
        x->line += *q == '\n';
    if (p > x->at)
        x->line_starting = p[-1] == '\n';
    x->at = p;
}

static bool looking_at(const struct lexer *x, const char *p, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(x->end - p) >= n && memcmp(p, text, n) == 0;
}

static const char *skip_space(const struct lexer *x, const char *p)
{
    size_t n;
    while (p < x->end && u8_is_space(u8_decode(p, &n)))
        p += n;
    return p;
}

static size_t without_space_at_end(const char *p, size_t n)
{
    while (n) {
        size_t taken, k = u8_length_before(p, n);
        if (!u8_is_space(u8_decode(p + n - k, &taken)))
            break;
        n -= k;
    }
    return n;
}

/* Where the end of a block tag that begins at p ends: "%}" with its sign and what it strips; NULL:
 * none. */
static const char *block_end(const struct lexer *x, const char *p)
{
    if (looking_at(x, p, "-%}"))
        return skip_space(x, p + 3);
    if (looking_at(x, p, "+%}"))
        return p + 3;
    if (looking_at(x, p, "%}"))
        return p + 2 + looking_at(x, p + 2, "\n");
    return NULL;
}

/* Emits the text before a tag whose sign is at sign, stripped as the sign and lstrip_blocks say. */
static enum status data_before(struct lexer *x, const char *tag, bool is_variable)
{
    const char *text = x->at;
    size_t n = (size_t)(tag - text);
    char sign = tag + 2 < x->end ? tag[2] : 0;
    if (sign == '-') {
        n = without_space_at_end(text, n);
    } else if (sign != '+' && !is_variable) {
        size_t line = n;
        while (line && text[line - 1] != '\n')
            line--;
        if ((line > 0 || x->line_starting) && without_space_at_end(text + line, n - line) == 0)
            n = line;
    }
    if (n) {
        struct jval v;
        TRY(jstr_view(x->mem, text, n, &v));
        TRY(push(x, T_DATA, text, n, v));
    }
    advance(x, tag);
    return ST_OK;
}

/* If a raw block begins at tag: its whole content; *taken says so. */
static enum status raw_block(struct lexer *x, const char *tag, bool *taken)
{
    const char *p = tag + 2;
    *taken = false;
    if (p < x->end && (*p == '-' || *p == '+'))
        p++;
    p = skip_space(x, p);
    if (!looking_at(x, p, "raw"))
        return ST_OK;
    p = skip_space(x, p + 3);
    if (looking_at(x, p, "-%}"))
        p = skip_space(x, p + 3);
    else if (looking_at(x, p, "%}"))
        p += 2;
    else
        return ST_OK;
    *taken = true;
    TRY(data_before(x, tag, false));
    advance(x, p);
    for (; p < x->end; p++) {
        if (!looking_at(x, p, "{%"))
            continue;
        const char *q = p + 2;
        if (q < x->end && (*q == '-' || *q == '+'))
            q++;
        q = skip_space(x, q);
        if (!looking_at(x, q, "endraw"))
            continue;
        const char *after = block_end(x, skip_space(x, q + 6));
        if (!after)
            continue;
        TRY(data_before(x, p, false));
        advance(x, after);
        return ST_OK;
    }
    LEX_FAIL("%u: this raw block has no endraw", x->line);
}

static enum status comment(struct lexer *x, const char *tag)
{
    TRY(data_before(x, tag, false));
    const char *begin = tag + 2;
    begin += begin < x->end && (*begin == '-' || *begin == '+');
    for (const char *p = begin; p < x->end; p++) {
        if (!looking_at(x, p, "#}"))
            continue;
        bool sign = p > begin;
        const char *after = p + 2;
        if (sign && p[-1] == '-')
            after = skip_space(x, after);
        else if (!(sign && p[-1] == '+'))
            after += looking_at(x, after, "\n");
        advance(x, after);
        return ST_OK;
    }
    LEX_FAIL("%u: this comment has no end '#}'", x->line);
}

/* --- inside of tags --- */

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_digit_of(char c, int base)
{
    int d = is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99;
    return d < base;
}

/* End of a run of digits with single underscores between them. */
static const char *digits(const struct lexer *x, const char *p, int base)
{
    while (p < x->end &&
           (is_digit_of(*p, base) || (*p == '_' && p + 1 < x->end && is_digit_of(p[1], base))))
        p++;
    return p;
}

static enum status number_value(struct lexer *x, const char *p, const char *end, int base,
                                bool is_float, struct jval *out)
{
    size_t n = 0, len = (size_t)(end - p);
    if (len > MAX_INT_DIGITS)
        LEX_FAIL("%u: a number of %zu digits", x->line, len);
    char *text = jmem_alloc(x->mem, len + 1);
    if (!text)
        return jmem_full(x->mem);
    for (; p < end; p++)
        if (*p != '_')
            text[n++] = *p;
    text[n] = 0;
    if (is_float) {
        *out = jv_float(strtod(text, NULL));
        return ST_OK;
    }
    int64_t v = 0;
    for (size_t i = base == 10 ? 0 : 2; i < n; i++) {
        int d = is_digit(text[i]) ? text[i] - '0' : (text[i] | 32) - 'a' + 10;
        if (v > (INT64_MAX - d) / base) {
            if (base != 10)
                LEX_FAIL("%u: the number %.30s is too large", x->line, text);
            TRY(jstr_view(x->mem, text, n, out));
            out->type = J_BIG;
            return ST_OK;
        }
        v = v * base + d;
    }
    *out = jv_int(v);
    return ST_OK;
}

static enum status number(struct lexer *x)
{
    const char *p = x->at, *q;
    struct jval v;
    int base = 10;
    bool is_float = false;
    if (*p == '0' && p + 1 < x->end) {
        char kind = (char)(p[1] | 32);
        base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
        q = p + 2 + (base != 10 && p + 2 < x->end && p[2] == '_');
        if (base != 10 && !(q < x->end && is_digit_of(*q, base)))
            base = 10;
    }
    const char *end = base == 10 ? digits(x, p, 10) : digits(x, p + 2, base);
    if (base == 10) {
        q = end;
        bool after_dot = x->out->n && *x->out->items[x->out->n - 1].p == '.'; /* a.0.1 */
        if (q + 1 < x->end && *q == '.' && is_digit(q[1]) && !after_dot) {
            end = q = digits(x, q + 1, 10);
            is_float = true;
        }
        if (q < x->end && (*q | 32) == 'e' && !after_dot) {
            q++;
            q += q < x->end && (*q == '+' || *q == '-');
            if (q < x->end && is_digit(*q)) {
                end = digits(x, q, 10);
                is_float = true;
            }
        }
        if (!is_float && *p == '0') /* "0123" is 0 and then 123 */
            for (end = p + 1;
                 end < x->end && (*end == '0' || (*end == '_' && looking_at(x, end, "_0")));)
                end++;
    }
    TRY(number_value(x, p, end, base, is_float, &v));
    TRY(push(x, T_NUMBER, p, (size_t)(end - p), v));
    advance(x, end);
    return ST_OK;
}

static enum status hex_escape(struct lexer *x, const char **p, const char *end, int n_digits,
                              uint32_t *c)
{
    *c = 0;
    for (int i = 0; i < n_digits; i++, (*p)++) {
        if (*p >= end || !is_digit_of(**p, 16))
            LEX_FAIL("%u: an escape in a string needs %d hexadecimal digits", x->line, n_digits);
        *c = *c << 4 | (uint32_t)(is_digit(**p) ? **p - '0' : (**p | 32) - 'a' + 10);
    }
    if (*c > 0x10ffff || (*c >= 0xd800 && *c < 0xe000))
        LEX_FAIL("%u: the escape of U+%04X in a string is no character", x->line, *c);
    return ST_OK;
}

/* One escape after its backslash; *kept says that it is none, and stays as it is written. */
static enum status escape(struct lexer *x, const char **p, const char *end, uint32_t *c, bool *kept)
{
    static const char names[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    char e = *(*p)++;
    const char *simple = e ? strchr(names, e) : NULL;
    *kept = false;
    if (simple) {
        *c = (unsigned char)values[simple - names];
        return ST_OK;
    }
    if (e >= '0' && e <= '7') {
        *c = (uint32_t)(e - '0');
        for (int i = 0; i < 2 && *p < end && **p >= '0' && **p <= '7'; i++)
            *c = *c * 8 + (uint32_t)(*(*p)++ - '0');
        return ST_OK;
    }
    if (e == 'x' || e == 'u' || e == 'U')
        return hex_escape(x, p, end, e == 'x' ? 2 : e == 'u' ? 4 : 8, c);
    if (e == 'N')
        LEX_FAIL("%u: \\N{...} in a string is not supported", x->line);
    (*p)--;
    *kept = true;
    return ST_OK;
}

static enum status unescape(struct lexer *x, const char *p, const char *end, struct jval *out)
{
    if (!memchr(p, '\\', (size_t)(end - p)))
        return jstr_view(x->mem, p, (size_t)(end - p), out);
    char *text =
        jmem_alloc(x->mem, (size_t)(end - p) * 2); /* "\377" is four bytes and becomes two */
    size_t n = 0;
    if (!text)
        return jmem_full(x->mem);
    while (p < end) {
        if (*p != '\\') {
            text[n++] = *p++;
            continue;
        }
        uint32_t c = 0;
        bool kept;
        p++;
        if (*p == '\n') {
            p++;
            continue;
        }
        TRY(escape(x, &p, end, &c, &kept));
        if (kept)
            text[n++] = '\\';
        else
            n += u8_encode(c, text + n);
    }
    return jstr_view(x->mem, text, n, out);
}

static enum status string(struct lexer *x)
{
    const char *p = x->at + 1;
    struct jval v;
    while (p < x->end && *p != *x->at)
        p += 1 + (*p == '\\' && p + 1 < x->end);
    if (p >= x->end)
        LEX_FAIL("%u: this string has no end", x->line);
    TRY(unescape(x, x->at + 1, p, &v));
    TRY(push(x, T_STRING, x->at, (size_t)(p + 1 - x->at), v));
    advance(x, p + 1);
    return ST_OK;
}

static enum status balance(struct lexer *x, char c)
{
    if (c == '(' || c == '[' || c == '{') {
        if (x->n_open == MAX_NESTING)
            LEX_FAIL("%u: more than %d open brackets", x->line, MAX_NESTING);
        x->open[x->n_open++] = (char)(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
        if (!x->n_open)
            LEX_FAIL("%u: unexpected '%c'", x->line, c);
        char expected = x->open[--x->n_open];
        if (expected != c)
            LEX_FAIL("%u: unexpected '%c', expected '%c'", x->line, c, expected);
    }
    return ST_OK;
}

static enum status operator(struct lexer *x) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="}; size_t n = 0, taken;
    for (size_t i = 0; i < ARRAY_LEN(two) && !n; i++) if (looking_at(x, x->at, two[i])) n = 2;
    if (!n && strchr("+-/*%~[](){}><=.:|,;", *x->at) && *x->at) n = 1;
    if (!n) LEX_FAIL("%u: unexpected character U+%04X", x->line, u8_decode(x->at, &taken));
    TRY(balance(x, *x->at));
    TRY(push(x, T_OP, x->at, n, jv_none()));
    advance(x, x->at + n);
    return ST_OK;
}

/* The end of the tag at x->at; NULL: it does not end here. */
static const char *tag_end(const struct lexer *x, bool is_variable)
{
    if (x->n_open)
        return NULL;
    if (!is_variable)
        return block_end(x, x->at);
    if (looking_at(x, x->at, "-}}"))
        return skip_space(x, x->at + 3);
    return looking_at(x, x->at, "}}") ? x->at + 2 : NULL;
}

static enum status tag(struct lexer *x, const char *begin, bool is_variable)
{
    TRY(data_before(x, begin, is_variable));
    uint32_t line = x->line;
    TRY(push(x, is_variable ? T_VAR_BEGIN : T_BLOCK_BEGIN, begin, 2, jv_none()));
    const char *p = begin + 2;
    advance(x, p + (p < x->end && (*p == '-' || *p == '+')));
    x->n_open = 0;
    for (;;) {
        advance(x, skip_space(x, x->at));
        if (x->at >= x->end)
            LEX_FAIL("%u: this tag has no end", line);
        const char *after = tag_end(x, is_variable);
        if (after) {
            TRY(push(x, is_variable ? T_VAR_END : T_BLOCK_END, x->at, 2, jv_none()));
            advance(x, after);
            return ST_OK;
        }
        if (is_digit(*x->at)) {
            TRY(number(x));
        } else if (is_name_byte(*x->at)) {
            const char *q = x->at;
            while (q < x->end && is_name_byte(*q))
                q++;
            TRY(push(x, T_NAME, x->at, (size_t)(q - x->at), jv_none()));
            advance(x, q);
        } else if (*x->at == '"' || *x->at == '\'') {
            TRY(string(x));
        } else {
            TRY(operator(x));
        }
    }
}

/* A copy of the source with "\n" for every newline and without the last one. */
static enum status normalise(struct lexer *x, const char *source, size_t len)
{
    char *text = jmem_alloc(x->mem, len);
    size_t n = 0;
    if (!text)
        return jmem_full(x->mem);
    for (size_t i = 0; i < len; i++) {
        if (source[i] == '\r') {
            text[n++] = '\n';
            i += i + 1 < len && source[i + 1] == '\n';
        } else {
            text[n++] = source[i];
        }
    }
    if (n && text[n - 1] == '\n')
        n--;
    x->at = text;
    x->end = text + n;
    return ST_OK;
}

enum status jinja_lex(struct jmem *m, const char *source, size_t len, struct jtokens *out)
{
    struct lexer x = {.mem = m, .line = 1, .line_starting = true, .out = out};
    *out = (struct jtokens){0};
    TRY(normalise(&x, source, len));
    while (x.at < x.end) {
        const char *p = x.at;
        while (p + 1 < x.end && !(p[0] == '{' && (p[1] == '%' || p[1] == '{' || p[1] == '#')))
            p++;
        if (p + 1 >= x.end) {
            struct jval v;
            TRY(jstr_view(m, x.at, (size_t)(x.end - x.at), &v));
            TRY(push(&x, T_DATA, x.at, (size_t)(x.end - x.at), v));
            advance(&x, x.end);
            break;
        }
        bool raw = false;
        if (p[1] == '%')
            TRY(raw_block(&x, p, &raw));
        if (p[1] == '#')
            TRY(comment(&x, p));
        else if (!raw)
            TRY(tag(&x, p, p[1] == '{'));
    }
    return push(&x, T_EOF, x.end, 0, jv_none());
}
