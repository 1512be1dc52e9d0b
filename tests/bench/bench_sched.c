/* The time of the scheduler's calls under load: 256 running sequences, 100,000 waiting ones of many
 * tenants.  `bench_sched` prints one line a call, in us of
 * CPU time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "coordinator/sched/sched.h"

enum { RUNNING = 256, WAITING = 100000, PROMPT = 64, NEW = 2000, STEPS = 4000, TENANTS = 500 };

static struct sched *s;
static struct sched_effect *fx;
static struct result_token tokens[RUNNING];
static size_t fx_cap, n_fx;
static uint64_t next_id;

struct times {
    const char *name;
    double *us;
    size_t n;
};

/* Of this thread alone: other processes disturb it less. */
static uint64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static void note(struct times *t, uint64_t begin_ns)
{
    t->us[t->n++] = (double)(cpu_ns() - begin_ns) / 1000;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(struct times *t)
{
    qsort(t->us, t->n, sizeof *t->us, by_value);
    printf("%-10s %7zu calls   p50 %8.2f   p99 %8.2f   worst %8.2f us\n", t->name, t->n,
           t->us[t->n / 2], t->us[t->n * 99 / 100], t->us[t->n - 1]);
}

static void submit(struct times *t)
{
    uint64_t id = ++next_id;
    struct sched_req r = {.seq_id = id,
                          .group_id = id,
                          .tenant = id * 2654435761u % TENANTS,
                          .priority = id % 7 == 0,
                          .deadline_us = 1 + (id * 40503 % 1000003) * 1000000,
                          .tokens = calloc(PROMPT + NEW, sizeof *r.tokens),
                          .n_tokens = PROMPT,
                          .n_prompt = PROMPT,
                          .max_new = NEW,
                          .sp = {.top_p = 1.0f, .repetition_penalty = 1.0f}};
    for (int i = 0; i < PROMPT; i++)
        r.tokens[i] = (int32_t)(id % 30000) + i;
    uint64_t begin = cpu_ns();
    enum status st = sched_submit(s, &r);
    note(t, begin);
    if (st != ST_OK) {
        fprintf(stderr, "bench_sched: %s\n", status_text());
        exit(1);
    }
}

static void commit(const struct step_plan *p)
{
    struct step_result r = {.step_id = p->step_id, .epoch = p->epoch, .tokens = tokens};
    r.compute_us = 500;
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        r.compute_us += p->seqs[i].n_tokens * 20u;
        if (p->seqs[i].want == WANT_LAST)
            tokens[r.n++] = (struct result_token){.seq_id = p->seqs[i].seq_id, .token = 5};
    }
    if (sched_commit(s, &r, fx, fx_cap, &n_fx) != ST_OK)
        exit(1);
}

int main(void)
{
    struct sched_config cfg = {.max_seqs = RUNNING,
                               .max_step_tokens = 512,
                               .max_waiting = WAITING + 1000,
                               .max_waiting_tokens = 1u << 30,
                               .max_ctx = PROMPT + NEW,
                               .n_blocks = 65536,
                               .block_len = 16,
                               .prefix_cache = true,
                               .overtake = 1024,
                               .target_itl_us = SCHED_AUTO,
                               .max_step_us = SCHED_AUTO,
                               .prefill_loss_pct = 4,
                               .target_of_all = true,
                               .turn_tokens = 64};
    struct times submits = {"submit", calloc(2 * WAITING, sizeof(double)), 0};
    struct times plans = {"plan", calloc(STEPS, sizeof(double)), 0};
    struct times commits = {"commit", calloc(STEPS, sizeof(double)), 0};
    struct times cancels = {"cancel", calloc(STEPS, sizeof(double)), 0};
    struct step_plan p;
    if (sched_create(&s, &cfg) != ST_OK)
        return 1;
    fx_cap = sched_max_fx(&cfg);
    fx = calloc(fx_cap, sizeof *fx);
    while (next_id < WAITING + RUNNING) {
        submit(&submits);
        if (next_id == RUNNING)
            for (int i = 0; i < 40 && sched_plan(s, 0, &p, fx, fx_cap, &n_fx); i++)
                commit(&p);
    }
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t begin = cpu_ns();
        bool made = sched_plan(s, 0, &p, fx, fx_cap, &n_fx);
        note(&plans, begin);
        begin = cpu_ns();
        if (made)
            commit(&p);
        note(&commits, begin);
        begin = cpu_ns();
        sched_cancel(s, WAITING / 2 + i);
        note(&cancels, begin);
    }
    struct sched_stats st;
    sched_stats(s, &st);
    printf("%u running, %u waiting, %llu pauses, %llu preemptions, %zu MiB\n", st.running,
           st.waiting, (unsigned long long)st.pauses, (unsigned long long)st.preemptions,
           sched_bytes(&cfg) >> 20);
    print(&submits);
    print(&plans);
    print(&commits);
    print(&cancels);
    sched_destroy(s);
    return 0;
}
