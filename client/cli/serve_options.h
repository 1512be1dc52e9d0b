/* The options of a server on this machine: of `ingot serve`, and those of them that `ingot run`,
 * `ingot chat MODEL` and `ingot inspect` take too.  They are those of the coordinator and the
 * workers (common/shared_options.h), which get the values as arguments. */
#ifndef CLIENT_CLI_SERVE_OPTIONS_H
#define CLIENT_CLI_SERVE_OPTIONS_H

#include "client/cli/child.h"
#include "common/shared_options.h"

enum { MAX_GROUPS = 64 };

struct serve_args {
    struct shared_options shared;
    bool pull;            /* a model that is not in the cache is downloaded */
    int64_t groups;       /* worker groups that share the load */
    const char *http;     /* ADDR:PORT of the gateway, or "off" */
    const char *api_keys; /* a file, or NULL */
    const char *metrics_prefix;
    bool metrics_need_key;
    bool one_request; /* no option: the command makes one and ends */
};

/* Model, ranks, sizes: for a command that loads a model (FOR_LOAD). */
void serve_engine_rows(struct row_list *l, size_t base);
/* All options of a server for others (FOR_SERVE). */
void serve_rows(struct row_list *l, size_t base);

/* Adds --NAME=VALUE for each option that the command takes and that the program needs to be told:
 * those whose value is not the program's own default. */
void serve_pass_options(struct child_args *a, const struct shared_options *o,
                        enum option_user command, enum option_user program);

#endif
