/* Writes JSON into a text_buf; commas come by themselves.
 *
 *     struct json_writer w = {.out = &buf};
 *     json_write_object(&w);
 *     json_write_key(&w, "index");
 *     json_write_i64(&w, 0);
 *     json_write_end_object(&w);
 *     TRY(w.status);
 *
 * The first failure stays in status and the rest writes nothing, so callers check once, at the end.
 * Everything comes out on one line, without spaces.  One thread per writer. */
#ifndef COMMON_JSON_JSON_WRITE_H
#define COMMON_JSON_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "common/text/text_buf.h"

struct json_writer {
    struct text_buf *out;
    enum status status; /* ST_NOMEM: the buffer could not grow; ST_BUG: a float is not finite */
    bool comma;         /* the next key or item needs one before it */
};

void json_write_object(struct json_writer *w);
void json_write_end_object(struct json_writer *w);
void json_write_array(struct json_writer *w);
void json_write_end_array(struct json_writer *w);

void json_write_key(struct json_writer *w, const char *key);
void json_write_key_bytes(struct json_writer *w, const char *key, size_t n);

/* Bytes that are not UTF-8 become U+FFFD, one for each; NUL becomes \u0000. */
void json_write_bytes(struct json_writer *w, const char *text, size_t n);
void json_write_string(struct json_writer *w, const char *text); /* ended by NUL */
void json_write_i64(struct json_writer *w, int64_t v);
void json_write_u64(struct json_writer *w, uint64_t v);
/* The fewest digits that give the same value when they are read back. */
void json_write_f32(struct json_writer *w, float v);
void json_write_f64(struct json_writer *w, double v);
void json_write_bool(struct json_writer *w, bool v);
void json_write_null(struct json_writer *w);
/* A value that is JSON already. */
void json_write_raw(struct json_writer *w, const char *json, size_t n);

/* ---- members: a key and its value ---- */

void json_member_string(struct json_writer *w, const char *key, const char *text);
void json_member_i64(struct json_writer *w, const char *key, int64_t v);
void json_member_u64(struct json_writer *w, const char *key, uint64_t v);
void json_member_bool(struct json_writer *w, const char *key, bool v);
void json_member_null(struct json_writer *w, const char *key);

#endif
