#include "client/cli/recorded.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "common/json/json_read.h"

enum { MAX_RECORDED_IDS = 1 << 24 };

static enum status grow(void **items, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return ST_OK;
    size_t more = *cap ? 2 * *cap : 256;
    if (n >= MAX_RECORDED_IDS)
        FAIL(ST_RANGE, "a list has more than %d entries", MAX_RECORDED_IDS);
    void *p = realloc(*items, more * size);
    if (!p)
        FAIL(ST_NOMEM, "no memory for a list of %zu entries", more);
    *items = p;
    *cap = more;
    return ST_OK;
}

static enum status read_ids(struct json_cursor *c, struct id_list *out)
{
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        int64_t id;
        void *items = out->ids;
        TRY(json_read_i64(c, 0, INT32_MAX, &id));
        TRY(grow(&items, out->n, &out->cap, sizeof *out->ids));
        out->ids = items;
        out->ids[out->n++] = (int32_t)id;
    }
    return ST_OK;
}

static enum status read_float(struct json_cursor *c, float *out)
{
    double v;
    TRY(json_read_double(c, -(double)FLT_MAX, (double)FLT_MAX, &v));
    *out = (float)v;
    return ST_OK;
}

static enum status read_logprobs(struct json_cursor *c, struct recorded *out)
{
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        void *items = out->logprobs;
        TRY(grow(&items, out->n_logprobs, &out->cap_logprobs, sizeof *out->logprobs));
        out->logprobs = items;
        out->logprobs[out->n_logprobs] = NAN;
        if (!json_take_null(c))
            TRY(read_float(c, &out->logprobs[out->n_logprobs]));
        out->n_logprobs++;
    }
    return ST_OK;
}

/* [[id, bias], ...] */
static enum status read_bias(struct json_cursor *c, struct recorded *out)
{
    TRY(json_enter_array(c));
    while (json_next_item(c)) {
        struct ingot_bias b = {0};
        int64_t id = 0;
        int i = 0;
        TRY(json_enter_array(c));
        for (; json_next_item(c); i++)
            if (i == 0)
                TRY(json_read_i64(c, 0, INT32_MAX, &id));
            else
                TRY(read_float(c, &b.bias));
        if (i != 2)
            FAIL(ST_FORMAT, "an entry of logit_bias has %d numbers", i);
        b.id = (int32_t)id;
        void *items = out->bias;
        TRY(grow(&items, out->n_bias, &out->cap_bias, sizeof *out->bias));
        out->bias = items;
        out->bias[out->n_bias++] = b;
    }
    return ST_OK;
}

static enum status read_u32(struct json_cursor *c, uint32_t *out)
{
    uint64_t v;
    TRY(json_read_u64(c, 0, UINT32_MAX, &v));
    *out = (uint32_t)v;
    return ST_OK;
}

static enum status read_params(struct json_cursor *c, struct recorded *out)
{
    struct ingot_request *r = &out->r;
    struct {
        const char *name;
        float *at;
    } floats[] = {{"temperature", &r->temperature},
                  {"top_p", &r->top_p},
                  {"min_p", &r->min_p},
                  {"repetition_penalty", &r->repetition_penalty},
                  {"presence_penalty", &r->presence_penalty},
                  {"frequency_penalty", &r->frequency_penalty}};
    struct {
        const char *name;
        uint32_t *at;
    } numbers[] = {
        {"top_k", &r->top_k}, {"min_tokens", &r->min_tokens}, {"top_logprobs", &out->top_logprobs}};
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        for (size_t i = 0; i < ARRAY_LEN(floats); i++)
            if (json_span_is(key, floats[i].name))
                TRY(read_float(c, floats[i].at));
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
            if (json_span_is(key, numbers[i].name))
                TRY(read_u32(c, numbers[i].at));
        if (json_span_is(key, "seed"))
            TRY(json_read_u64(c, 0, UINT64_MAX, &r->seed));
        else if (json_span_is(key, "prompt_logprobs"))
            TRY(json_read_bool(c, &out->wants_prompt_logprobs));
    }
    return ST_OK;
}

static enum status read_member(struct json_cursor *c, struct json_span key, struct recorded *out)
{
    uint64_t kind;
    if (json_span_is(key, "seq_id"))
        return json_read_u64(c, 1, UINT64_MAX, &out->seq_id);
    if (json_span_is(key, "request_id"))
        return json_read_chars(c, out->request_id, sizeof out->request_id);
    if (json_span_is(key, "weights"))
        return json_read_chars(c, out->weights, sizeof out->weights);
    if (json_span_is(key, "numerics"))
        return json_read_chars(c, out->numerics, sizeof out->numerics);
    if (json_span_is(key, "reason"))
        return json_read_chars(c, out->reason, sizeof out->reason);
    if (json_span_is(key, "params"))
        return read_params(c, out);
    if (json_span_is(key, "stop_ids"))
        return read_ids(c, &out->stop_ids);
    if (json_span_is(key, "logit_bias"))
        return read_bias(c, out);
    if (json_span_is(key, "prompt"))
        return read_ids(c, &out->prompt);
    if (json_span_is(key, "tokens"))
        return read_ids(c, &out->tokens);
    if (json_span_is(key, "logprobs"))
        return read_logprobs(c, out);
    if (json_span_is(key, "resumed"))
        return json_read_u64(c, 0, UINT32_MAX, &out->n_resumed);
    if (json_span_is(key, "embedding"))
        return json_read_chars(c, out->embedding, sizeof out->embedding);
    if (json_span_is(key, "grammar"))
        return json_read_string(c, &out->grammar);
    if (json_span_is(key, "content"))
        FAIL(ST_UNSUPPORTED, "the journal was written with --journal-content none: without prompts "
                             "nothing can be computed again");
    if (json_span_is(key, "grammar_kind")) {
        TRY(json_read_u64(c, 0, INGOT_GRAMMAR_THINKING_TAGS, &kind));
        out->r.grammar_kind = (enum ingot_grammar)kind;
    }
    return ST_OK;
}

/* What the engine is asked for: the sample alone, as many tokens as are recorded, the same stop ids. */
static void fill_request(struct recorded *out)
{
    struct ingot_request *r = &out->r;
    r->ids = out->prompt.ids;
    r->n_ids = out->prompt.n;
    r->bias = out->bias;
    r->n_bias = out->n_bias;
    r->stop_ids = out->stop_ids.ids;
    r->n_stop_ids = out->stop_ids.n;
    r->ignore_eos = true; /* the model's end ids are among the recorded ones */
    r->max_tokens = (uint32_t)out->tokens.n;
    if (r->min_tokens > r->max_tokens)
        r->min_tokens = r->max_tokens;
    r->has_seed = true;
    r->logprobs = true;
    r->embed = *out->embedding != 0;
    r->grammar = out->grammar.data;
    r->n_grammar = out->grammar.len;
}

enum status recorded_read(struct recorded *out, const char *line, size_t n)
{
    struct json_cursor c;
    struct json_span key;
    recorded_free(out);
    out->r = ingot_request_default();
    TRY(json_open(&c, line, n, NULL));
    TRY(json_enter_object(&c));
    while (json_next_key(&c, &key))
        TRY(read_member(&c, key, out));
    if (!out->prompt.n || out->n_logprobs != out->tokens.n || !out->seq_id)
        FAIL(ST_FORMAT, "a sample with %zu prompt tokens, %zu tokens and %zu log probabilities",
             out->prompt.n, out->tokens.n, out->n_logprobs);
    fill_request(out);
    return ST_OK;
}

enum status recorded_split_types(struct recorded *r, uint32_t vocab)
{
    size_t n = 0;
    while (n < r->prompt.n && (uint32_t)r->prompt.ids[n] < vocab)
        n++;
    if (vocab == 0 || n == r->prompt.n)
        return ST_OK;
    r->types = calloc(r->prompt.n, sizeof *r->types);
    if (!r->types)
        FAIL(ST_NOMEM, "no memory for the types of %zu tokens", r->prompt.n);
    for (size_t i = 0; i < r->prompt.n; i++) {
        r->types[i] = (uint32_t)r->prompt.ids[i] / vocab;
        r->prompt.ids[i] = (int32_t)((uint32_t)r->prompt.ids[i] % vocab);
    }
    r->r.token_types = r->types;
    return ST_OK;
}

void recorded_free(struct recorded *r)
{
    free(r->types);
    free(r->prompt.ids);
    free(r->tokens.ids);
    free(r->stop_ids.ids);
    free(r->logprobs);
    free(r->bias);
    text_buf_free(&r->grammar);
    *r = (struct recorded){.seq_id = 0};
}
