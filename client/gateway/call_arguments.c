#include "client/gateway/call_arguments.h"

#include "common/json/json_read.h"

static bool is_object(const char *text, size_t n)
{
    struct json_cursor c;
    return json_open(&c, text, n, NULL) == ST_OK && json_peek(&c) == JSON_OBJECT;
}

void call_arguments_write(struct json_writer *w, const char *text, size_t n)
{
    struct text_buf *out = w->out;
    if (!is_object(text, n)) {
        json_write_object(w);
        json_write_key(w, "INVALID_JSON");
        json_write_bytes(w, text, n);
        json_write_end_object(w);
        return;
    }
    size_t at = out->len;
    json_write_raw(w, text, n);
    for (; at < out->len; at++) /* outside of strings only: JSON has none inside */
        if (out->data[at] == '\n' || out->data[at] == '\r')
            out->data[at] = ' ';
}
