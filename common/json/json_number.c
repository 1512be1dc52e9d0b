/* Numbers as they are written, to exact integers and nearest doubles. */
#include <stdlib.h>
#include <string.h>

#include "common/json/json_scan.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* of "e-12"; counting stops at 10^16, because no text has as many digits to make up for it */
static int64_t exponent_of(const char *p, const char *end)
{
    bool negative = *++p == '-';
    int64_t v = 0;
    for (p += *p == '-' || *p == '+'; p < end; p++)
        if (v < 1000000000000000)
            v = 10 * v + (*p - '0');
    return negative ? -v : v;
}

/* The number is DIGITS * 10^exponent, where DIGITS are those before and after the point without zeros
 * at the end. */
enum json_whole json_whole_number(struct json_span number, bool *negative, uint64_t *size)
{
    const char *p = number.p, *end = p + number.n, *e = p, *point = NULL, *last = NULL;
    *negative = *p == '-';
    *size = 0;
    p += *negative;
    for (e = p; e < end && *e != 'e' && *e != 'E'; e++) {
        if (*e == '.')
            point = e;
        else if (*e != '0')
            last = e;
    }
    if (!last)
        return JSON_WHOLE;                        /* 0 in any spelling */
    const char *ones = point ? point - 1 : e - 1; /* the digit that counts ones */
    int64_t shift = ones >= last ? ones - last : point - last;
    if (e < end)
        shift += exponent_of(e, end);
    if (shift < 0)
        return JSON_FRACTION;
    for (; p <= last; p++) {
        if (!is_digit(*p))
            continue;
        uint64_t digit = (uint64_t)(*p - '0');
        if (*size > (UINT64_MAX - digit) / 10)
            return JSON_TOO_LARGE;
        *size = 10 * *size + digit;
    }
    for (; shift > 0; shift--) {
        if (*size > UINT64_MAX / 10)
            return JSON_TOO_LARGE;
        *size *= 10;
    }
    return JSON_WHOLE;
}

enum status json_nearest_double(struct json_span number, double *out)
{
    char small[64], *copy = number.n < sizeof small ? small : malloc(number.n + 1);
    if (!copy)
        FAIL(ST_NOMEM, "no memory for a number of %zu digits", number.n);
    memcpy(copy, number.p, number.n); /* strtod needs an end */
    copy[number.n] = '\0';
    *out = strtod(copy, NULL);
    if (copy != small)
        free(copy);
    return ST_OK;
}
