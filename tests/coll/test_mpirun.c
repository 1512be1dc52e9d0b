/* The conformance suite and the control plane under mpirun, with more ranks than cores. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/status.h"
#include "effort.h"

static char output[65536];

/* For a build with AddressSanitizer: a leak is a failure, but for what Open MPI keeps. */
#define SANITIZER                                                                                  \
    "LSAN_OPTIONS=suppressions=" INGOT_SOURCE_DIR "/tests/coll/lsan.supp:print_suppressions=0 "    \
    "ASAN_OPTIONS=fast_unwind_on_malloc=0:malloc_context_size=10"

/* Runs `mpirun -np world ranks args`; returns its exit code and fills output. */
static int mpirun(int world, const char *flags, const char *args)
{
    char command[2048];
    snprintf(command, sizeof command, SANITIZER " %s %s --oversubscribe %s -np %d %s %s 2>&1",
             MPIRUN, geteuid() == 0 ? "--allow-run-as-root" : "", flags, world, RANKS, args);
    FILE *f = popen(command, "r");
    cr_assert_not_null(f);
    output[fread(output, 1, sizeof output - 1, f)] = '\0';
    while (fgetc(f) != EOF)
        ;
    int how = pclose(f);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

static void expect_ok(int world, const char *args)
{
    int code = mpirun(world, "", args);
    cr_expect_eq(code, 0, "%d ranks, %s: exit code %d:\n%s", world, args, code, output);
}

static int count(const char *word)
{
    int n = 0;
    for (const char *at = output; (at = strstr(at, word)); at += strlen(word))
        n++;
    return n;
}

static void expect_survivors(int world, const char *args)
{
    mpirun(world, "--enable-recovery", args);
    cr_expect_eq(count("survived\n"), world - 1, "%d ranks, %s:\n%s", world, args, output);
}

/* 2 and 3 ranks have every kind of step: a sanitizer sees nothing new in other worlds. */
static void expect_ok_in_worlds(const char *args)
{
    static const int worlds[] = {2, 3, 1, 4, 8};
    long n = effort(ARRAY_LEN(worlds), 2);
    for (long i = 0; i < n; i++)
        expect_ok(worlds[i], args);
}

Test(mpirun, results_mpi)
{
    expect_ok_in_worlds("results mpi");
}

Test(mpirun, results_shm)
{
    expect_ok_in_worlds("results shm");
}

Test(mpirun, missing_rank_is_named)
{
    expect_ok(2, "missing mpi");
    if (!reduced())
        expect_ok(4, "missing mpi");
    expect_ok(3, "missing shm");
}

Test(mpirun, rank_that_never_opens_is_named)
{
    expect_ok(2, "unopened mpi");
    if (!reduced())
        expect_ok(3, "unopened mpi");
    expect_ok(3, "unopened shm");
}

Test(mpirun, abort_wakes_the_others)
{
    expect_ok(2, "abort mpi");
    if (!reduced())
        expect_ok(4, "abort mpi");
    expect_ok(2, "abort shm");
}

Test(mpirun, killed_rank_is_named)
{
    expect_survivors(2, "killed mpi");
    if (!reduced())
        expect_survivors(3, "killed mpi");
    expect_survivors(3, "killed shm");
}

Test(mpirun, killed_rank_ends_the_job)
{
    int code = mpirun(3, "", "killed shm");
    cr_expect_neq(code, 0, "%s", output);
    cr_expect_eq(count("survived"), 0, "%s", output);
}

Test(mpirun, control)
{
    expect_ok_in_worlds("control");
}

Test(mpirun, late_broadcast_comes_after_timeouts)
{
    expect_ok(2, "bcast-timeout");
    if (!reduced())
        expect_ok(5, "bcast-timeout");
}

Test(mpirun, abort_ends_the_job_with_its_code)
{
    int code = mpirun(3, "", "control-abort");
    cr_expect_eq(code, 7, "exit code %d:\n%s", code, output);
}
