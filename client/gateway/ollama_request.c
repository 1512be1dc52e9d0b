#include "client/gateway/ollama_request.h"

#include <stdlib.h>
#include <string.h>

#include "client/gateway/grammar_fields.h"

typedef enum status field_reader(struct ollama_request *q, struct json_cursor *c);

/* ---- fields ---- */

static enum status read_model(struct ollama_request *q, struct json_cursor *c)
{
    return json_read_chars(c, q->of.model, sizeof q->of.model);
}

static enum status read_stream(struct ollama_request *q, struct json_cursor *c)
{
    return json_read_bool(c, &q->of.stream);
}

static enum status read_prompt(struct ollama_request *q, struct json_cursor *c)
{
    struct text_buf text = {0};
    enum status st = json_read_string(c, &text);
    q->prompt.n_text = text.len;
    if (st == ST_OK)
        st = answer_keep_text(&q->of, &text, &q->prompt.text);
    text_buf_free(&text);
    return st;
}

static enum status read_system(struct ollama_request *q, struct json_cursor *c)
{
    if (json_peek(c) != JSON_STRING)
        return json_fail(c, ST_FORMAT, "must be a string");
    struct json_span text = json_read_raw(c);
    q->system = text.p;
    q->n_system = text.n;
    return ST_OK;
}

static enum status read_raw(struct ollama_request *q, struct json_cursor *c)
{
    return json_read_bool(c, &q->raw);
}

/* How long the model is to stay loaded: it always is. */
static enum status read_keep_alive(struct ollama_request *q, struct json_cursor *c)
{
    enum json_type type = json_peek(c);
    if (type != JSON_STRING && type != JSON_NUMBER)
        return json_fail(c, ST_FORMAT, "must be a number of seconds or a string such as \"5m\"");
    struct json_span v = json_read_raw(c);
    q->unload = (v.n == 1 && *v.p == '0') ||
                (type == JSON_STRING && v.n > 2 && v.p[1] == '0' && v.p[2] != '.');
    return ST_OK;
}

static enum status read_think(struct ollama_request *q, struct json_cursor *c)
{
    static const char *const levels[] = {"low", "medium", "high"};
    struct json_cursor at = *c;
    size_t level;
    bool on = true;
    if (json_peek(c) == JSON_STRING) {
        TRY(json_read_choice(&at, levels, ARRAY_LEN(levels), &level));
        TRY(request_read_effort(&q->variables, c));
    } else {
        TRY(json_read_bool(c, &on));
    }
    q->variables.thinking = on ? THINKING_ON : THINKING_OFF;
    return ST_OK;
}

static enum status read_form(struct ollama_request *q, struct json_cursor *c)
{
    return grammar_read_ollama_format(&q->of, c);
}

/* Fields that may be given, but empty. */
static enum status only_empty(struct ollama_request *q, struct json_cursor *c)
{
    enum json_type type = json_peek(c);
    struct json_cursor at = *c;
    (void)q;
    bool empty = type == JSON_STRING && json_read_raw(&at).n == 2;
    if (type == JSON_ARRAY) {
        TRY(json_enter_array(&at));
        empty = !json_next_item(&at);
    }
    return empty ? ST_OK : json_fail(c, ST_UNSUPPORTED, "is not supported");
}

static enum status only_false(struct ollama_request *q, struct json_cursor *c)
{
    (void)q;
    return request_only_bool(c, false);
}

static enum status only_zero(struct ollama_request *q, struct json_cursor *c)
{
    double v;
    (void)q;
    TRY(json_read_double(c, -1e9, 1e9, &v));
    return v == 0 ? ST_OK : json_fail(c, ST_UNSUPPORTED, "only 0 is supported");
}

static enum status ignore(struct ollama_request *q, struct json_cursor *c)
{
    (void)q, (void)c;
    return ST_OK;
}

/* ---- options ---- */

static enum status read_num_predict(struct ollama_request *q, struct json_cursor *c)
{
    int64_t n;
    TRY(json_read_i64(c, -2, INT32_MAX, &n)); /* -1, -2: to the end of the context */
    if (n == 0)
        return json_fail(c, ST_RANGE, "0 tokens are no answer");
    q->of.ask.max_tokens = n < 0 ? 0 : (uint32_t)n;
    return ST_OK;
}

static enum status read_num_ctx(struct ollama_request *q, struct json_cursor *c)
{
    return request_read_u32(c, 1, INT32_MAX, &q->num_ctx);
}

static enum status read_repeat_penalty(struct ollama_request *q, struct json_cursor *c)
{
    return request_field_read_as(&q->of, "repetition_penalty", c);
}

static enum status only_all(struct ollama_request *q, struct json_cursor *c)
{
    int64_t n;
    (void)q;
    TRY(json_read_i64(c, INT32_MIN, INT32_MAX, &n));
    return n == -1 ? ST_OK
                   : json_fail(c, ST_UNSUPPORTED, "only -1, the whole context, is supported");
}

static enum status only_one(struct ollama_request *q, struct json_cursor *c)
{
    double v;
    (void)q;
    TRY(json_read_double(c, -1e9, 1e9, &v));
    return v == 1 ? ST_OK : json_fail(c, ST_UNSUPPORTED, "only 1 is supported");
}

static const struct option {
    const char *name;
    field_reader *read;
} options[] = {
    {"num_predict", read_num_predict},
    {"num_ctx", read_num_ctx},
    {"repeat_penalty", read_repeat_penalty},
    /* served in their default values only */
    {"repeat_last_n", only_all},
    {"typical_p", only_one},
    {"tfs_z", only_one},
    {"mirostat", only_zero},
    /* without effect: how the model is loaded and computed */
    {"mirostat_eta", ignore},
    {"mirostat_tau", ignore},
    {"num_keep", ignore},
    {"num_batch", ignore},
    {"num_gpu", ignore},
    {"main_gpu", ignore},
    {"num_thread", ignore},
    {"numa", ignore},
    {"low_vram", ignore},
    {"f16_kv", ignore},
    {"use_mmap", ignore},
    {"use_mlock", ignore},
    {"penalize_newline", ignore},
};

static enum status read_option(struct ollama_request *q, struct json_span key,
                               struct json_cursor *c)
{
    bool known = !json_span_is(key, "max_tokens"); /* here it is num_predict */
    for (size_t i = 0; i < ARRAY_LEN(options); i++)
        if (json_span_is(key, options[i].name))
            return options[i].read(q, c);
    if (known)
        TRY(request_field_read(&q->of, key, c, &known));
    if (!known)
        return json_fail(c, ST_UNSUPPORTED, "this option is not supported");
    return ST_OK;
}

static enum status read_options(struct ollama_request *q, struct json_cursor *c)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key))
        if (!json_take_null(c))
            TRY(read_option(q, key, c));
    return ST_OK;
}

/* ---- messages ---- */

static enum status write_call(struct json_writer *w, struct json_cursor *c)
{
    struct json_cursor whole = *c;
    struct json_span key;
    bool has_function = false;
    TRY(json_enter_object(c));
    json_write_object(w);
    json_member_string(w, "type", "function");
    while (json_next_key(c, &key)) {
        if (json_span_is(key, "type"))
            continue;
        if (json_span_is(key, "function")) {
            if (json_peek(c) != JSON_OBJECT)
                return json_fail(c, ST_FORMAT, "must be an object");
            has_function = true;
        }
        TRY(request_pass_member(w, key, c));
    }
    json_write_end_object(w);
    return has_function ? w->status : request_fail_at(c, &whole, "the call has no function");
}

static enum status write_calls(struct json_writer *w, struct json_cursor *c)
{
    TRY(json_enter_array(c));
    json_write_key(w, "tool_calls");
    json_write_array(w);
    while (json_next_item(c))
        TRY(write_call(w, c));
    json_write_end_array(w);
    return ST_OK;
}

static enum status pass_string(struct json_writer *w, const char *name, struct json_cursor *c)
{
    if (json_peek(c) != JSON_STRING)
        return json_fail(c, ST_FORMAT, "must be a string");
    struct json_span text = json_read_raw(c);
    json_write_key(w, name);
    json_write_raw(w, text.p, text.n);
    return ST_OK;
}

static enum status write_message(struct ollama_request *q, struct json_writer *w,
                                 struct json_cursor *c)
{
    static const struct {
        const char *ollama, *template;
    } strings[] = {{"content", "content"},
                   {"thinking", "reasoning_content"},
                   {"tool_name", "name"},
                   {"name", "name"},
                   {"tool_call_id", "tool_call_id"}};
    struct json_cursor whole = *c;
    struct json_span key;
    char role[64] = "";
    bool has_content = false, has_calls = false;
    TRY(json_enter_object(c));
    json_write_object(w);
    while (json_next_key(c, &key)) {
        size_t i = 0;
        if (json_take_null(c))
            continue;
        while (i < ARRAY_LEN(strings) && !json_span_is(key, strings[i].ollama))
            i++;
        if (i < ARRAY_LEN(strings)) {
            TRY(pass_string(w, strings[i].template, c));
            has_content = has_content || i == 0;
        } else if (json_span_is(key, "role")) {
            TRY(json_read_chars(c, role, sizeof role));
            json_member_string(w, "role", role);
        } else if (json_span_is(key, "tool_calls")) {
            TRY(write_calls(w, c));
            has_calls = true;
        } else if (json_span_is(key, "images")) {
            TRY(only_empty(q, c));
        } else {
            return request_unknown(c);
        }
    }
    if (!*role)
        return request_fail_at(c, &whole, "the message has no role");
    if (!has_content)
        json_member_string(w, "content", "");
    json_write_end_object(w);
    q->prefilled = strcmp(role, "assistant") == 0 && has_content && !has_calls;
    return w->status;
}

static enum status read_messages(struct ollama_request *q, struct json_cursor *c)
{
    enum status st = json_enter_array(c);
    while (st == ST_OK && json_next_item(c)) {
        struct text_buf json = {0};
        struct json_writer w = {.out = &json};
        st = write_message(q, &w, c);
        if (st == ST_OK)
            st = request_turns_add(&q->turns, &q->of, c, &json);
        text_buf_free(&json);
    }
    return st;
}

static enum status read_tools(struct ollama_request *q, struct json_cursor *c)
{
    struct json_cursor at = *c;
    struct text_buf text = {0};
    size_t n = 0;
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        struct json_cursor whole = *c;
        struct json_span key;
        bool has_function = false;
        TRY(json_enter_object(c));
        while (json_next_key(c, &key))
            if (json_span_is(key, "function")) {
                TRY(request_read_function(&q->of, c));
                has_function = true;
            }
        if (!has_function)
            return request_fail_at(c, &whole, "the tool has no function");
        n++;
    }
    if (n == 0)
        return ST_OK;
    struct json_span raw = json_read_raw(&at);
    enum status st = text_buf_append(&text, raw.p, raw.n);
    if (st == ST_OK)
        st = answer_keep_text(&q->of, &text, &q->of.ask.tools_json);
    text_buf_free(&text);
    return st;
}

/* ---- the whole ---- */

static const struct field {
    const char *name;
    unsigned calls; /* ollama_call */
    field_reader *read;
} fields[] = {
    {"model", OLLAMA_CHAT | OLLAMA_GENERATE, read_model},
    {"messages", OLLAMA_CHAT, read_messages},
    {"tools", OLLAMA_CHAT, read_tools},
    {"prompt", OLLAMA_GENERATE, read_prompt},
    {"system", OLLAMA_GENERATE, read_system},
    {"raw", OLLAMA_GENERATE, read_raw},
    {"stream", OLLAMA_CHAT | OLLAMA_GENERATE, read_stream},
    {"options", OLLAMA_CHAT | OLLAMA_GENERATE, read_options},
    {"think", OLLAMA_CHAT | OLLAMA_GENERATE, read_think},
    {"keep_alive", OLLAMA_CHAT | OLLAMA_GENERATE, read_keep_alive},
    {"format", OLLAMA_CHAT | OLLAMA_GENERATE, read_form},
    /* served in their default values only */
    {"images", OLLAMA_GENERATE, only_empty},
    {"suffix", OLLAMA_GENERATE, only_empty},
    {"template", OLLAMA_GENERATE, only_empty},
    {"context", OLLAMA_GENERATE, only_empty},
    {"logprobs", OLLAMA_CHAT | OLLAMA_GENERATE, only_false},
    {"top_logprobs", OLLAMA_CHAT | OLLAMA_GENERATE, only_zero},
    /* without effect: a prompt that is too long is always refused */
    {"truncate", OLLAMA_CHAT | OLLAMA_GENERATE, ignore},
    {"shift", OLLAMA_CHAT | OLLAMA_GENERATE, ignore},
};

static enum status read_field(void *request, struct json_span key, struct json_cursor *c)
{
    struct ollama_request *q = request;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if ((fields[i].calls & q->call) && json_span_is(key, fields[i].name))
            return fields[i].read(q, c);
    return request_unknown(c);
}

/* A turn of a prompt's own template: text is a JSON string, or bytes where n_json is 0. */
static enum status add_turn(struct ollama_request *q, struct json_cursor *c, const char *role,
                            const char *json, size_t n_json)
{
    struct text_buf turn = {0};
    struct json_writer w = {.out = &turn};
    json_write_object(&w);
    json_member_string(&w, "role", role);
    json_write_key(&w, "content");
    if (n_json)
        json_write_raw(&w, json, n_json);
    else
        json_write_bytes(&w, q->prompt.text, q->prompt.n_text);
    json_write_end_object(&w);
    enum status st = w.status == ST_OK ? request_turns_add(&q->turns, &q->of, c, &turn) : w.status;
    text_buf_free(&turn);
    return st;
}

static enum status set_prompt(struct ollama_request *q, struct json_cursor *c)
{
    q->empty = q->call == OLLAMA_CHAT ? q->turns.n == 0 : q->prompt.n_text == 0;
    q->of.n_prompts = 1;
    if (q->empty)
        return ST_OK;
    if (q->raw) {
        q->of.prompts = answer_keep(&q->of, &q->prompt, sizeof q->prompt);
        if (!q->of.prompts)
            FAIL(ST_NOMEM, "no memory for a prompt");
        return ST_OK;
    }
    if (q->call == OLLAMA_GENERATE && q->n_system > 2)
        TRY(add_turn(q, c, "system", q->system, q->n_system));
    if (q->call == OLLAMA_GENERATE)
        TRY(add_turn(q, c, "user", NULL, 0));
    q->of.ask.continue_final_message = q->prefilled;
    q->of.ask.add_generation_prompt = !q->prefilled;
    return request_turns_end(&q->turns, &q->of);
}

enum status ollama_request_read(struct ollama_request *q, enum ollama_call call, const char *body,
                                size_t n_body, char param[JSON_PATH_SIZE])
{
    struct json_cursor c;
    *q = (struct ollama_request){.call = call};
    answer_request_init(&q->of);
    q->of.stream = true;
    *param = '\0';
    TRY(json_open(&c, body, n_body, NULL));
    enum status st = request_read_members(q, &c, read_field);
    if (st != ST_OK) {
        json_path(&c, param);
        return st;
    }
    if (q->raw && q->n_system > 2)
        FAIL(ST_RANGE, "system: a raw prompt has no template to put it into");
    TRY(request_set_variables(&q->of, &q->variables));
    q->of.calls = q->of.ask.tools_json != NULL;
    q->of.reasoning = !q->raw;
    return set_prompt(q, &c);
}

void ollama_request_free(struct ollama_request *q)
{
    request_turns_free(&q->turns);
    answer_request_free(&q->of);
}
