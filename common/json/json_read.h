/* JSON (RFC 8259) from outside: json_open checks the whole text once, then a cursor walks over it and
 * hands out values without a tree.  Nothing is lost: integers are exact, strings may hold NUL, numbers
 * and nested values can be had as they were written.
 *
 *     struct json_cursor c;
 *     struct json_span key;
 *     TRY(json_open(&c, body, n_body, &limits));
 *     TRY(json_enter_object(&c));
 *     while (json_next_key(&c, &key)) {
 *         if (json_take_null(&c))
 *             continue;
 *         if (json_span_is(key, "seed"))
 *             TRY(json_read_u64(&c, 0, UINT64_MAX, &seed));
 *         else if (json_span_is(key, "stop"))
 *             TRY(read_stop(&c, r));          // enters the array and reads to its end
 *         else
 *             FAIL... or leave it: a value that is not read is skipped
 *     }
 *
 * A cursor is a plain value: a copy is a bookmark, and both may go on.  An entered object or array is
 * read to its end before its parent goes on.  Spans and cursors borrow the text.
 *
 * Refused, with the path ("messages[2].content") and the byte: everything that the grammar does not
 * allow, text after the value, a byte order mark, invalid UTF-8, half surrogate pairs, equal keys in one object
 * (compared after escapes), and what exceeds the limits.  After a failure status_text() has the sentence
 * and json_path() the path alone.  Pure; one thread per cursor. */
#ifndef COMMON_JSON_JSON_READ_H
#define COMMON_JSON_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "common/text/text_buf.h"

enum {
    JSON_MAX_DEPTH = 512,    /* of any document */
    JSON_MAX_KEYS = 1 << 20, /* of the objects that are open at one place */
    JSON_PATH_SIZE = 200,    /* enough for a path with its NUL; longer ones end in "..." */
};

struct json_limits {
    size_t max_bytes;
    unsigned max_depth; /* nested arrays and objects, at most JSON_MAX_DEPTH */
};

/* A piece of the text: of a key or string between its quotes, of another value the whole. */
struct json_span {
    const char *p;
    size_t n;
};

enum json_type { JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_NUMBER, JSON_BOOL, JSON_NULL };

struct json_cursor { /* to look at: nothing; to copy: yes */
    const char *text;
    size_t len;
    size_t at;    /* next byte */
    size_t last;  /* where the last value, key or failure begins */
    bool pending; /* a value is next */
};

/* Checks the text and puts c before its value.  ST_RANGE: too long, too deep, too many keys; ST_FORMAT: all
 * else; ST_NOMEM.  limits NULL: any length, JSON_MAX_DEPTH. */
MUST_CHECK enum status json_open(struct json_cursor *c, const void *text, size_t len,
                                 const struct json_limits *limits);

/* The type of the next value. */
enum json_type json_peek(const struct json_cursor *c);

/* ---- objects and arrays ---- */

/* ST_FORMAT: the next value is of another type; so do all readers below. */
MUST_CHECK enum status json_enter_object(struct json_cursor *c);
/* To the next member; a value that was not read is skipped.  false: the object has ended. */
bool json_next_key(struct json_cursor *c, struct json_span *key);

MUST_CHECK enum status json_enter_array(struct json_cursor *c);
/* To the next item; a value that was not read is skipped.  false: the array has ended. */
bool json_next_item(struct json_cursor *c);

/* ---- values ---- */

/* Is the next value null?  Then it has been read. */
bool json_take_null(struct json_cursor *c);

MUST_CHECK enum status json_read_bool(struct json_cursor *c, bool *out);

/* Whole numbers, exactly; 1.0 and 1e3 are whole.  ST_RANGE: with a fraction, or outside [lo, hi]. */
MUST_CHECK enum status json_read_i64(struct json_cursor *c, int64_t lo, int64_t hi, int64_t *out);
MUST_CHECK enum status json_read_u64(struct json_cursor *c, uint64_t lo, uint64_t hi,
                                     uint64_t *out);

/* The nearest double.  ST_RANGE: outside [lo, hi], or beyond all doubles (1e999). */
MUST_CHECK enum status json_read_double(struct json_cursor *c, double lo, double hi, double *out);

/* Appends the string's bytes: UTF-8, possibly with NUL inside, none after. */
MUST_CHECK enum status json_read_string(struct json_cursor *c, struct text_buf *out);

/* Into a caller's array, ended by NUL.  ST_RANGE: longer than size - 1 bytes, or with NUL inside. */
MUST_CHECK enum status json_read_chars(struct json_cursor *c, char *out, size_t size);

/* A string that must be one of names.  ST_RANGE: none of them, with the list. */
MUST_CHECK enum status json_read_choice(struct json_cursor *c, const char *const *names, size_t n,
                                        size_t *index);

/* Any value as it is written. */
struct json_span json_read_raw(struct json_cursor *c);

/* ---- spans of keys and strings, still with their escapes ---- */

/* Is the span the name, after escapes? */
bool json_span_is(struct json_span s, const char *name);
/* Appends its bytes after escapes. */
MUST_CHECK enum status json_span_text(struct json_span s, struct text_buf *out);

/* ---- failures ---- */

/* Fails with "PATH: text" for the value that was read last or is next: a caller's own check. */
MUST_CHECK enum status json_fail(struct json_cursor *c, enum status code, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* "messages[2].content" of that value, "" at the top.  Returns out. */
const char *json_path(const struct json_cursor *c, char out[JSON_PATH_SIZE]);

#endif
