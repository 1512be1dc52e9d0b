#include "client/gateway/responses_request.h"

#include <string.h>

#include "client/gateway/grammar_fields.h"
#include "client/gateway/tool_choice.h"

typedef enum status field_reader(struct responses_request *q, struct json_cursor *c);

static enum status read_model(struct responses_request *q, struct json_cursor *c)
{
    return json_read_chars(c, q->of.model, sizeof q->of.model);
}

static enum status read_stream(struct responses_request *q, struct json_cursor *c)
{
    return json_read_bool(c, &q->of.stream);
}

static enum status read_instructions(struct responses_request *q, struct json_cursor *c)
{
    struct text_buf json = {0};
    struct json_writer w = {.out = &json};
    if (json_peek(c) != JSON_STRING)
        return json_fail(c, ST_FORMAT, "must be a string");
    struct json_span text = json_read_raw(c);
    json_write_object(&w);
    json_member_string(&w, "role", "system");
    json_write_key(&w, "content");
    json_write_raw(&w, text.p, text.n);
    json_write_end_object(&w);
    enum status st = w.status;
    q->turns.turn[0].n_json = json.len;
    if (st == ST_OK)
        st = answer_keep_text(&q->of, &json, &q->turns.turn[0].json);
    text_buf_free(&json);
    return st;
}

static enum status read_max_output_tokens(struct responses_request *q, struct json_cursor *c)
{
    return request_field_read_as(&q->of, "max_tokens", c);
}

/* ---- tools ---- */

static enum status write_tool(struct answer_request *q, struct json_writer *w,
                              struct json_cursor *c)
{
    static const char *const types[] = {"function"};
    struct json_cursor whole = *c;
    struct json_span key;
    bool has_type = false, has_name = false, strict;
    size_t type;
    json_write_object(w);
    json_member_string(w, "type", "function");
    json_write_key(w, "function");
    json_write_object(w);
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "type")) {
            if (json_read_choice(c, types, 1, &type) != ST_OK)
                return json_fail(c, ST_UNSUPPORTED, "only functions of the client are supported");
            has_type = true;
        } else if (json_span_is(key, "strict")) {
            struct json_cursor at = *c;
            TRY(json_read_bool(c, &strict));
            TRY(request_pass_member(w, key, &at));
        } else if (json_span_is(key, "name")) {
            struct json_cursor at = *c;
            TRY(request_read_tool_name(q, c));
            TRY(request_pass_member(w, key, &at));
            has_name = true;
        } else if (json_span_is(key, "description") || json_span_is(key, "parameters")) {
            TRY(request_pass_member(w, key, c));
        } else {
            return request_unknown(c);
        }
    }
    json_write_end_object(w);
    json_write_end_object(w);
    if (!has_type || !has_name)
        return request_fail_at(c, &whole, "a tool has type and name");
    return w->status;
}

static enum status read_tools(struct responses_request *q, struct json_cursor *c)
{
    return request_read_tools(&q->of, c, write_tool);
}

static enum status read_tool_choice(struct responses_request *q, struct json_cursor *c)
{
    return tool_choice_read(&q->of, c, TOOL_CHOICE_RESPONSES, &q->no_tools);
}

/* ---- options that are objects ---- */

static enum status read_reasoning(struct responses_request *q, struct json_cursor *c)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "effort"))
            TRY(request_read_effort(&q->variables, c));
        else if (!json_span_is(key, "summary")) /* reasoning comes whole, without a summary */
            return request_unknown(c);
    }
    return ST_OK;
}

static enum status read_text(struct responses_request *q, struct json_cursor *c)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "format"))
            TRY(grammar_read_text_format(&q->of, c));
        else if (!json_span_is(key, "verbosity"))
            return request_unknown(c);
    }
    return ST_OK;
}

static enum status read_include(struct responses_request *q, struct json_cursor *c)
{
    /* the reasoning comes as text, which the client can send back */
    static const char *const names[] = {"reasoning.encrypted_content"};
    size_t name;
    (void)q;
    TRY(json_enter_array(c));
    while (json_next_item(c))
        if (json_read_choice(c, names, 1, &name) != ST_OK)
            return json_fail(c, ST_UNSUPPORTED, "is not supported");
    return ST_OK;
}

static enum status read_stream_options(struct responses_request *q, struct json_cursor *c)
{
    struct json_span key;
    bool padding; /* none is added in either case */
    (void)q;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (!json_span_is(key, "include_obfuscation"))
            return request_unknown(c);
        TRY(json_read_bool(c, &padding));
    }
    return ST_OK;
}

static enum status read_truncation(struct responses_request *q, struct json_cursor *c)
{
    static const char *const names[] = {"disabled"};
    size_t name;
    (void)q;
    return json_read_choice(c, names, 1, &name);
}

static enum status read_given(struct responses_request *q, struct json_cursor *c)
{
    return request_read_given(&q->variables, c);
}

static enum status only_false(struct responses_request *q, struct json_cursor *c)
{
    (void)q;
    return request_only_bool(c, false);
}

static enum status read_parallel_calls(struct responses_request *q, struct json_cursor *c)
{
    bool parallel;
    TRY(json_read_bool(c, &parallel));
    q->of.one_call = !parallel;
    return ST_OK;
}

static enum status only_zero(struct responses_request *q, struct json_cursor *c)
{
    uint32_t v;
    (void)q;
    TRY(request_read_u32(c, 0, UINT32_MAX, &v));
    return v == 0 ? ST_OK : json_fail(c, ST_UNSUPPORTED, "is not supported");
}

static enum status stores(struct responses_request *q, struct json_cursor *c)
{
    (void)q;
    return json_fail(c, ST_UNSUPPORTED,
                     "is not supported: answers are not stored, send the whole input");
}

static enum status ignore(struct responses_request *q, struct json_cursor *c)
{
    (void)q, (void)c;
    return ST_OK;
}

/* ---- the table ---- */

static const struct field {
    const char *name;
    field_reader *read;
} fields[] = {
    {"model", read_model},
    {"input", responses_read_input},
    {"instructions", read_instructions},
    {"max_output_tokens", read_max_output_tokens},
    {"stream", read_stream},
    {"tools", read_tools},
    {"tool_choice", read_tool_choice},
    {"parallel_tool_calls", read_parallel_calls},
    {"reasoning", read_reasoning},
    {"chat_template_kwargs", read_given},
    /* served in their default values only */
    {"text", read_text},
    {"include", read_include},
    {"stream_options", read_stream_options},
    {"truncation", read_truncation},
    {"background", only_false},
    {"store", only_false},
    {"top_logprobs", only_zero},
    {"previous_response_id", stores},
    {"conversation", stores},
    /* without effect */
    {"metadata", ignore},
    {"user", ignore},
    {"safety_identifier", ignore},
    {"service_tier", ignore},
    {"prompt_cache_key", ignore},
    {"prompt_cache_options", ignore},
    {"prompt_cache_retention", ignore},
    {"client_metadata", ignore},
};

static const char *const echoes[RESPONSES_N_ECHOES] = {
    [ECHO_INSTRUCTIONS] = "instructions",
    [ECHO_MAX_OUTPUT_TOKENS] = "max_output_tokens",
    [ECHO_METADATA] = "metadata",
    [ECHO_REASONING] = "reasoning",
    [ECHO_TEMPERATURE] = "temperature",
    [ECHO_TOOL_CHOICE] = "tool_choice",
    [ECHO_TOOLS] = "tools",
    [ECHO_TOP_P] = "top_p",
};

static enum status read_field(void *request, struct json_span key, struct json_cursor *c)
{
    struct responses_request *q = request;
    struct json_cursor at = *c;
    for (size_t i = 0; i < RESPONSES_N_ECHOES; i++)
        if (json_span_is(key, echoes[i]))
            q->echo[i] = json_read_raw(&at);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (json_span_is(key, fields[i].name))
            return fields[i].read(q, c);
    return request_field_or_refusal(&q->of, key, "max_tokens", c); /* max_output_tokens */
}

enum status responses_request_read(struct responses_request *q, const char *body, size_t n_body,
                                   char param[JSON_PATH_SIZE])
{
    static const char input[] = "input";
    struct json_cursor c;
    *q = (struct responses_request){0};
    answer_request_init(&q->of);
    *param = '\0';
    TRY(json_open(&c, body, n_body, NULL));
    TRY(answer_grow((void **)&q->turns.turn, 0, sizeof *q->turns.turn));
    q->turns.turn[q->turns.n++] = (struct ingot_turn){0};
    enum status st = request_read_members(q, &c, read_field);
    if (st != ST_OK) {
        json_path(&c, param);
        return st;
    }
    if (q->turns.n == 1) {
        memcpy(param, input, sizeof input);
        FAIL(ST_RANGE, "input: there is none");
    }
    TRY(request_set_variables(&q->of, &q->variables));
    TRY(request_turns_end(&q->turns, &q->of));
    if (!q->turns.turn[0].json) {
        q->of.ask.turns++;
        q->of.ask.n_turns--;
    }
    if (tool_choice_check(&q->of) != ST_OK) {
        memcpy(param, "tool_choice", sizeof "tool_choice");
        return ST_RANGE;
    }
    if (q->no_tools)
        q->of.ask.tools_json = NULL;
    q->of.calls = q->of.ask.tools_json != NULL;
    q->of.reasoning = true;
    q->of.n_prompts = 1;
    return ST_OK;
}

void responses_request_free(struct responses_request *q)
{
    request_turns_free(&q->turns);
    answer_request_free(&q->of);
}
