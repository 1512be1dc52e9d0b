#include "coordinator/jinja/utf8.h"

#include <utf8proc.h>

#include "common/status.h"
#include "coordinator/jinja/case.h"

size_t u8_count(const char *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)p[i] & 0xc0) != 0x80;
    return count;
}

size_t u8_offset(const char *p, size_t n, size_t i_char)
{
    size_t at = 0;
    for (; i_char > 0 && at < n; i_char--)
        at += u8_length(p[at]);
    return at < n ? at : n;
}

size_t u8_encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

bool u8_is_space(uint32_t c)
{
    if (c < 0x80)
        return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static const struct special_case *find_special(uint32_t c)
{
    size_t low = 0, high = ARRAY_LEN(SPECIAL_CASES);
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (SPECIAL_CASES[mid].c < c)
            low = mid + 1;
        else
            high = mid;
    }
    return low < ARRAY_LEN(SPECIAL_CASES) && SPECIAL_CASES[low].c == c ? &SPECIAL_CASES[low] : NULL;
}

static size_t copy_chars(const uint16_t from[3], uint32_t out[3])
{
    size_t n = 0;
    for (; n < 3 && from[n]; n++)
        out[n] = from[n];
    return n;
}

size_t u8_upper(uint32_t c, uint32_t out[3])
{
    const struct special_case *s = c < 0x80 ? NULL : find_special(c);
    if (s)
        return copy_chars(s->upper, out);
    out[0] =
        c < 0x80 ? c - (c >= 'a' && c <= 'z' ? 32 : 0) : (uint32_t)utf8proc_toupper((int32_t)c);
    return 1;
}

size_t u8_title(uint32_t c, uint32_t out[3])
{
    const struct special_case *s = c < 0x80 ? NULL : find_special(c);
    if (s)
        return copy_chars(s->title, out);
    out[0] = (uint32_t)utf8proc_totitle((int32_t)c);
    return 1;
}

size_t u8_lower(uint32_t c, uint32_t out[3])
{
    if (c == 0x130) { /* I with a dot: the one full mapping to lower case */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] =
        c < 0x80 ? c + (c >= 'A' && c <= 'Z' ? 32 : 0) : (uint32_t)utf8proc_tolower((int32_t)c);
    return 1;
}

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((int32_t)c);
}

bool u8_is_upper(uint32_t c)
{
    return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU;
}

bool u8_is_lower(uint32_t c)
{
    return c < 0x80 ? c >= 'a' && c <= 'z' : category(c) == UTF8PROC_CATEGORY_LL;
}

bool u8_is_cased(uint32_t c)
{
    return u8_is_upper(c) || u8_is_lower(c) || (c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT);
}

bool u8_is_case_ignorable(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x387 || c == 0x2018 ||
               c == 0x2019;
    }
}

bool u8_is_alpha(uint32_t c)
{
    if (c < 0x80)
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return true;
    default:
        return false;
    }
}

bool u8_is_decimal(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool u8_is_printable(uint32_t c)
{
    if (c < 0x7f)
        return c >= 0x20;
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}
