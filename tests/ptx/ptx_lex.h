/* Tokens of PTX text (manual, chapter 4).  A lexer borrows the text. */
#ifndef TESTS_PTX_PTX_LEX_H
#define TESTS_PTX_PTX_LEX_H

#include "ptx/ptx_module.h"

enum { PTX_WORD_BYTES = 256 };

enum ptx_token {
    PTX_END,
    PTX_WORD, /* identifier, register, directive or opcode: "%r1", ".reg", "add.s32", "$L__BB0_2" */
    PTX_NUMBER, /* value: bits of an integer, of 0f... (32) or 0d... (64) */
    PTX_STRING, /* contents are dropped */
    PTX_SIGN    /* one character: , ; : ( ) [ ] { } < > + - @ ! | = */
};

struct ptx_lexer {
    const char *at, *end;
    int32_t line; /* of the current token */
    enum ptx_token token;
    char word[PTX_WORD_BYTES];
    char sign;
    uint64_t value;
};

/* Makes the next token the current one. */
MUST_CHECK enum status ptx_next(struct ptx_lexer *lx);
/* Drops the rest of the line; the current token is the next line's first. */
MUST_CHECK enum status ptx_skip_line(struct ptx_lexer *lx);

bool ptx_is_sign(const struct ptx_lexer *lx, char sign);
bool ptx_is_word(const struct ptx_lexer *lx, const char *word);
/* The current token is this one, and the next one becomes it. */
MUST_CHECK enum status ptx_take_sign(struct ptx_lexer *lx, char sign);
MUST_CHECK enum status ptx_take_number(struct ptx_lexer *lx, uint64_t *out);
/* word: [PTX_WORD_BYTES] */
MUST_CHECK enum status ptx_take_word(struct ptx_lexer *lx, char *word);
/* ST_FORMAT: the current token is not `wanted`. */
MUST_CHECK enum status ptx_unexpected(const struct ptx_lexer *lx, const char *wanted);

#endif
