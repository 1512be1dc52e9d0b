/* The ranks' weights digests beside each other. */
#include <criterion/criterion.h>
#include <string.h>

#include "worker/rank_weights.h"

enum { K = DIGEST_KNOWN, P = DIGEST_PENDING, N = DIGEST_NONE };

/* Two hosts of two ranks. */
static const struct row {
    uint8_t state[4], digest[4];
    enum status st;
    enum rank_agreement agreement;
    const char *says;
} rows[] = {
    {{K, K, K, K}, {7, 7, 7, 7}, ST_OK, RANKS_AGREE, NULL},
    {{K, N, K, N}, {7, 0, 7, 0}, ST_OK, RANKS_AGREE, NULL}, /* others of their hosts have one */
    {{K, K, P, K}, {7, 7, 0, 7}, ST_OK, RANKS_WAIT, NULL},
    {{P, K, K, K}, {0, 7, 8, 7}, ST_OK, RANKS_WAIT, NULL}, /* nothing to compare with yet */
    {{K, K, N, K}, {7, 7, 0, 7}, ST_OK, RANKS_NEVER, NULL},
    {{K, P, N, K}, {7, 0, 0, 7}, ST_OK, RANKS_NEVER, NULL},
    {{N, K, K, K}, {0, 7, 7, 7}, ST_OK, RANKS_NEVER, NULL},
    {{K, K, K, K}, {7, 7, 8, 8}, ST_RANGE, RANKS_AGREE, "rank 2 has other weights than rank 0"},
    {{K, P, P, K}, {7, 0, 0, 9}, ST_RANGE, RANKS_AGREE, "rank 3 has other weights than rank 0"},
};

Test(rank_weights, comparison)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *w = &rows[i];
        struct rank_weights all[4];
        enum rank_agreement got;
        for (int r = 0; r < 4; r++) {
            all[r] = (struct rank_weights){.state = w->state[r], .first_on_host = r % 2 == 0};
            memset(all[r].digest, w->digest[r], sizeof all[r].digest);
        }
        enum status st = rank_weights_compare(all, 4, &got);
        cr_expect_eq(st, w->st, "row %zu: %s", i, status_name(st));
        if (w->st == ST_OK)
            cr_expect_eq(got, w->agreement, "row %zu: %d", i, (int)got);
        else
            cr_expect(strstr(status_text(), w->says), "row %zu: %s", i, status_text());
    }
}

Test(rank_weights, of_a_rank_without_a_model)
{
    struct rank_weights mine = rank_weights_of(NULL, true);
    cr_expect_eq(mine.state, DIGEST_NONE);
    cr_expect_eq(mine.first_on_host, 1);
}
