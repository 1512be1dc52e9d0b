/* Character classes of HTTP (RFC 9110, section 5.6) and words in lists, for the files of this folder.  ASCII
 * only, whatever the locale.  Pure. */
#ifndef CLIENT_GATEWAY_HTTP_CHARS_H
#define CLIENT_GATEWAY_HTTP_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static inline bool http_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool http_is_alnum(char c)
{
    return http_is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static inline bool http_is_token_char(char c)
{
    return c && (http_is_alnum(c) || strchr("!#$%&'*+-.^_`|~", c));
}

/* Of a header's value: visible, space, tab, or a byte above ASCII. */
static inline bool http_is_value_char(char c)
{
    unsigned char u = (unsigned char)c;
    return u == '\t' || (u >= 0x20 && u != 0x7f);
}

/* -1: not hexadecimal */
static inline int http_hex(char c)
{
    if (http_is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The next word of a list with commas, without white space around it; NULL: the list has ended.  *at moves. */
static inline const char *http_next_word(const char **at, size_t *n)
{
    const char *p = *at + strspn(*at, " \t,");
    *n = strcspn(p, ",");
    *at = p + *n;
    while (*n && strchr(" \t", p[*n - 1]))
        --*n;
    return *n ? p : NULL;
}

static inline bool http_word_is(const char *word, size_t n, const char *name)
{
    return strlen(name) == n && strncasecmp(word, name, n) == 0;
}

#endif
