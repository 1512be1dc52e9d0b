/* /v1/responses of OpenAI's API. */
#ifndef CLIENT_GATEWAY_RESPONSES_ROUTES_H
#define CLIENT_GATEWAY_RESPONSES_ROUTES_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"

void responses_serve(struct gateway *g, const struct http_request *q, struct http_reply *r);

#endif
