/* Messages and tools as a chat template wants them: content one string, arguments of calls objects. */
#include <string.h>

#include "client/gateway/openai_request.h"
#include "common/json/json_write.h"

/* ---- content ---- */

static enum status read_part(struct json_cursor *c, struct text_buf *text)
{
    static const char *const types[] = {"text", "refusal"};
    struct json_cursor at = *c, whole = *c;
    struct json_span key;
    size_t type = 0;
    bool found = false;
    TRY(json_enter_object(&at));
    while (json_next_key(&at, &key))
        if (json_span_is(key, "type")) {
            if (json_read_choice(&at, types, ARRAY_LEN(types), &type) != ST_OK) {
                *c = at;
                return json_fail(c, ST_UNSUPPORTED, "only parts of type \"text\" are supported");
            }
            found = true;
        }
    if (!found)
        return request_fail_at(c, &whole, "the part has no type");
    found = false;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key))
        if (json_span_is(key, types[type])) {
            TRY(json_read_string(c, text));
            found = true;
        }
    if (!found)
        return request_fail_at(c, &whole,
                               type ? "the part has no refusal" : "the part has no text");
    return ST_OK;
}

static enum status write_content(struct json_writer *w, struct json_cursor *c)
{
    struct text_buf text = {0};
    enum status st = json_enter_array(c);
    while (st == ST_OK && json_next_item(c))
        st = read_part(c, &text);
    if (st == ST_OK)
        json_write_bytes(w, text.data, text.len);
    text_buf_free(&text);
    return st;
}

/* ---- calls of earlier turns ---- */

enum status openai_write_arguments(struct json_writer *w, struct json_cursor *c)
{
    struct text_buf text = {0};
    struct json_cursor inner;
    enum status st = json_read_string(c, &text);
    if (st == ST_OK && text.len == 0)
        st = text_buf_append(&text, "{}", 2);
    if (st == ST_OK &&
        (json_open(&inner, text.data, text.len, NULL) != ST_OK || json_peek(&inner) != JSON_OBJECT))
        st = json_fail(c, ST_FORMAT, "the string does not hold a JSON object");
    if (st == ST_OK)
        json_write_raw(w, text.data, text.len);
    text_buf_free(&text);
    return st;
}

static enum status write_function(struct json_writer *w, struct json_cursor *c)
{
    struct json_span key;
    TRY(json_enter_object(c));
    json_write_object(w);
    while (json_next_key(c, &key)) {
        if (!json_span_is(key, "arguments") || json_peek(c) != JSON_STRING) {
            TRY(request_pass_member(w, key, c));
            continue;
        }
        json_write_key(w, "arguments");
        TRY(openai_write_arguments(w, c));
    }
    json_write_end_object(w);
    return ST_OK;
}

static enum status write_calls(struct json_writer *w, struct json_cursor *c)
{
    struct json_span key;
    TRY(json_enter_array(c));
    json_write_array(w);
    while (json_next_item(c)) {
        TRY(json_enter_object(c));
        json_write_object(w);
        while (json_next_key(c, &key)) {
            if (!json_span_is(key, "function")) {
                TRY(request_pass_member(w, key, c));
                continue;
            }
            json_write_key(w, "function");
            TRY(write_function(w, c));
        }
        json_write_end_object(w);
    }
    json_write_end_array(w);
    return ST_OK;
}

/* ---- messages ---- */

static enum status write_message(struct json_writer *w, struct json_cursor *c)
{
    struct json_cursor whole = *c;
    struct json_span key, thinking = {0};
    bool has_role = false, has_thinking = false;
    TRY(json_enter_object(c));
    json_write_object(w);
    while (json_next_key(c, &key)) {
        enum json_type type = json_peek(c);
        if (json_span_is(key, "role")) {
            char role[64];
            TRY(json_read_chars(c, role, sizeof role));
            json_member_string(w, "role", strcmp(role, "developer") == 0 ? "system" : role);
            has_role = true;
        } else if (json_span_is(key, "content") && type == JSON_ARRAY) {
            json_write_key(w, "content");
            TRY(write_content(w, c));
        } else if (json_span_is(key, "content") && type != JSON_STRING && type != JSON_NULL) {
            return json_fail(c, ST_FORMAT, "must be a string, null or a list of parts");
        } else if (json_span_is(key, "tool_calls") && type == JSON_ARRAY) {
            json_write_key(w, "tool_calls");
            TRY(write_calls(w, c));
        } else {
            struct json_cursor at = *c;
            if (json_span_is(key, "reasoning") && type == JSON_STRING)
                thinking = json_read_raw(&at);
            has_thinking = has_thinking || json_span_is(key, "reasoning_content");
            TRY(request_pass_member(w, key, c));
        }
    }
    if (thinking.n && !has_thinking) { /* templates know it by this name */
        json_write_key(w, "reasoning_content");
        json_write_raw(w, thinking.p, thinking.n);
    }
    json_write_end_object(w);
    if (!has_role)
        return request_fail_at(c, &whole, "the message has no role");
    return w->status;
}

enum status openai_read_messages(struct openai_request *q, struct json_cursor *c)
{
    struct request_turns turns = {0};
    enum status st = json_enter_array(c);
    while (st == ST_OK && json_next_item(c)) {
        struct text_buf text = {0};
        struct json_writer w = {.out = &text};
        st = write_message(&w, c);
        if (st == ST_OK)
            st = request_turns_add(&turns, &q->of, c, &text);
        text_buf_free(&text);
    }
    if (st == ST_OK)
        st = request_turns_end(&turns, &q->of);
    request_turns_free(&turns);
    return st;
}

/* ---- tools ---- */

static enum status read_tool(struct openai_request *q, struct json_cursor *c)
{
    static const char *const types[] = {"function"};
    struct json_cursor whole = *c;
    struct json_span key;
    size_t type;
    bool has_function = false;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "type")) {
            TRY(json_read_choice(c, types, 1, &type));
        } else if (json_span_is(key, "function")) {
            TRY(request_read_function(&q->of, c));
            has_function = true;
        }
    }
    if (!has_function)
        return request_fail_at(c, &whole, "the tool has no function");
    return ST_OK;
}

enum status openai_read_tools(struct openai_request *q, struct json_cursor *c)
{
    struct json_cursor at = *c;
    struct text_buf text = {0};
    size_t n = 0;
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        TRY(read_tool(q, c));
        n++;
    }
    if (n == 0)
        return request_fail_at(c, &at, "there is no tool in the list");
    struct json_span raw = json_read_raw(&at);
    enum status st = text_buf_append(&text, raw.p, raw.n);
    if (st == ST_OK)
        st = answer_keep_text(&q->of, &text, &q->of.ask.tools_json);
    text_buf_free(&text);
    return st;
}
