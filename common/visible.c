#include "common/visible.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/utf8.h"

/* bytes of the character at s: 0 when they are not UTF-8 */
static size_t character(const char *s, size_t n)
{
    for (size_t k = 1; k <= 4 && k <= n; k++)
        if (utf8_valid(s, k))
            return k;
    return 0;
}

/* The code point of a character of three bytes. */
static unsigned code_point(const char *s)
{
    return ((unsigned)s[0] & 0xf) << 12 | ((unsigned)s[1] & 0x3f) << 6 | ((unsigned)s[2] & 0x3f);
}

/* Characters that end a line or change the order in which the others are shown (Unicode: Zl, Zp, Bidi_Control), or that
 * are not seen at all: U+061C, U+200B to U+200F, U+2028 to U+202E, U+2060 to U+2069, U+FEFF. */
static unsigned hidden(const char *s, size_t len)
{
    if (len == 2 && memcmp(s, "\xd8\x9c", 2) == 0)
        return 0x061c;
    unsigned cp = len == 3 ? code_point(s) : 0;
    bool is = (cp >= 0x200b && cp <= 0x200f) || (cp >= 0x2028 && cp <= 0x202e) ||
              (cp >= 0x2060 && cp <= 0x2069) || cp == 0xfeff;
    return is ? cp : 0;
}

size_t visible_char(const char *s, size_t n, size_t *used, char out[VISIBLE_SIZE])
{
    unsigned char c = (unsigned char)*s;
    size_t len = character(s, n);
    char text[VISIBLE_SIZE + 1];
    int written;

    *used = len ? len : 1;
    if (c == '\n' || c == '\t')
        written = snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : 't');
    else if (!len || c < 0x20 || c == 0x7f)
        written = snprintf(text, sizeof text, "\\x%02x", c);
    else if (len == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0)
        written = snprintf(text, sizeof text, "\\u%04x", (unsigned char)s[1]);
    else if (hidden(s, len))
        written = snprintf(text, sizeof text, "\\u%04x", hidden(s, len));
    else
        written = snprintf(text, sizeof text, "%.*s", (int)len, s);
    memcpy(out, text, (size_t)written);
    return (size_t)written;
}

size_t visible_text(char *out, size_t size, const char *s, size_t n)
{
    size_t at = 0, used;
    char one[VISIBLE_SIZE];
    for (; n; s += used, n -= used) {
        size_t len = visible_char(s, n, &used, one);
        if (len >= size - at)
            break;
        memcpy(out + at, one, len);
        at += len;
    }
    out[at] = '\0';
    return at;
}
