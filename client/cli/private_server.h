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

/* Starts it and waits until it is ready; -1 to go on, else the exit code, after the error was said.
 */
int private_server_open(struct private_server *p, const char *command, const struct serve_args *a,
                        const char *model);
void private_server_close(struct private_server *p);

#endif
