#include "common/json/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json_escape.h"
#include "common/utf8.h"

static void put(struct json_writer *w, const char *p, size_t n)
{
    if (w->status == ST_OK)
        w->status = text_buf_append(w->out, p, n);
}

/* Before a key or a value. */
static void separate(struct json_writer *w)
{
    if (w->comma)
        put(w, ",", 1);
    w->comma = true;
}

static void open_with(struct json_writer *w, const char *bracket)
{
    separate(w);
    put(w, bracket, 1);
    w->comma = false;
}

static void close_with(struct json_writer *w, const char *bracket)
{
    put(w, bracket, 1);
    w->comma = true;
}

void json_write_object(struct json_writer *w)
{
    open_with(w, "{");
}

void json_write_end_object(struct json_writer *w)
{
    close_with(w, "}");
}

void json_write_array(struct json_writer *w)
{
    open_with(w, "[");
}

void json_write_end_array(struct json_writer *w)
{
    close_with(w, "]");
}

/* Valid UTF-8, with escapes. */
static void put_escaped(struct json_writer *w, const char *s, size_t n)
{
    while (n) {
        char esc[JSON_ESCAPE_SIZE];
        size_t plain = json_plain_run(s, n);
        put(w, s, plain);
        s += plain, n -= plain;
        if (n)
            put(w, esc, json_escape(*s++, esc)), n--;
    }
}

static void put_string(struct json_writer *w, const char *s, size_t n)
{
    put(w, "\"", 1);
    while (n) {
        size_t valid = utf8_valid_prefix(s, n);
        put_escaped(w, s, valid);
        s += valid, n -= valid;
        if (n)
            put(w, "\xef\xbf\xbd", 3), s++, n--;
    }
    put(w, "\"", 1);
}

void json_write_key_bytes(struct json_writer *w, const char *key, size_t n)
{
    separate(w);
    put_string(w, key, n);
    put(w, ":", 1);
    w->comma = false;
}

void json_write_key(struct json_writer *w, const char *key)
{
    json_write_key_bytes(w, key, strlen(key));
}

void json_write_bytes(struct json_writer *w, const char *text, size_t n)
{
    separate(w);
    put_string(w, text, n);
}

void json_write_string(struct json_writer *w, const char *text)
{
    json_write_bytes(w, text, strlen(text));
}

void json_write_raw(struct json_writer *w, const char *json, size_t n)
{
    separate(w);
    put(w, json, n);
}

void json_write_i64(struct json_writer *w, int64_t v)
{
    char text[24];
    json_write_raw(w, text, (size_t)snprintf(text, sizeof text, "%" PRId64, v));
}

void json_write_u64(struct json_writer *w, uint64_t v)
{
    char text[24];
    json_write_raw(w, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, v));
}

static bool finite_or_bug(struct json_writer *w, double v)
{
    if (!isfinite(v) && w->status == ST_OK)
        w->status = status_fail(ST_BUG, __FILE__, __LINE__, "JSON has no word for %g", v);
    return isfinite(v);
}

void json_write_f32(struct json_writer *w, float v)
{
    char text[32];
    int n = 0;
    if (!finite_or_bug(w, (double)v))
        return;
    for (int digits = 6; digits <= 9; digits++) {
        n = snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v)
            break;
    }
    json_write_raw(w, text, (size_t)n);
}

void json_write_f64(struct json_writer *w, double v)
{
    char text[32];
    int n = 0;
    if (!finite_or_bug(w, v))
        return;
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    json_write_raw(w, text, (size_t)n);
}

void json_write_bool(struct json_writer *w, bool v)
{
    json_write_raw(w, v ? "true" : "false", v ? 4 : 5);
}

void json_write_null(struct json_writer *w)
{
    json_write_raw(w, "null", 4);
}

void json_member_string(struct json_writer *w, const char *key, const char *text)
{
    json_write_key(w, key);
    json_write_string(w, text);
}

void json_member_i64(struct json_writer *w, const char *key, int64_t v)
{
    json_write_key(w, key);
    json_write_i64(w, v);
}

void json_member_u64(struct json_writer *w, const char *key, uint64_t v)
{
    json_write_key(w, key);
    json_write_u64(w, v);
}

void json_member_bool(struct json_writer *w, const char *key, bool v)
{
    json_write_key(w, key);
    json_write_bool(w, v);
}

void json_member_null(struct json_writer *w, const char *key)
{
    json_write_key(w, key);
    json_write_null(w);
}
