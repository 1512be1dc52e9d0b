#define _GNU_SOURCE /* sched_getaffinity */
#include "worker/host_share.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "backends/cpu/host.h"

#ifdef __linux__
#include <sched.h>
#include <sys/prctl.h>
#endif

/* FNV-1a over the affinity mask; 0 where there is none. */
static uint64_t mask_hash(void)
{
#ifdef __linux__
    cpu_set_t set;
    uint64_t h = 0xcbf29ce484222325U;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    for (size_t i = 0; i < sizeof set; i++)
        h = (h ^ ((const unsigned char *)&set)[i]) * 0x100000001b3U;
    return h;
#else
    return 0;
#endif
}

enum status host_share_threads(const struct control_info *ci, int *threads)
{
    uint64_t h = mask_hash(), least = h, least_inverse = ~h;
    TRY(control_min_u64(&least));
    TRY(control_min_u64(&least_inverse));
    bool one_set = least == ~least_inverse; /* least and greatest hash are equal */
    int cpus = host_cpus();
    *threads = one_set ? cpus / ci->local_world : cpus;
    if (*threads < 1)
        *threads = 1;
    return ST_OK;
}

enum status host_die_with_parent(void)
{
#ifdef __linux__
    pid_t parent = getppid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        FAIL(ST_IO, "cannot bind this process's life to its parent's");
    if (getppid() != parent)
        FAIL(ST_PEER, "the parent process has died");
    return ST_OK;
#else
    FAIL(ST_UNSUPPORTED, "--die-with-parent needs Linux");
#endif
}
