/* Numbers, strings, and lists of constants. */
#include <stdio.h>

#include "common/grammar/charset.h"
#include "common/grammar/growing.h"
#include "common/grammar/number_expr.h"
#include "common/grammar/regex.h"
#include "common/grammar/schema_impl.h"
#include "common/grammar/string_expr.h"

enum { MAX_COMPARISONS = 1 << 22 }; /* of constants; about 0.2 s */

/* ---- numbers ---- */

static enum status read_decimal(const struct schema_compiler *k, uint32_t node, struct decimal *d)
{
    if (k->tree.nodes[node].type != JSON_NUMBER)
        return schema_fail(k, node, ST_FORMAT, "must be a number");
    if (decimal_read(d, k->tree.nodes[node].value) != ST_OK)
        return schema_fail(k, node, ST_RANGE, "the number has too many digits");
    return ST_OK;
}

/* Keeps the stricter of two bounds; sign 1: a lower bound. */
static void tighten(struct number_bound *b, const struct number_bound *other, int sign)
{
    int c = b->set ? sign * decimal_compare(&other->value, &b->value) : 1;
    if (c > 0)
        *b = *other;
    else if (c == 0)
        b->exclusive = b->exclusive || other->exclusive;
}

static enum status add_bound(const struct schema_compiler *k, uint32_t node, const char *name,
                             const char *exclusive, int sign, struct number_bound *b)
{
    uint32_t m = schema_member(&k->tree, node, name), e = schema_member(&k->tree, node, exclusive);
    bool flag = e != SCHEMA_NO_NODE && k->tree.nodes[e].type == JSON_BOOL; /* as in draft 4 */
    struct number_bound one = {.set = true};
    if (m != SCHEMA_NO_NODE) {
        TRY(read_decimal(k, m, &one.value));
        one.exclusive = flag && k->tree.nodes[e].value.p[0] == 't';
        tighten(b, &one, sign);
    }
    if (e != SCHEMA_NO_NODE && !flag) {
        TRY(read_decimal(k, e, &one.value));
        one.exclusive = true;
        tighten(b, &one, sign);
    }
    return ST_OK;
}

static enum status add_divisor(const struct schema_compiler *k, uint32_t node,
                               struct number_rule *rule)
{
    uint32_t m = schema_member(&k->tree, node, "multipleOf");
    struct decimal d;
    uint64_t v = 0;
    if (m == SCHEMA_NO_NODE)
        return ST_OK;
    TRY(read_decimal(k, m, &d));
    if (d.negative || (d.n_whole == 0 && d.n_fraction == 0))
        return schema_fail(k, m, ST_FORMAT, "must be above 0");
    for (int i = 0; i < d.n_whole && v < UINT32_MAX; i++)
        v = v * 10 + (uint64_t)(d.whole[i] - '0');
    for (int i = 0; i < d.n_fraction && v < UINT32_MAX; i++)
        v = v * 10 + (uint64_t)(d.fraction[i] - '0');
    if (v >= 100000 || d.n_fraction > 9)
        return schema_fail(k, m, ST_UNSUPPORTED, "more than five digits");
    if (rule->divisor)
        return schema_fail(k, m, ST_UNSUPPORTED, "two of them hold together");
    rule->divisor = (uint32_t)v;
    rule->decimals = (uint32_t)d.n_fraction;
    return ST_OK;
}

static enum status number_rule(const struct schema_compiler *k, const struct shape *s,
                               struct number_rule *rule)
{
    *rule = (struct number_rule){.integer = s->integer};
    for (uint32_t i = 0; i < s->all.n; i++) {
        uint32_t node = s->all.node[i];
        TRY(add_bound(k, node, "minimum", "exclusiveMinimum", 1, &rule->lo));
        TRY(add_bound(k, node, "maximum", "exclusiveMaximum", -1, &rule->hi));
        TRY(add_divisor(k, node, rule));
    }
    return ST_OK;
}

enum status schema_number(struct schema_compiler *k, const struct shape *s, uint32_t *rule)
{
    struct number_rule n;
    TRY(number_rule(k, s, &n));
    *rule = rules_lexeme(k->rules, number_expr(k->pool, &n));
    return ST_OK;
}

/* ---- strings ---- */

static enum status add_pattern(struct schema_compiler *k, uint32_t node, uint32_t *expr,
                               bool *plain)
{
    uint32_t m = schema_member(&k->tree, node, "pattern"), e;
    struct text_buf text = {0};
    if (m == SCHEMA_NO_NODE)
        return ST_OK;
    enum status st = json_span_text(k->tree.nodes[m].value, &text);
    if (st == ST_OK)
        st = regex_compile(k->pool, text.data, text.len, REGEX_SEARCH, style_form(k->style), &e);
    text_buf_free(&text);
    if (st != ST_OK) {
        char why[200];
        snprintf(why, sizeof why, "%s", status_text());
        return schema_fail(k, m, st, "%s", why);
    }
    *expr = expr_and2(k->pool, *expr, e);
    *plain = false;
    return ST_OK;
}

static enum status add_format(struct schema_compiler *k, uint32_t node, uint32_t *expr, bool *plain)
{
    uint32_t m = schema_member(&k->tree, node, "format"), e;
    char name[64] = "";
    struct json_cursor c;
    if (m == SCHEMA_NO_NODE)
        return ST_OK;
    struct json_span s = k->tree.nodes[m].value;
    if (json_open(&c, s.p - 1, s.n + 2, NULL) != ST_OK ||
        json_read_chars(&c, name, sizeof name) != ST_OK ||
        string_format(k->pool, style_form(k->style), name, &e) != ST_OK)
        return schema_fail(k, m, ST_UNSUPPORTED, "this format is not supported");
    *expr = expr_and2(k->pool, *expr, e);
    *plain = false;
    return ST_OK;
}

enum status schema_string_expr(struct schema_compiler *k, const struct conj *c, bool *plain,
                               uint32_t *expr)
{
    uint32_t min = 0, max = EXPR_NO_LIMIT, lo, hi;
    *expr = EXPR_ALL;
    *plain = true;
    for (uint32_t i = 0; i < c->n; i++) {
        TRY(schema_count(k, c->node[i], "minLength", 0, &lo));
        TRY(schema_count(k, c->node[i], "maxLength", EXPR_NO_LIMIT, &hi));
        min = lo > min ? lo : min;
        max = hi < max ? hi : max;
        TRY(add_pattern(k, c->node[i], expr, plain));
        TRY(add_format(k, c->node[i], expr, plain));
    }
    if (min > 0 || max != EXPR_NO_LIMIT)
        *plain = false;
    bool not_empty = *expr != EXPR_ALL && !expr_nullable(k->pool, *expr);
    if (min > max)
        *expr = EXPR_NONE;
    else if (min == 1 && max == EXPR_NO_LIMIT && not_empty)
        return ST_OK; /* of one character at least as it is */
    else if (min > 0 || max != EXPR_NO_LIMIT || *expr == EXPR_ALL)
        *expr = expr_and2(k->pool, *expr, string_length(k->pool, style_form(k->style), min, max));
    return ST_OK;
}

enum status schema_string(struct schema_compiler *k, const struct conj *c, uint32_t *rule)
{
    bool plain;
    uint32_t e;
    TRY(schema_string_expr(k, c, &plain, &e));
    *rule = rules_lexeme(k->rules, plain ? style_any_string(k->style, k->pool)
                                         : style_quoted(k->style, k->pool, e));
    return ST_OK;
}

/* ---- constants ---- */

static bool among(const struct schema_tree *t, uint32_t list, uint32_t value)
{
    for (uint32_t i = t->nodes[list].first; i != SCHEMA_NO_NODE; i = t->nodes[i].next)
        if (schema_equal(t, i, value))
            return true;
    return false;
}

/* Do const and enum of all schemas of the shape contain the value?  It is one of the list that begins with `from`. */
static bool listed(const struct schema_compiler *k, const struct shape *s, uint32_t from,
                   uint32_t value)
{
    const struct schema_tree *t = &k->tree;
    for (uint32_t i = 0; i < s->all.n; i++) {
        uint32_t c = schema_member(t, s->all.node[i], "const"),
                 e = schema_member(t, s->all.node[i], "enum");
        if ((c != SCHEMA_NO_NODE && !schema_equal(t, c, value)) ||
            (e != SCHEMA_NO_NODE && t->nodes[e].first != from && !among(t, e, value)))
            return false;
    }
    return true;
}

/* Has a schema of the shape a keyword that arrays and objects must satisfy? */
static bool has_structure(const struct schema_compiler *k, const struct shape *s)
{
    static const char *const names[] = {
        "properties",    "required", "additionalProperties", "patternProperties", "minProperties",
        "maxProperties", "items",    "prefixItems",          "additionalItems",   "minItems",
        "maxItems"};
    for (uint32_t i = 0; i < s->all.n; i++)
        for (size_t w = 0; w < ARRAY_LEN(names); w++)
            if (schema_member(&k->tree, s->all.node[i], names[w]) != SCHEMA_NO_NODE)
                return true;
    return false;
}

/* What scalars of the shape must be besides listed. */
struct limits {
    uint32_t number; /* expressions; EXPR_ALL: any */
    uint32_t string; /* without quotes */
};

static enum status read_limits(struct schema_compiler *k, const struct shape *s, struct limits *l)
{
    struct number_rule n;
    bool plain;
    TRY(number_rule(k, s, &n));
    bool any = !n.integer && !n.lo.set && !n.hi.set && !n.divisor;
    l->number = any ? EXPR_ALL : number_expr(k->pool, &n);
    TRY(schema_string_expr(k, &s->all, &plain, &l->string));
    if (plain)
        l->string = EXPR_ALL;
    return ST_OK;
}

static enum status allowed(struct schema_compiler *k, const struct shape *s, const struct limits *l,
                           uint32_t from, uint32_t value, struct text_buf *text, bool *ok)
{
    enum json_type type = k->tree.nodes[value].type;
    *ok = (s->types & schema_type_bit(type)) && listed(k, s, from, value);
    if (!*ok)
        return ST_OK;
    if ((type == JSON_OBJECT || type == JSON_ARRAY) && has_structure(k, s))
        return schema_fail(k, value, ST_UNSUPPORTED,
                           "an array or object among constants beside keywords for its contents");
    enum status st = schema_write(&k->tree, k->style, value, text);
    if (st == ST_UNSUPPORTED)
        return schema_fail(k, value, st, "it has the mark of a string in it");
    TRY(st);
    size_t quote = style_is_json(k->style) ? 1 : k->style->quote.len;
    if (type == JSON_NUMBER && l->number != EXPR_ALL)
        *ok = expr_matches(k->pool, l->number, text->data, text->len);
    if (type == JSON_STRING && l->string != EXPR_ALL)
        *ok = expr_matches(k->pool, l->string, text->data + quote, text->len - 2 * quote);
    return ST_OK;
}

static uint64_t n_values(const struct schema_tree *t, uint32_t first)
{
    uint64_t n = 0;
    for (uint32_t i = first; i != SCHEMA_NO_NODE; i = t->nodes[i].next)
        n++;
    return n;
}

/* Each value of the list is looked for in every other enum of the shape. */
static enum status check_comparisons(const struct schema_compiler *k, const struct shape *s,
                                     uint32_t first)
{
    const struct schema_tree *t = &k->tree;
    uint64_t others = 0;
    for (uint32_t i = 0; i < s->all.n; i++) {
        uint32_t e = schema_member(t, s->all.node[i], "enum");
        if (e != SCHEMA_NO_NODE && t->nodes[e].first != first)
            others += n_values(t, t->nodes[e].first);
    }
    if (n_values(t, first) * others > MAX_COMPARISONS)
        return schema_fail(k, first, ST_RANGE, "enums of too many values that must hold together");
    return ST_OK;
}

/* Texts of the values, in one buffer. */
struct constants {
    struct text_buf text;
    uint32_t *ends; /* of each in text */
    uint32_t n, cap;
};

static enum status collect(struct schema_compiler *k, const struct shape *s, uint32_t first,
                           bool one, struct constants *all)
{
    struct limits l;
    if (!one)
        TRY(check_comparisons(k, s, first));
    TRY(read_limits(k, s, &l));
    for (uint32_t i = first; i != SCHEMA_NO_NODE && work_check(k->tree.work) == ST_OK;
         i = one ? SCHEMA_NO_NODE : k->tree.nodes[i].next) {
        struct text_buf text = {0};
        bool ok;
        enum status st = allowed(k, s, &l, first, i, &text, &ok);
        if (st == ST_OK && ok)
            st = GROW(&all->ends, &all->cap, (size_t)all->n + 1, SCHEMA_MAX_BYTES,
                      "the values of an enum");
        if (st == ST_OK && ok)
            st = text_buf_append(&all->text, text.data, text.len);
        if (st == ST_OK && ok)
            all->ends[all->n++] = (uint32_t)all->text.len;
        text_buf_free(&text);
        TRY(st);
    }
    return work_check(k->tree.work);
}

static enum status choice_rule(struct schema_compiler *k, const struct constants *all,
                               uint32_t *rule)
{
    struct expr_text *texts = calloc((size_t)all->n + 1, sizeof *texts);
    if (!texts)
        FAIL(ST_NOMEM, "no memory for %u constants", all->n);
    for (uint32_t i = 0, begin = 0; i < all->n; begin = all->ends[i++])
        texts[i] = (struct expr_text){all->text.data + begin, all->ends[i] - begin};
    *rule = all->n ? rules_lexeme(k->rules, expr_choice(k->pool, texts, all->n)) : rule_never(k);
    free(texts);
    return ST_OK;
}

enum status schema_enum(struct schema_compiler *k, const struct shape *s, bool *found,
                        uint32_t *rule)
{
    struct constants all = {.n = 0};
    uint32_t first = SCHEMA_NO_NODE;
    bool one = false;
    *found = false;
    for (uint32_t i = 0; i < s->all.n && !*found; i++) {
        uint32_t c = schema_member(&k->tree, s->all.node[i], "const"),
                 e = schema_member(&k->tree, s->all.node[i], "enum");
        one = c != SCHEMA_NO_NODE;
        *found = one || e != SCHEMA_NO_NODE;
        if (*found)
            first = one ? c : k->tree.nodes[e].first;
    }
    if (!*found)
        return ST_OK;
    enum status st = collect(k, s, first, one, &all);
    if (st == ST_OK)
        st = choice_rule(k, &all, rule);
    text_buf_free(&all.text);
    free(all.ends);
    return st;
}
