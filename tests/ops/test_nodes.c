/* Where the CPU backend's memory lies on machines with several nodes.  On a machine with one node
 * this shows that the code runs and the system takes its wish, not what it gains. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/cpu/cpu_backend.h"
#include "common/host.h"
#include "temp_dir.h"

#ifdef __linux__

enum { BYTES = 8 << 20 };

static char root[64];

static void put_node(int node, const char *cores)
{
    char path[128];
    snprintf(path, sizeof path, "%s/node%d", root, node);
    cr_assert_eq(mkdir(path, 0777), 0);
    strcat(path, "/cpulist");
    FILE *f = fopen(path, "w");
    cr_assert(f && fputs(cores, f) >= 0 && fclose(f) == 0);
}

static void put_memory(const char *nodes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/has_memory", root);
    FILE *f = fopen(path, "w");
    cr_assert(f && fputs(nodes, f) >= 0 && fclose(f) == 0);
}

static void remove_memory(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/has_memory", root);
    unlink(path);
}

static void remove_node(int node)
{
    char path[128];
    snprintf(path, sizeof path, "%s/node%d/cpulist", root, node);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

Test(nodes, those_of_the_cores)
{
    char one[64];
    cpu_set_t set;
    size_t first = 0;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(first, &set))
        first++;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    cr_assert_eq(sched_setaffinity(0, sizeof set, &set), 0);
    temp_dir_make(root);
    put_node(0, "1000-1010,1012\n"); /* none of ours */
    put_node(1, "\n");               /* memory without cores */
    snprintf(one, sizeof one, "1000,%zu-%zu\n", first, first + 3);
    put_node(3, one);
    snprintf(one, sizeof one, "%zu", first);
    put_node(63, one);
    cr_assert(host_has_one_node(root), "nothing tells of a second one");
    put_memory("0\n");
    cr_assert(host_has_one_node(root));
    put_memory("0-1\n");
    cr_assert(!host_has_one_node(root));
    put_memory("1,3\n");
    cr_assert(!host_has_one_node(root));
    remove_memory();
    uint64_t got = host_nodes(root);
    for (int i = 0; i < 64; i++)
        remove_node(i);
    cr_assert_eq(host_nodes(root), 0, "no nodes at all");
    temp_dir_remove(root);
    cr_assert_eq(got, UINT64_C(1) << 63 | 1U << 3, "%llx", (unsigned long long)got);
}

/* The line of /proc/self/numa_maps whose map begins at p; "": none. */
static void policy_of(const void *p, char *line, size_t size)
{
    unsigned long at;
    FILE *f = fopen("/proc/self/numa_maps", "r");
    while (f && fgets(line, (int)size, f))
        if (sscanf(line, "%lx", &at) == 1 && at == (unsigned long)p) {
            fclose(f);
            return;
        }
    if (f)
        fclose(f);
    line[0] = '\0';
}

/* A buffer of a backend on those nodes: its line after it was written. */
static void buffer_line(uint64_t nodes, char *line, size_t size)
{
    struct backend *be;
    struct buf *b;
    struct backend_config cfg = {.threads = 2};
    static char data[BYTES], back[BYTES];
    cr_assert_eq(backend_open(&be, "cpu", &cfg), ST_OK, "%s", status_detail());
    cr_assert_eq(be->nodes, host_nodes(HOST_NODES));
    be->nodes = nodes;
    cr_assert_eq(cpu_alloc(be, BYTES, MEM_DEVICE, &b), ST_OK);
    struct view v = {.buf = b, .rows = 1, .cols = BYTES, .stride = BYTES, .dtype = DT_I8};
    memset(data, 7, sizeof data);
    cr_assert_eq(cpu_write(be, v, data), ST_OK);
    cr_assert_eq(cpu_read(be, back, v), ST_OK);
    cr_assert_eq(memcmp(data, back, sizeof data), 0);
    policy_of(b->data, line, size);
    cpu_free(be, b);
    backend_ops_of(be)->close(be);
}

Test(nodes, buffers_of_several_nodes_are_spread)
{
    char line[512];
    buffer_line(host_nodes(HOST_NODES) & 1U, line, sizeof line);
    if (!line[0])
        cr_skip_test("the system does not tell where memory lies");
    cr_assert(strstr(line, "default"), "one node: %s", line);
    buffer_line(3, line, sizeof line); /* the system leaves out nodes that are not there */
    cr_assert(strstr(line, "interleave:0"), "two nodes: %s", line);
}

Test(nodes, small_buffers_and_wrong_nodes)
{
    struct buf small, large;
    cr_assert_eq(mem_take(&small, 1000), ST_OK);
    cr_assert_eq(mem_take(&large, BYTES), ST_OK);
    cr_assert(!mem_spread(&small, 1));
    cr_assert(!mem_spread(&large, UINT64_C(1) << 63), "a node that is not there");
    memset(large.data, 1, BYTES);
    mem_give(&small);
    mem_give(&large);
}

#endif
