#include "client/gateway/openai_completion.h"

#include <stdlib.h>

struct openai_head *openai_completion_create(const struct openai_request *q, const char *model)
{
    return openai_head_create(q, model, "text_completion", "cmpl");
}

static void write_text(struct json_writer *w, const char *text, size_t n)
{
    json_write_key(w, "text");
    json_write_bytes(w, text, n);
}

static enum status begin(void *ctx, const struct answer_start *start, struct text_buf *out)
{
    (void)ctx, (void)start, (void)out;
    return ST_OK;
}

static enum status content(void *ctx, struct answer_choice *c, const char *text, size_t n,
                           struct text_buf *out)
{
    struct json_writer w = openai_chunk_begin(ctx, c, out);
    write_text(&w, text, n);
    return openai_chunk_end(&w, ctx, NULL);
}

static enum status finish(void *ctx, struct answer_choice *c, struct text_buf *out)
{
    struct json_writer w = openai_chunk_begin(ctx, c, out);
    write_text(&w, "", 0);
    return openai_chunk_end(&w, ctx, openai_finish_name(c));
}

static enum status body(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    struct json_writer w = {.out = out};
    openai_write_head(&w, ctx);
    for (size_t i = 0; i < whole->n_choices; i++) {
        const struct answer_choice *c = &whole->choices[i];
        openai_choice_begin(&w, c);
        write_text(&w, c->content.data, c->content.len);
        openai_choice_end(&w, openai_finish_name(c));
    }
    openai_write_tail(&w, &whole->usage);
    return w.status;
}

static void refuse(void *ctx, struct http_reply *r, const struct answer_error *e)
{
    (void)ctx;
    openai_refuse(r, e, "prompt");
}

/* Its text is content only: nothing of it is parsed. */
const struct answer_form openai_completion_form = {
    .begin = begin,
    .content = content,
    .finish = finish,
    .end = openai_form_end,
    .error = openai_form_error,
    .body = body,
    .refuse = refuse,
    .release = free,
};
