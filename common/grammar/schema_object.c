/* Objects: the members of the properties in their order, then others. */
#include <stdio.h>

#include "common/grammar/charset.h"
#include "common/grammar/growing.h"
#include "common/grammar/regex.h"
#include "common/grammar/schema_impl.h"
#include "common/grammar/string_expr.h"
#include "common/hash.h"

enum {
    MAX_PATTERNS = 6, /* of patternProperties that hold together: 2^n kinds of names */
    MAX_MEMBERS = 1 << 16,
    MAX_COUNTED = 1 << 16, /* properties times counts of members */
};

struct member {
    struct json_span key; /* between its quotes, as written */
    char *name;           /* text of the key */
    size_t n_name;
    bool required;
    uint32_t rule; /* "name":value */
};

struct object {
    struct schema_compiler *k;
    const struct conj *c;
    struct member *members;
    uint32_t n, cap;
    uint32_t *table; /* [n_table] members + 1 by hash of their names; a power of two */
    uint32_t n_table;
    uint32_t min, max, n_required;
    uint32_t n_patterns;
    uint32_t pattern[MAX_PATTERNS]; /* nodes of their schemas */
    uint32_t pattern_expr[MAX_PATTERNS];
    uint32_t other; /* rule of any other member, "name":value */
    bool others;    /* may there be any? */
    uint32_t comma;
};

/* ---- reading ---- */

/* Where the member of that name is in the table, or would be. */
static uint32_t *slot_of(const struct object *o, const char *name, size_t n)
{
    uint32_t mask = o->n_table - 1, at = (uint32_t)hash_bytes(0, name, n) & mask;
    for (; o->table[at]; at = (at + 1) & mask) {
        const struct member *m = &o->members[o->table[at] - 1];
        work_spend(o->k->tree.work, 1 + n / 16);
        if (m->n_name == n && (n == 0 || memcmp(m->name, name, n) == 0))
            break;
    }
    return &o->table[at];
}

static enum status add_member(struct object *o, struct json_span key, bool required)
{
    struct text_buf name = {0};
    TRY(work_check(o->k->tree.work));
    TRY(json_span_text(key, &name));
    uint32_t *slot = slot_of(o, name.data, name.len);
    enum status st = ST_OK;
    if (*slot)
        o->members[*slot - 1].required = o->members[*slot - 1].required || required;
    else
        st = GROW(&o->members, &o->cap, (size_t)o->n + 1, MAX_MEMBERS,
                  "the properties of an object");
    if (*slot || st != ST_OK) {
        text_buf_free(&name);
        return st;
    }
    o->members[o->n++] =
        (struct member){.key = key, .name = name.data, .n_name = name.len, .required = required};
    *slot = o->n;
    return ST_OK;
}

static enum status read_members(struct object *o, const char *list, bool required)
{
    const struct schema_tree *t = &o->k->tree;
    for (uint32_t i = 0; i < o->c->n; i++) {
        uint32_t m = schema_member(t, o->c->node[i], list);
        if (m == SCHEMA_NO_NODE)
            continue;
        for (uint32_t p = t->nodes[m].first; p != SCHEMA_NO_NODE; p = t->nodes[p].next)
            TRY(add_member(o, required ? t->nodes[p].value : t->nodes[p].key, required));
    }
    return ST_OK;
}

static enum status add_pattern(struct object *o, uint32_t node)
{
    struct text_buf text = {0};
    if (o->n_patterns == MAX_PATTERNS)
        return schema_fail(o->k, node, ST_RANGE, "more than %d patternProperties hold together",
                           MAX_PATTERNS);
    enum status st = json_span_text(o->k->tree.nodes[node].key, &text);
    if (st == ST_OK)
        st = regex_compile(o->k->pool, text.data, text.len, REGEX_SEARCH, style_form(o->k->style),
                           &o->pattern_expr[o->n_patterns]);
    text_buf_free(&text);
    if (st != ST_OK) {
        char why[200];
        snprintf(why, sizeof why, "%s", status_text());
        return schema_fail(o->k, node, st, "%s", why);
    }
    o->pattern[o->n_patterns++] = node;
    return ST_OK;
}

/* A table with room for all members that the schemas name. */
static enum status make_table(struct object *o)
{
    const struct schema_tree *t = &o->k->tree;
    uint64_t n = 0;
    for (uint32_t i = 0; i < o->c->n; i++) {
        uint32_t p = schema_member(t, o->c->node[i], "properties"),
                 r = schema_member(t, o->c->node[i], "required");
        n += (p == SCHEMA_NO_NODE ? 0 : t->nodes[p].n) + (r == SCHEMA_NO_NODE ? 0 : t->nodes[r].n);
    }
    n = n < MAX_MEMBERS ? n : MAX_MEMBERS;
    o->n_table = 8;
    while (o->n_table < 2 * n)
        o->n_table *= 2;
    work_spend(t->work, o->n_table / 16);
    o->table = calloc(o->n_table, sizeof *o->table);
    if (!o->table)
        FAIL(ST_NOMEM, "no memory for %llu properties", (unsigned long long)n);
    return ST_OK;
}

static enum status read_object(struct object *o)
{
    const struct schema_tree *t = &o->k->tree;
    uint32_t min, max;
    o->max = EXPR_NO_LIMIT;
    for (uint32_t i = 0; i < o->c->n; i++) {
        uint32_t node = o->c->node[i], p = schema_member(t, node, "patternProperties");
        TRY(schema_count(o->k, node, "minProperties", 0, &min));
        TRY(schema_count(o->k, node, "maxProperties", EXPR_NO_LIMIT, &max));
        o->min = min > o->min ? min : o->min;
        o->max = max < o->max ? max : o->max;
        for (p = p == SCHEMA_NO_NODE ? p : t->nodes[p].first; p != SCHEMA_NO_NODE;
             p = t->nodes[p].next)
            TRY(add_pattern(o, p));
    }
    TRY(make_table(o));
    TRY(read_members(o, "properties", false));
    TRY(read_members(o, "required", true));
    for (uint32_t i = 0; i < o->n; i++)
        o->n_required += o->members[i].required;
    if (o->min <= o->n_required)
        o->min = 0; /* says nothing more */
    return ST_OK;
}

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    return style_compare_names(x->name, x->n_name, y->name, y->n_name);
}

/* In the style's order; the table is of no use from here on. */
static void sort_members(struct object *o)
{
    if (!style_is_json(o->k->style) && o->n > 1)
        qsort(o->members, o->n, sizeof *o->members, compare_members);
}

/* ---- the schemas of a member ---- */

static uint32_t key_literal(struct object *o, const struct member *m)
{
    return charset_literal(o->k->pool, m->name, m->n_name, style_form(o->k->style));
}

/* Does the name match the pattern's expression? */
static enum status name_matches(struct object *o, const struct member *m, uint32_t i_pattern,
                                bool *matches)
{
    struct expr_pool *p = o->k->pool;
    struct text_buf text = {0};
    if (style_form(o->k->style) == TEXT_PLAIN) {
        *matches = expr_matches(p, o->pattern_expr[i_pattern], m->name, m->n_name);
        return ST_OK;
    }
    enum status st = style_write_string(&schema_json, m->name, m->n_name, &text);
    if (st == ST_OK)
        *matches = expr_matches(p, o->pattern_expr[i_pattern], text.data + 1, text.len - 2);
    text_buf_free(&text);
    return st;
}

/* Of one schema of the conjunction: which patterns of the object are its own? */
static bool owns_pattern(const struct object *o, uint32_t node, uint32_t i_pattern)
{
    const struct schema_tree *t = &o->k->tree;
    return t->nodes[t->nodes[o->pattern[i_pattern]].parent].parent == node;
}

/* The schemas of a member in one schema of the conjunction: its property, the patterns of `matched`, or else the
 * additional one. */
static enum status add_schemas(const struct object *o, uint32_t node, const struct member *m,
                               unsigned matched, struct conj *value)
{
    const struct schema_tree *t = &o->k->tree;
    uint32_t properties = schema_member(t, node, "properties"), additional;
    bool known = false;
    if (m && properties != SCHEMA_NO_NODE) {
        uint32_t p = schema_find(t, properties, m->name, m->n_name);
        known = p != SCHEMA_NO_NODE;
        if (known)
            TRY(schema_conj_add(o->k, value, p));
    }
    for (uint32_t i = 0; i < o->n_patterns; i++)
        if (matched >> i & 1 && owns_pattern(o, node, i)) {
            known = true;
            TRY(schema_conj_add(o->k, value, o->pattern[i]));
        }
    additional = schema_member(t, node, "additionalProperties");
    if (!known && additional != SCHEMA_NO_NODE)
        TRY(schema_conj_add(o->k, value, additional));
    return ST_OK;
}

static enum status value_rule(struct object *o, const struct member *m, unsigned matched,
                              uint32_t *rule)
{
    struct conj value = {.n = 0};
    for (uint32_t i = 0; i < o->c->n; i++)
        TRY(add_schemas(o, o->c->node[i], m, matched, &value));
    return schema_rule(o->k, &value, rule);
}

/* The name as the style writes it, which has one way. */
static enum status styled_name(struct object *o, const struct member *m, uint32_t *expr)
{
    struct text_buf text = {0};
    enum status st = style_write_name(o->k->style, m->name, m->n_name, &text);
    if (st == ST_OK)
        *expr = expr_literal(o->k->pool, text.data, text.len);
    text_buf_free(&text);
    return st == ST_UNSUPPORTED
               ? schema_fail(o->k, o->c->node[0], st, "a name has the mark of a string in it")
               : st;
}

static enum status member_rule(struct object *o, struct member *m)
{
    struct expr_pool *p = o->k->pool;
    unsigned matched = 0;
    uint32_t value;
    for (uint32_t i = 0; i < o->n_patterns; i++) {
        bool matches = false;
        TRY(name_matches(o, m, i, &matches));
        matched |= (unsigned)matches << i;
    }
    TRY(value_rule(o, m, matched, &value));
    uint32_t key = EXPR_NONE;
    if (style_is_json(o->k->style))
        key = style_quoted(o->k->style, p, key_literal(o, m));
    else
        TRY(styled_name(o, m, &key));
    key = expr_concat(p, key, expr_range(p, ':', ':'));
    m->rule = rule_pair(o->k, rules_lexeme(o->k->rules, key), value);
    return ST_OK;
}

/* ---- other members ---- */

/* The names, between their quotes, that are no property and match exactly the patterns of `matched`. */
static enum status other_names(struct object *o, unsigned matched, uint32_t *expr)
{
    struct expr_pool *p = o->k->pool;
    uint32_t list[MAX_PATTERNS + 2], n = 0;
    uint32_t *names = calloc((size_t)o->n + 1, sizeof *names);
    if (!names)
        FAIL(ST_NOMEM, "no memory for %u properties", o->n);
    for (uint32_t i = 0; i < o->n_patterns; i++)
        list[n++] = matched >> i & 1 ? o->pattern_expr[i] : expr_not(p, o->pattern_expr[i]);
    for (uint32_t i = 0; i < o->n; i++)
        names[i] = key_literal(o, &o->members[i]);
    if (o->n)
        list[n++] = expr_not(p, expr_or(p, names, o->n));
    if (!matched)
        list[n++] = string_length(p, style_form(o->k->style), 0, EXPR_NO_LIMIT);
    *expr = expr_and(p, list, n);
    free(names);
    return ST_OK;
}

/* May a member that matches these patterns, and is no property, have any value at all? */
static bool forbidden(const struct object *o, unsigned matched)
{
    const struct schema_tree *t = &o->k->tree;
    for (uint32_t i = 0; i < o->c->n && !matched; i++) {
        uint32_t a = schema_member(t, o->c->node[i], "additionalProperties");
        if (a != SCHEMA_NO_NODE && t->nodes[a].type == JSON_BOOL && t->nodes[a].value.p[0] == 'f')
            return true;
    }
    return false;
}

static enum status others_rule(struct object *o)
{
    struct expr_pool *p = o->k->pool;
    uint32_t list[1 << MAX_PATTERNS], n = 0, names = EXPR_NONE, value;
    for (unsigned matched = 0; matched < 1U << o->n_patterns; matched++) {
        if (forbidden(o, matched))
            continue;
        bool plain = o->n == 0 && o->n_patterns == 0;
        TRY(other_names(o, matched, &names));
        TRY(value_rule(o, NULL, matched, &value));
        uint32_t key =
            plain ? style_any_string(o->k->style, p) : style_quoted(o->k->style, p, names);
        key = rules_lexeme(o->k->rules, expr_concat(p, key, expr_range(p, ':', ':')));
        list[n++] = rule_pair(o->k, key, value);
    }
    o->others = n > 0;
    o->other = rules_alt(o->k->rules, list, n);
    return ST_OK;
}

/* What follows c members when all properties have passed. */
static uint32_t tail_rule(struct object *o, uint32_t c)
{
    uint32_t more = rule_pair(o->k, o->comma, o->other);
    uint32_t min = o->min > c ? o->min - c : 0;
    uint32_t max = o->max == EXPR_NO_LIMIT ? o->max : o->max > c ? o->max - c : 0;
    if (!o->others || max == 0)
        return min ? rule_never(o->k) : 0;
    if (c > 0)
        return rules_repeat(o->k->rules, more, min, max);
    uint32_t rest =
        rules_repeat(o->k->rules, more, min ? min - 1 : 0, max == EXPR_NO_LIMIT ? max : max - 1);
    uint32_t some = rule_pair(o->k, o->other, rest);
    return min ? some : rules_alt(o->k->rules, (uint32_t[]){0, some}, 2);
}

/* ---- the whole ---- */

/* The greatest count of members that matters: 1 if it is only whether a comma comes first. */
static enum status greatest_count(const struct object *o, uint32_t *most)
{
    *most = 1;
    if (o->max != EXPR_NO_LIMIT && (o->others || o->max < o->n))
        *most = o->max < o->n || o->others ? o->max : o->n;
    if (o->min > *most)
        *most = o->min;
    if (*most > 1 && (uint64_t)*most * (o->n + 1) > MAX_COUNTED) {
        if (o->n > 0)
            return schema_fail(o->k, o->c->node[0], ST_RANGE, "too many properties to count");
        *most = 1;
    }
    return ST_OK;
}

/* rule[c] for c members so far: what follows from property i on, i from the last to the first. */
static void prepend(struct object *o, const struct member *m, uint32_t most, uint32_t *rule)
{
    uint32_t with_comma = rule_pair(o->k, o->comma, m->rule);
    for (uint32_t c = 0; c <= most; c++) {
        bool full = o->max != EXPR_NO_LIMIT && c >= o->max;
        uint32_t next = rule[c < most ? c + 1 : most];
        uint32_t have = full ? rule_never(o->k) : rule_pair(o->k, c ? with_comma : m->rule, next);
        rule[c] = m->required ? have : rules_alt(o->k->rules, (uint32_t[]){have, rule[c]}, 2);
    }
}

static enum status body_rule(struct object *o, uint32_t *body)
{
    uint32_t most;
    TRY(greatest_count(o, &most));
    uint32_t *rule = calloc((size_t)most + 1, sizeof *rule);
    if (!rule)
        FAIL(ST_NOMEM, "no memory for an object of %u properties", o->n);
    for (uint32_t c = 0; c <= most; c++)
        rule[c] = tail_rule(o, c);
    for (uint32_t i = o->n; i-- > 0;)
        prepend(o, &o->members[i], most, rule);
    *body = rule[0];
    free(rule);
    return ST_OK;
}

static enum status object_rule(struct object *o, uint32_t *rule)
{
    uint32_t body = 0;
    TRY(read_object(o));
    if (o->min > o->max || o->n_required > o->max) {
        *rule = rule_never(o->k);
        return ST_OK;
    }
    sort_members(o);
    for (uint32_t i = 0; i < o->n; i++)
        TRY(member_rule(o, &o->members[i]));
    TRY(others_rule(o));
    TRY(body_rule(o, &body));
    uint32_t parts[] = {rules_literal(o->k->rules, "{"), body, rules_literal(o->k->rules, "}")};
    *rule = rules_seq(o->k->rules, parts, 3);
    return ST_OK;
}

enum status schema_object(struct schema_compiler *k, const struct conj *c, uint32_t *rule)
{
    struct object *o = calloc(1, sizeof *o);
    if (!o)
        FAIL(ST_NOMEM, "no memory for an object");
    o->k = k;
    o->c = c;
    o->comma = rules_literal(k->rules, ",");
    enum status st = object_rule(o, rule);
    for (uint32_t i = 0; i < o->n; i++)
        free(o->members[i].name);
    free(o->members);
    free(o->table);
    free(o);
    return st;
}
