/* The memory of answers, counted: a limit for each answer, and one for all together with what waits for slow clients.
 *
 * Where all together are too much, an answer may hold its part of what there is and no more: small ones go on.  What
 * waits in connections is the server's to bound (http_options.max_output_memory).  The loop's thread alone. */
#ifndef CLIENT_GATEWAY_ANSWER_MEMORY_H
#define CLIENT_GATEWAY_ANSWER_MEMORY_H

#include "client/gateway/answer_form.h"
#include "client/gateway/http_server.h"

struct answer_memory {
    const struct http_server *server; /* whose connections hold answers too; borrowed */
    size_t max_answer;                /* bytes of one answer */
    size_t max_all;                   /* bytes of all, with what waits for clients */
    size_t held, n;                   /* bytes of all answers; answers */
    char text[200];                   /* of the last error */
};

struct answer_share { /* of one answer */
    struct answer_memory *of;
    size_t held; /* bytes */
};

enum answer_room { ANSWER_FITS, ANSWER_TOO_LARGE, ANSWER_NO_ROOM };

void answer_share_init(struct answer_share *s, struct answer_memory *m);
void answer_share_fini(struct answer_share *s);

/* The answer holds that many bytes from now on.  It is counted whatever the result is. */
MUST_CHECK enum answer_room answer_share_set(struct answer_share *s, size_t bytes);
/* Bytes that it may hold besides, at least 1. */
size_t answer_share_left(const struct answer_share *s);

/* What the client is told; the text is valid until the next call. */
struct answer_error answer_room_error(struct answer_memory *m, enum answer_room room);

#endif
