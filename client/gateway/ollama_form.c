#include "client/gateway/ollama_form.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/gateway/answer_error.h"
#include "client/gateway/raw_json.h"
#include "client/gateway/time_text.h"

struct ollama_answer {
    enum ollama_call call;
    char model[ANSWER_MAX_MODEL];
    struct text_buf arguments; /* of the call that is being written, in a stream */
};

void *ollama_answer_create(const struct ollama_request *q, const char *model)
{
    struct ollama_answer *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->call = q->call;
    snprintf(a->model, sizeof a->model, "%s", model);
    return a;
}

static void release(void *ctx)
{
    struct ollama_answer *a = ctx;
    text_buf_free(&a->arguments);
    free(a);
}

/* ---- objects ---- */

static void member_bytes(struct json_writer *w, const char *key, const char *text, size_t n)
{
    json_write_key(w, key);
    json_write_bytes(w, text, n);
}

static void begin_object(struct json_writer *w, const char *model)
{
    char now[TIME_TEXT_SIZE];
    json_write_object(w);
    json_member_string(w, "model", model);
    json_member_string(w, "created_at", time_text_now(now));
}

/* The members that hold text; a chat's message is left open. */
static void write_texts(struct json_writer *w, enum ollama_call call, struct json_span text,
                        struct json_span thinking)
{
    if (call == OLLAMA_CHAT) {
        json_write_key(w, "message");
        json_write_object(w);
        json_member_string(w, "role", "assistant");
    }
    member_bytes(w, call == OLLAMA_CHAT ? "content" : "response", text.p, text.n);
    if (thinking.n)
        member_bytes(w, "thinking", thinking.p, thinking.n);
}

static void end_texts(struct json_writer *w, enum ollama_call call)
{
    if (call == OLLAMA_CHAT)
        json_write_end_object(w);
}

static void write_call(struct json_writer *w, const struct answer_call *call,
                       const struct text_buf *arguments)
{
    json_write_object(w);
    json_member_string(w, "id", call->id);
    json_write_key(w, "function");
    json_write_object(w);
    json_member_u64(w, "index", call->index);
    member_bytes(w, "name", call->name.data, call->name.len);
    json_write_key(w, "arguments");
    raw_json_write_arguments(w, arguments->data, arguments->len);
    json_write_end_object(w);
    json_write_end_object(w);
}

static void write_end(struct json_writer *w, const struct answer_whole *whole)
{
    const struct answer_usage *u = &whole->usage;
    uint64_t prompt_us = u->first_token_us, eval_us = u->total_us - prompt_us;
    const char *reason = whole->choices[0].end.finish == ANSWER_LENGTH ? "length" : "stop";
    json_member_bool(w, "done", true);
    json_member_string(w, "done_reason", reason);
    json_member_u64(w, "total_duration", 1000 * u->total_us);
    json_member_u64(w, "load_duration", 0);
    json_member_u64(w, "prompt_eval_count", u->prompt_tokens);
    json_member_u64(w, "prompt_eval_duration", 1000 * prompt_us);
    json_member_u64(w, "eval_count", u->completion_tokens);
    json_member_u64(w, "eval_duration", 1000 * eval_us);
}

void ollama_write_loaded(struct json_writer *w, const struct ollama_request *q, const char *model)
{
    const struct json_span none = {0};
    begin_object(w, model);
    write_texts(w, q->call, none, none);
    end_texts(w, q->call);
    json_member_bool(w, "done", true);
    json_member_string(w, "done_reason", q->unload ? "unload" : "load");
    json_write_end_object(w);
}

/* ---- streams ---- */

static enum status end_line(struct json_writer *w)
{
    json_write_end_object(w);
    TRY(w->status);
    return text_buf_append(w->out, "\n", 1);
}

static enum status text_line(const struct ollama_answer *a, struct json_span text,
                             struct json_span thinking, struct text_buf *out)
{
    struct json_writer w = {.out = out};
    begin_object(&w, a->model);
    write_texts(&w, a->call, text, thinking);
    end_texts(&w, a->call);
    json_member_bool(&w, "done", false);
    return end_line(&w);
}

static enum status begin(void *ctx, const struct answer_start *start, struct text_buf *out)
{
    (void)ctx, (void)start, (void)out;
    return ST_OK;
}

static enum status reasoning(void *ctx, struct answer_choice *c, const char *text, size_t n,
                             struct text_buf *out)
{
    (void)c;
    return text_line(ctx, (struct json_span){0}, (struct json_span){text, n}, out);
}

static enum status content(void *ctx, struct answer_choice *c, const char *text, size_t n,
                           struct text_buf *out)
{
    (void)c;
    return text_line(ctx, (struct json_span){text, n}, (struct json_span){0}, out);
}

static enum status call_begin(void *ctx, struct answer_choice *c, const struct answer_call *call,
                              struct text_buf *out)
{
    struct ollama_answer *a = ctx;
    (void)c, (void)call, (void)out;
    a->arguments.len = 0;
    return ST_OK;
}

static enum status call_arguments(void *ctx, struct answer_choice *c,
                                  const struct answer_call *call, const char *text, size_t n,
                                  struct text_buf *out)
{
    struct ollama_answer *a = ctx;
    (void)c, (void)call, (void)out;
    return text_buf_append(&a->arguments, text, n);
}

/* A call comes whole: its arguments are an object. */
static enum status call_end(void *ctx, struct answer_choice *c, const struct answer_call *call,
                            struct text_buf *out)
{
    const struct ollama_answer *a = ctx;
    const struct json_span none = {0};
    struct json_writer w = {.out = out};
    (void)c;
    begin_object(&w, a->model);
    write_texts(&w, a->call, none, none);
    json_write_key(&w, "tool_calls");
    json_write_array(&w);
    write_call(&w, call, &a->arguments);
    json_write_end_array(&w);
    end_texts(&w, a->call);
    json_member_bool(&w, "done", false);
    return end_line(&w);
}

static enum status finish(void *ctx, struct answer_choice *c, struct text_buf *out)
{
    (void)ctx, (void)c, (void)out;
    return ST_OK;
}

static enum status end(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    const struct ollama_answer *a = ctx;
    const struct json_span none = {0};
    struct json_writer w = {.out = out};
    begin_object(&w, a->model);
    write_texts(&w, a->call, none, none);
    end_texts(&w, a->call);
    write_end(&w, whole);
    return end_line(&w);
}

/* ---- whole answers ---- */

static enum status body(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    const struct ollama_answer *a = ctx;
    const struct answer_choice *c = &whole->choices[0];
    struct json_writer w = {.out = out};
    begin_object(&w, a->model);
    write_texts(&w, a->call, (struct json_span){c->content.data, c->content.len},
                (struct json_span){c->reasoning.data, c->reasoning.len});
    if (c->n_calls) {
        json_write_key(&w, "tool_calls");
        json_write_array(&w);
        for (size_t i = 0; i < c->n_calls; i++)
            write_call(&w, c->calls[i], &c->calls[i]->arguments);
        json_write_end_array(&w);
    }
    end_texts(&w, a->call);
    write_end(&w, whole);
    json_write_end_object(&w);
    return w.status;
}

/* ---- errors ---- */

void ollama_write_error(struct json_writer *w, int status, const char *message, const char *param)
{
    (void)status, (void)param; /* the message names the field */
    json_write_object(w);
    json_member_string(w, "error", message);
    json_write_end_object(w);
}

static enum status error(void *ctx, const struct answer_error *e, struct text_buf *out)
{
    struct json_writer w = {.out = out};
    (void)ctx;
    json_write_object(&w);
    json_member_string(&w, "error", e->message);
    return end_line(&w);
}

static void refuse(void *ctx, struct http_reply *r, const struct answer_error *e)
{
    (void)ctx;
    answer_error_headers(r, e);
    http_reply_error(r, e->status, e->message);
}

const struct answer_form ollama_form = {
    .stream_type = "application/x-ndjson",
    .call_prefix = "call_",
    .begin = begin,
    .reasoning = reasoning,
    .content = content,
    .call_begin = call_begin,
    .call_arguments = call_arguments,
    .call_end = call_end,
    .finish = finish,
    .end = end,
    .error = error,
    .body = body,
    .refuse = refuse,
    .release = release,
};
