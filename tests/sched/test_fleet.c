/* Several groups and one queue: random calls (every stream equals the oracle's wherever it was computed), the rules of
 * placement.h as tables, and the order of the queue over groups. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "effort.h"
#include "sched/fleet_driver.h"

#define Q .max_waiting = 24, .max_waiting_tokens = 1500
#define T                                                                                          \
    .target_itl_us = SCHED_AUTO, .max_step_us = SCHED_AUTO, .prefill_loss_pct = 4,                 \
    .target_of_all = true, .turn_tokens = 4

/* clang-format off */
static const struct { const char *name; struct sched_config cfg; } rows[] = {
    {"timed", {Q, T, .max_seqs = 4, .max_step_tokens = 24, .max_ctx = 120, .n_blocks = 60, .block_len = 4, .prefix_cache = true, .max_inflight = 2, .overtake = 8}},
    {"timed, tiny KV", {Q, T, .max_seqs = 5, .max_step_tokens = 12, .max_ctx = 60, .n_blocks = 18, .block_len = 4, .prefix_cache = true, .max_inflight = 2}},
    {"timed, one sequence", {Q, T, .max_seqs = 1, .max_step_tokens = 12, .max_ctx = 60, .n_blocks = 18, .block_len = 4}},
    {"by tokens", {Q, .max_seqs = 6, .max_step_tokens = 16, .max_ctx = 120, .n_blocks = 60, .block_len = 4, .prefix_cache = true, .max_inflight = 2}},
};
/* clang-format on */

Test(fleet, every_stream_has_its_tokens_wherever_it_runs, .timeout = 600)
{
    uint64_t n_balanced = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dice one = {.state = 77 + i}, two = one;
        struct fleet_report a, b;
        uint64_t n = (uint64_t)effort(100000, 30000);
        fleet_driver_run(&rows[i].cfg, &one, n, NULL, &a);
        cr_assert(a.n_finished > 100 && a.n_lost > 10 && a.n_expired > 0,
                  "%s: %llu finished, %llu lost", rows[i].name, (unsigned long long)a.n_finished,
                  (unsigned long long)a.n_lost);
        n_balanced += a.n_balanced;
        for (int g = 0; g < FLEET_DRIVER_GROUPS; g++)
            cr_assert(a.tokens[g] > a.n_tokens / 50, "%s: group %d", rows[i].name, g);
        fleet_driver_run(&rows[i].cfg, &two, n, NULL, &b);
        cr_assert(memcmp(&a, &b, sizeof a) == 0, "%s: another run differs", rows[i].name);
    }
    cr_assert(n_balanced > 20, "%llu moves to even out", (unsigned long long)n_balanced);
}

/* ---- placement ---- */

static struct placement_group group(uint32_t live, uint64_t todo, uint32_t fresh, uint32_t known)
{
    return (struct placement_group){.serves = true,
                                    .fits = true,
                                    .max_seqs = 64,
                                    .load = {.live = live, .todo = todo, .fresh = fresh},
                                    .known = known};
}

Test(placement, the_least_work_is_chosen)
{
    struct placement_group g[3] = {group(2, 0, 0, 0), group(1, 0, 0, 0), group(1, 10, 0, 0)};
    cr_assert_eq(placement_choose(g, 3, 100), 1);
    g[1].load.live = 3;
    cr_assert_eq(placement_choose(g, 3, 100), 2);
    g[0] = g[1] = g[2];
    cr_assert_eq(placement_choose(g, 3, 100), 0, "of equals the first");
    cr_assert_eq(placement_choose(g, 0, 100), -1);
}

Test(placement, a_cached_prefix_is_worth_its_tokens)
{
    struct placement_group g[2] = {group(0, 0, 0, 0), group(3, 0, 0, 1000)};
    cr_assert_eq(placement_choose(g, 2, 1000), 1, "3 sequences cost less than 1000 tokens");
    g[1].load.live = 4;
    cr_assert_eq(placement_choose(g, 2, 1000), 0);
    cr_assert_eq(placement_choose(g, 2, 900), 0, "no more is known than there is");
}

Test(placement, groups_without_room_are_passed)
{
    struct placement_group g[2] = {group(0, 0, AHEAD_OPENS, 0), group(50, 0, 0, 0)};
    cr_assert_eq(placement_choose(g, 2, 10), 1);
    g[1].serves = false;
    cr_assert_eq(placement_choose(g, 2, 10), -1);
    g[0].load.fresh--;
    cr_assert_eq(placement_choose(g, 2, 10), 0);
    g[0].fits = false;
    cr_assert_eq(placement_choose(g, 2, 10), -1);
    g[0] = group(64, 0, AHEAD_TURNS, 0);
    cr_assert_eq(placement_choose(g, 2, 10), -1, "it is full");
    g[0].load.fresh--;
    cr_assert_eq(placement_choose(g, 2, 10), 0);
}

Test(placement, two_groups_under_load_have_a_quarter_each)
{
    for (uint32_t a = 0; a < 40; a++)
        for (uint32_t b = 0; b < 40; b++) {
            struct placement_group g[3] = {
                {.serves = false, .load.live = 99}, group(a, 0, 0, 0), group(b, 0, 0, 0)};
            uint32_t from = 9, to = 9, n = placement_balance(g, 3, &from, &to);
            if (n) {
                cr_assert(from == (a > b ? 1u : 2u) && to == 3 - from);
                g[from].load.live -= n;
                g[to].load.live += n;
                cr_assert_eq(placement_balance(g, 3, &from, &to), 0, "it stays so");
            }
            uint32_t x = g[1].load.live, y = g[2].load.live, least = x < y ? x : y;
            cr_assert(4 * least >= x + y || x + y < 2, "%u and %u", x, y);
        }
}

/* ---- the queue over groups ---- */

static int32_t tokens[64][40];

static struct sched_req request(uint64_t id, uint64_t tenant, int32_t priority)
{
    struct sched_req r = {.seq_id = id,
                          .tenant = tenant,
                          .salt = id,
                          .priority = priority,
                          .tokens = tokens[id % 64],
                          .n_tokens = 8,
                          .n_prompt = 8,
                          .max_new = 8};
    r.sp.top_k = 1;
    return r;
}

static struct fleet *two_groups(const struct sched_config *cfg, struct sched_effect **fx)
{
    struct fleet *f;
    size_t n_fx;
    cr_assert_eq(fleet_create(&f, cfg), ST_OK);
    *fx = calloc(fleet_max_fx(cfg), sizeof **fx);
    for (uint32_t g = 1; g <= 2; g++)
        cr_assert_eq(fleet_open(f, g, cfg->n_blocks, *fx, fleet_max_fx(cfg), &n_fx), ST_OK);
    return f;
}

static bool is_in(const struct fleet *f, uint32_t i, uint64_t id)
{
    uint32_t at = 0, n;
    const struct sched_req *r;
    while ((r = sched_live(fleet_sched(f, i), &at, &n)))
        if (r->seq_id == id)
            return true;
    return false;
}

Test(fleet, the_queue_holds_back_and_urgent_ones_pass)
{
    struct sched_config cfg = {
        Q, T, .max_seqs = 2, .max_step_tokens = 64, .max_ctx = 40, .n_blocks = 200, .block_len = 4};
    struct sched_effect *fx;
    struct fleet *f = two_groups(&cfg, &fx);
    const struct fleet_move *moves;
    struct sched_load l;
    for (uint64_t id = 1; id <= 20; id++) {
        struct sched_req r = request(id, 1, 0);
        cr_assert_eq(fleet_submit(f, &r), ST_OK, "%s", status_text());
    }
    size_t n = fleet_place(f, &moves);
    cr_assert_eq(n, 2 * AHEAD_TURNS, "%zu are placed: groups of 2 places", n);
    struct sched_req urgent = request(50, 2, 5);
    cr_assert_eq(fleet_submit(f, &urgent), ST_OK);
    cr_assert_eq(fleet_place(f, &moves), 1);
    cr_assert_eq(moves[0].seq_id, 50);
    cr_assert_eq(sched_first(fleet_sched(f, moves[0].to))->seq_id, 50, "it is the first there too");
    for (uint32_t g = 1; g <= 2; g++) {
        sched_load(fleet_sched(f, g), 0, &l);
        cr_assert(l.live == 2 || l.live == 3);
    }
    fleet_check(f);
    free(fx);
    fleet_destroy(f);
}

Test(fleet, tenants_take_turns_over_all_groups)
{
    struct sched_config cfg = {
        Q, T, .max_seqs = 1, .max_step_tokens = 64, .max_ctx = 40, .n_blocks = 200, .block_len = 4};
    struct sched_effect *fx;
    struct fleet *f = two_groups(&cfg, &fx);
    const struct fleet_move *moves;
    for (uint64_t id = 1; id <= 20; id++) {
        struct sched_req r = request(id, 1, 0);
        cr_assert_eq(fleet_submit(f, &r), ST_OK);
    }
    struct sched_req other = request(30, 2, 0);
    cr_assert_eq(fleet_submit(f, &other), ST_OK);
    size_t n = fleet_place(f, &moves);
    bool placed = false;
    for (size_t i = 0; i < n; i++)
        placed |= moves[i].seq_id == 30;
    cr_assert(placed, "the tenant of one request waits for no more than a round");
    free(fx);
    fleet_destroy(f);
}

Test(fleet, siblings_stay_together_and_a_lost_group_loses_nothing)
{
    struct sched_config cfg = {Q,
                               T,
                               .max_seqs = 8,
                               .max_step_tokens = 64,
                               .max_ctx = 40,
                               .n_blocks = 200,
                               .block_len = 4,
                               .prefix_cache = true};
    struct sched_effect *fx;
    struct fleet *f = two_groups(&cfg, &fx);
    const struct fleet_move *moves;
    size_t n_fx;
    for (uint64_t id = 1; id <= 4; id++) {
        struct sched_req r = request(id, 1, 0);
        r.group_id = 7;
        r.salt = 0;
        cr_assert_eq(fleet_submit(f, &r), ST_OK);
    }
    cr_assert_eq(fleet_place(f, &moves), 4);
    uint32_t home = moves[0].to;
    fleet_close(f, home, fx, fleet_max_fx(&cfg), &n_fx);
    cr_assert_eq(n_fx, 0);
    for (uint64_t id = 1; id <= 4; id++)
        cr_assert(is_in(f, FLEET_QUEUE, id) || is_in(f, 3 - home, id));
    fleet_place(f, &moves);
    for (uint64_t id = 1; id <= 4; id++)
        cr_assert(is_in(f, 3 - home, id));
    fleet_check(f);
    free(fx);
    fleet_destroy(f);
}

Test(fleet, what_fits_no_group_ends)
{
    struct sched_config cfg = {
        Q, T, .max_seqs = 8, .max_step_tokens = 64, .max_ctx = 40, .n_blocks = 200, .block_len = 4};
    struct sched_effect *fx;
    struct fleet *f = two_groups(&cfg, &fx);
    size_t n_fx;
    fleet_close(f, 2, fx, fleet_max_fx(&cfg), &n_fx);
    cr_assert_eq(fleet_open(f, 2, 2, fx, fleet_max_fx(&cfg), &n_fx), ST_OK);
    struct sched_req r = request(1, 1, 0);
    cr_assert_eq(fleet_submit(f, &r), ST_OK, "group 1 is large enough");
    fleet_close(f, 1, fx, fleet_max_fx(&cfg), &n_fx);
    cr_assert(n_fx == 1 && fx[0].kind == FX_FINISHED && fx[0].reason == FINISH_FAILED);
    r.seq_id = 2;
    cr_assert_eq(fleet_submit(f, &r), ST_RANGE, "and now nothing of its size is taken");
    free(fx);
    fleet_destroy(f);
}
