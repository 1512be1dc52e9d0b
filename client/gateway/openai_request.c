#include "client/gateway/openai_request.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_COMPLETION_TOKENS = 16,
    MAX_STOP_STRINGS = 16,
    MAX_BIASES = 4096,
    MAX_TOP_LOGPROBS = 20
};

/* ---- fields that are not plain numbers ---- */

static enum status read_model(struct openai_request *q, struct json_cursor *c)
{
    return json_read_chars(c, q->of.model, sizeof q->of.model);
}

static enum status read_stream(struct openai_request *q, struct json_cursor *c)
{
    return json_read_bool(c, &q->of.stream);
}

static enum status read_stream_options(struct openai_request *q, struct json_cursor *c)
{
    struct json_span key;
    q->has_stream_options = true;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        bool ignored;
        if (json_take_null(c))
            continue;
        if (json_span_is(key, "include_usage"))
            TRY(json_read_bool(c, &q->include_usage));
        else if (json_span_is(key, "continuous_usage_stats"))
            TRY(json_read_bool(c, &q->continuous_usage));
        else if (json_span_is(key, "include_obfuscation")) /* no padding is added in either case */
            TRY(json_read_bool(c, &ignored));
        else
            return json_fail(c, ST_UNSUPPORTED, "this field is not supported");
    }
    return ST_OK;
}

static enum status read_seed(struct openai_request *q, struct json_cursor *c)
{
    int64_t seed;
    TRY(json_read_i64(c, INT64_MIN, INT64_MAX, &seed));
    q->of.ask.has_seed = true;
    q->of.ask.seed = (uint64_t)seed;
    return ST_OK;
}

static enum status read_stop_string(struct openai_request *q, struct json_cursor *c,
                                    const char **stops)
{
    struct text_buf text = {0};
    enum status st;
    if (q->of.ask.n_stops == MAX_STOP_STRINGS)
        return json_fail(c, ST_RANGE, "at most %d stop strings are taken", MAX_STOP_STRINGS);
    st = json_read_string(c, &text);
    if (st == ST_OK && (text.len == 0 || memchr(text.data, 0, text.len)))
        st = json_fail(c, ST_RANGE, "a stop string must have a byte, and none may be NUL");
    if (st == ST_OK)
        st = answer_keep_text(&q->of, &text, &stops[q->of.ask.n_stops]);
    text_buf_free(&text);
    q->of.ask.n_stops += st == ST_OK;
    return st;
}

static enum status read_stop(struct openai_request *q, struct json_cursor *c)
{
    const char *none[MAX_STOP_STRINGS] = {0};
    const char **stops = answer_keep(&q->of, none, sizeof none);
    if (!stops)
        FAIL(ST_NOMEM, "no memory for stop strings");
    q->of.ask.stops = stops;
    if (json_peek(c) != JSON_ARRAY)
        return read_stop_string(q, c, stops);
    TRY(json_enter_array(c));
    while (json_next_item(c))
        TRY(read_stop_string(q, c, stops));
    return ST_OK;
}

static enum status read_stop_ids(struct openai_request *q, struct json_cursor *c)
{
    int32_t ids[OPENAI_MAX_STOP_IDS];
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        int64_t id;
        TRY(json_read_i64(c, 0, INT32_MAX, &id));
        if (q->of.ask.n_stop_ids == OPENAI_MAX_STOP_IDS)
            return json_fail(c, ST_RANGE, "at most %d stop tokens are taken", OPENAI_MAX_STOP_IDS);
        ids[q->of.ask.n_stop_ids++] = (int32_t)id;
    }
    q->of.ask.stop_ids = answer_keep(&q->of, ids, q->of.ask.n_stop_ids * sizeof *ids);
    if (!q->of.ask.stop_ids)
        FAIL(ST_NOMEM, "no memory for stop tokens");
    return ST_OK;
}

/* Keys are ids in decimal. */
static enum status read_token_key(struct json_cursor *c, struct json_span key, int32_t *id)
{
    int64_t v = 0;
    for (size_t i = 0; i < key.n && v <= INT32_MAX; i++) {
        if (key.p[i] < '0' || key.p[i] > '9')
            return json_fail(c, ST_FORMAT, "the key is not a token id");
        v = 10 * v + (key.p[i] - '0');
    }
    if (key.n == 0 || v > INT32_MAX)
        return json_fail(c, ST_RANGE, "the key is not a token id");
    *id = (int32_t)v;
    return ST_OK;
}

static enum status read_logit_bias(struct openai_request *q, struct json_cursor *c)
{
    struct ingot_bias *bias = NULL;
    struct json_span key;
    size_t n = 0;
    enum status st = json_enter_object(c);
    while (st == ST_OK && json_next_key(c, &key)) {
        struct ingot_bias b = {0};
        double v;
        st = read_token_key(c, key, &b.id);
        if (st == ST_OK)
            st = json_read_double(c, -100, 100, &v);
        if (st == ST_OK && n == MAX_BIASES)
            st = json_fail(c, ST_RANGE, "at most %d biases are taken", MAX_BIASES);
        if (st == ST_OK)
            st = answer_grow((void **)&bias, n, sizeof *bias);
        if (st == ST_OK) {
            b.bias = (float)v;
            bias[n++] = b;
        }
    }
    if (st == ST_OK && n && !(q->of.ask.bias = answer_keep(&q->of, bias, n * sizeof *bias)))
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for biases");
    q->of.ask.n_bias = n;
    free(bias);
    return st;
}

static enum status read_variables(struct openai_request *q, struct json_cursor *c)
{
    if (json_peek(c) != JSON_OBJECT)
        return json_fail(c, ST_FORMAT, "must be an object");
    q->variables = json_read_raw(c);
    return ST_OK;
}

static enum status read_reasoning_effort(struct openai_request *q, struct json_cursor *c)
{
    if (json_peek(c) != JSON_STRING)
        return json_fail(c, ST_FORMAT, "must be a string");
    q->reasoning_effort = json_read_raw(c);
    return ST_OK;
}

static enum status read_tool_choice(struct openai_request *q, struct json_cursor *c)
{
    char choice[16];
    q->has_tool_choice = true;
    if (json_peek(c) != JSON_STRING)
        return json_fail(c, ST_UNSUPPORTED, "a named tool is not supported yet");
    TRY(json_read_chars(c, choice, sizeof choice));
    if (strcmp(choice, "auto") == 0)
        return ST_OK;
    if (strcmp(choice, "none") != 0)
        return json_fail(c, ST_UNSUPPORTED, "\"%s\" is not supported: auto and none are", choice);
    q->no_tools = true;
    return ST_OK;
}

static enum status read_parallel_calls(struct openai_request *q, struct json_cursor *c)
{
    bool parallel;
    TRY(json_read_bool(c, &parallel));
    q->of.one_call = !parallel;
    return ST_OK;
}

static enum status read_include_reasoning(struct openai_request *q, struct json_cursor *c)
{
    bool include;
    TRY(json_read_bool(c, &include));
    q->hide_reasoning = !include;
    return ST_OK;
}

/* A chat's: whether.  A completion's: how many others. */
static enum status read_logprobs(struct openai_request *q, struct json_cursor *c)
{
    int64_t n;
    if (q->form == OPENAI_CHAT)
        return json_read_bool(c, &q->logprobs);
    TRY(json_read_i64(c, 0, MAX_TOP_LOGPROBS, &n));
    q->logprobs = true;
    q->of.ask.top_logprobs = (uint32_t)n;
    return ST_OK;
}

static enum status read_top_logprobs(struct openai_request *q, struct json_cursor *c)
{
    int64_t n;
    TRY(json_read_i64(c, 0, MAX_TOP_LOGPROBS, &n));
    q->has_top_logprobs = n > 0;
    q->of.ask.top_logprobs = (uint32_t)n;
    return ST_OK;
}

static enum status read_token_ids(struct openai_request *q, struct json_cursor *c)
{
    return json_read_bool(c, &q->token_ids);
}

static enum status read_echo(struct openai_request *q, struct json_cursor *c)
{
    return json_read_bool(c, &q->echo);
}

static enum status read_response_format(struct openai_request *q, struct json_cursor *c)
{
    struct json_span key;
    char type[32] = "";
    (void)q;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key))
        if (json_span_is(key, "type"))
            TRY(json_read_chars(c, type, sizeof type));
    if (strcmp(type, "text") != 0)
        return json_fail(c, ST_UNSUPPORTED, "only the type \"text\" is supported");
    return ST_OK;
}

static enum status read_modalities(struct openai_request *q, struct json_cursor *c)
{
    static const char *const names[] = {"text"};
    size_t index;
    (void)q;
    TRY(json_enter_array(c));
    while (json_next_item(c))
        TRY(json_read_choice(c, names, 1, &index));
    return ST_OK;
}

static enum status only_bool(struct json_cursor *c, bool wanted)
{
    bool v;
    TRY(json_read_bool(c, &v));
    if (v != wanted)
        return json_fail(c, ST_UNSUPPORTED, "%s is not supported", v ? "true" : "false");
    return ST_OK;
}

static enum status read_only_false(struct openai_request *q, struct json_cursor *c)
{
    (void)q;
    return only_bool(c, false);
}

static enum status read_suffix(struct openai_request *q, struct json_cursor *c)
{
    (void)q;
    if (json_peek(c) != JSON_STRING || json_read_raw(c).n != 2) /* "" */
        return json_fail(c, ST_UNSUPPORTED, "is not supported: the model is asked to go on only");
    return ST_OK;
}

/* ---- the table ---- */

enum field_kind { FIELD_READER, FIELD_BOOL, FIELD_U32, FIELD_I32, FIELD_F32, FIELD_IGNORED };

struct field {
    const char *name;
    unsigned forms; /* openai_form */
    enum field_kind kind;
    enum status (*read)(struct openai_request *q, struct json_cursor *c);
    size_t at; /* in struct openai_request */
    double lo, hi;
};

#define BOTH (OPENAI_CHAT | OPENAI_COMPLETION)
#define ASK(member) offsetof(struct openai_request, of.ask.member)
#define READ(name, forms, read)                                                                    \
    {                                                                                              \
        (name), (forms), FIELD_READER, (read), 0, 0, 0                                             \
    }
#define BOOL(name, forms, member)                                                                  \
    {                                                                                              \
        (name), (forms), FIELD_BOOL, NULL, ASK(member), 0, 0                                       \
    }
#define U32(name, member, lo, hi)                                                                  \
    {                                                                                              \
        (name), BOTH, FIELD_U32, NULL, ASK(member), (lo), (hi)                                     \
    }
#define F32(name, member, lo, hi)                                                                  \
    {                                                                                              \
        (name), BOTH, FIELD_F32, NULL, ASK(member), (lo), (hi)                                     \
    }
#define IGNORED(name)                                                                              \
    {                                                                                              \
        (name), BOTH, FIELD_IGNORED, NULL, 0, 0, 0                                                 \
    }

static const struct field fields[] = {
    READ("model", BOTH, read_model),
    READ("messages", OPENAI_CHAT, openai_read_messages),
    READ("prompt", OPENAI_COMPLETION, openai_read_prompt),
    READ("stream", BOTH, read_stream),
    READ("stream_options", BOTH, read_stream_options),
    READ("seed", BOTH, read_seed),
    READ("stop", BOTH, read_stop),
    READ("stop_token_ids", BOTH, read_stop_ids),
    READ("logit_bias", BOTH, read_logit_bias),
    U32("n", n, 1, 16),
    U32("max_tokens", max_tokens, 1, INT32_MAX),
    {"max_completion_tokens", OPENAI_CHAT, FIELD_U32, NULL,
     offsetof(struct openai_request, max_completion_tokens), 1, INT32_MAX},
    U32("min_tokens", min_tokens, 0, INT32_MAX),
    U32("top_k", top_k, 0, INT32_MAX),
    U32("deadline_ms", deadline_ms, 0, UINT32_MAX),
    {"priority", BOTH, FIELD_I32, NULL, ASK(priority), -100, 100},
    F32("temperature", temperature, 0, 100),
    F32("top_p", top_p, FLT_MIN, 1),
    F32("min_p", min_p, 0, 1),
    F32("presence_penalty", presence_penalty, -2, 2),
    F32("frequency_penalty", frequency_penalty, -2, 2),
    F32("repetition_penalty", repetition_penalty, 0.01, 100),
    BOOL("ignore_eos", BOTH, ignore_eos),
    BOOL("include_stop_str_in_output", BOTH, include_stop),
    BOOL("skip_special_tokens", BOTH, skip_special),
    BOOL("add_special_tokens", OPENAI_COMPLETION, add_special),
    BOOL("add_generation_prompt", OPENAI_CHAT, add_generation_prompt),
    BOOL("continue_final_message", OPENAI_CHAT, continue_final_message),
    READ("chat_template_kwargs", OPENAI_CHAT, read_variables),
    READ("reasoning_effort", OPENAI_CHAT, read_reasoning_effort),
    READ("tools", OPENAI_CHAT, openai_read_tools),
    READ("tool_choice", OPENAI_CHAT, read_tool_choice),
    READ("parallel_tool_calls", OPENAI_CHAT, read_parallel_calls),
    READ("include_reasoning", OPENAI_CHAT, read_include_reasoning),
    READ("logprobs", BOTH, read_logprobs),
    READ("top_logprobs", OPENAI_CHAT, read_top_logprobs),
    READ("return_token_ids", BOTH, read_token_ids),
    READ("echo", OPENAI_COMPLETION, read_echo),
    /* served in their default values only */
    READ("response_format", BOTH, read_response_format),
    READ("modalities", OPENAI_CHAT, read_modalities),
    READ("store", OPENAI_CHAT, read_only_false),
    READ("suffix", OPENAI_COMPLETION, read_suffix),
    /* without effect */
    IGNORED("user"),
    IGNORED("safety_identifier"),
    IGNORED("metadata"),
    IGNORED("service_tier"),
    IGNORED("prompt_cache_key"),
    IGNORED("prompt_cache_options"),
    IGNORED("prompt_cache_retention"),
    IGNORED("verbosity"),
};

static enum status read_field(struct openai_request *q, const struct field *f,
                              struct json_cursor *c)
{
    char *at = (char *)q + f->at;
    int64_t whole;
    double real;
    switch (f->kind) {
    case FIELD_READER:
        return f->read(q, c);
    case FIELD_BOOL:
        return json_read_bool(c, (bool *)at);
    case FIELD_U32:
        TRY(json_read_i64(c, (int64_t)f->lo, (int64_t)f->hi, &whole));
        *(uint32_t *)at = (uint32_t)whole;
        return ST_OK;
    case FIELD_I32:
        TRY(json_read_i64(c, (int64_t)f->lo, (int64_t)f->hi, &whole));
        *(int32_t *)at = (int32_t)whole;
        return ST_OK;
    case FIELD_F32:
        TRY(json_read_double(c, f->lo, f->hi, &real));
        *(float *)at = (float)real;
        return ST_OK;
    case FIELD_IGNORED:
        return ST_OK;
    }
    return ST_OK;
}

static const struct field *find_field(enum openai_form form, struct json_span key)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if ((fields[i].forms & form) && json_span_is(key, fields[i].name))
            return &fields[i];
    return NULL;
}

/* ---- the whole ---- */

enum status openai_fail_at(struct json_cursor *c, const struct json_cursor *whole, const char *text)
{
    *c = *whole;
    return json_fail(c, ST_FORMAT, "%s", text);
}

static enum status read_body(struct openai_request *q, struct json_cursor *c)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        const struct field *f = find_field(q->form, key);
        if (json_take_null(c))
            continue;
        if (!f)
            return json_fail(c, ST_UNSUPPORTED, "this field is not supported");
        TRY(read_field(q, f, c));
    }
    return ST_OK;
}

/* chat_template_kwargs and reasoning_effort, as the template's variables; those named in the former win. */
static enum status write_variables(struct openai_request *q)
{
    struct json_span effort = q->reasoning_effort;
    struct text_buf text = {0};
    struct json_writer w = {.out = &text};
    enum status st = ST_OK;
    json_write_object(&w);
    if (q->variables.n) {
        struct json_cursor c;
        struct json_span key;
        st = json_open(&c, q->variables.p, q->variables.n, NULL);
        if (st == ST_OK)
            st = json_enter_object(&c);
        while (st == ST_OK && json_next_key(&c, &key)) {
            if (json_span_is(key, "reasoning_effort"))
                effort.n = 0;
            st = openai_pass_member(&w, key, &c);
        }
    }
    if (effort.n) {
        json_write_key(&w, "reasoning_effort");
        json_write_raw(&w, effort.p, effort.n);
    }
    json_write_end_object(&w);
    if (st == ST_OK)
        st = w.status;
    if (st == ST_OK)
        st = answer_keep_text(&q->of, &text, &q->of.ask.variables_json);
    text_buf_free(&text);
    return st;
}

#define REFUSE(path, ...)                                                                          \
    do {                                                                                           \
        memcpy(refusal->param, (path), sizeof(path));                                              \
        FAIL(ST_RANGE, path ": " __VA_ARGS__);                                                     \
    } while (0)

/* What concerns several fields. */
static enum status check(struct openai_request *q, struct openai_refusal *refusal)
{
    if (q->form == OPENAI_CHAT && !q->of.ask.n_turns)
        REFUSE("messages", "there is none");
    if (q->form == OPENAI_COMPLETION && !q->of.n_prompts)
        REFUSE("prompt", "there is none");
    if (q->has_stream_options && !q->of.stream)
        REFUSE("stream_options", "only a streamed answer has them");
    if (q->of.n_prompts * q->of.ask.n > ANSWER_MAX_CHOICES)
        REFUSE("n", "at most %d choices are made for one request", ANSWER_MAX_CHOICES);
    if (q->has_top_logprobs && !q->logprobs)
        REFUSE("top_logprobs", "needs \"logprobs\": true");
    if (q->echo && q->logprobs)
        REFUSE("echo", "with logprobs it is not supported: prompts have no log probabilities");
    if (q->has_tool_choice && !q->no_tools && !q->of.ask.tools_json)
        REFUSE("tool_choice", "there are no tools");
    if (q->max_completion_tokens)
        q->of.ask.max_tokens = q->max_completion_tokens;
    else if (q->form == OPENAI_COMPLETION && !q->of.ask.max_tokens)
        q->of.ask.max_tokens = DEFAULT_COMPLETION_TOKENS;
    if (q->no_tools)
        q->of.ask.tools_json = NULL;
    q->of.calls = q->of.ask.tools_json != NULL;
    q->of.reasoning = q->form == OPENAI_CHAT;
    q->of.tokens = q->logprobs || q->token_ids;
    q->of.ask.logprobs = q->logprobs;
    q->of.ask.want_prompt_text = q->echo;
    q->of.ask.want_prompt_ids = q->token_ids;
    return ST_OK;
}

enum status openai_request_read(struct openai_request *q, enum openai_form form, const char *body,
                                size_t n_body, struct openai_refusal *refusal)
{
    struct json_cursor c;
    *q = (struct openai_request){.form = form};
    answer_request_init(&q->of);
    *refusal = (struct openai_refusal){{0}};
    TRY(json_open(&c, body, n_body, NULL));
    enum status st = read_body(q, &c);
    if (st != ST_OK) {
        json_path(&c, refusal->param);
        return st;
    }
    if (q->variables.n || q->reasoning_effort.n)
        TRY(write_variables(q));
    if (form == OPENAI_CHAT)
        q->of.n_prompts = 1;
    return check(q, refusal);
}
