#include "collectives/control.h"

#include <assert.h>
#include <stdlib.h>

#include "collectives/control_ops.h"

static const struct control_ops *plane; /* chosen by control_open, NULL before and after */

/* The name of the variable by which a launcher says that this process is one of an MPI job, or
 * NULL. The one place outside main that reads the environment: MPI's own start-up goes by it, and a
 * process that was started alone must not initialise MPI. */
static const char *launcher_variable(void)
{
    static const char *const names[] = {
        "OMPI_COMM_WORLD_SIZE", /* Open MPI */
        "PMIX_RANK",            /* PMIx: srun --mpi=pmix, prrte */
        "PMI_RANK", "PMI_SIZE", /* PMI-1, PMI-2: MPICH, srun */
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (getenv(names[i]))
            return names[i];
    return NULL;
}

enum status control_open(struct control_info *out)
{
    const char *variable = launcher_variable();
    const struct control_ops *chosen = &control_local_ops;
    if (plane)
        FAIL(ST_BUG, "the control plane is open already");
#ifdef INGOT_HAVE_MPI
    if (variable)
        chosen = &control_mpi_ops;
#else
    if (variable)
        FAIL(ST_UNSUPPORTED,
             "started by an MPI launcher (%s is set), but this build has no MPI (INGOT_MPI=OFF)",
             variable);
#endif
    TRY(chosen->open(out));
    plane = chosen;
    return ST_OK;
}

void control_close(void)
{
    if (plane)
        plane->close();
    plane = NULL;
}

enum status control_bcast(void *buf, size_t cap, size_t *len, uint32_t timeout_ms)
{
    assert(plane);
    return plane->bcast(buf, cap, len, timeout_ms);
}

enum status control_min_u64(uint64_t *v)
{
    assert(plane);
    return plane->min_u64(v);
}

enum status control_barrier(void)
{
    assert(plane);
    return plane->barrier();
}

enum status control_gather(const void *mine, size_t len, void *out)
{
    assert(plane);
    return plane->gather(mine, len, out);
}

void control_set_spin(uint32_t spin_us)
{
    assert(plane);
    plane->set_spin(spin_us);
}

void control_abort(int exit_code)
{
    if (plane)
        plane->abort(exit_code);
    _Exit(exit_code);
}
