/* What a worker group last reported of its ranks. */
#ifndef COORDINATOR_GROUP_FIGURES_H
#define COORDINATOR_GROUP_FIGURES_H

#include "common/wire/ranks_msg.h"

/* Columns of struct msg_ranks. */
struct group_figures {
    uint32_t n; /* 0: not reported yet */
    uint64_t steps[MAX_GROUP_RANKS], step_us[MAX_GROUP_RANKS];
    uint64_t collective_us[MAX_GROUP_RANKS], kv_bytes[MAX_GROUP_RANKS];
};

void group_figures_set(struct group_figures *f, const struct msg_ranks *ranks);
/* Borrows f. */
struct msg_ranks group_figures_message(const struct group_figures *f);

#endif
