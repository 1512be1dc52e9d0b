/* The line before the text thread: turns of owners, bounds, and what becomes of jobs whose client is gone. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "coordinator/text_queue.h"

static struct text_queue queue;

static struct text_job *job_of(uint8_t owner, size_t n, uint64_t client)
{
    struct text_job *job = calloc(1, sizeof *job);
    zmq_msg_t m;
    cr_assert_not_null(job);
    job->type = MSG_TOKENIZE;
    job->owner.bytes[0] = owner;
    job->client = client;
    zmq_msg_init_size(&m, n);
    cr_assert_eq(sock_msg_take(&job->msg, &m), ST_OK);
    return job;
}

static enum status push(uint8_t owner, size_t n, uint64_t client)
{
    struct text_job *job = job_of(owner, n, client);
    enum status st = text_queue_push(&queue, &job);
    text_job_free(job);
    return st;
}

/* The owner and the size of the next job. */
static bool pops(uint8_t owner, size_t n)
{
    struct text_job *job = text_queue_pop(&queue);
    bool same = job && job->owner.bytes[0] == owner && sock_msg_size(job->msg) == n;
    text_job_free(job);
    return same;
}

static void set_up(void)
{
    queue = (struct text_queue){
        .limits = {.owner_jobs = 100, .jobs = 150, .owner_bytes = 64 << 20, .bytes = 100 << 20}};
}

static void tear_down(void)
{
    struct text_job *job;
    while ((job = text_queue_pop(&queue)))
        text_job_free(job);
    cr_assert_eq(queue.n_jobs, 0u);
    cr_assert_eq(queue.n_bytes, 0u);
    cr_assert_null(queue.lines);
}

TestSuite(text_queue, .init = set_up, .fini = tear_down);

Test(text_queue, a_small_job_passes_the_large_ones_of_others)
{
    for (int i = 0; i < 4; i++)
        cr_assert_eq(push(1, 16 << 20, 1), ST_OK);
    cr_assert(pops(1, 16 << 20)); /* it runs */
    cr_assert_eq(push(2, 100, 2), ST_OK);
    cr_assert_eq(push(2, 200, 2), ST_OK);
    cr_assert(pops(2, 100));
    cr_assert(pops(2, 200));
    cr_assert(pops(1, 16 << 20));
}

Test(text_queue, large_jobs_have_their_turn_too)
{
    int n_small = 0;
    cr_assert_eq(push(1, 1 << 20, 1), ST_OK);
    for (int i = 0; i < 60; i++)
        cr_assert_eq(push(2, 64 << 10, 2), ST_OK);
    while (pops(2, 64 << 10))
        n_small++;
    cr_assert_leq(n_small, 16); /* 1 MiB is 16 quanta */
}

Test(text_queue, an_owner_and_all_have_bounds)
{
    for (int i = 0; i < 4; i++)
        cr_assert_eq(push(1, 16 << 20, 1), ST_OK);
    cr_assert_eq(push(1, 1, 1), ST_BUSY);
    cr_assert(strstr(status_text(), "4 messages of this tenant, 64 MiB"), "%s", status_text());
    for (int i = 0; i < 100; i++)
        cr_assert_eq(push(2, 1, 2), ST_OK);
    cr_assert_eq(push(2, 1, 2), ST_BUSY);
    cr_assert_eq(push(3, 37 << 20, 3), ST_BUSY); /* 101 MiB in all */
    for (int i = 0; i < 46; i++)
        cr_assert_eq(push(3, 1, 3), ST_OK);
    cr_assert_eq(push(4, 1, 4), ST_BUSY); /* 150 jobs in all */
    cr_assert(strstr(status_text(), "150 messages"), "%s", status_text());
}

Test(text_queue, jobs_of_a_departed_client_are_dropped)
{
    struct text_job *generate = job_of(1, 10, 7);
    generate->type = MSG_GENERATE;
    generate->request = 99;
    cr_assert_eq(push(1, 16 << 20, 7), ST_OK);
    cr_assert_eq(push(1, 5, 8), ST_OK);
    cr_assert_eq(text_queue_push(&queue, &generate), ST_OK);
    cr_assert_eq(push(1, 6, 7), ST_OK);
    text_queue_drop(&queue, 7, 0); /* the Generate goes on: its client may attach again */
    cr_assert_eq(queue.n_jobs, 2u);
    text_queue_drop(&queue, 0, 98);
    cr_assert_eq(queue.n_jobs, 2u);
    text_queue_drop(&queue, 0, 99);
    cr_assert_eq(queue.n_jobs, 1u);
    cr_assert_eq(push(1, 7, 9), ST_OK); /* the line's end is right */
    cr_assert(pops(1, 5) && pops(1, 7));
}
