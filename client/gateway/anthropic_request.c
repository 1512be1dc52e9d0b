#include "client/gateway/anthropic_request.h"

#include <string.h>

#include "client/gateway/grammar_fields.h"
#include "client/gateway/tool_choice.h"

typedef enum status field_reader(struct anthropic_request *q, struct json_cursor *c);

static enum status read_model(struct anthropic_request *q, struct json_cursor *c)
{
    return json_read_chars(c, q->of.model, sizeof q->of.model);
}

static enum status read_stream(struct anthropic_request *q, struct json_cursor *c)
{
    return json_read_bool(c, &q->of.stream);
}

static enum status read_stop_sequences(struct anthropic_request *q, struct json_cursor *c)
{
    if (json_peek(c) != JSON_ARRAY)
        return json_fail(c, ST_FORMAT, "must be a list of strings");
    return request_field_read_as(&q->of, "stop", c);
}

static enum status read_tool_choice(struct anthropic_request *q, struct json_cursor *c)
{
    return tool_choice_read(&q->of, c, TOOL_CHOICE_ANTHROPIC, &q->no_tools);
}

/* The template decides what thinking on and off mean. */
static enum status read_thinking(struct anthropic_request *q, struct json_cursor *c)
{
    static const char *const types[] = {"disabled", "enabled", "adaptive"};
    static const char *const displays[] = {"summarized", "omitted"};
    struct json_cursor whole = *c;
    struct json_span key;
    size_t type = ARRAY_LEN(types), display = 0;
    uint32_t budget = 0;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "type"))
            TRY(json_read_choice(c, types, ARRAY_LEN(types), &type));
        else if (json_span_is(key, "display"))
            TRY(json_read_choice(c, displays, ARRAY_LEN(displays), &display));
        else if (json_span_is(key, "budget_tokens"))
            TRY(request_read_u32(c, 1, INT32_MAX, &budget));
        else
            return request_unknown(c);
    }
    if (type == ARRAY_LEN(types))
        return request_fail_at(c, &whole, "it has no type");
    q->variables.thinking = type == 0 ? THINKING_OFF : THINKING_ON;
    q->hide_thinking = display == 1;
    q->of.ask.has_thinking_budget = q->of.drop_budget = type == 1 && budget;
    q->of.ask.thinking_budget = budget;
    return ST_OK;
}

static enum status read_output_config(struct anthropic_request *q, struct json_cursor *c)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "effort"))
            TRY(request_read_effort(&q->variables, c));
        else if (json_span_is(key, "format"))
            TRY(grammar_read_text_format(&q->of, c));
        else
            return request_unknown(c);
    }
    return ST_OK;
}

/* Where the format was before output_config had it. */
static enum status read_output_format(struct anthropic_request *q, struct json_cursor *c)
{
    return grammar_read_text_format(&q->of, c);
}

/* Thinking of earlier turns is the template's business: only what would clear anything else is refused. */
static enum status read_context_management(struct anthropic_request *q, struct json_cursor *c)
{
    static const char *const types[] = {"clear_thinking_20251015"};
    struct json_span key;
    size_t type;
    (void)q;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        if (!json_span_is(key, "edits"))
            return request_unknown(c);
        TRY(json_enter_array(c));
        while (json_next_item(c)) {
            TRY(json_enter_object(c));
            while (json_next_key(c, &key))
                if (json_span_is(key, "type"))
                    TRY(json_read_choice(c, types, ARRAY_LEN(types), &type));
        }
    }
    return ST_OK;
}

static enum status read_mcp_servers(struct anthropic_request *q, struct json_cursor *c)
{
    (void)q;
    TRY(json_enter_array(c));
    if (json_next_item(c))
        return json_fail(c, ST_UNSUPPORTED, "servers of tools are not supported");
    return ST_OK;
}

static enum status read_given(struct anthropic_request *q, struct json_cursor *c)
{
    return request_read_given(&q->variables, c);
}

static enum status ignore(struct anthropic_request *q, struct json_cursor *c)
{
    (void)q, (void)c;
    return ST_OK;
}

static const struct {
    const char *name;
    field_reader *read;
} fields[] = {
    {"model", read_model},
    {"messages", anthropic_read_messages},
    {"system", anthropic_read_system},
    {"tools", anthropic_read_tools},
    {"tool_choice", read_tool_choice},
    {"stream", read_stream},
    {"stop_sequences", read_stop_sequences},
    {"thinking", read_thinking},
    {"output_config", read_output_config},
    {"output_format", read_output_format},
    {"chat_template_kwargs", read_given},
    /* served in their default values only */
    {"context_management", read_context_management},
    {"mcp_servers", read_mcp_servers},
    /* without effect */
    {"metadata", ignore},
    {"service_tier", ignore},
    {"cache_control", ignore},
    {"inference_geo", ignore},
};

static enum status read_field(void *request, struct json_span key, struct json_cursor *c)
{
    struct anthropic_request *q = request;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (json_span_is(key, fields[i].name))
            return fields[i].read(q, c);
    return request_field_or_refusal(&q->of, key, "stop", c); /* here it is stop_sequences */
}

/* The system's text becomes the first turn, whose place was kept. */
static enum status set_turns(struct anthropic_request *q)
{
    struct text_buf json = {0};
    struct json_writer w = {.out = &json};
    if (q->system.len) {
        json_write_object(&w);
        json_member_string(&w, "role", "system");
        json_write_key(&w, "content");
        json_write_bytes(&w, q->system.data, q->system.len);
        json_write_end_object(&w);
    }
    enum status st = w.status;
    q->turns.turn[0].n_json = json.len;
    if (st == ST_OK && json.len)
        st = answer_keep_text(&q->of, &json, &q->turns.turn[0].json);
    if (st == ST_OK)
        st = request_turns_end(&q->turns, &q->of);
    text_buf_free(&json);
    if (st == ST_OK && !q->system.len) {
        q->of.ask.turns++;
        q->of.ask.n_turns--;
    }
    return st;
}

static enum status missing(char param[JSON_PATH_SIZE], const char *field)
{
    memcpy(param, field, strlen(field) + 1);
    FAIL(ST_RANGE, "%s: field required", field);
}

enum status anthropic_request_read(struct anthropic_request *q, bool count, const char *body,
                                   size_t n_body, char param[JSON_PATH_SIZE])
{
    struct json_cursor c;
    *q = (struct anthropic_request){0};
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
    if (q->turns.n == 1)
        return missing(param, "messages");
    if (!count && !q->of.ask.max_tokens)
        return missing(param, "max_tokens");
    TRY(request_set_variables(&q->of, &q->variables));
    TRY(set_turns(q));
    if (tool_choice_check(&q->of) != ST_OK) {
        memcpy(param, "tool_choice", sizeof "tool_choice");
        return ST_RANGE;
    }
    if (q->no_tools)
        q->of.ask.tools_json = NULL;
    q->of.calls = q->of.ask.tools_json != NULL;
    q->of.reasoning = true;
    q->of.n_prompts = 1;
    q->of.ask.continue_final_message = q->prefilled;
    q->of.ask.add_generation_prompt = !q->prefilled;
    return ST_OK;
}

void anthropic_request_free(struct anthropic_request *q)
{
    text_buf_free(&q->system);
    request_turns_free(&q->turns);
    answer_request_free(&q->of);
}
