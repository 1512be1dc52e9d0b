/* What becomes of keys and values that the KV cache's type cannot hold, on every backend. */
#ifndef TESTS_OPS_OP_UNHELD_H
#define TESTS_OPS_OP_UNHELD_H

#include "backends/backend.h"

/* A key or value beyond the cache's range, or one that is no number: the tokens that see it have NaN in its
 * column, of a key in all, and the others have the bits that they have without it, also those of the same tile. */
void check_unheld_entries(struct backend *be);

#endif
