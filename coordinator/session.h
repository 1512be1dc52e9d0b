/* What a connection may do, and what the server tells about itself: Hello, Models, Ping.  Called by clients.c. */
#ifndef COORDINATOR_SESSION_H
#define COORDINATOR_SESSION_H

#include "coordinator/coordinator.h"

/* Welcome, or an Error. */
void session_hello(struct coordinator *co, struct client *c, const struct msg_hello *h,
                   uint64_t now_us);
/* May its requests name any tenant? */
bool session_any_tenant(const struct coordinator *co, const struct client *c);
/* The owner of the request that a message names. */
struct owner session_owner(const struct coordinator *co, const struct client *c,
                           const struct request_head *h);
void session_models(struct coordinator *co, struct client *c, const char *id, uint64_t now_us);
/* A Pong; borrows id. */
struct client_msg session_pong(struct coordinator *co, const char *id, uint64_t now_us);

#endif
