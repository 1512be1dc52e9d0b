/* The options of a server on this machine: of `ingot serve`, and those of them that `ingot run`,
 * `ingot chat MODEL` and `ingot inspect` take too. */
#ifndef CLIENT_CLI_SERVE_OPTIONS_H
#define CLIENT_CLI_SERVE_OPTIONS_H

#include "client/cli/cli.h"
#include "client/cli/supervisor.h"

struct serve_args {
    struct supervisor_config c; /* complete after serve_config */
    uint64_t kv_memory;
    int coll, bind, kv_dtype, isa, numerics, graphs, log_level;
    bool prefix_cache, overlap;
    char kv_memory_text[24];
};

/* ranks, sizes, logging: whoever loads a model */
void serve_engine_rows(struct row_list *l, size_t base);
/* endpoints, queues, draining: a server for others.  Without these rows zero the struct before
 * parsing. */
void serve_server_rows(struct row_list *l, size_t base);

/* Completes a->c from the parsed options; it points into a. */
const struct supervisor_config *serve_config(struct serve_args *a, const char *model);

#endif
