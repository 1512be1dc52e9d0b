#include "worker/group_watch.h"

#include <errno.h>
#include <stdio.h>
#include <zmq.h>

#include "common/wire/worker_msg.h"

enum { MEM_BYTES = 1 << 16 };

static enum status ask(void *sock, uint64_t epoch, struct wire_mem *mem)
{
    struct worker_msg m = {.type = WMSG_WATCH, .u.beat.epoch = epoch};
    struct wire_bytes b;
    wire_mem_reset(mem);
    TRY(worker_msg_encode(&b, &m, mem));
    if (zmq_send(sock, b.data, b.n, ZMQ_DONTWAIT) < 0 && errno != EAGAIN && errno != EINTR)
        FAIL(ST_IO, "cannot send to the coordinator: %s", zmq_strerror(errno));
    return ST_OK;
}

/* Takes a message; *over: it ends the watch. */
static enum status take(void *sock, struct wire_mem *mem, bool *over, enum watch_end *end,
                        char why[512])
{
    uint8_t buf[4096];
    struct worker_msg m;
    int n = zmq_recv(sock, buf, sizeof buf, ZMQ_DONTWAIT);
    if (n < 0)
        return ST_OK;
    if ((size_t)n > sizeof buf)
        FAIL(ST_PEER, "the coordinator sent %d bytes", n);
    wire_mem_reset(mem);
    TRY(worker_msg_decode(&m, buf, (size_t)n, mem));
    *over = m.type == WMSG_REFUSED || m.type == WMSG_SHUTDOWN;
    *end = m.type == WMSG_REFUSED ? WATCH_GIVEN_UP : WATCH_UNKNOWN;
    snprintf(why, 512, "%s", m.type == WMSG_REFUSED ? m.u.refused : "");
    return ST_OK;
}

static enum status watch(void *sock, uint64_t epoch, uint32_t period_ms, struct wire_mem *mem,
                         enum watch_end *end, char why[512])
{
    bool over = false;
    while (!over) {
        zmq_pollitem_t item = {.socket = sock, .events = ZMQ_POLLIN};
        TRY(ask(sock, epoch, mem));
        if (zmq_poll(&item, 1, (long)period_ms) > 0)
            TRY(take(sock, mem, &over, end, why));
    }
    return ST_OK;
}

enum status group_watch_run(const char *endpoint, const struct sock_curve *curve, uint64_t epoch,
                            uint32_t period_ms, enum watch_end *end, char why[512])
{
    /* few are queued while there is no connection */
    struct sock_config sc = {.max_message = 4096, .high_water = 2, .curve = curve};
    struct wire_mem mem;
    void *sock = NULL;
    TRY(sock_check_endpoint(endpoint, false, false));
    TRY(wire_mem_init(&mem, MEM_BYTES));
    void *ctx = zmq_ctx_new();
    enum status st = ctx ? sock_connect_dealer(&sock, ctx, endpoint, &sc)
                         : status_fail(ST_IO, __FILE__, __LINE__, "cannot start ZeroMQ");
    if (st == ST_OK)
        st = watch(sock, epoch, period_ms, &mem, end, why);
    sock_close(sock);
    if (ctx)
        zmq_ctx_term(ctx);
    wire_mem_fini(&mem);
    return st;
}
