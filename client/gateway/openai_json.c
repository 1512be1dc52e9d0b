#include "client/gateway/openai_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/gateway/answer_error.h"
#include "client/gateway/http_error.h"
#include "client/gateway/openai_logprobs.h"
#include "common/hex.h"
#include "common/random.h"

enum { ID_BYTES = 12 };

struct openai_head *openai_head_create(const struct openai_request *q, const char *model,
                                       const char *object, const char *prefix)
{
    struct openai_head *h = calloc(1, sizeof *h);
    uint8_t bytes[ID_BYTES];
    char hex[2 * ID_BYTES + 1];
    if (!h)
        return NULL;
    random_bytes(bytes, sizeof bytes);
    hex_of(bytes, sizeof bytes, hex);
    snprintf(h->id, sizeof h->id, "%s-%s", prefix, hex);
    snprintf(h->model, sizeof h->model, "%s", model);
    h->object = object;
    h->created = (int64_t)time(NULL);
    h->form = q->form;
    h->include_usage = q->include_usage;
    h->continuous_usage = q->include_usage && q->continuous_usage;
    h->logprobs = q->logprobs;
    h->stream = q->of.stream;
    h->token_ids = q->token_ids;
    h->prompt_logprobs = q->prompt_logprobs;
    h->prompt_top = q->prompt_top;
    h->top_logprobs = q->of.ask.top_logprobs;
    h->echo = q->echo;
    h->hide_reasoning = q->hide_reasoning;
    h->n_stop_ids =
        q->of.ask.n_stop_ids < REQUEST_MAX_STOP_IDS ? q->of.ask.n_stop_ids : REQUEST_MAX_STOP_IDS;
    for (size_t i = 0; i < h->n_stop_ids; i++)
        h->stop_ids[i] = q->of.ask.stop_ids[i];
    return h;
}

void openai_write_head(struct json_writer *w, const struct openai_head *h)
{
    json_write_object(w);
    json_member_string(w, "id", h->id);
    json_member_string(w, "object", h->object);
    json_member_i64(w, "created", h->created);
    json_member_string(w, "model", h->model);
    json_member_null(w, "system_fingerprint");
    json_write_key(w, "choices");
    json_write_array(w);
}

static void write_usage(struct json_writer *w, const struct answer_usage *u)
{
    json_write_key(w, "usage");
    json_write_object(w);
    json_member_u64(w, "prompt_tokens", u->prompt_tokens);
    json_member_u64(w, "completion_tokens", u->completion_tokens);
    json_member_u64(w, "total_tokens", u->prompt_tokens + u->completion_tokens);
    json_write_key(w, "prompt_tokens_details");
    json_write_object(w);
    json_member_u64(w, "cached_tokens", u->cached_tokens);
    json_write_end_object(w);
    json_write_key(w, "completion_tokens_details");
    json_write_object(w);
    json_member_u64(w, "reasoning_tokens", u->reasoning_tokens);
    json_write_end_object(w);
    json_write_end_object(w);
}

void openai_write_prompt_ids(struct json_writer *w, const struct answer_prompt_info *p)
{
    json_write_key(w, "prompt_token_ids");
    json_write_array(w);
    for (uint64_t i = 0; p->ids && i < p->n_tokens; i++)
        json_write_i64(w, p->ids[i]);
    json_write_end_array(w);
}

void openai_write_prompt_scores(struct json_writer *w, const struct openai_head *h,
                                const struct answer_prompt_info *p)
{
    if (!h->prompt_logprobs)
        return;
    json_write_key(w, "prompt_logprobs");
    openai_write_prompt_logprobs(w, &p->tokens, h->prompt_top);
}

void openai_write_tail(struct json_writer *w, const struct answer_usage *usage)
{
    write_usage(w, usage);
    json_write_end_object(w);
}

/* ---- choices and chunks ---- */

static const char *finish_name(const struct answer_choice *c)
{
    static const char *const names[] = {
        [ANSWER_STOP] = "stop", [ANSWER_LENGTH] = "length", [ANSWER_CALLS] = "tool_calls"};
    return names[c->end.finish];
}

void openai_choice_begin(struct json_writer *w, const struct answer_choice *c)
{
    json_write_object(w);
    json_member_u64(w, "index", c->index);
}

/* The stop string or the stop token of the request that ended it; null: something else did. */
static void write_stop_reason(struct json_writer *w, const struct openai_head *h,
                              const struct answer_end *end)
{
    json_write_key(w, "stop_reason");
    if (end->stop.len) {
        json_write_bytes(w, end->stop.data, end->stop.len);
        return;
    }
    for (size_t i = 0; i < h->n_stop_ids; i++)
        if (h->stop_ids[i] == end->stop_id) {
            json_write_i64(w, end->stop_id);
            return;
        }
    json_write_null(w);
}

static void write_logprobs(struct json_writer *w, const struct openai_head *h,
                           const struct answer_choice *c)
{
    json_write_key(w, "logprobs");
    if (h->form == OPENAI_CHAT)
        openai_write_chat_logprobs(w, &c->tokens);
    else if (!h->echo)
        openai_write_text_logprobs(w, NULL, &c->tokens, h->top_logprobs);
    else if (h->stream) /* the prompt was shown */
        openai_write_text_logprobs_behind(w, &c->prompt->tokens, &c->tokens, h->top_logprobs);
    else
        openai_write_text_logprobs(w, &c->prompt->tokens, &c->tokens, h->top_logprobs);
}

void openai_choice_end(struct json_writer *w, const struct openai_head *h,
                       const struct answer_choice *c, bool finish)
{
    bool whole = finish && c->tokens.n_chars == 0;
    if (h->logprobs && (whole || c->tokens.first < c->tokens.ready))
        write_logprobs(w, h, c);
    else
        json_member_null(w, "logprobs");
    if (h->token_ids && (whole || c->tokens.first < c->tokens.ready)) {
        json_write_key(w, "token_ids");
        openai_write_token_ids(w, &c->tokens);
    }
    if (finish) {
        json_member_string(w, "finish_reason", finish_name(c));
        write_stop_reason(w, h, &c->end);
    } else {
        json_member_null(w, "finish_reason");
    }
    json_write_end_object(w);
}

struct json_writer openai_chunk_begin(const struct openai_head *h, const struct answer_choice *c,
                                      struct text_buf *out)
{
    struct json_writer w = answer_event_begin(out, NULL);
    openai_write_head(&w, h);
    openai_choice_begin(&w, c);
    return w;
}

static enum status end_chunk(struct json_writer *w, const struct openai_head *h,
                             const struct answer_choice *c)
{
    json_write_end_array(w);
    if (h->continuous_usage && c->so_far)
        write_usage(w, c->so_far);
    else if (h->include_usage)
        json_member_null(w, "usage");
    json_write_end_object(w);
    return answer_event_end(w);
}

enum status openai_chunk_end(struct json_writer *w, const struct openai_head *h,
                             struct answer_choice *c, bool finish)
{
    openai_choice_end(w, h, c, finish);
    answer_tokens_taken(&c->tokens);
    return end_chunk(w, h, c);
}

enum status openai_chunk_end_shown(struct json_writer *w, const struct openai_head *h,
                                   const struct answer_choice *c)
{
    json_member_null(w, "finish_reason");
    json_write_end_object(w);
    return end_chunk(w, h, c);
}

/* ---- the end ---- */

static enum status add_done(struct text_buf *out)
{
    static const char done[] = "data: [DONE]\n\n";
    return text_buf_append(out, done, sizeof done - 1);
}

enum status openai_form_end(void *ctx, const struct answer_whole *whole, struct text_buf *out)
{
    const struct openai_head *h = ctx;
    if (h->include_usage) {
        struct json_writer w = answer_event_begin(out, NULL);
        openai_write_head(&w, h);
        json_write_end_array(&w);
        openai_write_tail(&w, &whole->usage);
        TRY(answer_event_end(&w));
    }
    return add_done(out);
}

/* The protocol's name of a field -> the request's. */
static const char *param_of(const char *field, const char *prompt)
{
    static const char sampling[] = "sampling.", chat[] = "chat.", limits[] = "tenant_limits.";
    static const char *const prompts[] = {"chat", "text", "tokens", "tokens.id"};
    if (strncmp(field, sampling, sizeof sampling - 1) == 0)
        field += sizeof sampling - 1;
    for (size_t i = 0; i < ARRAY_LEN(prompts); i++)
        if (strcmp(field, prompts[i]) == 0)
            return prompt;
    if (strncmp(field, chat, sizeof chat - 1) == 0)
        return prompt;
    if (strncmp(field, "logit_bias.", sizeof "logit_bias." - 1) == 0)
        return "logit_bias";
    if (strcmp(field, "stop_token_id") == 0)
        return "stop_token_ids";
    if (strcmp(field, "sampling") == 0 || strcmp(field, "request_id") == 0 ||
        strncmp(field, limits, sizeof limits - 1) == 0)
        return ""; /* of no field of the body */
    return field;
}

enum status openai_form_error(void *ctx, const struct answer_error *e, struct text_buf *out)
{
    struct json_writer w = answer_event_begin(out, NULL);
    (void)ctx;
    http_error_write(&w, e->status, e->message, param_of(e->field, ""));
    TRY(answer_event_end(&w));
    return add_done(out);
}

void openai_refuse(struct http_reply *r, const struct answer_error *e, const char *prompt)
{
    answer_error_headers(r, e);
    http_reply_error_at(r, e->status, e->message, param_of(e->field, prompt));
}
