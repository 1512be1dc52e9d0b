/* ingot doctor: whether this machine has what Ingot needs. */
#include "client/cli/doctor.h"

#include <stdio.h>

#include "client/cli/cli.h"
#include "client/cli/commands.h"

int cmd_doctor(int argc, char **argv)
{
    static const struct option_set set = {
        .program = "ingot doctor",
        .usage = "",
        .summary =
            "Checks that this machine has everything that Ingot needs: programs, libraries, "
            "CPU, memory, shared memory, limits, ports, MPI, GPUs. Each line begins with ok, "
            "warn or fail; behind a warning or a failure a line says what to do.",
        .epilog = "Example:\n"
                  "  ingot doctor\n"
                  "Exit codes: 0 nothing failed, 1 something failed, 2 wrong options.",
    };
    struct report r = {{0}};
    struct option_result res;
    char none;
    int rc = cli_parse(&set, &none, argc, argv, &res);
    if (rc >= 0)
        return rc;
    doctor_programs(&r);
    doctor_libraries(&r);
    doctor_cpu(&r);
    doctor_memory(&r);
    doctor_shared_memory(&r);
    doctor_limits(&r);
    doctor_ports(&r);
    doctor_mpi(&r);
    doctor_gpu(&r);
    doctor_metal(&r);
    printf("\n%d ok, %d to look at, %d failed\n", r.n[FINDING_OK], r.n[FINDING_WARN],
           r.n[FINDING_FAIL]);
    return r.n[FINDING_FAIL] ? EXIT_FAILED : EXIT_OK;
}
