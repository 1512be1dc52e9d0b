/* UTF-8 helpers of the template engine.  They expect valid UTF-8: every text is checked where it
 * comes in. */
#ifndef COORDINATOR_JINJA_UTF8_H
#define COORDINATOR_JINJA_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t u8_count(const char *p, size_t n);
/* Byte offset of character i_char; n when there are fewer. */
size_t u8_offset(const char *p, size_t n, size_t i_char);
size_t u8_encode(uint32_t c, char out[4]); /* number of bytes */

static inline size_t u8_length(char first) /* bytes of a character that begins with first */
{
    unsigned char b = (unsigned char)first;
    return b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

static inline uint32_t u8_decode(const char *p, size_t *n) /* *n = bytes taken */
{
    const unsigned char *b = (const unsigned char *)p;
    *n = u8_length(*p);
    switch (*n) {
    case 1:
        return b[0];
    case 2:
        return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    case 3:
        return (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    default:
        return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 |
               (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
    }
}

/* Length of the character that ends before p + n; n > 0. */
static inline size_t u8_length_before(const char *p, size_t n)
{
    size_t k = 1;
    while (k < n && ((unsigned char)p[n - k] & 0xc0) == 0x80)
        k++;
    return k;
}

bool u8_is_space(uint32_t c); /* Python's str.isspace */

/* Full case mappings of Python's str methods; up to three characters, returns how many. */
size_t u8_upper(uint32_t c, uint32_t out[3]);
size_t u8_lower(uint32_t c, uint32_t out[3]);
size_t u8_title(uint32_t c, uint32_t out[3]);
bool u8_is_cased(uint32_t c);
bool u8_is_case_ignorable(uint32_t c);
bool u8_is_upper(uint32_t c);
bool u8_is_lower(uint32_t c);
bool u8_is_alpha(uint32_t c);
bool u8_is_decimal(uint32_t c);
bool u8_is_printable(uint32_t c);

#endif
