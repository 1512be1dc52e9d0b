#include "client/gateway/embed_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/gateway/answer_error.h"
#include "common/clock.h"

struct embed_call {
    struct upstream_call call; /* first */
    struct embed_answer *answer;
};

struct embed_answer {
    struct upstream *upstream;
    struct http_reply *reply;
    struct embed_request q;
    embed_writer *write;
    struct embed_result res;
    struct embed_call *call; /* [res.n] */
    size_t sent, done;
    struct answer_share share;
};

static void release(struct embed_answer *a)
{
    for (size_t i = 0; a->call && i < a->sent; i++)
        upstream_cancel(a->upstream, &a->call[i].call);
    for (size_t i = 0; a->res.vector && i < a->res.n; i++)
        free(a->res.vector[i].v);
    free(a->res.vector);
    free(a->call);
    answer_share_fini(&a->share);
    answer_request_free(&a->q.of);
    free(a);
}

static void on_gone(void *ctx)
{
    struct embed_answer *a = ctx;
    for (size_t i = 0; i < a->sent; i++)
        upstream_abandon(a->upstream, &a->call[i].call);
    http_reply_end(a->reply);
    release(a);
}

/* The name of the coordinator's field in the API. */
static const char *field_of(const struct embed_answer *a, const char *field)
{
    static const char embed[] = "embed.";
    if (strncmp(field, embed, sizeof embed - 1) == 0)
        return field + sizeof embed - 1;
    if (strcmp(field, "text") == 0 || strcmp(field, "tokens.id") == 0)
        return a->q.api == EMBED_OLLAMA_ONE ? "prompt"
               : a->q.api == EMBED_RERANK   ? "documents"
               : a->q.api == EMBED_SCORE    ? "text_2"
                                            : "input";
    return strcmp(field, "embed") == 0 ? "model" : field;
}

static void fail(struct embed_answer *a, const struct answer_error *e)
{
    answer_error_headers(a->reply, e);
    http_reply_error_at(a->reply, e->status, e->message, field_of(a, e->field));
    release(a);
}

static void fail_for_room(struct embed_answer *a, enum answer_room room)
{
    const struct answer_error e = answer_room_error(a->share.of, room);
    fail(a, &e);
}

static void finish(struct embed_answer *a)
{
    struct text_buf body = {.max = answer_share_left(&a->share)};
    struct json_writer w = {.out = &body};
    a->write(&w, &a->res);
    enum answer_room room = w.status == ST_RANGE
                                ? ANSWER_TOO_LARGE
                                : answer_share_set(&a->share, a->share.held + body.cap);
    if (room != ANSWER_FITS) {
        text_buf_free(&body);
        fail_for_room(a, room);
        return;
    }
    http_reply_json(a->reply, &w);
    release(a);
}

static void on_event(struct upstream_call *call, const struct ingot_event *ev);

static enum ingot_code send_next(struct embed_answer *a)
{
    size_t i = a->sent++;
    const struct answer_prompt *p = &a->q.of.prompts[i];
    struct ingot_request *ask = &a->q.of.ask;
    ask->text = p->text;
    ask->n_text = p->n_text;
    ask->ids = p->ids;
    ask->n_ids = p->n_ids;
    if (a->q.api & EMBED_PAIRS) {
        const struct answer_prompt *query = &a->q.queries[a->q.n_queries > 1 ? i : 0];
        ask->text = query->text;
        ask->n_text = query->n_text;
        ask->document = p->text;
        ask->n_document = p->n_text;
    }
    const char *name = ask->prompt_name;
    if (p->ids)
        ask->prompt_name = NULL; /* the ids are the whole text */
    a->call[i] = (struct embed_call){
        .call = {.event = on_event, .log = http_reply_user(a->reply), .part = i}, .answer = a};
    enum ingot_code code = upstream_generate(a->upstream, &a->call[i].call, ask);
    ask->prompt_name = name;
    return code;
}

/* Keeps as many texts running as may be; false: it has failed. */
static bool go_on(struct embed_answer *a)
{
    while (a->sent < a->res.n && a->sent - a->done < EMBED_AT_ONCE) {
        enum ingot_code code = send_next(a);
        if (code == INGOT_OK)
            continue;
        const struct ingot_event ev = {.code = code, .detail = ingot_last_error(), .field = ""};
        const struct answer_error e = answer_error_of(&ev, upstream_is_ready(a->upstream));
        fail(a, &e);
        return false;
    }
    return true;
}

/* The failure that the event is; status 0: none. */
static struct answer_error failure_of(const struct embed_answer *a, const struct ingot_event *ev)
{
    struct answer_error e = {.field = ""};
    if (ev->kind == INGOT_EVENT_ERROR)
        return answer_error_of(ev, upstream_is_ready(a->upstream));
    if (ev->kind == INGOT_EVENT_FINISH && ev->n_samples)
        e = answer_error_of_reason(ev->samples[0].reason);
    bool score = a->q.api & EMBED_PAIRS;
    if (ev->kind != INGOT_EVENT_FINISH || e.status)
        return e;
    if (score && (!ev->embedding || ev->n_embedding != 1))
        e = (struct answer_error){500, "no score came", "", 0};
    else if (!ev->embedding || ev->n_embedding == 0)
        e = (struct answer_error){500, "no embedding came", "", 0};
    return e;
}

static void on_event(struct upstream_call *call, const struct ingot_event *ev)
{
    struct embed_call *c = (struct embed_call *)call;
    struct embed_answer *a = c->answer;
    struct embed_vector *v = &a->res.vector[c - a->call];
    struct answer_error e = failure_of(a, ev);
    if (!e.status && ev->kind != INGOT_EVENT_FINISH)
        return;
    if (!e.status && !(v->v = malloc(ev->n_embedding * sizeof *v->v)))
        e = (struct answer_error){503, "no memory for an embedding", "", 0};
    if (e.status) {
        fail(a, &e);
        return;
    }
    v->n = ev->n_embedding;
    memcpy(v->v, ev->embedding, ev->n_embedding * sizeof *v->v);
    a->res.prompt_tokens += ev->prompt_tokens;
    a->done++;
    enum answer_room room = answer_share_set(&a->share, a->share.held + v->n * sizeof *v->v);
    if (room != ANSWER_FITS) {
        fail_for_room(a, room);
        return;
    }
    if (a->done == a->res.n)
        finish(a);
    else
        (void)go_on(a);
}

void embed_answer_start(struct upstream *u, struct answer_memory *memory, struct http_reply *r,
                        struct embed_request *q, const char *model, embed_writer *write)
{
    size_t n = q->of.n_prompts;
    struct embed_answer *a = calloc(1, sizeof *a);
    if (!a) {
        http_reply_error(r, 503, "no memory for an answer");
        return;
    }
    *a = (struct embed_answer){.upstream = u,
                               .reply = r,
                               .write = write,
                               .res = {.api = q->api,
                                       .base64 = q->base64,
                                       .n = n,
                                       .top_n = q->top_n,
                                       .documents = q->return_documents ? q->of.prompts : NULL,
                                       .began_us = clock_us()},
                               .call = calloc(n + 1, sizeof *a->call)};
    answer_share_init(&a->share, memory);
    snprintf(a->res.model, sizeof a->res.model, "%s", model); /* it may be within q */
    a->q = *q;
    *q = (struct embed_request){.api = q->api};
    a->res.vector = calloc(n + 1, sizeof *a->res.vector);
    if (!a->call || !a->res.vector) {
        fail(a, &(struct answer_error){503, "no memory for an answer", "", 0});
        return;
    }
    if (n == 0) {
        finish(a);
        return;
    }
    if (go_on(a))
        http_reply_watch(r, &(struct http_watch){a, on_gone, NULL});
}
