/* Messages of worker.proto that have files of their own; included only by the worker_*.c files. */
#ifndef COMMON_WIRE_WORKER_PB_H
#define COMMON_WIRE_WORKER_PB_H

#include "common/wire/pb.h"
#include "common/wire/worker_msg.h"
#include "worker.pb-c.h"

static inline enum status pb_need(int has, const char *field)
{
    if (!has)
        FAIL(ST_FORMAT, "field %s is missing", field);
    return ST_OK;
}

/* StepPlan.  As worker_msg_encode and worker_msg_decode. */
MUST_CHECK enum status worker_plan_encode(struct wire_bytes *out, const struct step_plan *p,
                                          struct wire_mem *mem);
MUST_CHECK enum status worker_plan_decode(struct step_plan *p, const Ingot__Worker__StepPlan *m,
                                          struct wire_mem *mem);

/* Figures.  Encoding borrows f; decoding borrows m. */
MUST_CHECK enum status figures_encode(struct wire_bytes *out, const struct worker_figures *f,
                                      struct wire_mem *mem);
MUST_CHECK enum status figures_decode(struct worker_figures *f, const Ingot__Worker__Figures *m);

#endif
