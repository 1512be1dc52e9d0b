/* The table of the single-rank collective. */
#ifndef COLLECTIVES_LOCAL_H
#define COLLECTIVES_LOCAL_H

#include "collectives/coll.h"

extern const struct coll_ops local_coll_ops;

#endif
