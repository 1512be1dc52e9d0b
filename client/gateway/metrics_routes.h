/* GET /metrics: the coordinator's figures, asked for at each scrape without waiting, and the gateway's own. */
#ifndef CLIENT_GATEWAY_METRICS_ROUTES_H
#define CLIENT_GATEWAY_METRICS_ROUTES_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"

/* When the coordinator does not answer: the gateway's own figures and ingot_up 0. */
void metrics_serve(struct gateway *g, const struct http_request *q, struct http_reply *r);

#endif
