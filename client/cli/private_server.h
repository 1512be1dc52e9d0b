/* A server for one conversation: `ingot run` and `ingot chat MODEL` start it, wait for it and end
 * it. */
#ifndef CLIENT_CLI_PRIVATE_SERVER_H
#define CLIENT_CLI_PRIVATE_SERVER_H

#include "client/cli/serve_options.h"
#include "client/cli/supervisor.h"
#include "client/lib/ingot.h"

struct private_server {
    struct supervisor *sup;
    struct ingot_client *client;
};

/* Starts the server and waits until it is ready.  Returns -1 when it is; else the exit code, after
 * printing the error. */
int private_server_open(struct private_server *p, const char *command, const struct serve_args *a,
                        const char *model);
void private_server_close(struct private_server *p);

#endif
