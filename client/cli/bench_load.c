/* The load of `ingot bench`: keeps requests in flight at the chosen rate or concurrency, and
 * records times to the first token, between tokens and to the end.  Called by bench.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/bench.h"
#include "client/cli/cli.h"
#include "common/clock.h"
#include "common/rng.h"

enum { LOOK_MS = 50, QUIET_MS = 300, SHOW_US = 100 * 1000, RETRY_US = 100 * 1000, BAR = 30 };

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_RETRY };

struct slot { /* one stream; a request keeps its slot to its end */
    enum slot_state state;
    char id[INGOT_ID_SIZE];
    uint64_t sent_us, last_us, retry_at_us;
    uint64_t request;
    uint32_t next_seq, n_tokens;
};

struct load {
    struct ingot_client *c;
    struct bench_http *http; /* not NULL: instead of c */
    uint32_t vocab;
    const struct bench_args *a;
    struct bench_result *r;
    struct slot *slots; /* [n_slots] */
    uint64_t n_slots, sent, done;
    int32_t *ids; /* [prompt_tokens] */
    uint64_t start_us, shown_us;
    bool show;
};

/* ---- measuring ---- */

static void series_add(struct series *s, double v)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 1024;
        double *more = realloc(s->v, cap * sizeof *more);
        if (!more)
            return; /* a percentile of fewer values */
        s->v = more;
        s->cap = cap;
    }
    s->v[s->n++] = v;
}

void bench_result_free(struct bench_result *r)
{
    free(r->ttft.v);
    free(r->inter.v);
    free(r->total.v);
}

static double ms_since(uint64_t then, uint64_t now)
{
    return (double)(now - then) / 1e3;
}

/* ---- sending ---- */

/* The prompt of request i: the shared beginning, then ids of its own; deterministic in --seed. */
static void fill_prompt(struct load *l, uint64_t i)
{
    uint64_t seed = (uint64_t)l->a->seed;
    for (int64_t k = 0; k < l->a->prompt_tokens; k++) {
        uint64_t of = k < l->a->shared_tokens ? 0 : i + 1;
        l->ids[k] = (int32_t)(rng_uniform(seed + of, (uint64_t)k) * l->vocab);
    }
}

static enum ingot_code send_request(struct load *l, struct slot *s)
{
    struct ingot_request r = ingot_request_default();
    fill_prompt(l, s->request);
    r.ids = l->ids;
    r.n_ids = (size_t)l->a->prompt_tokens;
    r.max_tokens = (uint32_t)l->a->max_tokens;
    r.temperature = (float)l->a->temperature;
    r.has_seed = true;
    r.seed = s->request;
    r.ignore_eos = true;
    s->state = SLOT_RUNNING;
    s->next_seq = s->n_tokens = 0;
    s->sent_us = s->last_us = clock_us();
    if (l->http)
        return bench_http_generate(l->http, (size_t)(s - l->slots), &r, s->id);
    return ingot_generate(l->c, &r, s->id);
}

/* may request number `sent` go out now? */
static bool is_due(const struct load *l, uint64_t now)
{
    if (l->a->rate <= 0.0)
        return true;
    return (double)(now - l->start_us) / 1e6 >= (double)l->sent / l->a->rate;
}

static enum ingot_code fill_slots(struct load *l)
{
    uint64_t now = clock_us();
    for (uint64_t i = 0; i < l->n_slots; i++) {
        struct slot *s = &l->slots[i];
        enum ingot_code code = INGOT_OK;
        if (s->state == SLOT_FREE && l->sent < (uint64_t)l->a->requests && is_due(l, now)) {
            s->request = l->sent++;
            code = send_request(l, s);
        } else if (s->state == SLOT_RETRY && now >= s->retry_at_us) {
            code = send_request(l, s);
        }
        if (code != INGOT_OK)
            return code;
    }
    return INGOT_OK;
}

/* ---- receiving ---- */

static enum ingot_code next_event(struct load *l, struct ingot_event *ev, uint32_t timeout_ms)
{
    return l->http ? bench_http_next(l->http, ev, timeout_ms) : ingot_next(l->c, ev, timeout_ms);
}

static struct slot *slot_of(struct load *l, const char *id)
{
    for (uint64_t i = 0; i < l->n_slots; i++)
        if (l->slots[i].state == SLOT_RUNNING && strcmp(l->slots[i].id, id) == 0)
            return &l->slots[i];
    return NULL;
}

static void on_delta(struct load *l, struct slot *s, const struct ingot_event *ev)
{
    uint64_t now = clock_us();
    if (ev->seq < s->next_seq)
        l->r->doubled++;
    if (ev->seq > s->next_seq)
        l->r->gaps += ev->seq - s->next_seq;
    s->next_seq = ev->seq + 1;
    if (ev->n_ids == 0)
        return;
    bool first = s->n_tokens == 0;
    if (first)
        series_add(&l->r->ttft, ms_since(s->sent_us, now));
    /* those of one delta share the time since the delta before; those beside the first came with it */
    for (uint32_t i = first; i < ev->n_ids; i++)
        series_add(&l->r->inter, first ? 0.0 : ms_since(s->last_us, now) / ev->n_ids);
    s->n_tokens += ev->n_ids;
    s->last_us = now;
}

static void on_finish(struct load *l, struct slot *s, const struct ingot_event *ev)
{
    struct bench_result *r = l->r;
    enum ingot_reason why = ev->n_samples ? ev->samples[0].reason : INGOT_REASON_FAILED;
    /* over HTTP pieces have no ids: only their sum can be compared */
    uint32_t want = l->http ? (uint32_t)l->a->max_tokens : s->n_tokens;
    if (ev->completion_tokens != want)
        r->gaps++;
    if (why == INGOT_REASON_LENGTH || why == INGOT_REASON_EOS || why == INGOT_REASON_STOP) {
        r->finished++;
    } else {
        r->failed++;
        snprintf(r->first_error, sizeof r->first_error, "a request ended with reason %s",
                 ingot_reason_name(why));
    }
    r->prompt_tokens += ev->prompt_tokens;
    r->cached_tokens += ev->cached_tokens;
    r->completion_tokens += ev->completion_tokens;
    r->preemptions += ev->preemptions;
    r->recoveries += ev->recoveries;
    series_add(&r->total, ms_since(s->sent_us, clock_us()));
    s->state = SLOT_FREE;
    l->done++;
}

static void on_error(struct load *l, struct slot *s, const struct ingot_event *ev)
{
    if (ev->rejected && ev->retryable) {
        l->r->retried++;
        s->state = SLOT_RETRY;
        s->retry_at_us = clock_us() + RETRY_US;
        return;
    }
    l->r->failed++;
    if (!*l->r->first_error)
        snprintf(l->r->first_error, sizeof l->r->first_error, "%s", ev->detail);
    s->state = SLOT_FREE;
    l->done++;
}

static void on_event(struct load *l, const struct ingot_event *ev)
{
    struct slot *s = slot_of(l, ev->request_id);
    if (!s) {
        l->r->doubled++; /* it has ended before */
        return;
    }
    switch (ev->kind) {
    case INGOT_EVENT_ACCEPTED:
        return;
    case INGOT_EVENT_DELTA:
        on_delta(l, s, ev);
        return;
    case INGOT_EVENT_FINISH:
        on_finish(l, s, ev);
        return;
    case INGOT_EVENT_ERROR:
        on_error(l, s, ev);
        return;
    case INGOT_EVENT_PONG: /* never asked for, like the others */
    case INGOT_EVENT_TOKENS:
    case INGOT_EVENT_TEXT:
    case INGOT_EVENT_STATS:
        return;
    }
}

/* ---- the load ---- */

static void show(struct load *l, bool last)
{
    uint64_t now = clock_us();
    if (!l->show || (!last && now - l->shown_us < SHOW_US))
        return;
    l->shown_us = now;
    int full = (int)(l->done * BAR / (uint64_t)l->a->requests);
    double s = (double)(now - l->start_us) / 1e6;
    fprintf(stderr, "\r%s[", cli_sgr(stderr, 36));
    for (int i = 0; i < BAR; i++)
        putc(i < full ? '#' : '.', stderr);
    fprintf(stderr, "]%s %" PRIu64 "/%" PRId64 "  %.0f tokens/s  %.0f s\x1b[K", cli_sgr(stderr, 0),
            l->done, l->a->requests, s > 0 ? (double)(l->r->ttft.n + l->r->inter.n) / s : 0.0, s);
    if (last)
        fputs("\r\x1b[K", stderr);
}

static enum ingot_code run(struct load *l)
{
    uint64_t progress_us = clock_us(), timeout_us = 1000U * (uint64_t)l->a->timeout_ms;
    while (l->done < (uint64_t)l->a->requests && !interrupts()) {
        struct ingot_event ev;
        enum ingot_code code = fill_slots(l);
        if (code == INGOT_OK)
            code = next_event(l, &ev, l->a->rate > 0.0 ? 1 : LOOK_MS);
        if (code == INGOT_OK) {
            if (ev.kind != INGOT_EVENT_ERROR) /* a refusal is none */
                progress_us = clock_us();
            on_event(l, &ev);
        } else if (code != INGOT_TIMEOUT && code != INGOT_CANCELLED) {
            return code;
        }
        if (clock_us() - progress_us > timeout_us)
            break; /* what is still open is lost */
        show(l, false);
    }
    return INGOT_OK;
}

/* whatever still comes now is one message too many */
static void listen_for_doubles(struct load *l)
{
    struct ingot_event ev;
    enum ingot_code code;
    do {
        code = next_event(l, &ev, QUIET_MS);
        l->r->doubled += code == INGOT_OK || code == INGOT_FORMAT;
    } while (code == INGOT_OK);
}

enum ingot_code bench_load(struct ingot_client *c, struct bench_http *http, uint32_t vocab,
                           const struct bench_args *a, struct bench_result *r)
{
    struct load l = {.c = c,
                     .http = http,
                     .vocab = vocab,
                     .a = a,
                     .r = r,
                     .show = cli_is_terminal(stderr) && !a->json};
    *r = (struct bench_result){.finished = 0};
    l.n_slots = (uint64_t)(a->concurrency < a->requests ? a->concurrency : a->requests);
    l.slots = calloc(l.n_slots, sizeof *l.slots);
    l.ids = calloc((size_t)a->prompt_tokens, sizeof *l.ids);
    enum ingot_code code = l.slots && l.ids ? INGOT_OK : INGOT_OUT_OF_MEMORY;
    l.start_us = clock_us();
    if (code == INGOT_OK)
        code = run(&l);
    r->seconds = (double)(clock_us() - l.start_us) / 1e6;
    show(&l, true);
    if (code == INGOT_OK) {
        if (interrupts()) /* given up on purpose: what is open or was never sent is not lost */
            r->stopped = true;
        else {
            r->lost = (uint64_t)a->requests - l.done;
            listen_for_doubles(&l);
        }
    }
    free(l.slots);
    free(l.ids);
    return code;
}
