/* Runs a server on this machine: a coordinator and worker groups as child processes.  A group that
 * dies, or that the coordinator gave up, is killed and launched again; running requests continue
 * where they were.  When this process ends, however it ends, all its children end (on Linux even
 * after SIGKILL).
 * Used by `ingot serve` in the foreground, and by `ingot run` and `ingot chat` for one
 * conversation. */
#ifndef CLIENT_CLI_SUPERVISOR_H
#define CLIENT_CLI_SUPERVISOR_H

#include <stdbool.h>

#include "client/cli/serve_options.h"

struct supervisor_config {
    const char *model; /* this string and those of the options are borrowed */
    struct serve_args args;
    enum option_user command; /* whose rows args has; FOR_LOAD: clients at a private endpoint */
    bool quiet;               /* do not narrate on standard error */
};

struct supervisor;

/* Starts everything; returns at once. */
MUST_CHECK enum status supervisor_start(struct supervisor **out,
                                        const struct supervisor_config *cfg);

enum supervisor_state { SUP_STARTING, SUP_READY, SUP_ENDED };

/* What requests to the model bring: tokens, the vector of a text, the score of a query and a document. */
enum supervisor_gives { GIVES_ANSWERS = 1, GIVES_EMBEDDINGS = 2, GIVES_SCORES = 4 };

/* Handles what has happened, waiting at most timeout_ms.  ST_OK, or why serving is not possible any
 * more (the coordinator ended, the model cannot be served, groups die at once again and again). */
MUST_CHECK enum status supervisor_poll(struct supervisor *s, int timeout_ms,
                                       enum supervisor_state *state);

/* The endpoint for clients, once the coordinator listens; else NULL. */
const char *supervisor_endpoint(const struct supervisor *s);
/* The one for processes of this server, which needs no key. */
const char *supervisor_local_endpoint(const struct supervisor *s);

/* Bits of enum supervisor_gives, once SUP_READY. */
unsigned supervisor_gives(const struct supervisor *s);

/* Drain: running requests end, then everything.  Go on polling until SUP_ENDED. */
void supervisor_drain(struct supervisor *s);
/* Ends everything now and removes the private folder; NULL is fine. */
void supervisor_stop(struct supervisor *s);
/* The coordinator's exit code, once SUP_ENDED, and the reason why it could not start, or "". */
int supervisor_exit_code(const struct supervisor *s);
const char *supervisor_why(const struct supervisor *s);

#endif
