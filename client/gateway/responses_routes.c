#include "client/gateway/responses_routes.h"

#include "client/gateway/admission.h"
#include "client/gateway/answer.h"
#include "client/gateway/responses_form.h"

static void start(struct gateway *g, struct responses_request *q, const char *model,
                  struct http_reply *r)
{
    void *a = responses_answer_create(q, model);
    if (a)
        answer_start(g->upstream, &g->answers, r, &q->of, &responses_form, a);
    else
        http_reply_error(r, 503, "no memory for an answer");
}

void responses_serve(struct gateway *g, const struct http_request *http, struct http_reply *r)
{
    const struct ingot_server *s = admission_server(g, r);
    struct responses_request q;
    char param[JSON_PATH_SIZE];
    if (!s)
        return;
    enum status st = responses_request_read(&q, http->body, http->n_body, param);
    const char *model = admission_check(g, s, &q.of, st, param, http, r);
    if (model)
        start(g, &q, model, r);
    responses_request_free(&q);
}
