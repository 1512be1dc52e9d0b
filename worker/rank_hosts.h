/* The hosts of a group's ranks, for log lines and `ingot status`.  Called once by every rank at the start. */
#ifndef WORKER_RANK_HOSTS_H
#define WORKER_RANK_HOSTS_H

#include "collectives/control.h"

enum { RANK_HOSTS_SIZE = 4096 };

/* Rank 0 gets the host names in the order of the ranks, each with its ranks: "w1 0-3, w2 4-7".  Names that do not fit
 * are replaced by "...".  Other ranks get "". */
MUST_CHECK enum status rank_hosts(const struct control_info *ci, char out[RANK_HOSTS_SIZE]);

/* Writes the names of n ranks as above; names of 64 bytes with a NUL. */
void rank_hosts_write(const char (*names)[64], int n, char *out, size_t size);

#endif
