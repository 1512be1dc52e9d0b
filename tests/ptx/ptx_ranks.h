/* The one-shot collectives on the PTX machine: the kernels of all ranks run at once, each rank a
 * backend with a stream of its own. */
#ifndef TESTS_PTX_PTX_RANKS_H
#define TESTS_PTX_PTX_RANKS_H

#include "gpu/tap.h"

/* One case for each world and collective: the bits of collectives/reduce.h, or of a copy.  Also
 * ranks that do not come and that give up. */
void ptx_check_ranks(struct tap *t);

#endif
