#include "common/text/output_schema.h"

#include <string.h>

enum { MAX_DEPTH = 8 /* nested anyOf */ };

unsigned output_schema_kind_of(char first)
{
    switch (first) {
    case '"':
        return KIND_STRING;
    case 't':
    case 'f':
        return KIND_BOOLEAN;
    case 'n':
        return KIND_NULL;
    case '{':
        return KIND_OBJECT;
    case '[':
        return KIND_ARRAY;
    default:
        return first == '-' || (first >= '0' && first <= '9') ? KIND_NUMBER : 0;
    }
}

static bool is_text(struct output_span s, const char *text)
{
    return s.p && s.n == strlen(text) + 2 && *s.p == '"' && memcmp(s.p + 1, text, s.n - 2) == 0;
}

static unsigned kind_of_type(struct output_span type)
{
    static const struct {
        const char *name;
        unsigned kind;
    } rows[] = {{"string", KIND_STRING},   {"integer", KIND_NUMBER}, {"number", KIND_NUMBER},
                {"boolean", KIND_BOOLEAN}, {"null", KIND_NULL},      {"object", KIND_OBJECT},
                {"array", KIND_ARRAY}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (is_text(type, rows[i].name))
            return rows[i].kind;
    return 0;
}

static unsigned kinds_of_schema(struct output_span schema, int depth);

/* What the items of a list allow together: as names of types, as schemas, or as values. */
static unsigned kinds_of_list(struct output_span list, bool types, bool schemas, int depth)
{
    unsigned kinds = 0;
    struct output_span item;
    if (!list.p || *list.p != '[')
        return 0;
    for (size_t i = 0; (item = output_json_item(list, i)).p; i++)
        kinds |= types     ? kind_of_type(item)
                 : schemas ? kinds_of_schema(item, depth + 1)
                           : output_schema_kind_of(*item.p);
    return kinds;
}

static unsigned kinds_of_schema(struct output_span schema, int depth)
{
    if (!schema.p || *schema.p != '{' || depth > MAX_DEPTH)
        return 0;
    struct output_span type = output_json_member(schema, "type");
    unsigned kinds = kind_of_type(type) | kinds_of_list(type, true, false, depth);
    if (!kinds)
        kinds = kinds_of_list(output_json_member(schema, "anyOf"), false, true, depth) |
                kinds_of_list(output_json_member(schema, "oneOf"), false, true, depth);
    if (!kinds)
        kinds = kinds_of_list(output_json_member(schema, "enum"), false, false, depth);
    struct output_span value = output_json_member(schema, "const");
    if (!kinds && value.p)
        kinds = output_schema_kind_of(*value.p);
    if (!kinds && (output_json_member(schema, "$ref").p || output_json_member(schema, "allOf").p))
        kinds = KIND_ALL;
    return kinds;
}

static struct output_span member(struct output_span object, const char *name)
{
    return object.p && *object.p == '{' ? output_json_member(object, name)
                                        : (struct output_span){NULL, 0};
}

unsigned output_schema_kinds(struct output_span tools, const char *name, const char *key)
{
    struct output_span item;
    unsigned kinds = 0;
    for (size_t i = 0; tools.p && *tools.p == '[' && (item = output_json_item(tools, i)).p; i++) {
        struct output_span function = member(item, "function");
        if (!function.p)
            function = item;
        if (!is_text(member(function, "name"), name))
            continue;
        struct output_span schema = member(function, "parameters");
        kinds = kinds_of_schema(member(member(schema, "properties"), key), 0);
        break;
    }
    return kinds ? kinds : KIND_STRING;
}
