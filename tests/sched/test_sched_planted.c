/* sched_check finds steps that break the bounds of sched.h.  tests.cmake builds this once with the
 * scheduler as it is and once with each of some planted errors; PLANTED is the text that sched_check
 * must give, "" for none. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched/steps.h"

/* Decodes, long and short prompts of tenants and priorities, more than there are places. */
static void mixed_load(void)
{
    struct sched_config cfg = config();
    uint64_t dice = 3;
    bool live[40] = {false};
    cfg.max_step_tokens = 256;
    cfg.n_blocks = 2000;
    cfg.target_itl_us = SCHED_AUTO;
    cfg.max_step_us = 1000;
    cfg.turn_tokens = 8;
    start(cfg);
    for (int i = 0; i < 1000; i++) {
        dice = dice * 6364136223846793005U + 1442695040888963407U;
        uint64_t id = 1 + (dice >> 33) % 20;
        uint32_t n = (uint32_t)(dice >> 40) % (i % 3 ? 20 : 200);
        if (!live[id]) {
            struct sched_req r = request(id, (int32_t)(dice >> 44), 1 + n, 1 + (uint32_t)(id * 8));
            r.tenant = id % 4;
            r.priority = id % 5 == 0;
            submit(r);
            live[id] = true;
        }
        for (int part = 0; part < 2; part++) {
            if (part == 0 && !make_plan())
                break;
            if (part == 1)
                commit();
            for (size_t k = 0; k < n_fx; k++)
                live[fx[k].seq_id] &= fx[k].kind != FX_FINISHED;
        }
    }
}

Test(sched_planted, is_found)
{
    char said[4096] = "";
    int out[2], status;
    cr_assert_eq(pipe(out), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(out[1], STDERR_FILENO);
        mixed_load();
        _exit(0);
    }
    close(out[1]);
    size_t n = 0;
    for (ssize_t got;
         n + 1 < sizeof said && (got = read(out[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)got;
    said[n] = 0;
    close(out[0]);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (*PLANTED) {
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "not found: '%s'", said);
        cr_assert(strstr(said, PLANTED), "'%s' lacks '%s'", said, PLANTED);
    } else {
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", said);
    }
}
