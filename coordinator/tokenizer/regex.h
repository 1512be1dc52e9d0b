/* Regular expressions of tokenizer.json: written for Oniguruma (Ruby syntax), run by PCRE2 with its
 * JIT compiler where there is one.  A pattern is rewritten where the two differ: \s, \w, \d and \h
 * have other members.
 * Callers: normalizers and pre-tokenizers.  A regex is read-only; each call brings its own match
 * data. */
#ifndef COORDINATOR_TOKENIZER_REGEX_H
#define COORDINATOR_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

struct regex;
struct regex_scratch; /* of one thread at a time, for any regex */

/* ST_FORMAT: not a regular expression; ST_UNSUPPORTED: a form of Oniguruma that PCRE2 has not,
 * named. */
MUST_CHECK enum status regex_create(struct regex **out, const char *pattern, size_t n);
void regex_destroy(struct regex *re);

MUST_CHECK enum status regex_scratch_create(struct regex_scratch **out);
void regex_scratch_destroy(struct regex_scratch *s);

/* The first match in text[at, n): its bytes [*begin, *end), or *found false.  text is valid UTF-8.
 * ST_RANGE: the expression needs too many steps for this text. */
MUST_CHECK enum status regex_find(const struct regex *re, struct regex_scratch *s, const char *text,
                                  size_t n, size_t at, bool *found, size_t *begin, size_t *end);

#endif
