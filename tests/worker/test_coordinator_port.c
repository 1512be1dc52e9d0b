/* Rank 0's link on its own: heartbeats while the socket is lent, the lease, messages that are
 * refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/coordinator_port.h"
#include "worker/fake.h"

enum { BEAT_MS = 20, CAP = 256 };

/* Hello sent, Welcome received and obeyed. */
static struct coordinator_port *join_at(struct fake *f, const char *endpoints, uint32_t lease_ms,
                                        uint8_t *buf)
{
    struct coordinator_port *l;
    struct worker_msg hello = {.type = WMSG_HELLO,
                               .u.hello = {.model = "m", .backend = "b", .coll = "c", .world = 1}};
    size_t n = 0;
    f->world = 1;
    struct coordinator_port_config lc = {.endpoint = endpoints,
                                         .lease_ms = FAKE_PATIENCE_MS,
                                         .max_message = 1 << 20,
                                         .refused_exit = 55};
    cr_assert_eq(coordinator_port_open(&l, &lc), ST_OK, "%s", status_text());
    cr_assert_eq(coordinator_port_send(l, &hello), ST_OK, "%s", status_text());
    fake_join(f, BEAT_MS, lease_ms);
    while (n == 0)
        cr_assert_eq(coordinator_port_recv(l, buf, CAP, &n, 1000), ST_OK, "%s", status_text());
    coordinator_port_welcome(l, &(struct worker_welcome){f->epoch, BEAT_MS, lease_ms});
    return l;
}

static struct coordinator_port *join(struct fake *f, uint32_t lease_ms, uint8_t *buf)
{
    fake_open(f);
    return join_at(f, f->endpoint, lease_ms, buf);
}

Test(coordinator_port, beats_while_a_step_computes)
{
    struct fake f;
    uint8_t buf[CAP];
    struct coordinator_port *l = join(&f, FAKE_PATIENCE_MS, buf);
    coordinator_port_lend(l);
    fake_heartbeats(&f, 10); /* the main thread is here, in the "step" */
    coordinator_port_take(l, 7);
    coordinator_port_close(l);
    fake_close(&f);
}

Test(coordinator_port, messages_that_came_meanwhile_count_for_the_lease)
{
    struct fake f;
    uint8_t buf[CAP];
    size_t n;
    struct coordinator_port *l = join(&f, 100, buf);
    coordinator_port_lend(l);
    fake_heartbeats(&f, 20); /* a step of four leases; the answers wait in the socket */
    coordinator_port_take(l, 7);
    cr_assert_eq(coordinator_port_recv(l, buf, CAP, &n, 0), ST_OK, "%s", status_text());
    cr_assert_gt(n, 0);
    coordinator_port_close(l);
    fake_close(&f);
}

Test(coordinator_port, messages_that_came_meanwhile_keep_their_order)
{
    enum { N = 40 }; /* more than the ring has room for */
    struct fake f;
    uint8_t buf[CAP];
    struct coordinator_port *l = join(&f, FAKE_PATIENCE_MS, buf);
    coordinator_port_lend(l);
    for (uint8_t i = 0; i < N; i++)
        fake_send_bytes(&f, &(uint8_t){i}, 1);
    fake_heartbeats(&f, 3); /* the thread has had the socket; its answers come after the bytes */
    coordinator_port_take(l, 7);
    for (uint8_t i = 0; i < N; i++) {
        size_t n = 0;
        while (n == 0)
            cr_assert_eq(coordinator_port_recv(l, buf, CAP, &n, 1000), ST_OK, "%s", status_text());
        cr_assert_eq(n, 1);
        cr_assert_eq(buf[0], i);
    }
    coordinator_port_close(l);
    fake_close(&f);
}

Test(coordinator_port, a_refusal_ends_the_process_in_the_middle_of_a_step, .exit_code = 55)
{
    struct fake f;
    uint8_t buf[CAP];
    struct coordinator_port *l = join(&f, FAKE_PATIENCE_MS, buf);
    struct worker_msg m = {.type = WMSG_REFUSED, .u.refused = "it was fenced: a test"};
    coordinator_port_lend(l); /* for good: a collective that waits for a stopped rank */
    fake_send(&f, &m);
    pause();
}

Test(coordinator_port, silence_ends_the_lease)
{
    struct fake f;
    uint8_t buf[CAP];
    size_t n;
    struct coordinator_port *l = join(&f, 200, buf);
    enum status st;
    do
        st = coordinator_port_recv(l, buf, CAP, &n, 1000);
    while (st == ST_OK && n == 0);
    cr_assert_eq(st, ST_CANCELED);
    cr_assert(strstr(status_text(), "the lease is 200 ms"), "%s", status_text());
    coordinator_port_close(l);
    fake_close(&f);
}

/* Shutdown of that epoch, then the end, both there before the next look; *n bytes of what is received last. */
static enum status after_the_end(struct coordinator_port *l, struct fake *f, uint64_t epoch,
                                 uint8_t *buf, size_t *n)
{
    struct worker_msg m = {.type = WMSG_SHUTDOWN, .u.beat.epoch = epoch};
    fake_send_bytes(f, "void", 4);
    fake_send(f, &m);
    fake_hang_up(f);
    usleep(300000);
    enum status st = coordinator_port_recv(l, buf, CAP, n, 1000);
    if (st == ST_OK && *n == 4) /* received before the end was known */
        st = coordinator_port_recv(l, buf, CAP, n, 1000);
    return st;
}

Test(coordinator_port, a_shutdown_counts_when_the_connection_has_ended)
{
    struct fake f;
    uint8_t buf[CAP];
    size_t n = 0;
    struct frame frame;
    struct coordinator_port *l = join(&f, FAKE_PATIENCE_MS, buf);
    cr_assert_eq(after_the_end(l, &f, f.epoch, buf, &n), ST_OK, "%s", status_text());
    cr_assert_eq(frame_parse(&frame, buf, n), ST_OK, "%s", status_text());
    cr_assert_eq(frame.type, WMSG_SHUTDOWN);
    coordinator_port_close(l);
    fake_close(&f);
}

/* As the next coordinator sends it to a group that it does not know. */
Test(coordinator_port, a_shutdown_of_another_coordinator_is_void_when_the_connection_has_ended)
{
    struct fake f;
    uint8_t buf[CAP];
    size_t n = 0;
    struct coordinator_port *l = join(&f, FAKE_PATIENCE_MS, buf);
    cr_assert_eq(after_the_end(l, &f, 0, buf, &n), ST_CANCELED, "%s", status_text());
    coordinator_port_close(l);
    fake_close(&f);
}

/* Perhaps only the connection was cut: the clients are still at the first coordinator. */
Test(coordinator_port, the_same_endpoint_is_tried_before_the_next)
{
    struct fake f;
    uint8_t buf[CAP];
    size_t n;
    char two[300], next[160];
    fake_open(&f);
    snprintf(next, sizeof next, "%s2", f.endpoint);
    snprintf(two, sizeof two, "%s,%s", f.endpoint, next);
    struct coordinator_port *l = join_at(&f, two, FAKE_PATIENCE_MS, buf);
    fake_hang_up(&f);
    enum status st;
    do
        st = coordinator_port_recv(l, buf, CAP, &n, 1000);
    while (st == ST_OK);
    cr_assert_eq(st, ST_CANCELED);
    const char *const tried[] = {f.endpoint, next, f.endpoint, next};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        cr_assert_eq(coordinator_port_again(l), ST_OK, "%s", status_text());
        cr_assert_str_eq(coordinator_port_endpoint(l), tried[i]);
    }
    coordinator_port_close(l);
    fake_close(&f);
}

Test(coordinator_port, a_message_too_long_is_refused)
{
    struct fake f;
    uint8_t buf[CAP], big[CAP + 1] = {0};
    size_t n = 0;
    struct coordinator_port *l = join(&f, FAKE_PATIENCE_MS, buf);
    enum status st = ST_OK;
    fake_send_bytes(&f, big, sizeof big);
    while (st == ST_OK && n == 0)
        st = coordinator_port_recv(l, buf, CAP, &n, 1000);
    cr_assert_eq(st, ST_PEER);
    cr_assert(strstr(status_text(), "257 bytes, at most 256"), "%s", status_text());
    coordinator_port_close(l);
    fake_close(&f);
}

Test(coordinator_port, an_endpoint_that_cannot_be)
{
    struct coordinator_port *l;
    struct coordinator_port_config lc = {
        .endpoint = "tcp://nowhere", .lease_ms = 100, .max_message = 100};
    cr_assert_eq(coordinator_port_open(&l, &lc), ST_RANGE);
    cr_assert_null(l);
}
