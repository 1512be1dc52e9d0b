#include "coordinator/tokenizer/tok_json.h"

#include <ctype.h>
#include <string.h>

#include "common/utf8.h"
#include "coordinator/tokenizer/unicode.h"

#define MAX_DEPTH 128

void tok_json_init(struct tok_json *r, const char *data, size_t len)
{
    *r = (struct tok_json){.begin = data, .at = data, .end = data + len};
}

void tok_json_fini(struct tok_json *r)
{
    text_buf_free(&r->scratch);
}

static enum status bad(const struct tok_json *r, const char *what)
{
    FAIL(ST_FORMAT, "JSON: %s at byte %zu", what, (size_t)(r->at - r->begin));
}

static void blanks(struct tok_json *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

char tok_json_peek(struct tok_json *r)
{
    blanks(r);
    if (r->at == r->end)
        return 0;
    if (*r->at >= '0' && *r->at <= '9')
        return '0';
    return strchr("{[\"tfn-", *r->at) ? *r->at : 0;
}

static enum status expect(struct tok_json *r, char c)
{
    blanks(r);
    if (r->at < r->end && *r->at == c) {
        r->at++;
        return ST_OK;
    }
    char what[] = "expected ' '";
    what[10] = c;
    return bad(r, what);
}

enum status tok_json_open(struct tok_json *r, char bracket, bool *first)
{
    *first = true;
    return expect(r, bracket);
}

static enum status next(struct tok_json *r, char close, bool *first, bool *more)
{
    blanks(r);
    *more = !(r->at < r->end && *r->at == close);
    if (!*more) {
        r->at++;
        return ST_OK;
    }
    bool was_first = *first;
    *first = false;
    return was_first ? ST_OK : expect(r, ',');
}

enum status tok_json_key(struct tok_json *r, bool *first, bool *more, struct tok_text *key)
{
    TRY(next(r, '}', first, more));
    if (!*more)
        return ST_OK;
    TRY(tok_json_string(r, key));
    return expect(r, ':');
}

enum status tok_json_item(struct tok_json *r, bool *first, bool *more)
{
    return next(r, ']', first, more);
}

static enum status hex4(struct tok_json *r, uint32_t *v)
{
    if (r->end - r->at < 4)
        return bad(r, "a cut escape");
    *v = 0;
    for (int i = 0; i < 4; i++) {
        char c = *r->at++;
        if (!isxdigit((unsigned char)c))
            return bad(r, "a wrong \\u escape");
        *v = *v << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return ST_OK;
}

/* After the backslash: the character goes to scratch. */
static enum status escape(struct tok_json *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end)
        return bad(r, "a cut escape");
    char c = *r->at++;
    if (c != 'u') {
        const char *p = c ? strchr(from, c) : NULL;
        if (!p)
            return bad(r, "an unknown escape");
        return text_buf_append(&r->scratch, &to[p - from], 1);
    }
    uint32_t cp, low;
    TRY(hex4(r, &cp));
    if (cp >= 0xD800 && cp < 0xE000) {
        if (cp >= 0xDC00 || r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
            return bad(r, "a lone surrogate");
        r->at += 2;
        TRY(hex4(r, &low));
        if (low < 0xDC00 || low >= 0xE000)
            return bad(r, "a lone surrogate");
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    }
    char utf8[4];
    return text_buf_append(&r->scratch, utf8, u8_put(utf8, cp));
}

enum status tok_json_string(struct tok_json *r, struct tok_text *s)
{
    TRY(expect(r, '"'));
    const char *start = r->at;
    bool ascii = true;
    r->scratch.len = 0;
    for (bool escaped = false;;) {
        const char *run = r->at;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (unsigned char)*r->at >= 0x20) {
            ascii &= (unsigned char)*r->at < 0x80;
            r->at++;
        }
        if (r->at == r->end)
            return bad(r, "a string without an end");
        if ((unsigned char)*r->at < 0x20)
            return bad(r, "a control character in a string");
        if (*r->at == '\\' || escaped)
            TRY(text_buf_append(&r->scratch, run, (size_t)(r->at - run)));
        if (*r->at == '"') {
            *s = escaped ? (struct tok_text){r->scratch.data, r->scratch.len}
                         : (struct tok_text){start, (size_t)(r->at - start)};
            break;
        }
        escaped = true;
        r->at++;
        TRY(escape(r));
    }
    if (!ascii && !utf8_valid(s->data, s->len))
        return bad(r, "a string that is not UTF-8");
    if (!s->data)
        s->data = "";
    r->at++;
    return ST_OK;
}

static const char *digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* The end of the number at r->at; NULL: none is there. */
static const char *number_end(const struct tok_json *r)
{
    const char *p = r->at, *end = r->end, *q;
    p += p < end && *p == '-';
    if ((q = digits(p, end)) == p || (*p == '0' && q - p > 1))
        return NULL;
    if (q < end && *q == '.') {
        p = q + 1;
        if ((q = digits(p, end)) == p)
            return NULL;
    }
    if (q < end && (*q | 32) == 'e') {
        p = q + 1;
        p += p < end && (*p == '+' || *p == '-');
        if ((q = digits(p, end)) == p)
            return NULL;
    }
    return q;
}

enum status tok_json_number(struct tok_json *r, double *v)
{
    char copy[64];
    blanks(r);
    const char *end = number_end(r);
    if (!end || (size_t)(end - r->at) >= sizeof copy)
        return bad(r, "a malformed or too long number");
    size_t n = (size_t)(end - r->at);
    memcpy(copy, r->at, n);
    copy[n] = 0;
    *v = strtod(copy, NULL);
    r->at = end;
    return ST_OK;
}

enum status tok_json_index(struct tok_json *r, long max, long *v)
{
    blanks(r);
    const char *p = r->at;
    long n = 0;
    while (p < r->end && *p >= '0' && *p <= '9') {
        n = n * 10 + (*p++ - '0');
        if (n > max)
            return bad(r, "a number that is too large");
    }
    if (p == r->at || (*r->at == '0' && p - r->at > 1) || (p < r->end && strchr(".eE+-", *p)))
        return bad(r, "expected a whole number");
    r->at = p;
    *v = n;
    return ST_OK;
}

static enum status skip(struct tok_json *r, int depth);

static enum status skip_members(struct tok_json *r, char open, int depth)
{
    bool first, more;
    struct tok_text key;
    if (depth >= MAX_DEPTH)
        return bad(r, "nesting too deep");
    TRY(tok_json_open(r, open, &first));
    for (;;) {
        TRY(open == '{' ? tok_json_key(r, &first, &more, &key) : tok_json_item(r, &first, &more));
        if (!more)
            return ST_OK;
        TRY(skip(r, depth + 1));
    }
}

static enum status word(struct tok_json *r, const char *w)
{
    size_t n = strlen(w);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, w, n) != 0)
        return bad(r, "an unknown word");
    r->at += n;
    return ST_OK;
}

static enum status skip(struct tok_json *r, int depth)
{
    struct tok_text s;
    const char *end;
    switch (tok_json_peek(r)) {
    case '{':
        return skip_members(r, '{', depth);
    case '[':
        return skip_members(r, '[', depth);
    case '"':
        return tok_json_string(r, &s);
    case 't':
        return word(r, "true");
    case 'f':
        return word(r, "false");
    case 'n':
        return word(r, "null");
    case '-':
    case '0':
        end = number_end(r);
        r->at = end ? end : r->at;
        return end ? ST_OK : bad(r, "a malformed number");
    default:
        return bad(r, "expected a value");
    }
}

enum status tok_json_value(struct tok_json *r, struct tok_text *text)
{
    blanks(r);
    text->data = r->at;
    TRY(skip(r, 0));
    text->len = (size_t)(r->at - text->data);
    return ST_OK;
}

enum status tok_json_block(struct tok_json *r, struct tok_text *text)
{
    int depth = 0;
    blanks(r);
    text->data = r->at;
    for (; r->at < r->end; r->at++) {
        char c = *r->at;
        if (c == '"') {
            for (r->at++; r->at < r->end && *r->at != '"'; r->at++)
                r->at += *r->at == '\\';
            if (r->at >= r->end)
                break;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            depth--;
        }
        if (depth <= 0 && (c == '}' || c == ']')) {
            r->at++;
            text->len = (size_t)(r->at - text->data);
            return ST_OK;
        }
        if (depth == 0)
            break;
    }
    r->at = r->at > r->end ? r->end : r->at;
    return bad(r, "an object or a list without an end");
}

enum status tok_json_end(struct tok_json *r)
{
    blanks(r);
    return r->at == r->end ? ST_OK : bad(r, "something after the end");
}
