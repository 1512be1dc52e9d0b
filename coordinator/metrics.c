#include "coordinator/metrics.h"

#include "coordinator/request.h"

#define MS 1000U
#define S (1000U * 1000U)

/* The bounds of the times are vLLM's, so that boards made for it show the same shapes. */
static const uint64_t first_token_us[] = {
    1 * MS,   5 * MS,   10 * MS,  20 * MS, 40 * MS,   60 * MS,    80 * MS,   100 * MS,
    250 * MS, 500 * MS, 750 * MS, 1 * S,   2500 * MS, 5 * S,      7500 * MS, 10 * S,
    20 * S,   40 * S,   80 * S,   160 * S, 640UL * S, 2560UL * S,
};
static const uint64_t between_tokens_us[] = {
    10 * MS,   25 * MS,  50 * MS,  75 * MS,  100 * MS, 150 * MS,  200 * MS,
    300 * MS,  400 * MS, 500 * MS, 750 * MS, 1 * S,    2500 * MS, 5 * S,
    7500 * MS, 10 * S,   20 * S,   40 * S,   80 * S,
};
static const uint64_t request_us[] = {
    300 * MS, 500 * MS, 800 * MS, 1 * S,   1500 * MS, 2 * S,      2500 * MS,
    5 * S,    10 * S,   15 * S,   20 * S,  30 * S,    40 * S,     50 * S,
    60 * S,   120 * S,  240 * S,  480 * S, 960 * S,   1920UL * S, 7680UL * S,
};
static const uint64_t tokens[] = {
    1,    2,     5,     10,    20,     50,     100,    200,     500,     1000,    2000,
    5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000,
};
static const uint64_t step_tokens[] = {1,   8,    16,   32,   64,   128,  256,
                                       512, 1024, 2048, 4096, 8192, 16384};
static const uint64_t samples[] = {1, 2, 5, 10, 20};
static const uint64_t preemptions[] = {1, 2, 3, 4, 5, 10, 20};

static const uint64_t compile_us[] = {
    100,     200,      500,      1 * MS,   2 * MS, 5 * MS, 10 * MS, 20 * MS,
    50 * MS, 100 * MS, 200 * MS, 500 * MS, 1 * S,  2 * S,  5 * S,
};

static const struct {
    const uint64_t *bound;
    size_t n;
} bounds[N_STATS_HISTOGRAMS] = {
#define OF(array)                                                                                  \
    {                                                                                              \
        (array), ARRAY_LEN(array)                                                                  \
    }
    [STATS_FIRST_TOKEN_US] = OF(first_token_us),
    [STATS_BETWEEN_TOKENS_US] = OF(between_tokens_us),
    [STATS_PER_TOKEN_US] = OF(between_tokens_us),
    [STATS_TOTAL_US] = OF(request_us),
    [STATS_QUEUE_US] = OF(request_us),
    [STATS_PREFILL_US] = OF(request_us),
    [STATS_DECODE_US] = OF(request_us),
    [STATS_INFERENCE_US] = OF(request_us),
    [STATS_PROMPT_TOKENS] = OF(tokens),
    [STATS_COMPUTED_PROMPT_TOKENS] = OF(tokens),
    [STATS_COMPLETION_TOKENS] = OF(tokens),
    [STATS_LONGEST_SAMPLE_TOKENS] = OF(tokens),
    [STATS_MAX_TOKENS] = OF(tokens),
    [STATS_SAMPLES] = OF(samples),
    [STATS_PREEMPTIONS] = OF(preemptions),
    [STATS_STEP_TOKENS] = OF(step_tokens),
    [STATS_GRAMMAR_COMPILE_US] = OF(compile_us),
#undef OF
};

void metrics_init(struct metrics *m)
{
    *m = (struct metrics){.prefix_queries = 0};
    for (size_t i = 0; i < N_STATS_HISTOGRAMS; i++)
        histogram_init(&m->histogram[i], bounds[i].bound, bounds[i].n);
}

void metrics_set_max_ctx(struct metrics *m, uint32_t max_ctx)
{
    size_t n = 1;
    while (n < ARRAY_LEN(tokens) && tokens[n] <= max_ctx)
        n++;
    for (size_t i = 0; i < N_STATS_HISTOGRAMS; i++)
        if (bounds[i].bound == tokens)
            histogram_init(&m->histogram[i], tokens, n);
}

void metrics_grammar(struct metrics *m, enum status verdict, const struct grammar_verdict *v)
{
    if (verdict == ST_CANCELED) {
        m->grammars_dropped++;
        return;
    }
    m->grammars_known += v->known;
    m->grammars_compiled += !v->known;
    m->grammars_refused += verdict != ST_OK;
    if (!v->known)
        histogram_add(&m->histogram[STATS_GRAMMAR_COMPILE_US], v->compile_us);
}

void metrics_result(struct metrics *m, const struct step_result *r)
{
    m->masks += r->masks;
    m->masks_cached += r->masks_cached;
    m->mask_us += r->mask_us;
    m->mask_wait_us += r->mask_wait_us;
}

void metrics_step(struct metrics *m, uint32_t n_tokens)
{
    histogram_add(&m->histogram[STATS_STEP_TOKENS], n_tokens);
}

void metrics_admitted(struct metrics *m, const struct request *r, uint32_t n_cached)
{
    m->prefix_queries += r->ask->n_prompt;
    m->prefix_hits += n_cached;
}

void metrics_token(struct metrics *m, const struct request *r, struct sample *s, uint64_t now_us)
{
    if (r->first_token_us == 0 && !r->resumed)
        histogram_add(&m->histogram[STATS_FIRST_TOKEN_US], now_us - r->arrived_us);
    if (s->first_us == 0)
        s->first_us = now_us;
    else
        histogram_add(&m->histogram[STATS_BETWEEN_TOKENS_US], now_us - s->last_us);
    s->last_us = now_us;
}

/* Returns when the request's last token came; 0: it has none. */
static uint64_t count_samples(struct metrics *m, const struct request *r)
{
    uint64_t last_us = 0;
    uint32_t longest = 0;
    for (uint32_t i = 0; i < r->n_samples; i++) {
        const struct sample *s = &r->samples[i];
        uint32_t n = s->n - r->ask->n_prompt;
        histogram_add(&m->histogram[STATS_COMPLETION_TOKENS], n);
        if (n > 1)
            histogram_add(&m->histogram[STATS_PER_TOKEN_US], (s->last_us - s->first_us) / (n - 1));
        longest = n > longest ? n : longest;
        last_us = s->last_us > last_us ? s->last_us : last_us;
    }
    histogram_add(&m->histogram[STATS_LONGEST_SAMPLE_TOKENS], longest);
    return last_us;
}

static void count_finished(struct metrics *m, const struct request *r)
{
    struct histogram *h = m->histogram;
    uint64_t last_us = count_samples(m, r);
    uint64_t planned_us = r->planned_us ? r->planned_us : r->ended_us;
    histogram_add(&h[STATS_TOTAL_US], r->ended_us - r->arrived_us);
    histogram_add(&h[STATS_QUEUE_US], planned_us - r->arrived_us);
    if (last_us) {
        histogram_add(&h[STATS_PREFILL_US], r->first_token_us - planned_us);
        histogram_add(&h[STATS_DECODE_US], last_us - r->first_token_us);
        histogram_add(&h[STATS_INFERENCE_US], last_us - planned_us);
    }
    histogram_add(&h[STATS_PROMPT_TOKENS], r->ask->n_prompt);
    histogram_add(&h[STATS_COMPUTED_PROMPT_TOKENS], r->ask->n_prompt - r->cached_tokens);
    histogram_add(&h[STATS_MAX_TOKENS], r->ask->max_new);
    histogram_add(&h[STATS_SAMPLES], r->n_samples);
    histogram_add(&h[STATS_PREEMPTIONS], r->preemptions);
}

void metrics_ended(struct metrics *m, const struct request *r)
{
    if (!r->admitted)
        return;
    for (uint32_t i = 0; i < r->n_samples; i++)
        m->samples_ended[r->samples[i].reason]++;
    if (r->failed == ST_OK && !r->cancelled && !r->resumed)
        count_finished(m, r);
}

void metrics_rejected(struct metrics *m, enum status code)
{
    m->rejected[code]++;
}

void metrics_report(const struct metrics *m, struct msg_stats *out)
{
    for (size_t i = 0; i < N_STATS_HISTOGRAMS; i++)
        out->histogram[i] = metrics_message(&m->histogram[i]);
    out->n_samples_ended = N_REASONS;
    out->samples_ended = m->samples_ended;
    out->n_rejected_by_code = ST_N;
    out->rejected_by_code = m->rejected;
    out->rejected = 0;
    for (size_t i = 0; i < ST_N; i++)
        out->rejected += m->rejected[i];
    out->prefix_queries = m->prefix_queries;
    out->prefix_hits = m->prefix_hits;
    out->grammars_compiled = m->grammars_compiled;
    out->grammars_known = m->grammars_known;
    out->grammars_refused = m->grammars_refused;
    out->grammars_dropped = m->grammars_dropped;
    out->masks = m->masks;
    out->masks_cached = m->masks_cached;
    out->mask_us = m->mask_us;
    out->mask_wait_us = m->mask_wait_us;
}

struct msg_histogram metrics_message(const struct histogram *h)
{
    return (struct msg_histogram){h->n_bounds, h->bound, h->count, h->sum};
}
