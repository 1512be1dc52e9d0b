#include "worker/rank_meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "worker/start_watch.h"

/* The numbers of all ranks reach rank 0, and the least of a value reaches every rank. */
static enum status greet(const struct control_info *ci)
{
    uint64_t least = (uint64_t)(ci->world - ci->rank);
    uint32_t mine = (uint32_t)ci->rank, *all = calloc((size_t)ci->world, sizeof *all);
    if (!all)
        FAIL(ST_NOMEM, "no memory for %d ranks", ci->world);
    enum status st = control_gather(&mine, sizeof mine, all);
    bool ok = st == ST_OK;
    for (int i = 0; ok && ci->rank == 0 && i < ci->world; i++)
        ok = all[i] == (uint32_t)i;
    free(all);
    TRY(st);
    TRY(control_min_u64(&least));
    if (!ok || least != 1)
        FAIL(ST_PEER, "the ranks received other numbers than were sent");
    return ST_OK;
}

/* Open MPI takes 4 MiB of shared memory for each rank of a host, in /dev/shm unless it is told a folder elsewhere.  It fails
 * with pages that do not name the cause. */
static void warn_of_small_shm(void)
{
    const uint64_t rank_bytes = (uint64_t)4 << 20;
    const char *ranks = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"),
               *me = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    const char *folder = getenv("OMPI_MCA_btl_vader_backing_directory");
    uint64_t n = ranks ? strtoull(ranks, NULL, 10) : 1, need = n * rank_bytes + rank_bytes;
    struct statvfs v;
    if (n < 2 || n > 1024 || !me || strcmp(me, "0") != 0 ||
        (folder && strncmp(folder, "/dev/shm", 8) != 0) || statvfs("/dev/shm", &v) != 0)
        return;
    uint64_t room = (uint64_t)v.f_bavail * v.f_frsize;
    if (room < need)
        log_line(LOG_WARN,
                 "/dev/shm has %.1f MiB free, %llu ranks of a host need %.0f MiB: in a container "
                 "docker run --shm-size 1g, in Kubernetes a volume emptyDir of medium Memory",
                 (double)room / 1048576.0, (unsigned long long)n, (double)need / 1048576.0);
}

enum status rank_meet(struct control_info *ci, uint32_t contact_ms, int exit_code)
{
    struct start_watch *watch;
    warn_of_small_shm();
    TRY(start_watch_begin(&watch, contact_ms, exit_code));
    enum status st = control_open(ci);
    if (st == ST_OK)
        st = greet(ci);
    start_watch_end(watch);
    return st;
}

void rank_name_log(const struct control_info *ci, enum log_level level)
{
    char host[64] = "", name[96];
    gethostname(host, sizeof host - 1);
    if (ci->world == ci->local_world)
        snprintf(name, sizeof name, "worker.%d", ci->rank);
    else
        snprintf(name, sizeof name, "worker.%d@%s", ci->rank, host);
    log_init(name, level);
}

int rank_to_be(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *text = getenv(names[i]);
        if (text)
            return (int)strtol(text, NULL, 10);
    }
    return -1;
}
