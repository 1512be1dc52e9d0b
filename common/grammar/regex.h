/* Regular expressions in the syntax that JSON Schema's pattern, vLLM and llama.cpp users write (ECMA 262, the part
 * that describes regular languages), compiled to expressions over bytes.
 *
 * Read: literals, . [...] [^...] | ( ) (?: ) named groups, * + ? {m} {m,} {m,n} and their lazy forms (the same texts),
 * ^ $ at the borders of the text, \d \D \w \W \s \S (ASCII digits and words; white space as in ECMA 262), \n \r \t \f
 * \v \0 \cX \xXX \uXXXX \u{X}, and every escaped punctuation mark.  `.` is any character but the four line ends.
 * Refused by name: look-around, back-references, \b \B, \p{..}, flags, possessive and atomic groups.
 *
 * Time and memory are linear in the pattern's length times the sizes of its sets; bounded repetition is counted, not
 * copied.  Bounds: REGEX_MAX_* in regex_parse.h. */
#ifndef COMMON_GRAMMAR_REGEX_H
#define COMMON_GRAMMAR_REGEX_H

#include "common/grammar/charset.h"

enum regex_match {
    REGEX_WHOLE,  /* the text is a match */
    REGEX_SEARCH, /* the text contains a match */
};

/* ST_FORMAT: no regular expression; ST_UNSUPPORTED: one that is not read; ST_RANGE: too long or too large; each with the
 * byte at which it is seen. */
MUST_CHECK enum status regex_compile(struct expr_pool *p, const char *pattern, size_t n,
                                     enum regex_match match, enum text_form form, uint32_t *out);

#endif
