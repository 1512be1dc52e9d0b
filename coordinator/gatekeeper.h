/* Which keys may connect, and what for.  It answers ZeroMQ's question about each new CURVE connection (ZAP, ZeroMQ RFC
 * 27) from the list of keys (common/wire/key_list.h), and reads the list again when its file has changed.  Part of
 * the coordinator's loop: no thread of its own. */
#ifndef COORDINATOR_GATEKEEPER_H
#define COORDINATOR_GATEKEEPER_H

#include <stdint.h>

#include "common/wire/key_list.h"
#include "common/wire/sock.h"

struct gatekeeper;

/* The ZAP domains of the two sockets. */
#define DOMAIN_CLIENTS "clients"
#define DOMAIN_WORKERS "workers"

/* key_path: the server's own key; list_path: the keys that may connect.  Both NULL: *out is NULL, nothing is asked.
 * Open it before any socket that is bound with its keys. */
MUST_CHECK enum status gatekeeper_open(struct gatekeeper **out, void *zmq_ctx, const char *key_path,
                                       const char *list_path);
void gatekeeper_close(struct gatekeeper *g); /* NULL is fine, in all of these */

/* Keys of a socket that asks in that domain; NULL without a gatekeeper.  Valid as long as g. */
const struct sock_curve *gatekeeper_curve(const struct gatekeeper *g, const char *domain);
/* The socket to wait on; NULL: none. */
void *gatekeeper_socket(const struct gatekeeper *g);
/* Answers the questions that have come. */
void gatekeeper_answer(struct gatekeeper *g, uint64_t now_us);
/* Reads the list again if its file has changed; true: it is another list.  A file that cannot be read, or is
 * wrong, leaves the list as it is; a log line says so. */
bool gatekeeper_reload(struct gatekeeper *g);
/* The roles of the key and its name (borrowed until the next reload); 0: it is not in the list. */
unsigned gatekeeper_roles(const struct gatekeeper *g, const char *key, const char **name);

#endif
