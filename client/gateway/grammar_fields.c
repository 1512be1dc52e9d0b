#include "client/gateway/grammar_fields.h"

#include <stdio.h>
#include <string.h>

#include "client/gateway/request_fields.h"

/* The member of the request that c is in. */
static void note_field(struct answer_request *q, const struct json_cursor *c)
{
    char path[JSON_PATH_SIZE];
    json_path(c, path);
    path[strcspn(path, ".[")] = '\0';
    snprintf(q->grammar_field, sizeof q->grammar_field, "%.*s", ANSWER_MAX_FIELD - 1, path);
}

static enum status set(struct answer_request *q, struct json_cursor *c, enum ingot_grammar kind,
                       const char *source, size_t n)
{
    if (q->ask.grammar_kind != INGOT_GRAMMAR_NONE)
        return json_fail(c, ST_RANGE, "another field says already what the answer must follow");
    void *copy = answer_keep(q, source ? source : "", n);
    if (!copy)
        FAIL(ST_NOMEM, "no memory for a grammar of %zu bytes", n);
    q->ask.grammar_kind = kind;
    q->ask.grammar = copy;
    q->ask.n_grammar = n;
    note_field(q, c);
    return ST_OK;
}

static enum status set_string(struct answer_request *q, struct json_cursor *c,
                              enum ingot_grammar kind)
{
    struct text_buf text = {0};
    struct json_cursor here = *c;
    enum status st = json_read_string(c, &text);
    if (st == ST_OK)
        st = set(q, &here, kind, text.data, text.len);
    text_buf_free(&text);
    return st;
}

static enum status set_raw(struct answer_request *q, struct json_cursor *c, enum ingot_grammar kind)
{
    struct json_cursor here = *c;
    struct json_span raw = json_read_raw(c);
    return set(q, &here, kind, raw.p, raw.n);
}

enum status grammar_read_schema(struct answer_request *q, struct json_cursor *c)
{
    enum json_type type = json_peek(c);
    if (type == JSON_STRING)
        return set_string(q, c, INGOT_GRAMMAR_JSON_SCHEMA);
    if (type != JSON_OBJECT && type != JSON_BOOL)
        return json_fail(c, ST_FORMAT, "a schema must be an object or a boolean");
    return set_raw(q, c, INGOT_GRAMMAR_JSON_SCHEMA);
}

enum status grammar_read_regex(struct answer_request *q, struct json_cursor *c)
{
    return set_string(q, c, INGOT_GRAMMAR_REGEX);
}

/* An empty text is none, as in llama.cpp. */
enum status grammar_read_gbnf(struct answer_request *q, struct json_cursor *c)
{
    struct json_cursor here = *c;
    struct json_span text = json_read_raw(c);
    if (text.n == 2 && json_peek(&here) == JSON_STRING)
        return ST_OK;
    *c = here;
    return set_string(q, c, INGOT_GRAMMAR_GBNF);
}

enum status grammar_read_choice(struct answer_request *q, struct json_cursor *c)
{
    struct json_cursor items = *c;
    TRY(json_enter_array(&items));
    return set_raw(q, c, INGOT_GRAMMAR_CHOICE);
}

/* ---- response_format ---- */

struct format {
    struct json_cursor type, schema; /* at their values */
    bool has_type, has_schema, has_inner;
};

/* name, description and strict say nothing that is not so anyhow. */
static bool is_annotation(struct json_span key)
{
    return json_span_is(key, "name") || json_span_is(key, "description") ||
           json_span_is(key, "strict");
}

static enum status read_inner(struct format *f, struct json_cursor *c)
{
    struct json_span key;
    f->has_inner = true;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "schema")) {
            f->schema = *c;
            f->has_schema = true;
        } else if (!is_annotation(key)) {
            return request_unknown(c);
        }
    }
    return ST_OK;
}

/* Passes a failure at another place on to c, whose place is reported. */
static enum status failed_at(struct json_cursor *c, const struct json_cursor *at, enum status st)
{
    if (st != ST_OK)
        c->last = at->last;
    return st;
}

/* c: for failures of the whole. */
static enum status apply(struct answer_request *q, struct json_cursor *c, struct format *f)
{
    static const char *const types[] = {"text", "json_object", "json_schema"};
    size_t type;
    if (!f->has_type)
        return json_fail(c, ST_FORMAT, "it has no type");
    TRY(failed_at(c, &f->type, json_read_choice(&f->type, types, ARRAY_LEN(types), &type)));
    if (type != 2 && (f->has_schema || f->has_inner))
        return json_fail(c, ST_UNSUPPORTED, "only the type json_schema has a schema");
    if (type == 0)
        return ST_OK;
    if (type == 1)
        return set(q, c, INGOT_GRAMMAR_JSON_OBJECT, NULL, 0);
    if (!f->has_schema)
        return json_fail(c, ST_FORMAT, "there is no schema");
    return failed_at(c, &f->schema, grammar_read_schema(q, &f->schema));
}

static enum status read_format(struct answer_request *q, struct json_cursor *c, bool flat)
{
    struct json_cursor whole = *c;
    struct format f = {.has_type = false};
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "type")) {
            f.type = *c;
            f.has_type = true;
        } else if (!flat && json_span_is(key, "json_schema")) {
            TRY(read_inner(&f, c));
        } else if (flat && json_span_is(key, "schema")) {
            f.schema = *c;
            f.has_schema = true;
        } else if (!flat || !is_annotation(key)) {
            return request_unknown(c);
        }
    }
    return failed_at(c, &whole, apply(q, &whole, &f));
}

enum status grammar_read_response_format(struct answer_request *q, struct json_cursor *c)
{
    return read_format(q, c, false);
}

enum status grammar_read_text_format(struct answer_request *q, struct json_cursor *c)
{
    return read_format(q, c, true);
}

/* ---- the others ---- */

enum status grammar_read_structured_outputs(struct answer_request *q, struct json_cursor *c)
{
    struct json_span key;
    bool object;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "json")) {
            TRY(grammar_read_schema(q, c));
        } else if (json_span_is(key, "regex")) {
            TRY(grammar_read_regex(q, c));
        } else if (json_span_is(key, "choice")) {
            TRY(grammar_read_choice(q, c));
        } else if (json_span_is(key, "grammar")) {
            TRY(grammar_read_gbnf(q, c));
        } else if (json_span_is(key, "json_object")) {
            struct json_cursor here = *c;
            TRY(json_read_bool(c, &object));
            if (object)
                TRY(set(q, &here, INGOT_GRAMMAR_JSON_OBJECT, NULL, 0));
        } else {
            return request_unknown(c);
        }
    }
    return ST_OK;
}

enum status grammar_read_ollama_format(struct answer_request *q, struct json_cursor *c)
{
    char name[8] = "";
    if (json_peek(c) != JSON_STRING)
        return json_peek(c) == JSON_OBJECT
                   ? grammar_read_schema(q, c)
                   : json_fail(c, ST_FORMAT, "must be \"json\" or a schema");
    if (json_read_chars(c, name, sizeof name) != ST_OK || (*name && strcmp(name, "json") != 0))
        return json_fail(c, ST_UNSUPPORTED, "must be \"json\" or a schema");
    return *name ? set(q, c, INGOT_GRAMMAR_JSON_OBJECT, NULL, 0) : ST_OK;
}
