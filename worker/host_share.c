#define _GNU_SOURCE /* sched_getaffinity */
#include "worker/host_share.h"

#include <stdio.h>
#include <string.h>

#include "common/host.h"

#ifdef __linux__
#include <sched.h>
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

#ifdef __linux__
/* "0-3,8" */
static void cores_text(const cpu_set_t *set, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < CPU_SETSIZE && n < size; i++) {
        size_t end = i;
        if (!CPU_ISSET(i, set))
            continue;
        while (end + 1 < CPU_SETSIZE && CPU_ISSET(end + 1, set))
            end++;
        int len =
            snprintf(out + n, size - n, end > i ? "%s%zu-%zu" : "%s%zu", n ? "," : "", i, end);
        n += len > 0 ? (size_t)len : 0;
        i = end;
    }
}

/* The i-th n-th of the set, at least one core. */
static cpu_set_t part_of_set(const cpu_set_t *set, int i, int n)
{
    int cpus = CPU_COUNT(set), from = (int)((int64_t)cpus * i / n),
        to = (int)((int64_t)cpus * (i + 1) / n), at = 0;
    cpu_set_t part;
    CPU_ZERO(&part);
    for (size_t c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, set)) {
            if (at == from || (at > from && at < to))
                CPU_SET(c, &part);
            at++;
        }
    return part;
}

static void take_cores(const struct control_info *ci, bool bind, struct host_share *out)
{
    cpu_set_t set, part;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    if (bind && ci->local_world > 1 && host_cpus() == CPU_COUNT(&set)) {
        part = part_of_set(&set, ci->local_rank, ci->local_world);
        out->bound = sched_setaffinity(0, sizeof part, &part) == 0;
    }
    cores_text(out->bound ? &part : &set, out->cores, sizeof out->cores);
}
#else
static void take_cores(const struct control_info *ci, bool bind, struct host_share *out)
{
    (void)ci; /* macOS has no masks */
    (void)bind;
    (void)out;
}
#endif

int host_share_threads(int n)
{
    int threads = host_cpus() / n;
    return threads < 1 ? 1 : threads;
}

enum status host_share_take(const struct control_info *ci, bool bind, struct host_share *out)
{
    uint64_t h = mask_hash(), least = h, least_inverse = ~h;
    *out = (struct host_share){.threads = host_cpus()};
    TRY(control_min_u64(&least));
    TRY(control_min_u64(&least_inverse));
    bool one_set = least == ~least_inverse; /* least and greatest hash are equal */
    if (one_set && ci->local_world > 1)
        out->threads /= ci->local_world;
    take_cores(ci, bind && one_set, out);
    if (out->bound) /* parts may differ by a core */
        out->threads = host_cpus();
    if (out->threads < 1)
        out->threads = 1;
    return ST_OK;
}
