#include "client/gateway/embed_request.h"

#include "client/gateway/openai_request.h"

/* A text, ids, or a list of either; Ollama's: a text or a list of texts, or an empty one. */
static enum status read_input(struct embed_request *q, struct json_cursor *c)
{
    struct json_cursor look = *c;
    bool list = json_peek(c) == JSON_ARRAY, any = false;
    if (q->has_input)
        return json_fail(c, ST_RANGE, "the input is there already");
    q->has_input = true;
    if (list && q->api == EMBED_OLLAMA_ONE)
        return json_fail(c, ST_FORMAT, "must be a string");
    if (list && q->api == EMBED_OLLAMA) {
        TRY(json_enter_array(&look));
        for (; json_next_item(&look); any = true)
            if (json_peek(&look) != JSON_STRING)
                return json_fail(&look, ST_FORMAT, "must be a string");
        if (!any)
            return ST_OK;
    }
    return openai_read_prompts(&q->of, c, EMBED_MAX_INPUTS);
}

/* ---- fields ---- */

static enum status read_model(struct embed_request *q, struct json_cursor *c)
{
    return json_read_chars(c, q->of.model, sizeof q->of.model);
}

static enum status read_encoding(struct embed_request *q, struct json_cursor *c)
{
    static const char *const names[] = {"float", "base64"};
    size_t i = 0;
    TRY(json_read_choice(c, names, ARRAY_LEN(names), &i));
    q->base64 = i == 1;
    return ST_OK;
}

static enum status read_dimensions(struct embed_request *q, struct json_cursor *c)
{
    return request_read_u32(c, 1, INT32_MAX, &q->of.ask.dimensions);
}

static enum status read_prompt_name(struct embed_request *q, struct json_cursor *c)
{
    struct text_buf text = {0};
    enum status st = json_read_string(c, &text);
    if (st == ST_OK)
        st = answer_keep_text(&q->of, &text, &q->of.ask.prompt_name);
    text_buf_free(&text);
    return st;
}

static enum status read_add_special(struct embed_request *q, struct json_cursor *c)
{
    return json_read_bool(c, &q->of.ask.add_special);
}

/* Ollama cuts a text that is too long unless this is false; here it is always refused. */
static enum status read_truncate(struct embed_request *q, struct json_cursor *c)
{
    (void)q;
    return request_only_bool(c, false);
}

static enum status skip(struct embed_request *q, struct json_cursor *c)
{
    (void)q, (void)c; /* without effect */
    return ST_OK;
}

#define OLLAMA_BOTH (EMBED_OLLAMA | EMBED_OLLAMA_ONE)

static const struct {
    const char *name;
    unsigned apis; /* enum embed_api */
    enum status (*read)(struct embed_request *q, struct json_cursor *c);
} fields[] = {
    {"model", EMBED_OPENAI | OLLAMA_BOTH, read_model},
    {"input", EMBED_OPENAI | EMBED_OLLAMA, read_input},
    {"prompt", EMBED_OLLAMA_ONE, read_input},
    {"dimensions", EMBED_OPENAI | EMBED_OLLAMA, read_dimensions},
    {"encoding_format", EMBED_OPENAI, read_encoding},
    {"add_special_tokens", EMBED_OPENAI, read_add_special}, /* vLLM's */
    {"prompt_name", EMBED_OPENAI | OLLAMA_BOTH, read_prompt_name},
    {"truncate", EMBED_OLLAMA, read_truncate},
    {"user", EMBED_OPENAI, skip},
    {"keep_alive", OLLAMA_BOTH, skip},
    {"options", OLLAMA_BOTH, skip}, /* of sampling, and of how a model is loaded */
};

static enum status read_member(void *request, struct json_span key, struct json_cursor *c)
{
    struct embed_request *q = request;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if ((fields[i].apis & q->api) && json_span_is(key, fields[i].name))
            return fields[i].read(q, c);
    return request_unknown(c);
}

enum status embed_request_read(struct embed_request *q, enum embed_api api, const char *body,
                               size_t n_body, char param[JSON_PATH_SIZE])
{
    struct json_cursor c;
    *q = (struct embed_request){.api = api};
    *param = '\0';
    answer_request_init(&q->of);
    q->of.ask.embed = true;
    TRY(json_open(&c, body, n_body, NULL));
    enum status st = request_read_members(q, &c, read_member);
    if (st != ST_OK) {
        json_path(&c, param);
        return st;
    }
    if (!q->has_input)
        FAIL(ST_RANGE, "%s is missing", api == EMBED_OLLAMA_ONE ? "prompt" : "input");
    return ST_OK;
}
