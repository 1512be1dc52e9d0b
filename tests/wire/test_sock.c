/* Sockets that are watched: closing one leaves the I/O thread alive for all others. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "common/wire/sock.h"
#include "temp_dir.h"

enum { ROUNDS = 100 };

/* Accepts and hangs up, as a server that dies again and again. */
static void *hang_up(void *arg)
{
    for (int fd, listener = *(int *)arg; (fd = accept(listener, NULL, NULL)) >= 0;)
        close(fd);
    return NULL;
}

static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_lt(strlen(path), sizeof at.sun_path);
    strcpy(at.sun_path, path);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(listen(fd, 64), 0);
    return fd;
}

/* Does a message pass between two sockets of the context? */
static bool passes(void *ctx, const char *endpoint)
{
    struct sock_config sc = {.max_message = 1 << 20};
    void *router, *dealer;
    char got[8];
    int patience_ms = 60000;
    cr_assert_eq(sock_bind_router(&router, ctx, endpoint, &sc, NULL, 0), ST_OK, "%s",
                 status_text());
    cr_assert_eq(sock_connect_dealer(&dealer, ctx, endpoint, &sc), ST_OK, "%s", status_text());
    cr_assert_eq(zmq_setsockopt(router, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms), 0);
    cr_assert_eq(zmq_send(dealer, "x", 1, 0), 1);
    bool ok = zmq_recv(router, got, sizeof got, 0) > 0;
    sock_close(dealer);
    sock_close(router);
    return ok;
}

Test(sock, closing_a_watched_socket_leaves_the_others)
{
    struct sock_config sc = {.max_message = 1 << 20, .linger_ms = 200};
    char dir[64], dead[128], alive[128];
    pthread_t thread;
    temp_dir_make(dir);
    snprintf(dead, sizeof dead, "ipc://%s/dead", dir);
    snprintf(alive, sizeof alive, "ipc://%s/alive", dir);
    int listener = listen_at(dead + strlen("ipc://"));
    cr_assert_eq(pthread_create(&thread, NULL, hang_up, &listener), 0);
    void *ctx = zmq_ctx_new();
    for (int i = 0; i < ROUNDS; i++) {
        void *sock, *ends;
        cr_assert_eq(sock_connect_dealer(&sock, ctx, dead, &sc), ST_OK, "%s", status_text());
        cr_assert_eq(sock_watch_ends(&ends, ctx, sock), ST_OK, "%s", status_text());
        cr_assert_eq(zmq_send(sock, "hello", 5, 0), 5);
        nanosleep(&(struct timespec){.tv_nsec = i % 20 * 50000}, NULL);
        sock_close_watched(sock, ends);
    }
    cr_assert(passes(ctx, alive), "the I/O thread waits for ever");
    shutdown(listener, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listener);
    zmq_ctx_term(ctx);
    temp_dir_remove(dir);
}
