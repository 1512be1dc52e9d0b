/* What each tenant with limits uses now: samples in flight, and tokens of the last minute.  A table of fixed size;
 * each call takes the same time for any number of tenants.  An account that uses nothing and owes nothing is as good
 * as a new one, so its place is given away when another tenant needs it.  One thread (the loop). */
#ifndef COORDINATOR_TENANTS_H
#define COORDINATOR_TENANTS_H

#include "common/wire/client_msg.h"

enum { MAX_TENANT_ACCOUNTS = 16384 };

struct tenant_table;
struct tenant_account;

MUST_CHECK enum status tenant_table_create(struct tenant_table **out, uint32_t max_accounts);
void tenant_table_destroy(struct tenant_table *t); /* NULL is fine */

/* Why a request is refused. */
struct tenant_refusal {
    const char *field;       /* path of the limit, or "" */
    uint32_t retry_after_ms; /* 0: trying again does not help */
};

/* One more sample of the tenant, whose limits are these from now on.  *out is valid until as many tenant_leave.
 * ST_BUSY: a limit is reached, or all accounts are in use; ST_RANGE: tenant_more alone. */
MUST_CHECK enum status tenant_enter(struct tenant_table *t, const struct tenant *tenant,
                                    const struct tenant_limits *limits, uint64_t now_us,
                                    struct tenant_account **out, struct tenant_refusal *why);
/* As tenant_enter, of a resumed request: no limit refuses it.  NULL: all accounts are in use. */
struct tenant_account *tenant_enter_resumed(struct tenant_table *t, const struct tenant *tenant,
                                            const struct tenant_limits *limits, uint64_t now_us);
/* n more samples of a resumed request. */
void tenant_more_resumed(struct tenant_account *a, uint32_t n);
/* n more samples.  ST_RANGE: more than the tenant may ever have, with the ones of this request that it has already. */
MUST_CHECK enum status tenant_more(struct tenant_account *a, uint32_t n,
                                   struct tenant_refusal *why);
/* Tokens that were used. */
void tenant_charge(struct tenant_account *a, uint64_t n_tokens, uint64_t now_us);
/* n samples have ended. */
void tenant_leave(struct tenant_table *t, struct tenant_account *a, uint32_t n);

uint32_t tenant_accounts(const struct tenant_table *t); /* in use */

#endif
