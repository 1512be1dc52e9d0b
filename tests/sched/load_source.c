#include "sched/load_source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"

enum { MIN_SHARED = 64, MAX_SHARED = 1024, MAX_LINE = 1 << 16, TENANTS = 512 };

struct load_source {
    struct load_config cfg;
    uint64_t state;
    uint64_t n_taken, n_begun; /* requests, conversations */
    double next_s;             /* when the next conversation begins */
    struct load_request *heap; /* requests to come, the earliest first */
    size_t n_heap, cap_heap;
    struct load_request *trace; /* in order of time */
    size_t n_trace, at;
    uint64_t *ids; /* of all lines of the trace and copies */
};

static uint64_t draw(struct load_source *s)
{
    return hash_mix(s->state += 0x9e3779b97f4a7c15U);
}

/* In (0, 1]. */
static double uniform(struct load_source *s)
{
    return ((double)(draw(s) >> 11) + 1) / 9007199254740992.0;
}

static double exponential(struct load_source *s, double mean)
{
    return -mean * log(uniform(s));
}

/* ---- requests to come, by time: a binary heap ---- */

static bool heap_push(struct load_source *s, const struct load_request *r)
{
    if (s->n_heap == s->cap_heap) {
        size_t cap = s->cap_heap ? 2 * s->cap_heap : 1024;
        struct load_request *more = realloc(s->heap, cap * sizeof *more);
        if (!more)
            return false;
        s->heap = more;
        s->cap_heap = cap;
    }
    size_t i = s->n_heap++;
    for (; i > 0 && s->heap[(i - 1) / 2].arrival_us > r->arrival_us; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = *r;
    return true;
}

static void heap_pop(struct load_source *s, struct load_request *out)
{
    *out = s->heap[0];
    struct load_request last = s->heap[--s->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->n_heap; i = child) {
        child += child + 1 < s->n_heap && s->heap[child + 1].arrival_us < s->heap[child].arrival_us;
        if (s->heap[child].arrival_us >= last.arrival_us)
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
}

/* ---- conversations ---- */

static uint32_t answer_tokens(struct load_source *s)
{
    double n = 1 + exponential(s, s->cfg.new_tokens);
    return (uint32_t)fmin(n, 4.0 * s->cfg.new_tokens);
}

static uint32_t question_tokens(struct load_source *s)
{
    return 8 + (uint32_t)fmin(exponential(s, 60), 600);
}

static void begin_conversation(struct load_source *s, struct load_request *r)
{
    uint64_t family = (uint64_t)pow(s->cfg.n_families, uniform(s)) - 1;
    uint64_t shape = hash_mix(s->cfg.seed * 31 + family);
    *r = (struct load_request){.arrival_us = (uint64_t)(s->next_s * 1e6),
                               .tenant = 1 + family % TENANTS,
                               .n_shared =
                                   MIN_SHARED + (uint32_t)(shape % (MAX_SHARED - MIN_SHARED + 1)),
                               .family_key = shape,
                               .key = hash_mix(s->cfg.seed + 7 * ++s->n_begun)};
    r->n_prompt = r->n_shared + question_tokens(s);
    r->n_new = answer_tokens(s);
    r->turns_left = (uint32_t)exponential(s, s->cfg.turns - 0.5);
    s->next_s += exponential(s, 1 / s->cfg.conversations_per_s);
}

void load_source_ended(struct load_source *s, const struct load_request *r, uint64_t now_us)
{
    struct load_request next = *r;
    if (r->turns_left == 0)
        return;
    next.turns_left--;
    next.n_prompt += r->n_new + question_tokens(s);
    next.n_new = answer_tokens(s);
    next.arrival_us = now_us + (uint64_t)(1e6 * exponential(s, s->cfg.think_s));
    if (next.n_prompt + next.n_new <= s->cfg.max_tokens && !heap_push(s, &next)) {
        fprintf(stderr, "load_source: no memory\n");
        abort();
    }
}

/* ---- traces ---- */

static bool number_after(const char *line, const char *name, double *out)
{
    char *end;
    const char *at = strstr(line, name);
    if (!at)
        return false;
    at += strlen(name);
    *out = strtod(at, &end);
    return end != at && *out >= 0 && *out < 1e9;
}

/* The ids of a line; their number, at most cap. */
static size_t ids_of(const char *line, uint64_t *out, size_t cap)
{
    const char *at = strstr(line, "\"hash_ids\": [");
    size_t n = 0;
    char *end;
    for (at = at ? at + 13 : NULL; at && n < cap; at = *end == ',' ? end + 1 : NULL) {
        out[n] = strtoull(at, &end, 10);
        if (end == at)
            break;
        n++;
    }
    return n;
}

static bool read_line(struct load_source *s, const char *line, size_t *n_ids, size_t cap_ids)
{
    struct load_request *r = &s->trace[s->n_trace];
    double ms, in, out;
    if (!number_after(line, "\"timestamp\": ", &ms) ||
        !number_after(line, "\"input_length\": ", &in) ||
        !number_after(line, "\"output_length\": ", &out))
        return false;
    uint64_t *ids = s->ids + *n_ids;
    size_t n = ids_of(line, ids, cap_ids - *n_ids);
    *r = (struct load_request){.arrival_us = (uint64_t)(1000 * ms),
                               .n_prompt = (uint32_t)in,
                               .n_new = out > 1 ? (uint32_t)out : 1,
                               .block_ids = ids};
    if (n * TRACE_BLOCK < r->n_prompt || r->n_prompt == 0)
        return false;
    *n_ids += n;
    s->n_trace += (uint64_t)r->n_prompt + r->n_new <= s->cfg.max_tokens;
    return true;
}

static int by_arrival(const void *a, const void *b)
{
    const struct load_request *x = a, *y = b;
    return (x->arrival_us > y->arrival_us) - (x->arrival_us < y->arrival_us);
}

/* Copy c is that of other users. */
static void copy_trace(struct load_source *s)
{
    size_t n = s->n_trace;
    for (uint32_t c = 0; c < s->cfg.copies; c++)
        for (size_t i = 0; i < n; i++) {
            struct load_request *r = &s->trace[c * n + i];
            *r = s->trace[i];
            r->tenant = 1 + c;
            r->key = hash_mix(((uint64_t)c << 32) + i);
        }
    for (uint32_t c = 1; c < s->cfg.copies; c++)
        for (size_t i = 0; i < n; i++)
            s->trace[c * n + i].arrival_us += (uint64_t)(1e6 * s->cfg.apart_s * c);
    s->n_trace = n * s->cfg.copies;
    qsort(s->trace, s->n_trace, sizeof *s->trace, by_arrival);
    if (s->n_trace > s->cfg.n_requests)
        s->n_trace = s->cfg.n_requests;
}

static bool read_trace(struct load_source *s)
{
    FILE *in = fopen(s->cfg.trace, "r");
    static char line[MAX_LINE];
    size_t n_lines = 0, n_ids = 0, n_bytes = 0;
    while (in && fgets(line, sizeof line, in)) {
        n_lines++;
        n_bytes += strlen(line);
    }
    s->trace = n_lines ? calloc(n_lines * s->cfg.copies, sizeof *s->trace) : NULL;
    s->ids = n_lines ? calloc(n_bytes, sizeof *s->ids) : NULL;
    if (!s->trace || !s->ids) {
        fprintf(stderr, "load_source: %s cannot be read, is empty, or is too large\n",
                s->cfg.trace);
        if (in)
            fclose(in);
        return false;
    }
    rewind(in);
    for (size_t i = 1; fgets(line, sizeof line, in); i++)
        if (!read_line(s, line, &n_ids, n_bytes)) {
            fprintf(stderr, "load_source: %s: line %zu is not a request\n", s->cfg.trace, i);
            fclose(in);
            return false;
        }
    fclose(in);
    copy_trace(s);
    return true;
}

/* ---- the source ---- */

struct load_source *load_source_create(const struct load_config *cfg)
{
    struct load_source *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->cfg = *cfg;
    s->state = hash_mix(cfg->seed);
    if (cfg->trace && !read_trace(s)) {
        load_source_destroy(s);
        return NULL;
    }
    return s;
}

void load_source_destroy(struct load_source *s)
{
    if (!s)
        return;
    free(s->heap);
    free(s->trace);
    free(s->ids);
    free(s);
}

bool load_source_when(struct load_source *s, uint64_t *us)
{
    if (s->cfg.trace) {
        if (s->at < s->n_trace)
            *us = s->trace[s->at].arrival_us;
        return s->at < s->n_trace;
    }
    if (s->n_taken == s->cfg.n_requests)
        return false;
    *us = (uint64_t)(s->next_s * 1e6);
    if (s->n_heap && s->heap[0].arrival_us < *us)
        *us = s->heap[0].arrival_us;
    return true;
}

void load_source_take(struct load_source *s, struct load_request *out)
{
    s->n_taken++;
    if (s->cfg.trace)
        *out = s->trace[s->at++];
    else if (s->n_heap && s->heap[0].arrival_us < (uint64_t)(s->next_s * 1e6))
        heap_pop(s, out);
    else
        begin_conversation(s, out);
}

int32_t load_token(const struct load_request *r, uint32_t at, uint32_t vocab)
{
    uint64_t key = at < r->n_shared ? r->family_key : r->key;
    if (r->block_ids && at < r->n_prompt)
        key = r->block_ids[at / TRACE_BLOCK];
    return (int32_t)(hash_mix(key * 0x9e3779b97f4a7c15U + at) % vocab);
}
