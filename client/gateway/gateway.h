/* What a request's path means: the table of routes.  Called by the HTTP server, from its loop. */
#ifndef CLIENT_GATEWAY_GATEWAY_H
#define CLIENT_GATEWAY_GATEWAY_H

#include "client/gateway/api_keys.h"
#include "client/gateway/http_server.h"
#include "client/gateway/model_names.h"
#include "client/gateway/upstream.h"

struct gateway {
    struct api_keys keys;
    struct model_names names;
    struct upstream *upstream;
    int64_t started; /* s since 1970 */
};

/* The handler of the HTTP server; ctx is the struct gateway. */
void gateway_request(void *ctx, const struct http_request *q, struct http_reply *r);

#endif
