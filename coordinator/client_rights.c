#include "coordinator/client_rights.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

/* libzmq gives the peer of an ipc connection as "localhost:UID:GID:PID" (SO_PEERCRED), of a TCP one its address. */
static unsigned local_roles(const char *address, struct client_rights *r)
{
    unsigned uid, gid, pid;
    char rest;
    snprintf(r->name, sizeof r->name, "%s without a key", address);
    snprintf(r->peer, sizeof r->peer, "address %s", address);
    if (sscanf(address, "localhost:%u:%u:%u%c", &uid, &gid, &pid, &rest) != 3)
        return ROLE_ASK | ROLE_OBSERVE;
    snprintf(r->name, sizeof r->name, "user %u, process %u", uid, pid);
    snprintf(r->peer, sizeof r->peer, "user %u", uid);
    bool same = uid == 0 || uid == geteuid();
    return ROLE_ASK | ROLE_OBSERVE | (same ? ROLE_OPERATE : 0U);
}

struct client_rights client_rights_of(const struct gatekeeper *g, zmq_msg_t *body)
{
    struct client_rights r = {.fd = zmq_msg_get(body, ZMQ_SRCFD)};
    const char *key = zmq_msg_gets(body, "User-Id"), *name;
    const char *address = zmq_msg_gets(body, "Peer-Address");
    if (!g || !key || strlen(key) != CURVE_TEXT) {
        r.roles = local_roles(address ? address : "an unknown address", &r);
        return r;
    }
    memcpy(r.key, key, CURVE_SIZE);
    r.roles = gatekeeper_roles(g, key, &name);
    snprintf(r.name, sizeof r.name, "key %s", *name ? name : key);
    snprintf(r.peer, sizeof r.peer, "key %s", key);
    return r;
}
