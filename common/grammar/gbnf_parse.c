#include "common/grammar/gbnf_parse.h"

#include <stdio.h>

#include "common/grammar/growing.h"
#include "common/hash.h"
#include "common/utf8.h"

enum { FIRST_TABLE = 256, MAX_IN_A_ROW = 4 /* repetitions of repetitions without a group */ };

struct parser {
    struct gbnf_tree *tree;
    struct expr_pool *pool;
    const char *s;
    size_t n, at;
    uint32_t line;
    unsigned depth;
};

static enum status parse_alternatives(struct parser *k, bool nested, uint32_t *out);

/* Fails with the line and the column (in characters) of a byte. */
static enum status fail_at(const struct parser *k, enum status code, size_t at, const char *what)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < k->n; i++) {
        bool ends = k->s[i] == '\n';
        line += ends;
        column = ends ? 1 : column + (((uint8_t)k->s[i] & 0xc0) != 0x80);
    }
    FAIL(code, "grammar, line %zu, column %zu: %s", line, column, what);
}

/* The byte at an offset from here, 0: the end (a NUL in the text is refused as any unknown character). */
static char peek(const struct parser *k, size_t ahead)
{
    return k->n - k->at > ahead ? k->s[k->at + ahead] : 0;
}

static bool take(struct parser *k, char c)
{
    if (k->at == k->n || k->s[k->at] != c)
        return false;
    k->at++;
    return true;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* Blanks and comments; lines' ends too if these may be there. */
static void skip_space(struct parser *k, bool lines)
{
    for (; k->at < k->n; k->at++) {
        char c = k->s[k->at];
        bool ends = c == '\n' || c == '\r';
        if (c == '#') {
            while (k->at + 1 < k->n && k->s[k->at + 1] != '\n' && k->s[k->at + 1] != '\r')
                k->at++;
        } else if (c != ' ' && c != '\t' && !(lines && ends)) {
            return;
        }
        k->line += lines && c == '\n';
    }
}

static enum status add(struct parser *k, struct gbnf_node node, uint32_t *out)
{
    struct gbnf_tree *t = k->tree;
    TRY(GROW(&t->nodes, &t->cap_nodes, (size_t)t->n_nodes + 1, GBNF_MAX_NODES,
             "the parts of a grammar"));
    node.next = GBNF_NONE;
    node.line = k->line;
    *out = t->n_nodes;
    t->nodes[t->n_nodes++] = node;
    return ST_OK;
}

/* ---- names ---- */

static uint64_t hash_name(const struct gbnf_tree *t, const struct gbnf_rule *r)
{
    return hash_bytes(0, t->text + r->name, r->n_name);
}

static enum status grow_table(struct gbnf_tree *t)
{
    uint32_t n = t->n_table ? 2 * t->n_table : FIRST_TABLE;
    uint32_t *table = calloc(n, sizeof *table);
    if (!table)
        FAIL(ST_NOMEM, "no memory for the rules of a grammar");
    for (uint32_t i = 0; i < t->n_rules; i++) {
        uint32_t at = (uint32_t)hash_name(t, &t->rules[i]) & (n - 1);
        while (table[at])
            at = (at + 1) & (n - 1);
        table[at] = i + 1;
    }
    free(t->table);
    t->table = table;
    t->n_table = n;
    return ST_OK;
}

/* The rule of the name here, found or made; moves behind it. */
static enum status take_name(struct parser *k, uint32_t *rule)
{
    struct gbnf_tree *t = k->tree;
    struct gbnf_rule new = {.name = (uint32_t)k->at, .at = (uint32_t)k->at};
    while (k->at < k->n && is_name_char(k->s[k->at]))
        k->at++;
    new.n_name = (uint32_t)k->at - new.name;
    if (new.n_name == 0)
        return fail_at(k, ST_FORMAT, new.at, "the name of a rule is expected");
    if (new.n_name > GBNF_MAX_NAME)
        return fail_at(k, ST_RANGE, new.at, "the name of a rule is too long");
    if (2 * (t->n_rules + 1) >= t->n_table)
        TRY(grow_table(t));
    uint32_t at = (uint32_t)hash_name(t, &new) & (t->n_table - 1);
    for (; t->table[at]; at = (at + 1) & (t->n_table - 1)) {
        const struct gbnf_rule *r = &t->rules[t->table[at] - 1];
        if (r->n_name == new.n_name && memcmp(t->text + r->name, k->s + new.name, r->n_name) == 0) {
            *rule = t->table[at] - 1;
            return ST_OK;
        }
    }
    TRY(GROW(&t->rules, &t->cap_rules, (size_t)t->n_rules + 1, GBNF_MAX_RULES,
             "the rules of a grammar"));
    *rule = t->n_rules;
    t->rules[t->n_rules++] = new;
    t->table[at] = t->n_rules;
    return ST_OK;
}

/* ---- characters ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum status read_hex(struct parser *k, unsigned digits, uint32_t *out)
{
    size_t begin = k->at;
    uint32_t v = 0;
    for (unsigned i = 0; i < digits; i++, k->at++) {
        int digit = k->at < k->n ? hex_value(k->s[k->at]) : -1;
        if (digit < 0)
            return fail_at(k, ST_FORMAT, begin, "too few hexadecimal digits of a character");
        v = v << 4 | (uint32_t)digit;
    }
    if (v > CODE_POINT_MAX)
        return fail_at(k, ST_FORMAT, begin, "there is no such character");
    *out = v;
    return ST_OK;
}

/* A character of a literal or set; not at the end. */
static enum status read_char(struct parser *k, uint32_t *cp)
{
    size_t begin = k->at;
    if (!take(k, '\\')) {
        k->line += k->s[k->at] == '\n';
        *cp = code_point_next(k->s, &k->at);
        return ST_OK;
    }
    char c = peek(k, 0);
    k->at++;
    switch (c) {
    case 'n':
        *cp = '\n';
        return ST_OK;
    case 'r':
        *cp = '\r';
        return ST_OK;
    case 't':
        *cp = '\t';
        return ST_OK;
    case 'x':
        return read_hex(k, 2, cp);
    case 'u':
        return read_hex(k, 4, cp);
    case 'U':
        return read_hex(k, 8, cp);
    default:
        if (!c || !strchr("\\\"[]-^", c))
            return fail_at(k, ST_UNSUPPORTED, begin, "unknown escape");
        *cp = (uint32_t)c;
        return ST_OK;
    }
}

/* Behind the quote. */
static enum status parse_literal(struct parser *k, uint32_t *out)
{
    struct gbnf_tree *t = k->tree;
    struct gbnf_node node = {.kind = GB_TEXT, .first = GBNF_NONE, .value = t->n_bytes};
    size_t begin = k->at - 1;
    uint32_t cp;
    while (k->at < k->n && k->s[k->at] != '"') {
        size_t at = k->at;
        TRY(read_char(k, &cp));
        if (cp >= 0xd800 && cp <= 0xdfff)
            return fail_at(k, ST_FORMAT, at, "half of a surrogate pair is no character");
        TRY(GROW(&t->bytes, &t->cap_bytes, (size_t)t->n_bytes + 4, 2 * k->n + 4, "literals"));
        t->n_bytes += (uint32_t)code_point_put(cp, (uint8_t *)t->bytes + t->n_bytes);
    }
    if (!take(k, '"'))
        return fail_at(k, ST_FORMAT, begin, "\" without its end");
    node.size = t->n_bytes - node.value;
    return add(k, node, out);
}

static enum status add_set(struct parser *k, size_t begin, struct charset *set, uint32_t *out)
{
    charset_normalize(set);
    if (set->full)
        return fail_at(k, ST_RANGE, begin, "a set has too many ranges");
    struct gbnf_node node = {.kind = GB_EXPR, .first = GBNF_NONE, .size = set->n};
    node.value = charset_expr(k->pool, set, TEXT_PLAIN);
    if (node.value == EXPR_NONE)
        return fail_at(k, ST_FORMAT, begin, "a set without a character");
    return add(k, node, out);
}

/* Behind [ */
static enum status parse_set(struct parser *k, uint32_t *out)
{
    struct charset set = {.n = 0};
    size_t begin = k->at - 1;
    bool negate = take(k, '^');
    uint32_t lo, hi;
    while (k->at < k->n && k->s[k->at] != ']') {
        size_t at = k->at;
        TRY(read_char(k, &lo));
        hi = lo;
        if (peek(k, 0) == '-' && peek(k, 1) && peek(k, 1) != ']') {
            k->at++;
            TRY(read_char(k, &hi));
        }
        if (hi < lo)
            return fail_at(k, ST_FORMAT, at, "a range of a set runs backwards");
        charset_add(&set, lo, hi);
    }
    if (!take(k, ']'))
        return fail_at(k, ST_FORMAT, begin, "[ without its ]");
    if (set.n == 0)
        return fail_at(k, ST_FORMAT, begin, "a set without a character");
    if (negate)
        charset_negate(&set);
    return add_set(k, begin, &set, out);
}

static enum status parse_any(struct parser *k, uint32_t *out)
{
    struct gbnf_node node = {.kind = GB_EXPR, .first = GBNF_NONE, .size = 1};
    node.value = charset_any(k->pool, TEXT_PLAIN);
    return add(k, node, out);
}

/* ---- structure ---- */

/* Behind ( */
static enum status parse_group(struct parser *k, uint32_t *out)
{
    size_t begin = k->at - 1;
    if (++k->depth > GBNF_MAX_DEPTH)
        return fail_at(k, ST_RANGE, begin, "groups are nested too deeply");
    skip_space(k, true);
    TRY(parse_alternatives(k, true, out));
    k->depth--;
    if (k->at == k->n)
        return fail_at(k, ST_FORMAT, begin, "( without its )");
    return take(k, ')') ? ST_OK : fail_at(k, ST_FORMAT, k->at, "this is no part of a group");
}

static enum status read_count(struct parser *k, uint32_t *out)
{
    size_t begin = k->at;
    uint64_t v = 0;
    for (; k->at < k->n && k->s[k->at] >= '0' && k->s[k->at] <= '9'; k->at++)
        v = v <= GBNF_MAX_REPEAT ? v * 10 + (uint64_t)(k->s[k->at] - '0') : v;
    if (k->at == begin)
        return fail_at(k, ST_FORMAT, begin, "a number is expected");
    if (v > GBNF_MAX_REPEAT)
        return fail_at(k, ST_RANGE, begin, "too many repetitions");
    *out = (uint32_t)v;
    return ST_OK;
}

/* At * + ? or { */
static enum status read_times(struct parser *k, bool lines, uint32_t *min, uint32_t *max)
{
    size_t begin = k->at;
    char c = k->s[k->at++];
    *min = c == '+';
    *max = c == '?' ? 1 : EXPR_NO_LIMIT;
    if (c != '{')
        return ST_OK;
    skip_space(k, lines);
    TRY(read_count(k, min));
    skip_space(k, lines);
    *max = *min;
    if (take(k, ',')) {
        skip_space(k, lines);
        *max = EXPR_NO_LIMIT;
        if (peek(k, 0) != '}')
            TRY(read_count(k, max));
        skip_space(k, lines);
    }
    if (!take(k, '}'))
        return fail_at(k, ST_FORMAT, begin, "{ without its }");
    if (*min > *max)
        return fail_at(k, ST_FORMAT, begin, "{m,n} with m > n");
    return ST_OK;
}

/* x{a,b}{min,max} as one repetition, where it is one without gaps: the times are k a to k b for each k.  ST_NOT_FOUND: it is
 * none; ST_RANGE: too many times. */
static enum status join_times(struct gbnf_node *node, uint32_t min, uint32_t max)
{
    uint64_t a = node->min, b = node->max, no = EXPR_NO_LIMIT;
    uint64_t low = a * min, high = b == no || max == no ? no : b * max;
    bool dense = min == max || (min ? b == no || min * b + 1 >= (min + 1) * a : a <= 1);
    if (max == 0 || b == 0)
        low = high = 0;
    else if (!dense)
        return ST_NOT_FOUND;
    else if ((high != no && high > GBNF_MAX_REPEAT) || low > GBNF_MAX_REPEAT)
        return ST_RANGE;
    node->min = (uint32_t)low;
    node->max = (uint32_t)high;
    return ST_OK;
}

/* The node becomes its own repetition. */
static enum status repeat(struct parser *k, uint32_t node, uint32_t min, uint32_t max)
{
    uint32_t child;
    enum status st = ST_NOT_FOUND;
    if (k->tree->nodes[node].kind == GB_REPEAT)
        st = join_times(&k->tree->nodes[node], min, max);
    if (st == ST_RANGE)
        return fail_at(k, st, k->at, "repetitions of repetitions are too many together");
    if (st == ST_OK)
        return st;
    struct gbnf_node copy = k->tree->nodes[node];
    TRY(add(k, copy, &child));
    struct gbnf_node *r = &k->tree->nodes[node];
    r->kind = GB_REPEAT;
    r->first = child;
    r->min = min;
    r->max = max;
    return ST_OK;
}

static enum status parse_item(struct parser *k, uint32_t *out)
{
    struct gbnf_node ref = {.kind = GB_REF, .first = GBNF_NONE};
    char c = peek(k, 0);
    if (is_name_char(c)) {
        TRY(take_name(k, &ref.value));
        return add(k, ref, out);
    }
    k->at++;
    switch (c) {
    case '"':
        return parse_literal(k, out);
    case '[':
        return parse_set(k, out);
    case '(':
        return parse_group(k, out);
    default:
        return parse_any(k, out);
    }
}

static bool at_item(const struct parser *k)
{
    char c = peek(k, 0);
    return is_name_char(c) || (c && strchr("\"[(.", c));
}

/* A list of children as one node: the only one itself. */
struct children {
    uint32_t first, last, n;
};

static void add_child(struct parser *k, struct children *c, uint32_t node)
{
    if (c->n++)
        k->tree->nodes[c->last].next = node;
    else
        c->first = node;
    c->last = node;
}

static enum status end_children(struct parser *k, const struct children *c, enum gbnf_kind kind,
                                uint32_t *out)
{
    struct gbnf_node node = {.kind = kind, .first = c->n ? c->first : GBNF_NONE};
    *out = c->first;
    return c->n == 1 ? ST_OK : add(k, node, out);
}

static enum status parse_sequence(struct parser *k, bool nested, uint32_t *out)
{
    struct children c = {0};
    uint32_t item, min, max;
    unsigned in_a_row = 0;
    for (;; skip_space(k, nested)) {
        char next = peek(k, 0);
        if (at_item(k)) {
            TRY(parse_item(k, &item));
            add_child(k, &c, item);
            in_a_row = 0;
        } else if (next && strchr("*+?{", next)) {
            if (c.n == 0)
                return fail_at(k, ST_FORMAT, k->at, "nothing to repeat");
            if (++in_a_row > MAX_IN_A_ROW)
                return fail_at(k, ST_RANGE, k->at, "repetitions of repetitions of repetitions");
            TRY(read_times(k, nested, &min, &max));
            TRY(repeat(k, c.last, min, max));
        } else if (next == '<' || next == '!') {
            return fail_at(k, ST_UNSUPPORTED, k->at, "tokens (<...>) are not supported");
        } else {
            return end_children(k, &c, GB_SEQ, out);
        }
    }
}

/* Is there a | here, or at the beginning of the next line that has something?  Moves behind it. */
static bool take_bar(struct parser *k)
{
    struct parser here = *k;
    skip_space(k, true);
    if (take(k, '|'))
        return true;
    *k = here;
    return false;
}

static enum status parse_alternatives(struct parser *k, bool nested, uint32_t *out)
{
    struct children c = {0};
    uint32_t item;
    do {
        if (c.n)
            skip_space(k, true);
        TRY(parse_sequence(k, nested, &item));
        add_child(k, &c, item);
    } while (take_bar(k));
    return end_children(k, &c, GB_ALT, out);
}

static enum status parse_rule(struct parser *k)
{
    uint32_t rule, body;
    size_t begin = k->at;
    TRY(take_name(k, &rule));
    if (k->tree->rules[rule].line)
        return fail_at(k, ST_FORMAT, begin, "there is a rule of this name already");
    k->tree->rules[rule].line = k->line;
    skip_space(k, false);
    if (peek(k, 0) != ':' || peek(k, 1) != ':' || peek(k, 2) != '=')
        return fail_at(k, ST_FORMAT, k->at, "::= is expected");
    k->at += 3;
    skip_space(k, true);
    TRY(parse_alternatives(k, false, &body));
    k->tree->rules[rule].body = body;
    if (k->at < k->n && k->s[k->at] != '\n' && k->s[k->at] != '\r')
        return fail_at(k, ST_FORMAT, k->at, "this is no part of a rule");
    skip_space(k, true);
    return ST_OK;
}

static enum status check_rules(const struct parser *k)
{
    struct gbnf_tree *t = k->tree;
    char text[GBNF_MAX_NAME + 40];
    t->root = GBNF_NONE;
    for (uint32_t i = 0; i < t->n_rules; i++) {
        const struct gbnf_rule *r = &t->rules[i];
        if (r->n_name == 4 && memcmp(t->text + r->name, "root", 4) == 0)
            t->root = i;
        if (r->line)
            continue;
        snprintf(text, sizeof text, "there is no rule %.*s", (int)r->n_name, t->text + r->name);
        return fail_at(k, ST_FORMAT, r->at, text);
    }
    if (t->root == GBNF_NONE)
        FAIL(ST_FORMAT, "grammar: there is no rule root");
    return ST_OK;
}

enum status gbnf_parse(struct gbnf_tree *tree, struct expr_pool *p, const char *text, size_t n)
{
    struct parser k = {.tree = tree, .pool = p, .s = text, .n = n, .line = 1};
    *tree = (struct gbnf_tree){.text = text, .n_text = n};
    if (!utf8_valid(text, n))
        FAIL(ST_FORMAT, "the grammar is not UTF-8");
    skip_space(&k, true);
    while (k.at < n) {
        TRY(parse_rule(&k));
        TRY(expr_status(p));
    }
    return check_rules(&k);
}

void gbnf_tree_free(struct gbnf_tree *tree)
{
    free(tree->bytes);
    free(tree->nodes);
    free(tree->rules);
    free(tree->table);
    *tree = (struct gbnf_tree){0};
}
