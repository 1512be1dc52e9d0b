#include "common/utf8.h"

#include <stdint.h>

/* bytes of the sequence at p (n left), 0 when it is not valid or not whole */
static size_t sequence(const uint8_t *p, size_t n)
{
    uint8_t lo = 0x80, hi = 0xbf; /* bounds of the second byte */
    size_t len;

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2)
        return 0;
    if (p[0] < 0xe0) {
        len = 2;
    } else if (p[0] < 0xf0) {
        len = 3;
        if (p[0] == 0xe0)
            lo = 0xa0;
        if (p[0] == 0xed)
            hi = 0x9f;
    } else if (p[0] < 0xf5) {
        len = 4;
        if (p[0] == 0xf0)
            lo = 0x90;
        if (p[0] == 0xf4)
            hi = 0x8f;
    } else {
        return 0;
    }
    if (n < len || p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

size_t utf8_valid_prefix(const char *s, size_t n)
{
    const uint8_t *p = (const uint8_t *)s;
    size_t at = 0;
    while (at < n) {
        size_t len = sequence(p + at, n - at);
        if (len == 0)
            break;
        at += len;
    }
    return at;
}
