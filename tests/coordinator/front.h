/* A coordinator without ranks whose loop is the test: it reads messages and takes the text thread's
 * results when the test says so, and only then.  Until it takes them the text thread is busy, as
 * far as any request can tell, however fast it is. */
#ifndef TESTS_COORDINATOR_FRONT_H
#define TESTS_COORDINATOR_FRONT_H

#include "coordinator/coordinator.h"

struct front {
    struct coordinator co;
    char dir[64], endpoint[96];
    uint64_t now_us;
    bool in_loop; /* the coordinator's code runs */
};

enum { FRONT_GROUP = 1 }; /* the scheduler of its group */

/* Opens a coordinator of the demo model, with a scheduler as a worker group would give it.
 * cfg.max_waiting 0: 64. */
void front_open(struct front *f, struct coordinator_config cfg);
void front_close(struct front *f);

/* A client of it. */
struct peer {
    struct front *f;
    void *sock;
    struct wire_mem tx, rx;
    struct sock_msg *kept[256]; /* replies that were received and not taken, in order */
    uint32_t n_kept, i_taken, n_rounds;
};

/* Connects and says Hello as that tenant (n 0: the coordinator makes one), all with one token. */
void peer_open(struct peer *p, struct front *f, const struct tenant *tenant);
/* The same with that token; NULL: none. */
void peer_open_with(struct peer *p, struct front *f, const struct tenant *tenant,
                    const char *token);
void peer_close(struct peer *p);

void peer_send(struct peer *p, const struct client_msg *m);
void peer_generate(struct peer *p, const char *id, const char *text);
void peer_cancel(struct peer *p, const char *id);

/* The coordinator reads all that this client has sent, and sends what it can; it takes no result of
 * the text thread. */
void peer_settle(struct peer *p);
/* The same, and all texts so far are done and taken. */
void peer_settle_texts(struct peer *p);
/* The next reply, which has come already; its pointers are valid until the next call. */
struct client_msg peer_take(struct peer *p, enum msg_type want, const char *id);
/* No reply has come that was not taken. */
void peer_nothing(const struct peer *p);

#endif
