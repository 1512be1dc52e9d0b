/* Reads a whole document through the cursor and writes it again: each value by the reader of its type.
 * Used by the fuzz target, the probe and the tests. */
#ifndef TESTS_JSON_JSON_WALK_H
#define TESTS_JSON_JSON_WALK_H

#include <math.h>

#include "common/json/json_read.h"
#include "common/json/json_write.h"

MUST_CHECK static inline enum status json_walk(struct json_cursor *c, struct json_writer *w);

MUST_CHECK static inline enum status json_walk_number(struct json_cursor *c, struct json_writer *w)
{
    struct json_cursor again = *c;
    uint64_t u;
    int64_t i;
    double d;
    if (json_read_u64(c, 0, UINT64_MAX, &u) == ST_OK) {
        json_write_u64(w, u);
        return ST_OK;
    }
    *c = again;
    if (json_read_i64(c, INT64_MIN, -1, &i) == ST_OK) {
        json_write_i64(w, i);
        return ST_OK;
    }
    *c = again;
    TRY(json_read_double(c, -INFINITY, INFINITY, &d));
    if (d == floor(d) && d >= 0.0 && d < 0x1p64) /* its text would come back as an integer */
        json_write_u64(w, (uint64_t)d);
    else if (d == floor(d) && d < 0.0 && d >= -0x1p63)
        json_write_i64(w, (int64_t)d);
    else
        json_write_f64(w, d);
    return ST_OK;
}

MUST_CHECK static inline enum status json_walk_string(struct json_cursor *c, struct json_writer *w)
{
    struct text_buf s = {0};
    enum status st = json_read_string(c, &s);
    if (st == ST_OK)
        json_write_bytes(w, s.data, s.len);
    text_buf_free(&s);
    return st;
}

MUST_CHECK static inline enum status json_walk_object(struct json_cursor *c, struct json_writer *w)
{
    struct json_span key;
    TRY(json_enter_object(c));
    json_write_object(w);
    while (json_next_key(c, &key)) {
        struct text_buf name = {0};
        enum status st = json_span_text(key, &name);
        if (st == ST_OK)
            json_write_key_bytes(w, name.data, name.len);
        text_buf_free(&name);
        TRY(st);
        TRY(json_walk(c, w));
    }
    json_write_end_object(w);
    return ST_OK;
}

MUST_CHECK static inline enum status json_walk(struct json_cursor *c, struct json_writer *w)
{
    bool b;
    switch (json_peek(c)) {
    case JSON_OBJECT:
        return json_walk_object(c, w);
    case JSON_ARRAY:
        TRY(json_enter_array(c));
        json_write_array(w);
        while (json_next_item(c))
            TRY(json_walk(c, w));
        json_write_end_array(w);
        return ST_OK;
    case JSON_STRING:
        return json_walk_string(c, w);
    case JSON_NUMBER:
        return json_walk_number(c, w);
    case JSON_BOOL:
        TRY(json_read_bool(c, &b));
        json_write_bool(w, b);
        return ST_OK;
    case JSON_NULL:
        if (!json_take_null(c))
            FAIL(ST_BUG, "a null that is not taken");
        json_write_null(w);
        return ST_OK;
    }
    FAIL(ST_BUG, "unknown type");
}

#endif
