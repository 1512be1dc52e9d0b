#include "client/pull/ranges.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/pull/stop.h"
#include "common/clock.h"

enum { CHUNK = 8 << 20 /* bytes of a range */, MAX_CONNECTIONS = 32, POLL_MS = 100 };

/* A range: one connection at a time fetches it, and where that breaks another one its rest. */
struct range {
    struct fetch *fetch;
    bool taken;        /* it is a range of the file; else the struct is free */
    uint64_t at, size; /* bytes of the file */
    uint64_t got;      /* [got] bytes are in data */
    char *data;        /* [CHUNK], kept for the next range */
    /* the connection */
    CURL *easy; /* NULL: none */
    struct curl_slist *headers;
    struct http_answer answer;
    bool first;          /* no byte of its body has come */
    const char *wrong;   /* why the answer cannot be used */
    int failures;        /* in a row, without a byte */
    uint64_t not_before; /* us: when to try again */
};

struct fetch {
    const struct ranges_config *cfg;
    CURLM *multi;
    char url[HTTP_URL_SIZE]; /* where the hub has sent us last */
    bool resolved;           /* url gives bytes; before that one connection finds out */
    int redirects;
    uint64_t written, next; /* bytes of the file: on disk; not yet part of a range */
    uint64_t not_before;    /* us: the hub's wait for all */
    struct range range[MAX_CONNECTIONS];
};

/* ---- one answer ---- */

/* Does the body that begins belong where the range's bytes end? */
static const char *check_body(struct range *r)
{
    const struct http_answer *a = &r->answer;
    uint64_t size = r->fetch->cfg->size;
    if (a->status == 200 && r->at == 0 && r->size == size) {
        r->got = 0; /* the whole file again */
        return NULL;
    }
    if (a->status != 206)
        return "it does not give ranges of files";
    if (!a->has_range || a->range_at != r->at + r->got)
        return "it gives another range than it was asked for";
    if (a->range_size != size)
        return "the file has another size than the hub's list says";
    return NULL;
}

static size_t on_data(char *data, size_t size, size_t n, void *context)
{
    struct range *r = context;
    n *= size;
    if (r->first) {
        curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &r->answer.status);
        if (r->answer.status < 300)
            r->wrong = check_body(r);
        r->first = false;
    }
    if (r->answer.status >= 300)
        return n; /* the text of a refusal */
    if (!r->wrong && n > r->size - r->got)
        r->wrong = "it gives more bytes than it was asked for";
    if (r->wrong)
        return 0;
    memcpy(r->data + r->got, data, n);
    r->got += n;
    r->failures = 0;
    r->fetch->resolved = true;
    return n;
}

static enum status begin(struct fetch *f, struct range *r)
{
    char range[64];
    uint64_t from = r->at + r->got;
    bool whole = r->size == f->cfg->size && r->got == 0;
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, from, r->at + r->size - 1);
    r->first = true;
    r->wrong = NULL;
    TRY(http_begin(&r->easy, &r->headers, f->cfg->http, f->url, whole ? NULL : range, &r->answer,
                   on_data, r));
    curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r);
    if (curl_multi_add_handle(f->multi, r->easy) != CURLM_OK)
        FAIL(ST_NOMEM, "no memory for a connection");
    return ST_OK;
}

static void end(struct fetch *f, struct range *r)
{
    if (!r->easy)
        return;
    curl_multi_remove_handle(f->multi, r->easy);
    http_free(r->easy, r->headers);
    r->easy = NULL;
}

/* Another try later, or the failure. */
static enum status try_again(struct fetch *f, struct range *r, CURLcode code)
{
    uint64_t wait = http_wait_us(&r->answer, r->failures), now = clock_us();
    if (r->failures++ >= MAX_FAILURES)
        return http_refuse(f->cfg->http, code, &r->answer, f->cfg->subject);
    if (r->answer.status == 429 && f->not_before < now + wait) {
        progress_clear(f->cfg->progress);
        stop_say_wait(wait, f->cfg->subject);
        f->not_before = now + wait;
    }
    r->not_before = now + wait;
    return ST_OK;
}

/* A connection has ended. */
static enum status on_end(struct fetch *f, struct range *r, CURLcode code)
{
    const struct ranges_config *c = f->cfg;
    http_answered(r->easy, &r->answer);
    end(f, r);
    if (r->wrong)
        FAIL(ST_PEER, "%s: the hub cannot be used: %s", c->subject, r->wrong);
    if (*r->answer.linked_etag && strcmp(r->answer.linked_etag, c->digest) != 0)
        FAIL(ST_PEER, "%s: the hub's list has the digest %s for %s, its file %s", c->subject,
             c->digest, c->progress->name, r->answer.linked_etag);
    switch (http_judge(code, &r->answer)) {
    case HTTP_GOOD:
        return r->got == r->size ? ST_OK : try_again(f, r, CURLE_PARTIAL_FILE);
    case HTTP_REDIRECT:
        if (f->redirects++ >= MAX_REDIRECTS)
            FAIL(ST_PEER, "%s: the hub redirects in a circle", c->subject);
        f->resolved = false;
        return http_redirect(f->url, &r->answer, f->url);
    case HTTP_AGAIN:
        return try_again(f, r, code);
    case HTTP_REFUSED:
        break;
    }
    if (f->redirects && (r->answer.status == 401 || r->answer.status == 403)) {
        /* an address that was valid for a while: ask the hub for another one */
        snprintf(f->url, sizeof f->url, "%s", c->url);
        f->redirects = 0;
        f->resolved = false;
        return try_again(f, r, code);
    }
    return http_refuse(c->http, code, &r->answer, c->subject);
}

/* ---- all ranges ---- */

static uint64_t received(const struct fetch *f)
{
    uint64_t n = f->written;
    for (int i = 0; i < f->cfg->connections; i++)
        n += f->range[i].taken ? f->range[i].got : 0;
    return n;
}

static enum status take(struct fetch *f, struct range *r)
{
    uint64_t left = f->cfg->size - f->next;
    r->data = r->data ? r->data : malloc(CHUNK);
    if (!r->data)
        FAIL(ST_NOMEM, "no memory for %d connections of %d bytes each", f->cfg->connections, CHUNK);
    r->fetch = f;
    r->taken = true;
    r->at = f->next;
    r->size = left < CHUNK ? left : CHUNK;
    r->got = 0;
    r->failures = 0;
    r->not_before = 0;
    f->next += r->size;
    return ST_OK;
}

/* Ranges for the free places, connections for the ranges that have none. */
static enum status start_due(struct fetch *f)
{
    uint64_t now = clock_us();
    int running = 0;
    for (int i = 0; i < f->cfg->connections; i++)
        running += f->range[i].easy != NULL;
    for (int i = 0; i < f->cfg->connections && (f->resolved || running == 0); i++) {
        struct range *r = &f->range[i];
        if (!r->taken && f->next < f->cfg->size)
            TRY(take(f, r));
        if (!r->taken || r->easy || r->got == r->size || r->not_before > now || f->not_before > now)
            continue;
        TRY(begin(f, r));
        running++;
    }
    return ST_OK;
}

static enum status write_bytes(struct fetch *f, const char *data, uint64_t n)
{
    TRY(blob_hash_add(f->cfg->hash, data, n));
    while (n) {
        ssize_t put = write(f->cfg->fd, data, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            FAIL(ST_IO, "cannot write %s: %s", f->cfg->path, strerror(put < 0 ? errno : ENOSPC));
        data += put;
        n -= (uint64_t)put;
    }
    return ST_OK;
}

/* Writes the ranges that continue the file; all: also the beginning of one that is not whole. */
static enum status flush(struct fetch *f, bool all)
{
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < f->cfg->connections; i++) {
            struct range *r = &f->range[i];
            if (!r->taken || r->at != f->written || (r->got < r->size && !all))
                continue;
            again = r->got == r->size;
            f->written += r->got;
            r->taken = false;
            TRY(write_bytes(f, r->data, r->got));
        }
    }
    return ST_OK;
}

static enum status step(struct fetch *f)
{
    int running, left;
    TRY(stop_check());
    TRY(start_due(f));
    curl_multi_perform(f->multi, &running);
    for (CURLMsg *m; (m = curl_multi_info_read(f->multi, &left));) {
        struct range *r = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
        TRY(on_end(f, r, m->data.result));
    }
    TRY(flush(f, false));
    progress_show(f->cfg->progress, received(f));
    if (f->written < f->cfg->size)
        curl_multi_poll(f->multi, NULL, 0, POLL_MS, NULL);
    return ST_OK;
}

static enum status run(struct fetch *f)
{
    enum status st = ST_OK;
    while (st == ST_OK && f->written < f->cfg->size)
        st = step(f);
    for (int i = 0; i < f->cfg->connections; i++)
        end(f, &f->range[i]);
    if (st != ST_OK && st != ST_IO) {
        /* the next run goes on from here; a failure of it changes nothing about the first one */
        char why[1024];
        snprintf(why, sizeof why, "%s", status_text());
        if (flush(f, true) != ST_OK)
            fprintf(stderr, "%s\n", status_text());
        FAIL(st, "%s", why);
    }
    return st;
}

enum status ranges_fetch(const struct ranges_config *cfg, uint64_t have)
{
    struct fetch *f = calloc(1, sizeof *f);
    if (!f || !(f->multi = curl_multi_init())) {
        free(f);
        FAIL(ST_NOMEM, "no memory for a download");
    }
    f->cfg = cfg;
    f->written = f->next = have;
    snprintf(f->url, sizeof f->url, "%s", cfg->url);
    enum status st = run(f);
    for (int i = 0; i < cfg->connections; i++)
        free(f->range[i].data);
    curl_multi_cleanup(f->multi);
    free(f);
    return st;
}
