/* The table of the collective over MPI, and what the files that call MPI share.  MPI is called from
 * the main thread only; control_open has initialised it. */
#ifndef COLLECTIVES_MPI_COLL_H
#define COLLECTIVES_MPI_COLL_H

#include <mpi.h>

#include "collectives/coll.h"

extern const struct coll_ops mpi_coll_ops;

/* The status of a failed MPI call. */
MUST_CHECK enum status mpi_fail(int mpi_error, const char *call);

#define MPI_TRY(expr)                                                                              \
    do {                                                                                           \
        int mpi_try_ = (expr);                                                                     \
        if (mpi_try_ != MPI_SUCCESS)                                                               \
            return mpi_fail(mpi_try_, #expr);                                                      \
    } while (0)

#endif
