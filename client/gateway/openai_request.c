#include "client/gateway/openai_request.h"

#include <string.h>

#include "client/gateway/grammar_fields.h"
#include "client/gateway/tool_choice.h"

enum { DEFAULT_COMPLETION_TOKENS = 16, MAX_TOP_LOGPROBS = 20 };

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
            return request_unknown(c);
    }
    return ST_OK;
}

static enum status read_n(struct openai_request *q, struct json_cursor *c)
{
    return request_read_u32(c, 1, 16, &q->of.ask.n);
}

static enum status read_best_of(struct openai_request *q, struct json_cursor *c)
{
    return request_read_u32(c, 1, 16, &q->best_of);
}

static enum status read_max_completion_tokens(struct openai_request *q, struct json_cursor *c)
{
    return request_read_u32(c, 1, INT32_MAX, &q->max_completion_tokens);
}

static enum status read_variables(struct openai_request *q, struct json_cursor *c)
{
    return request_read_given(&q->variables, c);
}

static enum status read_reasoning_effort(struct openai_request *q, struct json_cursor *c)
{
    return request_read_effort(&q->variables, c);
}

/* -1, as llama.cpp has it, is no budget. */
static enum status read_thinking_budget(struct openai_request *q, struct json_cursor *c)
{
    struct json_cursor here = *c;
    int64_t budget;
    TRY(json_read_i64(c, -1, INT32_MAX, &budget));
    if (budget < 0)
        return ST_OK;
    if (q->of.ask.has_thinking_budget && q->of.ask.thinking_budget != budget)
        return json_fail(&here, ST_RANGE, "another field gives another budget of thinking");
    q->of.ask.has_thinking_budget = true;
    q->of.ask.thinking_budget = (uint32_t)budget;
    return ST_OK;
}

static enum status read_tool_choice(struct openai_request *q, struct json_cursor *c)
{
    q->has_tool_choice = true;
    return tool_choice_read(&q->of, c, TOOL_CHOICE_CHAT, &q->no_tools);
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

/* vLLM's: how many of the most probable tokens are reported beside each token of the prompt. */
static enum status read_prompt_logprobs(struct openai_request *q, struct json_cursor *c)
{
    int64_t n;
    TRY(json_read_i64(c, 0, MAX_TOP_LOGPROBS, &n));
    q->prompt_logprobs = true;
    q->prompt_top = (uint32_t)n;
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

/* 0, which the coordinator knows as "as many as there is room for", is no answer. */
static enum status read_completion_tokens(struct openai_request *q, struct json_cursor *c)
{
    int64_t n;
    TRY(json_read_i64(c, 0, INT32_MAX, &n));
    q->of.no_answer = n == 0;
    q->of.ask.max_tokens = n ? (uint32_t)n : 1;
    return ST_OK;
}

static enum status read_response_format(struct openai_request *q, struct json_cursor *c)
{
    return grammar_read_response_format(&q->of, c);
}

static enum status read_structured_outputs(struct openai_request *q, struct json_cursor *c)
{
    return grammar_read_structured_outputs(&q->of, c);
}

static enum status read_guided_json(struct openai_request *q, struct json_cursor *c)
{
    return grammar_read_schema(&q->of, c);
}

static enum status read_guided_regex(struct openai_request *q, struct json_cursor *c)
{
    return grammar_read_regex(&q->of, c);
}

static enum status read_guided_choice(struct openai_request *q, struct json_cursor *c)
{
    return grammar_read_choice(&q->of, c);
}

static enum status read_gbnf(struct openai_request *q, struct json_cursor *c)
{
    return grammar_read_gbnf(&q->of, c);
}

static enum status read_prompt(struct openai_request *q, struct json_cursor *c)
{
    return openai_read_prompts(&q->of, c, ANSWER_MAX_CHOICES);
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

static enum status read_only_false(struct openai_request *q, struct json_cursor *c)
{
    (void)q;
    return request_only_bool(c, false);
}

static enum status read_suffix(struct openai_request *q, struct json_cursor *c)
{
    (void)q;
    if (json_peek(c) != JSON_STRING || json_read_raw(c).n != 2) /* "" */
        return json_fail(c, ST_UNSUPPORTED, "is not supported: no text is filled into another one");
    return ST_OK;
}

/* ---- the table ---- */

enum field_kind { FIELD_READER, FIELD_BOOL, FIELD_IGNORED };

struct field {
    const char *name;
    unsigned forms; /* openai_form */
    enum field_kind kind;
    enum status (*read)(struct openai_request *q, struct json_cursor *c);
    size_t at; /* in struct openai_request */
};

#define BOTH (OPENAI_CHAT | OPENAI_COMPLETION)
#define ASK(member) offsetof(struct openai_request, of.ask.member)
#define READ(name, forms, read)                                                                    \
    {                                                                                              \
        (name), (forms), FIELD_READER, (read), 0                                                   \
    }
#define BOOL(name, forms, member)                                                                  \
    {                                                                                              \
        (name), (forms), FIELD_BOOL, NULL, ASK(member)                                             \
    }
#define IGNORED(name)                                                                              \
    {                                                                                              \
        (name), BOTH, FIELD_IGNORED, NULL, 0                                                       \
    }

static const struct field fields[] = {
    READ("model", BOTH, read_model),
    READ("messages", OPENAI_CHAT, openai_read_messages),
    READ("prompt", OPENAI_COMPLETION, read_prompt),
    READ("stream", BOTH, read_stream),
    READ("stream_options", BOTH, read_stream_options),
    READ("n", BOTH, read_n),
    READ("max_completion_tokens", OPENAI_CHAT, read_max_completion_tokens),
    READ("max_tokens", OPENAI_COMPLETION, read_completion_tokens),
    BOOL("add_special_tokens", OPENAI_COMPLETION, add_special),
    BOOL("add_generation_prompt", OPENAI_CHAT, add_generation_prompt),
    BOOL("continue_final_message", OPENAI_CHAT, continue_final_message),
    READ("chat_template_kwargs", OPENAI_CHAT, read_variables),
    READ("reasoning_effort", OPENAI_CHAT, read_reasoning_effort),
    READ("thinking_token_budget", OPENAI_CHAT, read_thinking_budget),  /* vLLM's */
    READ("thinking_budget_tokens", OPENAI_CHAT, read_thinking_budget), /* llama.cpp's */
    READ("thinking_budget", OPENAI_CHAT, read_thinking_budget),
    READ("tools", OPENAI_CHAT, openai_read_tools),
    READ("tool_choice", OPENAI_CHAT, read_tool_choice),
    READ("parallel_tool_calls", OPENAI_CHAT, read_parallel_calls),
    READ("include_reasoning", OPENAI_CHAT, read_include_reasoning),
    READ("logprobs", BOTH, read_logprobs),
    READ("top_logprobs", OPENAI_CHAT, read_top_logprobs),
    READ("prompt_logprobs", BOTH, read_prompt_logprobs),
    READ("return_token_ids", BOTH, read_token_ids),
    READ("echo", OPENAI_COMPLETION, read_echo),
    READ("response_format", BOTH, read_response_format),
    READ("structured_outputs", BOTH, read_structured_outputs),
    READ("guided_json", BOTH, read_guided_json),
    READ("guided_regex", BOTH, read_guided_regex),
    READ("guided_choice", BOTH, read_guided_choice),
    READ("guided_grammar", BOTH, read_gbnf),
    READ("grammar", BOTH, read_gbnf), /* llama.cpp's */
    /* served in their default values only */
    READ("modalities", OPENAI_CHAT, read_modalities),
    READ("store", OPENAI_CHAT, read_only_false),
    READ("suffix", OPENAI_COMPLETION, read_suffix),
    READ("best_of", OPENAI_COMPLETION, read_best_of),
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
    switch (f->kind) {
    case FIELD_READER:
        return f->read(q, c);
    case FIELD_BOOL:
        return json_read_bool(c, (bool *)((char *)q + f->at));
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

static enum status read_member(void *request, struct json_span key, struct json_cursor *c)
{
    struct openai_request *q = request;
    const struct field *f = find_field(q->form, key);
    return f ? read_field(q, f, c) : request_field_or_refusal(&q->of, key, NULL, c);
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
        REFUSE("messages", "at least one message is required");
    if (q->form == OPENAI_COMPLETION && !q->of.n_prompts)
        REFUSE("prompt", "a prompt is required");
    if (q->has_stream_options && !q->of.stream)
        REFUSE("stream_options", "only a streamed answer has them");
    if (q->of.n_prompts * q->of.ask.n > ANSWER_MAX_CHOICES)
        REFUSE("n", "at most %d choices are made for one request", ANSWER_MAX_CHOICES);
    if (q->best_of && q->best_of != q->of.ask.n)
        REFUSE("best_of", "must be equal to n: choices are not ranked");
    if (q->has_top_logprobs && !q->logprobs)
        REFUSE("top_logprobs", "needs \"logprobs\": true");
    if (q->of.no_answer && !q->echo)
        REFUSE("max_tokens", "0 needs \"echo\": true");
    if (q->prompt_logprobs && q->of.stream)
        REFUSE("prompt_logprobs", "a stream has no place for them: leave \"stream\" away, or use "
                                  "/v1/completions with \"echo\" and \"logprobs\"");
    if (q->has_tool_choice && !q->no_tools && !q->of.ask.tools_json)
        REFUSE("tool_choice", "there are no tools");
    if (tool_choice_check(&q->of) != ST_OK)
        REFUSE("tool_choice", "there is no tool of that name");
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
    q->of.ask.prompt_logprobs = q->prompt_logprobs || (q->echo && q->logprobs);
    q->of.ask.prompt_top = q->prompt_top;
    if (q->echo && q->logprobs && q->prompt_top < q->of.ask.top_logprobs)
        q->of.ask.prompt_top = q->of.ask.top_logprobs;
    q->of.ask.want_prompt_ids = q->token_ids || q->of.ask.prompt_logprobs;
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
    enum status st = request_read_members(q, &c, read_member);
    if (st != ST_OK) {
        json_path(&c, refusal->param);
        return st;
    }
    TRY(request_set_variables(&q->of, &q->variables));
    if (form == OPENAI_CHAT)
        q->of.n_prompts = 1;
    return check(q, refusal);
}
