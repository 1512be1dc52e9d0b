#if defined(__linux__)
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "common/host.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

/* The number after key at a line's start in a text file such as /proc/meminfo; -1: not there. */
static long long number_after(const char *path, const char *key)
{
    char line[256];
    long long value = -1;
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    while (value < 0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%lld", &value) != 1)
            value = -1;
    fclose(f);
    return value;
}

/* This process's group in one cgroup hierarchy: controller "" selects version 2, a controller's
 * name selects version 1.  out: the path below the mount, "/" when not known. */
static void cgroup_path(const char *controller, char *out, size_t size)
{
    char line[512];
    snprintf(out, size, "/");
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        char *names = strchr(line, ':');
        char *path = names ? strchr(names + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (strcmp(names + 1, controller) == 0)
            snprintf(out, size, "%s", path);
    }
    fclose(f);
}

/* Calls look at the group and at each group above it; the least non-negative answer, -1: none. */
static long long least_of_groups(const char *controller, const char *mount,
                                 long long (*look)(const char *dir))
{
    char path[512], dir[640];
    long long least = -1;
    cgroup_path(controller, path, sizeof path);
    for (;;) {
        snprintf(dir, sizeof dir, "%s%s", mount, path);
        long long v = look(dir);
        if (v >= 0 && (least < 0 || v < least))
            least = v;
        char *slash = strrchr(path, '/');
        if (!slash || path[1] == '\0')
            return least;
        slash[slash == path ? 1 : 0] = '\0';
    }
}

static long long file_number(const char *dir, const char *name)
{
    char path[704];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return number_after(path, "");
}

static long long cpus_of_quota(long long quota, long long period)
{
    return quota > 0 && period > 0 ? (quota + period - 1) / period : -1;
}

static long long quota_v1(const char *dir)
{
    return cpus_of_quota(file_number(dir, "cpu.cfs_quota_us"),
                         file_number(dir, "cpu.cfs_period_us"));
}

static long long quota_v2(const char *dir)
{
    char path[704];
    long long quota = -1, period = -1;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    FILE *f = fopen(path, "r");
    if (!f)
        return -1;
    if (fscanf(f, "%lld %lld", &quota, &period) != 2) /* "max 100000": no quota */
        quota = -1;
    fclose(f);
    return cpus_of_quota(quota, period);
}

static long long room_of(const char *dir, const char *limit, const char *usage)
{
    long long most = file_number(dir, limit), used = file_number(dir, usage);
    if (most < 0 || used < 0)
        return -1;
    return most > used ? most - used : 0;
}

static long long room_v1(const char *dir)
{
    return room_of(dir, "memory.limit_in_bytes", "memory.usage_in_bytes");
}

static long long room_v2(const char *dir)
{
    return room_of(dir, "memory.max", "memory.current");
}

static long long least_of(long long a, long long b)
{
    return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

int host_cpus(void)
{
    long long n = 1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
    else
        n = sysconf(_SC_NPROCESSORS_ONLN);
    n = least_of(n, least_of_groups("", "/sys/fs/cgroup", quota_v2));
    n = least_of(n, least_of_groups("cpu", "/sys/fs/cgroup/cpu", quota_v1));
    n = least_of(n, least_of_groups("cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct", quota_v1));
    return n > 0 ? (int)n : 1;
}

/* Is one of the cores in a text such as "0-3,8" in the set? */
static bool any_core(const char *list, const cpu_set_t *set)
{
    size_t from, to;
    int n;
    for (; sscanf(list, "%zu%n", &from, &n) == 1; list += *list == ',') {
        list += n;
        to = from;
        if (*list == '-' && sscanf(list, "-%zu%n", &to, &n) == 1)
            list += n;
        for (size_t c = from; c <= to && c < CPU_SETSIZE; c++)
            if (CPU_ISSET(c, set))
                return true;
    }
    return false;
}

uint64_t host_nodes(const char *sysfs)
{
    char path[512], line[4096];
    cpu_set_t set;
    uint64_t nodes = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    for (int i = 0; i < 64; i++) {
        snprintf(path, sizeof path, "%s/node%d/cpulist", sysfs, i);
        FILE *f = fopen(path, "r");
        if (f && fgets(line, sizeof line, f) && any_core(line, &set))
            nodes |= UINT64_C(1) << i;
        if (f)
            fclose(f);
    }
    return nodes;
}

bool host_has_one_node(const char *sysfs)
{
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/has_memory", sysfs);
    FILE *f = fopen(path, "r");
    bool several = f && fgets(line, sizeof line, f) && strpbrk(line, ",-"); /* such as "0-1" */
    if (f)
        fclose(f);
    return !several;
}

void host_bind_thread(int i)
{
    cpu_set_t all, one;
    if (sched_getaffinity(getpid(), sizeof all, &all) != 0)
        return;
    i %= CPU_COUNT(&all);
    CPU_ZERO(&one);
    for (size_t c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && i-- == 0)
            CPU_SET(c, &one);
    sched_setaffinity(0, sizeof one, &one);
}

size_t host_mem_free(void)
{
    long long kib = number_after("/proc/meminfo", "MemAvailable:");
    long long bytes = kib < 0 ? -1 : kib * 1024;
    bytes = least_of(bytes, least_of_groups("", "/sys/fs/cgroup", room_v2));
    bytes = least_of(bytes, least_of_groups("memory", "/sys/fs/cgroup/memory", room_v1));
    return bytes > 0 ? (size_t)bytes : 0;
}

static size_t kib_of(const char *key)
{
    long long kib = number_after("/proc/self/smaps_rollup", key);
    return kib > 0 ? (size_t)kib * 1024 : 0;
}

struct host_taken host_taken(void)
{
    return (struct host_taken){.memory = kib_of("Pss_Anon:") + kib_of("Pss_Shmem:"),
                               .files = kib_of("Pss_File:")};
}

/* A 64-bit Arm kernel gives the maker's and the part's number in place of a name (Arm Architecture Reference Manual,
 * MIDR_EL1). */
void host_cpu_name_of(const char *cpuinfo, char *name, size_t size)
{
    char line[256], maker[16] = "";
    snprintf(name, size, "unnamed");
    FILE *f = fopen(cpuinfo, "r");
    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || colon[1] != ' ')
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        const char *value = colon + 2;
        if (strncmp(line, "CPU implementer", 15) == 0)
            snprintf(maker, sizeof maker, "%s", value);
        if (strncmp(line, "model name", 10) == 0)
            snprintf(name, size, "%s", value);
        else if (strncmp(line, "CPU part", 8) == 0)
            snprintf(name, size, "Arm processor, implementer %s, part %s", maker, value);
        else
            continue;
        break;
    }
    fclose(f);
}

void host_cpu_name(char *name, size_t size)
{
    host_cpu_name_of("/proc/cpuinfo", name, size);
}

struct host_arm host_arm(void)
{
#if defined(__aarch64__)
    return (struct host_arm){.dot = getauxval(AT_HWCAP) & HWCAP_ASIMDDP,
                             .matrix = getauxval(AT_HWCAP2) & HWCAP2_I8MM};
#else
    return (struct host_arm){0};
#endif
}

#elif defined(__APPLE__)
#include <mach/mach.h>
#include <sys/sysctl.h>

/* Level 0 is the fast cores of Apple silicon: a slow one would hold each operation up. */
int host_cpus(void)
{
    int n = 0;
    size_t size = sizeof n;
    if (sysctlbyname("hw.perflevel0.logicalcpu", &n, &size, NULL, 0) != 0 || n < 1)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? n : 1;
}

uint64_t host_nodes(const char *sysfs)
{
    (void)sysfs;
    return 0;
}

bool host_has_one_node(const char *sysfs)
{
    (void)sysfs;
    return true;
}

void host_bind_thread(int i)
{
    (void)i;
}

size_t host_mem_free(void)
{
    vm_statistics64_data_t vm;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    if (host_statistics64(mach_host_self(), HOST_VM_INFO64, (host_info64_t)&vm, &n) != KERN_SUCCESS)
        return 0;
    return ((size_t)vm.free_count + vm.inactive_count) * (size_t)sysconf(_SC_PAGESIZE);
}

struct host_taken host_taken(void)
{
    task_vm_info_data_t vm;
    mach_msg_type_number_t n = TASK_VM_INFO_COUNT;
    if (task_info(mach_task_self(), TASK_VM_INFO, (task_info_t)&vm, &n) != KERN_SUCCESS)
        return (struct host_taken){0};
    return (struct host_taken){.memory = (size_t)vm.phys_footprint, .files = (size_t)vm.external};
}

void host_cpu_name(char *name, size_t size)
{
    if (sysctlbyname("machdep.cpu.brand_string", name, &size, NULL, 0) != 0)
        name[0] = '\0';
}

/* Each Apple silicon has the dot product, from the M2 on the other too. */
struct host_arm host_arm(void)
{
#if defined(__aarch64__)
    int matrix = 0;
    size_t size = sizeof matrix;
    if (sysctlbyname("hw.optional.arm.FEAT_I8MM", &matrix, &size, NULL, 0) != 0)
        matrix = 0;
    return (struct host_arm){.dot = true, .matrix = matrix != 0};
#else
    return (struct host_arm){0};
#endif
}

#else
#error "host.c knows Linux and macOS"
#endif

size_t host_mem_total(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page : 0;
}
