/* The figures of the ranks, in Figures. */
#include "common/wire/worker_pb.h"

enum status figures_encode(struct wire_bytes *out, const struct worker_figures *f,
                           struct wire_mem *mem)
{
    Ingot__Worker__Figures m = INGOT__WORKER__FIGURES__INIT;
    const struct msg_ranks *r = &f->ranks;
    SET(m, epoch, f->epoch);
    m.n_steps = m.n_step_us = m.n_collective_us = m.n_kv_bytes = r->n;
    m.steps = (uint64_t *)(uintptr_t)r->steps;
    m.step_us = (uint64_t *)(uintptr_t)r->step_us;
    m.collective_us = (uint64_t *)(uintptr_t)r->collective_us;
    m.kv_bytes = (uint64_t *)(uintptr_t)r->kv_bytes;
    return pb_pack(out, WMSG_FIGURES, &m.base, mem);
}

enum status figures_decode(struct worker_figures *f, const Ingot__Worker__Figures *m)
{
    uint32_t n;
    TRY(pb_check_ranks(&n,
                       (size_t[]){m->n_steps, m->n_step_us, m->n_collective_us, m->n_kv_bytes}));
    f->epoch = m->epoch;
    f->ranks = (struct msg_ranks){n, m->steps, m->step_us, m->collective_us, m->kv_bytes};
    return ST_OK;
}
