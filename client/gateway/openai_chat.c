#include "client/gateway/openai_chat.h"

#include <stdlib.h>

struct openai_head *openai_chat_create(const struct openai_request *q, const char *model)
{
    return openai_head_create(q, model, q->of.stream ? "chat.completion.chunk" : "chat.completion",
                              "chatcmpl");
}

static void write_bytes(struct json_writer *w, const char *key, const char *text, size_t n)
{
    json_write_key(w, key);
    json_write_bytes(w, text, n);
}

/* ---- streams ---- */

static struct json_writer begin_delta(const struct openai_head *h, const struct answer_choice *c,
                                      struct text_buf *out)
{
    struct json_writer w = openai_chunk_begin(h, c, out);
    json_write_key(&w, "delta");
    json_write_object(&w);
    return w;
}

static enum status end_delta(struct json_writer *w, const struct openai_head *h,
                             struct answer_choice *c, bool finish)
{
    json_write_end_object(w);
    return openai_chunk_end(w, h, c, finish);
}

static enum status begin(void *ctx, const struct answer_start *start, struct text_buf *out)
{
    const struct openai_head *h = ctx;
    const struct answer_usage so_far = {.prompt_tokens = start->prompt_tokens};
    for (size_t i = 0; i < start->n_choices; i++) {
        struct answer_choice c = {.index = i, .so_far = &so_far};
        struct json_writer w = begin_delta(h, &c, out);
        json_member_string(&w, "role", "assistant");
        json_member_string(&w, "content", "");
        if (h->token_ids && i == 0) {
            json_write_end_object(&w);
            openai_write_prompt_ids(&w, start->prompts);
            TRY(openai_chunk_end(&w, h, &c, false));
        } else {
            TRY(end_delta(&w, h, &c, false));
        }
    }
    return ST_OK;
}

static enum status content(void *ctx, struct answer_choice *c, const char *text, size_t n,
                           struct text_buf *out)
{
    struct json_writer w = begin_delta(ctx, c, out);
    write_bytes(&w, "content", text, n);
    return end_delta(&w, ctx, c, false);
}

static void write_reasoning(struct json_writer *w, const char *text, size_t n)
{
    write_bytes(w, "reasoning_content", text, n); /* clients look for either name */
    write_bytes(w, "reasoning", text, n);
}

static enum status reasoning(void *ctx, struct answer_choice *c, const char *text, size_t n,
                             struct text_buf *out)
{
    const struct openai_head *h = ctx;
    if (h->hide_reasoning)
        return ST_OK;
    struct json_writer w = begin_delta(h, c, out);
    write_reasoning(&w, text, n);
    return end_delta(&w, ctx, c, false);
}

/* A chunk with one item of tool_calls, whose index is written. */
static struct json_writer begin_call_delta(const struct openai_head *h,
                                           const struct answer_choice *c,
                                           const struct answer_call *call, struct text_buf *out)
{
    struct json_writer w = begin_delta(h, c, out);
    json_write_key(&w, "tool_calls");
    json_write_array(&w);
    json_write_object(&w);
    json_member_u64(&w, "index", call->index);
    return w;
}

static enum status end_call_delta(struct json_writer *w, const struct openai_head *h,
                                  struct answer_choice *c)
{
    json_write_end_object(w);
    json_write_end_array(w);
    return end_delta(w, h, c, false);
}

static void write_function(struct json_writer *w, const struct answer_call *call,
                           const char *arguments, size_t n)
{
    json_member_string(w, "id", call->id);
    json_member_string(w, "type", "function");
    json_write_key(w, "function");
    json_write_object(w);
    write_bytes(w, "name", call->name.data, call->name.len);
    write_bytes(w, "arguments", arguments, n);
    json_write_end_object(w);
}

static enum status call_begin(void *ctx, struct answer_choice *c, const struct answer_call *call,
                              struct text_buf *out)
{
    struct json_writer w = begin_call_delta(ctx, c, call, out);
    write_function(&w, call, "", 0);
    return end_call_delta(&w, ctx, c);
}

static enum status call_arguments(void *ctx, struct answer_choice *c,
                                  const struct answer_call *call, const char *text, size_t n,
                                  struct text_buf *out)
{
    struct json_writer w = begin_call_delta(ctx, c, call, out);
    json_write_key(&w, "function");
    json_write_object(&w);
    write_bytes(&w, "arguments", text, n);
    json_write_end_object(&w);
    return end_call_delta(&w, ctx, c);
}

static enum status call_end(void *ctx, struct answer_choice *c, const struct answer_call *call,
                            struct text_buf *out)
{
    (void)ctx, (void)c, (void)call, (void)out;
    return ST_OK;
}

static enum status finish(void *ctx, struct answer_choice *c, struct text_buf *out)
{
    struct json_writer w = begin_delta(ctx, c, out);
    return end_delta(&w, ctx, c, true);
}

/* ---- whole answers ---- */

static void write_calls(struct json_writer *w, const struct answer_choice *c)
{
    json_write_key(w, "tool_calls");
    json_write_array(w);
    for (size_t i = 0; i < c->n_calls; i++) {
        json_write_object(w);
        write_function(w, c->calls[i], c->calls[i]->arguments.data, c->calls[i]->arguments.len);
        json_write_end_object(w);
    }
    json_write_end_array(w);
}

static void write_message(struct json_writer *w, const struct openai_head *h,
                          const struct answer_choice *c)
{
    json_write_key(w, "message");
    json_write_object(w);
    json_member_string(w, "role", "assistant");
    if (c->n_calls && !c->content.len)
        json_member_null(w, "content");
    else
        write_bytes(w, "content", c->content.data, c->content.len);
    json_member_null(w, "refusal");
    if (c->reasoning.len && !h->hide_reasoning)
        write_reasoning(w, c->reasoning.data, c->reasoning.len);
    if (c->n_calls)
        write_calls(w, c);
    json_write_end_object(w);
}

static enum status body(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    const struct openai_head *h = ctx;
    struct json_writer w = {.out = out};
    openai_write_head(&w, h);
    for (size_t i = 0; i < whole->n_choices; i++) {
        const struct answer_choice *c = &whole->choices[i];
        openai_choice_begin(&w, c);
        write_message(&w, h, c);
        openai_choice_end(&w, h, c, true);
    }
    json_write_end_array(&w);
    if (h->token_ids)
        openai_write_prompt_ids(&w, whole->choices[0].prompt);
    openai_write_prompt_scores(&w, h, whole->choices[0].prompt);
    openai_write_tail(&w, &whole->usage);
    return w.status;
}

static void refuse(void *ctx, struct http_reply *r, const struct answer_error *e)
{
    (void)ctx;
    openai_refuse(r, e, "messages");
}

const struct answer_form openai_chat_form = {
    .call_prefix = "call_",
    .begin = begin,
    .reasoning = reasoning,
    .content = content,
    .call_begin = call_begin,
    .call_arguments = call_arguments,
    .call_end = call_end,
    .finish = finish,
    .end = openai_form_end,
    .error = openai_form_error,
    .body = body,
    .refuse = refuse,
    .release = free,
};
