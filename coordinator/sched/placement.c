#include "coordinator/sched/placement.h"

bool placement_has_room(const struct placement_group *g)
{
    uint32_t ahead = g->load.live < g->max_seqs ? AHEAD_OPENS : AHEAD_TURNS;
    return g->serves && g->fits && g->load.fresh < ahead;
}

int placement_choose(const struct placement_group *groups, uint32_t n, uint32_t n_tokens)
{
    int best = -1;
    uint64_t least = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct placement_group *g = &groups[i];
        uint32_t known = g->known < n_tokens ? g->known : n_tokens;
        uint64_t cost = (uint64_t)SEQ_COST * g->load.live + g->load.todo + (n_tokens - known);
        if (!placement_has_room(g) || (best >= 0 && cost >= least))
            continue;
        best = (int)i;
        least = cost;
    }
    return best;
}

uint32_t placement_balance(const struct placement_group *groups, uint32_t n, uint32_t *from,
                           uint32_t *to)
{
    const struct placement_group *most = NULL, *fewest = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct placement_group *g = &groups[i];
        if (!g->serves)
            continue;
        if (!most || g->load.live > most->load.live)
            most = g;
        if (!fewest || g->load.live < fewest->load.live)
            fewest = g;
    }
    if (!most || most->load.live < 2 * (uint64_t)fewest->load.live + 2)
        return 0;
    *from = (uint32_t)(most - groups);
    *to = (uint32_t)(fewest - groups);
    return (most->load.live - fewest->load.live) / 2;
}
