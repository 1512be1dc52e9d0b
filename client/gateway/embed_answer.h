/* The embeddings of one HTTP request: its texts run at the coordinator, at most EMBED_AT_ONCE of them at a time, and the
 * reply is written when all have come.  A client that goes away cancels them.  One thread, the loop's. */
#ifndef CLIENT_GATEWAY_EMBED_ANSWER_H
#define CLIENT_GATEWAY_EMBED_ANSWER_H

#include "client/gateway/answer_memory.h"
#include "client/gateway/embed_request.h"
#include "client/gateway/http_server.h"
#include "client/gateway/upstream.h"
#include "common/json/json_write.h"

enum { EMBED_AT_ONCE = 64 };

struct embed_vector {
    float *v; /* [n] */
    uint32_t n;
};

struct embed_result {
    enum embed_api api;
    bool base64;
    char model[ANSWER_MAX_MODEL]; /* the name that the answer shows */
    size_t n;                     /* texts */
    uint32_t top_n;               /* of EMBED_RERANK; 0: all */
    const struct answer_prompt
        *documents;              /* [n], of the request, where the answer shows them; else NULL */
    struct embed_vector *vector; /* [n] */
    uint64_t prompt_tokens;      /* of all texts */
    uint64_t began_us;
};

/* Writes the body of the reply. */
typedef void embed_writer(struct json_writer *w, const struct embed_result *res);

/* Takes the reply, and all memory of the request (*q is empty then), over.  The upstream is connected. */
void embed_answer_start(struct upstream *u, struct answer_memory *memory, struct http_reply *r,
                        struct embed_request *q, const char *model, embed_writer *write);

#endif
