#include "client/gateway/ollama_routes.h"

#include <stdio.h>
#include <string.h>

#include "client/gateway/admission.h"
#include "client/gateway/answer.h"
#include "client/gateway/ollama_form.h"
#include "client/gateway/time_text.h"

/* ---- answers ---- */

static void start(struct gateway *g, struct ollama_request *q, const char *model,
                  struct http_reply *r)
{
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    if (q->empty) {
        ollama_write_loaded(&w, q, model);
        http_reply_json(r, &w);
        return;
    }
    void *a = ollama_answer_create(q, model);
    if (a)
        answer_start(g->upstream, &g->answers, r, &q->of, &ollama_form, a);
    else
        http_reply_error(r, 503, "no memory for an answer");
}

static void serve(struct gateway *g, enum ollama_call call, const struct http_request *http,
                  struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    struct ollama_request q;
    char param[JSON_PATH_SIZE], message[96];
    if (!s)
        return;
    enum status st = ollama_request_read(&q, call, http->body, http->n_body, param);
    const char *model = admission_check(g, s, &q.of, st, param, http, r);
    if (model && q.num_ctx > s->model.max_ctx) {
        snprintf(message, sizeof message, "options.num_ctx: the context has %u tokens",
                 s->model.max_ctx);
        http_reply_error(r, 400, message);
    } else if (model) {
        start(g, &q, model, r);
    }
    ollama_request_free(&q);
}

void ollama_serve_chat(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, OLLAMA_CHAT, q, r);
}

void ollama_serve_generate(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    serve(g, OLLAMA_GENERATE, q, r);
}

/* ---- models ---- */

/* What is not known of a model is empty, because clients expect the members. */
static void write_details(struct json_writer *w)
{
    json_write_key(w, "details");
    json_write_object(w);
    json_member_string(w, "parent_model", "");
    json_member_string(w, "format", "");
    json_member_string(w, "family", "");
    json_write_key(w, "families");
    json_write_array(w);
    json_write_end_array(w);
    json_member_string(w, "parameter_size", "");
    json_member_string(w, "quantization_level", "");
    json_write_end_object(w);
}

static void begin_model(struct json_writer *w, const struct ingot_server *s, const char *name)
{
    char full[ANSWER_MAX_MODEL + 16];
    const char *base = strrchr(name, '/');
    const char *tag = strchr(base ? base : name, ':') ? "" : ":latest";
    snprintf(full, sizeof full, "%s%s", name, tag);
    json_write_object(w);
    json_member_string(w, "name", full);
    json_member_string(w, "model", full);
    json_member_u64(w, "size", 0);
    json_member_string(w, "digest", s->model.weights_digest);
    write_details(w);
}

static void write_modified(struct json_writer *w, const struct gateway *g)
{
    char text[TIME_TEXT_SIZE];
    json_member_string(w, "modified_at", time_text(text, g->started, -1));
}

static void serve_list(struct gateway *g, bool running, struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    if (!s)
        return;
    size_t n = g->names.n ? g->names.n : 1;
    json_write_object(&w);
    json_write_key(&w, "models");
    json_write_array(&w);
    for (size_t i = 0; i < n && (!running || upstream_is_ready(g->upstream)); i++) {
        begin_model(&w, s, g->names.n ? g->names.name[i] : admission_own_name(s));
        if (running) {
            json_member_string(&w, "expires_at", "9999-12-31T23:59:59Z");
            json_member_u64(&w, "size_vram", 0);
            json_member_u64(&w, "context_length", s->model.max_ctx);
        } else {
            write_modified(&w, g);
        }
        json_write_end_object(&w);
    }
    json_write_end_array(&w);
    json_write_end_object(&w);
    http_reply_json(r, &w);
}

void ollama_serve_tags(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (void)q;
    serve_list(g, false, r);
}

void ollama_serve_ps(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (void)q;
    serve_list(g, true, r);
}

static enum status read_show(char model[ANSWER_MAX_MODEL], const struct http_request *q)
{
    struct json_cursor c;
    struct json_span key;
    char name[ANSWER_MAX_MODEL];
    bool verbose;
    *model = '\0';
    TRY(json_open(&c, q->body, q->n_body, NULL));
    TRY(json_enter_object(&c));
    while (json_next_key(&c, &key)) {
        if (json_take_null(&c))
            continue;
        if (json_span_is(key, "model") || json_span_is(key, "name")) {
            TRY(json_read_chars(&c, name, sizeof name)); /* clients send both, one of them empty */
            if (*name)
                memcpy(model, name, sizeof name);
        } else if (json_span_is(key, "verbose")) {
            TRY(json_read_bool(&c, &verbose));
        } else {
            return request_unknown(&c);
        }
    }
    return *model ? ST_OK : json_fail(&c, ST_RANGE, "model is required");
}

static void write_model_info(struct json_writer *w, const struct ingot_server *s, const char *name)
{
    json_write_key(w, "model_info");
    json_write_object(w);
    json_member_string(w, "general.architecture", "ingot"); /* the prefix of the names below */
    json_member_string(w, "general.basename", name);
    json_member_u64(w, "ingot.context_length", s->model.max_ctx);
    json_member_u64(w, "ingot.vocab_size", s->model.vocab);
    json_write_end_object(w);
}

static void write_capabilities(struct json_writer *w, const struct ingot_server *s)
{
    json_write_key(w, "capabilities");
    json_write_array(w);
    json_write_string(w, "completion");
    if (s->model.embedding)
        json_write_string(w, "embedding");
    if (s->model.chat)
        json_write_string(w, "tools");
    if (*s->model.think_open)
        json_write_string(w, "thinking");
    json_write_end_array(w);
}

void ollama_serve_show(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    char model[ANSWER_MAX_MODEL];
    struct text_buf body = {0};
    struct json_writer w = {.out = &body};
    if (!s)
        return;
    if (read_show(model, q) != ST_OK) {
        http_reply_error(r, 400, status_text());
        return;
    }
    const char *name = admission_model(g, s, model, r);
    if (!name)
        return;
    json_write_object(&w);
    json_member_string(&w, "license", "");
    json_member_string(&w, "modelfile", "");
    json_member_string(&w, "parameters", "");
    json_member_string(&w, "template", "");
    write_details(&w);
    write_model_info(&w, s, name);
    write_capabilities(&w, s);
    write_modified(&w, g);
    json_write_end_object(&w);
    http_reply_json(r, &w);
}

/* ---- what is not served ---- */

void ollama_refuse_management(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (void)g, (void)q;
    http_reply_error(r, 501,
                     "models are not managed over HTTP: this server serves the one that it was "
                     "started with");
}
