/* The sources that are one form from beginning to end: a schema, any object, a regular expression, a choice, a
 * context-free grammar.  Structural tags (tags.h) are made of them. */
#ifndef COMMON_GRAMMAR_SOURCE_H
#define COMMON_GRAMMAR_SOURCE_H

#include "common/grammar/grammar_source.h"
#include "common/grammar/rules.h"

/* Appends the rules of a source, which is UTF-8.  ST_UNSUPPORTED: another kind; else as grammar_compile. */
MUST_CHECK enum status source_compile(struct rules *r, const struct grammar_source *s,
                                      uint32_t *root);

#endif
