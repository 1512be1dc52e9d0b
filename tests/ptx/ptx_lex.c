#include "ptx/ptx_lex.h"

#include <ctype.h>
#include <string.h>

static bool is_word_start(char c)
{
    return isalpha((unsigned char)c) || (c && strchr("_$%.", c));
}

/* "::" belongs to a word (L1::no_allocate), a single colon does not (label:). */
static size_t word_length(const struct ptx_lexer *lx)
{
    const char *p = lx->at;
    while (p < lx->end) {
        if (isalnum((unsigned char)*p) || (*p && strchr("_$%.", *p)))
            p++;
        else if (lx->end - p > 2 && p[0] == ':' && p[1] == ':' && isalnum((unsigned char)p[2]))
            p += 2;
        else
            break;
    }
    return (size_t)(p - lx->at);
}

static enum status skip_blanks(struct ptx_lexer *lx)
{
    while (lx->at < lx->end) {
        if (*lx->at == '\n')
            lx->line++;
        if (isspace((unsigned char)*lx->at)) {
            lx->at++;
        } else if (lx->end - lx->at >= 2 && memcmp(lx->at, "//", 2) == 0) {
            const char *eol = memchr(lx->at, '\n', (size_t)(lx->end - lx->at));
            lx->at = eol ? eol : lx->end;
        } else if (lx->end - lx->at >= 2 && memcmp(lx->at, "/*", 2) == 0) {
            int32_t from = lx->line;
            for (lx->at += 2; lx->end - lx->at >= 2 && memcmp(lx->at, "*/", 2) != 0; lx->at++)
                lx->line += *lx->at == '\n';
            if (lx->end - lx->at < 2)
                FAIL(ST_FORMAT, "line %d: a comment without end", from);
            lx->at += 2;
        } else {
            break;
        }
    }
    return ST_OK;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

/* 0f and 0d have 8 and 16 hexadecimal digits (manual, 4.5.2); integers end with an optional U. */
static enum status lex_number(struct ptx_lexer *lx)
{
    int base = 10, exact = 0;
    if (lx->end - lx->at > 2 && lx->at[0] == '0' && isalpha((unsigned char)lx->at[1])) {
        char c = (char)tolower((unsigned char)lx->at[1]);
        base = c == 'b' ? 2 : 16;
        exact = c == 'f' ? 8 : c == 'd' ? 16 : 0;
        if (!strchr("xbfd", c))
            FAIL(ST_FORMAT, "line %d: a number that begins with 0%c", lx->line, lx->at[1]);
        lx->at += 2;
    } else if (lx->at[0] == '0') {
        base = 8;
    }
    int n = 0;
    lx->value = 0;
    for (; lx->at < lx->end && digit_value(*lx->at) < base; lx->at++, n++) {
        uint64_t limit = (UINT64_MAX - (uint64_t)digit_value(*lx->at)) / (uint64_t)base;
        if (lx->value > limit)
            FAIL(ST_RANGE, "line %d: a number beyond 64 bits", lx->line);
        lx->value = lx->value * (uint64_t)base + (uint64_t)digit_value(*lx->at);
    }
    if (lx->at < lx->end && *lx->at == 'U' && !exact)
        lx->at++;
    bool ends = lx->at == lx->end || !is_word_start(*lx->at);
    if (n == 0 || (exact && n != exact) || !ends ||
        (lx->at < lx->end && isdigit((unsigned char)*lx->at)))
        FAIL(ST_FORMAT, "line %d: a number that cannot be read", lx->line);
    lx->token = PTX_NUMBER;
    return ST_OK;
}

static enum status lex_string(struct ptx_lexer *lx)
{
    lx->at++;
    while (lx->at < lx->end && *lx->at != '"' && *lx->at != '\n')
        lx->at++;
    if (lx->at == lx->end || *lx->at != '"')
        FAIL(ST_FORMAT, "line %d: a string without end", lx->line);
    lx->at++;
    lx->token = PTX_STRING;
    return ST_OK;
}

enum status ptx_next(struct ptx_lexer *lx)
{
    TRY(skip_blanks(lx));
    if (lx->at == lx->end) {
        lx->token = PTX_END;
        return ST_OK;
    }
    char c = *lx->at;
    if (isdigit((unsigned char)c))
        return lex_number(lx);
    if (c == '"')
        return lex_string(lx);
    if (is_word_start(c)) {
        size_t n = word_length(lx);
        if (n >= sizeof lx->word)
            FAIL(ST_RANGE, "line %d: a word of %zu characters", lx->line, n);
        memcpy(lx->word, lx->at, n);
        lx->word[n] = 0;
        lx->at += n;
        lx->token = PTX_WORD;
        return ST_OK;
    }
    if (c == 0 || !strchr(",;:()[]{}<>+-@!|=", c))
        FAIL(ST_FORMAT, "line %d: character %d", lx->line, (unsigned char)c);
    lx->sign = c;
    lx->at++;
    lx->token = PTX_SIGN;
    return ST_OK;
}

enum status ptx_skip_line(struct ptx_lexer *lx)
{
    const char *eol = memchr(lx->at, '\n', (size_t)(lx->end - lx->at));
    lx->at = eol ? eol : lx->end;
    return ptx_next(lx);
}

bool ptx_is_sign(const struct ptx_lexer *lx, char sign)
{
    return lx->token == PTX_SIGN && lx->sign == sign;
}

bool ptx_is_word(const struct ptx_lexer *lx, const char *word)
{
    return lx->token == PTX_WORD && strcmp(lx->word, word) == 0;
}

enum status ptx_unexpected(const struct ptx_lexer *lx, const char *wanted)
{
    switch (lx->token) {
    case PTX_WORD:
        FAIL(ST_FORMAT, "line %d: \"%s\" where %s is expected", lx->line, lx->word, wanted);
    case PTX_SIGN:
        FAIL(ST_FORMAT, "line %d: '%c' where %s is expected", lx->line, lx->sign, wanted);
    case PTX_END:
        FAIL(ST_FORMAT, "line %d: the text ends where %s is expected", lx->line, wanted);
    default:
        FAIL(ST_FORMAT, "line %d: a constant where %s is expected", lx->line, wanted);
    }
}

enum status ptx_take_sign(struct ptx_lexer *lx, char sign)
{
    char wanted[4] = {'\'', sign, '\'', 0};
    return ptx_is_sign(lx, sign) ? ptx_next(lx) : ptx_unexpected(lx, wanted);
}

enum status ptx_take_number(struct ptx_lexer *lx, uint64_t *out)
{
    if (lx->token != PTX_NUMBER)
        return ptx_unexpected(lx, "a number");
    *out = lx->value;
    return ptx_next(lx);
}

enum status ptx_take_word(struct ptx_lexer *lx, char *word)
{
    if (lx->token != PTX_WORD)
        return ptx_unexpected(lx, "a name");
    memcpy(word, lx->word, sizeof lx->word);
    return ptx_next(lx);
}
