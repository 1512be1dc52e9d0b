/* Findings of `ingot doctor` about the machine: CPU, memory, shared memory, limits, GPU.  Called by
 * doctor.c. */
#ifdef __linux__
#define _GNU_SOURCE /* sched_getaffinity */
#include <sched.h>
#endif

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "client/cli/doctor.h"
#include "common/host.h"

#define GIB 1073741824.0

/* The first line of a file without its newline; false: there is none. */
static bool first_line(const char *path, char *line, size_t n)
{
    FILE *f = fopen(path, "r");
    bool got = f && fgets(line, (int)n, f);
    if (f)
        fclose(f);
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got;
}

/* ---- CPU ---- */

static void cpu_features(char *text, size_t n)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned eax, ebx, ecx, edx = 0;
    bool leaf7 = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
    static const char *const names[] = {"avx2", "fma", "avx512f", "avx512bw", "vnni", "amx"};
    bool has[ARRAY_LEN(names)] = {
        __builtin_cpu_supports("avx2"),       __builtin_cpu_supports("fma"),
        __builtin_cpu_supports("avx512f"),    __builtin_cpu_supports("avx512bw"),
        __builtin_cpu_supports("avx512vnni"), leaf7 && edx & 1U << 25, /* AMX-INT8 */
    };
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (has[i] && at < n)
            at += (size_t)snprintf(text + at, n - at, " %s", names[i]);
#elif defined(__aarch64__)
    struct host_arm arm = host_arm();
    snprintf(text, n, " neon%s%s", arm.dot ? " dotprod" : "", arm.matrix ? " i8mm" : "");
#else
    snprintf(text, n, " the portable C path");
#endif
}

static int allowed_cpus(int online)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    return online;
}

/* CPUs that the control group grants; 0: no limit */
static double cgroup_cpus(void)
{
    char line[128];
    double quota, period;
    if (first_line("/sys/fs/cgroup/cpu.max", line, sizeof line) &&
        sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0)
        return quota / period;
    return 0.0;
}

void doctor_cpu(struct report *r)
{
    char features[160];
    int online = (int)sysconf(_SC_NPROCESSORS_ONLN), allowed = allowed_cpus(online);
    double quota = cgroup_cpus();
    cpu_features(features, sizeof features);
    bool fast =
        strstr(features, "avx2") || strstr(features, "neon") || strstr(features, "portable");
    report_line(r, fast ? FINDING_OK : FINDING_WARN, "CPU",
                "without AVX2 the portable path computes: correct, but slow",
                "%d of %d cores allowed;%s", allowed, online,
                *features ? features : " no vector extension that Ingot uses");
    if (quota > 0.0 && quota < allowed)
        report_line(
            r, FINDING_WARN, "CPU quota",
            "ranks times --threads should not exceed it: a throttled rank holds all others up",
            "the control group grants %.2f cores", quota);
}

/* ---- memory ---- */

void doctor_memory(struct report *r)
{
    char line[64];
    double total = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (first_line("/sys/fs/cgroup/memory.max", line, sizeof line) && line[0] >= '0' &&
        line[0] <= '9') {
        double limit = strtod(line, NULL);
        if (limit < total)
            total = limit;
    }
    report_line(r, total >= GIB ? FINDING_OK : FINDING_WARN, "memory",
                "'ingot inspect MODEL --tp N' says what a model needs", "%.1f GiB", total / GIB);
}

void doctor_shared_memory(struct report *r)
{
#ifdef __linux__
    struct statvfs v;
    if (statvfs("/dev/shm", &v) != 0) {
        report_line(r, FINDING_FAIL, "shared memory", "mount a tmpfs there, or use --coll mpi",
                    "there is no /dev/shm");
        return;
    }
    double free_bytes = (double)v.f_bavail * (double)v.f_frsize;
    bool writable = access("/dev/shm", W_OK) == 0;
    enum finding f = !writable || free_bytes < 16e6 ? FINDING_FAIL
                     : free_bytes < 256e6           ? FINDING_WARN
                                                    : FINDING_OK;
    report_line(r, f, "shared memory", "in a container: docker run --shm-size 1g",
                "%.0f MiB free in /dev/shm%s", free_bytes / 1048576.0,
                writable ? "" : ", not writable");
#else
    report_line(r, FINDING_OK, "shared memory", NULL, "POSIX shared memory of the system");
#endif
}

void doctor_limits(struct report *r)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    uint64_t n = (uint64_t)files.rlim_cur;
    report_line(r, n >= 1024 ? FINDING_OK : FINDING_WARN, "open files",
                "raise it with ulimit -n: each client is one", "%llu allowed",
                (unsigned long long)n);
}

/* ---- GPU ---- */

static bool has_library(const char *name)
{
    void *lib = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (lib)
        dlclose(lib);
    return lib != NULL;
}

void doctor_gpu(struct report *r)
{
    bool cuda = has_library("libcuda.so.1"), nccl = has_library("libnccl.so.2");
    report_line(r, FINDING_OK, "GPU", NULL, "CUDA driver %s, NCCL %s", cuda ? "found" : "absent",
                nccl ? "found" : "absent");
}
