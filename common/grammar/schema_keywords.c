/* Which keywords of JSON Schema are read, and of which type their values are. */
#include "common/grammar/schema_impl.h"

enum form { ANY, SCHEMA, SCHEMAS, MAP, LIST, COUNT, NUMBER, STRING, STRINGS, REFUSED };

static const struct {
    const char *name;
    enum form form;
} keywords[] = {
    {"type", ANY},
    {"enum", LIST},
    {"const", ANY},
    {"properties", MAP},
    {"required", STRINGS},
    {"additionalProperties", SCHEMA},
    {"patternProperties", MAP},
    {"minProperties", COUNT},
    {"maxProperties", COUNT},
    {"items", ANY},
    {"prefixItems", SCHEMAS},
    {"additionalItems", SCHEMA},
    {"minItems", COUNT},
    {"maxItems", COUNT},
    {"anyOf", SCHEMAS},
    {"oneOf", SCHEMAS},
    {"allOf", SCHEMAS},
    {"$ref", STRING},
    {"minLength", COUNT},
    {"maxLength", COUNT},
    {"pattern", STRING},
    {"format", STRING},
    {"minimum", NUMBER},
    {"maximum", NUMBER},
    {"exclusiveMinimum", ANY},
    {"exclusiveMaximum", ANY},
    {"multipleOf", NUMBER},
    {"not", REFUSED},
    {"if", REFUSED},
    {"then", REFUSED},
    {"else", REFUSED},
    {"dependencies", REFUSED},
    {"dependentSchemas", REFUSED},
    {"dependentRequired", REFUSED},
    {"contains", REFUSED},
    {"minContains", REFUSED},
    {"maxContains", REFUSED},
    {"unevaluatedItems", REFUSED},
    {"unevaluatedProperties", REFUSED},
    {"propertyNames", REFUSED},
    {"$dynamicRef", REFUSED},
    {"$recursiveRef", REFUSED},
    {"extends", REFUSED},
    {"disallow", REFUSED},
    {"divisibleBy", REFUSED},
};

static enum status check_items(const struct schema_compiler *k, uint32_t node, enum json_type type)
{
    work_spend(k->tree.work, k->tree.nodes[node].n);
    for (uint32_t i = k->tree.nodes[node].first; i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next)
        if (k->tree.nodes[i].type != type &&
            !(type == JSON_OBJECT && k->tree.nodes[i].type == JSON_BOOL))
            return schema_fail(k, i, ST_FORMAT,
                               type == JSON_STRING ? "must be a string" : "must be a schema");
    return ST_OK;
}

static enum status check_form(const struct schema_compiler *k, uint32_t node, enum form form)
{
    enum json_type type = k->tree.nodes[node].type;
    switch (form) {
    case ANY:
        return ST_OK;
    case SCHEMA:
        return type == JSON_OBJECT || type == JSON_BOOL
                   ? ST_OK
                   : schema_fail(k, node, ST_FORMAT, "must be a schema");
    case MAP:
        if (type != JSON_OBJECT)
            return schema_fail(k, node, ST_FORMAT, "must be an object");
        return check_items(k, node, JSON_OBJECT);
    case SCHEMAS:
    case LIST:
    case STRINGS:
        if (type != JSON_ARRAY)
            return schema_fail(k, node, ST_FORMAT, "must be an array");
        if (form == SCHEMAS && k->tree.nodes[node].n == 0)
            return schema_fail(k, node, ST_FORMAT, "must not be empty");
        return form == LIST ? ST_OK
                            : check_items(k, node, form == STRINGS ? JSON_STRING : JSON_OBJECT);
    case COUNT:
    case NUMBER:
        return type == JSON_NUMBER ? ST_OK : schema_fail(k, node, ST_FORMAT, "must be a number");
    case STRING:
        return type == JSON_STRING ? ST_OK : schema_fail(k, node, ST_FORMAT, "must be a string");
    case REFUSED:
        return schema_fail(k, node, ST_UNSUPPORTED, "this keyword is not supported");
    }
    return ST_OK;
}

/* uniqueItems: false says nothing. */
static enum status check_unique(const struct schema_compiler *k, uint32_t node)
{
    if (k->tree.nodes[node].type != JSON_BOOL)
        return schema_fail(k, node, ST_FORMAT, "must be a boolean");
    if (k->tree.nodes[node].value.p[0] == 't')
        return schema_fail(k, node, ST_UNSUPPORTED, "this keyword is not supported");
    return ST_OK;
}

enum status schema_check_keywords(const struct schema_compiler *k, uint32_t node)
{
    bool ref_alone = !k->siblings_of_ref && schema_member(&k->tree, node, "$ref") != SCHEMA_NO_NODE;
    for (uint32_t i = k->tree.nodes[node].first; i != SCHEMA_NO_NODE && !ref_alone;
         i = k->tree.nodes[i].next) {
        work_spend(k->tree.work, ARRAY_LEN(keywords) / 4);
        for (size_t w = 0; w < ARRAY_LEN(keywords); w++)
            if (json_span_is(k->tree.nodes[i].key, keywords[w].name))
                TRY(check_form(k, i, keywords[w].form));
        if (json_span_is(k->tree.nodes[i].key, "uniqueItems"))
            TRY(check_unique(k, i));
    }
    return ST_OK;
}

enum status schema_count(const struct schema_compiler *k, uint32_t node, const char *name,
                         uint32_t otherwise, uint32_t *out)
{
    uint32_t m = schema_member(&k->tree, node, name);
    struct json_cursor c;
    uint64_t v;
    *out = otherwise;
    if (m == SCHEMA_NO_NODE)
        return ST_OK;
    if (json_open(&c, k->tree.nodes[m].value.p, k->tree.nodes[m].value.n, NULL) != ST_OK ||
        json_read_u64(&c, 0, EXPR_NO_LIMIT - 1, &v) != ST_OK)
        return schema_fail(k, m, ST_RANGE, "must be a whole number from 0 to %u",
                           EXPR_NO_LIMIT - 1);
    *out = (uint32_t)v;
    return ST_OK;
}

static enum status add_type(const struct schema_compiler *k, uint32_t node, unsigned *types,
                            bool *integer, bool *number)
{
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {{"null", T_NULL},      {"boolean", T_BOOL},  {"number", T_NUMBER},
                 {"integer", T_NUMBER}, {"string", T_STRING}, {"array", T_ARRAY},
                 {"object", T_OBJECT}};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (schema_is(&k->tree, node, names[i].name)) {
            *types |= names[i].bit;
            *integer = *integer || i == 3;
            *number = *number || i == 2;
            return ST_OK;
        }
    return schema_fail(k, node, ST_FORMAT,
                       "must be null, boolean, object, array, number, integer or string");
}

unsigned schema_type_bit(enum json_type type)
{
    static const unsigned bits[] = {
        [JSON_OBJECT] = T_OBJECT, [JSON_ARRAY] = T_ARRAY, [JSON_STRING] = T_STRING,
        [JSON_NUMBER] = T_NUMBER, [JSON_BOOL] = T_BOOL,   [JSON_NULL] = T_NULL};
    return bits[type];
}

enum status schema_types(const struct schema_compiler *k, uint32_t node, unsigned *types,
                         bool *integer)
{
    uint32_t type = schema_member(&k->tree, node, "type");
    bool number = false;
    *types = T_ALL;
    *integer = false;
    if (type == SCHEMA_NO_NODE)
        return ST_OK;
    *types = 0;
    if (k->tree.nodes[type].type == JSON_STRING)
        TRY(add_type(k, type, types, integer, &number));
    else if (k->tree.nodes[type].type != JSON_ARRAY)
        return schema_fail(k, type, ST_FORMAT, "must be a string or an array of strings");
    else if (k->tree.nodes[type].n == 0)
        return schema_fail(k, type, ST_FORMAT, "must not be empty");
    else
        for (uint32_t i = k->tree.nodes[type].first; i != SCHEMA_NO_NODE; i = k->tree.nodes[i].next)
            TRY(add_type(k, i, types, integer, &number));
    *integer = *integer && !number;
    return ST_OK;
}
