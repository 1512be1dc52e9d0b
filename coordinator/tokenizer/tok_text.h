/* A borrowed piece of text, as the tokenizer's files give it to each other. */
#ifndef COORDINATOR_TOKENIZER_TOK_TEXT_H
#define COORDINATOR_TOKENIZER_TOK_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct tok_text {
    const char *data; /* not ended by NUL; NULL: absent */
    size_t len;       /* bytes */
};

static inline bool tok_text_is(struct tok_text s, const char *lit)
{
    return s.len == strlen(lit) && memcmp(s.data, lit, s.len) == 0;
}

#endif
