/* Work on strings that methods and filters share.  Internal to the jinja_*.c files. */
#ifndef COORDINATOR_JINJA_STR_H
#define COORDINATOR_JINJA_STR_H

#include "coordinator/jinja/run.h"

enum jcase { JCASE_UPPER, JCASE_LOWER, JCASE_CAPITALIZE, JCASE_TITLE, JCASE_SWAP };

/* Appends s in another case to the output. */
MUST_CHECK enum status j_emit_case(struct jrun *r, const char *p, size_t n, enum jcase how);
MUST_CHECK enum status j_str_case(struct jrun *r, const struct jstr *s, enum jcase how,
                                  struct jval *out);

/* Takes characters of the set (NULL: white space) off the ends. */
MUST_CHECK enum status j_str_strip(struct jrun *r, const struct jstr *s, const struct jstr *set,
                                   bool left, bool right, struct jval *out);

/* Replaces at most count times; count < 0: everywhere. */
MUST_CHECK enum status j_str_replace(struct jrun *r, const struct jstr *s, const struct jstr *from,
                                     const struct jstr *to, int64_t count, struct jval *out);

/* Lines without their ends; with them when keep_ends. */
MUST_CHECK enum status j_str_lines(struct jrun *r, const struct jstr *s, bool keep_ends,
                                   struct jlist **out);

/* Python's str.split: sep NULL is runs of white space; max < 0: no limit. */
MUST_CHECK enum status j_str_split(struct jrun *r, const struct jstr *s, const struct jstr *sep,
                                   int64_t max, struct jlist **out);

/* s in the middle ('^'), left ('<') or right ('>') of width characters. */
MUST_CHECK enum status j_str_justify(struct jrun *r, const struct jstr *s, int64_t width,
                                     char align, const struct jstr *fill, struct jval *out);

#endif
