/* The two expressions that most byte-level tokenizers split text with, matched by hand.  tests/text
 * compares both with PCRE2 on random text. */
#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

enum cls { OTHER, LETTER, NUMBER, SPACE, NEWLINE }; /* NEWLINE: \r and \n, which are blanks too */

static enum cls class_slow(uint32_t cp)
{
    if (uc_is_letter(cp))
        return LETTER;
    if (uc_is_numeric(cp))
        return NUMBER;
    return uc_is_space(cp) ? SPACE : OTHER;
}

static inline enum cls class_at(const char *p, size_t *len)
{
    unsigned char c = (unsigned char)*p;
    if (c < 0x80) {
        *len = 1;
        if ((unsigned char)((c | 32) - 'a') < 26)
            return LETTER;
        if ((unsigned char)(c - '0') < 10)
            return NUMBER;
        if (c == '\n' || c == '\r')
            return NEWLINE;
        return c == ' ' || (c >= 9 && c <= 12) ? SPACE : OTHER;
    }
    return class_slow(u8_get(p, len));
}

static size_t run_of(const char *p, size_t n, size_t at, enum cls cls)
{
    size_t len;
    while (at < n && class_at(p + at, &len) == cls)
        at += len;
    return at;
}

/* 's 't 're 've 'm 'll 'd behind the apostrophe at at; 0: none. */
static size_t contraction(const char *p, size_t n, size_t at, bool any_case)
{
    size_t left = n - at;
    if (left < 2)
        return 0;
    unsigned char a = (unsigned char)p[at + 1], b = left > 2 ? (unsigned char)p[at + 2] : 0;
    if (any_case && a == 0xC5 && b == 0xBF) /* U+017F, the long s, folds to s */
        return 3;
    if (any_case) {
        a |= a >= 'A' && a <= 'Z' ? 32 : 0;
        b |= b >= 'A' && b <= 'Z' ? 32 : 0;
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* A run of blanks before something else leaves its last blank to it; *newline is behind the last \r
 * or \n. */
static size_t blanks_end(const char *p, size_t n, size_t at, size_t *newline)
{
    size_t len, last = at, end = at;
    *newline = at;
    while (end < n) {
        enum cls c = class_at(p + end, &len);
        if (c != SPACE && c != NEWLINE)
            break;
        last = end;
        end += len;
        if (c == NEWLINE)
            *newline = end;
    }
    return end == n || last == at ? end : last;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t scan_gpt2(const char *p, size_t n, size_t at)
{
    size_t len, next = at, newline;
    if (p[at] == '\'' && (len = contraction(p, n, at, false)) > 0)
        return at + len;
    if (p[at] == ' ' && at + 1 < n)
        next = at + 1;
    enum cls c = class_at(p + next, &len);
    if (c == SPACE || c == NEWLINE)
        return blanks_end(p, n, at, &newline);
    return run_of(p, n, next + len, c);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,max}|
 * ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+| \s+(?!\S)|\s+ */
size_t scan_llama3(const char *p, size_t n, size_t at, int max_digits)
{
    size_t len, len2, newline;
    if (p[at] == '\'' && (len = contraction(p, n, at, true)) > 0)
        return at + len;
    enum cls c = class_at(p + at, &len), d = OTHER;
    bool has_next = at + len < n;
    if (c == LETTER)
        return run_of(p, n, at + len, LETTER);
    if (c == NUMBER) {
        size_t end = at + len;
        for (int k = 1; k < max_digits && end < n && class_at(p + end, &len) == NUMBER; k++)
            end += len;
        return end;
    }
    if (has_next)
        d = class_at(p + at + len, &len2);
    if (has_next && c != NEWLINE && d == LETTER)
        return run_of(p, n, at + len + len2, LETTER);
    if (c == OTHER || (p[at] == ' ' && has_next && d == OTHER)) {
        size_t end = run_of(p, n, c == OTHER ? at : at + 1, OTHER);
        while (end < n && (p[end] == '\r' || p[end] == '\n'))
            end++;
        return end;
    }
    size_t end = blanks_end(p, n, at, &newline);
    return newline > at ? newline : end;
}
