#include "coordinator/tools/journal_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest/text_digest.h"
#include "common/hex.h"
#include "common/wire/client_msg.h"
#include "coordinator/model_text.h"
#include "coordinator/tokenizer/detok.h"
#include "coordinator/tokenizer/stop.h"

enum { DECODED_MEM = 1 << 20 }; /* address space of a decoded Generate, and 8 times its bytes */

/* How the text of a request's answers is made. */
struct text_rules {
    struct text_rules *next;
    uint64_t key; /* group_id of the samples */
    uint32_t n_stop;
    struct text_buf *stop; /* [n_stop] */
    bool include_stop, skip_special, keep_marks;
};

struct line {
    struct line *next;
    uint64_t group, seq_id;
    char *text; /* of JSON */
};

struct journal_show {
    const char *request;
    uint64_t seq_id; /* the request as a number of a sequence; 0: it is none */
    unsigned found;
    bool content;            /* of the file at hand */
    struct model_text model; /* with a model; else its tok is NULL */
    bool has_text_digest;
    uint8_t text_digest[SHA256_BYTES];
    struct text_rules *rules;
    struct line *lines; /* of samples whose request is not over */
};

const char *journal_reason_name(enum finish_reason why)
{
    static const char *const names[] = {
        [FINISH_NONE] = "live",
        [FINISH_STOP_ID] = "eos",
        [FINISH_LENGTH] = "length",
        [FINISH_STOP_STRING] = "stop",
        [FINISH_CANCELLED] = "cancelled",
        [FINISH_DEADLINE] = "deadline",
        [FINISH_FAILED] = "failed",
        [FINISH_NOT_FINITE] = "not_finite",
        [FINISH_GRAMMAR_COMPLETE] = "eos",
        [FINISH_GRAMMAR_STUCK] = "stuck",
        [FINISH_EMBEDDED] = "embedded",
    };
    return names[why];
}

/* ---- JSON ---- */

static void print_ids(FILE *out, const char *name, const int32_t *ids, uint32_t n)
{
    fprintf(out, "\"%s\":[", name);
    for (uint32_t i = 0; i < n; i++)
        fprintf(out, "%s%" PRId32, i ? "," : "", ids[i]);
    fprintf(out, "]");
}

static void print_string(FILE *out, const char *text, size_t n)
{
    putc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; n-- > 0; p++)
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < 0x20)
            fprintf(out, "\\u%04x", *p);
        else
            putc(*p, out);
    putc('"', out);
}

static void print_bytes(FILE *out, const char *name, const char *text, size_t n)
{
    fprintf(out, "\"%s\":", name);
    print_string(out, text, n);
}

static void print_text(FILE *out, const char *name, const char *text)
{
    print_bytes(out, name, text, strlen(text));
}

/* A number of JSON; infinities and NaN have none. */
static void print_float(FILE *out, const char *name, double v)
{
    fprintf(out, "\"%s\":", name);
    if (v - v == 0.0)
        fprintf(out, "%.9g", v);
    else
        fprintf(out, "null");
}

static void print_params(FILE *out, const struct sample_params *p)
{
    const struct {
        const char *name;
        double v;
    } f[] = {{"temperature", (double)p->temperature},
             {"top_p", (double)p->top_p},
             {"min_p", (double)p->min_p},
             {"repetition_penalty", (double)p->repetition_penalty},
             {"presence_penalty", (double)p->presence_penalty},
             {"frequency_penalty", (double)p->frequency_penalty}};
    fprintf(out, "\"params\":{");
    for (size_t i = 0; i < ARRAY_LEN(f); i++) {
        print_float(out, f[i].name, f[i].v);
        putc(',', out);
    }
    fprintf(out,
            "\"top_k\":%" PRIu32 ",\"min_tokens\":%" PRIu32 ",\"seed\":%" PRIu64
            ",\"logprobs\":%s,\"top_logprobs\":%" PRIu32 ",\"prompt_logprobs\":%s},",
            p->top_k, p->min_new, p->seed, p->logprobs || p->top_logprobs ? "true" : "false",
            p->top_logprobs, p->prompt_logprobs ? "true" : "false");
}

static void print_served(FILE *out, const struct journal_served *s)
{
    char hex[2 * SHA256_BYTES + 1] = "";
    if (s->has_weights)
        hex_of(s->weights, sizeof s->weights, hex);
    print_text(out, "weights", hex);
    putc(',', out);
    print_text(out, "numerics", s->numerics);
    putc(',', out);
}

static void print_logprobs(FILE *out, const struct replay_request *q)
{
    fprintf(out, "\"logprobs\":[");
    for (uint32_t i = q->r.n_prompt; i < q->n_known; i++) {
        double v = (double)q->logprobs[i];
        fprintf(out, "%s", i > q->r.n_prompt ? "," : "");
        if (i < q->n_before || v - v != 0.0)
            fprintf(out, "null"); /* sampled before this file began, or no number */
        else
            fprintf(out, "%.9g", v);
    }
    fprintf(out, "],");
}

static void print_rules(FILE *out, const struct text_rules *t)
{
    fprintf(out, "\"stop\":[");
    for (uint32_t i = 0; i < t->n_stop; i++) {
        fprintf(out, "%s", i ? "," : "");
        print_string(out, t->stop[i].data, t->stop[i].len);
    }
    fprintf(out, "],\"include_stop\":%s,", t->include_stop ? "true" : "false");
}

/* ---- the text of an answer, as the coordinator makes it (sample_token, sample_end) ---- */

struct decoding {
    struct detok detok;
    struct stop_stream stop;
    struct text_buf piece;
};

static enum status decode_tokens(struct decoding *d, const struct replay_request *q,
                                 struct text_buf *out)
{
    enum status st = ST_OK;
    uint32_t n = q->n_known - q->r.n_prompt;
    for (uint32_t i = 0; i < n && !d->stop.done && st == ST_OK; i++) {
        d->piece.len = 0;
        d->stop.asleep = i + 1 <= q->r.sp.min_new;
        st = detok_push(&d->detok, q->r.tokens[q->r.n_prompt + i], &d->piece);
        if (st == ST_OK && d->piece.len)
            st = stop_push(&d->stop, d->piece.data, d->piece.len, out);
    }
    if (st != ST_OK || d->stop.done || q->reason == FINISH_NONE)
        return st;
    d->piece.len = 0;
    TRY(detok_flush(&d->detok, &d->piece));
    if (d->piece.len)
        TRY(stop_push(&d->stop, d->piece.data, d->piece.len, out));
    return stop_flush(&d->stop, out);
}

static enum status answer_text(const struct journal_show *s, const struct text_rules *t,
                               const struct replay_request *q, struct text_buf *out)
{
    struct tok_text strings[STOP_MAX_STRINGS];
    struct stop_set *set = NULL;
    struct decoding d = {.piece = {0}};
    if (t->n_stop > ARRAY_LEN(strings))
        FAIL(ST_FORMAT, "a request of %u stop strings", t->n_stop);
    for (uint32_t i = 0; i < t->n_stop; i++)
        strings[i] = (struct tok_text){t->stop[i].data, t->stop[i].len};
    if (t->n_stop)
        TRY(stop_set_create(&set, strings, t->n_stop));
    detok_init(&d.detok, s->model.tok, t->skip_special ? TOK_SKIP_SPECIAL : 0);
    d.detok.keep = s->model.mark;
    d.detok.n_keep = t->keep_marks ? s->model.n_marks : 0;
    detok_follow(&d.detok, q->r.tokens, q->r.n_prompt);
    d.stop = (struct stop_stream){.set = set, .include = t->include_stop};
    enum status st = decode_tokens(&d, q, out);
    text_buf_free(&d.piece);
    stop_set_destroy(set);
    return st;
}

/* ---- one sample ---- */

static const struct text_rules *rules_of(const struct journal_show *s, uint64_t key)
{
    const struct text_rules *t = s->rules;
    while (t && t->key != key)
        t = t->next;
    return t;
}

/* Prompt and answer; content false: their lengths. */
static void print_tokens(FILE *out, const struct replay_request *q, bool content)
{
    const struct sched_req *r = &q->r;
    uint32_t n = q->n_known - r->n_prompt;
    if (r->resumed) /* of the tokens, those that the client had from another coordinator */
        fprintf(out, "\"resumed\":%" PRIu32 ",", r->n_tokens - r->n_prompt);
    if (!content) {
        fprintf(out, "\"content\":\"none\",\"n_prompt\":%" PRIu32 ",\"n_tokens\":%" PRIu32 ",",
                r->n_prompt, n);
        return;
    }
    print_ids(out, "prompt", r->tokens, r->n_prompt);
    putc(',', out);
    print_ids(out, "tokens", r->tokens + r->n_prompt, n);
    putc(',', out);
    print_logprobs(out, q);
}

static void print_request(FILE *out, const struct replay_request *q,
                          const struct journal_served *served, bool content)
{
    const struct sched_req *r = &q->r;
    fprintf(out, "{\"seq_id\":%" PRIu64 ",", r->seq_id);
    print_text(out, "request_id", q->label);
    fprintf(out,
            ",\"tenant\":\"%016" PRIx64 "\",\"group\":%" PRIu64 ",\"priority\":%" PRId32
            ",\"max_tokens\":%" PRIu64 ",",
            r->salt, r->group_id, r->priority, (uint64_t)r->max_new + r->n_tokens - r->n_prompt);
    print_served(out, served);
    print_params(out, &r->sp);
    print_ids(out, "stop_ids", r->stop_ids, r->n_stop_ids);
    fprintf(out, ",\"logit_bias\":[");
    for (uint32_t i = 0; i < r->n_bias; i++)
        fprintf(out, "%s[%" PRId32 ",%.9g]", i ? "," : "", r->bias[i].id, (double)r->bias[i].bias);
    fprintf(out, "],");
    if (r->grammar && content) {
        fprintf(out, "\"grammar_kind\":%" PRIu32 ",", r->grammar_kind);
        print_bytes(out, "grammar", r->grammar_source, r->n_grammar);
        putc(',', out);
    }
    print_tokens(out, q, content);
}

static enum status print_sample(const struct journal_show *s, FILE *out,
                                const struct replay_request *q, const struct journal_served *served)
{
    const struct text_rules *t = rules_of(s, q->r.group_id);
    struct text_buf text = {0};
    print_request(out, q, served, s->content);
    if (t) {
        fprintf(out, "\"sample\":%" PRIu64 ",", q->r.seq_id - t->key);
        print_rules(out, t);
    }
    if (t && s->model.tok) {
        enum status st = answer_text(s, t, q, &text);
        if (st == ST_OK)
            print_bytes(out, "text", text.data ? text.data : "", text.len);
        text_buf_free(&text);
        TRY(st);
        putc(',', out);
    }
    if (q->reason == FINISH_EMBEDDED) /* of its components' bytes */
        fprintf(out, "\"embedding\":\"%016" PRIx64 "\",", q->embedding);
    fprintf(out, "\"reason\":\"%s\"}\n", journal_reason_name(q->reason));
    return ST_OK;
}

static bool is_wanted(const struct journal_show *s, const struct replay_request *q)
{
    return !s->request || q->r.seq_id == s->seq_id || strcmp(q->label, s->request) == 0;
}

static bool same_group(const struct line *a, uint64_t group, uint64_t seq_id)
{
    return group ? a->group == group : a->seq_id == seq_id;
}

/* Behind those of its group with smaller numbers; a group's lines are neighbours. */
static void insert(struct journal_show *s, struct line *x)
{
    struct line **at = &s->lines;
    while (*at && !same_group(*at, x->group, x->seq_id))
        at = &(*at)->next;
    while (*at && same_group(*at, x->group, x->seq_id) && (*at)->seq_id < x->seq_id)
        at = &(*at)->next;
    x->next = *at;
    *at = x;
}

static enum status add_sample(struct journal_show *s, const struct replay_request *q,
                              const struct journal_served *served)
{
    size_t n;
    if (!is_wanted(s, q))
        return ST_OK;
    struct line *x = calloc(1, sizeof *x);
    FILE *out = x ? open_memstream(&x->text, &n) : NULL;
    if (!out) {
        free(x);
        FAIL(ST_NOMEM, "no memory for a sample's line");
    }
    x->group = q->r.group_id;
    x->seq_id = q->r.seq_id;
    enum status st = print_sample(s, out, q, served);
    if (fclose(out) != 0 && st == ST_OK)
        st = status_fail(ST_NOMEM, __FILE__, __LINE__, "no memory for a sample's line");
    if (st != ST_OK) {
        free(x->text);
        free(x);
        return st;
    }
    insert(s, x);
    s->found++;
    return ST_OK;
}

/* ---- requests ---- */

static void free_rules(struct text_rules *t)
{
    for (uint32_t i = 0; i < t->n_stop; i++)
        text_buf_free(&t->stop[i]);
    free(t->stop);
    free(t);
}

static enum status copy_rules(struct text_rules *t, const struct msg_generate *g)
{
    t->include_stop = g->include_stop;
    t->skip_special = g->skip_special;
    t->keep_marks = g->keep_marks;
    t->stop = calloc((size_t)g->n_stops + 1, sizeof *t->stop);
    if (!t->stop)
        FAIL(ST_NOMEM, "no memory for %u stop strings", g->n_stops);
    for (; t->n_stop < g->n_stops; t->n_stop++)
        TRY(text_buf_append(&t->stop[t->n_stop], g->stops[t->n_stop].data, g->stops[t->n_stop].n));
    return ST_OK;
}

static enum status add_rules(struct journal_show *s, uint64_t key, const struct msg_generate *g)
{
    struct text_rules *t = calloc(1, sizeof *t);
    if (!t)
        FAIL(ST_NOMEM, "no memory for a request");
    t->key = key;
    t->next = s->rules;
    s->rules = t;
    return copy_rules(t, g);
}

static enum status note_admission(struct journal_show *s, const struct journal_admission *a)
{
    struct client_msg m;
    struct wire_mem mem;
    const char *id, *field;
    if (a->key == 0) /* its samples are in no file of this process */
        return ST_OK;
    TRY(wire_mem_init(&mem, DECODED_MEM + 8 * (size_t)a->n_request));
    enum status st = client_msg_decode_request(&m, a->request, a->n_request, &mem, &id, &field);
    if (st == ST_OK && m.type == MSG_GENERATE)
        st = add_rules(s, a->key, &m.u.generate);
    wire_mem_fini(&mem);
    if (st != ST_OK)
        FAIL(st, "the message of request %s: %s", a->id, status_text());
    return ST_OK;
}

static void forget_rules(struct journal_show *s, uint64_t key)
{
    struct text_rules **at = &s->rules;
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    struct text_rules *t = *at;
    if (!t)
        return;
    *at = t->next;
    free_rules(t);
}

static void print_group(struct journal_show *s, uint64_t group, uint64_t seq_id)
{
    struct line **at = &s->lines, *x;
    while ((x = *at)) {
        if (!same_group(x, group, seq_id)) {
            at = &x->next;
            continue;
        }
        fputs(x->text, stdout);
        *at = x->next;
        free(x->text);
        free(x);
    }
}

static bool has_live(const struct replay *p, uint64_t group)
{
    const struct replay_request *q = replay_live(p);
    while (q && q->r.group_id != group)
        q = q->next;
    return q != NULL;
}

static enum status end_file(struct journal_show *s, const struct replay *p,
                            const struct journal_served *served)
{
    for (const struct replay_request *q = replay_live(p); q; q = q->next)
        TRY(add_sample(s, q, served));
    while (s->lines)
        print_group(s, s->lines->group, s->lines->seq_id);
    while (s->rules)
        forget_rules(s, s->rules->key);
    return ST_OK;
}

static enum status check_text(const struct journal_show *s, const struct journal_served *served)
{
    if (s->has_text_digest && served->has_text &&
        memcmp(s->text_digest, served->text, sizeof served->text) != 0)
        FAIL(ST_RANGE, "the model has another tokenizer or chat template than the journal's");
    return ST_OK;
}

enum status journal_show_event(struct journal_show *s, const struct replay *p,
                               const struct replay_event *ev, const struct journal_served *served)
{
    struct replay_summary sum;
    replay_summary(p, &sum);
    s->content = !sum.no_content;
    if (!s->content && s->model.tok)
        FAIL(ST_UNSUPPORTED, "it was written with --journal-content none: it has no text");
    if (ev->kind == REPLAY_SERVED)
        TRY(check_text(s, served));
    if (ev->kind == REPLAY_ADMIT)
        TRY(note_admission(s, ev->admission));
    for (const struct replay_request *q = ev->ended; q; q = q->next)
        TRY(add_sample(s, q, served));
    for (const struct replay_request *q = ev->ended; q; q = q->next)
        if (q->r.group_id == 0 || !has_live(p, q->r.group_id)) {
            print_group(s, q->r.group_id, q->r.seq_id);
            forget_rules(s, q->r.group_id);
        }
    return ev->kind == REPLAY_DONE ? end_file(s, p, served) : ST_OK;
}

unsigned journal_show_found(const struct journal_show *s)
{
    return s->found;
}

static enum status open_model(struct journal_show *s, const char *path)
{
    if (!path)
        return ST_OK;
    TRY(text_digest(path, &s->has_text_digest, s->text_digest));
    return model_text_open(&s->model, path, path, (struct modules_asked){0});
}

enum status journal_show_open(struct journal_show **out, const struct show_config *cfg)
{
    char *end;
    struct journal_show *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        FAIL(ST_NOMEM, "no memory");
    s->request = cfg->request;
    if (s->request) {
        s->seq_id = strtoull(s->request, &end, 10);
        if (*end || *s->request == '-')
            s->seq_id = 0; /* no sequence has that number */
    }
    enum status st = open_model(s, cfg->model);
    if (st != ST_OK) {
        journal_show_close(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

void journal_show_close(struct journal_show *s)
{
    if (!s)
        return;
    while (s->rules)
        forget_rules(s, s->rules->key);
    for (struct line *x; (x = s->lines);) {
        s->lines = x->next;
        free(x->text);
        free(x);
    }
    model_text_close(&s->model);
    free(s);
}
