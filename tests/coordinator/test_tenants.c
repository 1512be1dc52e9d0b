/* What tenants use: samples in flight, tokens a minute, and the table that holds both. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/tenants.h"

static struct tenant named(uint32_t i)
{
    struct tenant t = {.n = 12};
    char text[13];
    snprintf(text, sizeof text, "tenant %05u", i % 100000);
    memcpy(t.bytes, text, t.n);
    return t;
}

static struct tenant_table *table(uint32_t max)
{
    struct tenant_table *t;
    cr_assert(tenant_table_create(&t, max) == ST_OK);
    return t;
}

Test(tenants, samples_in_flight)
{
    struct tenant_table *t = table(4);
    struct tenant a = named(1), b = named(2);
    const struct tenant_limits two = {.max_samples = 2}, none = {0};
    struct tenant_account *x, *y;
    struct tenant_refusal why;
    cr_assert(tenant_enter(t, &a, &two, 0, &x, &why) == ST_OK);
    cr_assert(tenant_enter(t, &a, &two, 0, &x, &why) == ST_OK);
    cr_assert(tenant_enter(t, &a, &two, 0, &y, &why) == ST_BUSY);
    cr_assert_str_eq(why.field, "tenant_limits.max_samples");
    cr_assert(why.retry_after_ms > 0 && y == NULL);
    for (int i = 0; i < 10;
         i++) /* another tenant has places of its own, one without a limit any number */
        cr_assert(tenant_enter(t, &b, &none, 0, &y, &why) == ST_OK);
    tenant_leave(t, x, 1);
    cr_assert(tenant_more(x, 1, &why) == ST_OK);
    cr_assert(tenant_more(x, 1, &why) == ST_BUSY);
    cr_assert(tenant_more(x, 2, &why) == ST_RANGE && why.retry_after_ms == 0);
    cr_assert_str_eq(why.field, "n");
    cr_assert(tenant_more(y, 1000, &why) == ST_OK);
    tenant_leave(t, x, 2);
    tenant_leave(t, y, 1010);
    cr_assert(tenant_enter(t, &a, &two, 0, &x, &why) == ST_OK);
    tenant_table_destroy(t);
}

Test(tenants, tokens_a_minute)
{
    struct tenant_table *t = table(4);
    struct tenant a = named(1);
    const struct tenant_limits l = {.tokens_per_minute = 60}; /* one a second */
    struct tenant_account *x;
    struct tenant_refusal why;
    uint64_t now = 1000000;
    cr_assert(tenant_enter(t, &a, &l, now, &x, &why) == ST_OK);
    tenant_charge(x, 59, now);
    cr_assert(tenant_enter(t, &a, &l, now, &x, &why) == ST_OK); /* one token is left */
    tenant_charge(x, 4, now);                                   /* overdrawn by three */
    cr_assert(tenant_enter(t, &a, &l, now, &x, &why) == ST_BUSY);
    cr_assert_str_eq(why.field, "tenant_limits.tokens_per_minute");
    cr_assert(why.retry_after_ms == 3001, "%u", why.retry_after_ms);
    cr_assert(tenant_enter(t, &a, &l, now + 2999 * 1000, &x, &why) == ST_BUSY);
    cr_assert(tenant_enter(t, &a, &l, now + 3001 * 1000, &x, &why) == ST_OK);
    /* never more than a minute's tokens, however long it rests */
    now += UINT64_C(1000) * 1000 * 1000 * 1000;
    cr_assert(tenant_enter(t, &a, &l, now, &x, &why) == ST_OK);
    tenant_charge(x, 60, now);
    cr_assert(tenant_enter(t, &a, &l, now, &x, &why) == ST_BUSY);
    cr_assert(why.retry_after_ms == 1);
    /* the largest rate loses no token to rounding that matters */
    const struct tenant_limits fast = {.tokens_per_minute = UINT32_MAX};
    struct tenant b = named(2);
    cr_assert(tenant_enter(t, &b, &fast, now, &x, &why) == ST_OK);
    for (int i = 0; i < 100; i++)
        tenant_charge(x, UINT32_MAX / 50, now);
    cr_assert(tenant_enter(t, &b, &fast, now, &x, &why) == ST_BUSY);
    cr_assert(why.retry_after_ms > 59000 && why.retry_after_ms < 61000);
    tenant_table_destroy(t);
}

Test(tenants, the_table_is_bounded_and_forgets)
{
    enum { MAX = 64 };
    struct tenant_table *t = table(MAX);
    struct tenant_account *x[MAX], *y;
    const struct tenant_limits l = {.max_samples = 1, .tokens_per_minute = 60};
    struct tenant_refusal why;
    struct tenant a;
    for (uint32_t i = 0; i < 10000; i++) { /* one after the other: all in the same few places */
        a = named(i);
        cr_assert(tenant_enter(t, &a, &l, i, &y, &why) == ST_OK);
        tenant_leave(t, y, 1);
        cr_assert(tenant_accounts(t) <= 2);
    }
    for (uint32_t i = 0; i < MAX; i++) { /* all at once */
        a = named(i);
        cr_assert(tenant_enter(t, &a, &l, 20000, &x[i], &why) == ST_OK, "%u", i);
    }
    a = named(MAX);
    cr_assert(tenant_enter(t, &a, &l, 20000, &y, &why) == ST_BUSY);
    cr_assert_str_eq(why.field, "");
    cr_assert(tenant_accounts(t) == MAX);
    /* one that owes is not forgotten before it has paid */
    tenant_charge(x[0], 61, 20000);
    tenant_leave(t, x[0], 1);
    cr_assert(tenant_enter(t, &a, &l, 20000, &y, &why) == ST_BUSY);
    cr_assert(tenant_enter(t, &a, &l, 20000 + UINT64_C(61) * 1000000, &y, &why) == ST_OK);
    for (uint32_t i = 1; i < MAX; i++)
        tenant_leave(t, x[i], 1);
    tenant_table_destroy(t);
}
