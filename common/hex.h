/* Bytes as hexadecimal digits. */
#ifndef COMMON_HEX_H
#define COMMON_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* out [2 n + 1], ends with NUL. */
static inline void hex_of(const uint8_t *data, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = "0123456789abcdef"[data[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[data[i] & 15];
    }
    out[2 * n] = '\0';
}

/* text: exactly 2 n digits, of either case, then NUL; else false. */
static inline bool hex_parse(const char *text, uint8_t *out, size_t n)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    if (strlen(text) != 2 * n || strspn(text, digits) != 2 * n)
        return false;
    memset(out, 0, n);
    for (size_t i = 0; i < 2 * n; i++) {
        size_t at = (size_t)(strchr(digits, text[i]) - digits);
        out[i / 2] = (uint8_t)((size_t)out[i / 2] << 4 | (at < 16 ? at : at - 6));
    }
    return true;
}

#endif
