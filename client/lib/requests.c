/* Requests and their events. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/internal.h"
#include "common/clock.h"
#include "common/hash.h"

static_assert((int)INGOT_REASON_FAILED == (int)REASON_FAILED, "reasons are the protocol's");
static_assert(sizeof(struct ingot_bias) == sizeof(struct logit_bias), "same layout");
static_assert(sizeof(struct ingot_logprob) == sizeof(struct token_logprob), "same layout");

struct ingot_request ingot_request_default(void)
{
    return (struct ingot_request){.temperature = NAN,
                                  .top_p = NAN,
                                  .min_p = NAN,
                                  .top_k = INGOT_TOP_K_UNSET,
                                  .repetition_penalty = NAN,
                                  .n = 1,
                                  .add_generation_prompt = true,
                                  .add_special = true,
                                  .skip_special = true};
}

static void set_or_leave(float *to, float v, unsigned bit, unsigned *unset)
{
    if (isnan(v))
        return;
    *to = v;
    *unset &= ~bit;
}

static void fill_sampling(struct msg_sampling *s, const struct ingot_request *r)
{
    struct sample_params *sp = &s->sp;
    set_or_leave(&sp->temperature, r->temperature, UNSET_TEMPERATURE, &s->unset);
    set_or_leave(&sp->top_p, r->top_p, UNSET_TOP_P, &s->unset);
    set_or_leave(&sp->min_p, r->min_p, UNSET_MIN_P, &s->unset);
    set_or_leave(&sp->repetition_penalty, r->repetition_penalty, UNSET_REPETITION_PENALTY,
                 &s->unset);
    if (r->top_k != INGOT_TOP_K_UNSET) {
        sp->top_k = r->top_k;
        s->unset &= ~(unsigned)UNSET_TOP_K;
    }
    sp->presence_penalty = r->presence_penalty;
    sp->frequency_penalty = r->frequency_penalty;
    sp->min_new = r->min_tokens;
    sp->seed = r->seed;
    sp->top_logprobs = r->top_logprobs;
    sp->logprobs = r->logprobs;
    sp->prompt_logprobs = r->prompt_logprobs || r->prompt_top;
    sp->prompt_top = r->prompt_top;
}

static enum status fill_prompt(struct ingot_client *c, const struct ingot_request *r,
                               struct msg_generate *g)
{
    if ((r->text != NULL) + (r->ids != NULL) + (r->turns != NULL) != 1)
        FAIL(ST_RANGE, "a request needs exactly one of text, ids and turns");
    g->kind = r->text ? PROMPT_TEXT : r->ids ? PROMPT_TOKENS : PROMPT_CHAT;
    g->text = client_text(r->text, r->n_text);
    g->tokens = r->ids;
    g->n_tokens = (uint32_t)r->n_ids;
    return r->turns ? client_fill_chat(c, r, &g->chat) : ST_OK;
}

static enum status fill_lists(struct ingot_client *c, const struct ingot_request *r,
                              struct msg_generate *g)
{
    struct logit_bias *bias = wire_mem_alloc(&c->rx, r->n_bias * sizeof *bias);
    struct wire_text *stops = wire_mem_alloc(&c->rx, r->n_stops * sizeof *stops);
    if (!bias || !stops)
        FAIL(ST_NOMEM, "too many biases or stop strings");
    for (size_t i = 0; i < r->n_bias; i++)
        bias[i] = (struct logit_bias){r->bias[i].id, r->bias[i].bias};
    for (size_t i = 0; i < r->n_stops; i++)
        stops[i] = client_string(r->stops[i]);
    g->sampling.n_bias = (uint32_t)r->n_bias;
    g->sampling.bias = bias;
    g->n_stops = (uint32_t)r->n_stops;
    g->stops = stops;
    g->sampling.n_stop_ids = (uint32_t)r->n_stop_ids;
    g->sampling.stop_ids = r->stop_ids;
    return ST_OK;
}

/* one request, one seed, however often it is sent */
static uint64_t seed_of(const struct tenant *tenant, const char *id)
{
    return hash_bytes(hash_bytes(0, tenant->bytes, tenant->n), id, strlen(id));
}

static void fill_caller(const struct ingot_request *r, struct msg_generate *g)
{
    g->has_limits = r->limits != NULL;
    if (r->limits)
        g->limits = (struct tenant_limits){r->limits->max_samples, r->limits->tokens_per_minute};
    g->has_grace = r->has_grace;
    g->grace_ms = r->grace_ms;
    g->client_digest = client_text(r->client_digest, r->n_client_digest);
}

/* Without what belongs to answers. */
static void fill_embed(const struct ingot_request *r, struct msg_generate *g)
{
    const struct msg_generate plain = msg_generate_default();
    g->embed = true;
    g->prompt_name = client_string(r->prompt_name ? r->prompt_name : "");
    g->dimensions = r->dimensions;
    g->token_types = r->token_types;
    g->has_document = r->document != NULL;
    g->document = client_text(r->document, r->n_document);
    g->n_token_types = r->token_types ? (uint32_t)r->n_ids : 0;
    g->sampling = plain.sampling;
    g->max_tokens = 0;
    g->n_stops = 0;
    g->n = 1;
    g->grammar_kind = 0;
    g->want_token_text = g->keep_marks = g->has_thinking_budget = false;
}

/* The request as a message, in c->rx. */
static enum status fill_generate(struct ingot_client *c, const struct ingot_request *r,
                                 const char *id, struct client_msg *m)
{
    struct msg_generate *g = &m->u.generate;
    m->type = MSG_GENERATE;
    *g = msg_generate_default();
    g->request_id = id;
    g->model = r->model ? r->model : "";
    wire_mem_reset(&c->rx);
    if (r->tenant)
        TRY(tenant_of_bytes(&g->tenant, r->tenant, r->n_tenant));
    TRY(fill_prompt(c, r, g));
    TRY(fill_lists(c, r, g));
    fill_sampling(&g->sampling, r);
    g->sampling.has_seed = true;
    if (!r->has_seed)
        g->sampling.sp.seed = seed_of(g->tenant.n ? &g->tenant : &c->tenant, id);
    g->sampling.ignore_eos = r->ignore_eos;
    g->max_tokens = r->max_tokens;
    g->include_stop = r->include_stop;
    g->n = r->n;
    g->deadline_ms = r->deadline_ms;
    g->priority = r->priority;
    g->skip_special = r->skip_special;
    g->want_prompt_ids = r->want_prompt_ids;
    g->want_prompt_text = r->want_prompt_text;
    g->want_token_text = r->want_token_text;
    g->keep_marks = r->keep_marks;
    g->has_thinking_budget = r->has_thinking_budget;
    g->thinking_budget = r->thinking_budget;
    g->grammar_kind = (uint32_t)r->grammar_kind;
    g->grammar = client_text(r->grammar, r->n_grammar);
    g->add_special = r->add_special && r->text; /* a chat template brings its own */
    fill_caller(r, g);
    if (r->embed)
        fill_embed(r, g);
    return ST_OK;
}

static void count_running(struct ingot_client *c)
{
    if (c->n_running++ == 0)
        c->heard_us = clock_us();
}

static enum status generate(struct ingot_client *c, const struct ingot_request *r, const char *id)
{
    struct client_msg m;
    TRY(fill_generate(c, r, id, &m));
    if (!c->reconnect_ms) {
        TRY(client_send(c, &m));
        count_running(c);
        return ST_OK;
    }
    struct wire_bytes bytes;
    struct running *running;
    wire_mem_reset(&c->tx);
    TRY(client_msg_encode_request(&bytes, &m, &c->tx));
    TRY(running_create(c, &running, &m.u.generate, bytes));
    enum status st = client_send_bytes(c, bytes);
    if (st != ST_OK && st != ST_PEER) { /* PEER: it is sent over the next connection */
        running_free(running);
        return st;
    }
    running_enter(c, &running);
    count_running(c);
    return ST_OK;
}

static void choose_id(struct ingot_client *c, const struct ingot_request *r, char id[INGOT_ID_SIZE])
{
    if (r->request_id)
        snprintf(id, INGOT_ID_SIZE, "%s", r->request_id);
    else
        client_make_id(c, id);
}

enum ingot_code ingot_generate(struct ingot_client *c, const struct ingot_request *r,
                               char id[INGOT_ID_SIZE])
{
    char own[INGOT_ID_SIZE];
    if (!id)
        id = own;
    choose_id(c, r, id);
    return (enum ingot_code)generate(c, r, id);
}

struct ingot_packed {
    char id[INGOT_ID_SIZE];
    struct tenant tenant; /* n 0: the client's */
    size_t n;
    uint8_t data[];
};

static enum status pack(struct ingot_client *c, const struct ingot_request *r,
                        struct ingot_packed **out)
{
    char id[INGOT_ID_SIZE];
    struct client_msg m;
    struct wire_bytes bytes;
    choose_id(c, r, id);
    TRY(fill_generate(c, r, id, &m));
    wire_mem_reset(&c->tx);
    TRY(client_msg_encode_request(&bytes, &m, &c->tx));
    struct ingot_packed *p = malloc(sizeof *p + bytes.n);
    if (!p)
        FAIL(ST_NOMEM, "no memory for a request of %zu bytes", bytes.n);
    memcpy(p->id, id, sizeof p->id);
    p->tenant = m.u.generate.tenant;
    p->n = bytes.n;
    memcpy(p->data, bytes.data, bytes.n);
    *out = p;
    return ST_OK;
}

enum ingot_code ingot_pack(struct ingot_client *c, const struct ingot_request *r,
                           struct ingot_packed **out)
{
    *out = NULL;
    return (enum ingot_code)pack(c, r, out);
}

const char *ingot_packed_id(const struct ingot_packed *p)
{
    return p->id;
}

enum ingot_code ingot_send_packed(struct ingot_client *c, const struct ingot_packed *p)
{
    enum status st = client_send_bytes(c, (struct wire_bytes){p->data, p->n});
    if (st == ST_OK)
        count_running(c);
    return (enum ingot_code)st;
}

enum ingot_code ingot_cancel_packed(struct ingot_client *c, const struct ingot_packed *p)
{
    struct client_msg m = {.type = MSG_CANCEL,
                           .u.cancel = {.request_id = p->id, .tenant = p->tenant}};
    return (enum ingot_code)client_send(c, &m);
}

void ingot_packed_free(struct ingot_packed *p)
{
    free(p);
}

enum ingot_code ingot_cancel(struct ingot_client *c, const char *request_id)
{
    struct client_msg m = {.type = MSG_CANCEL, .u.cancel = {.request_id = request_id}};
    running_cancel(c, request_id);
    enum status st = client_send(c, &m);
    return (enum ingot_code)(st == ST_PEER && c->reconnect_ms ? ST_OK : st);
}

enum ingot_code ingot_probe(struct ingot_client *c)
{
    struct client_msg m = {.type = MSG_PING};
    client_make_id(c, c->probe);
    m.u.simple = (struct msg_simple){c->probe, 0};
    enum status st = client_send(c, &m);
    if (st != ST_OK || c->server.model.max_ctx)
        return (enum ingot_code)st;
    m.type =
        MSG_MODELS; /* a worker group may have come since Welcome, and with it the model's sizes */
    return (enum ingot_code)client_send(c, &m);
}

/* ---- events ---- */

static void event_resolved(struct ingot_client *c, struct ingot_event *ev,
                           const struct msg_accepted *a)
{
    const struct sample_params *sp = &a->sampling.sp;
    ev->prompt_digest = a->prompt_digest;
    ev->prompt_ids = a->n_prompt_ids ? a->prompt_ids : NULL;
    ev->has_clock = a->has_clock;
    ev->clock_s = a->clock_s;
    ev->zone_s = a->zone_s;
    ev->max_tokens = a->max_tokens;
    ev->n_stop_ids = a->n_stop_ids;
    ev->stop_ids = a->stop_ids;
    ev->starts_in_reasoning = a->starts_in_reasoning;
    ev->prompt_text = a->prompt_text.data;
    ev->n_prompt_text = a->prompt_text.n;
    ev->sampling = &c->sampling;
    c->sampling = (struct ingot_sampling){.temperature = sp->temperature,
                                          .top_p = sp->top_p,
                                          .min_p = sp->min_p,
                                          .top_k = sp->top_k,
                                          .repetition_penalty = sp->repetition_penalty,
                                          .presence_penalty = sp->presence_penalty,
                                          .frequency_penalty = sp->frequency_penalty,
                                          .seed = sp->seed,
                                          .min_tokens = sp->min_new,
                                          .top_logprobs = sp->top_logprobs,
                                          .ignore_eos = a->sampling.ignore_eos,
                                          .logprobs = sp->logprobs,
                                          .prompt_logprobs = sp->prompt_logprobs,
                                          .prompt_top = sp->prompt_top,
                                          .bias = (const struct ingot_bias *)a->sampling.bias,
                                          .n_bias = a->sampling.n_bias};
}

static void event_finish(struct ingot_client *c, struct ingot_event *ev, const struct msg_finish *f)
{
    ev->n_samples = f->n_samples < MAX_ENDS ? f->n_samples : MAX_ENDS;
    for (uint32_t i = 0; i < ev->n_samples; i++)
        c->ends[i] = (struct ingot_sample_end){f->samples[i].sample,
                                               (enum ingot_reason)f->samples[i].reason,
                                               f->samples[i].matched_stop.data,
                                               f->samples[i].matched_stop.n,
                                               f->samples[i].stop_id,
                                               f->samples[i].completion_tokens};
    ev->samples = c->ends;
    ev->prompt_tokens = f->prompt_tokens;
    ev->cached_tokens = f->cached_tokens;
    ev->completion_tokens = f->completion_tokens;
    ev->preemptions = f->preemptions;
    ev->recoveries = f->recoveries;
    ev->queue_us = f->queue_us;
    ev->first_token_us = f->first_token_us;
    ev->total_us = f->total_us;
    ev->embedding = f->embedding;
    ev->n_embedding = f->n_embedding;
}

static void event_delta(struct ingot_event *ev, const struct msg_delta *d)
{
    ev->sample = d->sample;
    ev->seq = d->seq;
    ev->n_ids = d->n;
    ev->ids = d->ids;
    ev->text = d->text.data;
    ev->n_text = d->text.n;
    ev->logprobs = d->logprobs;
    ev->n_top = d->n_top;
    ev->top = (const struct ingot_logprob *)d->top;
    ev->n_token_text = d->n_token_text;
    ev->token_text = d->token_text;
    ev->n_top_text = d->n_top_text;
    ev->top_text = d->top_text;
    ev->prompt = (struct ingot_prompt_logprobs){
        .n = d->prompt.n,
        .logprobs = d->prompt.logprobs,
        .ranks = d->prompt.ranks,
        .n_top = d->prompt.n_top,
        .top = (const struct ingot_logprob *)d->prompt.top,
        .n_token_text = d->prompt.n_token_text,
        .token_text = d->prompt.token_text,
        .n_top_text = d->prompt.n_top_text,
        .top_text = d->prompt.top_text,
    };
}

static void fill_event(struct ingot_client *c, struct ingot_event *ev, const struct client_msg *m)
{
    *ev = (struct ingot_event){.request_id = m->u.simple.request_id};
    if (m->type == MSG_PONG) {
        ev->kind = INGOT_EVENT_PONG;
        ev->epoch = m->u.pong.epoch;
        ev->ready = m->u.pong.ready;
        ev->draining = m->u.pong.draining;
        return;
    }
    bool query = (m->type == MSG_TOKENS || m->type == MSG_TEXT || m->type == MSG_STATS_REPLY ||
                  (m->type == MSG_ERROR && m->u.error.request != MSG_GENERATE)) &&
                 client_end_query(c, ev->request_id);
    if (!query && m->type != MSG_ACCEPTED && m->type != MSG_DELTA && c->n_running)
        c->n_running--;
    switch (m->type) {
    case MSG_ACCEPTED:
        ev->kind = INGOT_EVENT_ACCEPTED;
        ev->prompt_tokens = m->u.accepted.prompt_tokens;
        ev->queue_position = m->u.accepted.queue_position;
        ev->seed = m->u.accepted.seed;
        ev->attached = m->u.accepted.attached;
        if (m->u.accepted.prompt_digest)
            event_resolved(c, ev, &m->u.accepted);
        return;
    case MSG_DELTA:
        ev->kind = INGOT_EVENT_DELTA;
        event_delta(ev, &m->u.delta);
        return;
    case MSG_TOKENS:
        ev->kind = INGOT_EVENT_TOKENS;
        ev->ids = m->u.tokens.tokens;
        ev->n_ids = m->u.tokens.n_tokens;
        ev->n_token_text = m->u.tokens.n_token_text;
        ev->token_text = m->u.tokens.token_text;
        ev->n_spelling = m->u.tokens.n_spelling;
        ev->spelling = m->u.tokens.spelling;
        return;
    case MSG_STATS_REPLY:
        ev->kind = INGOT_EVENT_STATS;
        ev->stats = &c->stats;
        client_fill_stats(&c->stats, &m->u.stats);
        return;
    case MSG_TEXT:
        ev->kind = INGOT_EVENT_TEXT;
        ev->text = m->u.text.text.data;
        ev->n_text = m->u.text.text.n;
        return;
    case MSG_FINISH:
        ev->kind = INGOT_EVENT_FINISH;
        event_finish(c, ev, &m->u.finish);
        return;
    default:
        ev->kind = INGOT_EVENT_ERROR;
        ev->code = (enum ingot_code)m->u.error.code;
        ev->detail = m->u.error.detail;
        ev->field = m->u.error.field;
        ev->retryable = m->u.error.retryable;
        ev->retry_after_ms = m->u.error.retry_after_ms;
        ev->rejected = m->type == MSG_REJECTED;
        ev->draining = m->u.error.draining;
        return;
    }
}

/* A message, until deadline_us; over a new connection when the one before is lost. */
static enum status next_message(struct ingot_client *c, struct client_msg *m, uint64_t deadline_us)
{
    for (;;) {
        uint64_t retry_us = UINT64_MAX, ask_us = UINT64_MAX, until_us = deadline_us;
        enum status st = ST_OK;
        if (c->reconnect_ms && !c->open)
            st = client_reconnect(c, deadline_us);
        if (st == ST_OK)
            st = running_retry(c, &retry_us);
        if (st == ST_OK)
            st = servers_ask(c, &ask_us);
        until_us = retry_us < until_us ? retry_us : until_us;
        until_us = ask_us < until_us ? ask_us : until_us;
        if (st == ST_OK)
            st = client_receive(c, m, c->n_running > 0, until_us);
        if (st == ST_PEER && c->reconnect_ms && c->open) {
            client_lose(c);
            if (c->lost)
                return st; /* the program is told of them first */
        } else if (st != ST_TIMEOUT || clock_us() >= deadline_us)
            return st;
    }
}

static enum status next_event(struct ingot_client *c, struct ingot_event *ev, uint32_t timeout_ms)
{
    struct client_msg m;
    bool swallow;
    uint64_t deadline = clock_us() + 1000U * (uint64_t)timeout_ms;
    do {
        if (!c->kept && client_take_lost(c, ev))
            return ST_OK;
        swallow = true;
        enum status st = c->kept ? client_take_kept(c, &m) : next_message(c, &m, deadline);
        if (st == ST_PEER && c->lost)
            continue;
        TRY(st);
        if (m.type == MSG_MODEL_LIST && m.u.model_list.n_models)
            client_take_model(c, &m.u.model_list.models[0]);
        servers_take(c, &m);
        st = running_take(c, &m, &swallow);
        if (st == ST_NOMEM)
            client_lose_message(c);
        TRY(st);
    } while (swallow || !client_is_event(c, &m));
    fill_event(c, ev, &m);
    return ST_OK;
}

enum ingot_code ingot_next(struct ingot_client *c, struct ingot_event *ev, uint32_t timeout_ms)
{
    return (enum ingot_code)next_event(c, ev, timeout_ms);
}
