/* May a request of any API run?  The checks that follow the reading of its body.  A refusal ends the reply with an
 * error in the API's shape (http_reply_error_writer). */
#ifndef CLIENT_GATEWAY_ADMISSION_H
#define CLIENT_GATEWAY_ADMISSION_H

#include "client/gateway/answer_request.h"
#include "client/gateway/gateway_state.h"
#include "client/gateway/http_server.h"

/* The coordinator, or NULL: refused with 503. */
const struct ingot_server *admission_server(const struct gateway *g, struct http_reply *r);
/* The coordinator's name of its model; "": none. */
const char *admission_own_name(const struct ingot_server *s);
/* The served name that asked means ("": the first one), or NULL: refused with 404. */
const char *admission_model(const struct gateway *g, const struct ingot_server *s,
                            const char *asked, struct http_reply *r);
/* The same of the name behind /v1/models/. */
const char *admission_model_at(const struct gateway *g, const struct ingot_server *s,
                               const struct http_request *q, struct http_reply *r);
/* The name that the answer is to show, or NULL: refused.  read: how the reading of the body has ended, with
 * status_text(); param: the path of the field at fault.  It also gives q its tenant, limits and id (scope.h). */
const char *admission_check(const struct gateway *g, const struct ingot_server *s,
                            struct answer_request *q, enum status read, const char *param,
                            const struct http_request *http, struct http_reply *r);

#endif
