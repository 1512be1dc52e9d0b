/* The page at /: a chat and a live view of the cluster, files that are part of the program.  The page talks to this
 * gateway alone, and a browser is told to let it do nothing else. */
#ifndef CLIENT_GATEWAY_PAGE_ROUTES_H
#define CLIENT_GATEWAY_PAGE_ROUTES_H

#include "client/gateway/gateway_state.h"
#include "client/gateway/http_request.h"
#include "client/gateway/http_server.h"

void page_serve_html(struct gateway *g, const struct http_request *q, struct http_reply *r);
void page_serve_css(struct gateway *g, const struct http_request *q, struct http_reply *r);
void page_serve_script(struct gateway *g, const struct http_request *q, struct http_reply *r);

#endif
