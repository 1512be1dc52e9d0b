/* A growing run of bytes: what the functions that make text append it to.
 * Begin with {0}; free with text_buf_free.  The bytes are not ended by NUL and may contain it.
 * Owner: whoever declared it.  One thread at a time. */
#ifndef COMMON_TEXT_TEXT_BUF_H
#define COMMON_TEXT_TEXT_BUF_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/status.h"

struct text_buf {
    char *data;
    size_t len; /* bytes used */
    size_t cap; /* bytes allocated */
    size_t max; /* bytes that it may have, 0: any number; set by its owner */
};

/* Makes room for n more bytes.  ST_NOMEM; ST_RANGE: beyond b->max. */
MUST_CHECK static inline enum status text_buf_reserve(struct text_buf *b, size_t n)
{
    if (n <= b->cap - b->len)
        return ST_OK;
    if (n > SIZE_MAX / 2 - b->len)
        FAIL(ST_NOMEM, "a text of %zu + %zu bytes is too long", b->len, n);
    if (b->max && b->len + n > b->max)
        FAIL(ST_RANGE, "a text of %zu bytes, at most %zu are allowed", b->len + n, b->max);
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < b->len + n)
        cap *= 2;
    if (b->max && cap > b->max)
        cap = b->max;
    char *data = realloc(b->data, cap);
    if (!data)
        FAIL(ST_NOMEM, "no memory for a text of %zu bytes", cap);
    b->data = data;
    b->cap = cap;
    return ST_OK;
}

MUST_CHECK static inline enum status text_buf_append(struct text_buf *b, const char *p, size_t n)
{
    TRY(text_buf_reserve(b, n));
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    return ST_OK;
}

static inline void text_buf_free(struct text_buf *b)
{
    free(b->data);
    *b = (struct text_buf){0};
}

#endif
