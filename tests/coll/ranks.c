/* One rank of a job under mpirun: `ranks results|missing|unopened|abort|killed COLL` or
 * `ranks control|bcast-timeout|control-abort`.  Exits 0 when its checks passed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/conformance.h"
#include "coll/control_cases.h"
#include "coll/host_backend.h"
#include "collectives/control.h"

enum { LONG_MS = 240000, SHORT_MS = 4000 };

static int told(enum status st, const char *what)
{
    if (st == ST_OK)
        return 0;
    fprintf(stderr, "%s: %s\n", what, status_detail());
    return 1;
}

/* Rank world - 1 dies; the others fail within their deadline. */
static int killed(struct coll *c, struct backend *be, int rank, int world)
{
    if (rank == world - 1)
        raise(SIGKILL);
    return conf_missing(c, be, world - 1);
}

/* The last rank never opens; the others must name it. */
static int unopened(const char *coll, const struct coll_config *cfg)
{
    struct coll *c;
    char name[32];
    snprintf(name, sizeof name, "rank %d ", cfg->world - 1);
    if (cfg->rank == cfg->world - 1)
        return 0;
    enum status st = coll_open(&c, coll, cfg);
    if (st == ST_TIMEOUT && strstr(status_text(), name))
        return 0;
    fprintf(stderr, "rank %d: %s '%s' instead of a time-out of %s\n", cfg->rank, status_name(st),
            status_text(), name);
    return 1;
}

static int run_case(const char *name, struct coll *c, struct backend *be,
                    const struct control_info *info)
{
    if (strcmp(name, "results") == 0)
        return conf_results(c, be);
    if (strcmp(name, "abort") == 0)
        return conf_abort(c, be);
    if (strcmp(name, "missing") == 0)
        return conf_missing(c, be, info->world - 1);
    if (strcmp(name, "killed") == 0)
        return killed(c, be, info->rank, info->world);
    fprintf(stderr, "no case '%s'\n", name);
    return 1;
}

static int collective_case(const char *name, const char *coll, const struct control_info *info)
{
    struct host_backend host;
    struct coll *c;
    uint64_t session = (uint64_t)getpid();
    size_t len = sizeof session;
    bool waits = strcmp(name, "results") == 0 || strcmp(name, "abort") == 0;
    if (told(control_bcast(&session, sizeof session, &len, 0), "session"))
        return 1;
    struct coll_config cfg = {
        .rank = info->rank,
        .world = info->world,
        .be = host_backend_init(&host,
                                strcmp(coll, "mpi") == 0 ? &device_backend_ops : &host_backend_ops),
        .max_bytes = conf_max_bytes(info->world),
        .deadline_ms = waits ? LONG_MS : SHORT_MS,
        .session = session,
        .one_host = info->one_host,
    };
    if (strcmp(name, "unopened") == 0)
        return unopened(coll, &cfg) + told(control_barrier(), "barrier");
    if (told(coll_open(&c, coll, &cfg), "open"))
        return 1;
    int failures = run_case(name, c, cfg.be, info);
    if (strcmp(name, "missing") == 0)
        failures += told(control_barrier(), "barrier"); /* the one away leaves last */
    c->ops->close(c);
    return failures;
}

int main(int argc, char **argv)
{
    struct control_info info;
    int failures;
    if (argc < 2)
        return 2;
    if (told(control_open(&info), "control"))
        return 1;
    if (argc == 3)
        failures = collective_case(argv[1], argv[2], &info);
    else
        failures = control_case(argv[1], &info);
    if (failures == 0 && strcmp(argv[1], "killed") == 0) {
        printf("survived\n");
        fflush(stdout);
        _Exit(0); /* MPI_Finalize would wait for the dead */
    }
    control_close();
    return failures ? 1 : 0;
}
