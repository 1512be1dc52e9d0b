/* Runs the blocks of a kernel: schedules the fibers, barriers, warp operations. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <vector>

#include "common/dtype.h"

#include "block.h"
#include "emulator.h"
#include "fiber.h"

enum { WARP = 32, MAX_THREADS = 1024 };

enum thread_state { READY, AT_BARRIER, IN_WARP, ENDED };

struct async_copy {
    void *dst;
    const void *src;
    bool real;
    int group;
};

struct gpu_thread {
    struct emulated_thread seen; /* first: emulated_now points here */
    struct fiber fiber;
    enum thread_state state;
    const char *at; /* barrier's file or warp operation */
    int line;
    std::vector<async_copy> copies;
    int group;   /* of the next cp.async */
    bool waited; /* has called pdl_wait */
};

struct gpu_warp {
    int arrived;
    const char *op;
    const void *in[WARP];
    void *out[WARP];
};

struct shared_array {
    const void *key;
    void *data;
    size_t bytes;
    uint64_t block; /* that has its contents */
};

/* One kernel being run by this OS thread. */
struct run {
    const char *name;
    const std::function<void()> *body;
    bool dependent;
    int n_threads;
    struct gpu_thread *thread;
    struct gpu_warp warp[MAX_THREADS / WARP];
    struct fiber scheduler;
    std::vector<shared_array> shared;
    size_t shared_bytes, max_shared;
    void *dyn;
    uint64_t i_block, random;
    bool failed, yielded;
    char text[400];
};

__thread struct emulated_thread *emulated_now;
static thread_local struct run *running;

static struct gpu_thread *self()
{
    return (struct gpu_thread *)(void *)emulated_now;
}

static void leave(enum thread_state state, const char *at, int line)
{
    struct gpu_thread *t = self();
    t->state = state;
    t->at = at;
    t->line = line;
    fiber_switch(&t->fiber, &running->scheduler, state == ENDED);
}

/* Records the first failure of the kernel. */
static void fail(const char *fmt, ...)
{
    struct run *r = running;
    if (r->failed)
        return;
    va_list args;
    int n = snprintf(r->text, sizeof r->text, "kernel %s, block %llu: ", r->name,
                     (unsigned long long)r->i_block);
    va_start(args, fmt);
    vsnprintf(r->text + n, sizeof r->text - (size_t)n, fmt, args);
    va_end(args);
    r->failed = true;
}

/* Gives this thread up for good; the scheduler ends the kernel. */
[[noreturn]] static void give_up()
{
    leave(ENDED, "a failure", 0);
    abort(); /* the scheduler never comes back here */
}

static uint64_t next_random(struct run *r)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return r->random;
}

void emulated_barrier(const char *file, int line)
{
    leave(AT_BARRIER, file, line);
}

void emulated_yield()
{
    running->yielded = true;
    leave(READY, "a spin", 0);
}

void emulated_warp(const char *op, const void *in, void *out,
                   void (*fn)(const void *const *in, void *const *out))
{
    struct gpu_thread *t = self();
    int i_warp = (int)(t - running->thread) / WARP, lane = t->seen.lane;
    struct gpu_warp *w = &running->warp[i_warp];
    if (w->arrived > 0 && w->op != op && strcmp(w->op, op) != 0) {
        fail("warp %d: lanes in different warp operations, %s and %s", i_warp, w->op, op);
        give_up();
    }
    w->op = op;
    w->in[lane] = in;
    w->out[lane] = out;
    if (++w->arrived < WARP) {
        leave(IN_WARP, op, 0);
        return;
    }
    fn(w->in, w->out);
    w->arrived = 0;
    for (int i = 0; i < WARP; i++)
        if (i != lane)
            running->thread[i_warp * WARP + i].state = READY;
    if (running->random) /* let another warp run between two operations */
        leave(READY, op, 0);
}

void emulated_check_aligned(const void *p, size_t to)
{
    if ((uintptr_t)p % to == 0)
        return;
    fail("thread %d: address %p is not aligned to %zu bytes", (int)(self() - running->thread), p,
         to);
    give_up();
}

static void do_copy(const async_copy *c)
{
    if (c->real)
        memcpy(c->dst, c->src, 16);
    else
        memset(c->dst, 0, 16);
}

void emulated_cp_async(void *dst, const void *src, bool real)
{
    self()->copies.push_back({dst, src, real, self()->group});
}

void emulated_cp_commit()
{
    self()->group++;
}

void emulated_cp_wait(int groups_left)
{
    struct gpu_thread *t = self();
    size_t n = 0;
    while (n < t->copies.size() && t->copies[n].group < t->group - groups_left)
        do_copy(&t->copies[n++]);
    t->copies.erase(t->copies.begin(), t->copies.begin() + (long)n);
}

void emulated_pdl_wait()
{
    self()->waited = true;
}

uint64_t emulated_clock_ns()
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static void *shared_alloc(struct run *r, size_t bytes)
{
    void *p = nullptr;
    r->shared_bytes += bytes;
    if (r->shared_bytes > r->max_shared)
        fail("%zu bytes of shared memory, there are %zu", r->shared_bytes, r->max_shared);
    else if (posix_memalign(&p, 128, bytes ? bytes : 1) != 0)
        fail("no memory for shared memory");
    if (!p)
        give_up();
    return p;
}

void *emulated_shared(const void *key, size_t bytes)
{
    struct run *r = running;
    struct shared_array *a = nullptr;
    for (shared_array &s : r->shared)
        if (s.key == key)
            a = &s;
    if (!a) {
        r->shared.push_back({key, shared_alloc(r, bytes), bytes, UINT64_MAX});
        a = &r->shared.back();
    }
    if (a->block != r->i_block) {
        a->block = r->i_block;
        memset(a->data, 0xff, a->bytes);
    }
    return a->data;
}

void *emulated_dyn_shared()
{
    return running->dyn;
}

static void thread_main()
{
    fiber_entered();
    (*running->body)();
    if (running->dependent && !self()->waited)
        fail("thread %d ended without pdl_wait", (int)(self() - running->thread));
    leave(ENDED, "its end", 0);
}

static const char *place(const struct gpu_thread *t, char *s, size_t n)
{
    const char *slash = t->at ? strrchr(t->at, '/') : nullptr;
    const char *at = slash ? slash + 1 : t->at;
    if (t->state == AT_BARRIER)
        snprintf(s, n, "the barrier at %s:%d", at, t->line);
    else if (t->state == IN_WARP)
        snprintf(s, n, "%s", at);
    else
        snprintf(s, n, "the kernel's end");
    return s;
}

/* All threads are stuck or ended: lets a complete barrier go; anything else is a divergence.
 * False: nothing is left to do. */
static bool release(struct run *r)
{
    const struct gpu_thread *first = &r->thread[0];
    char a[160], b[160];
    for (int i = 0; i < r->n_threads; i++) {
        const struct gpu_thread *t = &r->thread[i];
        bool same = t->state == first->state && t->state != IN_WARP &&
                    (t->state == ENDED || (t->line == first->line &&
                                           (t->at == first->at || strcmp(t->at, first->at) == 0)));
        if (same)
            continue;
        fail("divergence: thread %d waits at %s, thread 0 at %s", i, place(t, a, sizeof a),
             place(first, b, sizeof b));
        return false;
    }
    if (first->state == ENDED)
        return false;
    for (int i = 0; i < r->n_threads; i++)
        r->thread[i].state = READY;
    return true;
}

static void resume(struct run *r, struct gpu_thread *t)
{
    emulated_now = &t->seen;
    fiber_switch(&r->scheduler, &t->fiber, false);
}

/* Each ready lane of a warp runs once; which one begins is the seed's choice.  False: none was
 * ready. */
static bool run_warp(struct run *r, int i_warp)
{
    int turn = r->random ? (int)(next_random(r) % WARP) : 0, flip = 0;
    bool any = false;
    if (r->random)
        flip = (int)(next_random(r) % WARP);
    for (int i = 0; i < WARP && !r->failed; i++) {
        struct gpu_thread *t = &r->thread[i_warp * WARP + (((i + turn) % WARP) ^ flip)];
        if (t->state != READY)
            continue;
        any = true;
        resume(r, t);
    }
    return any;
}

/* One pass over the warps.  In order each warp goes on until it is stuck; with a seed each gets one
 * turn, from a random one on.  False: all are stuck. */
static bool run_warps(struct run *r)
{
    int n = r->n_threads / WARP;
    int from = r->random ? (int)(next_random(r) % (uint64_t)n) : 0;
    bool any = false;
    for (int i = 0; i < n && !r->failed; i++) {
        int w = (i + from) % n;
        bool ran;
        do {
            r->yielded = false;
            ran = run_warp(r, w);
            any |= ran;
        } while (ran && !r->random && !r->yielded && !r->failed);
    }
    return any;
}

static void run_block(struct run *r, dim3 grid, dim3 block, uint64_t i_block)
{
    r->i_block = i_block;
    if (r->dyn)
        memset(r->dyn, 0xff, r->shared[0].bytes);
    for (int i = 0; i < r->n_threads; i++) {
        struct gpu_thread *t = &r->thread[i];
        unsigned u = (unsigned)i, b = (unsigned)(i_block % ((uint64_t)grid.x * grid.y));
        t->seen.thread = dim3(u % block.x, u / block.x % block.y, u / block.x / block.y);
        t->seen.block = dim3(b % grid.x, b / grid.x, (unsigned)(i_block / grid.x / grid.y));
        t->seen.block_dim = block;
        t->seen.grid_dim = grid;
        t->seen.lane = i % WARP;
        t->state = READY;
        t->copies.clear();
        t->group = 0;
        t->waited = false;
        fiber_start(&t->fiber, thread_main);
    }
    for (gpu_warp &w : r->warp)
        w.arrived = 0;
    do {
        while (!r->failed && run_warps(r))
            if (r->yielded)
                sched_yield(); /* the other side of the flag may be another OS thread */
    } while (!r->failed && release(r));
}

/* The fibers lie in one array, so that a thread's index is its distance from the first. */
static struct gpu_thread *take_threads(int n)
{
    static thread_local struct kept {
        gpu_thread *thread = nullptr;
        int taken = 0;
        ~kept()
        {
            for (int i = 0; i < taken; i++)
                fiber_give(&thread[i].fiber);
            delete[] thread;
        }
    } k;
    if (!k.thread)
        k.thread = new gpu_thread[MAX_THREADS]();
    for (; k.taken < n; k.taken++)
        if (!fiber_take(&k.thread[k.taken].fiber))
            return nullptr;
    return k.thread;
}

/* A permutation of [0, n): i -> (i * step + from) % n, step coprime to n. */
static uint64_t coprime_step(uint64_t n, uint64_t wish)
{
    for (uint64_t s = wish % n;; s++) {
        uint64_t a = s, b = n;
        while (b) {
            uint64_t c = a % b;
            a = b;
            b = c;
        }
        if (a == 1)
            return s;
    }
}

bool run_kernel(const char *name, dim3 grid, dim3 block, size_t dyn_smem, size_t max_shared,
                bool dependent, uint64_t seed, const std::function<void()> &body, char *text,
                size_t text_bytes)
{
    static thread_local struct run r;
    struct run *outer = running;
    uint64_t n_blocks = (uint64_t)grid.x * grid.y * grid.z;
    uint64_t n_threads = (uint64_t)block.x * block.y * block.z;
    snprintf(text, text_bytes, "kernel %s: a grid of %u x %u x %u blocks of %llu threads", name,
             grid.x, grid.y, grid.z, (unsigned long long)n_threads);
    if (outer || n_blocks == 0 || n_threads == 0 || n_threads > MAX_THREADS ||
        n_threads % WARP != 0 || grid.y > 65535 || grid.z > 65535 || grid.x > INT32_MAX)
        return false;
    r.name = name;
    r.body = &body;
    r.dependent = dependent;
    r.n_threads = (int)n_threads;
    r.thread = take_threads((int)n_threads);
    r.random = seed ? seed * 0x9e3779b97f4a7c15U | 1U : 0;
    r.failed = r.thread == nullptr;
    r.shared_bytes = dyn_smem;
    r.max_shared = max_shared;
    r.dyn = nullptr;
    snprintf(r.text, sizeof r.text, "kernel %s: no memory for its threads", name);
    if (dyn_smem > max_shared) {
        snprintf(text, text_bytes, "kernel %s: %zu bytes of shared memory, there are %zu", name,
                 dyn_smem, max_shared);
        return false;
    }
    if (dyn_smem > 0 && posix_memalign(&r.dyn, 128, dyn_smem) == 0)
        r.shared.push_back({nullptr, r.dyn, dyn_smem, UINT64_MAX});
    running = &r;
    uint64_t step = r.random ? coprime_step(n_blocks, next_random(&r)) : 1;
    uint64_t from = r.random ? next_random(&r) % n_blocks : 0;
    for (uint64_t i = 0; i < n_blocks && !r.failed; i++)
        run_block(&r, grid, block, (i * step + from) % n_blocks);
    running = nullptr;
    emulated_now = nullptr;
    for (shared_array &s : r.shared)
        free(s.data);
    r.shared.clear();
    snprintf(text, text_bytes, "%s", r.text);
    return !r.failed;
}
