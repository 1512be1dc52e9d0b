/* What tenants use: samples in flight, tokens a minute, and the table that holds both. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/tenants.h"

static struct owner named(uint32_t i)
{
    struct owner o = {{0}};
    memcpy(o.bytes, &i, sizeof i);
    return o;
}

static struct tenant_table *bounded(uint32_t max, struct tenant_bounds bounds)
{
    struct tenant_table *t;
    cr_assert(tenant_table_create(&t, max, &bounds) == ST_OK);
    return t;
}

static struct tenant_table *table(uint32_t max)
{
    return bounded(max, (struct tenant_bounds){0});
}

static enum status enter(struct tenant_table *t, const struct owner *o,
                         const struct tenant_limits *limits, uint64_t now_us,
                         struct tenant_account **out, struct tenant_refusal *why)
{
    return tenant_enter(t, &(struct tenant_ask){o, *limits, false}, now_us, out, why);
}

Test(tenants, samples_in_flight)
{
    struct tenant_table *t = table(4);
    struct owner a = named(1), b = named(2);
    const struct tenant_limits two = {.max_samples = 2}, none = {0};
    struct tenant_account *x, *y;
    struct tenant_refusal why;
    cr_assert(enter(t, &a, &two, 0, &x, &why) == ST_OK);
    cr_assert(enter(t, &a, &two, 0, &x, &why) == ST_OK);
    cr_assert(enter(t, &a, &two, 0, &y, &why) == ST_BUSY);
    cr_assert_str_eq(why.field, "tenant_limits.max_samples");
    cr_assert(why.retry_after_ms > 0 && y == NULL);
    for (int i = 0; i < 10;
         i++) /* another tenant has places of its own, one without a limit any number */
        cr_assert(enter(t, &b, &none, 0, &y, &why) == ST_OK);
    tenant_leave(t, x, 1);
    cr_assert(tenant_more(t, x, 1, &why) == ST_OK);
    cr_assert(tenant_more(t, x, 1, &why) == ST_BUSY);
    cr_assert(tenant_more(t, x, 2, &why) == ST_RANGE && why.retry_after_ms == 0);
    cr_assert_str_eq(why.field, "n");
    cr_assert(tenant_more(t, y, 1000, &why) == ST_OK);
    tenant_leave(t, x, 2);
    tenant_leave(t, y, 1010);
    cr_assert(enter(t, &a, &two, 0, &x, &why) == ST_OK);
    tenant_table_destroy(t);
}

Test(tenants, tokens_a_minute)
{
    struct tenant_table *t = table(4);
    struct owner a = named(1);
    const struct tenant_limits l = {.tokens_per_minute = 60}; /* one a second */
    struct tenant_account *x;
    struct tenant_refusal why;
    uint64_t now = 1000000;
    cr_assert(enter(t, &a, &l, now, &x, &why) == ST_OK);
    tenant_charge(x, 59, now);
    cr_assert(enter(t, &a, &l, now, &x, &why) == ST_OK); /* one token is left */
    tenant_charge(x, 4, now);                            /* overdrawn by three */
    cr_assert(enter(t, &a, &l, now, &x, &why) == ST_BUSY);
    cr_assert_str_eq(why.field, "tenant_limits.tokens_per_minute");
    cr_assert(why.retry_after_ms == 3001, "%u", why.retry_after_ms);
    cr_assert(enter(t, &a, &l, now + 2999 * 1000, &x, &why) == ST_BUSY);
    cr_assert(enter(t, &a, &l, now + 3001 * 1000, &x, &why) == ST_OK);
    /* never more than a minute's tokens, however long it rests */
    now += UINT64_C(1000) * 1000 * 1000 * 1000;
    cr_assert(enter(t, &a, &l, now, &x, &why) == ST_OK);
    tenant_charge(x, 60, now);
    cr_assert(enter(t, &a, &l, now, &x, &why) == ST_BUSY);
    cr_assert(why.retry_after_ms == 1);
    /* the largest rate loses no token to rounding that matters */
    const struct tenant_limits fast = {.tokens_per_minute = UINT32_MAX};
    struct owner b = named(2);
    cr_assert(enter(t, &b, &fast, now, &x, &why) == ST_OK);
    for (int i = 0; i < 100; i++)
        tenant_charge(x, UINT32_MAX / 50, now);
    cr_assert(enter(t, &b, &fast, now, &x, &why) == ST_BUSY);
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
    struct owner a;
    for (uint32_t i = 0; i < 10000; i++) { /* one after the other: all in the same few places */
        a = named(i);
        cr_assert(enter(t, &a, &l, i, &y, &why) == ST_OK);
        tenant_leave(t, y, 1);
        cr_assert(tenant_accounts(t) <= 2);
    }
    for (uint32_t i = 0; i < MAX; i++) { /* all at once */
        a = named(i);
        cr_assert(enter(t, &a, &l, 20000, &x[i], &why) == ST_OK, "%u", i);
    }
    a = named(MAX);
    cr_assert(enter(t, &a, &l, 20000, &y, &why) == ST_BUSY);
    cr_assert_str_eq(why.field, "");
    cr_assert(tenant_accounts(t) == MAX);
    /* one that owes is not forgotten before it has paid */
    tenant_charge(x[0], 61, 20000);
    tenant_leave(t, x[0], 1);
    cr_assert(enter(t, &a, &l, 20000, &y, &why) == ST_BUSY);
    cr_assert(enter(t, &a, &l, 20000 + UINT64_C(61) * 1000000, &y, &why) == ST_OK);
    for (uint32_t i = 1; i < MAX; i++)
        tenant_leave(t, x[i], 1);
    tenant_table_destroy(t);
}

Test(tenants, bounds_of_the_server)
{
    struct tenant_table *t = bounded(
        4, (struct tenant_bounds){.max_samples = 4, .max_queued = 3, .max_queued_tokens = 100});
    struct owner a = named(1), b = named(2);
    const struct tenant_limits none = {0};
    struct tenant_account *x, *y, *z;
    struct tenant_refusal why;
    cr_assert(enter(t, &a, &none, 0, &x, &why) == ST_OK);
    cr_assert(tenant_more(t, x, 4, &why) == ST_RANGE && why.retry_after_ms == 0);
    cr_assert_str_eq(why.field, "n");
    cr_assert(strstr(status_text(), "--tenant-requests"), "%s", status_text());
    cr_assert(tenant_more(t, x, 3, &why) == ST_OK);
    cr_assert(enter(t, &a, &none, 0, &z, &why) == ST_BUSY && why.retry_after_ms > 0);
    cr_assert(strstr(status_text(), "it may have 4 (--tenant-requests)"), "%s", status_text());
    cr_assert(enter(t, &b, &none, 0, &y, &why) == ST_OK, "another one has places of its own");
    cr_assert(tenant_queue(t, x, 4, 10, &why) == ST_BUSY && why.retry_after_ms > 0);
    cr_assert(strstr(status_text(), "--max-queued"), "%s", status_text());
    cr_assert(tenant_queue(t, x, 2, 51, &why) == ST_RANGE && why.retry_after_ms == 0);
    cr_assert(tenant_queue(t, x, 2, 40, &why) == ST_OK);
    cr_assert(tenant_queue(t, x, 1, 21, &why) == ST_BUSY && why.retry_after_ms > 0);
    cr_assert(strstr(status_text(), "80 prompt tokens of this tenant wait: it may have 100"), "%s",
              status_text());
    cr_assert(tenant_queue(t, y, 1, 100, &why) == ST_OK);
    tenant_unqueue(x, 1, 40);
    cr_assert(tenant_queue(t, x, 1, 60, &why) == ST_OK);
    /* resumed ones come from another server, which had the same bound */
    const struct tenant_ask resumed = {&a, none, true};
    for (int i = 0; i < 4; i++)
        cr_assert(tenant_enter(t, &resumed, 0, &z, &why) == ST_OK);
    cr_assert(tenant_enter(t, &resumed, 0, &z, &why) == ST_BUSY && why.retry_after_ms > 0);
    tenant_table_destroy(t);
}
