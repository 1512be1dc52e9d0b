#include "coordinator/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/text_buf.h"

#define MAX_PATTERN 65536    /* bytes */
#define MATCH_LIMIT 50000000 /* steps of one match */

struct regex {
    pcre2_code *code;
};

struct regex_scratch {
    pcre2_match_data *data;
    pcre2_match_context *context;
};

/* White_Space and its absence, as members of a class.  PCRE2's own \s has U+180E too. */
#define SPACE                                                                                      \
    "\\x09-\\x0d\\x20\\x85\\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"   \
    "\\x{3000}"
#define NOT_SPACE                                                                                  \
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x84\\x86-\\x9f\\xa1-\\x{167f}\\x{1681}-\\x{1fff}"               \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"                 \
    "\\x{3001}-\\x{10ffff}"
/* L, M, Nl, Nd, Pc, the circled letters, and the six numbers of Latin-1. */
#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nl}\\p{Nd}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-"         \
    "\\x{1f169}\\x{1f170}-\\x{1f189}\\xb2\\xb3\\xb9\\xbc-\\xbe"

static enum status put(struct text_buf *out, const char *s)
{
    return text_buf_append(out, s, strlen(s));
}

/* The escape \c, inside a class or outside. */
static enum status put_escape(struct text_buf *out, char c, bool in_class)
{
    static const struct {
        char c;
        const char *members; /* NULL: cannot be a member */
        const char *alone;
    } rows[] = {
        {'s', SPACE, "[" SPACE "]"},       {'S', NOT_SPACE, "[^" SPACE "]"},
        {'w', WORD, "[" WORD "]"},         {'W', NULL, "[^" WORD "]"},
        {'d', "\\p{Nd}", "\\p{Nd}"},       {'D', "\\P{Nd}", "\\P{Nd}"},
        {'h', "0-9a-fA-F", "[0-9a-fA-F]"}, {'H', NULL, "[^0-9a-fA-F]"},
        {'Z', NULL, "(?=\\n?\\z)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].c != c)
            continue;
        const char *s = in_class ? rows[i].members : rows[i].alone;
        if (!s)
            FAIL(ST_UNSUPPORTED, "regular expression: \\%c in a class", c);
        return put(out, s);
    }
    if (strchr("RXGKCgkyYONVQE", c) && c)
        FAIL(ST_UNSUPPORTED, "regular expression: the escape \\%c", c);
    char two[2] = {'\\', c};
    return text_buf_append(out, two, 2);
}

/* Rewrites Oniguruma's expression for PCRE2. */
static enum status translate(const char *p, size_t n, struct text_buf *out)
{
    int depth = 0; /* of classes */
    for (size_t i = 0; i < n; i++) {
        if (p[i] == 0)
            FAIL(ST_UNSUPPORTED, "regular expression: U+0000 in the expression");
        if (p[i] == '\\' && i + 5 < n && p[i + 1] == 'u') {
            TRY(put(out, "\\x{"));
            TRY(text_buf_append(out, p + i + 2, 4));
            TRY(put(out, "}"));
            i += 5;
            continue;
        }
        if (p[i] == '\\' && i + 1 < n) {
            TRY(put_escape(out, p[++i], depth > 0));
            continue;
        }
        if (p[i] == '[' && depth > 0) {
            if (i + 1 >= n || p[i + 1] != ':')
                FAIL(ST_UNSUPPORTED, "regular expression: a class inside a class");
            FAIL(ST_UNSUPPORTED, "regular expression: a POSIX class");
        }
        if (p[i] == '&' && depth > 0 && i + 1 < n && p[i + 1] == '&')
            FAIL(ST_UNSUPPORTED, "regular expression: the intersection && of classes");
        if (p[i] == '[') {
            depth++;
            TRY(text_buf_append(out, p + i, 1));
            if (i + 1 < n && p[i + 1] == '^')
                TRY(text_buf_append(out, p + ++i, 1));
            if (i + 1 < n && p[i + 1] == ']') { /* a bracket that stands first is a member */
                TRY(put(out, "\\]"));
                i++;
            }
            continue;
        }
        if (depth == 0 && n - i > 2 && p[i] == '(' && p[i + 1] == '?' && strchr("mx", p[i + 2]))
            FAIL(ST_UNSUPPORTED, "regular expression: the option (?%c", p[i + 2]);
        if (p[i] == ']' && depth > 0)
            depth--;
        TRY(text_buf_append(out, p + i, 1));
    }
    return ST_OK;
}

static enum status compile(struct regex *re, const char *pattern, size_t n)
{
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        FAIL(ST_NOMEM, "no memory for a regular expression");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    re->code = pcre2_compile((PCRE2_SPTR)pattern, n,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &code, &at, context);
    pcre2_compile_context_free(context);
    if (!re->code) {
        char why[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        FAIL(ST_FORMAT, "regular expression: %s at byte %zu of \"%.*s\"", why, (size_t)at,
             (int)(n < 200 ? n : 200), pattern);
    }
    /* Without a JIT compiler the interpreter serves. */
    (void)pcre2_jit_compile(re->code, PCRE2_JIT_COMPLETE);
    return ST_OK;
}

enum status regex_create(struct regex **out, const char *pattern, size_t n)
{
    *out = NULL;
    if (n > MAX_PATTERN)
        FAIL(ST_RANGE, "a regular expression of %zu bytes is longer than %d", n, MAX_PATTERN);
    struct regex *re = calloc(1, sizeof *re);
    struct text_buf text = {0};
    if (!re)
        FAIL(ST_NOMEM, "no memory for a regular expression");
    /* \s+$ tried anew at every blank of a long run would be quadratic.  A run that does not match
     * from its first blank matches from none, so only first blanks need a try. */
    enum status st = ST_OK;
    if (n == 4 && memcmp(pattern, "\\s+$", 4) == 0)
        st = put(&text, "(?<![" SPACE "])");
    if (st == ST_OK)
        st = translate(pattern, n, &text);
    if (st == ST_OK)
        st = compile(re, text.data ? text.data : "", text.len);
    text_buf_free(&text);
    if (st != ST_OK)
        regex_destroy(re);
    else
        *out = re;
    return st;
}

void regex_destroy(struct regex *re)
{
    if (!re)
        return;
    pcre2_code_free(re->code);
    free(re);
}

enum status regex_scratch_create(struct regex_scratch **out)
{
    struct regex_scratch *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s) {
        s->data = pcre2_match_data_create(1, NULL);
        s->context = pcre2_match_context_create(NULL);
    }
    if (!s || !s->data || !s->context) {
        regex_scratch_destroy(s);
        FAIL(ST_NOMEM, "no memory to match regular expressions");
    }
    pcre2_set_match_limit(s->context, MATCH_LIMIT);
    *out = s;
    return ST_OK;
}

void regex_scratch_destroy(struct regex_scratch *s)
{
    if (!s)
        return;
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->context);
    free(s);
}

enum status regex_find(const struct regex *re, struct regex_scratch *s, const char *text, size_t n,
                       size_t at, bool *found, size_t *begin, size_t *end)
{
    int rc =
        pcre2_match(re->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, s->data, s->context);
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH)
        return ST_OK;
    if (rc < 0) {
        char why[128] = "";
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        FAIL(ST_RANGE, "a regular expression of the tokenizer gave up at byte %zu: %s", at, why);
    }
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(s->data);
    *begin = v[0];
    *end = v[1];
    if (v[0] > v[1] || v[0] < at)
        FAIL(ST_UNSUPPORTED, "a regular expression of the tokenizer matches backwards (\\K)");
    return ST_OK;
}
