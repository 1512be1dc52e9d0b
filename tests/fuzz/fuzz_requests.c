/* The readers of the APIs' requests: what they accept is JSON again for the coordinator, and a refusal says why and where.
 * The first byte: which API. */
#include <stdlib.h>
#include <string.h>

#include "client/gateway/anthropic_request.h"
#include "client/gateway/embed_request.h"
#include "client/gateway/ollama_request.h"
#include "client/gateway/openai_request.h"
#include "client/gateway/responses_request.h"
#include "common/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void must_be(const char *json, size_t n, enum json_type type)
{
    struct json_cursor c;
    must(json_open(&c, json, n, NULL) == ST_OK && json_peek(&c) == type);
}

static void check(const struct answer_request *q, enum status st, const char *param)
{
    const struct ingot_request *ask = &q->ask;
    if (st != ST_OK) {
        must(*status_text() && utf8_valid(param, strlen(param)));
        return;
    }
    for (size_t i = 0; i < ask->n_turns; i++)
        must_be(ask->turns[i].json, ask->turns[i].n_json, JSON_OBJECT);
    if (ask->tools_json)
        must_be(ask->tools_json, strlen(ask->tools_json), JSON_ARRAY);
    if (ask->variables_json)
        must_be(ask->variables_json, strlen(ask->variables_json), JSON_OBJECT);
    for (size_t i = 0; i < ask->n_stops; i++)
        must(*ask->stops[i]);
    for (size_t i = 0; i < q->n_tools; i++)
        must(*q->tools[i]);
}

static void openai(enum openai_form form, const char *body, size_t n)
{
    struct openai_request q;
    struct openai_refusal refusal;
    enum status st = openai_request_read(&q, form, body, n, &refusal);
    check(&q.of, st, refusal.param);
    answer_request_free(&q.of);
}

static void anthropic(bool count, const char *body, size_t n)
{
    struct anthropic_request q;
    char param[JSON_PATH_SIZE];
    enum status st = anthropic_request_read(&q, count, body, n, param);
    check(&q.of, st, param);
    anthropic_request_free(&q);
}

static void ollama(enum ollama_call call, const char *body, size_t n)
{
    struct ollama_request q;
    char param[JSON_PATH_SIZE];
    enum status st = ollama_request_read(&q, call, body, n, param);
    check(&q.of, st, param);
    ollama_request_free(&q);
}

static void responses(const char *body, size_t n)
{
    struct responses_request q;
    char param[JSON_PATH_SIZE];
    enum status st = responses_request_read(&q, body, n, param);
    check(&q.of, st, param);
    responses_request_free(&q);
}

static void embed(enum embed_api api, const char *body, size_t n)
{
    struct embed_request q;
    char param[JSON_PATH_SIZE];
    enum status st = embed_request_read(&q, api, body, n, param);
    check(&q.of, st, param);
    if (st == ST_OK)
        must(q.of.ask.embed && q.of.n_prompts <= EMBED_MAX_INPUTS &&
             (q.of.n_prompts >= 1 || api == EMBED_OLLAMA));
    answer_request_free(&q.of);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *body = (const char *)data + 1;
    size_t n = size - 1;
    switch (data[0]) {
    case 'c':
        openai(OPENAI_CHAT, body, n);
        break;
    case 'p':
        openai(OPENAI_COMPLETION, body, n);
        break;
    case 'a':
        anthropic(false, body, n);
        break;
    case 'n':
        anthropic(true, body, n);
        break;
    case 'e':
        embed(EMBED_OPENAI, body, n);
        break;
    case 'E':
        embed(EMBED_OLLAMA, body, n);
        break;
    case '1':
        embed(EMBED_OLLAMA_ONE, body, n);
        break;
    case 'o':
        ollama(OLLAMA_CHAT, body, n);
        break;
    case 'g':
        ollama(OLLAMA_GENERATE, body, n);
        break;
    default:
        responses(body, n);
    }
    return 0;
}
