/* One request from sending to its end: streamed as text for people or as lines of JSON for
 * programs, tried again while the server is busy, attached to again after a broken connection, cancelled by
 * Ctrl-C.  Used by generate, run and
 * chat. */
#ifndef CLIENT_CLI_ANSWER_H
#define CLIENT_CLI_ANSWER_H

#include "client/cli/supervisor.h"
#include "client/lib/ingot.h"

struct answer_config {
    const char *command; /* for messages */
    bool json;
    bool split;             /* on a terminal: reasoning dimmed, tool calls as lines */
    bool summary;           /* a line of figures on standard error at the end */
    uint32_t wait_ms;       /* how long to try again while the server is busy */
    struct supervisor *own; /* NULL: the server is not ours; else looked after meanwhile */
};

struct answer_text { /* begin with {0} */
    char *data;      /* what was answered (first sample), malloc'ed; NULL: nothing */
    size_t n, cap;
    bool cancelled;
    bool cut; /* it ended by its length */
    uint32_t prompt_tokens, completion_tokens;
};

/* Returns the exit code.  text may be NULL. */
int answer_stream(struct ingot_client *c, const struct ingot_request *r,
                  const struct answer_config *cfg, struct answer_text *text);

#endif
