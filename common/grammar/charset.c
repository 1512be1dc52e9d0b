#include "common/grammar/charset.h"

#include <stdlib.h>

enum { SURROGATE_LO = 0xd800, SURROGATE_HI = 0xdfff };

void charset_add(struct charset *s, uint32_t lo, uint32_t hi)
{
    if (s->n == CHARSET_MAX_RANGES)
        charset_normalize(s);
    if (s->n == CHARSET_MAX_RANGES)
        s->full = true;
    else
        s->r[s->n++] = (struct charset_range){lo, hi};
}

static int compare_ranges(const void *a, const void *b)
{
    const struct charset_range *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

void charset_normalize(struct charset *s)
{
    uint32_t kept = 0;
    qsort(s->r, s->n, sizeof *s->r, compare_ranges);
    for (uint32_t i = 0; i < s->n; i++) {
        if (kept && s->r[i].lo <= s->r[kept - 1].hi + 1) {
            if (s->r[i].hi > s->r[kept - 1].hi)
                s->r[kept - 1].hi = s->r[i].hi;
        } else {
            s->r[kept++] = s->r[i];
        }
    }
    s->n = kept;
}

void charset_negate(struct charset *s)
{
    struct charset out = {.full = s->full};
    uint32_t next = 0;
    charset_add(s, SURROGATE_LO, SURROGATE_HI);
    charset_normalize(s);
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->r[i].lo > next)
            charset_add(&out, next, s->r[i].lo - 1);
        next = s->r[i].hi + 1;
    }
    if (next <= CODE_POINT_MAX)
        charset_add(&out, next, CODE_POINT_MAX);
    *s = out;
}

uint32_t code_point_next(const char *s, size_t *at)
{
    const uint8_t *p = (const uint8_t *)s + *at;
    if (p[0] < 0x80) {
        *at += 1;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *at += 2;
        return (p[0] & 0x1fU) << 6 | (p[1] & 0x3fU);
    }
    if (p[0] < 0xf0) {
        *at += 3;
        return (p[0] & 0xfU) << 12 | (p[1] & 0x3fU) << 6 | (p[2] & 0x3fU);
    }
    *at += 4;
    return (p[0] & 7U) << 18 | (p[1] & 0x3fU) << 12 | (p[2] & 0x3fU) << 6 | (p[3] & 0x3fU);
}

int code_point_put(uint32_t cp, uint8_t out[4])
{
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, cp >>= 6)
        out[i] = (uint8_t)(0x80 | (cp & 0x3f));
    out[0] = (uint8_t)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | cp);
    return n;
}

/* ---- UTF-8 ---- */

/* Texts of code points lo..hi that have n bytes each, from byte i on, where the bytes before i are equal. */
static uint32_t utf8_run(struct expr_pool *p, const uint8_t *lo, const uint8_t *hi, int i, int n)
{
    static const uint8_t least[4] = {0x80, 0x80, 0x80, 0x80}, most[4] = {0xbf, 0xbf, 0xbf, 0xbf};
    if (i == n - 1)
        return expr_range(p, lo[i], hi[i]);
    if (lo[i] == hi[i])
        return expr_concat(p, expr_range(p, lo[i], lo[i]), utf8_run(p, lo, hi, i + 1, n));
    /* the first byte's border cases apart, what is between them at once */
    uint32_t part[3];
    unsigned from = lo[i], to = hi[i];
    size_t n_parts = 0;
    bool low_whole = true, high_whole = true;
    for (int k = i + 1; k < n; k++) {
        low_whole = low_whole && lo[k] == 0x80;
        high_whole = high_whole && hi[k] == 0xbf;
    }
    if (!low_whole)
        part[n_parts++] =
            expr_concat(p, expr_range(p, from, from), utf8_run(p, lo, most, i + 1, n)),
        from++;
    if (!high_whole)
        part[n_parts++] = expr_concat(p, expr_range(p, to, to), utf8_run(p, least, hi, i + 1, n)),
        to--;
    if (from <= to)
        part[n_parts++] =
            expr_concat(p, expr_range(p, from, to), utf8_run(p, least, most, i + 1, n));
    return expr_or(p, part, n_parts);
}

static uint32_t utf8_range(struct expr_pool *p, uint32_t lo, uint32_t hi)
{
    static const uint32_t ends[] = {0x7f, 0x7ff, 0xd7ff, 0xffff, CODE_POINT_MAX};
    uint32_t e = EXPR_NONE;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && lo <= hi; i++) {
        uint8_t a[4], b[4];
        uint32_t end = hi < ends[i] ? hi : ends[i];
        if (lo >= SURROGATE_LO && lo <= SURROGATE_HI)
            lo = SURROGATE_HI + 1;
        if (lo > end)
            continue;
        int n = code_point_put(lo, a);
        (void)code_point_put(end, b);
        e = expr_or2(p, e, utf8_run(p, a, b, 0, n));
        lo = end + 1;
    }
    return e;
}

/* ---- JSON ---- */

static bool json_escaped(uint32_t cp)
{
    return cp < 0x20 || cp == '"' || cp == '\\' || cp == 0x7f;
}

static uint32_t hex_digit(struct expr_pool *p, unsigned v)
{
    struct byte_set set = {{0}};
    if (v < 10) {
        byte_set_add(&set, '0' + v, '0' + v);
    } else {
        byte_set_add(&set, 'a' + v - 10, 'a' + v - 10);
        byte_set_add(&set, 'A' + v - 10, 'A' + v - 10);
    }
    return expr_bytes(p, &set);
}

static uint32_t json_escape(struct expr_pool *p, uint32_t cp)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escape[] = "\"\\bfnrt";
    for (size_t i = 0; plain[i]; i++)
        if ((uint32_t)plain[i] == cp)
            return expr_literal(p, (char[]){'\\', escape[i]}, 2);
    uint32_t digits = expr_concat(p, hex_digit(p, cp >> 4), hex_digit(p, cp & 15));
    return expr_concat(p, expr_literal(p, "\\u00", 4), digits);
}

static uint32_t json_range(struct expr_pool *p, uint32_t lo, uint32_t hi)
{
    uint32_t e = EXPR_NONE;
    uint32_t begin = lo;
    for (uint32_t cp = lo; cp <= hi && cp < 0x80; cp++) {
        if (!json_escaped(cp))
            continue;
        e = expr_or2(p, e, json_escape(p, cp));
        if (cp > begin)
            e = expr_or2(p, e, utf8_range(p, begin, cp - 1));
        begin = cp + 1;
    }
    return begin <= hi ? expr_or2(p, e, utf8_range(p, begin, hi)) : e;
}

/* ---- as expressions ---- */

uint32_t charset_expr(struct expr_pool *p, struct charset *s, enum text_form form)
{
    uint32_t e = EXPR_NONE;
    charset_normalize(s);
    for (uint32_t i = 0; i < s->n; i++) {
        struct charset_range r = s->r[i];
        e = expr_or2(p, e,
                     form == TEXT_JSON ? json_range(p, r.lo, r.hi) : utf8_range(p, r.lo, r.hi));
    }
    return e;
}

uint32_t charset_any(struct expr_pool *p, enum text_form form)
{
    uint32_t *kept = expr_kept(p, form == TEXT_JSON ? EXPR_ANY_JSON : EXPR_ANY_PLAIN);
    if (*kept == EXPR_NONE)
        *kept =
            form == TEXT_JSON ? json_range(p, 0, CODE_POINT_MAX) : utf8_range(p, 0, CODE_POINT_MAX);
    return *kept;
}

uint32_t charset_literal(struct expr_pool *p, const char *text, size_t n, enum text_form form)
{
    uint32_t e = EXPR_EMPTY;
    if (form == TEXT_PLAIN)
        return expr_literal(p, text, n);
    for (size_t end = n; end > 0;) {
        size_t begin = end - 1;
        while (begin > 0 && ((uint8_t)text[begin] & 0xc0) == 0x80)
            begin--;
        bool escaped = end - begin == 1 && json_escaped((uint8_t)text[begin]);
        e = expr_concat(p,
                        escaped ? json_escape(p, (uint8_t)text[begin])
                                : expr_literal(p, text + begin, end - begin),
                        e);
        end = begin;
    }
    return e;
}

uint32_t charset_json_plain(struct expr_pool *p)
{
    uint32_t parts[] = {utf8_range(p, 0x20, '"' - 1), utf8_range(p, '"' + 1, '\\' - 1),
                        utf8_range(p, '\\' + 1, 0x7e), utf8_range(p, 0x80, CODE_POINT_MAX)};
    return expr_or(p, parts, sizeof parts / sizeof *parts);
}

static uint32_t byte_of(struct expr_pool *p, const char *chars)
{
    struct byte_set set = {{0}};
    for (; *chars; chars++)
        byte_set_add(&set, (uint8_t)*chars, (uint8_t)*chars);
    return expr_bytes(p, &set);
}

static uint32_t json_any(struct expr_pool *p)
{
    uint32_t hex = byte_of(p, "0123456789abcdefABCDEF"), d = byte_of(p, "dD");
    uint32_t hex2 = expr_repeat(p, hex, 2, 2), hex3 = expr_repeat(p, hex, 3, 3);
    /* \uXXXX but surrogates; a high surrogate only before a low one */
    uint32_t single = expr_or2(p, expr_concat(p, byte_of(p, "0123456789abcefABCEF"), hex3),
                               expr_concat(p, d, expr_concat(p, byte_of(p, "01234567"), hex2)));
    uint32_t high = expr_concat(p, d, expr_concat(p, byte_of(p, "89abAB"), hex2));
    uint32_t low = expr_concat(p, d, expr_concat(p, byte_of(p, "cdefCDEF"), hex2));
    uint32_t pair = expr_concat(p, high, expr_concat(p, expr_literal(p, "\\u", 2), low));
    uint32_t unicode = expr_concat(p, byte_of(p, "u"), expr_or2(p, single, pair));
    uint32_t escape = expr_or2(p, byte_of(p, "\"\\/bfnrt"), unicode);
    return expr_or2(p, charset_json_plain(p), expr_concat(p, byte_of(p, "\\"), escape));
}

uint32_t charset_json_any(struct expr_pool *p)
{
    uint32_t *kept = expr_kept(p, EXPR_JSON_ANY);
    if (*kept == EXPR_NONE)
        *kept = json_any(p);
    return *kept;
}
