/* Texts whose embeddings or scores are asked of a private server: `ingot embed`, `ingot rerank`. */
#ifndef CLIENT_CLI_EMBED_CALLS_H
#define CLIENT_CLI_EMBED_CALLS_H

#include "client/cli/private_server.h"
#include "client/cli/request_options.h"

/* One text, and what came for it. */
struct embed_call {
    struct built_request b;
    uint32_t *types; /* of the tokens, NULL: all 0 */
    char id[INGOT_ID_SIZE];
    float *v; /* [n]; NULL: not yet */
    uint32_t n, prompt_tokens;
};

/* Sends all requests and waits for their ends.  Returns EXIT_OK, or the exit code after printing the
 * error (with json as an object too). */
int embed_calls_run(const char *command, bool json, struct private_server *p,
                    struct embed_call *all, size_t n);
void embed_calls_free(struct embed_call *all, size_t n);

#endif
