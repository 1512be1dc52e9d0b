/* The grammar of RFC 8259, in one pass and without recursion. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/json_scan.h"
#include "common/utf8.h"

struct checker {
    struct json_cursor *c;
    const char *s;
    size_t n, at;
    unsigned depth, max_depth;
    bool is_object[JSON_MAX_DEPTH];
    size_t first_key[JSON_MAX_DEPTH]; /* of each open object, in keys */
    struct json_span *keys;           /* of all open objects, as written */
    size_t n_keys, cap_keys;
};

static enum status fail_at(struct checker *k, size_t at, enum status code, const char *what)
{
    k->c->last = at;
    return json_fail(k->c, code, "%s (byte %zu)", what, at);
}

static enum status fail_here(struct checker *k, const char *expected)
{
    char text[80];
    if (k->at >= k->n)
        snprintf(text, sizeof text, "the text ends where %s was expected", expected);
    else
        snprintf(text, sizeof text, "expected %s", expected);
    return fail_at(k, k->at < k->n ? k->at : k->n, ST_FORMAT, text);
}

static char peek(const struct checker *k)
{
    return k->at < k->n ? k->s[k->at] : '\0';
}

static bool take(struct checker *k, char c)
{
    if (k->at >= k->n || k->s[k->at] != c)
        return false;
    k->at++;
    return true;
}

static void skip_space(struct checker *k)
{
    k->at = json_skip_space(k->s, k->at, k->n);
}

/* ---- strings ---- */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* at: behind "\u" */
static enum status check_hex4(struct checker *k, uint32_t *unit)
{
    for (size_t i = 0; i < 4; i++)
        if (k->at + i >= k->n || !is_hex(k->s[k->at + i]))
            return fail_at(k, k->at, ST_FORMAT, "\\u needs four hexadecimal digits");
    *unit = json_hex4(k->s + k->at);
    k->at += 4;
    return ST_OK;
}

/* at: behind the backslash */
static enum status check_escape(struct checker *k)
{
    size_t begin = k->at - 1;
    uint32_t high, low = 0;
    if (k->at < k->n && k->s[k->at] != '\0' && strchr("\"\\/bfnrt", k->s[k->at])) {
        k->at++;
        return ST_OK;
    }
    if (!take(k, 'u'))
        return fail_at(k, begin, ST_FORMAT, "unknown escape in a string");
    TRY(check_hex4(k, &high));
    if (high < 0xd800 || high > 0xdfff)
        return ST_OK;
    if (high <= 0xdbff && take(k, '\\') && take(k, 'u'))
        TRY(check_hex4(k, &low));
    if (low < 0xdc00 || low > 0xdfff)
        return fail_at(k, begin, ST_FORMAT, "half of a surrogate pair in a string");
    return ST_OK;
}

static bool is_plain_ascii(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* at: the opening quote */
static enum status check_string(struct checker *k)
{
    size_t begin = k->at++;
    for (;;) {
        while (k->at < k->n && is_plain_ascii((unsigned char)k->s[k->at]))
            k->at++;
        if (k->at >= k->n)
            return fail_at(k, begin, ST_FORMAT, "a string without its closing quote");
        unsigned char c = (unsigned char)k->s[k->at];
        if (c >= 0x80) {
            size_t end = k->at;
            while (end < k->n && (unsigned char)k->s[end] >= 0x80)
                end++;
            k->at += utf8_valid_prefix(k->s + k->at, end - k->at);
            if (k->at < end)
                return fail_at(k, k->at, ST_FORMAT, "invalid UTF-8 in a string");
        } else if (c == '\\') {
            k->at++;
            TRY(check_escape(k));
        } else if (c == '"') {
            k->at++;
            return ST_OK;
        } else {
            return fail_at(k, k->at, ST_FORMAT, "a control character in a string is not escaped");
        }
    }
}

/* ---- numbers and literals ---- */

static bool digits(struct checker *k)
{
    size_t begin = k->at;
    while (k->at < k->n && k->s[k->at] >= '0' && k->s[k->at] <= '9')
        k->at++;
    return k->at > begin;
}

static enum status check_number(struct checker *k)
{
    (void)take(k, '-');
    if (take(k, '0')) {
        if (peek(k) >= '0' && peek(k) <= '9')
            return fail_at(k, k->at, ST_FORMAT, "a number begins with a superfluous 0");
    } else if (!digits(k)) {
        return fail_here(k, "a digit");
    }
    if (take(k, '.') && !digits(k))
        return fail_here(k, "a digit after the decimal point");
    if (take(k, 'e') || take(k, 'E')) {
        if (!take(k, '+'))
            (void)take(k, '-');
        if (!digits(k))
            return fail_here(k, "a digit of the exponent");
    }
    return ST_OK;
}

static enum status check_literal(struct checker *k, const char *word)
{
    size_t n = strlen(word);
    if (k->n - k->at < n || memcmp(k->s + k->at, word, n) != 0)
        return fail_here(k, "a value");
    k->at += n;
    return ST_OK;
}

static enum status check_scalar(struct checker *k)
{
    switch (peek(k)) {
    case '"':
        return check_string(k);
    case 't':
        return check_literal(k, "true");
    case 'f':
        return check_literal(k, "false");
    case 'n':
        return check_literal(k, "null");
    default:
        if (peek(k) == '-' || (peek(k) >= '0' && peek(k) <= '9'))
            return check_number(k);
        return fail_here(k, "a value");
    }
}

/* ---- objects and arrays ---- */

static enum status push(struct checker *k, bool is_object)
{
    if (k->depth >= k->max_depth) {
        char text[64];
        snprintf(text, sizeof text, "more than %u arrays and objects inside each other",
                 k->max_depth);
        return fail_at(k, k->at, ST_RANGE, text);
    }
    k->is_object[k->depth] = is_object;
    k->first_key[k->depth++] = k->n_keys;
    k->at++;
    return ST_OK;
}

static int by_text(const void *a, const void *b)
{
    return json_compare_keys(*(const struct json_span *)a, *(const struct json_span *)b);
}

/* Leaves an array or object; no two keys may have been equal. */
static enum status pop(struct checker *k)
{
    k->depth--;
    k->at++;
    size_t first = k->first_key[k->depth], n = k->n_keys - first;
    k->n_keys = first;
    if (n < 2)
        return ST_OK;
    struct json_span *keys = k->keys + first;
    qsort(keys, n, sizeof *keys, by_text);
    for (size_t i = 1; i < n; i++) {
        if (by_text(&keys[i - 1], &keys[i]) != 0)
            continue;
        struct json_span later = keys[i].p > keys[i - 1].p ? keys[i] : keys[i - 1];
        size_t shown = later.n < 100 ? later.n : utf8_valid_prefix(later.p, 100);
        k->c->last = (size_t)(later.p - 1 - k->s);
        return json_fail(k->c, ST_FORMAT, "the key \"%.*s\" is there twice (byte %zu)", (int)shown,
                         later.p, k->c->last);
    }
    return ST_OK;
}

/* A key and its colon. */
static enum status check_key(struct checker *k)
{
    skip_space(k);
    if (peek(k) != '"')
        return fail_here(k, "a key in double quotes");
    size_t begin = k->at;
    TRY(check_string(k));
    if (k->n_keys == JSON_MAX_KEYS)
        return fail_at(k, begin, ST_RANGE, "too many keys");
    if (k->n_keys == k->cap_keys) {
        size_t cap = k->cap_keys ? 2 * k->cap_keys : 32;
        struct json_span *keys = realloc(k->keys, cap * sizeof *keys);
        if (!keys)
            return fail_at(k, begin, ST_NOMEM, "no memory for the keys");
        k->keys = keys;
        k->cap_keys = cap;
    }
    k->keys[k->n_keys++] = (struct json_span){k->s + begin + 1, k->at - begin - 2};
    skip_space(k);
    return take(k, ':') ? ST_OK : fail_here(k, "':'");
}

/* Behind a value: ends what ends here; *more: another value follows. */
static enum status check_after_value(struct checker *k, bool *more)
{
    *more = false;
    while (k->depth > 0 && !*more) {
        bool is_object = k->is_object[k->depth - 1];
        skip_space(k);
        if (take(k, ',')) {
            *more = true;
            if (is_object)
                TRY(check_key(k));
        } else if (peek(k) == (is_object ? '}' : ']')) {
            TRY(pop(k));
        } else {
            return fail_here(k, is_object ? "',' or '}'" : "',' or ']'");
        }
    }
    return ST_OK;
}

static enum status check_document(struct checker *k)
{
    bool more = true;
    if (k->n >= 3 && memcmp(k->s, "\xef\xbb\xbf", 3) == 0)
        return fail_at(k, 0, ST_FORMAT, "a byte order mark before the value");
    while (more) {
        skip_space(k);
        bool is_object = peek(k) == '{';
        if (is_object || peek(k) == '[') {
            TRY(push(k, is_object));
            skip_space(k);
            if (peek(k) != (is_object ? '}' : ']')) {
                if (is_object)
                    TRY(check_key(k));
                continue;
            }
            TRY(pop(k));
        } else {
            TRY(check_scalar(k));
        }
        TRY(check_after_value(k, &more));
    }
    skip_space(k);
    return k->at == k->n ? ST_OK : fail_at(k, k->at, ST_FORMAT, "text after the end of the value");
}

enum status json_open(struct json_cursor *c, const void *text, size_t len,
                      const struct json_limits *limits)
{
    struct checker k = {.c = c, .s = text, .n = len, .max_depth = JSON_MAX_DEPTH};
    *c = (struct json_cursor){.text = text, .len = len, .pending = true};
    if (limits && len > limits->max_bytes)
        FAIL(ST_RANGE, "%zu bytes of JSON where at most %zu are allowed", len, limits->max_bytes);
    if (limits && limits->max_depth < JSON_MAX_DEPTH)
        k.max_depth = limits->max_depth;
    enum status st = check_document(&k);
    free(k.keys);
    if (st == ST_OK)
        c->at = json_skip_space(c->text, 0, len);
    return st;
}
