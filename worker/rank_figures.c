#include "worker/rank_figures.h"

#include "collectives/control.h"

void rank_figures_add(struct rank_figures *f, uint64_t steps, uint64_t step_us,
                      uint64_t collective_us)
{
    f->steps += steps;
    f->step_us += step_us;
    f->collective_us += collective_us;
}

enum status rank_figures_gather(const struct rank_figures *mine, struct rank_figures *all)
{
    return control_gather(mine, sizeof *mine, all);
}

enum status rank_figures_send(struct coordinator_port *port, uint64_t epoch,
                              const struct rank_figures *all, int world)
{
    uint64_t steps[MAX_GROUP_RANKS], step_us[MAX_GROUP_RANKS];
    uint64_t collective_us[MAX_GROUP_RANKS], kv_bytes[MAX_GROUP_RANKS];
    struct worker_msg m = {
        .type = WMSG_FIGURES,
        .u.figures = {epoch, {(uint32_t)world, steps, step_us, collective_us, kv_bytes}}};
    if (world > MAX_GROUP_RANKS)
        return ST_OK;
    for (int r = 0; r < world; r++) {
        steps[r] = all[r].steps;
        step_us[r] = all[r].step_us;
        collective_us[r] = all[r].collective_us;
        kv_bytes[r] = all[r].kv_bytes;
    }
    return coordinator_port_send(port, &m);
}
