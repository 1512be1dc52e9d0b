/* The CPU backend's table of ops.  Its plain path is the executable specification of all backends.
 */
#ifndef BACKENDS_CPU_CPU_H
#define BACKENDS_CPU_CPU_H

#include "backends/backend.h"

extern const struct backend_ops cpu_ops;

#endif
