/* What every collective must do, as one rank sees it.  All ranks call the same function; each
 * returns the number of failures, told on standard error.  No test framework: ranks are processes
 * started by mpirun, forked processes, or threads. */
#ifndef TESTS_COLL_CONFORMANCE_H
#define TESTS_COLL_CONFORMANCE_H

#include "collectives/coll.h"

enum { CONF_MAX_FLOATS = 300001 }; /* more than one piece of any collective */

/* max_bytes that the checks need in a world. */
size_t conf_max_bytes(int world);

/* Sums, maxima, gathers, broadcasts over sizes and types: results, and wrong arguments. */
int conf_results(struct coll *c, struct backend *be);

/* The same with fewer sizes and rounds, for devices that are emulated. */
int conf_results_emulated(struct coll *c, struct backend *be);

/* Rank `missing` stays away (it returns at once); the others must name it within their deadline. */
int conf_missing(struct coll *c, struct backend *be, int missing);

/* Rank `early` closes its communicator and returns; the others must name it at once, whatever their
 * deadline. */
int conf_closed(struct coll *c, struct backend *be, int early);

/* Rank 0 gives up while the others wait in an all_reduce with a long deadline. */
int conf_abort(struct coll *c, struct backend *be);

#endif
