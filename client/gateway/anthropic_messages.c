/* Anthropic's messages as a chat template wants them: content one string, results of tools messages of their own. */
#include <string.h>

#include "client/gateway/anthropic_request.h"

/* Claude Code sends a block that is another one in each request; with it no prompt would begin as the last one did. */
static const char billing[] = "x-anthropic-billing-header";

enum block_type { TEXT, THINKING, REDACTED_THINKING, TOOL_USE, TOOL_RESULT, N_BLOCK_TYPES };

static const char *const type_names[N_BLOCK_TYPES] = {"text", "thinking", "redacted_thinking",
                                                      "tool_use", "tool_result"};

struct message {
    struct text_buf text, thinking, calls; /* calls: items of tool_calls */
    size_t n_texts, n_calls;
};

static void free_message(struct message *m)
{
    text_buf_free(&m->text);
    text_buf_free(&m->thinking);
    text_buf_free(&m->calls);
}

/* ---- blocks ---- */

/* Looks at the block's type; the cursor stays before the block.  allowed: bits of block_type. */
static enum status peek_type(struct json_cursor *c, unsigned allowed, enum block_type *type)
{
    struct json_cursor at = *c, whole = *c;
    struct json_span key;
    char name[64] = "";
    TRY(json_enter_object(&at));
    while (json_next_key(&at, &key)) {
        if (!json_span_is(key, "type"))
            continue;
        if (json_read_chars(&at, name, sizeof name) != ST_OK) {
            *c = at;
            return json_fail(c, ST_FORMAT, "must be the name of a type");
        }
        for (int i = 0; i < N_BLOCK_TYPES; i++)
            if (strcmp(name, type_names[i]) == 0 && (allowed & 1U << i)) {
                *type = (enum block_type)i;
                return ST_OK;
            }
        *c = at;
        return json_fail(c, ST_UNSUPPORTED, "blocks of type \"%s\" are not supported here", name);
    }
    return request_fail_at(c, &whole, "the block has no type");
}

/* Appends the string that is the block's member of that name. */
static enum status read_member(struct json_cursor *c, const char *name, struct text_buf *out)
{
    struct json_cursor whole = *c;
    struct json_span key;
    bool found = false;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key))
        if (json_span_is(key, name)) {
            TRY(json_read_string(c, out));
            found = true;
        }
    return found ? ST_OK : request_fail_at(c, &whole, "the block lacks the text of its type");
}

/* A string, or a list of blocks of text. */
static enum status read_texts(struct json_cursor *c, struct text_buf *out)
{
    enum block_type type;
    if (json_peek(c) == JSON_STRING)
        return json_read_string(c, out);
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        TRY(peek_type(c, 1U << TEXT, &type));
        TRY(read_member(c, "text", out));
    }
    return ST_OK;
}

static enum status read_tool_use(struct json_cursor *c, struct message *m)
{
    struct json_cursor whole = *c;
    struct json_span key, id = {0}, name = {0}, input = {0};
    struct json_writer w = {.out = &m->calls, .comma = m->n_calls > 0};
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        bool is_id = json_span_is(key, "id"), is_name = json_span_is(key, "name");
        if ((is_id || is_name) && json_peek(c) != JSON_STRING)
            return json_fail(c, ST_FORMAT, "must be a string");
        if (json_span_is(key, "input") && json_peek(c) != JSON_OBJECT)
            return json_fail(c, ST_FORMAT, "must be an object");
        if (is_id)
            id = json_read_raw(c);
        else if (is_name)
            name = json_read_raw(c);
        else if (json_span_is(key, "input"))
            input = json_read_raw(c);
    }
    if (!id.n || !name.n || !input.n)
        return request_fail_at(c, &whole, "a tool_use has id, name and input");
    json_write_object(&w);
    json_write_key(&w, "id");
    json_write_raw(&w, id.p, id.n);
    json_member_string(&w, "type", "function");
    json_write_key(&w, "function");
    json_write_object(&w);
    json_write_key(&w, "name");
    json_write_raw(&w, name.p, name.n);
    json_write_key(&w, "arguments");
    json_write_raw(&w, input.p, input.n);
    json_write_end_object(&w);
    json_write_end_object(&w);
    m->n_calls++;
    return w.status;
}

/* ---- results of tools ---- */

static enum status write_result(struct json_cursor *c, struct json_writer *w, struct text_buf *text)
{
    struct json_cursor whole = *c;
    struct json_span key, id = {0};
    bool is_error = false;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "tool_use_id")) {
            if (json_peek(c) != JSON_STRING)
                return json_fail(c, ST_FORMAT, "must be a string");
            id = json_read_raw(c);
        } else if (json_span_is(key, "content")) {
            TRY(read_texts(c, text));
        } else if (json_span_is(key, "is_error")) {
            TRY(json_read_bool(c, &is_error));
        }
    }
    if (!id.n)
        return request_fail_at(c, &whole, "the result has no tool_use_id");
    json_write_object(w);
    json_member_string(w, "role", "tool");
    json_write_key(w, "tool_call_id");
    json_write_raw(w, id.p, id.n);
    json_write_key(w, "content");
    json_write_bytes(w, text->data, text->len);
    if (is_error)
        json_member_bool(w, "is_error", true);
    json_write_end_object(w);
    return w->status;
}

static enum status read_result(struct anthropic_request *q, struct json_cursor *c)
{
    struct text_buf json = {0}, text = {0};
    struct json_writer w = {.out = &json};
    enum status st = write_result(c, &w, &text);
    if (st == ST_OK)
        st = request_turns_add(&q->turns, &q->of, c, &json);
    text_buf_free(&text);
    text_buf_free(&json);
    return st;
}

/* ---- messages ---- */

static enum status read_block(struct anthropic_request *q, struct json_cursor *c, unsigned allowed,
                              struct message *m)
{
    enum block_type type;
    TRY(peek_type(c, allowed, &type));
    switch (type) {
    case TEXT:
        m->n_texts++;
        return read_member(c, "text", &m->text);
    case THINKING:
        return read_member(c, "thinking", &m->thinking);
    case TOOL_USE:
        return read_tool_use(c, m);
    case TOOL_RESULT:
        return read_result(q, c);
    default: /* its text is not known here */
        return ST_OK;
    }
}

static enum status read_blocks(struct anthropic_request *q, struct json_cursor *c, bool assistant,
                               struct message *m)
{
    const unsigned of_user = 1U << TEXT | 1U << TOOL_RESULT;
    const unsigned of_assistant =
        1U << TEXT | 1U << THINKING | 1U << REDACTED_THINKING | 1U << TOOL_USE;
    if (json_peek(c) == JSON_STRING) {
        m->n_texts = 1;
        return json_read_string(c, &m->text);
    }
    if (json_peek(c) != JSON_ARRAY)
        return json_fail(c, ST_FORMAT, "must be a string or a list of blocks");
    TRY(json_enter_array(c));
    while (json_next_item(c))
        TRY(read_block(q, c, assistant ? of_assistant : of_user, m));
    return ST_OK;
}

/* The message without the results in it, which are turns already. */
static enum status add_message(struct anthropic_request *q, struct json_cursor *c, const char *role,
                               const struct message *m)
{
    const struct request_message of = {role, &m->text, &m->thinking, &m->calls, m->n_calls};
    return request_turns_add_message(&q->turns, &q->of, c, &of);
}

static enum status read_message(struct anthropic_request *q, struct json_cursor *c,
                                struct message *m)
{
    static const char *const roles[] = {"user", "assistant", "system"};
    struct json_cursor at = *c, whole = *c;
    struct json_span key;
    size_t role = ARRAY_LEN(roles);
    bool has_content = false;
    TRY(json_enter_object(&at));
    while (json_next_key(&at, &key))
        if (json_span_is(key, "role") &&
            json_read_choice(&at, roles, ARRAY_LEN(roles), &role) != ST_OK) {
            *c = at;
            return json_fail(c, ST_RANGE, "must be user, assistant or system");
        }
    if (role == ARRAY_LEN(roles))
        return request_fail_at(c, &whole, "the message has no role");
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "content")) {
            TRY(read_blocks(q, c, role == 1, m));
            has_content = true;
        } else if (!json_span_is(key, "role")) {
            return request_unknown(c);
        }
    }
    if (!has_content)
        return request_fail_at(c, &whole, "the message has no content");
    q->prefilled = role == 1 && m->text.len && !m->n_calls;
    return role == 1 || m->n_texts ? add_message(q, c, roles[role], m) : ST_OK;
}

enum status anthropic_read_messages(struct anthropic_request *q, struct json_cursor *c)
{
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        struct message m = {0};
        enum status st = read_message(q, c, &m);
        free_message(&m);
        TRY(st);
    }
    return ST_OK;
}

/* ---- system ---- */

enum status anthropic_read_system(struct anthropic_request *q, struct json_cursor *c)
{
    enum block_type type;
    if (json_peek(c) == JSON_STRING)
        return json_read_string(c, &q->system);
    if (json_peek(c) != JSON_ARRAY)
        return json_fail(c, ST_FORMAT, "must be a string or a list of blocks");
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        size_t before = q->system.len, n = sizeof billing - 1;
        TRY(peek_type(c, 1U << TEXT, &type));
        TRY(read_member(c, "text", &q->system));
        if (q->system.len - before >= n && memcmp(q->system.data + before, billing, n) == 0)
            q->system.len = before;
    }
    return ST_OK;
}

/* ---- tools ---- */

static enum status write_tool(struct answer_request *q, struct json_writer *w,
                              struct json_cursor *c)
{
    static const char *const types[] = {"custom"};
    struct json_cursor whole = *c;
    struct json_span key;
    bool has_name = false, has_schema = false, strict;
    size_t type;
    json_write_object(w);
    json_member_string(w, "type", "function");
    json_write_key(w, "function");
    json_write_object(w);
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        enum json_type value = json_peek(c);
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "type")) {
            if (json_read_choice(c, types, 1, &type) != ST_OK)
                return json_fail(c, ST_UNSUPPORTED, "only tools of the client are supported");
        } else if (json_span_is(key, "name")) {
            struct json_cursor at = *c;
            TRY(request_read_tool_name(q, c));
            TRY(request_pass_member(w, key, &at));
            has_name = true;
        } else if (json_span_is(key, "description")) {
            if (value != JSON_STRING)
                return json_fail(c, ST_FORMAT, "must be a string");
            TRY(request_pass_member(w, key, c));
        } else if (json_span_is(key, "input_schema")) {
            if (value != JSON_OBJECT)
                return json_fail(c, ST_FORMAT, "must be an object");
            struct json_span schema = json_read_raw(c);
            json_write_key(w, "parameters");
            json_write_raw(w, schema.p, schema.n);
            has_schema = true;
        } else if (json_span_is(key, "strict")) {
            struct json_cursor at = *c;
            TRY(json_read_bool(c, &strict));
            TRY(request_pass_member(w, key, &at));
        } else if (json_span_is(key, "defer_loading")) {
            TRY(request_only_bool(c, false));
        } else if (!json_span_is(key, "cache_control") &&
                   !json_span_is(key, "eager_input_streaming") &&
                   !json_span_is(key, "input_examples")) {
            return request_unknown(c);
        }
    }
    json_write_end_object(w);
    json_write_end_object(w);
    if (!has_name || !has_schema)
        return request_fail_at(c, &whole, "a tool has name and input_schema");
    return w->status;
}

enum status anthropic_read_tools(struct anthropic_request *q, struct json_cursor *c)
{
    return request_read_tools(&q->of, c, write_tool);
}
