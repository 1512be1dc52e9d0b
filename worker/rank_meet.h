/* The first contact of a rank with the others of its group, before anything is loaded. */
#ifndef WORKER_RANK_MEET_H
#define WORKER_RANK_MEET_H

#include "collectives/control.h"
#include "common/log.h"

/* This rank's number before MPI_Init, which may wait for other hosts; -1: the launcher does not say. */
int rank_to_be(void);

/* Joins the other ranks: each must have reached the others within contact_ms, else the process ends
 * with exit_code.  ST_PEER: they received other numbers than were sent. */
MUST_CHECK enum status rank_meet(struct control_info *ci, uint32_t contact_ms, int exit_code);

/* The name in log lines: the host too, where the ranks are on several. */
void rank_name_log(const struct control_info *ci, enum log_level level);

#endif
