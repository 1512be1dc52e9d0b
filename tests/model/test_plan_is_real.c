/* What a serving rank plans against what its process really takes: memory, of pages shared by ranks
 * this rank's part, after a prefill of a whole step, decodes and draws from whole rows, with every
 * row of the KV cache written.  What the process has before (the program, its libraries, MPI) is
 * measured and stands beside the plan; what MPI takes for its traffic later is inside the limits.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data.h"
#include "effort.h"

#define OPTIONS                                                                                    \
    "--connect none --model none --max-seqs 4 --max-step-tokens 512 --max-ctx 512 --threads "

enum { MAX_WORLD = 4 };

struct answer {
    double base, files, planned, own, coll, segment, taken; /* bytes */
};

/* One line of each rank. */
static void run_ranks(int world, const char *model, const char *options, struct answer *a)
{
    char command[2048], line[512];
    int n = snprintf(command, sizeof command, PLAN_RANK " %s " OPTIONS "%s 2>&1", model, options);
    if (world > 1)
        n = snprintf(command, sizeof command,
                     MPIRUN " %s --oversubscribe -np %d " PLAN_RANK " %s " OPTIONS "%s 2>&1",
                     geteuid() == 0 ? "--allow-run-as-root" : "", world, model, options);
    cr_assert_lt(n, (int)sizeof command);
    FILE *f = popen(command, "r");
    cr_assert_not_null(f);
    unsigned seen = 0;
    while (fgets(line, sizeof line, f)) {
        int r;
        struct answer one;
        if (sscanf(line,
                   "rank %d base %lf files %lf planned %lf own %lf coll %lf segment %lf taken %lf",
                   &r, &one.base, &one.files, &one.planned, &one.own, &one.coll, &one.segment,
                   &one.taken) == 8 &&
            r >= 0 && r < world) {
            a[r] = one;
            seen |= 1U << r;
        }
        fputs(line, stdout);
    }
    int how = pclose(f);
    cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 0, "%s", command);
    cr_assert_eq(seen, (1U << world) - 1, "%s: ranks have not answered", command);
    if (a[0].base == 0.0)
        cr_skip_test("the system does not tell what a process takes");
}

/* What is between others in every respect. */
static void only_with_all(void)
{
    if (!everything())
        cr_skip_test("with tests/run.sh --all");
}

static void check_share(const char *model, int world, const char *options)
{
    struct answer a[MAX_WORLD];
    run_ranks(world, model, options, a);
    for (int r = 0; r < world; r++)
        cr_assert_leq(fabs(a[r].taken - a[r].planned), 0.02 * a[r].planned,
                      "%s, rank %d of %d, %s: planned %.0f, taken %.0f bytes: %+.2f %%", model, r,
                      world, options, a[r].planned, a[r].taken,
                      (a[r].taken / a[r].planned - 1) * 100);
}

/* Ranks of 230 MB and more: 188 million weights are 200 MB in Q8_0, 376 MB in bf16. */
Test(plan, bf16)
{
    check_share("200m bf16", 1, "2 --kv-memory 160M");
}

Test(plan, bf16_int8_kv)
{
    only_with_all();
    check_share("200m bf16", 1, "1 --kv-memory 160M --kv-dtype int8");
}

Test(plan, q8_0)
{
    check_share("200m q8_0", 1, "2 --kv-memory 160M");
}

Test(plan, q4_k_e4m3_kv)
{
    check_share("200m q4_k", 1, "1 --kv-memory 160M --kv-dtype e4m3");
}

/* One cache of one head a layer; 1.2 billion weights, of which a part is made while it is loaded. */
Test(plan, latent_attention)
{
    only_with_all();
    check_share("mla-1b q8_0", 1, "2 --kv-memory 160M");
}

/* A model that is smaller than the backend's working memory, of which steps of narrow rows write
 * only a part: everything else is exact. */
static void check_tiny(int world, const char *options)
{
    char model[1100];
    struct answer a[MAX_WORLD];
    const char *dir = shared_data("models/stories260K");
    if (!dir)
        cr_skip_test("no shared data: models/stories260K");
    snprintf(model, sizeof model, "%s f32", dir);
    run_ranks(world, model, options, a);
    for (int r = 0; r < world; r++)
        cr_assert(a[r].taken >= a[r].planned - a[r].own && a[r].taken <= 1.02 * a[r].planned,
                  "rank %d of %d, %s: planned %.0f with %.0f of the backend, taken %.0f", r, world,
                  options, a[r].planned, a[r].own, a[r].taken);
}

Test(plan, stories)
{
    check_tiny(1, "2 --kv-blocks 768");
}

#ifdef MPIRUN
Test(plan, q8_0_shm_2)
{
    only_with_all();
    check_share("200m q8_0", 2, "1 --kv-memory 160M --coll shm");
}

Test(plan, q8_0_shm_4_int8_kv)
{
    check_share("200m q8_0", 4, "1 --kv-memory 160M --coll shm --kv-dtype int8");
}

Test(plan, q8_0_mpi_2)
{
    only_with_all();
    check_share("200m q8_0", 2, "1 --kv-memory 160M --coll mpi");
}

Test(plan, q8_0_mpi_4)
{
    check_share("200m q8_0", 4, "1 --kv-memory 160M --coll mpi");
}

Test(plan, stories_shm_2)
{
    check_tiny(2, "1 --kv-blocks 768 --coll shm");
}

Test(plan, stories_mpi_4)
{
    check_tiny(4, "1 --kv-blocks 768 --coll mpi");
}

/* The segment of the shm collective is counted whole, each rank's part once; the base has MPI. */
Test(plan, segment_and_base)
{
    struct answer none[1], shm[MAX_WORLD];
    char model[1100];
    const char *dir = shared_data("models/stories260K");
    if (!dir)
        cr_skip_test("no shared data: models/stories260K");
    snprintf(model, sizeof model, "%s f32", dir);
    run_ranks(1, model, "1 --kv-blocks 64", none);
    run_ranks(4, model, "1 --kv-blocks 64 --coll shm", shm);
    cr_assert_eq(none[0].coll, 0);
    for (int r = 0; r < 4; r++) {
        cr_assert(shm[r].segment > 0 && fabs(4 * shm[r].coll - shm[r].segment) < 4,
                  "4 x %.0f bytes planned, %.0f mapped", shm[r].coll, shm[r].segment);
        cr_assert_gt(shm[r].base, none[0].base);
    }
}
#endif
