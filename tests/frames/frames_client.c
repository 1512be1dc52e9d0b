/* A client of libingot that is served by a script (tests/cluster/test_mutated.py): sends one request of each kind, and
 * looks at every byte of every event until the error of request "end" comes.
 *
 *   frames_client ENDPOINT SESSIONS
 *
 * A line for each session: the events that came, the messages that were refused, and a hash of the events' texts and
 * ids.  Every other session connects again by itself (reconnect_ms). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/ingot.h"
#include "common/hash.h"

enum { OPEN_MS = 5000, PATIENCE_MS = 300000, WAIT_MS = 5000 };

struct session {
    struct ingot_client *c;
    uint64_t hash;
    unsigned n_events, n_refused;
};

static void look(struct session *s, const void *data, size_t n)
{
    if (data)
        s->hash = hash_bytes(s->hash, data, n);
}

static size_t sum(const uint32_t *n, size_t count)
{
    size_t all = 0;
    for (size_t i = 0; n && i < count; i++)
        all += n[i];
    return all;
}

static void look_at_scores(struct session *s, const struct ingot_prompt_logprobs *p)
{
    size_t n_top = sum(p->n_top, p->n);
    look(s, p->logprobs, p->n * sizeof *p->logprobs);
    look(s, p->ranks, p->n * sizeof *p->ranks);
    look(s, p->top, n_top * sizeof *p->top);
    look(s, p->token_text, sum(p->n_token_text, p->n));
    look(s, p->top_text, sum(p->n_top_text, n_top));
}

static void look_at_text(struct session *s, const struct ingot_event *ev)
{
    size_t n_top = sum(ev->n_top, ev->n_ids);
    look(s, ev->ids, ev->n_ids * sizeof *ev->ids);
    look(s, ev->text, ev->n_text);
    look(s, ev->logprobs, ev->logprobs ? ev->n_ids * sizeof *ev->logprobs : 0);
    look(s, ev->top, n_top * sizeof *ev->top);
    look(s, ev->token_text, sum(ev->n_token_text, ev->n_ids));
    look(s, ev->spelling, sum(ev->n_spelling, ev->n_ids));
    look(s, ev->top_text, sum(ev->n_top_text, n_top));
    look_at_scores(s, &ev->prompt);
}

static void look_at(struct session *s, const struct ingot_event *ev)
{
    look(s, ev->request_id, strlen(ev->request_id));
    switch (ev->kind) {
    case INGOT_EVENT_ACCEPTED:
        look(s, ev->prompt_digest, 32);
        look(s, ev->prompt_ids, ev->prompt_tokens * sizeof *ev->prompt_ids);
        look(s, ev->stop_ids, ev->n_stop_ids * sizeof *ev->stop_ids);
        look(s, ev->prompt_text, ev->n_prompt_text);
        if (ev->sampling)
            look(s, ev->sampling->bias, ev->sampling->n_bias * sizeof *ev->sampling->bias);
        break;
    case INGOT_EVENT_FINISH:
        for (uint32_t i = 0; i < ev->n_samples; i++)
            look(s, ev->samples[i].matched_stop, ev->samples[i].n_matched_stop);
        look(s, ev->embedding, ev->n_embedding * sizeof *ev->embedding);
        break;
    case INGOT_EVENT_ERROR:
        look(s, ev->detail, ev->detail ? strlen(ev->detail) : 0);
        look(s, ev->field, ev->field ? strlen(ev->field) : 0);
        break;
    case INGOT_EVENT_STATS: /* its numbers differ from run to run */
    case INGOT_EVENT_PONG:
        break;
    default:
        look_at_text(s, ev);
    }
}

static int ask(struct ingot_client *c)
{
    static const int32_t ids[] = {1, 2, 3};
    static const char *const stops[] = {"zzz", "yyy"};
    struct ingot_request r = ingot_request_default();
    r.request_id = "r";
    r.text = "Once upon a time";
    r.n_text = strlen(r.text);
    r.has_seed = true;
    r.seed = 7;
    r.n = 2;
    r.max_tokens = 12;
    r.stops = stops;
    r.n_stops = 2;
    r.logprobs = r.prompt_logprobs = true;
    r.top_logprobs = r.prompt_top = 2;
    r.want_prompt_ids = r.want_prompt_text = r.want_token_text = true;
    return ingot_send_tokenize(c, "k", "Once upon", 9, true, true) == INGOT_OK &&
           ingot_send_detokenize(c, "d", ids, 3, false) == INGOT_OK &&
           ingot_send_stats(c, "z") == INGOT_OK && ingot_probe(c) == INGOT_OK &&
           ingot_generate(c, &r, NULL) == INGOT_OK;
}

static void run(struct session *s)
{
    struct ingot_event ev;
    if (!ask(s->c))
        return; /* after a Welcome that allows no such message */
    for (;;) {
        enum ingot_code code = ingot_next(s->c, &ev, WAIT_MS);
        if (code == INGOT_OK) {
            s->n_events++;
            look_at(s, &ev);
            if (strcmp(ev.request_id, "end") == 0)
                return;
        } else if (code == INGOT_PEER || code == INGOT_TIMEOUT) {
            return;
        } else {
            s->n_refused++;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    for (long i = 0, n = atol(argv[2]); i < n; i++) {
        struct session s = {0};
        struct ingot_options o = {.endpoint = argv[1],
                                  .timeout_ms = OPEN_MS,
                                  .reconnect_ms = i % 2 ? PATIENCE_MS : 0,
                                  .tenant = "frames",
                                  .n_tenant = 6};
        if (ingot_open(&s.c, &o) == INGOT_OK)
            run(&s);
        ingot_close(s.c);
        printf("%u %u %016" PRIx64 "\n", s.n_events, s.n_refused, s.hash);
        fflush(stdout);
    }
    return 0;
}
