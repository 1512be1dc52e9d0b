/* The MODEL of a command, as the path of a model's files: a path; "demo-model", which is installed with the
 * programs; or ORG/NAME[@REVISION][:FILE|:QUANT], a model in the hub's cache.  One thread. */
#ifndef CLIENT_CLI_MODEL_NAME_H
#define CLIENT_CLI_MODEL_NAME_H

#include "client/cli/child.h"

struct model_place {
    char path[MAX_PATH_LEN];
    const char *name; /* what clients call it; NULL: the last part of path */
};

/* Whatever exists is a path.  A model of the hub that is not in the cache is downloaded if pull, else
 * an error names the command that does it; what is no name either is left as it is, for the
 * program that opens it to refuse.  Returns -1 to go on, else the exit code, after the error was said. */
int model_find(struct model_place *out, const char *command, const char *given, bool pull);

/* argv[1] of a command that another program carries out, found in the same way; what begins with a dash is an
 * option. */
int model_find_argument(struct model_place *out, int argc, char **argv);

#endif
