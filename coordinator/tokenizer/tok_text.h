/* A borrowed piece of text, as the tokenizer's files give it to each other. */
#ifndef COORDINATOR_TOKENIZER_TOK_TEXT_H
#define COORDINATOR_TOKENIZER_TOK_TEXT_H

#include <stddef.h>

struct tok_text {
    const char *data; /* not ended by NUL; NULL: absent */
    size_t len;       /* bytes */
};

#endif
