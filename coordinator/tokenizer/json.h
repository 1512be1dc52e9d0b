/* A reader of JSON text that goes forward only and makes no tree: for the vocabulary and the merges
 * of a tokenizer.json, which hold hundreds of thousands of strings.  (Small parts are given to
 * cJSON.) Strings come out with their length, so that U+0000 in a vocabulary is kept.  RFC 8259,
 * depth bounded. */
#ifndef COORDINATOR_TOKENIZER_JSON_H
#define COORDINATOR_TOKENIZER_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "common/text/text_buf.h"
#include "coordinator/tokenizer/tokenizer.h"

struct json_reader {
    const char *begin, *at, *end;
    struct text_buf scratch; /* of the last string that had escapes */
};

void json_init(struct json_reader *r, const char *data, size_t len);
void json_fini(struct json_reader *r);

/* What comes next: one of { [ " t f n - 0 (a number), or 0 at the end or before anything else. */
char json_peek(struct json_reader *r);

/* Objects: open, then json_key until it says *more = false (the brace is then taken).  The key is
 * valid until the next string is read.  Arrays: open, then json_item likewise. */
MUST_CHECK enum status json_open(struct json_reader *r, char bracket, bool *first);
MUST_CHECK enum status json_key(struct json_reader *r, bool *first, bool *more,
                                struct tok_text *key);
MUST_CHECK enum status json_item(struct json_reader *r, bool *first, bool *more);

/* Valid until the next string is read (it points into the text or into scratch). */
MUST_CHECK enum status tok_json_string(struct json_reader *r, struct tok_text *s);
MUST_CHECK enum status json_number(struct json_reader *r, double *v);
/* A whole number in [0, max]. */
MUST_CHECK enum status json_index(struct json_reader *r, long max, long *v);

/* Passes over one value and gives its text. */
MUST_CHECK enum status json_value(struct json_reader *r, struct tok_text *text);
/* The same for an object or array by its brackets and strings alone: for what is read in full
 * afterwards. */
MUST_CHECK enum status json_block(struct json_reader *r, struct tok_text *text);
/* ST_FORMAT unless only blanks are left. */
MUST_CHECK enum status json_end(struct json_reader *r);

#endif
