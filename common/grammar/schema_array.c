/* Arrays: the items of the beginning each with its own schema, then the rest. */
#include "common/grammar/schema_impl.h"

struct array {
    uint32_t n_prefix; /* items with schemas of their own */
    uint32_t min, max;
    uint32_t comma;
};

/* A schema's list of schemas for the first items, SCHEMA_NO_NODE: none; and the one for the rest. */
static void lists_of(const struct schema_compiler *k, uint32_t node, uint32_t *prefix,
                     uint32_t *rest)
{
    uint32_t items = schema_member(&k->tree, node, "items");
    *prefix = schema_member(&k->tree, node, "prefixItems");
    *rest = items;
    if (items != SCHEMA_NO_NODE && k->tree.nodes[items].type == JSON_ARRAY) { /* before 2020-12 */
        *prefix = items;
        *rest = schema_member(&k->tree, node, "additionalItems");
    }
}

/* The rule of item i; those from n_prefix on are alike. */
static enum status item_rule(struct schema_compiler *k, const struct conj *c, uint32_t i,
                             uint32_t *rule)
{
    struct conj item = {.n = 0};
    uint32_t prefix, rest;
    for (uint32_t s = 0; s < c->n; s++) {
        lists_of(k, c->node[s], &prefix, &rest);
        uint32_t node = prefix == SCHEMA_NO_NODE ? rest : schema_item(&k->tree, prefix, i);
        if (node == SCHEMA_NO_NODE)
            node = rest;
        if (node != SCHEMA_NO_NODE)
            TRY(schema_conj_add(k, &item, node));
    }
    return schema_rule(k, &item, rule);
}

/* What follows i items, i >= n_prefix. */
static uint32_t rest_rule(struct schema_compiler *k, const struct array *a, uint32_t i,
                          uint32_t item)
{
    uint32_t more = rule_pair(k, a->comma, item);
    uint32_t min = a->min > i ? a->min - i : 0, max = a->max == EXPR_NO_LIMIT ? a->max : a->max - i;
    if (max == 0)
        return 0;
    if (i > 0)
        return rules_repeat(k->rules, more, min, max);
    uint32_t tail =
        rules_repeat(k->rules, more, min ? min - 1 : 0, max == EXPR_NO_LIMIT ? max : max - 1);
    uint32_t some = rule_pair(k, item, tail);
    return min ? some : rules_alt(k->rules, (uint32_t[]){0, some}, 2);
}

static enum status read_array(struct schema_compiler *k, const struct conj *c, struct array *a)
{
    uint32_t prefix, rest, min, max;
    *a = (struct array){.max = EXPR_NO_LIMIT};
    for (uint32_t i = 0; i < c->n; i++) {
        TRY(schema_count(k, c->node[i], "minItems", 0, &min));
        TRY(schema_count(k, c->node[i], "maxItems", EXPR_NO_LIMIT, &max));
        a->min = min > a->min ? min : a->min;
        a->max = max < a->max ? max : a->max;
        lists_of(k, c->node[i], &prefix, &rest);
        if (prefix != SCHEMA_NO_NODE && k->tree.nodes[prefix].type != JSON_ARRAY)
            return schema_fail(k, prefix, ST_FORMAT, "must be an array");
        if (prefix != SCHEMA_NO_NODE && k->tree.nodes[prefix].n > a->n_prefix)
            a->n_prefix = k->tree.nodes[prefix].n;
    }
    return ST_OK;
}

enum status schema_array(struct schema_compiler *k, const struct conj *c, uint32_t *rule)
{
    struct array a;
    uint32_t item, body;
    TRY(read_array(k, c, &a));
    if (a.min > a.max) {
        *rule = rule_never(k);
        return ST_OK;
    }
    a.comma = rules_literal(k->rules, ",");
    uint32_t i = a.n_prefix < a.max ? a.n_prefix : a.max;
    TRY(item_rule(k, c, i, &item));
    body = rest_rule(k, &a, i, item);
    while (i-- > 0) { /* from the last of the first items back */
        uint32_t next;
        TRY(item_rule(k, c, i, &item));
        next = i ? rule_pair(k, a.comma, rule_pair(k, item, body)) : rule_pair(k, item, body);
        body = a.min > i ? next : rules_alt(k->rules, (uint32_t[]){0, next}, 2);
    }
    uint32_t parts[] = {rules_literal(k->rules, "["), body, rules_literal(k->rules, "]")};
    *rule = rules_seq(k->rules, parts, 3);
    return ST_OK;
}
