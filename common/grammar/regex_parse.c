#include "common/grammar/regex_parse.h"

#include <stdio.h>

#include "common/grammar/growing.h"
#include "common/utf8.h"

struct parser {
    struct regex_tree *tree;
    struct expr_pool *pool;
    const char *s;
    size_t n, at;
    unsigned depth;
    enum text_form form;
};

static enum status parse_or(struct parser *k, uint32_t *out);

static enum status fail_at(const struct parser *k, enum status code, size_t at, const char *what)
{
    FAIL(code, "regular expression, byte %zu: %s", at < k->n ? at : k->n, what);
}

static bool looking_at(const struct parser *k, const char *text)
{
    size_t n = strlen(text);
    return k->n - k->at >= n && memcmp(k->s + k->at, text, n) == 0;
}

static bool take(struct parser *k, const char *text)
{
    if (!looking_at(k, text))
        return false;
    k->at += strlen(text);
    return true;
}

static enum status add(struct parser *k, struct regex_node node, uint32_t *out)
{
    struct regex_tree *t = k->tree;
    TRY(GROW(&t->nodes, &t->cap, (size_t)t->n + 1, 4 * REGEX_MAX_BYTES, "a regular expression"));
    *out = t->n;
    t->nodes[t->n++] = node;
    return ST_OK;
}

static enum status add_set(struct parser *k, struct charset *set, uint32_t *out)
{
    charset_normalize(set);
    if (set->full)
        return fail_at(k, ST_RANGE, k->at, "a set has too many ranges");
    struct regex_node node = {.kind = RX_SET, .at = (uint32_t)k->at};
    node.expr = charset_expr(k->pool, set, k->form);
    return add(k, node, out);
}

/* ---- sets and escapes ---- */

static void add_digits(struct charset *s)
{
    charset_add(s, '0', '9');
}

static void add_word(struct charset *s)
{
    charset_add(s, '0', '9');
    charset_add(s, 'A', 'Z');
    charset_add(s, '_', '_');
    charset_add(s, 'a', 'z');
}

static void add_space(struct charset *s)
{
    static const struct charset_range spaces[] = {
        {0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
        {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
        charset_add(s, spaces[i].lo, spaces[i].hi);
}

static void add_all(struct charset *to, const struct charset *from)
{
    for (uint32_t i = 0; i < from->n; i++)
        charset_add(to, from->r[i].lo, from->r[i].hi);
    to->full = to->full || from->full;
}

/* \d and the like: adds to set and moves behind it. */
static bool take_class(struct parser *k, struct charset *set)
{
    struct charset one = {.n = 0};
    switch (k->s[k->at]) {
    case 'd':
    case 'D':
        add_digits(&one);
        break;
    case 'w':
    case 'W':
        add_word(&one);
        break;
    case 's':
    case 'S':
        add_space(&one);
        break;
    default:
        return false;
    }
    if (k->s[k->at] < 'a')
        charset_negate(&one);
    add_all(set, &one);
    k->at++;
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum status read_hex(struct parser *k, unsigned min, unsigned max, uint32_t *out)
{
    unsigned n = 0;
    uint32_t v = 0;
    for (; n < max && k->at < k->n && hex_value(k->s[k->at]) >= 0; n++)
        v = v << 4 | (uint32_t)hex_value(k->s[k->at++]);
    if (n < min || v > CODE_POINT_MAX)
        return fail_at(k, ST_FORMAT, k->at, "bad hexadecimal number of a character");
    *out = v;
    return ST_OK;
}

static enum status read_unicode(struct parser *k, uint32_t *cp)
{
    if (take(k, "{")) {
        TRY(read_hex(k, 1, 6, cp));
        return take(k, "}") ? ST_OK : fail_at(k, ST_FORMAT, k->at, "\\u{ without its }");
    }
    TRY(read_hex(k, 4, 4, cp));
    uint32_t low;
    size_t back = k->at;
    if (*cp >= 0xd800 && *cp <= 0xdbff && take(k, "\\u") && read_hex(k, 4, 4, &low) == ST_OK &&
        low >= 0xdc00 && low <= 0xdfff)
        *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
    else if (*cp >= 0xd800 && *cp <= 0xdfff)
        return fail_at(k, ST_UNSUPPORTED, back, "half of a surrogate pair");
    return ST_OK;
}

/* An escape that is one character; at: behind the backslash. */
static enum status read_escape(struct parser *k, bool in_set, uint32_t *cp)
{
    static const char names[] = "nrtfv", values[] = "\n\r\t\f\v";
    size_t begin = k->at - 1;
    if (k->at >= k->n)
        return fail_at(k, ST_FORMAT, begin, "a backslash at the end");
    char c = k->s[k->at++];
    for (size_t i = 0; names[i]; i++)
        if (c == names[i]) {
            *cp = (uint32_t)values[i];
            return ST_OK;
        }
    if (c == 'x')
        return read_hex(k, 2, 2, cp);
    if (c == 'u')
        return read_unicode(k, cp);
    if (c == 'b' && in_set) {
        *cp = '\b';
        return ST_OK;
    }
    if (c == 'c' && k->at < k->n && ((k->s[k->at] | 0x20) >= 'a' && (k->s[k->at] | 0x20) <= 'z')) {
        *cp = (uint32_t)k->s[k->at++] & 31;
        return ST_OK;
    }
    if (c == '0' && (k->at >= k->n || k->s[k->at] < '0' || k->s[k->at] > '9')) {
        *cp = 0;
        return ST_OK;
    }
    if (c >= '0' && c <= '9')
        return fail_at(k, ST_UNSUPPORTED, begin, "back-references are not supported");
    if (c == 'b' || c == 'B')
        return fail_at(k, ST_UNSUPPORTED, begin, "word borders (\\b, \\B) are not supported");
    if (c == 'p' || c == 'P')
        return fail_at(k, ST_UNSUPPORTED, begin, "Unicode properties (\\p) are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return fail_at(k, ST_UNSUPPORTED, begin, "unknown escape");
    k->at--;
    *cp = code_point_next(k->s, &k->at);
    return ST_OK;
}

/* One character of a set, or a class; *single: a character that may begin a range. */
static enum status set_item(struct parser *k, struct charset *set, bool *single, uint32_t *cp)
{
    *single = false;
    if (take(k, "\\")) {
        if (k->at < k->n && take_class(k, set))
            return ST_OK;
        TRY(read_escape(k, true, cp));
    } else {
        *cp = code_point_next(k->s, &k->at);
    }
    *single = true;
    return ST_OK;
}

/* at: behind [ */
static enum status parse_set(struct parser *k, uint32_t *out)
{
    struct charset set = {.n = 0};
    size_t begin = k->at - 1;
    bool negate = take(k, "^"), single;
    uint32_t lo, hi;
    while (k->at < k->n && k->s[k->at] != ']') {
        if (looking_at(k, "[:") || looking_at(k, "[.") || looking_at(k, "[="))
            return fail_at(k, ST_UNSUPPORTED, k->at, "classes of POSIX are not supported");
        TRY(set_item(k, &set, &single, &lo));
        if (!single)
            continue;
        hi = lo;
        if (k->n - k->at >= 2 && k->s[k->at] == '-' && k->s[k->at + 1] != ']') {
            size_t dash = k->at++;
            TRY(set_item(k, &set, &single, &hi));
            if (!single) { /* [a-\d]: the dash is itself */
                charset_add(&set, '-', '-');
                hi = lo;
            }
            if (hi < lo)
                return fail_at(k, ST_FORMAT, dash, "a range of a set runs backwards");
        }
        charset_add(&set, lo, hi);
    }
    if (!take(k, "]"))
        return fail_at(k, ST_FORMAT, begin, "[ without its ]");
    if (negate)
        charset_negate(&set);
    return add_set(k, &set, out);
}

/* ---- structure ---- */

static enum status parse_group(struct parser *k, uint32_t *out)
{
    size_t begin = k->at - 1;
    if (take(k, "?")) {
        bool named = take(k, "P<") || (looking_at(k, "<") && !looking_at(k, "<=") &&
                                       !looking_at(k, "<!") && take(k, "<"));
        if (named) {
            while (k->at < k->n && k->s[k->at] != '>')
                k->at++;
            if (!take(k, ">"))
                return fail_at(k, ST_FORMAT, begin, "a group's name without its >");
        } else if (!take(k, ":")) {
            bool look = looking_at(k, "=") || looking_at(k, "!") || looking_at(k, "<");
            return fail_at(k, ST_UNSUPPORTED, begin,
                           look ? "look-around is not supported"
                                : "flags and groups of this kind are not supported");
        }
    }
    if (++k->depth > REGEX_MAX_DEPTH)
        return fail_at(k, ST_RANGE, begin, "groups are nested too deeply");
    TRY(parse_or(k, out));
    k->depth--;
    return take(k, ")") ? ST_OK : fail_at(k, ST_FORMAT, begin, "( without its )");
}

static enum status parse_escape(struct parser *k, uint32_t *out)
{
    struct charset set = {.n = 0};
    uint32_t cp;
    if (k->at < k->n && k->s[k->at] == 'k')
        return fail_at(k, ST_UNSUPPORTED, k->at - 1, "back-references are not supported");
    if (k->at >= k->n || !take_class(k, &set)) {
        TRY(read_escape(k, false, &cp));
        charset_add(&set, cp, cp);
    }
    return add_set(k, &set, out);
}

static enum status parse_dot(struct parser *k, uint32_t *out)
{
    struct charset set = {.n = 0};
    charset_add(&set, '\n', '\n');
    charset_add(&set, '\r', '\r');
    charset_add(&set, 0x2028, 0x2029);
    charset_negate(&set);
    return add_set(k, &set, out);
}

static enum status parse_atom(struct parser *k, uint32_t *out)
{
    struct charset set = {.n = 0};
    struct regex_node border = {.at = (uint32_t)k->at};
    char c = k->s[k->at];
    if (c == '*' || c == '+' || c == '?')
        return fail_at(k, ST_FORMAT, k->at, "nothing to repeat");
    if (take(k, "("))
        return parse_group(k, out);
    if (take(k, "["))
        return parse_set(k, out);
    if (take(k, "\\"))
        return parse_escape(k, out);
    if (take(k, "."))
        return parse_dot(k, out);
    if (take(k, "^") || take(k, "$")) {
        border.kind = c == '^' ? RX_BEGIN : RX_END;
        return add(k, border, out);
    }
    uint32_t cp = code_point_next(k->s, &k->at);
    charset_add(&set, cp, cp);
    return add_set(k, &set, out);
}

static bool read_count(struct parser *k, uint32_t *out)
{
    uint64_t v = 0;
    size_t begin = k->at;
    for (; k->at < k->n && k->s[k->at] >= '0' && k->s[k->at] <= '9'; k->at++)
        v = v < UINT32_MAX ? v * 10 + (uint64_t)(k->s[k->at] - '0') : v;
    *out = v > REGEX_MAX_REPEAT ? REGEX_MAX_REPEAT + 1 : (uint32_t)v;
    return k->at > begin;
}

/* A {m,n}; a brace that does not have this form is a character. */
static bool take_braces(struct parser *k, uint32_t *min, uint32_t *max)
{
    size_t begin = k->at;
    if (!take(k, "{"))
        return false;
    bool ok = read_count(k, min);
    *max = *min;
    if (ok && take(k, ",") && !read_count(k, max))
        *max = EXPR_NO_LIMIT;
    if (ok && take(k, "}"))
        return true;
    k->at = begin;
    return false;
}

static enum status parse_repeat(struct parser *k, uint32_t *out)
{
    TRY(parse_atom(k, out));
    for (;;) {
        struct regex_node r = {
            .kind = RX_REPEAT, .a = *out, .max = EXPR_NO_LIMIT, .at = (uint32_t)k->at};
        if (take(k, "+"))
            r.min = 1;
        else if (take(k, "?"))
            r.max = 1;
        else if (!take(k, "*") && !take_braces(k, &r.min, &r.max))
            return ST_OK;
        if (r.min > REGEX_MAX_REPEAT || (r.max != EXPR_NO_LIMIT && r.max > REGEX_MAX_REPEAT))
            return fail_at(k, ST_RANGE, r.at, "too many repetitions");
        if (r.min > r.max)
            return fail_at(k, ST_FORMAT, r.at, "{m,n} with m > n");
        if (looking_at(k, "+"))
            return fail_at(k, ST_UNSUPPORTED, k->at, "possessive repetition is not supported");
        (void)take(k, "?"); /* lazy: the same texts */
        TRY(add(k, r, out));
    }
}

static enum status parse_concat(struct parser *k, uint32_t *out)
{
    uint32_t item;
    TRY(add(k, (struct regex_node){.kind = RX_EMPTY, .at = (uint32_t)k->at}, out));
    while (k->at < k->n && k->s[k->at] != '|' && k->s[k->at] != ')') {
        TRY(parse_repeat(k, &item));
        TRY(add(k, (struct regex_node){.kind = RX_CONCAT, .a = *out, .b = item}, out));
    }
    return ST_OK;
}

static enum status parse_or(struct parser *k, uint32_t *out)
{
    uint32_t item;
    TRY(parse_concat(k, out));
    while (take(k, "|")) {
        TRY(parse_concat(k, &item));
        TRY(add(k, (struct regex_node){.kind = RX_OR, .a = *out, .b = item}, out));
    }
    return ST_OK;
}

enum status regex_parse(struct regex_tree *tree, struct expr_pool *p, const char *pattern, size_t n,
                        enum text_form form)
{
    struct parser k = {.tree = tree, .pool = p, .s = pattern, .n = n, .form = form};
    if (n > REGEX_MAX_BYTES)
        FAIL(ST_RANGE, "a regular expression of %zu bytes is longer than %d", n, REGEX_MAX_BYTES);
    if (!utf8_valid(pattern, n))
        FAIL(ST_FORMAT, "the regular expression is not UTF-8");
    TRY(parse_or(&k, &tree->root));
    return k.at == n ? ST_OK : fail_at(&k, ST_FORMAT, k.at, ") without its (");
}
