/* The names of the hosts of a group's ranks, for log lines and status. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "worker/rank_hosts.h"

static void expect(const char (*names)[64], int n, const char *want)
{
    char out[RANK_HOSTS_SIZE];
    rank_hosts_write(names, n, out, sizeof out);
    cr_assert_str_eq(out, want);
}

Test(rank_hosts, neighbouring_ranks_of_a_host_are_one_entry)
{
    const char names[6][64] = {"w1", "w1", "w2", "w3", "w3", "w1"};
    expect(names, 1, "w1 0");
    expect(names, 2, "w1 0-1");
    expect(names, 6, "w1 0-1, w2 2, w3 3-4, w1 5");
    expect(names, 0, "");
}

Test(rank_hosts, names_that_do_not_fit_are_replaced)
{
    char names[200][64], out[64], want[64] = "";
    for (int i = 0; i < 200; i++)
        snprintf(names[i], sizeof names[i], "host-%d", i);
    for (size_t size = sizeof out; size >= 8; size--) {
        memset(out, 'x', sizeof out);
        rank_hosts_write((const char(*)[64])names, 200, out, size);
        size_t n = strlen(out);
        cr_assert(n < size);
        cr_assert_str_eq(out + n - 3, "...");
        for (size_t i = size; i < sizeof out; i++)
            cr_assert_eq(out[i], 'x');
    }
    rank_hosts_write((const char(*)[64])names, 3, out, sizeof out);
    snprintf(want, sizeof want, "host-0 0, host-1 1, host-2 2");
    cr_assert_str_eq(out, want);
}
