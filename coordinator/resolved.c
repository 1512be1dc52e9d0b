#include "coordinator/resolved.h"

#include <stdlib.h>
#include <string.h>

#include "common/grammar/grammar_source.h"
#include "common/grammar/thinking.h"
#include "common/random.h"

/* FAIL that also names the field */
#define FAIL_FIELD(name, ...)                                                                      \
    do {                                                                                           \
        *field = (name);                                                                           \
        FAIL(ST_RANGE, __VA_ARGS__);                                                               \
    } while (0)

static enum status check_lengths(const struct msg_generate *g, size_t n_prompt,
                                 const struct resolve_limits *l, const char **field)
{
    if (n_prompt == 0)
        FAIL(ST_RANGE, "the prompt has no tokens");
    if (n_prompt >= l->max_ctx && (g->embed || l->modules->whole))
        FAIL(ST_RANGE, "the text has %zu tokens: this model takes at most %u", n_prompt,
             l->max_ctx - 1);
    if (n_prompt >= l->max_ctx)
        FAIL(ST_RANGE, "the prompt has %zu tokens; with an answer it must fit a context of %u",
             n_prompt, l->max_ctx);
    if (n_prompt + g->max_tokens > l->max_ctx)
        FAIL_FIELD("max_tokens", "%zu prompt tokens and max_tokens %u exceed the context of %u",
                   n_prompt, g->max_tokens, l->max_ctx);
    if (g->n > l->max_waiting)
        FAIL_FIELD("n", "n is %u: this server queues at most %u sequences", g->n, l->max_waiting);
    return ST_OK;
}

static enum status check_embed(const struct msg_generate *g, size_t n_prompt,
                               const struct sentence_modules *m, const char **field)
{
    if (!g->embed)
        return ST_OK;
    for (uint32_t i = 0; i < g->n_token_types; i++)
        if (g->token_types[i] >= (uint32_t)(m->n_types > 1 ? m->n_types : 1))
            FAIL_FIELD("embed.token_types", "token_types[%u] is %u: this model has %d", i,
                       g->token_types[i], m->n_types);
    if (m->max_tokens && n_prompt > (size_t)m->max_tokens)
        FAIL(ST_RANGE, "the text has %zu tokens: this model's embeddings are of at most %d",
             n_prompt, m->max_tokens);
    *field = "embed.dimensions";
    return sentence_modules_cut(m, g->dimensions);
}

/* RoBERTa counts positions without padding tokens; a text has none. */
static enum status check_padding(const struct token_list *prompt, const struct sentence_modules *m)
{
    for (size_t i = 0; m->whole && i < prompt->n; i++)
        if (prompt->ids[i] == m->pad_id)
            FAIL(ST_RANGE, "token %zu of the text is %d: this model takes no padding tokens", i,
                 m->pad_id);
    return ST_OK;
}

static enum status check_ids(const struct msg_generate *g, const struct token_list *prompt,
                             uint32_t vocab, const char **field)
{
    int32_t end = (int32_t)vocab;
    for (size_t i = 0; i < prompt->n; i++)
        if (prompt->ids[i] < 0 || prompt->ids[i] >= end)
            FAIL(ST_RANGE, "token %zu of the prompt is %d: the vocabulary ends at %d", i,
                 prompt->ids[i], end - 1);
    for (uint32_t i = 0; i < g->sampling.n_bias; i++)
        if (g->sampling.bias[i].id < 0 || g->sampling.bias[i].id >= end)
            FAIL_FIELD("sampling.logit_bias.id",
                       "logit_bias names token %d: the vocabulary ends at %d",
                       g->sampling.bias[i].id, end - 1);
    for (uint32_t i = 0; i < g->sampling.n_stop_ids; i++)
        if (g->sampling.stop_ids[i] < 0 || g->sampling.stop_ids[i] >= end)
            FAIL_FIELD("sampling.stop_token_id", "stop token %d: the vocabulary ends at %d",
                       g->sampling.stop_ids[i], end - 1);
    return ST_OK;
}

static enum status copy_stops(struct resolved *q, const struct msg_generate *g)
{
    struct tok_text strings[MAX_STOPS];
    size_t n = 0;
    if (g->n_stops == 0)
        return ST_OK;
    for (uint32_t i = 0; i < g->n_stops; i++)
        n += g->stops[i].n;
    q->stops = calloc(g->n_stops, sizeof *q->stops);
    q->stop_bytes = malloc(n);
    if (!q->stops || !q->stop_bytes)
        FAIL(ST_NOMEM, "no memory for stop strings of %zu bytes", n);
    q->n_stops = g->n_stops;
    char *p = q->stop_bytes;
    for (uint32_t i = 0; i < g->n_stops; p += g->stops[i].n, i++) {
        memcpy(p, g->stops[i].data, g->stops[i].n);
        q->stops[i] = (struct wire_text){p, g->stops[i].n};
        strings[i] = (struct tok_text){p, g->stops[i].n};
    }
    return stop_set_create(&q->stop_set, strings, q->n_stops);
}

static enum status copy_lists(struct resolved *q, const struct msg_generate *g,
                              const struct resolve_limits *l, const char **field)
{
    uint32_t n_eos = q->ignore_eos || q->sp.embed ? 0 : l->n_eos;
    q->stop_ids = calloc((size_t)n_eos + g->sampling.n_stop_ids + 1, sizeof *q->stop_ids);
    q->bias = calloc((size_t)g->sampling.n_bias + 1, sizeof *q->bias);
    if (!q->stop_ids || !q->bias)
        FAIL(ST_NOMEM, "no memory for a request");
    for (uint32_t i = 0; i < n_eos; i++)
        q->stop_ids[q->n_stop_ids++] = l->eos[i];
    q->n_eos = n_eos;
    for (uint32_t i = 0; i < g->sampling.n_stop_ids; i++)
        q->stop_ids[q->n_stop_ids++] = g->sampling.stop_ids[i];
    for (; q->n_bias < g->sampling.n_bias; q->n_bias++)
        q->bias[q->n_bias] = g->sampling.bias[q->n_bias];
    *field = "stop";
    return copy_stops(q, g);
}

/* A rule that cannot be read is refused when the grammar is compiled. */
static enum status check_thinking(const struct msg_generate *g, uint32_t vocab, const char **field)
{
    struct thinking_rule rule;
    struct json_span answer;
    if (g->grammar_kind != GRAMMAR_THINKING && g->grammar_kind != GRAMMAR_THINKING_TAGS)
        return ST_OK;
    if (thinking_read(&rule, g->grammar.data, g->grammar.n, &answer) != ST_OK)
        return ST_OK;
    for (uint32_t i = 0; i < rule.n_close_ids; i++)
        if ((uint32_t)rule.close_ids[i] >= vocab)
            FAIL_FIELD("grammar", "close_ids[%u] is %d: the model's ids end at %u", i,
                       rule.close_ids[i], vocab - 1);
    return ST_OK;
}

static enum status copy_grammar(struct resolved *q, const struct msg_generate *g)
{
    uint8_t kind = (uint8_t)g->grammar_kind;
    struct sha256 s;
    if (!g->grammar_kind)
        return ST_OK;
    q->grammar = malloc(g->grammar.n + 1);
    if (!q->grammar)
        FAIL(ST_NOMEM, "no memory for a grammar of %zu bytes", g->grammar.n);
    if (g->grammar.n) /* the source of any object is empty */
        memcpy(q->grammar, g->grammar.data, g->grammar.n);
    q->n_grammar = g->grammar.n;
    q->grammar_kind = g->grammar_kind;
    sha256_init(&s);
    sha256_update(&s, &kind, sizeof kind);
    sha256_update(&s, q->grammar, q->n_grammar);
    sha256_final(&s, q->grammar_digest);
    return ST_OK;
}

static void digest_ids(const int32_t *ids, uint32_t n, uint8_t out[SHA256_BYTES])
{
    struct sha256 s;
    sha256_init(&s);
    for (uint32_t i = 0; i < n;) {
        uint8_t bytes[4096];
        size_t n_bytes = 0;
        for (; i < n && n_bytes < sizeof bytes; i++)
            for (int k = 0; k < 32; k += 8)
                bytes[n_bytes++] = (uint8_t)((uint32_t)ids[i] >> k);
        sha256_update(&s, bytes, n_bytes);
    }
    sha256_final(&s, out);
}

/* What the request leaves open is as the model recommends; without a recommendation the protocol's
 * default, which sp has already. */
static void fill_sampling(struct sample_params *sp, unsigned unset,
                          const struct generation_defaults *d)
{
    if (unset & UNSET_TEMPERATURE && d->has_temperature)
        sp->temperature = d->temperature;
    if (unset & UNSET_TOP_P && d->has_top_p)
        sp->top_p = d->top_p;
    if (unset & UNSET_MIN_P && d->has_min_p)
        sp->min_p = d->min_p;
    if (unset & UNSET_TOP_K && d->has_top_k)
        sp->top_k = d->top_k;
    if (unset & UNSET_REPETITION_PENALTY && d->has_repetition_penalty)
        sp->repetition_penalty = d->repetition_penalty;
}

static uint32_t new_tokens(const struct msg_generate *g, uint32_t room, uint32_t recommended)
{
    if (g->max_tokens)
        return g->max_tokens;
    return recommended && recommended < room ? recommended : room;
}

static enum status copy_types(struct resolved *q, const struct msg_generate *g, uint32_t vocab)
{
    bool any = false;
    for (uint32_t i = 0; i < g->n_token_types; i++)
        any = any || g->token_types[i];
    if (!any)
        return ST_OK;
    q->types = malloc(g->n_token_types);
    if (!q->types)
        FAIL(ST_NOMEM, "no memory for the types of %u tokens", g->n_token_types);
    for (uint32_t i = 0; i < g->n_token_types; i++)
        q->types[i] = (uint8_t)g->token_types[i];
    q->type_step = (int32_t)vocab;
    return ST_OK;
}

enum status resolve_generate(struct resolved **out, const struct msg_generate *g,
                             struct token_list *prompt, const struct resolve_limits *limits,
                             const char **field)
{
    *out = NULL;
    TRY(check_lengths(g, prompt->n, limits, field));
    TRY(check_ids(g, prompt, limits->vocab, field));
    TRY(check_padding(prompt, limits->modules));
    TRY(check_embed(g, prompt->n, limits->modules, field));
    struct resolved *q = calloc(1, sizeof *q);
    if (!q)
        FAIL(ST_NOMEM, "no memory for a request");
    q->sp = g->sampling.sp;
    fill_sampling(&q->sp, g->sampling.unset, limits->defaults);
    if (!g->sampling.has_seed)
        q->sp.seed = random_u64();
    q->n_prompt = (uint32_t)prompt->n;
    q->max_new = new_tokens(g, limits->max_ctx - q->n_prompt, limits->defaults->max_new);
    if (g->embed) {
        q->sp = sample_params_default();
        q->sp.temperature = 0.0f; /* so that a step can be planned behind it */
        q->sp.embed = sentence_modules_rows(limits->modules);
        q->max_new = 1;
        q->dimensions = g->dimensions;
    }
    q->n_samples = g->n;
    q->include_stop = g->include_stop;
    q->skip_special = g->skip_special;
    q->priority = g->priority;
    q->deadline_ms = g->deadline_ms;
    q->ignore_eos =
        g->sampling.ignore_eos && (!g->grammar_kind || grammar_kind_is_open(g->grammar_kind));
    q->want_prompt_ids = g->want_prompt_ids;
    q->want_token_text = g->want_token_text;
    q->is_chat = g->kind == PROMPT_CHAT;
    q->clock_s = g->chat.clock_s;
    q->zone_s = g->chat.zone_s;
    enum status st = copy_lists(q, g, limits, field);
    if (st == ST_OK)
        st = check_thinking(g, limits->vocab, field);
    if (st == ST_OK)
        st = copy_grammar(q, g);
    if (st == ST_OK)
        st = copy_types(q, g, limits->vocab);
    if (st != ST_OK) {
        resolved_free(q);
        return st;
    }
    q->prompt = prompt->ids;
    digest_ids(q->prompt, q->n_prompt, q->digest);
    *prompt = (struct token_list){.origins = prompt->origins};
    *out = q;
    return ST_OK;
}

bool resolved_is_end_id(const struct resolved *q, int32_t id)
{
    for (uint32_t i = 0; i < q->n_eos; i++)
        if (q->stop_ids[i] == id)
            return true;
    return false;
}

void resolved_free(struct resolved *q)
{
    if (!q)
        return;
    free(q->prompt);
    free(q->types);
    text_buf_free(&q->prompt_text);
    free(q->stop_ids);
    free(q->grammar);
    free(q->bias);
    free(q->stops);
    free(q->stop_bytes);
    stop_set_destroy(q->stop_set);
    free(q->resumed);
    free(q);
}
