#include "client/gateway/admission.h"

#include <stdio.h>

#include "client/gateway/answer_error.h"
#include "client/gateway/request_log.h"
#include "client/gateway/scope.h"

enum { RETRY_MS = 1000 };

const struct ingot_server *admission_server(const struct gateway *g, struct http_reply *r)
{
    const struct answer_error away = {503, "there is no connection to the coordinator", "",
                                      RETRY_MS};
    const struct ingot_server *s = upstream_server(g->upstream);
    if (!s) {
        answer_error_headers(r, &away);
        http_reply_error(r, away.status, away.message);
    }
    return s;
}

const char *admission_own_name(const struct ingot_server *s)
{
    return s->model.name ? s->model.name : "";
}

const char *admission_model(const struct gateway *g, const struct ingot_server *s,
                            const char *asked, struct http_reply *r)
{
    char message[ANSWER_MAX_MODEL + 64];
    const char *name = model_names_find(&g->names, admission_own_name(s), asked);
    if (!name) {
        snprintf(message, sizeof message, "the model '%s' is not served here", asked);
        http_reply_error_at(r, 404, message, "model");
    }
    return name;
}

const char *admission_model_at(const struct gateway *g, const struct ingot_server *s,
                               const struct http_request *q, struct http_reply *r)
{
    const char *asked = q->path + sizeof "/v1/models/" - 1;
    return admission_model(g, s, *asked ? asked : "/", r); /* no model is called "/" */
}

/* false: refused. */
static bool take_scope(const struct gateway *g, struct answer_request *q,
                       const struct http_request *http, struct http_reply *r)
{
    struct scope *s = answer_keep(q, NULL, sizeof *s);
    struct scope_refusal no = {503, "no memory for a request", "", 0};
    if (s && scope_apply(s, g, http, r, &q->ask, &no))
        return true;
    const struct answer_error e = {no.status, no.message, no.param, no.retry_after_ms};
    answer_error_headers(r, &e);
    http_reply_error_at(r, e.status, e.message, e.field);
    return false;
}

const char *admission_check(const struct gateway *g, const struct ingot_server *s,
                            struct answer_request *q, enum status read, const char *param,
                            const struct http_request *http, struct http_reply *r)
{
    request_log_model(http_reply_user(r), q->model, q->stream);
    if (read != ST_OK) {
        http_reply_error_at(r, read == ST_NOMEM ? 503 : 400, status_text(), param);
        return NULL;
    }
    const char *name = admission_model(g, s, q->model, r);
    if (name && !take_scope(g, q, http, r))
        return NULL;
    return name && *q->model ? q->model : name;
}
