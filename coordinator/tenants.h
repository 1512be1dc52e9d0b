/* What each owner of requests uses now: samples in flight, samples and prompt tokens that wait, and tokens of the last
 * minute.  A table of fixed size; each call takes the same time for any number of owners.  An account that uses nothing
 * and owes nothing is as good as a new one, so its place is given away when another owner needs it.  One thread (the
 * loop). */
#ifndef COORDINATOR_TENANTS_H
#define COORDINATOR_TENANTS_H

#include "coordinator/owner.h"

enum { MAX_TENANT_ACCOUNTS = 16384 };

struct tenant_table;
struct tenant_account;

/* What the server lets one owner have, whatever limits its requests bring; 0: no bound. */
struct tenant_bounds {
    uint32_t max_samples; /* in flight: running and waiting; twice as many with resumed ones */
    uint32_t max_queued;  /* samples that wait */
    uint64_t max_queued_tokens;
};

MUST_CHECK enum status tenant_table_create(struct tenant_table **out, uint32_t max_accounts,
                                           const struct tenant_bounds *bounds);
void tenant_table_destroy(struct tenant_table *t); /* NULL is fine */

/* Why a request is refused. */
struct tenant_refusal {
    const char *field;       /* path of the limit, or "" */
    uint32_t retry_after_ms; /* 0: trying again does not help */
};

/* Who asks, and with what limits from now on; a resumed request is not refused because of these. */
struct tenant_ask {
    const struct owner *owner;
    struct tenant_limits limits; /* zeros: none */
    bool resumed;
};

/* One more sample.  *out is valid until as many tenant_leave.  ST_BUSY: a limit or bound is reached, or all accounts are
 * in use. */
MUST_CHECK enum status tenant_enter(struct tenant_table *t, const struct tenant_ask *ask,
                                    uint64_t now_us, struct tenant_account **out,
                                    struct tenant_refusal *why);
/* n more samples of a resumed request. */
void tenant_more_resumed(struct tenant_account *a, uint32_t n);
/* n more samples.  ST_BUSY; ST_RANGE: more than the owner may ever have, with the ones of this request that it has
 * already. */
MUST_CHECK enum status tenant_more(const struct tenant_table *t, struct tenant_account *a,
                                   uint32_t n, struct tenant_refusal *why);
/* n samples of n_tokens prompt tokens each wait from now on.  ST_BUSY; ST_RANGE: more than may ever wait. */
MUST_CHECK enum status tenant_queue(const struct tenant_table *t, struct tenant_account *a,
                                    uint32_t n, uint32_t n_tokens, struct tenant_refusal *why);
/* n of them have started, or ended before that. */
void tenant_unqueue(struct tenant_account *a, uint32_t n, uint32_t n_tokens);
/* Tokens that were used. */
void tenant_charge(struct tenant_account *a, uint64_t n_tokens, uint64_t now_us);
/* n samples have ended. */
void tenant_leave(struct tenant_table *t, struct tenant_account *a, uint32_t n);

uint32_t tenant_accounts(const struct tenant_table *t); /* in use */

#endif
