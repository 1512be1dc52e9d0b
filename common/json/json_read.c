#include "common/json/json_read.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/json/json_scan.h"

/* ---- places ---- */

enum json_type json_peek(const struct json_cursor *c)
{
    assert(c->pending);
    switch (c->text[c->at]) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
    case 'f':
        return JSON_BOOL;
    case 'n':
        return JSON_NULL;
    default:
        return JSON_NUMBER;
    }
}

static enum status expect(struct json_cursor *c, enum json_type type)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array",     [JSON_STRING] = "a string",
        [JSON_NUMBER] = "a number",  [JSON_BOOL] = "true or false", [JSON_NULL] = "null",
    };
    enum json_type found = json_peek(c);
    c->last = c->at;
    if (found == type)
        return ST_OK;
    return json_fail(c, ST_FORMAT, "expected %s, found %s (byte %zu)", names[type], names[found],
                     c->at);
}

/* The end of the value at c->at. */
static size_t value_end(const struct json_cursor *c)
{
    const char *s = c->text;
    size_t at = c->at, depth = 0;
    do {
        char ch = s[at++];
        if (ch == '"')
            at = json_string_end(s, at, c->len) + 1;
        else if (ch == '{' || ch == '[')
            depth++;
        else if (ch == '}' || ch == ']')
            depth--;
        else if (depth == 0)
            while (at < c->len && !strchr(" \t\r\n,]}", s[at]))
                at++;
    } while (depth > 0);
    return at;
}

/* Is there another member or item?  Then c is at it; else behind the closing bracket. */
static bool next(struct json_cursor *c, char close)
{
    if (c->pending)
        (void)json_read_raw(c);
    c->at = json_skip_space(c->text, c->at, c->len);
    if (c->text[c->at] == ',')
        c->at = json_skip_space(c->text, c->at + 1, c->len);
    c->pending = c->text[c->at] != close;
    c->last = c->at;
    c->at += !c->pending;
    return c->pending;
}

/* ---- objects and arrays ---- */

enum status json_enter_object(struct json_cursor *c)
{
    TRY(expect(c, JSON_OBJECT));
    c->at++;
    c->pending = false;
    return ST_OK;
}

bool json_next_key(struct json_cursor *c, struct json_span *key)
{
    if (!next(c, '}'))
        return false;
    size_t begin = c->at + 1, end = json_string_end(c->text, begin, c->len);
    *key = (struct json_span){c->text + begin, end - begin};
    c->at = json_skip_space(c->text, end + 1, c->len);
    c->at = json_skip_space(c->text, c->at + 1, c->len); /* behind the colon */
    c->last = c->at;
    return true;
}

enum status json_enter_array(struct json_cursor *c)
{
    TRY(expect(c, JSON_ARRAY));
    c->at++;
    c->pending = false;
    return ST_OK;
}

bool json_next_item(struct json_cursor *c)
{
    return next(c, ']');
}

/* ---- values ---- */

struct json_span json_read_raw(struct json_cursor *c)
{
    assert(c->pending);
    size_t end = value_end(c);
    struct json_span s = {c->text + c->at, end - c->at};
    c->last = c->at;
    c->at = end;
    c->pending = false;
    return s;
}

bool json_take_null(struct json_cursor *c)
{
    if (json_peek(c) != JSON_NULL)
        return false;
    (void)json_read_raw(c);
    return true;
}

enum status json_read_bool(struct json_cursor *c, bool *out)
{
    TRY(expect(c, JSON_BOOL));
    *out = *json_read_raw(c).p == 't';
    return ST_OK;
}

/* A whole number for which fits() is the last word. */
static enum status read_whole(struct json_cursor *c, bool *negative, uint64_t *size, bool *fits)
{
    TRY(expect(c, JSON_NUMBER));
    struct json_span s = json_read_raw(c);
    enum json_whole kind = json_whole_number(s, negative, size);
    if (kind == JSON_FRACTION)
        return json_fail(c, ST_RANGE, "%.*s is not a whole number", s.n < 40 ? (int)s.n : 40, s.p);
    *fits = kind == JSON_WHOLE;
    return ST_OK;
}

enum status json_read_i64(struct json_cursor *c, int64_t lo, int64_t hi, int64_t *out)
{
    bool negative, fits;
    uint64_t size;
    int64_t v = 0;
    TRY(read_whole(c, &negative, &size, &fits));
    if (fits && negative && size <= (uint64_t)INT64_MAX + 1)
        v = size ? -(int64_t)(size - 1) - 1 : 0;
    else if (fits && size <= INT64_MAX)
        v = (int64_t)size;
    else
        fits = false;
    if (!fits || v < lo || v > hi)
        return json_fail(c, ST_RANGE, "it must be between %lld and %lld", (long long)lo,
                         (long long)hi);
    *out = v;
    return ST_OK;
}

enum status json_read_u64(struct json_cursor *c, uint64_t lo, uint64_t hi, uint64_t *out)
{
    bool negative, fits;
    uint64_t size;
    TRY(read_whole(c, &negative, &size, &fits));
    if (!fits || (negative && size) || size < lo || size > hi)
        return json_fail(c, ST_RANGE, "it must be between %llu and %llu", (unsigned long long)lo,
                         (unsigned long long)hi);
    *out = size;
    return ST_OK;
}

enum status json_read_double(struct json_cursor *c, double lo, double hi, double *out)
{
    double v;
    TRY(expect(c, JSON_NUMBER));
    TRY(json_nearest_double(json_read_raw(c), &v));
    if (!isfinite(v))
        return json_fail(c, ST_RANGE, "the number is too large");
    if (v < lo || v > hi)
        return json_fail(c, ST_RANGE, "it must be between %.9g and %.9g", lo, hi);
    *out = v;
    return ST_OK;
}

/* The string that is next, without its quotes. */
static enum status read_string(struct json_cursor *c, struct json_span *s)
{
    TRY(expect(c, JSON_STRING));
    *s = json_read_raw(c);
    s->p++;
    s->n -= 2;
    return ST_OK;
}

enum status json_read_string(struct json_cursor *c, struct text_buf *out)
{
    struct json_span s;
    TRY(read_string(c, &s));
    return json_span_text(s, out);
}

enum status json_read_chars(struct json_cursor *c, char *out, size_t size)
{
    struct json_span s;
    size_t n = 0;
    TRY(read_string(c, &s));
    for (const char *p = s.p; p < s.p + s.n;) {
        char bytes[4];
        size_t n_bytes = json_next_bytes(&p, bytes);
        if (n + n_bytes >= size)
            return json_fail(c, ST_RANGE, "it is longer than %zu bytes", size - 1);
        if (bytes[0] == '\0')
            return json_fail(c, ST_RANGE, "it has the character \\u0000 inside");
        memcpy(out + n, bytes, n_bytes);
        n += n_bytes;
    }
    out[n] = '\0';
    return ST_OK;
}

enum status json_read_choice(struct json_cursor *c, const char *const *names, size_t n,
                             size_t *index)
{
    struct json_span s;
    char list[256];
    size_t len = 0;
    TRY(read_string(c, &s));
    for (size_t i = 0; i < n; i++) {
        if (json_span_is(s, names[i])) {
            *index = i;
            return ST_OK;
        }
        if (len < sizeof list)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", names[i]);
    }
    return json_fail(c, ST_RANGE, "it must be one of %s", list);
}

/* ---- spans ---- */

static size_t put_utf8(uint32_t v, char out[4])
{
    if (v < 0x80) {
        out[0] = (char)v;
        return 1;
    }
    size_t n = v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; --i > 0; v >>= 6)
        out[i] = (char)(0x80 | (v & 0x3f));
    out[0] = (char)(lead[n] | v);
    return n;
}

size_t json_next_bytes(const char **p, char out[4])
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    char ch = *(*p)++;
    if (ch != '\\') {
        out[0] = ch;
        return 1;
    }
    ch = *(*p)++;
    if (ch != 'u') {
        const char *known = strchr(from, ch);
        out[0] = known ? to[known - from] : ch;
        return 1;
    }
    uint32_t v = json_hex4(*p);
    *p += 4;
    if (v >= 0xd800 && v <= 0xdbff) {
        v = 0x10000 + ((v - 0xd800) << 10) + (json_hex4(*p + 2) - 0xdc00);
        *p += 6;
    }
    return put_utf8(v, out);
}

enum status json_span_text(struct json_span s, struct text_buf *out)
{
    const char *p = s.p, *end = s.p + s.n;
    TRY(text_buf_reserve(out, s.n)); /* escapes never grow */
    while (p < end) {
        const char *escape = memchr(p, '\\', (size_t)(end - p));
        size_t plain = (size_t)((escape ? escape : end) - p);
        if (plain)
            memcpy(out->data + out->len, p, plain);
        out->len += plain;
        p += plain;
        if (escape) {
            char bytes[4];
            size_t n = json_next_bytes(&p, bytes);
            memcpy(out->data + out->len, bytes, n);
            out->len += n;
        }
    }
    return ST_OK;
}

bool json_span_is(struct json_span s, const char *name)
{
    const char *p = s.p, *end = s.p + s.n;
    size_t left = strlen(name);
    while (p < end) {
        char bytes[4];
        size_t n = json_next_bytes(&p, bytes);
        if (n > left || memcmp(name, bytes, n) != 0)
            return false;
        name += n;
        left -= n;
    }
    return left == 0;
}

/* Bytes of a key after escapes, one at a time. */
struct key_bytes {
    const char *p, *end;
    char bytes[4];
    size_t n, i;
};

static int next_byte(struct key_bytes *k) /* -1: the key has ended */
{
    if (k->i == k->n) {
        if (k->p == k->end)
            return -1;
        k->n = json_next_bytes(&k->p, k->bytes);
        k->i = 0;
    }
    return (unsigned char)k->bytes[k->i++];
}

int json_compare_keys(struct json_span a, struct json_span b)
{
    size_t same = 0, n = a.n < b.n ? a.n : b.n;
    while (same < n && a.p[same] == b.p[same] && a.p[same] != '\\')
        same++;
    struct key_bytes x = {.p = a.p + same, .end = a.p + a.n};
    struct key_bytes y = {.p = b.p + same, .end = b.p + b.n};
    for (;;) {
        int v = next_byte(&x), w = next_byte(&y);
        if (v != w || v < 0)
            return v - w;
    }
}
