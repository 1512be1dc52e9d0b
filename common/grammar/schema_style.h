/* How the values of a schema are written: as JSON, or as models write the arguments of calls between quotes of their own
 * (Gemma 4's <|"|>).  In that style a string stands between two quotes as it is, without escapes and without the quote's
 * text in it; the name of a member stands alone if it is a word, else between quotes; and the members that are named come
 * in the order of their names, A to Z as a to z (Jinja's dictsort, with which templates write calls). */
#ifndef COMMON_GRAMMAR_SCHEMA_STYLE_H
#define COMMON_GRAMMAR_SCHEMA_STYLE_H

#include "common/grammar/charset.h"
#include "common/json/json_read.h"

struct schema_style { /* zeros: JSON */
    /* as bytes of tokens: GRAMMAR_SPECIAL first if it is a special token; and its text */
    struct text_buf quote, text;
};

extern const struct schema_style schema_json;

static inline bool style_is_json(const struct schema_style *s)
{
    return s->quote.len == 0;
}

/* The form of what is between the quotes. */
static inline enum text_form style_form(const struct schema_style *s)
{
    return style_is_json(s) ? TEXT_JSON : TEXT_PLAIN;
}

/* Appends a string with its quotes (in the one form of TEXT_JSON), or the name of a member without its colon.
 * ST_UNSUPPORTED: the quote's text is in it. */
MUST_CHECK enum status style_write_string(const struct schema_style *s, const char *text, size_t n,
                                          struct text_buf *out);
MUST_CHECK enum status style_write_name(const struct schema_style *s, const char *text, size_t n,
                                        struct text_buf *out);
/* The order of members where values are not JSON: as strcmp. */
int style_compare_names(const char *a, size_t n_a, const char *b, size_t n_b);

/* A string with its quotes: of what is between them; any. */
uint32_t style_quoted(const struct schema_style *s, struct expr_pool *p, uint32_t inner);
uint32_t style_any_string(const struct schema_style *s, struct expr_pool *p);

#endif
