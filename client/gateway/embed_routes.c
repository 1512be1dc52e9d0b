#include "client/gateway/embed_routes.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "client/gateway/admission.h"
#include "client/gateway/embed_answer.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/ranking.h"

/* ---- vectors ---- */

static void write_floats(struct json_writer *w, const struct embed_vector *v)
{
    json_write_array(w);
    for (uint32_t i = 0; i < v->n; i++)
        json_write_f32(w, v->v[i]);
    json_write_end_array(w);
}

/* The components as f32, little endian (RFC 4648, section 4). */
static void write_base64(struct json_writer *w, const struct embed_vector *v)
{
    size_t n = 4 * (size_t)v->n;
    unsigned char *bytes = malloc(n + 1), *text = malloc((n + 2) / 3 * 4 + 1);
    struct byte_writer out = {.data = bytes, .cap = bytes ? n : 0};
    for (uint32_t i = 0; i < v->n; i++)
        put_f32(&out, v->v[i]);
    if (bytes && text)
        json_write_bytes(w, (char *)text, (size_t)EVP_EncodeBlock(text, bytes, (int)n));
    else
        w->status = ST_NOMEM;
    free(bytes);
    free(text);
}

/* ---- OpenAI ---- */

static void write_usage(struct json_writer *w, uint64_t tokens)
{
    json_write_key(w, "usage");
    json_write_object(w);
    json_member_u64(w, "prompt_tokens", tokens);
    json_member_u64(w, "total_tokens", tokens);
    json_write_end_object(w);
}

static void write_openai(struct json_writer *w, const struct embed_result *res)
{
    json_write_object(w);
    json_member_string(w, "object", "list");
    json_write_key(w, "data");
    json_write_array(w);
    for (size_t i = 0; i < res->n; i++) {
        json_write_object(w);
        json_member_string(w, "object", "embedding");
        json_member_u64(w, "index", i);
        json_write_key(w, "embedding");
        (res->base64 ? write_base64 : write_floats)(w, &res->vector[i]);
        json_write_end_object(w);
    }
    json_write_end_array(w);
    json_member_string(w, "model", res->model);
    write_usage(w, res->prompt_tokens);
    json_write_end_object(w);
}

/* ---- Ollama ---- */

static void write_ollama(struct json_writer *w, const struct embed_result *res)
{
    json_write_object(w);
    json_member_string(w, "model", res->model);
    json_write_key(w, "embeddings");
    json_write_array(w);
    for (size_t i = 0; i < res->n; i++)
        write_floats(w, &res->vector[i]);
    json_write_end_array(w);
    json_member_u64(w, "total_duration", 1000 * (clock_us() - res->began_us));
    json_member_u64(w, "load_duration", 0);
    json_member_u64(w, "prompt_eval_count", res->prompt_tokens);
    json_write_end_object(w);
}

static void write_ollama_one(struct json_writer *w, const struct embed_result *res)
{
    json_write_object(w);
    json_write_key(w, "embedding");
    write_floats(w, &res->vector[0]);
    json_write_end_object(w);
}

/* ---- pairs ---- */

static void write_ranked(struct json_writer *w, const struct embed_result *res,
                         const struct ranked *r)
{
    json_write_object(w);
    json_member_u64(w, "index", r->index);
    if (res->documents) {
        json_write_key(w, "document");
        json_write_object(w);
        json_write_key(w, "text");
        json_write_bytes(w, res->documents[r->index].text, res->documents[r->index].n_text);
        json_write_end_object(w);
    }
    json_write_key(w, "relevance_score");
    json_write_f32(w, r->score);
    json_write_end_object(w);
}

/* Cohere's form, the best document first. */
static void write_rerank(struct json_writer *w, const struct embed_result *res)
{
    struct ranked *order = calloc(res->n + 1, sizeof *order);
    size_t most = res->top_n && res->top_n < res->n ? res->top_n : res->n;
    if (!order) {
        w->status = ST_NOMEM;
        return;
    }
    for (size_t i = 0; i < res->n; i++)
        order[i] = (struct ranked){i, res->vector[i].v[0]};
    ranking_sort(order, res->n);
    json_write_object(w);
    json_member_string(w, "model", res->model);
    json_write_key(w, "results");
    json_write_array(w);
    for (size_t i = 0; i < most; i++)
        write_ranked(w, res, &order[i]);
    json_write_end_array(w);
    write_usage(w, res->prompt_tokens);
    json_write_end_object(w);
    free(order);
}

/* vLLM's form, in the order of the pairs. */
static void write_score(struct json_writer *w, const struct embed_result *res)
{
    json_write_object(w);
    json_member_string(w, "object", "list");
    json_member_string(w, "model", res->model);
    json_write_key(w, "data");
    json_write_array(w);
    for (size_t i = 0; i < res->n; i++) {
        json_write_object(w);
        json_member_u64(w, "index", i);
        json_member_string(w, "object", "score");
        json_write_key(w, "score");
        json_write_f32(w, res->vector[i].v[0]);
        json_write_end_object(w);
    }
    json_write_end_array(w);
    write_usage(w, res->prompt_tokens);
    json_write_end_object(w);
}

/* ---- routes ---- */

static void serve(struct gateway *g, enum embed_api api, embed_writer *write,
                  const struct http_request *http, struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    struct embed_request q;
    char param[JSON_PATH_SIZE];
    if (!s)
        return;
    enum status st = embed_request_read(&q, api, http->body, http->n_body, param);
    const char *model = admission_check(g, s, &q.of, st, param, http, r);
    if (model)
        embed_answer_start(g->upstream, &g->answers, r, &q, model, write);
    answer_request_free(&q.of);
}

void embed_serve_openai(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, EMBED_OPENAI, write_openai, q, r);
}

void embed_serve_rerank(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, EMBED_RERANK, write_rerank, q, r);
}

void embed_serve_score(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, EMBED_SCORE, write_score, q, r);
}

void embed_serve_ollama(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, EMBED_OLLAMA, write_ollama, q, r);
}

void embed_serve_ollama_one(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, EMBED_OLLAMA_ONE, write_ollama_one, q, r);
}
