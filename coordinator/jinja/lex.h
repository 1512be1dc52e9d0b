/* Cuts a template's source into tokens, with Jinja's rules for white space: trim_blocks and
 * lstrip_blocks are on, one newline at the end of the source is dropped, "\r\n" and "\r" are
 * newlines.  Called by jinja_parse only. */
#ifndef COORDINATOR_JINJA_LEX_H
#define COORDINATOR_JINJA_LEX_H

#include "coordinator/jinja/value.h"

enum jtoken_type {
    T_EOF,
    T_DATA,        /* value: text outside of tags */
    T_VAR_BEGIN,   /* {{ */
    T_VAR_END,     /* }} */
    T_BLOCK_BEGIN, /* {% */
    T_BLOCK_END,   /* %} */
    T_NAME,
    T_STRING, /* value: unescaped */
    T_NUMBER, /* value; integer when value.type is J_INT or J_BIG */
    T_OP,     /* the one or two characters of text */
};

struct jtoken {
    uint8_t type; /* enum jtoken_type */
    uint32_t line;
    const char *p; /* T_NAME, T_OP and for showing in errors */
    size_t n;
    struct jval value;
};

struct jtokens {
    struct jtoken *items; /* ends with T_EOF */
    size_t n;
};

MUST_CHECK enum status jinja_lex(struct jmem *m, const char *source, size_t len,
                                 struct jtokens *out);

#endif
