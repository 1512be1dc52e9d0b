#include "client/gateway/replay.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/sha256.h"

enum { MAX_REPLAY_SAMPLES = 16 }; /* as MAX_SAMPLES of the protocol */

/* A row of bytes: `have` of them were passed on, `seen` of them have come since the last beginning. */
struct track {
    uint64_t have, seen;
    uint64_t have_hash, seen_hash; /* of each byte in turn: the pieces do not matter */
};

struct replay {
    bool accepted, has_digest;
    uint8_t digest[SHA256_BYTES]; /* of the prompt */
    struct track text[MAX_REPLAY_SAMPLES], ids[MAX_REPLAY_SAMPLES];
    struct track prompt; /* log probabilities of its tokens */
};

struct replay *replay_create(void)
{
    return calloc(1, sizeof(struct replay));
}

void replay_destroy(struct replay *r)
{
    free(r);
}

void replay_restart(struct replay *r)
{
    for (int i = 0; i < MAX_REPLAY_SAMPLES; i++)
        r->text[i].seen = r->text[i].seen_hash = r->ids[i].seen = r->ids[i].seen_hash = 0;
    r->prompt.seen = r->prompt.seen_hash = 0;
}

static uint64_t add(uint64_t hash, const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = hash_bytes(hash, &p[i], 1);
    return hash;
}

/* *old: how many of the bytes are known.  false: they are others. */
static bool take(struct track *t, const void *data, size_t n, size_t *old)
{
    const unsigned char *p = data;
    uint64_t left = t->have - t->seen;
    *old = left < n ? (size_t)left : n;
    t->seen += *old;
    t->seen_hash = add(t->seen_hash, p, *old);
    if (t->seen == t->have && t->seen_hash != t->have_hash)
        return false;
    if (n > *old) {
        t->have_hash = t->seen_hash = add(t->have_hash, p + *old, n - *old);
        t->have = t->seen = t->have + (n - *old);
    }
    return true;
}

/* Passes the alternatives of n tokens, and their texts. */
static void skip_tops(const uint32_t *n_top, size_t n, const struct ingot_logprob **top,
                      const uint32_t **n_text, const char **text)
{
    for (size_t i = 0; n_top && i < n; i++) {
        for (uint32_t k = 0; *n_text && k < n_top[i]; k++)
            *text += *(*n_text)++;
        *top += n_top[i];
    }
}

static void skip_texts(size_t n, const uint32_t **n_text, const char **text)
{
    for (size_t i = 0; *n_text && i < n; i++)
        *text += *(*n_text)++;
}

static void skip_ids(struct ingot_event *ev, size_t n)
{
    ev->n_ids -= (uint32_t)n;
    ev->ids += n;
    if (ev->logprobs)
        ev->logprobs += n;
    skip_tops(ev->n_top, n, &ev->top, &ev->n_top_text, &ev->top_text);
    skip_texts(n, &ev->n_token_text, &ev->token_text);
    if (ev->n_top)
        ev->n_top += n;
}

static void skip_prompt(struct ingot_prompt_logprobs *p, size_t n)
{
    p->n -= (uint32_t)n;
    p->logprobs += n;
    p->ranks += n;
    skip_tops(p->n_top, n, &p->top, &p->n_top_text, &p->top_text);
    skip_texts(n, &p->n_token_text, &p->token_text);
    if (p->n_top)
        p->n_top += n;
}

static bool take_delta(struct replay *r, struct ingot_event *ev, bool *pass)
{
    size_t n_text, n_ids, n_prompt = 0;
    if (ev->sample >= MAX_REPLAY_SAMPLES)
        return false;
    if (!take(&r->text[ev->sample], ev->text, ev->n_text, &n_text) ||
        !take(&r->ids[ev->sample], ev->ids, ev->n_ids * sizeof *ev->ids, &n_ids))
        return false;
    if (ev->prompt.n && !take(&r->prompt, ev->prompt.logprobs,
                              ev->prompt.n * sizeof *ev->prompt.logprobs, &n_prompt))
        return false;
    if (n_prompt)
        skip_prompt(&ev->prompt, n_prompt / sizeof *ev->prompt.logprobs);
    skip_ids(ev, n_ids / sizeof *ev->ids);
    ev->text += n_text;
    ev->n_text -= n_text;
    *pass = ev->n_text > 0 || ev->n_ids > 0 || ev->prompt.n > 0;
    return true;
}

static bool take_accepted(struct replay *r, const struct ingot_event *ev, bool *pass)
{
    bool same = !r->has_digest || !ev->prompt_digest ||
                memcmp(r->digest, ev->prompt_digest, sizeof r->digest) == 0;
    *pass = !r->accepted;
    r->accepted = true;
    if (ev->prompt_digest && !r->has_digest) {
        memcpy(r->digest, ev->prompt_digest, sizeof r->digest);
        r->has_digest = true;
    }
    return same;
}

/* The answer has ended: all that was known must have come. */
static bool is_whole(const struct replay *r)
{
    for (int i = 0; i < MAX_REPLAY_SAMPLES; i++)
        if (r->text[i].seen < r->text[i].have || r->ids[i].seen < r->ids[i].have)
            return false;
    return r->prompt.seen == r->prompt.have;
}

static bool is_good_end(const struct ingot_event *ev)
{
    for (uint32_t i = 0; i < ev->n_samples; i++)
        if (ev->samples[i].reason == INGOT_REASON_CANCELLED ||
            ev->samples[i].reason == INGOT_REASON_DEADLINE)
            return false;
    return true;
}

enum status replay_take(struct replay *r, struct ingot_event *ev, bool *pass)
{
    bool same = true;
    *pass = true;
    if (ev->kind == INGOT_EVENT_ACCEPTED)
        same = take_accepted(r, ev, pass);
    else if (ev->kind == INGOT_EVENT_DELTA)
        same = take_delta(r, ev, pass);
    else if (ev->kind == INGOT_EVENT_FINISH)
        same = is_whole(r) || !is_good_end(ev);
    if (!same)
        FAIL(ST_PEER,
             "the answer cannot go on: the coordinator that computes it again gives another one");
    return ST_OK;
}
