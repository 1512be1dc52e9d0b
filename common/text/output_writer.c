#include "common/text/output_writer.h"

#include <string.h>

#include "common/json_escape.h"

void output_writer_begin(struct output_writer *w)
{
    w->out.len = 0;
    output_json_init(&w->json);
}

void output_writer_free(struct output_writer *w)
{
    text_buf_free(&w->out);
}

enum status output_writer_text(struct output_writer *w, const char *p, size_t n)
{
    char escape[JSON_ESCAPE_SIZE];
    while (n) {
        size_t plain = json_plain_run(p, n);
        TRY(text_buf_append(&w->out, p, plain));
        p += plain, n -= plain;
        if (n) {
            TRY(text_buf_append(&w->out, escape, json_escape(*p++, escape)));
            n--;
        }
    }
    return ST_OK;
}

enum status output_writer_byte(struct output_writer *w, char c, enum output_step *step)
{
    enum output_scan r = output_json_feed(&w->json, (unsigned char)c);
    *step = r == SCAN_BAD ? STEP_BROKEN : r == SCAN_OK ? STEP_ENDED : STEP_GOES_ON;
    return r == SCAN_BAD ? ST_OK : text_buf_append(&w->out, &c, 1);
}

static enum status put_string(struct output_writer *w, const char *p, size_t n,
                              enum output_step *step)
{
    TRY(output_writer_byte(w, '"', step));
    TRY(output_writer_text(w, p, n));
    return output_writer_byte(w, '"', step);
}

/* Is the word a JSON value, and not a list or object? */
static bool is_scalar(const struct output_writer *w, const char *p, size_t n)
{
    struct output_json j = w->json;
    for (size_t i = 0; i < n; i++)
        if (output_json_feed(&j, (unsigned char)p[i]) != SCAN_MORE)
            return false;
    return output_json_feed(&j, ',') == SCAN_MORE;
}

enum status output_writer_word(struct output_writer *w, const char *p, size_t n,
                               enum output_step *step)
{
    static const char *const python[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    bool is_key = output_json_wants_key(&w->json);
    for (size_t i = 0; i < ARRAY_LEN(python) && !is_key; i++) {
        if (n == strlen(python[i][0]) && memcmp(p, python[i][0], n) == 0) {
            p = python[i][1];
            n = strlen(p);
        }
    }
    if (is_key || !is_scalar(w, p, n))
        return put_string(w, p, n, step);
    for (size_t i = 0; i < n; i++)
        TRY(output_writer_byte(w, p[i], step));
    return ST_OK;
}
