#define _GNU_SOURCE /* memmem */
#include "common/grammar/schema.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/grammar/growing.h"
#include "common/grammar/schema_impl.h"

enum status schema_fail(const struct schema_compiler *k, uint32_t node, enum status code,
                        const char *fmt, ...)
{
    char path[SCHEMA_PATH], text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    FAIL(code, "%s: %s", schema_path(&k->tree, node, path, sizeof path), text);
}

/* ---- conjunctions ---- */

static bool is_true(const struct schema_compiler *k, uint32_t node)
{
    const struct schema_node *n = &k->tree.nodes[node];
    return (n->type == JSON_BOOL && n->value.p[0] == 't') || (n->type == JSON_OBJECT && n->n == 0);
}

enum status schema_conj_add(const struct schema_compiler *k, struct conj *c, uint32_t node)
{
    enum json_type type = k->tree.nodes[node].type;
    if (type != JSON_OBJECT && type != JSON_BOOL)
        return schema_fail(k, node, ST_FORMAT, "a schema must be an object or a boolean");
    if (is_true(k, node))
        return ST_OK;
    work_spend(k->tree.work, 1 + c->n / 4);
    for (uint32_t i = 0; i < c->n; i++)
        if (c->node[i] == node)
            return ST_OK;
    if (c->n == CONJ_MAX)
        return schema_fail(k, node, ST_RANGE, "more than %d schemas hold together", CONJ_MAX);
    c->node[c->n++] = node;
    return ST_OK;
}

/* The node that a $ref of this schema names, SCHEMA_NO_NODE without one. */
static enum status target_of(const struct schema_compiler *k, uint32_t node, uint32_t *target)
{
    uint32_t ref = schema_member(&k->tree, node, "$ref");
    *target = SCHEMA_NO_NODE;
    if (ref == SCHEMA_NO_NODE)
        return ST_OK;
    if (k->tree.nodes[ref].type != JSON_STRING)
        return schema_fail(k, ref, ST_FORMAT, "must be a string");
    *target = schema_resolve(&k->tree, k->tree.nodes[ref].value);
    if (*target == SCHEMA_NO_NODE)
        return schema_fail(k, ref, ST_UNSUPPORTED, "the reference is not within this document");
    return ST_OK;
}

static enum status resolve(struct schema_compiler *k, struct shape *s, uint32_t node,
                           unsigned depth);

static enum status resolve_all_of(struct schema_compiler *k, struct shape *s, uint32_t node,
                                  unsigned depth)
{
    uint32_t list = schema_member(&k->tree, node, "allOf");
    if (list == SCHEMA_NO_NODE)
        return ST_OK;
    for (uint32_t i = k->tree.nodes[list].first; i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next)
        TRY(resolve(k, s, i, depth + 1));
    return ST_OK;
}

static enum status add_choice(struct schema_compiler *k, struct shape *s, uint32_t node,
                              const char *name)
{
    uint32_t list = schema_member(&k->tree, node, name);
    if (list == SCHEMA_NO_NODE)
        return ST_OK;
    if (s->n_choices == CHOICES_MAX)
        return schema_fail(k, list, ST_RANGE, "more than %d alternatives hold together",
                           CHOICES_MAX);
    s->choice[s->n_choices++] = list;
    return ST_OK;
}

/* Adds a schema to the shape, with what its $ref and allOf name. */
static enum status resolve(struct schema_compiler *k, struct shape *s, uint32_t node,
                           unsigned depth)
{
    uint32_t target, n = s->all.n;
    unsigned types;
    bool integer;
    if (depth > SCHEMA_MAX_MERGE)
        return schema_fail(k, node, ST_UNSUPPORTED, "a reference to itself in a conjunction");
    TRY(work_check(k->tree.work));
    TRY(schema_conj_add(k, &s->all, node));
    if (s->all.n == n || k->tree.nodes[node].type == JSON_BOOL) {
        s->types = k->tree.nodes[node].type == JSON_BOOL && !is_true(k, node) ? 0 : s->types;
        return ST_OK;
    }
    TRY(schema_check_keywords(k, node));
    TRY(target_of(k, node, &target));
    if (target != SCHEMA_NO_NODE)
        TRY(resolve(k, s, target, depth + 1));
    if (target != SCHEMA_NO_NODE && !k->siblings_of_ref) {
        for (uint32_t i = 0; i < s->all.n; i++) /* the schema's own keywords do not hold */
            if (s->all.node[i] == node) {
                memmove(&s->all.node[i], &s->all.node[i + 1],
                        (--s->all.n - i) * sizeof *s->all.node);
                break;
            }
        return ST_OK;
    }
    TRY(schema_types(k, node, &types, &integer));
    s->types &= types;
    s->integer = s->integer || integer;
    TRY(resolve_all_of(k, s, node, depth));
    TRY(add_choice(k, s, node, "anyOf"));
    return add_choice(k, s, node, "oneOf");
}

/* ---- alternatives ---- */

static enum status emit(struct schema_compiler *k, const struct shape *s, uint32_t *rule);

/* Types of the values of const or enum; T_ALL without them. */
static unsigned types_of_values(const struct schema_compiler *k, uint32_t node)
{
    const struct schema_tree *t = &k->tree;
    uint32_t value = schema_member(t, node, "const"), list = schema_member(t, node, "enum");
    unsigned types = 0;
    if (value != SCHEMA_NO_NODE)
        return schema_type_bit(t->nodes[value].type);
    if (list == SCHEMA_NO_NODE || t->nodes[list].type != JSON_ARRAY)
        return T_ALL;
    work_spend(t->work, t->nodes[list].n);
    for (uint32_t i = t->nodes[list].first; i != SCHEMA_NO_NODE; i = t->nodes[i].next)
        types |= schema_type_bit(t->nodes[i].type);
    return types;
}

/* Types of a schema, looking through references; T_ALL when that is not plain. */
static unsigned plain_types(const struct schema_compiler *k, uint32_t node, bool *integer)
{
    unsigned types = T_ALL;
    uint32_t target;
    *integer = false;
    for (unsigned i = 0; i < 8 && k->tree.nodes[node].type == JSON_OBJECT; i++) {
        if (target_of(k, node, &target) != ST_OK)
            return T_ALL;
        if (target == SCHEMA_NO_NODE)
            break;
        node = target;
    }
    if (k->tree.nodes[node].type == JSON_BOOL)
        return is_true(k, node) ? T_ALL : 0;
    if (schema_types(k, node, &types, integer) != ST_OK)
        return T_ALL;
    return types == T_ALL ? types_of_values(k, node) : types;
}

/* Have the schemas values of const or enum, and no value in common? */
static bool other_values(const struct schema_compiler *k, uint32_t a, uint32_t b)
{
    const struct schema_tree *t = &k->tree;
    uint32_t list[2] = {a, b}, first[2];
    bool one[2];
    for (int i = 0; i < 2; i++) {
        uint32_t c = schema_member(t, list[i], "const"), e = schema_member(t, list[i], "enum");
        if (c == SCHEMA_NO_NODE && (e == SCHEMA_NO_NODE || t->nodes[e].type != JSON_ARRAY))
            return false;
        one[i] = c != SCHEMA_NO_NODE;
        first[i] = one[i] ? c : t->nodes[e].first;
    }
    for (uint32_t x = first[0]; x != SCHEMA_NO_NODE; x = one[0] ? SCHEMA_NO_NODE : t->nodes[x].next)
        for (uint32_t y = first[1]; y != SCHEMA_NO_NODE;
             y = one[1] ? SCHEMA_NO_NODE : t->nodes[y].next)
            if (schema_equal(t, x, y))
                return false;
    return true;
}

static uint32_t through_refs(const struct schema_compiler *k, uint32_t node)
{
    uint32_t target;
    for (unsigned i = 0; i < 8; i++) {
        if (target_of(k, node, &target) != ST_OK || target == SCHEMA_NO_NODE)
            return node;
        node = target;
    }
    return node;
}

static bool is_required(const struct schema_compiler *k, uint32_t node, uint32_t property)
{
    uint32_t list = schema_member(&k->tree, node, "required");
    if (list == SCHEMA_NO_NODE)
        return false;
    work_spend(k->tree.work, k->tree.nodes[list].n);
    for (uint32_t i = k->tree.nodes[list].first; i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next) {
        struct json_span a = k->tree.nodes[i].value, b = k->tree.nodes[property].key;
        if (k->tree.nodes[i].type == JSON_STRING && a.n == b.n && memcmp(a.p, b.p, a.n) == 0)
            return true;
    }
    return false;
}

/* Do both require a member of which they allow different values? */
static bool other_tags(const struct schema_compiler *k, uint32_t a, uint32_t b)
{
    const struct schema_tree *t = &k->tree;
    uint32_t pa = schema_member(t, a, "properties"), pb = schema_member(t, b, "properties"), y;
    if (pa == SCHEMA_NO_NODE || pb == SCHEMA_NO_NODE)
        return false;
    for (uint32_t x = t->nodes[pa].first; x != SCHEMA_NO_NODE; x = t->nodes[x].next) {
        y = schema_same_member(t, x, pb);
        if (y != SCHEMA_NO_NODE && is_required(k, a, x) && is_required(k, b, y) &&
            other_values(k, x, y))
            return true;
    }
    return false;
}

static bool disjoint(const struct schema_compiler *k, uint32_t a, uint32_t b)
{
    bool whole_a, whole_b;
    a = through_refs(k, a);
    b = through_refs(k, b);
    unsigned both = plain_types(k, a, &whole_a) & plain_types(k, b, &whole_b);
    return both == 0 || other_values(k, a, b) || (both == T_OBJECT && other_tags(k, a, b));
}

/* oneOf as anyOf: only if no value can satisfy two. */
static enum status check_disjoint(const struct schema_compiler *k, uint32_t list)
{
    const struct schema_tree *t = &k->tree;
    for (uint32_t i = t->nodes[list].first; i != SCHEMA_NO_NODE; i = t->nodes[i].next)
        for (uint32_t j = t->nodes[i].next; j != SCHEMA_NO_NODE && work_check(t->work) == ST_OK;
             j = t->nodes[j].next)
            if (!disjoint(k, i, j) && work_check(k->tree.work) == ST_OK)
                return schema_fail(k, list, ST_UNSUPPORTED,
                                   "oneOf is supported only where its alternatives have different "
                                   "types or constants; use anyOf");
    return work_check(t->work);
}

/* Has the shape no keyword but one list of alternatives and annotations? */
static bool only_choice(const struct schema_compiler *k, const struct shape *s)
{
    static const char *const others[] = {"title",    "description", "$defs",   "definitions",
                                         "anyOf",    "oneOf",       "$schema", "$id",
                                         "$comment", "default",     "examples"};
    if (s->all.n != 1 || s->n_choices != 1)
        return false;
    uint32_t node = s->all.node[0];
    for (uint32_t i = k->tree.nodes[node].first; i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next) {
        bool known = false;
        for (size_t o = 0; o < ARRAY_LEN(others) && !known; o++)
            known = json_span_is(k->tree.nodes[i].key, others[o]);
        if (!known)
            return false;
    }
    return true;
}

/* The shape's last choice, one alternative after the other. */
static enum status emit_choices(struct schema_compiler *k, const struct shape *s, uint32_t *rule)
{
    const struct schema_tree *t = &k->tree;
    uint32_t list = s->choice[s->n_choices - 1], n = 0;
    bool alone = only_choice(k, s);
    if (schema_member(t, t->nodes[list].parent, "oneOf") == list)
        TRY(check_disjoint(k, list));
    uint32_t *rules = calloc((size_t)t->nodes[list].n + 1, sizeof *rules);
    struct shape *with = malloc(sizeof *with);
    enum status st = rules && with ? ST_OK : ST_NOMEM;
    for (uint32_t i = t->nodes[list].first; st == ST_OK && i != SCHEMA_NO_NODE;
         i = t->nodes[i].next) {
        struct conj one = {.n = 0};
        if (alone) {
            st = schema_conj_add(k, &one, i);
            if (st == ST_OK)
                st = schema_rule(k, &one, &rules[n++]);
            continue;
        }
        work_spend(t->work, 16); /* the copy */
        *with = *s;
        with->n_choices--;
        st = resolve(k, with, i, k->depth);
        if (st == ST_OK)
            st = emit(k, with, &rules[n++]);
    }
    if (st == ST_OK)
        *rule = rules_alt(k->rules, rules, n);
    free(rules);
    free(with);
    return st;
}

/* ---- rules ---- */

static enum status emit_types(struct schema_compiler *k, const struct shape *s, uint32_t *rule)
{
    uint32_t list[7], n = 0;
    if (s->types & T_NULL)
        list[n++] = rules_literal(k->rules, "null");
    if (s->types & T_BOOL) {
        list[n++] = rules_literal(k->rules, "true");
        list[n++] = rules_literal(k->rules, "false");
    }
    if (s->types & T_NUMBER)
        TRY(schema_number(k, s, &list[n++]));
    if (s->types & T_STRING)
        TRY(schema_string(k, &s->all, &list[n++]));
    if (s->types & T_ARRAY)
        TRY(schema_array(k, &s->all, &list[n++]));
    if (s->types & T_OBJECT)
        TRY(schema_object(k, &s->all, &list[n++]));
    *rule = rules_alt(k->rules, list, n);
    return ST_OK;
}

static enum status emit(struct schema_compiler *k, const struct shape *s, uint32_t *rule)
{
    bool found;
    if (s->types == 0) {
        *rule = rule_never(k);
        return ST_OK;
    }
    if (++k->depth > SCHEMA_MAX_MERGE)
        return schema_fail(k, s->all.node[0], ST_RANGE, "nested too deeply");
    enum status st = ST_OK;
    if (s->n_choices) {
        st = emit_choices(k, s, rule);
    } else {
        st = schema_enum(k, s, &found, rule);
        if (st == ST_OK && !found)
            st = emit_types(k, s, rule);
    }
    k->depth--;
    return st;
}

/* The rule of any value, its arrays and objects of any values. */
static enum status any_value(struct schema_compiler *k, uint32_t *rule)
{
    struct shape s = {.types = T_ALL};
    if (!k->any) {
        k->any = rules_reserve(k->rules);
        TRY(k->rules->status); /* 0 would be made again and again */
        TRY(emit_types(k, &s, rule));
        rules_define(k->rules, k->any, *rule);
    }
    *rule = k->any;
    return ST_OK;
}

static uint32_t *memo_of(struct schema_compiler *k, const struct conj *c)
{
    if (c->n == 1)
        return &k->rule_of[c->node[0]];
    work_spend(k->tree.work, k->n_memo / 4);
    for (uint32_t i = 0; i < k->n_memo; i++)
        if (k->memo[i].conj.n == c->n &&
            memcmp(k->memo[i].conj.node, c->node, c->n * sizeof *c->node) == 0)
            return &k->memo[i].rule;
    if (GROW(&k->memo, &k->cap_memo, (size_t)k->n_memo + 1, 4096, "combinations of schemas") !=
        ST_OK)
        return NULL;
    k->memo[k->n_memo] = (struct memo){.conj = *c};
    return &k->memo[k->n_memo++].rule;
}

/* A schema that is nothing but a reference is the one that it names. */
static enum status skip_refs(const struct schema_compiler *k, struct conj *c)
{
    uint32_t target;
    for (unsigned i = 0; c->n == 1 && k->tree.nodes[c->node[0]].type == JSON_OBJECT; i++) {
        if (i > SCHEMA_MAX_MERGE)
            return schema_fail(k, c->node[0], ST_FORMAT, "a reference to itself");
        TRY(target_of(k, c->node[0], &target));
        if (target == SCHEMA_NO_NODE || (k->tree.nodes[c->node[0]].n > 1 && k->siblings_of_ref))
            return ST_OK;
        c->n = 0;
        TRY(schema_conj_add(k, c, target));
    }
    return ST_OK;
}

enum status schema_rule(struct schema_compiler *k, const struct conj *conj, uint32_t *rule)
{
    struct conj c = *conj;
    char path[SCHEMA_PATH];
    TRY(skip_refs(k, &c));
    if (c.n == 0)
        return any_value(k, rule);
    uint32_t *memo = memo_of(k, &c);
    if (!memo)
        return schema_fail(k, c.node[0], ST_RANGE, "too many combinations of schemas");
    if (*memo) {
        *rule = *memo;
        return ST_OK;
    }
    rules_at(k->rules, schema_path(&k->tree, c.node[0], path, sizeof path));
    uint32_t reserved = *memo = rules_reserve(k->rules);
    TRY(k->rules->status);
    struct shape *s = calloc(1, sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "no memory for a schema");
    s->types = T_ALL;
    enum status st = ST_OK;
    for (uint32_t i = 0; st == ST_OK && i < c.n; i++)
        st = resolve(k, s, c.node[i], k->depth);
    if (st == ST_OK)
        st = emit(k, s, rule);
    if (st == ST_OK)
        rules_define(k->rules, reserved, *rule);
    free(s);
    *rule = reserved;
    return st;
}

/* ---- entry ---- */

/* Drafts before 2019-09 ignore what is beside a $ref. */
static bool siblings_hold(const struct schema_tree *t)
{
    static const char *const old[] = {"draft-03", "draft-04", "draft-05", "draft-06", "draft-07"};
    uint32_t s = schema_member(t, 0, "$schema");
    if (s == SCHEMA_NO_NODE || t->nodes[s].type != JSON_STRING)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(old); i++)
        if (memmem(t->nodes[s].value.p, t->nodes[s].value.n, old[i], strlen(old[i])))
            return false;
    return true;
}

static enum status compile(struct schema_compiler *k, uint32_t *root)
{
    struct conj all = {.n = 0};
    k->rule_of = calloc(k->tree.n, sizeof *k->rule_of);
    if (!k->rule_of)
        FAIL(ST_NOMEM, "no memory for a schema of %u values", k->tree.n);
    k->siblings_of_ref = siblings_hold(&k->tree);
    TRY(schema_conj_add(k, &all, 0));
    TRY(schema_rule(k, &all, root));
    return k->rules->status;
}

enum status schema_compile(struct rules *rules, const struct schema_style *style, const char *text,
                           size_t n, uint32_t *root)
{
    struct schema_compiler k = {.style = style, .rules = rules, .pool = rules->pool};
    TRY(schema_tree_read(&k.tree, text, n, rules->work));
    enum status st = compile(&k, root);
    schema_tree_free(&k.tree);
    free(k.rule_of);
    free(k.memo);
    return st;
}

enum status schema_any_object(struct rules *rules, uint32_t *root)
{
    static const char text[] = "{\"type\":\"object\"}";
    return schema_compile(rules, &schema_json, text, sizeof text - 1, root);
}
