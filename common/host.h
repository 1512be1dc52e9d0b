/* What the operating system lets this process use. */
#ifndef COMMON_HOST_H
#define COMMON_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CPUs in the affinity mask, cut to the cgroup's quota (rounded up); on Apple silicon the fast cores; at least 1. */
int host_cpus(void);

/* Nodes of memory (the first 64, as bits) whose cores this process may use; 0: not known.  sysfs:
 * where the system tells, HOST_NODES. */
#define HOST_NODES "/sys/devices/system/node"
uint64_t host_nodes(const char *sysfs);
/* Has the whole host at most one node with memory, as far as the system tells? */
bool host_has_one_node(const char *sysfs);

/* Binds the calling thread to the i-th core of those that the process may use, counted round; does
 * nothing where the system cannot. */
void host_bind_thread(int i);

/* Bytes that can be allocated without swapping, within the cgroup's limit; 0 when not known. */
size_t host_mem_free(void);
size_t host_mem_total(void);

/* What this process has taken, in bytes: memory, and pages of files (the program, its libraries,
 * maps), which the system can drop.  On Linux a page that n processes share counts as 1/n.  0: not known. */
struct host_taken {
    size_t memory, files;
};
struct host_taken host_taken(void);

/* Integer products of a 64-bit Arm processor beside those of NEON: SDOT (FEAT_DotProd), USDOT and
 * USMMLA (FEAT_I8MM).  Others have none. */
struct host_arm {
    bool dot, matrix;
};
struct host_arm host_arm(void);

/* "Intel(R) Xeon(R) Processor", or of a 64-bit Arm processor the numbers of maker and part (copied into name,
 * cut to size). */
void host_cpu_name(char *name, size_t size);
#ifdef __linux__
/* The same from a file in the form of /proc/cpuinfo; "unnamed" where it tells nothing. */
void host_cpu_name_of(const char *cpuinfo, char *name, size_t size);
#endif

#endif
