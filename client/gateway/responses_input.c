/* The items of an input as the messages of a chat template.  One turn of the assistant is several items: its reasoning,
 * its text, its calls. */
#include <string.h>

#include "client/gateway/openai_request.h"
#include "client/gateway/responses_request.h"

enum item_type { MESSAGE, FUNCTION_CALL, FUNCTION_CALL_OUTPUT, REASONING, N_ITEM_TYPES };

static const char *const type_names[N_ITEM_TYPES] = {"message", "function_call",
                                                     "function_call_output", "reasoning"};

/* A turn of the assistant that may not have ended. */
struct assistant {
    struct text_buf text, reasoning, calls; /* calls: items of tool_calls */
    size_t n_texts, n_calls;
};

static void clear(struct assistant *a)
{
    text_buf_free(&a->text);
    text_buf_free(&a->reasoning);
    text_buf_free(&a->calls);
    *a = (struct assistant){0};
}

static enum status add_text_turn(struct responses_request *q, struct json_cursor *c,
                                 const char *role, const struct text_buf *text,
                                 const struct json_span *call_id)
{
    struct text_buf json = {0};
    struct json_writer w = {.out = &json};
    json_write_object(&w);
    json_member_string(&w, "role", role);
    if (call_id) {
        json_write_key(&w, "tool_call_id");
        json_write_raw(&w, call_id->p, call_id->n);
    }
    json_write_key(&w, "content");
    json_write_bytes(&w, text->data, text->len);
    json_write_end_object(&w);
    enum status st = w.status == ST_OK ? request_turns_add(&q->turns, &q->of, c, &json) : w.status;
    text_buf_free(&json);
    return st;
}

/* The turn has ended: it becomes a message. */
static enum status end_assistant(struct responses_request *q, struct json_cursor *c,
                                 struct assistant *a)
{
    const struct request_message of = {"assistant", &a->text, &a->reasoning, &a->calls, a->n_calls};
    if (!a->n_texts && !a->n_calls && !a->reasoning.len)
        return ST_OK;
    enum status st = request_turns_add_message(&q->turns, &q->of, c, &of);
    clear(a);
    return st;
}

/* ---- texts ---- */

static enum status read_part(struct json_cursor *c, struct text_buf *out)
{
    static const char *const types[] = {"input_text",   "output_text",    "text",
                                        "summary_text", "reasoning_text", "refusal"};
    struct json_cursor whole = *c;
    struct json_span key;
    size_t type = ARRAY_LEN(types);
    bool found = false;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "type")) {
            if (json_read_choice(c, types, ARRAY_LEN(types), &type) != ST_OK)
                return json_fail(c, ST_UNSUPPORTED, "only parts of text are supported");
        } else if (json_span_is(key, "text") || json_span_is(key, "refusal")) {
            TRY(json_read_string(c, out));
            found = true;
        }
    }
    if (type == ARRAY_LEN(types) || !found)
        return request_fail_at(c, &whole, "a part has type and text");
    return ST_OK;
}

/* A string or a list of parts. */
static enum status read_texts(struct json_cursor *c, struct text_buf *out)
{
    if (json_peek(c) == JSON_STRING)
        return json_read_string(c, out);
    if (json_peek(c) != JSON_ARRAY)
        return json_fail(c, ST_FORMAT, "must be a string or a list of parts");
    TRY(json_enter_array(c));
    while (json_next_item(c))
        TRY(read_part(c, out));
    return ST_OK;
}

/* ---- items ---- */

static enum status peek_item(struct json_cursor *c, enum item_type *type, char *role, size_t size)
{
    struct json_cursor at = *c;
    struct json_span key;
    char name[64];
    *type = MESSAGE;
    *role = '\0';
    TRY(json_enter_object(&at));
    while (json_next_key(&at, &key)) {
        if (json_span_is(key, "role")) {
            if (json_read_chars(&at, role, size) != ST_OK) {
                *c = at;
                return json_fail(c, ST_FORMAT, "must be the name of a role");
            }
        } else if (json_span_is(key, "type")) {
            int i = 0;
            bool is_text = json_read_chars(&at, name, sizeof name) == ST_OK;
            while (is_text && i < N_ITEM_TYPES && strcmp(name, type_names[i]) != 0)
                i++;
            if (!is_text || i == N_ITEM_TYPES) {
                *c = at;
                return json_fail(c, ST_UNSUPPORTED, "items of this type are not supported");
            }
            *type = (enum item_type)i;
        }
    }
    return ST_OK;
}

static enum status read_message(struct responses_request *q, struct json_cursor *c,
                                const char *role, struct assistant *a)
{
    bool assistant = strcmp(role, "assistant") == 0, has_content = false;
    struct json_cursor whole = *c;
    struct text_buf text = {0};
    struct json_span key;
    if (!*role)
        return request_fail_at(c, &whole, "the message has no role");
    if (!assistant || a->n_texts || a->n_calls)
        TRY(end_assistant(q, c, a));
    enum status st = json_enter_object(c);
    while (st == ST_OK && json_next_key(c, &key))
        if (json_span_is(key, "content")) {
            st = read_texts(c, assistant ? &a->text : &text);
            has_content = true;
        }
    if (st == ST_OK && !has_content)
        st = request_fail_at(c, &whole, "the message has no content");
    a->n_texts += assistant;
    if (st == ST_OK && !assistant)
        st = add_text_turn(q, c, strcmp(role, "developer") == 0 ? "system" : role, &text, NULL);
    text_buf_free(&text);
    return st;
}

static enum status read_call(struct json_cursor *c, struct assistant *a)
{
    struct json_cursor whole = *c, arguments = {0};
    struct json_span key, id = {0}, name = {0};
    struct json_writer w = {.out = &a->calls, .comma = a->n_calls > 0};
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        bool is_id = json_span_is(key, "call_id"), is_name = json_span_is(key, "name"),
             is_arguments = json_span_is(key, "arguments");
        if ((is_id || is_name || is_arguments) && json_peek(c) != JSON_STRING)
            return json_fail(c, ST_FORMAT, "must be a string");
        if (is_id)
            id = json_read_raw(c);
        else if (is_name)
            name = json_read_raw(c);
        else if (is_arguments)
            arguments = *c;
    }
    if (!id.n || !name.n || !arguments.text)
        return request_fail_at(c, &whole, "a call has call_id, name and arguments");
    json_write_object(&w);
    json_write_key(&w, "id");
    json_write_raw(&w, id.p, id.n);
    json_member_string(&w, "type", "function");
    json_write_key(&w, "function");
    json_write_object(&w);
    json_write_key(&w, "name");
    json_write_raw(&w, name.p, name.n);
    json_write_key(&w, "arguments");
    enum status st = openai_write_arguments(&w, &arguments);
    if (st != ST_OK) {
        *c = arguments; /* where it is wrong */
        return st;
    }
    json_write_end_object(&w);
    json_write_end_object(&w);
    a->n_calls++;
    return w.status;
}

static enum status read_output(struct responses_request *q, struct json_cursor *c)
{
    struct json_cursor whole = *c;
    struct text_buf text = {0};
    struct json_span key, id = {0};
    bool has_output = false;
    enum status st = json_enter_object(c);
    while (st == ST_OK && json_next_key(c, &key)) {
        if (json_span_is(key, "call_id") && json_peek(c) == JSON_STRING) {
            id = json_read_raw(c);
        } else if (json_span_is(key, "output")) {
            st = read_texts(c, &text);
            has_output = true;
        }
    }
    if (st == ST_OK && (!id.n || !has_output))
        st = request_fail_at(c, &whole, "an output has call_id and output");
    if (st == ST_OK)
        st = add_text_turn(q, c, "tool", &text, &id);
    text_buf_free(&text);
    return st;
}

static enum status read_reasoning(struct json_cursor *c, struct assistant *a)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key))
        if (json_span_is(key, "content") && !json_take_null(c))
            TRY(read_texts(c, &a->reasoning));
    return ST_OK;
}

static enum status read_item(struct responses_request *q, struct json_cursor *c,
                             struct assistant *a)
{
    enum item_type type;
    char role[64];
    TRY(peek_item(c, &type, role, sizeof role));
    switch (type) {
    case MESSAGE:
        return read_message(q, c, role, a);
    case FUNCTION_CALL:
        return read_call(c, a);
    case FUNCTION_CALL_OUTPUT:
        TRY(end_assistant(q, c, a));
        return read_output(q, c);
    default:
        if (a->n_texts || a->n_calls)
            TRY(end_assistant(q, c, a));
        return read_reasoning(c, a);
    }
}

enum status responses_read_input(struct responses_request *q, struct json_cursor *c)
{
    struct assistant a = {0};
    enum status st = ST_OK;
    if (json_peek(c) == JSON_STRING) {
        st = json_read_string(c, &a.text);
        if (st == ST_OK)
            st = add_text_turn(q, c, "user", &a.text, NULL);
        clear(&a);
        return st;
    }
    st = json_enter_array(c);
    while (st == ST_OK && json_next_item(c))
        st = read_item(q, c, &a);
    if (st == ST_OK)
        st = end_assistant(q, c, &a);
    clear(&a);
    return st;
}
