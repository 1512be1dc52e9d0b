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

/* One text or a list of texts, as the queries of the pairs: they are read like an input, and put aside. */
static enum status read_queries(struct embed_request *q, struct json_cursor *c)
{
    struct answer_prompt *documents = q->of.prompts;
    size_t n = q->of.n_prompts;
    if (q->n_queries)
        return json_fail(c, ST_RANGE, "the query is there already");
    q->of.n_prompts = 0;
    enum status st = openai_read_prompts(&q->of, c, EMBED_MAX_INPUTS);
    q->queries = q->of.prompts;
    q->n_queries = q->of.n_prompts;
    q->of.prompts = documents;
    q->of.n_prompts = n;
    return st;
}

static enum status read_query(struct embed_request *q, struct json_cursor *c)
{
    if (json_peek(c) != JSON_STRING)
        return json_fail(c, ST_FORMAT, "must be a string");
    return read_queries(q, c);
}

static enum status read_documents(struct embed_request *q, struct json_cursor *c)
{
    if (json_peek(c) != JSON_ARRAY)
        return json_fail(c, ST_FORMAT, "must be a list of strings");
    return read_input(q, c);
}

static enum status read_top_n(struct embed_request *q, struct json_cursor *c)
{
    return request_read_u32(c, 1, INT32_MAX, &q->top_n);
}

static enum status read_return_documents(struct embed_request *q, struct json_cursor *c)
{
    return json_read_bool(c, &q->return_documents);
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
    {"model", EMBED_OPENAI | OLLAMA_BOTH | EMBED_PAIRS, read_model},
    {"query", EMBED_RERANK, read_query},
    {"documents", EMBED_RERANK, read_documents},
    {"top_n", EMBED_RERANK, read_top_n},
    {"return_documents", EMBED_RERANK, read_return_documents},
    {"text_1", EMBED_SCORE, read_queries},
    {"text_2", EMBED_SCORE, read_input},
    {"input", EMBED_OPENAI | EMBED_OLLAMA, read_input},
    {"prompt", EMBED_OLLAMA_ONE, read_input},
    {"dimensions", EMBED_OPENAI | EMBED_OLLAMA, read_dimensions},
    {"encoding_format", EMBED_OPENAI, read_encoding},
    {"add_special_tokens", EMBED_OPENAI, read_add_special}, /* vLLM's */
    {"prompt_name", EMBED_OPENAI | OLLAMA_BOTH, read_prompt_name},
    {"truncate", EMBED_OLLAMA, read_truncate},
    {"user", EMBED_OPENAI | EMBED_PAIRS, skip},
    {"keep_alive", OLLAMA_BOTH, skip},
    {"options", OLLAMA_BOTH, skip}, /* of sampling, and of how a model is loaded */
};

/* Texts alone, and as many queries as the pairs need. */
static enum status check_pairs(const struct embed_request *q)
{
    bool rerank = q->api == EMBED_RERANK;
    if (!q->n_queries)
        FAIL(ST_RANGE, "%s is missing", rerank ? "query" : "text_1");
    if (q->n_queries != 1 && q->n_queries != q->of.n_prompts)
        FAIL(ST_RANGE, "%zu texts of text_1 and %zu of text_2: there must be one, or as many",
             q->n_queries, q->of.n_prompts);
    for (size_t i = 0; i < q->n_queries + q->of.n_prompts; i++) {
        const struct answer_prompt *p =
            i < q->n_queries ? &q->queries[i] : &q->of.prompts[i - q->n_queries];
        if (p->ids)
            FAIL(ST_FORMAT, "%s must be texts",
                 rerank             ? "documents"
                 : i < q->n_queries ? "text_1"
                                    : "text_2");
    }
    return ST_OK;
}

/* The name of the texts, where they are missing. */
static const char *input_name(enum embed_api api)
{
    return api == EMBED_OLLAMA_ONE ? "prompt"
           : api == EMBED_RERANK   ? "documents"
           : api == EMBED_SCORE    ? "text_2"
                                   : "input";
}

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
        FAIL(ST_RANGE, "%s is missing", input_name(api));
    return api & EMBED_PAIRS ? check_pairs(q) : ST_OK;
}
