/* Sets of Unicode code points, and their texts as expressions over bytes: UTF-8, or UTF-8 inside a JSON string, where
 * some characters are written as escapes.  One thread per set. */
#ifndef COMMON_GRAMMAR_CHARSET_H
#define COMMON_GRAMMAR_CHARSET_H

#include "common/grammar/expr.h"

enum { CHARSET_MAX_RANGES = 512, CODE_POINT_MAX = 0x10ffff };

struct charset_range {
    uint32_t lo, hi;
};

struct charset { /* {0} is empty */
    struct charset_range r[CHARSET_MAX_RANGES];
    uint32_t n;
    bool full; /* more ranges than it has room for were added */
};

void charset_add(struct charset *s, uint32_t lo, uint32_t hi);
/* Sorts and joins the ranges; called by the functions below. */
void charset_normalize(struct charset *s);
void charset_negate(struct charset *s); /* within all code points but the surrogates */

enum text_form {
    TEXT_PLAIN, /* UTF-8 */
    /* Between the quotes of a JSON string: " and \ and the control characters, U+007F too, only as their escapes:
     * \" \\ \b \f \n \r \t, else \u00XX; all others only as themselves.  So a text has at most the two writings that
     * the case of a hexadecimal digit allows. */
    TEXT_JSON,
};

/* One character of the set. */
uint32_t charset_expr(struct expr_pool *p, struct charset *s, enum text_form form);
/* One character, whichever. */
uint32_t charset_any(struct expr_pool *p, enum text_form form);
/* A text as it is written in that form (UTF-8, checked by the caller). */
uint32_t charset_literal(struct expr_pool *p, const char *text, size_t n, enum text_form form);
/* A character that JSON strings contain as itself: of TEXT_JSON without the escapes. */
uint32_t charset_json_plain(struct expr_pool *p);
/* One character of any JSON string (RFC 8259), with all of its escapes; surrogates only in pairs. */
uint32_t charset_json_any(struct expr_pool *p);

/* The code point of checked UTF-8 at s[*at]; moves *at behind it. */
uint32_t code_point_next(const char *s, size_t *at);
/* Writes a code point as UTF-8; its bytes. */
int code_point_put(uint32_t cp, uint8_t out[4]);

#endif
