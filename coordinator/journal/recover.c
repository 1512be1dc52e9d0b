#include "coordinator/journal/recover.h"

#include <math.h>
#include <stdlib.h>

#include "common/hash.h"
#include "common/log.h"
#include "common/mapped_file.h"
#include "coordinator/journal/replay.h"

enum { N_BUCKETS = 4096 };
#define MAX_REPLAY_BYTES ((size_t)8 << 30)

struct entry {
    struct recovered_request *r;
    struct entry *same_bucket;
    size_t number;
    bool replaced;
};

/* All admissions of the files in their order. */
struct reader {
    struct entry **entries; /* [n], cap */
    size_t n, cap;
    struct entry *by_key[N_BUCKETS]; /* the newest first */
    struct journal_served served;
    uint64_t now_us; /* of the last plan */
};

void recovered_request_free(struct recovered_request *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < MAX_SAMPLES; i++) {
        free(r->samples[i].ids);
        free(r->samples[i].logprobs);
    }
    free(r->bytes);
    free(r);
}

void recovered_free(struct recovered *r)
{
    if (!r)
        return;
    while (r->first) {
        struct recovered_request *q = r->first;
        r->first = q->next;
        recovered_request_free(q);
    }
    free(r);
}

static void reader_fini(struct reader *t)
{
    for (size_t i = 0; i < t->n; i++) {
        recovered_request_free(t->entries[i]->r);
        free(t->entries[i]);
    }
    free(t->entries);
}

/* ---- admissions ---- */

static struct entry **bucket(struct reader *t, uint64_t key)
{
    return &t->by_key[hash_mix(key) % N_BUCKETS];
}

static struct recovered_request *of_key(struct reader *t, uint64_t key)
{
    struct entry *e = *bucket(t, key);
    while (e && e->r->a.key != key)
        e = e->same_bucket;
    return e ? e->r : NULL;
}

static enum status copy_request(struct recovered_request **out, const struct journal_admission *a)
{
    struct recovered_request *r = calloc(1, sizeof *r);
    size_t n = (size_t)a->n_tenant + a->n_accepted + a->n_request + SHA256_BYTES;
    if (r)
        r->bytes = malloc(n);
    if (!r || !r->bytes) {
        free(r);
        FAIL(ST_NOMEM, "journal: no memory for a request of %zu bytes", n);
    }
    struct byte_writer w = {.data = r->bytes, .cap = n};
    put_bytes(&w, a->owner, SHA256_BYTES);
    put_bytes(&w, a->tenant, a->n_tenant);
    put_bytes(&w, a->accepted, a->n_accepted);
    put_bytes(&w, a->request, a->n_request);
    r->a = *a;
    memcpy(r->id, a->id, strlen(a->id) + 1);
    r->a.id = r->id;
    r->a.owner = r->bytes;
    r->a.tenant = r->a.owner + SHA256_BYTES;
    r->a.accepted = r->a.tenant + a->n_tenant;
    r->a.request = r->a.accepted + a->n_accepted;
    *out = r;
    return ST_OK;
}

static enum status add_entry(struct reader *t, struct recovered_request *r)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 64;
        struct entry **more = realloc(t->entries, cap * sizeof(struct entry *));
        if (!more)
            FAIL(ST_NOMEM, "journal: no memory for %zu requests", cap);
        t->entries = more;
        t->cap = cap;
    }
    struct entry *e = calloc(1, sizeof *e);
    if (!e)
        FAIL(ST_NOMEM, "journal: no memory for a request");
    e->r = r;
    e->number = t->n;
    if (r->a.key) {
        struct entry **at = bucket(t, r->a.key);
        e->same_bucket = *at;
        *at = e;
    }
    t->entries[t->n++] = e;
    return ST_OK;
}

static enum status on_admission(struct reader *t, const struct journal_admission *a)
{
    struct recovered_request *r = NULL;
    if (a->n_samples < 1 || a->n_samples > MAX_SAMPLES)
        FAIL(ST_FORMAT, "a request of %u samples", a->n_samples);
    if (a->key && of_key(t, a->key)) /* the file before had it, too */
        return ST_OK;
    TRY(copy_request(&r, a));
    enum status st = add_entry(t, r);
    if (st != ST_OK)
        recovered_request_free(r);
    return st;
}

/* ---- samples ---- */

/* The tokens of q; of those that it had when its file began the log probabilities are kept, if s has them. */
static enum status take_tokens(struct recovered_sample *s, const struct replay_request *q)
{
    uint32_t n = q->n_known - q->r.n_prompt, n_before = q->n_before - q->r.n_prompt;
    int32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    float *logprobs = malloc(((size_t)n + 1) * sizeof *logprobs);
    if (!ids || !logprobs) {
        free(ids);
        free(logprobs);
        FAIL(ST_NOMEM, "journal: no memory for %u tokens", n);
    }
    s->has_logprobs = true;
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = q->r.tokens[q->r.n_prompt + i];
        logprobs[i] = i >= n_before ? q->logprobs[q->r.n_prompt + i]
                      : i < s->n    ? s->logprobs[i]
                                    : NAN;
        s->has_logprobs = s->has_logprobs && !isnan(logprobs[i]);
    }
    free(s->ids);
    free(s->logprobs);
    s->ids = ids;
    s->logprobs = logprobs;
    s->n = n;
    return ST_OK;
}

static bool by_itself(enum finish_reason why)
{
    return why == FINISH_STOP_ID || why == FINISH_LENGTH || why == FINISH_STOP_STRING ||
           why == FINISH_GRAMMAR_COMPLETE || why == FINISH_EMBEDDED;
}

static enum status on_sample(struct reader *t, const struct replay_request *q)
{
    struct recovered_request *r = of_key(t, q->r.group_id);
    uint64_t i = q->r.seq_id - q->r.group_id;
    if (!r || i >= r->a.n_samples)
        return ST_OK; /* of a request that the journal does not know whole */
    struct recovered_sample *s = &r->samples[i];
    TRY(take_tokens(s, q));
    s->reason = q->reason;
    if (q->reason == FINISH_NONE)
        return ST_OK;
    r->ended_us = t->now_us;
    r->cancelled = r->cancelled || !by_itself(q->reason);
    return ST_OK;
}

static enum status on_samples(struct reader *t, const struct replay_request *q)
{
    for (; q; q = q->next)
        TRY(on_sample(t, q));
    return ST_OK;
}

/* ---- files ---- */

static enum status read_events(struct reader *t, struct replay *p)
{
    struct replay_event ev = {.kind = REPLAY_SUBMIT};
    struct replay_summary sum;
    while (ev.kind != REPLAY_DONE) {
        TRY(replay_next(p, &ev));
        if (ev.kind == REPLAY_ADMIT)
            TRY(on_admission(t, ev.admission));
        if (ev.kind == REPLAY_SERVED)
            t->served = *ev.served;
        if (ev.kind == REPLAY_PLAN) {
            replay_summary(p, &sum);
            t->now_us = sum.last_now_us;
        }
        TRY(on_samples(t, ev.ended));
    }
    return ST_OK;
}

static enum status read_file(struct reader *t, const char *path)
{
    struct mapped_file f;
    struct replay *p;
    struct replay_summary sum;
    TRY(mapped_file_open(&f, path));
    enum status st = replay_open(&p, f.data, f.size, MAX_REPLAY_BYTES), live;
    if (st == ST_OK) {
        replay_summary(p, &sum);
        t->now_us = sum.last_now_us;
        st = read_events(t, p);
        live = on_samples(t, replay_live(p));
        st = st == ST_OK ? live : st;
        replay_close(p);
    }
    mapped_file_close(&f);
    return st;
}

/* It says nothing about the file, which is to be read by a later start. */
static bool may_pass(enum status st)
{
    return st == ST_NOMEM || st == ST_IO;
}

/* A damaged file counts as far as it goes. */
static enum status read_or_say(struct reader *t, const char *path)
{
    enum status st = read_file(t, path);
    if (may_pass(st))
        return st;
    if (st != ST_OK)
        log_line(LOG_WARN, "%s: not all of it could be read: %s", path, status_text());
    return ST_OK;
}

/* The file's beginning alone: does it continue the file before? */
static enum status read_beginning(const char *path, bool *continues)
{
    struct mapped_file f;
    struct replay *p;
    struct replay_summary sum = {.before = 0};
    *continues = false;
    TRY(mapped_file_open(&f, path));
    enum status st = replay_open(&p, f.data, f.size, MAX_REPLAY_BYTES);
    if (st == ST_OK) {
        replay_summary(p, &sum);
        replay_close(p);
    }
    mapped_file_close(&f);
    *continues = sum.before != 0;
    return may_pass(st) ? st : ST_OK;
}

static enum status read_files(struct reader *t, const struct journal_files *files)
{
    char newest[JOURNAL_PATH_BYTES], before[JOURNAL_PATH_BYTES];
    bool continues = false;
    if (!journal_files_path(files, 0, newest))
        return ST_OK;
    if (journal_files_path(files, 1, before)) {
        TRY(read_beginning(newest, &continues));
        if (continues)
            TRY(read_or_say(t, before));
    }
    return read_or_say(t, newest);
}

/* ---- the result ---- */

static bool is_over(const struct recovered_request *r)
{
    for (uint32_t i = 0; i < r->a.n_samples; i++)
        if (r->samples[i].reason == FINISH_NONE)
            return false;
    return true;
}

/* Of the admissions of one request the last one counts: the process before may have taken it from an earlier one. */
static int by_name_and_age(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
    int c = memcmp(x->r->a.owner, y->r->a.owner, SHA256_BYTES);
    c = c ? c : strcmp(x->r->id, y->r->id);
    return c ? c : x->number < y->number ? -1 : x->number > y->number;
}

static int by_age(const void *a, const void *b)
{
    const struct entry *x = *(struct entry *const *)a, *y = *(struct entry *const *)b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static bool same_name(const struct recovered_request *a, const struct recovered_request *b)
{
    return memcmp(a->a.owner, b->a.owner, SHA256_BYTES) == 0 && strcmp(a->id, b->id) == 0;
}

static bool is_wanted(const struct reader *t, const struct recovered_request *r)
{
    return !r->cancelled && (!is_over(r) || t->now_us - r->ended_us <= RECOVER_ENDED_US);
}

/* Moves the requests that are to go on from t to *out. */
static void take_wanted(struct reader *t, struct recovered *out)
{
    qsort(t->entries, t->n, sizeof(struct entry *), by_name_and_age);
    for (size_t i = 0; i + 1 < t->n; i++)
        t->entries[i]->replaced = same_name(t->entries[i]->r, t->entries[i + 1]->r);
    qsort(t->entries, t->n, sizeof(struct entry *), by_age);
    for (size_t i = t->n; i-- > 0;) {
        struct entry *e = t->entries[i];
        if (e->replaced || !is_wanted(t, e->r))
            continue;
        e->r->next = out->first;
        out->first = e->r;
        out->n++;
        e->r = NULL;
    }
    out->served = t->served;
}

enum status recover_read(struct recovered **out, const struct journal_files *files)
{
    struct reader *t = calloc(1, sizeof *t);
    *out = calloc(1, sizeof **out);
    if (!t || !*out) {
        free(t);
        free(*out);
        *out = NULL;
        FAIL(ST_NOMEM, "journal: no memory to read it");
    }
    enum status st = read_files(t, files);
    if (st == ST_OK && t->n)
        take_wanted(t, *out);
    reader_fini(t);
    free(t);
    if (st != ST_OK) {
        free(*out);
        *out = NULL;
    }
    return st;
}
