#include "coll/thread_control.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 16, MAX_RANKS = 16 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int world, here;
    uint64_t round;
    void (*hook)(void);
    char bytes[MAX_RANKS][MAX_BYTES];
    size_t len;
} plane = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static _Thread_local int my_rank;

void thread_control_start(int world, void (*hook)(void))
{
    plane.world = world;
    plane.hook = hook;
}

void thread_control_join(int rank)
{
    my_rank = rank;
}

/* All ranks' bytes are in `plane` when this returns, until a second call. */
static void meet(void)
{
    pthread_mutex_lock(&plane.lock);
    uint64_t round = plane.round;
    if (++plane.here == plane.world) {
        plane.here = 0;
        plane.round++;
        pthread_cond_broadcast(&plane.changed);
    }
    while (plane.round == round)
        pthread_cond_wait(&plane.changed, &plane.lock);
    pthread_mutex_unlock(&plane.lock);
}

enum status control_open(struct control_info *out)
{
    *out = (struct control_info){my_rank, plane.world, my_rank, plane.world, true};
    return ST_OK;
}

void control_close(void)
{
}

enum status control_bcast(void *buf, size_t cap, size_t *len, uint32_t timeout_ms)
{
    (void)timeout_ms;
    if (my_rank == 0) {
        if (*len > cap || *len > MAX_BYTES)
            FAIL(ST_RANGE, "a broadcast of %zu bytes", *len);
        memcpy(plane.bytes[0], buf, *len);
        plane.len = *len;
    }
    meet();
    *len = plane.len;
    memcpy(buf, plane.bytes[0], plane.len);
    meet();
    return ST_OK;
}

enum status control_min_u64(uint64_t *v)
{
    uint64_t least = *v, one;
    if (plane.hook)
        plane.hook();
    memcpy(plane.bytes[my_rank], v, sizeof *v);
    meet();
    for (int r = 0; r < plane.world; r++) {
        memcpy(&one, plane.bytes[r], sizeof one);
        least = one < least ? one : least;
    }
    meet();
    *v = least;
    return ST_OK;
}

enum status control_barrier(void)
{
    meet();
    return ST_OK;
}

enum status control_gather(const void *mine, size_t len, void *out)
{
    if (len > MAX_BYTES)
        FAIL(ST_RANGE, "%zu bytes of a rank", len);
    memcpy(plane.bytes[my_rank], mine, len);
    meet();
    for (int r = 0; my_rank == 0 && r < plane.world; r++)
        memcpy((char *)out + (size_t)r * len, plane.bytes[r], len);
    meet();
    return ST_OK;
}

void control_set_spin(uint32_t spin_us)
{
    (void)spin_us;
}

void control_abort(int exit_code)
{
    exit(exit_code);
}
