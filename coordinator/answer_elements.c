#include "coordinator/answer_elements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/output_schema.h"
#include "coordinator/answer_parts.h"

enum { MAX_DEPTH = 8 /* nested anyOf and references */, MAX_LENGTH = 100000 };

struct elements {
    struct json_writer *w;
    const struct answer_form *f;
    const struct output_call_form *form;
    const char *tool;
    struct output_span root; /* schema of all parameters */
    struct text_buf key;     /* the parameter's name, ended by NUL */
    unsigned others;         /* kinds beside strings that its value may have */
};

/* NULL ends each list. */
static const char *const of_objects[] = {"allOf",
                                         "anyOf",
                                         "oneOf",
                                         "not",
                                         "if",
                                         "then",
                                         "else",
                                         "$ref",
                                         "enum",
                                         "const",
                                         "dependencies",
                                         "patternProperties",
                                         "$dynamicRef",
                                         "minProperties",
                                         "maxProperties",
                                         "propertyNames",
                                         "$recursiveRef",
                                         "dependentRequired",
                                         "dependentSchemas",
                                         "unevaluatedProperties",
                                         NULL};
static const char *const of_strings[] = {"allOf",       "anyOf",         "oneOf", "not",
                                         "if",          "then",          "else",  "$ref",
                                         "$dynamicRef", "$recursiveRef", NULL};

static enum status fail(const struct elements *e, const char *keyword, const char *what)
{
    FAIL(ST_UNSUPPORTED, "%s: #/properties/%s%s%s: %s in this model's format of calls, %s", e->tool,
         e->key.data, *keyword ? "/" : "", keyword, what, output_tools_name(e->f->format));
}

static struct output_span member(struct output_span object, const char *name)
{
    return object.p && *object.p == '{' ? output_json_member(object, name)
                                        : (struct output_span){NULL, 0};
}

static const char *first_of(struct output_span schema, const char *const *names)
{
    while (*names && !member(schema, *names).p)
        names++;
    return *names;
}

static bool is_text(struct output_span s, const char *text)
{
    return s.p && s.n == strlen(text) + 2 && *s.p == '"' && memcmp(s.p + 1, text, s.n - 2) == 0;
}

/* What a "$ref" to "#/$defs/NAME" or "#/definitions/NAME" names; p NULL: nothing, or it has another form. */
static struct output_span resolve(const struct elements *e, struct output_span ref)
{
    static const char *const places[] = {"$defs", "definitions"};
    char name[OUTPUT_MAX_NAME], prefix[32];
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        int n = snprintf(prefix, sizeof prefix, "\"#/%s/", places[i]);
        size_t begin = (size_t)n;
        if (ref.n < begin + 2 || memcmp(ref.p, prefix, begin) != 0 || ref.n - begin > sizeof name ||
            memchr(ref.p, '~', ref.n) || memchr(ref.p, '%', ref.n) || memchr(ref.p, '\\', ref.n))
            continue;
        memcpy(name, ref.p + begin, ref.n - begin - 1);
        name[ref.n - begin - 1] = '\0';
        return member(member(e->root, places[i]), name);
    }
    return (struct output_span){NULL, 0};
}

/* ---- values that are JSON ---- */

static void put_strings_of(struct json_writer *w, const char *key, const char *const *texts)
{
    json_write_key(w, key);
    json_write_array(w);
    for (; *texts; texts++)
        json_write_string(w, *texts);
    json_write_end_array(w);
}

/* Names of the kinds, as types of a schema. */
static void put_kinds(struct json_writer *w, const char *key, unsigned kinds)
{
    static const struct {
        unsigned kind;
        const char *name;
    } rows[] = {{KIND_NUMBER, "number"},
                {KIND_BOOLEAN, "boolean"},
                {KIND_NULL, "null"},
                {KIND_OBJECT, "object"},
                {KIND_ARRAY, "array"}};
    json_write_key(w, key);
    json_write_array(w);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (kinds & rows[i].kind)
            json_write_string(w, rows[i].name);
    json_write_end_array(w);
}

/* A node: JSON by the schema, of the other kinds. */
static void put_json(struct elements *e, struct output_span schema)
{
    static const char *const copied[] = {"$schema", "$defs", "definitions"};
    struct json_writer *w = e->w;
    struct text_buf of = {0};
    part_begin(w, "schema");
    json_write_object(w);
    for (size_t i = 0; i < ARRAY_LEN(copied); i++) {
        struct output_span m = member(e->root, copied[i]);
        if (!m.p)
            continue;
        json_write_key(w, copied[i]);
        json_write_raw(w, m.p, m.n);
    }
    json_write_key(w, "allOf");
    json_write_array(w);
    json_write_raw(w, schema.p, schema.n);
    json_write_object(w);
    put_kinds(w, "type", e->others);
    json_write_end_object(w);
    json_write_end_array(w);
    json_write_end_object(w);
    put_strings_of(w, "without", (const char *[]){e->form->close, NULL});
    enum status st = text_buf_append(&of, e->tool, strlen(e->tool));
    if (st == ST_OK)
        st = text_buf_append(&of, ": #/properties/", 15);
    if (st == ST_OK)
        st = text_buf_append(&of, e->key.data, e->key.len);
    json_write_key(w, "of");
    json_write_bytes(w, of.data ? of.data : "", of.len);
    if (st != ST_OK)
        w->status = st;
    text_buf_free(&of);
    json_write_end_object(w);
}

/* ---- values that are strings ---- */

static bool has_item(struct output_span list, char first, const char *text)
{
    struct output_span item;
    for (size_t i = 0; list.p && *list.p == '[' && (item = output_json_item(list, i)).p; i++)
        if (*item.p == first && (!text || is_text(item, text)))
            return true;
    return false;
}

/* May a value of the schema be a string? */
static bool allows_string(const struct elements *e, struct output_span schema, unsigned depth)
{
    static const char *const lists[] = {"anyOf", "oneOf"};
    struct output_span type = member(schema, "type"), values = member(schema, "enum"),
                       value = member(schema, "const"), ref = member(schema, "$ref"), item;
    if (!schema.p || depth > MAX_DEPTH || *schema.p == 'f')
        return false;
    if (type.p && !is_text(type, "string") && !has_item(type, '"', "string"))
        return false;
    if (values.p || value.p)
        return has_item(values, '"', NULL) || (value.p && *value.p == '"');
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        struct output_span list = member(schema, lists[k]);
        bool any = !list.p || *list.p != '[';
        for (size_t i = 0; !any && (item = output_json_item(list, i)).p; i++)
            any = allows_string(e, item, depth + 1);
        if (!any)
            return false;
    }
    return !ref.p || allows_string(e, resolve(e, ref), depth + 1);
}

/* "min" or "max" of a string. */
static enum status put_length(struct elements *e, struct output_span schema, const char *keyword,
                              const char *name)
{
    struct output_span v = member(schema, keyword);
    unsigned long n = v.p ? strtoul(v.p, NULL, 10) : 0;
    if (!v.p)
        return ST_OK;
    if (strspn(v.p, "0123456789") < v.n || v.n > 6 || n > MAX_LENGTH)
        return fail(e, keyword, "only whole numbers up to 100000 are supported");
    json_member_u64(e->w, name, n);
    return ST_OK;
}

/* The strings among the values of enum or const. */
static void put_choice(struct json_writer *w, struct output_span values, struct output_span value)
{
    struct output_span item;
    if (!values.p && !value.p)
        return;
    json_write_key(w, "choice");
    json_write_array(w);
    for (size_t i = 0; values.p && *values.p == '[' && (item = output_json_item(values, i)).p; i++)
        if (*item.p == '"')
            json_write_raw(w, item.p, item.n);
    if (!values.p && *value.p == '"')
        json_write_raw(w, value.p, value.n);
    json_write_end_array(w);
}

/* A node of one schema with string keywords. */
static enum status put_string(struct elements *e, struct output_span schema)
{
    struct json_writer *w = e->w;
    struct output_span pattern = member(schema, "pattern"), values = member(schema, "enum"),
                       value = member(schema, "const");
    const char *bad = first_of(schema, of_strings), *last = strrchr(e->form->value, '\n');
    if (bad)
        return fail(e, bad, "it is not supported beside the keywords of a string");
    if (member(schema, "format").p)
        return fail(e, "format", "it is not supported");
    if (values.p && value.p)
        return fail(e, "const", "it is not supported beside enum");
    part_begin(w, "string");
    json_write_object(w);
    TRY(put_length(e, schema, "minLength", "min"));
    TRY(put_length(e, schema, "maxLength", "max"));
    put_choice(w, values, value);
    if (pattern.p && pattern.n > 2) {
        json_write_key(w, "regex");
        json_write_raw(w, pattern.p, pattern.n);
    }
    put_strings_of(w, "without", (const char *[]){e->form->close, NULL});
    /* the output parser takes a first newline for a part of the mark before it */
    if (e->f->format != OUTPUT_TOOLS_GLM45 && !(last && last[1] == '\0'))
        json_member_string(w, "not_first", "\n");
    put_kinds(w, "not_json", e->others);
    json_write_end_object(w);
    json_write_end_object(w);
    return ST_OK;
}

/* A node: the strings of the schema, which allows some. */
static enum status put_strings(struct elements *e, struct output_span schema, unsigned depth)
{
    struct output_span ref = member(schema, "$ref"), all = member(schema, "allOf"),
                       list = member(schema, "anyOf"), item;
    if (depth > MAX_DEPTH)
        return fail(e, "", "schemas are nested too deeply");
    if (!list.p)
        list = member(schema, "oneOf");
    if (*schema.p != '{' || (!ref.p && !all.p && !list.p))
        return put_string(e, schema);
    /* of these keywords one alone */
    if ((ref.p != NULL) + (all.p != NULL) + (member(schema, "anyOf").p != NULL) +
                (member(schema, "oneOf").p != NULL) >
            1 ||
        member(schema, "enum").p || member(schema, "const").p || member(schema, "pattern").p ||
        member(schema, "minLength").p || member(schema, "maxLength").p ||
        member(schema, "format").p || member(schema, "not").p || member(schema, "if").p)
        return fail(e, "", "keywords beside anyOf, oneOf, allOf and $ref are not supported");
    if (ref.p) {
        struct output_span target = resolve(e, ref);
        return target.p
                   ? put_strings(e, target, depth + 1)
                   : fail(e, "$ref", "only references into $defs and definitions are supported");
    }
    if (all.p) {
        item = *all.p == '[' ? output_json_item(all, 0) : (struct output_span){NULL, 0};
        return item.p && !output_json_item(all, 1).p
                   ? put_strings(e, item, depth + 1)
                   : fail(e, "allOf", "only one schema is supported here");
    }
    part_list(e->w, "any_of");
    for (size_t i = 0; *list.p == '[' && (item = output_json_item(list, i)).p; i++)
        if (allows_string(e, item, 0))
            TRY(put_strings(e, item, depth + 1));
    part_end_list(e->w);
    return ST_OK;
}

/* ---- parameters ---- */

/* An item: the value of the parameter. */
static enum status put_value(struct elements *e, struct output_span schema)
{
    struct output_span tools = {e->f->tools_json.data, e->f->tools_json.n};
    unsigned kinds = output_schema_kinds(tools, e->tool, e->key.data);
    bool strings = kinds & KIND_STRING && allows_string(e, schema, 0);
    e->others = kinds & ~(unsigned)KIND_STRING;
    part_list(e->w, "any_of");
    if (strings)
        TRY(put_strings(e, schema, 0));
    if (e->others)
        put_json(e, schema);
    part_end_list(e->w);
    return strings || e->others ? ST_OK : fail(e, "", "no value is possible");
}

static bool is_required(const struct elements *e)
{
    struct output_span list = member(e->root, "required"), item;
    struct text_buf name = {0};
    bool found = false;
    for (size_t i = 0; list.p && *list.p == '[' && (item = output_json_item(list, i)).p && !found;
         i++) {
        name.len = 0;
        found = *item.p == '"' && output_json_text(item, &name) == ST_OK &&
                name.len == e->key.len && memcmp(name.data, e->key.data, name.len) == 0;
    }
    text_buf_free(&name);
    return found;
}

static enum status check_key(const struct elements *e)
{
    const char *name = e->key.data;
    bool ok = e->key.len > 0 && e->key.len <= OUTPUT_MAX_NAME && strlen(name) == e->key.len;
    for (size_t i = 0; ok && name[i]; i++)
        ok = (unsigned char)name[i] >= ' ' && !strchr("<>\"", name[i]);
    if (!ok)
        FAIL(ST_FORMAT, "%s: the name of a parameter cannot be written in an element: %s", e->tool,
             name);
    return ST_OK;
}

/* An item. */
static enum status put_parameter(struct elements *e, struct output_span schema)
{
    bool optional = !is_required(e);
    TRY(check_key(e));
    if (optional)
        part_begin(e->w, "repeat");
    part_list(e->w, "seq");
    part_text(e->w, e->f, e->form->key);
    part_put(e->w, "text", e->key.data, e->key.len);
    part_text(e->w, e->f, e->form->value);
    TRY(put_value(e, schema));
    part_text(e->w, e->f, e->form->value_end);
    part_end_list(e->w);
    if (optional) {
        json_member_u64(e->w, "max", 1);
        json_write_end_object(e->w);
    }
    return ST_OK;
}

/* All members of properties; n gets how many are required. */
static enum status put_parameters(struct elements *e, struct output_span properties, size_t *n)
{
    struct json_cursor c;
    struct json_span key, value;
    TRY(json_open(&c, properties.p, properties.n, NULL));
    TRY(json_enter_object(&c));
    while (json_next_key(&c, &key)) {
        value = json_read_raw(&c);
        e->key.len = 0;
        TRY(json_span_text(key, &e->key));
        TRY(text_buf_append(&e->key, "", 1));
        e->key.len--;
        *n += is_required(e);
        TRY(put_parameter(e, (struct output_span){value.p, value.n}));
    }
    return ST_OK;
}

static enum status check_root(const struct elements *e)
{
    struct output_span type = member(e->root, "type");
    const char *bad = first_of(e->root, of_objects);
    if (*e->root.p != '{' || (type.p && !is_text(type, "object")))
        FAIL(ST_FORMAT, "%s: #/type: parameters must be an object", e->tool);
    if (bad)
        FAIL(ST_UNSUPPORTED, "%s: #/%s: it is not supported in this model's format of calls, %s",
             e->tool, bad, output_tools_name(e->f->format));
    return ST_OK;
}

enum status answer_elements(struct json_writer *w, const struct answer_form *f,
                            const struct output_call_form *form, const char *tool,
                            struct json_span schema)
{
    struct elements e = {.w = w, .f = f, .form = form, .tool = tool, .root = {schema.p, schema.n}};
    size_t n = 0, n_required = 0;
    if (!schema.p)
        return ST_OK;
    TRY(check_root(&e));
    struct output_span properties = member(e.root, "properties"),
                       required = member(e.root, "required");
    enum status st = properties.p ? put_parameters(&e, properties, &n) : ST_OK;
    text_buf_free(&e.key);
    while (st == ST_OK && required.p && *required.p == '[' &&
           output_json_item(required, n_required).p)
        n_required++;
    if (st == ST_OK && n != n_required)
        FAIL(ST_UNSUPPORTED, "%s: #/required: a name that is not among the properties", tool);
    return st;
}
