/* Steps over text that json_open has accepted, shared by the files of this folder.  Pure. */
#ifndef COMMON_JSON_JSON_SCAN_H
#define COMMON_JSON_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "common/json/json_read.h"

static inline size_t json_skip_space(const char *s, size_t at, size_t n)
{
    while (at < n && (s[at] == ' ' || s[at] == '\n' || s[at] == '\r' || s[at] == '\t'))
        at++;
    return at;
}

/* at: behind the opening quote.  Returns the place of the closing one, at most n. */
static inline size_t json_string_end(const char *s, size_t at, size_t n)
{
    while (at < n && s[at] != '"')
        at += s[at] == '\\' ? 2 : 1;
    return at < n ? at : n;
}

static inline uint32_t json_hex4(const char *p)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        char d = p[i];
        v = v << 4 | (uint32_t)(d <= '9' ? d - '0' : (d | 0x20) - 'a' + 10);
    }
    return v;
}

/* One character of a checked string as UTF-8 (1 to 4 bytes); *p moves behind it.  Raw bytes are given one by
 * one: they are UTF-8 already. */
size_t json_next_bytes(const char **p, char out[4]);

/* Negative, 0, positive: the order of two keys after escapes. */
int json_compare_keys(struct json_span a, struct json_span b);

/* The sign and size of a number that is whole. */
enum json_whole { JSON_WHOLE, JSON_FRACTION, JSON_TOO_LARGE };
enum json_whole json_whole_number(struct json_span number, bool *negative, uint64_t *size);

/* The nearest double; infinite when there is none.  ST_NOMEM. */
MUST_CHECK enum status json_nearest_double(struct json_span number, double *out);

#endif
