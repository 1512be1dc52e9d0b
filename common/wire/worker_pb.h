/* Messages of worker.proto that have files of their own; included only by the worker_*.c files. */
#ifndef COMMON_WIRE_WORKER_PB_H
#define COMMON_WIRE_WORKER_PB_H

#include "common/wire/pb.h"
#include "common/wire/worker_msg.h"
#include "worker.pb-c.h"

/* Figures.  Encoding borrows f; decoding borrows m. */
MUST_CHECK enum status figures_encode(struct wire_bytes *out, const struct worker_figures *f,
                                      struct wire_mem *mem);
MUST_CHECK enum status figures_decode(struct worker_figures *f, const Ingot__Worker__Figures *m);

#endif
