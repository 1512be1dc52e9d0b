#include "client/gateway/raw_json.h"

#include "common/json/json_read.h"

void raw_json_write(struct json_writer *w, const char *json, size_t n)
{
    struct text_buf *out = w->out;
    size_t at = out->len;
    json_write_raw(w, json, n);
    for (; at < out->len; at++) /* a string has no such byte */
        if (out->data[at] == '\n' || out->data[at] == '\r')
            out->data[at] = ' ';
}

static bool is_object(const char *text, size_t n)
{
    struct json_cursor c;
    return json_open(&c, text, n, NULL) == ST_OK && json_peek(&c) == JSON_OBJECT;
}

void raw_json_write_arguments(struct json_writer *w, const char *text, size_t n)
{
    if (is_object(text, n)) {
        raw_json_write(w, text, n);
        return;
    }
    json_write_object(w);
    json_write_key(w, "INVALID_JSON");
    json_write_bytes(w, text, n);
    json_write_end_object(w);
}
