/* JSON as it arrives: a machine that is fed byte by byte and knows at the first wrong byte that it
 * is wrong, and small tools to look into a value that the machine has accepted.  Pure; used by the
 * output parser. */
#ifndef COMMON_TEXT_OUTPUT_JSON_H
#define COMMON_TEXT_OUTPUT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "common/text/text_buf.h"

enum { OUTPUT_JSON_DEPTH = 128 /* nested lists and objects */ };

enum output_scan {
    SCAN_MORE,
    SCAN_OK,
    SCAN_BAD,
    SCAN_NEWS, /* of output_scanner_run alone */
};

struct output_json {
    uint8_t state;
    uint8_t count;       /* hexadecimal digits, or letters of a literal, still to come */
    const char *literal; /* the rest of true, false or null */
    bool is_key;         /* the string being read is a key */
    unsigned depth;
    uint64_t objects[OUTPUT_JSON_DEPTH / 64]; /* bit: this level is an object */
};

void output_json_init(struct output_json *j);

/* Takes one byte of a list or object with nothing before it.  SCAN_OK: it is the last byte of the
 * value. */
enum output_scan output_json_feed(struct output_json *j, unsigned char c);

bool output_json_in_object(const struct output_json *j); /* the innermost level; depth > 0 */
bool output_json_in_string(const struct output_json *j); /* also in a key */
bool output_json_wants_value(
    const struct output_json *j); /* the next byte that is no blank begins one, or ends a list */
bool output_json_wants_key(const struct output_json *j); /* the same of a key, or ends an object */

/* A piece of an accepted value. */
struct output_span {
    const char *p;
    size_t n;
};

/* The member of an accepted object; p NULL: there is none.  The last one of equal names counts. */
struct output_span output_json_member(struct output_span object, const char *name);

/* Item i of an accepted list; p NULL: there are fewer. */
struct output_span output_json_item(struct output_span list, size_t i);

/* Has the object only members whose names are in the list (ended by NULL)? */
bool output_json_only(struct output_span object, const char *const *names);

/* Appends what an accepted string means.  Half surrogates become U+FFFD. */
MUST_CHECK enum status output_json_text(struct output_span string, struct text_buf *out);

#endif
