/* Escapes of JSON strings (RFC 8259), for whoever writes JSON to a file or a buffer of its own:
 *
 *     while (n) {
 *         size_t plain = json_plain_run(s, n);
 *         write(s, plain);
 *         s += plain, n -= plain;
 *         if (n)
 *             write(esc, json_escape(*s++, esc)), n--;
 *     }
 *
 * The text is UTF-8 and may hold NUL; quotes around it are the caller's.  Pure. */
#ifndef COMMON_JSON_ESCAPE_H
#define COMMON_JSON_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

enum { JSON_ESCAPE_SIZE = 6 };

static inline bool json_is_plain(char c)
{
    return (unsigned char)c >= 0x20 && c != '"' && c != '\\';
}

/* Bytes from s on that stand for themselves. */
static inline size_t json_plain_run(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && json_is_plain(s[i]))
        i++;
    return i;
}

/* The escape of one byte that is not plain; returns its length. */
static inline size_t json_escape(char c, char out[JSON_ESCAPE_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char u = (unsigned char)c;
    out[0] = '\\';
    if (c == '"' || c == '\\') {
        out[1] = c;
        return 2;
    }
    if (c == '\n') {
        out[1] = 'n';
        return 2;
    }
    out[1] = 'u';
    out[2] = out[3] = '0';
    out[4] = hex[u >> 4];
    out[5] = hex[u & 15];
    return 6;
}

#endif
