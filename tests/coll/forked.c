#include "coll/forked.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "coll/host_backend.h"

void job_init(struct job *job, int world, uint32_t deadline_ms)
{
    static uint64_t n_jobs;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    *job = (struct job){.world = world, .deadline_ms = deadline_ms};
    job->session =
        (uint64_t)getpid() << 40 ^ (uint64_t)t.tv_sec << 20 ^ (uint64_t)t.tv_nsec ^ n_jobs++ << 56;
}

struct coll_config job_config(const struct job *job, int rank)
{
    static struct host_backend host;
    return (struct coll_config){
        .rank = rank,
        .world = job->world,
        .be = host_backend_init(&host, &host_backend_ops),
        .max_bytes = conf_max_bytes(job->world),
        .deadline_ms = job->deadline_ms,
        .session = job->session,
        .one_host = true,
    };
}

static int be_rank(const struct job *job, int rank, rank_case *run)
{
    struct coll_config cfg = job_config(job, rank);
    struct coll *c;
    if (coll_open(&c, "shm", &cfg) != ST_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, status_detail());
        return 100;
    }
    int failures = run(c, cfg.be);
    c->ops->close(c);
    return failures > 99 ? 99 : failures;
}

void job_start(struct job *job, int rank, rank_case *run)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(be_rank(job, rank, run));
    if (pid < 0) {
        perror("fork");
        abort();
    }
    job->pid[rank] = pid;
}

int job_wait(struct job *job, int rank)
{
    int how;
    if (waitpid(job->pid[rank], &how, 0) != job->pid[rank])
        return 101;
    return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

bool job_has_segment(const struct job *job)
{
    char name[64];
    snprintf(name, sizeof name, "/ingot-%llx", (unsigned long long)job->session);
    int fd = shm_open(name, O_RDONLY, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}
