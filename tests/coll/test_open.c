/* Choosing a collective, the local one, refusals at open, and the control plane of a single
 * rank. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "coll/conformance.h"
#include "coll/control_cases.h"
#include "coll/host_backend.h"
#include "collectives/control.h"

static struct host_backend host;

static struct coll_config config(int rank, int world)
{
    return (struct coll_config){
        .rank = rank,
        .world = world,
        .be = host_backend_init(&host, &host_backend_ops),
        .max_bytes = conf_max_bytes(world),
        .deadline_ms = 50,
        .session = 0x7e57,
        .one_host = true,
    };
}

static void expect_refused(const char *name, struct coll_config cfg, enum status want,
                           const char *text)
{
    struct coll *c = (struct coll *)&cfg;
    cr_expect_eq(coll_open(&c, name, &cfg), want, "%s", status_text());
    cr_expect_null(c);
    cr_expect(strstr(status_text(), text), "'%s' lacks '%s'", status_text(), text);
}

Test(coll_open, local_does_what_all_do)
{
    static const char *const names[] = {NULL, "auto", "local"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct coll_config cfg = config(0, 1);
        struct coll *c;
        cr_assert_eq(coll_open(&c, names[i], &cfg), ST_OK);
        cr_expect_str_eq(c->ops->name, "local");
        cr_expect_eq(conf_results(c, cfg.be), 0);
        c->ops->abort(c);
        c->ops->close(c);
    }
}

Test(coll_open, local_on_device_memory)
{
    struct coll_config cfg = config(0, 1);
    struct coll *c;
    host_backend_init(&host, &device_backend_ops);
    cr_assert_eq(coll_open(&c, "auto", &cfg), ST_OK);
    cr_expect_eq(conf_results(c, cfg.be), 0);
    c->ops->close(c);
}

Test(coll_open, unknown_name_says_what_there_is)
{
    expect_refused("ring", config(0, 2), ST_UNSUPPORTED, "'ring'");
    expect_refused("ring", config(0, 2), ST_UNSUPPORTED, coll_names());
}

Test(coll_open, auto_chooses_by_host_and_memory)
{
    struct coll_config cfg = config(1, 2);
    expect_refused(NULL, cfg, ST_TIMEOUT, "shm: rank 0 did not come");
    cfg.one_host = false;
    expect_refused(NULL, cfg, ST_UNSUPPORTED, "mpi"); /* absent, or no mpirun */
    cfg.one_host = true;
    host_backend_init(&host, &device_backend_ops);
    expect_refused("auto", cfg, ST_UNSUPPORTED, "mpi");
    expect_refused("shm", cfg, ST_UNSUPPORTED, "not host memory");
}

Test(coll_open, bad_configurations_are_refused)
{
    static const char *const names[] = {"local", "shm"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct coll_config cfg = config(0, 1);
        expect_refused(names[i], config(0, 0), ST_RANGE, "world of 0");
        expect_refused(names[i], config(0, -1), ST_RANGE, "world of -1");
        expect_refused(names[i], config(0, 100000), ST_RANGE, "world of 100000");
        expect_refused(names[i], config(2, 2), ST_RANGE, "rank 2");
        expect_refused(names[i], config(-1, 2), ST_RANGE, "rank -1");
        cfg.deadline_ms = 0;
        expect_refused(names[i], cfg, ST_RANGE, "deadline");
        cfg = config(0, 1);
        cfg.max_bytes = SIZE_MAX;
        expect_refused(names[i], cfg, ST_RANGE, "max_bytes");
        cfg = config(0, 1);
        cfg.be = NULL;
        expect_refused(names[i], cfg, ST_RANGE, "no backend");
    }
    expect_refused("local", config(0, 2), ST_UNSUPPORTED, "one rank");
}

Test(control, single_rank)
{
    struct control_info info;
    cr_assert_eq(control_open(&info), ST_OK);
    cr_expect_eq(info.rank, 0);
    cr_expect_eq(info.world, 1);
    cr_expect(info.one_host);
    cr_expect_eq(control_case("control", &info), 0);
    control_close();
    control_close(); /* twice is fine */
    cr_assert_eq(control_open(&info), ST_OK);
    control_close();
}

Test(control, abort_exits_with_the_code, .exit_code = 7)
{
    struct control_info info;
    cr_assert_eq(control_open(&info), ST_OK);
    control_abort(7);
}
