/* Blocks and warps in execution: between ptx_machine.c, which schedules them, ptx_step.c (control and
 * synchronisation), ptx_access.c (memory), ptx_alu.c and ptx_mma.c.
 *
 * A register is PTX_LANES values of 64 bits; an instruction reads the low bits of its type.  A lane
 * of a register is poisoned (a bit of `poison`) while it depends on bytes or registers that were
 * never written: it may be copied and computed with, but not decide a branch, an address or what
 * the host reads. */
#ifndef TESTS_PTX_PTX_BLOCK_H
#define TESTS_PTX_PTX_BLOCK_H

#include "ptx/ptx_machine.h"
#include "ptx/ptx_module.h"

/* Generic addresses of shared and local memory: no address of a process is there. */
#define PTX_SHARED_WINDOW (1ULL << 60)
#define PTX_LOCAL_WINDOW (1ULL << 61)

enum { PTX_MAX_THREADS = 1024 };

struct ptx_grid {
    struct ptx_launch launch; /* params: own copy */
    struct ptx_grid *next;    /* of the stream */
    uint32_t number, n_blocks, n_started, n_ended, n_released;
    uint32_t before; /* grids of the stream below this number had ended when it began */
    uint32_t *order; /* [n_blocks], shuffled */
    bool predecessor_ended;
};

/* Lanes of a warp that are at one instruction. */
struct ptx_split {
    int32_t pc;
    uint32_t mask;
    bool blocked; /* waits for the lanes that its instruction needs */
};

/* A cp.async under way. */
struct ptx_copy {
    uint32_t lane, group;
    size_t to;
    uint8_t data[16], state[16];
};

enum ptx_warp_state { PTX_RUNS, PTX_AT_BARRIER, PTX_AT_GRID_WAIT, PTX_ENDED };

struct ptx_warp {
    struct ptx_block *block;
    int32_t index; /* in its block */
    enum ptx_warp_state state;
    uint64_t (*reg)[PTX_LANES];
    uint32_t *poison;  /* [n_regs] */
    uint32_t live;     /* lanes that have not ended */
    uint32_t waited;   /* lanes past griddepcontrol.wait */
    uint16_t barriers; /* bar.warp.sync */
    uint32_t time;     /* of its accesses (ptx_race.h); 0: it has none yet since the last barrier */
    int32_t n_splits;
    struct ptx_split split[PTX_LANES];
    struct ptx_copy *copy;
    int32_t n_copies, max_copies;
    uint32_t group[PTX_LANES]; /* committed by the lane */
};

struct ptx_block {
    struct ptx_machine *machine;
    struct ptx_grid *grid;
    const struct ptx_entry *entry;
    uint32_t number, id[3]; /* in the grid */
    int32_t n_threads, n_warps;
    uint32_t barriers;
    bool released; /* a thread has issued launch_dependents */
    size_t shared_bytes;
    uint8_t *shared, *shared_state; /* [shared_bytes] */
    struct ptx_mark **shared_marks;
    uint8_t *local, *local_state; /* [n_threads, local_bytes of the entry] */
    struct ptx_clock clock;
    struct ptx_warp *warp; /* [n_warps] */
};

static inline const uint64_t *ptx_lanes(const struct ptx_warp *w, int32_t reg)
{
    return reg >= 0 ? w->reg[reg] : w->block->entry->constant + (size_t)~reg * PTX_LANES;
}

static inline uint32_t ptx_poison(const struct ptx_warp *w, int32_t reg)
{
    return reg >= 0 ? w->poison[reg] : 0;
}

/* The lanes of mask of register reg become `poison`'s. */
static inline void ptx_set_poison(struct ptx_warp *w, int32_t reg, uint32_t mask, uint32_t poison)
{
    w->poison[reg] = (w->poison[reg] & ~mask) | (poison & mask);
}

/* The lanes of mask of register reg become out's. */
static inline void ptx_set_lanes(struct ptx_warp *w, int32_t reg, uint32_t mask,
                                 const uint64_t out[PTX_LANES])
{
    uint64_t *to = w->reg[reg];
    for (int lane = 0; lane < PTX_LANES; lane++)
        to[lane] = mask >> lane & 1 ? out[lane] : to[lane];
}

/* A lane's bit of a predicate register. */
static inline uint32_t ptx_predicate(const struct ptx_warp *w, int32_t reg)
{
    const uint64_t *v = ptx_lanes(w, reg);
    uint32_t out = 0;
    for (int lane = 0; lane < PTX_LANES; lane++)
        out |= (uint32_t)(v[lane] & 1) << lane;
    return out;
}

/* The thread's number in its block. */
static inline int32_t ptx_thread(const struct ptx_warp *w, int lane)
{
    return w->index * PTX_LANES + lane;
}

/* Of the first poisoned lane among mask. */
MUST_CHECK enum status ptx_check_poison(const struct ptx_warp *w, int32_t reg, uint32_t mask,
                                        const char *what);

/* ptx_alu.c: arithmetic of the lanes in mask. */
void ptx_alu(struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask);
/* ptx_mma.c */
void ptx_mma_int(struct ptx_warp *w, const struct ptx_instr *in);
void ptx_mma(struct ptx_warp *w, const struct ptx_instr *in);
/* ptx_access.c */
MUST_CHECK enum status ptx_access(struct ptx_warp *w, const struct ptx_instr *in, uint32_t mask);

/* ptx_machine.c.  A thread's st.release to, ld.acquire of an address. */
MUST_CHECK enum status ptx_released(struct ptx_warp *w, uint64_t address);
MUST_CHECK enum status ptx_acquired(struct ptx_warp *w, int lane, uint64_t address);
const struct ptx_times *ptx_machine_times(const struct ptx_machine *m);
/* Gives w->time a number. */
MUST_CHECK enum status ptx_new_time(struct ptx_warp *w);
/* A thread has issued launch_dependents. */
void ptx_block_release(struct ptx_block *b);
/* Has the grid before this one in its stream ended? */
bool ptx_predecessor_ended(const struct ptx_block *b);
/* Nanoseconds. */
uint64_t ptx_clock_ns(const struct ptx_machine *m);

/* ptx_step.c: up to `quantum` instructions of the warp, until its state changes. */
MUST_CHECK enum status ptx_warp_run(struct ptx_warp *w, int32_t quantum);

#endif
