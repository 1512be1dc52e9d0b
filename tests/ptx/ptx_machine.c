#include "ptx/ptx_machine.h"

#include <stdlib.h>
#include <string.h>

#include "ptx/ptx_block.h"

enum {
    DEFAULT_RESIDENT = 8,
    QUANTUM = 48,
    NS_PER_TURN = 20,
    MAX_GRID_X = INT32_MAX,
    MAX_GRID_YZ = 65535
};
/* Shared memory of a block: without and with the attribute for more (CUDA's guide, 9.0). */
enum { MAX_SHARED = 227 << 10 };

/* What was known when an address was stored to with release. */
struct release {
    uint64_t address;
    struct ptx_clock clock;
};

struct ptx_machine {
    struct ptx_memory memory;
    struct ptx_config cfg;
    uint64_t random, executed, turns;
    struct ptx_grid *queue[PTX_MAX_STREAMS]; /* not ended yet, in order */
    uint32_t last_number[PTX_MAX_STREAMS];   /* of the stream's last grid */
    uint32_t n_launched;
    struct ptx_times times;
    struct ptx_block **block; /* resident */
    size_t n_blocks, max_blocks;
    struct ptx_warp **ready; /* warps that can run */
    size_t n_ready, max_ready;
    struct release *release;
    size_t n_releases;
};

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t next_random(struct ptx_machine *m)
{
    uint64_t z = m->random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

enum status ptx_machine_create(struct ptx_machine **out, const struct ptx_config *cfg)
{
    struct ptx_machine *m = calloc(1, sizeof *m);
    if (!m)
        FAIL(ST_NOMEM, "no memory for a PTX machine");
    m->cfg = *cfg;
    m->random = cfg->seed;
    m->times.first = 1;
    *out = m;
    return ST_OK;
}

struct ptx_memory *ptx_machine_memory(struct ptx_machine *m)
{
    return &m->memory;
}

struct ptx_config *ptx_machine_config(struct ptx_machine *m)
{
    return &m->cfg;
}

uint64_t ptx_executed(const struct ptx_machine *m)
{
    return m->executed;
}

const struct ptx_times *ptx_machine_times(const struct ptx_machine *m)
{
    return &m->times;
}

enum status ptx_new_time(struct ptx_warp *w)
{
    const struct ptx_block *b = w->block;
    struct ptx_time time = {.grid = b->grid->number,
                            .block = b->number,
                            .barriers = b->barriers,
                            .warp = (uint16_t)w->index,
                            .warp_barriers = w->barriers,
                            .stream = (uint8_t)b->grid->launch.stream};
    return ptx_times_add(&b->machine->times, &time, &w->time);
}

uint64_t ptx_clock_ns(const struct ptx_machine *m)
{
    return m->turns * NS_PER_TURN;
}

/* ---- launches ---- */

static void grid_destroy(struct ptx_grid *g)
{
    if (!g)
        return;
    free((void *)(uintptr_t)g->launch.params);
    free(g->order);
    free(g);
}

static enum status check_launch(const struct ptx_launch *l)
{
    const struct ptx_entry *e = l->entry;
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    if (threads == 0 || threads > PTX_MAX_THREADS ||
        (e->max_threads && threads > (uint64_t)e->max_threads))
        FAIL(ST_RANGE, "%s: %llu threads a block", e->name, (unsigned long long)threads);
    if (l->grid[0] > MAX_GRID_X || l->grid[1] > MAX_GRID_YZ || l->grid[2] > MAX_GRID_YZ ||
        blocks == 0 || blocks > UINT32_MAX)
        FAIL(ST_RANGE, "%s: a grid of %u x %u x %u blocks", e->name, l->grid[0], l->grid[1],
             l->grid[2]);
    if (e->shared_bytes + l->dynamic_bytes > MAX_SHARED)
        FAIL(ST_RANGE, "%s: %zu + %zu bytes of shared memory", e->name, e->shared_bytes,
             l->dynamic_bytes);
    if (l->stream >= PTX_MAX_STREAMS)
        FAIL(ST_RANGE, "stream %u", l->stream);
    return ST_OK;
}

/* A random order of the blocks. */
static void shuffle(struct ptx_machine *m, struct ptx_grid *g)
{
    for (uint32_t i = 0; i < g->n_blocks; i++) {
        uint32_t j = (uint32_t)(next_random(m) % (i + 1));
        g->order[i] = g->order[j];
        g->order[j] = i;
    }
}

enum status ptx_enqueue(struct ptx_machine *m, const struct ptx_launch *l)
{
    TRY(check_launch(l));
    struct ptx_grid *g = calloc(1, sizeof *g), **at = &m->queue[l->stream];
    void *params = malloc(l->entry->param_bytes + 1);
    if (g) {
        g->launch = *l;
        g->launch.params = params;
        g->n_blocks = l->grid[0] * l->grid[1] * l->grid[2];
        g->order = calloc(g->n_blocks, sizeof *g->order);
    }
    if (!g || !params || !g->order) {
        if (g)
            free(g->order);
        free(g);
        free(params);
        FAIL(ST_NOMEM, "no memory for a launch");
    }
    if (l->entry->param_bytes)
        memcpy(params, l->params, l->entry->param_bytes);
    shuffle(m, g);
    g->number = ++m->n_launched;
    g->before = m->last_number[l->stream];
    m->last_number[l->stream] = g->number;
    while (*at)
        at = &(*at)->next;
    *at = g;
    return ST_OK;
}

/* ---- blocks ---- */

static void block_destroy(struct ptx_block *b)
{
    if (!b)
        return;
    for (int32_t i = 0; b->warp && i < b->n_warps; i++) {
        free(b->warp[i].reg);
        free(b->warp[i].poison);
        free(b->warp[i].copy);
    }
    free(b->warp);
    free(b->shared);
    free(b->shared_state);
    ptx_marks_destroy(b->shared_marks, b->shared_bytes);
    free(b->local);
    free(b->local_state);
    ptx_clock_fini(&b->clock);
    free(b);
}

static void set_special(struct ptx_warp *w, int lane)
{
    const struct ptx_launch *l = &w->block->grid->launch;
    uint32_t t = (uint32_t)ptx_thread(w, lane);
    uint32_t tid[3] = {t % l->block[0], t / l->block[0] % l->block[1],
                       t / l->block[0] / l->block[1]};
    for (int i = 0; i < 3; i++) {
        w->reg[PTX_TID + i][lane] = tid[i];
        w->reg[PTX_NTID + i][lane] = l->block[i];
        w->reg[PTX_CTAID + i][lane] = w->block->id[i];
        w->reg[PTX_NCTAID + i][lane] = l->grid[i];
    }
    w->reg[PTX_LANEID][lane] = (uint64_t)lane;
}

static enum status warp_init(struct ptx_block *b, int32_t index)
{
    struct ptx_warp *w = &b->warp[index];
    size_t n = (size_t)b->entry->n_regs;
    int32_t lanes = b->n_threads - index * PTX_LANES;
    w->block = b;
    w->index = index;
    w->reg = calloc(n, sizeof *w->reg);
    w->poison = malloc(n * sizeof *w->poison);
    if (!w->reg || !w->poison)
        FAIL(ST_NOMEM, "no memory for %zu registers", n);
    memset(w->poison, 0xff, n * sizeof *w->poison);
    memset(w->poison, 0, PTX_N_SPECIAL * sizeof *w->poison);
    w->live = lanes >= PTX_LANES ? UINT32_MAX : (1U << lanes) - 1;
    w->n_splits = 1;
    w->split[0] = (struct ptx_split){.mask = w->live};
    for (int lane = 0; lane < PTX_LANES; lane++)
        set_special(w, lane);
    return ST_OK;
}

static enum status take_memory(struct ptx_block *b)
{
    const struct ptx_entry *e = b->entry;
    size_t local = e->local_bytes * (size_t)b->n_threads;
    b->shared_bytes =
        e->has_dynamic ? PTX_DYNAMIC_AT + b->grid->launch.dynamic_bytes : e->shared_bytes;
    b->shared = calloc(b->shared_bytes + 1, 1);
    b->shared_state = malloc(b->shared_bytes + 1);
    b->shared_marks = ptx_marks_create(b->shared_bytes);
    b->local = malloc(local + 1);
    b->local_state = calloc(local + 1, 1);
    b->warp = calloc((size_t)b->n_warps, sizeof *b->warp);
    if (!b->shared || !b->shared_state || !b->shared_marks || !b->local || !b->local_state ||
        !b->warp)
        FAIL(ST_NOMEM, "no memory for a block");
    memset(b->shared_state, PTX_OUTSIDE, b->shared_bytes);
    for (int32_t i = 0; i < e->n_vars; i++)
        if (e->var[i].space == PTX_SHARED)
            memset(b->shared_state + e->var[i].offset, PTX_UNDEFINED,
                   e->var[i].bytes ? e->var[i].bytes : b->grid->launch.dynamic_bytes);
    return ST_OK;
}

static enum status block_create(struct ptx_block **out, struct ptx_machine *m, struct ptx_grid *g)
{
    struct ptx_block *b = calloc(1, sizeof *b);
    const struct ptx_launch *l = &g->launch;
    enum status st;
    if (!b)
        FAIL(ST_NOMEM, "no memory for a block");
    b->machine = m;
    b->grid = g;
    b->entry = l->entry;
    b->number = g->order[g->n_started];
    b->id[0] = b->number % l->grid[0];
    b->id[1] = b->number / l->grid[0] % l->grid[1];
    b->id[2] = b->number / l->grid[0] / l->grid[1];
    b->n_threads = (int32_t)(l->block[0] * l->block[1] * l->block[2]);
    b->n_warps = (b->n_threads + PTX_LANES - 1) / PTX_LANES;
    st = take_memory(b);
    for (int32_t i = 0; st == ST_OK && i < b->n_warps; i++)
        st = warp_init(b, i);
    if (st != ST_OK) {
        block_destroy(b);
        return st;
    }
    *out = b;
    return ST_OK;
}

void ptx_block_release(struct ptx_block *b)
{
    if (!b->released)
        b->grid->n_released++;
    b->released = true;
}

bool ptx_predecessor_ended(const struct ptx_block *b)
{
    return b->grid->predecessor_ended;
}

/* ---- release and acquire ---- */

static struct release *find_release(struct ptx_machine *m, uint64_t address)
{
    for (size_t i = 0; i < m->n_releases; i++)
        if (m->release[i].address == address)
            return &m->release[i];
    return NULL;
}

enum status ptx_released(struct ptx_warp *w, uint64_t address)
{
    struct ptx_block *b = w->block;
    struct ptx_machine *m = b->machine;
    struct release *r = find_release(m, address);
    if (!r) {
        struct release *more = realloc(m->release, (m->n_releases + 1) * sizeof *more);
        if (!more)
            FAIL(ST_NOMEM, "no memory for clocks");
        m->release = more;
        r = &more[m->n_releases++];
        *r = (struct release){.address = address};
    }
    r->clock.n = 0;
    for (size_t i = 0; i < b->clock.n; i++)
        if (b->clock.known[i].thread < 0)
            TRY(ptx_clock_add(&r->clock, b->clock.known[i]));
    return ptx_clock_add(&r->clock, (struct ptx_known){.grid = b->grid->number,
                                                       .block = b->number,
                                                       .barriers = b->barriers,
                                                       .thread = -1});
}

enum status ptx_acquired(struct ptx_warp *w, int lane, uint64_t address)
{
    const struct release *r = find_release(w->block->machine, address);
    for (size_t i = 0; r && i < r->clock.n; i++) {
        struct ptx_known k = r->clock.known[i];
        k.thread = ptx_thread(w, lane);
        TRY(ptx_clock_add(&w->block->clock, k));
    }
    return ST_OK;
}

/* ---- the schedule ---- */

static enum status make_ready(struct ptx_machine *m, struct ptx_warp *w)
{
    if (m->n_ready == m->max_ready) {
        size_t more = m->max_ready ? 2 * m->max_ready : 64;
        struct ptx_warp **p = realloc(m->ready, more * sizeof(struct ptx_warp *));
        if (!p)
            FAIL(ST_NOMEM, "no memory for warps");
        m->ready = p;
        m->max_ready = more;
    }
    w->state = PTX_RUNS;
    w->time = 0;
    m->ready[m->n_ready++] = w;
    return ST_OK;
}

static enum status start_block(struct ptx_machine *m, struct ptx_grid *g)
{
    struct ptx_block *b = NULL;
    if (m->n_blocks == m->max_blocks) {
        size_t more = m->max_blocks ? 2 * m->max_blocks : 16;
        struct ptx_block **p = realloc(m->block, more * sizeof(struct ptx_block *));
        if (!p)
            FAIL(ST_NOMEM, "no memory for blocks");
        m->block = p;
        m->max_blocks = more;
    }
    TRY(block_create(&b, m, g));
    m->block[m->n_blocks++] = b;
    g->n_started++;
    for (int32_t i = 0; i < b->n_warps; i++)
        TRY(make_ready(m, &b->warp[i]));
    return ST_OK;
}

static enum status fill_grid(struct ptx_machine *m, struct ptx_grid *g)
{
    uint32_t resident = m->cfg.resident ? m->cfg.resident : DEFAULT_RESIDENT;
    while (g->n_started < g->n_blocks && g->n_started - g->n_ended < resident)
        TRY(start_block(m, g));
    return ST_OK;
}

/* Starts blocks of each stream's first grid, and of the second if it may overlap with the first:
 * all of whose blocks have issued launch_dependents or ended. */
static enum status fill(struct ptx_machine *m)
{
    for (int s = 0; s < PTX_MAX_STREAMS; s++) {
        struct ptx_grid *g = m->queue[s];
        if (!g)
            continue;
        g->predecessor_ended = true;
        TRY(fill_grid(m, g));
        if (g->next && g->next->launch.dependent && g->n_released == g->n_blocks)
            TRY(fill_grid(m, g->next));
    }
    return ST_OK;
}

/* Warps that waited for the end of the grid before theirs go on. */
static enum status wake_waiting(struct ptx_machine *m, const struct ptx_grid *g)
{
    for (size_t i = 0; i < m->n_blocks; i++)
        for (int32_t k = 0; m->block[i]->grid == g && k < m->block[i]->n_warps; k++)
            if (m->block[i]->warp[k].state == PTX_AT_GRID_WAIT)
                TRY(make_ready(m, &m->block[i]->warp[k]));
    return ST_OK;
}

static enum status end_block(struct ptx_machine *m, struct ptx_block *b)
{
    struct ptx_grid *g = b->grid;
    size_t i = 0;
    while (m->block[i] != b)
        i++;
    m->block[i] = m->block[--m->n_blocks];
    ptx_block_release(b);
    block_destroy(b);
    g->n_ended++;
    struct ptx_grid **queue = &m->queue[g->launch.stream];
    while (*queue && (*queue)->n_ended == (*queue)->n_blocks) {
        struct ptx_grid *ended = *queue;
        *queue = ended->next;
        grid_destroy(ended);
        if (*queue) {
            (*queue)->predecessor_ended = true;
            TRY(wake_waiting(m, *queue));
        }
    }
    return fill(m);
}

/* After a warp of b came to the barrier or ended: all that have not ended at the barrier go on. */
static enum status check_barrier(struct ptx_machine *m, struct ptx_block *b)
{
    int32_t ended = 0, waiting = 0;
    for (int32_t i = 0; i < b->n_warps; i++) {
        ended += b->warp[i].state == PTX_ENDED;
        waiting += b->warp[i].state == PTX_AT_BARRIER;
    }
    if (ended == b->n_warps)
        return end_block(m, b);
    if (waiting + ended < b->n_warps)
        return fill(m);
    b->barriers++;
    ptx_clock_barrier(&b->clock);
    for (int32_t i = 0; i < b->n_warps; i++)
        if (b->warp[i].state == PTX_AT_BARRIER)
            TRY(make_ready(m, &b->warp[i]));
    return ST_OK;
}

static enum status turn(struct ptx_machine *m)
{
    size_t i = (size_t)(next_random(m) % m->n_ready);
    struct ptx_warp *w = m->ready[i];
    uint32_t released = w->block->grid->n_released;
    int32_t quantum = 1 + (int32_t)(next_random(m) % QUANTUM);
    TRY(ptx_warp_run(w, quantum));
    m->executed += (uint64_t)quantum;
    m->turns++;
    if (w->state != PTX_RUNS) {
        m->ready[i] = m->ready[--m->n_ready];
        return w->state == PTX_AT_GRID_WAIT ? ST_OK : check_barrier(m, w->block);
    }
    return w->block->grid->n_released == released ? ST_OK : fill(m);
}

static enum status stuck(const struct ptx_machine *m)
{
    const struct ptx_block *b = m->block[0];
    int32_t waiting = 0;
    for (int32_t i = 0; i < b->n_warps; i++)
        waiting += b->warp[i].state == PTX_AT_BARRIER;
    FAIL(ST_BUG, "%s never ends: %d of %d warps of block %u wait at a barrier", b->entry->name,
         waiting, b->n_warps, b->number);
}

static void drop_all(struct ptx_machine *m)
{
    for (size_t i = 0; i < m->n_blocks; i++)
        block_destroy(m->block[i]);
    m->n_blocks = m->n_ready = 0;
    for (int s = 0; s < PTX_MAX_STREAMS; s++) {
        while (m->queue[s]) {
            struct ptx_grid *next = m->queue[s]->next;
            grid_destroy(m->queue[s]);
            m->queue[s] = next;
        }
    }
    for (size_t i = 0; i < m->n_releases; i++)
        ptx_clock_fini(&m->release[i].clock);
    m->n_releases = 0;
    ptx_times_end(&m->times);
}

static enum status run_all(struct ptx_machine *m)
{
    uint64_t from = m->executed, most = m->cfg.max_instrs ? m->cfg.max_instrs : 4000000000U;
    TRY(fill(m));
    while (m->n_blocks > 0) {
        if (m->n_ready == 0)
            return stuck(m);
        if (m->executed - from > most)
            FAIL(ST_TIMEOUT, "%s has not ended after %llu instructions", m->block[0]->entry->name,
                 (unsigned long long)most);
        TRY(turn(m));
    }
    return ST_OK;
}

enum status ptx_run(struct ptx_machine *m)
{
    enum status st = run_all(m);
    drop_all(m);
    return st;
}

void ptx_machine_destroy(struct ptx_machine *m)
{
    if (!m)
        return;
    drop_all(m);
    free(m->block);
    free(m->ready);
    free(m->release);
    ptx_memory_fini(&m->memory);
    ptx_times_fini(&m->times);
    free(m);
}
