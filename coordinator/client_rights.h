/* What a connection may do: by its key, else by where it comes from. */
#ifndef COORDINATOR_CLIENT_RIGHTS_H
#define COORDINATOR_CLIENT_RIGHTS_H

#include "coordinator/gatekeeper.h"

struct zmq_msg_t;

enum { CLIENT_NAME = 96 };

struct client_rights {
    unsigned roles;       /* of enum key_role */
    char key[CURVE_SIZE]; /* "": a connection without a key */
    char name
        [CLIENT_NAME]; /* for logs and errors: the key's name, or the local user, or the address */
    char peer
        [CLIENT_NAME]; /* whose connections are counted together: the key, the local user, or the address */
    int fd;            /* of the connection that brought the message; -1: not known */
};

/* Of the connection that brought the message.  Without a key: asking and observing, and on an ipc socket operating too
 * for processes of this server's user and of root. */
struct client_rights client_rights_of(const struct gatekeeper *g, struct zmq_msg_t *body);

#endif
