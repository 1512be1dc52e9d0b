#include "coordinator/tenants.h"

#include <stdlib.h>

#include "common/hash.h"
#include "common/random.h"

enum { RETRY_SAMPLES_MS = 1000 };
#define MINUTE_NS UINT64_C(60000000000)

/* The bucket of tokens is a time: full_ns is when it is full again.  It is empty when that is a minute or more away,
 * and a token moves it by a minute / tokens_per_minute. */
struct tenant_account {
    struct owner owner;
    struct tenant_limits limits;
    uint32_t in_flight, queued; /* queued: of them, wait */
    uint64_t queued_tokens;
    uint64_t full_ns;
    struct tenant_account *next_same_hash;
    struct tenant_account *prev_idle, *next_idle; /* in_flight 0: in the order of becoming idle */
};

struct tenant_table {
    struct tenant_bounds bounds;
    struct tenant_account *account; /* [max] */
    uint32_t max, n_used;           /* used: ever, so far; then those of the free list */
    struct tenant_account *free;    /* by next_same_hash */
    struct tenant_account **buckets;
    uint32_t n_buckets; /* a power of two, at least max */
    uint32_t n_accounts;
    uint64_t hash_seed;
    struct tenant_account *first_idle, *last_idle;
};

enum status tenant_table_create(struct tenant_table **out, uint32_t max_accounts,
                                const struct tenant_bounds *bounds)
{
    struct tenant_table *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        FAIL(ST_NOMEM, "no memory for the tenants");
    for (t->n_buckets = 1; t->n_buckets < max_accounts;)
        t->n_buckets *= 2;
    t->account = calloc(max_accounts, sizeof *t->account);
    t->buckets = calloc(t->n_buckets, sizeof(struct tenant_account *));
    if (!t->account || !t->buckets) {
        tenant_table_destroy(t);
        FAIL(ST_NOMEM, "no memory for %u tenants", max_accounts);
    }
    t->max = max_accounts;
    t->bounds = *bounds;
    t->hash_seed = random_u64();
    *out = t;
    return ST_OK;
}

void tenant_table_destroy(struct tenant_table *t)
{
    if (!t)
        return;
    free(t->account);
    free(t->buckets);
    free(t);
}

static struct tenant_account **bucket_of(struct tenant_table *t, const struct owner *owner)
{
    uint64_t h = hash_bytes(t->hash_seed, owner->bytes, sizeof owner->bytes);
    return &t->buckets[h & (t->n_buckets - 1)];
}

/* ---- idle accounts ---- */

static void become_idle(struct tenant_table *t, struct tenant_account *a)
{
    a->prev_idle = t->last_idle;
    a->next_idle = NULL;
    if (t->last_idle)
        t->last_idle->next_idle = a;
    else
        t->first_idle = a;
    t->last_idle = a;
}

static void leave_idle(struct tenant_table *t, struct tenant_account *a)
{
    if (a->prev_idle)
        a->prev_idle->next_idle = a->next_idle;
    else
        t->first_idle = a->next_idle;
    if (a->next_idle)
        a->next_idle->prev_idle = a->prev_idle;
    else
        t->last_idle = a->prev_idle;
    a->prev_idle = a->next_idle = NULL;
}

static void forget(struct tenant_table *t, struct tenant_account *a)
{
    struct tenant_account **at = bucket_of(t, &a->owner);
    leave_idle(t, a);
    while (*at != a)
        at = &(*at)->next_same_hash;
    *at = a->next_same_hash;
    a->next_same_hash = t->free;
    t->free = a;
    t->n_accounts--;
}

/* Forgets the account that is idle for longest if it owes nothing; one that owes goes to the end of the list. */
static void forget_one(struct tenant_table *t, uint64_t now_ns)
{
    struct tenant_account *a = t->first_idle;
    if (!a)
        return;
    if (a->full_ns <= now_ns) {
        forget(t, a);
        return;
    }
    leave_idle(t, a);
    become_idle(t, a);
}

/* ---- accounts ---- */

static struct tenant_account *find(struct tenant_table *t, const struct owner *owner)
{
    struct tenant_account *a = *bucket_of(t, owner);
    while (a && !owner_equal(&a->owner, owner))
        a = a->next_same_hash;
    return a;
}

static struct tenant_account *add(struct tenant_table *t, const struct owner *owner,
                                  uint64_t now_ns)
{
    forget_one(t, now_ns); /* two for each new one: the table shrinks by itself */
    forget_one(t, now_ns);
    struct tenant_account *a = t->free, **bucket = bucket_of(t, owner);
    if (a)
        t->free = a->next_same_hash;
    else if (t->n_used < t->max)
        a = &t->account[t->n_used++];
    else
        return NULL;
    *a = (struct tenant_account){.owner = *owner, .next_same_hash = *bucket};
    *bucket = a;
    t->n_accounts++;
    become_idle(t, a);
    return a;
}

static uint32_t ms_of(uint64_t ns)
{
    uint64_t ms = ns / 1000000 + 1;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

static enum status check_limits(const struct tenant_account *a, uint64_t now_ns,
                                struct tenant_refusal *why)
{
    const struct tenant_limits *l = &a->limits;
    if (l->max_samples && a->in_flight >= l->max_samples) {
        *why = (struct tenant_refusal){"tenant_limits.max_samples", RETRY_SAMPLES_MS};
        FAIL(ST_BUSY, "%u samples of this tenant are in flight: it may have %u", a->in_flight,
             l->max_samples);
    }
    if (l->tokens_per_minute && a->full_ns >= now_ns + MINUTE_NS) {
        uint32_t ms = ms_of(a->full_ns - now_ns - MINUTE_NS);
        *why = (struct tenant_refusal){"tenant_limits.tokens_per_minute", ms};
        FAIL(ST_BUSY, "this tenant has used its %u tokens a minute", l->tokens_per_minute);
    }
    return ST_OK;
}

/* May n more samples be in flight? */
static enum status check_bound(const struct tenant_table *t, const struct tenant_account *a,
                               uint32_t n, bool resumed)
{
    uint32_t max = t->bounds.max_samples;
    uint64_t all = (uint64_t)a->in_flight + n;
    if (max && all > (resumed ? 2 * (uint64_t)max : max))
        FAIL(ST_BUSY,
             "this tenant has %u samples that run or wait: it may have %u%s "
             "(--tenant-requests)",
             a->in_flight, max, resumed ? ", twice that with resumed ones" : "");
    return ST_OK;
}

enum status tenant_enter(struct tenant_table *t, const struct tenant_ask *ask, uint64_t now_us,
                         struct tenant_account **out, struct tenant_refusal *why)
{
    uint64_t now_ns = 1000 * now_us;
    struct tenant_account *a = find(t, ask->owner);
    *out = NULL;
    *why = (struct tenant_refusal){"", RETRY_SAMPLES_MS};
    if (!a)
        a = add(t, ask->owner, now_ns);
    if (!a)
        FAIL(ST_BUSY, "%u tenants are being served: no more fit", t->max);
    a->limits = ask->limits;
    if (!ask->resumed)
        TRY(check_limits(a, now_ns, why));
    TRY(check_bound(t, a, 1, ask->resumed));
    if (a->in_flight++ == 0)
        leave_idle(t, a);
    *out = a;
    return ST_OK;
}

void tenant_more_resumed(struct tenant_account *a, uint32_t n)
{
    a->in_flight += n;
}

enum status tenant_more(const struct tenant_table *t, struct tenant_account *a, uint32_t n,
                        struct tenant_refusal *why)
{
    uint32_t max = a->limits.max_samples, bound = t->bounds.max_samples;
    *why = (struct tenant_refusal){"n", 0};
    if (max && n >= max)
        FAIL(ST_RANGE, "n is %u: this tenant may have %u samples in flight", n + 1, max);
    if (bound && n >= bound)
        FAIL(ST_RANGE, "n is %u: a tenant may have %u samples in flight (--tenant-requests)", n + 1,
             bound);
    if (max && a->in_flight + n > max) {
        *why = (struct tenant_refusal){"tenant_limits.max_samples", RETRY_SAMPLES_MS};
        FAIL(ST_BUSY, "%u samples of this tenant would be in flight: it may have %u",
             a->in_flight + n, max);
    }
    *why = (struct tenant_refusal){"", RETRY_SAMPLES_MS};
    TRY(check_bound(t, a, n, false));
    a->in_flight += n;
    return ST_OK;
}

enum status tenant_queue(const struct tenant_table *t, struct tenant_account *a, uint32_t n,
                         uint32_t n_tokens, struct tenant_refusal *why)
{
    const struct tenant_bounds *b = &t->bounds;
    uint64_t tokens = (uint64_t)n * n_tokens;
    *why = (struct tenant_refusal){"", 0};
    if (b->max_queued_tokens && tokens > b->max_queued_tokens)
        FAIL(ST_RANGE,
             "%u samples of %u prompt tokens: %llu tokens of a tenant may wait "
             "(--tenant-queued-tokens)",
             n, n_tokens, (unsigned long long)b->max_queued_tokens);
    why->retry_after_ms = RETRY_SAMPLES_MS;
    if (b->max_queued && a->queued + n > b->max_queued)
        FAIL(ST_BUSY, "%u samples of this tenant wait: it may have %u of the queue (--max-queued)",
             a->queued, b->max_queued);
    if (b->max_queued_tokens && a->queued_tokens + tokens > b->max_queued_tokens)
        FAIL(ST_BUSY,
             "%llu prompt tokens of this tenant wait: it may have %llu (--tenant-queued-tokens)",
             (unsigned long long)a->queued_tokens, (unsigned long long)b->max_queued_tokens);
    a->queued += n;
    a->queued_tokens += tokens;
    return ST_OK;
}

void tenant_unqueue(struct tenant_account *a, uint32_t n, uint32_t n_tokens)
{
    a->queued -= n;
    a->queued_tokens -= (uint64_t)n * n_tokens;
}

void tenant_charge(struct tenant_account *a, uint64_t n_tokens, uint64_t now_us)
{
    uint64_t now_ns = 1000 * now_us;
    if (!a->limits.tokens_per_minute)
        return;
    if (a->full_ns < now_ns)
        a->full_ns = now_ns;
    a->full_ns += n_tokens * MINUTE_NS / a->limits.tokens_per_minute;
}

void tenant_leave(struct tenant_table *t, struct tenant_account *a, uint32_t n)
{
    a->in_flight -= n;
    if (a->in_flight == 0)
        become_idle(t, a);
}

uint32_t tenant_accounts(const struct tenant_table *t)
{
    return t->n_accounts;
}
