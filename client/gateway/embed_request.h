/* The bodies of /v1/embeddings (OpenAI's), /api/embed and /api/embeddings (Ollama's), /v1/rerank (Cohere's) and /v1/score
 * (vLLM's) -> struct answer_request with one prompt for each text; of the last two with one for each document.
 *
 * Fields are of the three classes of openai_request.h. */
#ifndef CLIENT_GATEWAY_EMBED_REQUEST_H
#define CLIENT_GATEWAY_EMBED_REQUEST_H

#include "client/gateway/request_fields.h"

enum { EMBED_MAX_INPUTS = 2048 };

enum embed_api {
    EMBED_OPENAI = 1,
    EMBED_OLLAMA = 2,
    EMBED_OLLAMA_ONE = 4,
    EMBED_RERANK = 8,
    EMBED_SCORE = 16
};
#define EMBED_PAIRS (EMBED_RERANK | EMBED_SCORE)

struct embed_request {
    enum embed_api api;
    struct answer_request of; /* prompts: its inputs, none with /api/embed's empty list */
    bool base64;              /* OpenAI's encoding_format */
    bool has_input;
    /* of pairs: [n_queries], one for all documents or one for each */
    struct answer_prompt *queries;
    size_t n_queries;
    uint32_t top_n;        /* the best documents that the answer has; 0: all */
    bool return_documents; /* with their texts */
};

/* On failure status_text() says why and param where; answer_request_free(&q->of) in both cases. */
MUST_CHECK enum status embed_request_read(struct embed_request *q, enum embed_api api,
                                          const char *body, size_t n_body,
                                          char param[JSON_PATH_SIZE]);

#endif
