/* A reader of JSON text (RFC 8259, bounded depth) that only goes forward and builds no tree: for the
 * vocabulary and the merges of a tokenizer.json, which have hundreds of thousands of strings.  cJSON
 * reads the small parts.  Strings have a length, so U+0000 in a vocabulary is kept. */
#ifndef COORDINATOR_TOKENIZER_TOK_JSON_H
#define COORDINATOR_TOKENIZER_TOK_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "common/text/text_buf.h"
#include "coordinator/tokenizer/tok_text.h"

struct tok_json {
    const char *begin, *at, *end;
    struct text_buf scratch; /* of the last string that had escapes */
};

void tok_json_init(struct tok_json *r, const char *data, size_t len);
void tok_json_fini(struct tok_json *r);

/* The kind of the next value: one of { [ " t f n - 0 (a number), or 0 at the end or before another
 * character. */
char tok_json_peek(struct tok_json *r);

/* Objects: open, then tok_json_key until it sets *more to false (the brace is then taken).  The key
 * is valid until the next string is read.  Arrays: open, then tok_json_item likewise. */
MUST_CHECK enum status tok_json_open(struct tok_json *r, char bracket, bool *first);
MUST_CHECK enum status tok_json_key(struct tok_json *r, bool *first, bool *more,
                                    struct tok_text *key);
MUST_CHECK enum status tok_json_item(struct tok_json *r, bool *first, bool *more);

/* Valid until the next string is read (it points into the text or into scratch). */
MUST_CHECK enum status tok_json_string(struct tok_json *r, struct tok_text *s);
MUST_CHECK enum status tok_json_number(struct tok_json *r, double *v);
/* A whole number in [0, max]. */
MUST_CHECK enum status tok_json_index(struct tok_json *r, long max, long *v);

/* Passes over one value and gives its text. */
MUST_CHECK enum status tok_json_value(struct tok_json *r, struct tok_text *text);
/* The same for an object or array by its brackets and strings alone: for what is read in full
 * afterwards. */
MUST_CHECK enum status tok_json_block(struct tok_json *r, struct tok_text *text);
/* ST_FORMAT unless only blanks are left. */
MUST_CHECK enum status tok_json_end(struct tok_json *r);

#endif
