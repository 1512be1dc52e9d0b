/* The options of `ingot serve`, and those of them that `ingot run` and `ingot chat MODEL` take too. */
#ifndef CLIENT_CLI_SERVE_OPTIONS_H
#define CLIENT_CLI_SERVE_OPTIONS_H

#include "client/cli/supervisor.h"

/* Fills cfg; returns -1 to go on, else the exit code (help was printed, or an error). */
int serve_options_parse(struct supervisor_config *cfg, int argc, char **argv);

#endif
