#include "coordinator/group_figures.h"

static void copy(uint64_t *out, const uint64_t *in, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = in[i];
}

void group_figures_set(struct group_figures *f, const struct msg_ranks *ranks)
{
    f->n = ranks->n;
    copy(f->steps, ranks->steps, ranks->n);
    copy(f->step_us, ranks->step_us, ranks->n);
    copy(f->collective_us, ranks->collective_us, ranks->n);
    copy(f->kv_bytes, ranks->kv_bytes, ranks->n);
}

struct msg_ranks group_figures_message(const struct group_figures *f)
{
    return (struct msg_ranks){f->n, f->steps, f->step_us, f->collective_us, f->kv_bytes};
}
