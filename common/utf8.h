/* UTF-8 checks (RFC 3629: no surrogates, no overlong forms, at most U+10FFFF). */
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the longest prefix of whole, valid sequences. */
size_t utf8_valid_prefix(const char *s, size_t n);

static inline bool utf8_valid(const char *s, size_t n)
{
    return utf8_valid_prefix(s, n) == n;
}

#endif
