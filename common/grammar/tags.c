#include "common/grammar/tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/grammar/regex.h"
#include "common/grammar/regex_parse.h"
#include "common/grammar/schema.h"
#include "common/grammar/schema_tree.h"
#include "common/grammar/source.h"

enum { PATH = 160, MAX_TIMES = 1000 };

struct tags {
    struct schema_tree tree;
    struct rules *rules;
    unsigned depth;
};

#define FAIL_AT(k, node, code, ...)                                                                \
    do {                                                                                           \
        char path_[PATH], text_[300];                                                              \
        snprintf(text_, sizeof text_, __VA_ARGS__);                                                \
        FAIL((code), "%s: %s", schema_path(&(k)->tree, (node), path_, sizeof path_), text_);       \
    } while (0)

/* ---- values ---- */

/* Appends a string that is not empty. */
static enum status take_text(const struct tags *k, uint32_t value, struct text_buf *out)
{
    const struct schema_node *v = &k->tree.nodes[value];
    if (v->type != JSON_STRING || v->value.n == 0)
        FAIL_AT(k, value, ST_FORMAT, "must be a text of at least one byte");
    return json_span_text(v->value, out);
}

static enum status literal(struct tags *k, uint32_t value, bool special, uint32_t *expr)
{
    static const char first = (char)GRAMMAR_SPECIAL;
    struct text_buf text = {0};
    enum status st = special ? text_buf_append(&text, &first, 1) : ST_OK;
    if (st == ST_OK)
        st = take_text(k, value, &text);
    if (st == ST_OK)
        *expr = expr_literal(k->rules->pool, text.data, text.len);
    text_buf_free(&text);
    return st;
}

static enum status times(const struct tags *k, uint32_t node, const char *name, uint32_t most,
                         uint32_t *out)
{
    uint32_t m = schema_member(&k->tree, node, name), v = 0;
    if (m == SCHEMA_NO_NODE)
        return ST_OK;
    struct json_span s = k->tree.nodes[m].value;
    bool ok = k->tree.nodes[m].type == JSON_NUMBER && s.n <= 9;
    for (size_t i = 0; ok && i < s.n; i++) {
        ok = s.p[i] >= '0' && s.p[i] <= '9';
        v = 10 * v + (uint32_t)(s.p[i] - '0');
    }
    if (!ok || v > most)
        FAIL_AT(k, m, ST_RANGE, "must be a whole number of at most %u", most);
    *out = v;
    return ST_OK;
}

/* ---- nodes ---- */

static enum status node_rule(struct tags *k, uint32_t node, uint32_t *rule);

static enum status make_text(struct tags *k, uint32_t node, uint32_t value, uint32_t *rule)
{
    uint32_t expr;
    TRY(literal(k, value, schema_member(&k->tree, node, "special") == value, &expr));
    *rule = rules_lexeme(k->rules, expr);
    return ST_OK;
}

static enum status make_list(struct tags *k, uint32_t node, uint32_t value, uint32_t *rule)
{
    const struct schema_node *v = &k->tree.nodes[value];
    bool seq = schema_member(&k->tree, node, "seq") == value;
    uint32_t n = 0;
    if (v->type != JSON_ARRAY || (v->n == 0 && !seq))
        FAIL_AT(k, value, ST_FORMAT, seq ? "must be a list" : "must be a list that is not empty");
    uint32_t *list = calloc((size_t)v->n + 1, sizeof *list);
    enum status st = list ? ST_OK : ST_NOMEM;
    for (uint32_t i = v->first; st == ST_OK && i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next)
        st = node_rule(k, i, &list[n++]);
    if (st == ST_OK)
        *rule = seq ? rules_seq(k->rules, list, n) : rules_alt(k->rules, list, n);
    free(list);
    return st;
}

static enum status make_repeat(struct tags *k, uint32_t node, uint32_t value, uint32_t *rule)
{
    uint32_t between = schema_member(&k->tree, node, "between");
    uint32_t min = 0, max = EXPR_NO_LIMIT, item, more;
    TRY(times(k, node, "min", MAX_TIMES, &min));
    TRY(times(k, node, "max", MAX_TIMES, &max));
    if (min > max)
        FAIL_AT(k, node, ST_FORMAT, "min is greater than max");
    TRY(node_rule(k, value, &item));
    if (between == SCHEMA_NO_NODE) {
        *rule = rules_repeat(k->rules, item, min, max);
        return ST_OK;
    }
    if (max == 0) {
        *rule = rules_seq(k->rules, NULL, 0);
        return ST_OK;
    }
    TRY(node_rule(k, between, &more));
    more = rules_seq(k->rules, (uint32_t[]){more, item}, 2);
    more = rules_repeat(k->rules, more, min ? min - 1 : 0, max == EXPR_NO_LIMIT ? max : max - 1);
    *rule = rules_seq(k->rules, (uint32_t[]){item, more}, 2);
    if (min == 0)
        *rule = rules_alt(k->rules, (uint32_t[]){rules_seq(k->rules, NULL, 0), *rule}, 2);
    return ST_OK;
}

static uint32_t blanks(struct expr_pool *p)
{
    struct byte_set blank = {{0}};
    byte_set_add(&blank, ' ', ' ');
    byte_set_add(&blank, '\t', '\n');
    byte_set_add(&blank, '\r', '\r');
    return expr_repeat(p, expr_bytes(p, &blank), 0, EXPR_NO_LIMIT);
}

/* Takes texts out of *expr: those that have one of the list in them, or begin with blanks and one of it. */
static enum status take_out(struct tags *k, uint32_t list, bool begin, uint32_t *expr)
{
    struct expr_pool *p = k->rules->pool;
    uint32_t mark;
    if (list == SCHEMA_NO_NODE)
        return ST_OK;
    if (k->tree.nodes[list].type != JSON_ARRAY)
        FAIL_AT(k, list, ST_FORMAT, "must be a list of texts");
    uint32_t before = begin ? blanks(p) : EXPR_ALL;
    for (uint32_t i = k->tree.nodes[list].first; i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next) {
        TRY(literal(k, i, false, &mark));
        uint32_t has = expr_concat(p, before, expr_concat(p, mark, EXPR_ALL));
        *expr = expr_and2(p, *expr, expr_not(p, has));
    }
    return ST_OK;
}

static enum status make_free(struct tags *k, uint32_t node, uint32_t value, uint32_t *rule)
{
    const struct schema_node *v = &k->tree.nodes[value];
    struct expr_pool *p = k->rules->pool;
    uint32_t without = schema_member(&k->tree, value, "without"),
             not_begin = schema_member(&k->tree, value, "not_begin");
    (void)node;
    if (v->type != JSON_OBJECT ||
        v->n != (without != SCHEMA_NO_NODE) + (uint32_t)(not_begin != SCHEMA_NO_NODE))
        FAIL_AT(k, value, ST_FORMAT, "must be an object with without and not_begin at most");
    uint32_t expr = expr_repeat(p, charset_any(p, TEXT_PLAIN), 0, EXPR_NO_LIMIT);
    TRY(take_out(k, without, false, &expr));
    TRY(take_out(k, not_begin, true, &expr));
    *rule = rules_lexeme(k->rules, expr);
    return ST_OK;
}

/* ---- strings ---- */

/* Texts that could be read as JSON of a kind, without the blanks around it; of lists and objects all that begin so. */
static enum status json_like(const struct tags *k, uint32_t kind, uint32_t *expr)
{
    static const char *const patterns[][2] = {
        {"number", "-?[0-9][-+.eE0-9]*"},
        {"boolean", "true|false|True|False"},
        {"null", "null|None"},
        {"object", "\\{[\\s\\S]*"},
        {"array", "\\[[\\s\\S]*"},
    };
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
        if (schema_is(&k->tree, kind, patterns[i][0]))
            return regex_compile(k->rules->pool, patterns[i][1], strlen(patterns[i][1]),
                                 REGEX_WHOLE, TEXT_PLAIN, expr);
    FAIL_AT(k, kind, ST_FORMAT, "is no kind of JSON value");
}

static enum status take_out_json(struct tags *k, uint32_t list, uint32_t *expr)
{
    struct expr_pool *p = k->rules->pool;
    uint32_t like, blank = blanks(p);
    if (list == SCHEMA_NO_NODE)
        return ST_OK;
    for (uint32_t i = k->tree.nodes[list].first; i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next) {
        TRY(json_like(k, i, &like));
        like = expr_concat(p, blank, expr_concat(p, like, blank));
        *expr = expr_and2(p, *expr, expr_not(p, like));
    }
    return ST_OK;
}

static enum status string_choice(struct tags *k, uint32_t list, uint32_t *expr)
{
    uint32_t one;
    *expr = EXPR_NONE;
    for (uint32_t i = k->tree.nodes[list].first; i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next) {
        const struct schema_node *v = &k->tree.nodes[i];
        one = EXPR_EMPTY;
        if (v->type != JSON_STRING)
            FAIL_AT(k, i, ST_FORMAT, "must be a text");
        if (v->value.n)
            TRY(literal(k, i, false, &one));
        *expr = expr_or2(k->rules->pool, *expr, one);
    }
    return ST_OK;
}

static enum status string_regex(struct tags *k, uint32_t value, uint32_t *expr)
{
    struct text_buf text = {0};
    enum status st = take_text(k, value, &text);
    if (st == ST_OK)
        st = regex_compile(k->rules->pool, text.data, text.len, REGEX_SEARCH, TEXT_PLAIN, expr);
    text_buf_free(&text);
    return st;
}

/* A text of min to max characters; both parts of *expr hold. */
static enum status string_length(struct tags *k, uint32_t value, uint32_t *expr)
{
    uint32_t min = 0, max = EXPR_NO_LIMIT;
    TRY(times(k, value, "min", REGEX_MAX_REPEAT, &min));
    TRY(times(k, value, "max", REGEX_MAX_REPEAT, &max));
    *expr = expr_repeat(k->rules->pool, charset_any(k->rules->pool, TEXT_PLAIN), min, max);
    if (min > max)
        FAIL_AT(k, value, ST_FORMAT, "min is greater than max");
    return ST_OK;
}

static enum status make_string(struct tags *k, uint32_t node, uint32_t value, uint32_t *rule)
{
    enum { MIN, MAX, CHOICE, REGEX, WITHOUT, NOT_FIRST, NOT_JSON, N_MEMBERS };
    static const char *const names[N_MEMBERS] = {"min",     "max",       "choice",  "regex",
                                                 "without", "not_first", "not_json"};
    struct expr_pool *p = k->rules->pool;
    uint32_t m[N_MEMBERS], n = 0, part, expr;
    (void)node;
    for (size_t i = 0; i < N_MEMBERS; i++)
        n += (m[i] = schema_member(&k->tree, value, names[i])) != SCHEMA_NO_NODE;
    if (k->tree.nodes[value].type != JSON_OBJECT || k->tree.nodes[value].n != n)
        FAIL_AT(k, value, ST_FORMAT, "must be an object with the members of a string");
    TRY(string_length(k, value, &expr));
    if (m[CHOICE] != SCHEMA_NO_NODE) {
        TRY(string_choice(k, m[CHOICE], &part));
        expr = expr_and2(p, expr, part);
    }
    if (m[REGEX] != SCHEMA_NO_NODE) {
        TRY(string_regex(k, m[REGEX], &part));
        expr = expr_and2(p, expr, part);
    }
    TRY(take_out(k, m[WITHOUT], false, &expr));
    if (m[NOT_FIRST] != SCHEMA_NO_NODE) {
        TRY(literal(k, m[NOT_FIRST], false, &part));
        expr = expr_and2(p, expr, expr_not(p, expr_concat(p, part, EXPR_ALL)));
    }
    TRY(take_out_json(k, m[NOT_JSON], &expr));
    *rule = rules_lexeme(k->rules, expr);
    return ST_OK;
}

/* ---- sources ---- */

/* No lexeme that was made since then contains a text of the list. */
static enum status take_out_of_rules(struct tags *k, uint32_t list, uint32_t first)
{
    struct rules *r = k->rules;
    for (uint32_t i = first; list != SCHEMA_NO_NODE && i < r->n; i++)
        if (r->list[i].kind == RULE_LEXEME)
            TRY(take_out(k, list, false, &r->args[r->list[i].args]));
    return ST_OK;
}

/* The style that the node of a schema asks for. */
static enum status read_style(struct tags *k, uint32_t node, struct schema_style *style)
{
    static const char first = (char)GRAMMAR_SPECIAL;
    uint32_t quote = schema_member(&k->tree, node, "quote"),
             special = schema_member(&k->tree, node, "special_quote");
    if (quote == SCHEMA_NO_NODE && special == SCHEMA_NO_NODE)
        return ST_OK;
    if (quote != SCHEMA_NO_NODE && special != SCHEMA_NO_NODE)
        FAIL_AT(k, node, ST_FORMAT, "it has two kinds of quotes");
    TRY(take_text(k, special == SCHEMA_NO_NODE ? quote : special, &style->text));
    if (special != SCHEMA_NO_NODE)
        TRY(text_buf_append(&style->quote, &first, 1));
    return text_buf_append(&style->quote, style->text.data, style->text.len);
}

static enum status compile_schema(struct tags *k, uint32_t node, const struct grammar_source *s,
                                  uint32_t *rule)
{
    struct schema_style style = {{0}, {0}};
    enum status st = read_style(k, node, &style);
    if (st == ST_OK)
        st = schema_compile(k->rules, &style, s->text, s->n, rule);
    text_buf_free(&style.quote);
    text_buf_free(&style.text);
    return st;
}

static enum status compile_part(struct tags *k, uint32_t node, uint32_t value,
                                enum grammar_kind kind, uint32_t *rule)
{
    const struct schema_node *v = &k->tree.nodes[value];
    struct grammar_source s = {kind, v->value.p, v->value.n};
    struct text_buf text = {0};
    enum status st = ST_OK;
    if (v->type == JSON_STRING) {
        st = json_span_text(v->value, &text);
        s.text = text.data ? text.data : "";
        s.n = text.len;
    }
    if (st == ST_OK)
        st = kind == GRAMMAR_JSON_SCHEMA ? compile_schema(k, node, &s, rule)
                                         : source_compile(k->rules, &s, rule);
    text_buf_free(&text);
    return st;
}

static enum status make_source(struct tags *k, uint32_t node, uint32_t value, uint32_t *rule)
{
    static const struct {
        const char *name;
        enum grammar_kind kind;
        enum json_type type, or_type;
    } rows[] = {{"schema", GRAMMAR_JSON_SCHEMA, JSON_OBJECT, JSON_BOOL},
                {"regex", GRAMMAR_REGEX, JSON_STRING, JSON_STRING},
                {"choice", GRAMMAR_CHOICE, JSON_ARRAY, JSON_ARRAY},
                {"grammar", GRAMMAR_GBNF, JSON_STRING, JSON_STRING},
                {"json_object", GRAMMAR_JSON_OBJECT, JSON_BOOL, JSON_BOOL}};
    enum json_type type = k->tree.nodes[value].type;
    uint32_t of = schema_member(&k->tree, node, "of"),
             without = schema_member(&k->tree, node, "without"), first = k->rules->n;
    size_t i = 0;
    while (!json_span_is(k->tree.nodes[value].key, rows[i].name))
        i++;
    bool no = rows[i].kind == GRAMMAR_JSON_OBJECT && k->tree.nodes[value].value.p[0] == 'f';
    if ((type != rows[i].type && type != rows[i].or_type) || no)
        FAIL_AT(k, value, ST_FORMAT, "is no value of this member");
    enum status st = compile_part(k, node, value, rows[i].kind, rule);
    if (st == ST_OK)
        st = take_out_of_rules(k, without, first);
    if (st != ST_OK) {
        char why[400];
        snprintf(why, sizeof why, "%s", status_text());
        if (of != SCHEMA_NO_NODE)
            FAIL(st, "%.*s: %s", (int)k->tree.nodes[of].value.n, k->tree.nodes[of].value.p, why);
        FAIL_AT(k, value, st, "%.250s", why);
    }
    return ST_OK;
}

/* ---- the tree ---- */

static const struct tag_kind {
    const char *name;
    enum status (*make)(struct tags *k, uint32_t node, uint32_t value, uint32_t *rule);
    const char *also[4]; /* members beside it */
} kinds[] = {
    {"text", make_text, {NULL}},
    {"special", make_text, {NULL}},
    {"seq", make_list, {NULL}},
    {"any_of", make_list, {NULL}},
    {"free", make_free, {NULL}},
    {"repeat", make_repeat, {"min", "max", "between"}},
    {"string", make_string, {NULL}},
    {"schema", make_source, {"of", "without", "quote", "special_quote"}},
    {"regex", make_source, {"of"}},
    {"choice", make_source, {"of"}},
    {"json_object", make_source, {"of"}},
    {"grammar", make_source, {"of"}},
};

static enum status only_known(const struct tags *k, uint32_t node, const struct tag_kind *kind)
{
    for (uint32_t i = k->tree.nodes[node].first; i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next) {
        bool known = json_span_is(k->tree.nodes[i].key, kind->name);
        for (size_t a = 0; a < ARRAY_LEN(kind->also) && kind->also[a]; a++)
            known = known || json_span_is(k->tree.nodes[i].key, kind->also[a]);
        if (!known)
            FAIL_AT(k, i, ST_UNSUPPORTED, "is no member of a tag with \"%s\"", kind->name);
    }
    return ST_OK;
}

static enum status node_rule(struct tags *k, uint32_t node, uint32_t *rule)
{
    char path[PATH];
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        uint32_t value = schema_member(&k->tree, node, kinds[i].name);
        if (value == SCHEMA_NO_NODE)
            continue;
        TRY(only_known(k, node, &kinds[i]));
        if (++k->depth > TAGS_MAX_DEPTH)
            FAIL_AT(k, node, ST_RANGE, "tags are nested deeper than %d", TAGS_MAX_DEPTH);
        rules_at(k->rules, schema_path(&k->tree, node, path, sizeof path));
        enum status st = kinds[i].make(k, node, value, rule);
        k->depth--;
        return st;
    }
    FAIL_AT(k, node, ST_FORMAT, "must be an object with a kind of tag: text, special, seq, ...");
}

enum status tags_compile(struct rules *rules, const char *text, size_t n, uint32_t *root)
{
    struct tags k = {.rules = rules};
    TRY(schema_tree_read(&k.tree, text, n, rules->work));
    enum status st = node_rule(&k, 0, root);
    schema_tree_free(&k.tree);
    return st == ST_OK ? rules->status : st;
}
