/* The bodies of /api/chat and /api/generate -> struct answer_request.
 *
 * Fields are of the three classes of openai_request.h.  In options the fields of request_fields.h are taken too. */
#ifndef CLIENT_GATEWAY_OLLAMA_REQUEST_H
#define CLIENT_GATEWAY_OLLAMA_REQUEST_H

#include "client/gateway/request_fields.h"

enum ollama_call { OLLAMA_CHAT = 1, OLLAMA_GENERATE = 2 };

struct ollama_request {
    enum ollama_call call;
    struct answer_request of;
    bool empty;       /* nothing to answer: only the model is to be loaded, or unloaded */
    bool unload;      /* keep_alive 0 */
    uint32_t num_ctx; /* 0: not given */
    /* its own */
    bool raw, prefilled; /* prefilled: the last turn is the beginning of the answer */
    struct answer_prompt prompt;
    const char *system; /* a JSON string; NULL: none */
    size_t n_system;
    struct request_turns turns;
    struct request_variables variables;
};

/* On failure status_text() says why and param where; ollama_request_free in both cases. */
MUST_CHECK enum status ollama_request_read(struct ollama_request *q, enum ollama_call call,
                                           const char *body, size_t n_body,
                                           char param[JSON_PATH_SIZE]);
void ollama_request_free(struct ollama_request *q);

#endif
