/* A machine that executes kernels of PTX modules on the calling thread: every warp of the blocks that
 * are resident takes its turns in a random order, which the seed decides.  It ends with a failure
 * that names kernel, line, instruction, block and thread for: reads of undefined data that decide
 * something, accesses out of bounds or misaligned, data races (ptx_race.h), .aligned instructions
 * that not all lanes reach, barriers that are never complete, and kernels without end.
 *
 * Not modelled: caches and stores that become visible late (races are reported instead), textures,
 * clusters, and the time that anything takes. */
#ifndef TESTS_PTX_PTX_MACHINE_H
#define TESTS_PTX_PTX_MACHINE_H

#include "ptx/ptx_memory.h"
#include "ptx/ptx_module.h"

enum { PTX_MAX_STREAMS = 16 };

/* In which order a matrix instruction adds: NVIDIA documents none. */
enum ptx_mma_order {
    PTX_MMA_EXACT,    /* exactly, then rounded once to nearest even */
    PTX_MMA_TRUNCATE, /* aligned to the greatest exponent and cut to 24 + 3 bits, result cut to f32 */
    PTX_MMA_HALVES,   /* exactly over k 0 to 7 and rounded, then over k 8 to 15 with that sum */
    PTX_N_MMA_ORDERS
};

struct ptx_config {
    uint64_t seed;
    enum ptx_mma_order mma;
    uint32_t resident;   /* blocks of a grid at once; 0: 8 */
    uint64_t max_instrs; /* of warps in one ptx_run; 0: 4e9 */
};

struct ptx_launch {
    const struct ptx_module *module;
    const struct ptx_entry *entry;
    uint32_t grid[3], block[3];
    size_t dynamic_bytes; /* of shared memory */
    const void *params;   /* [entry->param_bytes], copied */
    uint32_t stream;
    bool dependent; /* programmatic: may begin before its predecessor in the stream has ended */
};

struct ptx_machine;

MUST_CHECK enum status ptx_machine_create(struct ptx_machine **out, const struct ptx_config *cfg);
void ptx_machine_destroy(struct ptx_machine *m);
struct ptx_memory *ptx_machine_memory(struct ptx_machine *m);
/* May be changed between runs. */
struct ptx_config *ptx_machine_config(struct ptx_machine *m);

/* A launch that the manual or CUDA's limits forbid is ST_RANGE.  Module and entry stay the caller's. */
MUST_CHECK enum status ptx_enqueue(struct ptx_machine *m, const struct ptx_launch *l);
/* Runs the kernels of all streams to their end.  After a failure the queues are empty. */
MUST_CHECK enum status ptx_run(struct ptx_machine *m);
/* Instructions of warps executed so far. */
uint64_t ptx_executed(const struct ptx_machine *m);

#endif
