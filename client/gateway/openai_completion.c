#include "client/gateway/openai_completion.h"

#include <stdlib.h>

#include "client/gateway/openai_logprobs.h"

struct openai_head *openai_completion_create(const struct openai_request *q, const char *model)
{
    return openai_head_create(q, model, "text_completion", "cmpl");
}

static void write_text(struct json_writer *w, const char *text, size_t n)
{
    json_write_key(w, "text");
    json_write_bytes(w, text, n);
}

/* With echo a choice begins with its prompt, here or, with log probabilities, when these have come. */
static enum status begin(void *ctx, const struct answer_start *start, struct text_buf *out)
{
    const struct openai_head *h = ctx;
    const struct answer_usage so_far = {.prompt_tokens = start->prompt_tokens};
    bool echo = h->echo && !h->logprobs;
    for (size_t i = 0; i < start->n_choices && (echo || h->token_ids); i++) {
        const struct answer_prompt_info *p = &start->prompts[i / start->n_samples];
        struct answer_choice c = {.index = i, .so_far = &so_far};
        struct json_writer w = openai_chunk_begin(h, &c, out);
        write_text(&w, p->text.data, echo ? p->text.len : 0);
        if (h->token_ids)
            openai_write_prompt_ids(&w, p);
        TRY(openai_chunk_end(&w, h, &c, false));
    }
    return ST_OK;
}

static enum status scored(void *ctx, struct answer_choice *c, struct text_buf *out)
{
    const struct openai_head *h = ctx;
    struct json_writer w = openai_chunk_begin(h, c, out);
    write_text(&w, c->prompt->text.data, c->prompt->text.len);
    json_write_key(&w, "logprobs");
    openai_write_text_logprobs(&w, &c->prompt->tokens, NULL, h->top_logprobs);
    return openai_chunk_end_shown(&w, h, c);
}

static enum status content(void *ctx, struct answer_choice *c, const char *text, size_t n,
                           struct text_buf *out)
{
    struct json_writer w = openai_chunk_begin(ctx, c, out);
    write_text(&w, text, n);
    return openai_chunk_end(&w, ctx, c, false);
}

static enum status finish(void *ctx, struct answer_choice *c, struct text_buf *out)
{
    struct json_writer w = openai_chunk_begin(ctx, c, out);
    write_text(&w, "", 0);
    return openai_chunk_end(&w, ctx, c, true);
}

static enum status write_choice(struct json_writer *w, const struct openai_head *h,
                                const struct answer_choice *c)
{
    struct text_buf text = {0};
    enum status st = ST_OK;
    if (h->echo)
        st = text_buf_append(&text, c->prompt->text.data, c->prompt->text.len);
    if (st == ST_OK)
        st = text_buf_append(&text, c->content.data, c->content.len);
    openai_choice_begin(w, c);
    write_text(w, text.data, text.len);
    if (h->token_ids)
        openai_write_prompt_ids(w, c->prompt);
    openai_write_prompt_scores(w, h, c->prompt);
    openai_choice_end(w, h, c, true);
    text_buf_free(&text);
    return st;
}

static enum status body(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    const struct openai_head *h = ctx;
    struct json_writer w = {.out = out};
    openai_write_head(&w, h);
    for (size_t i = 0; i < whole->n_choices; i++)
        TRY(write_choice(&w, h, &whole->choices[i]));
    json_write_end_array(&w);
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
    .scored = scored,
    .content = content,
    .finish = finish,
    .end = openai_form_end,
    .error = openai_form_error,
    .body = body,
    .refuse = refuse,
    .release = free,
};
