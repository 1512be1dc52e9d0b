/* The Metal backend: one Apple GPU of family Apple7 (M1) or later.  Emulated; not yet run on a
 * Mac. */
#ifndef BACKENDS_METAL_METAL_H
#define BACKENDS_METAL_METAL_H

#include "backends/backend.h"

extern const struct backend_ops metal_ops;

#endif
