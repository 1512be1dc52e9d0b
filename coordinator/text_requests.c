#include "coordinator/text_requests.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/reply.h"
#include "coordinator/session.h"

/* What a Generate needs besides its bytes. */
static void set_request(struct coordinator *co, struct text_job *job, const struct request *r)
{
    job->request = request_key(r);
    job->keep_request = co->journal != NULL;
    job->limits = (struct resolve_limits){.eos = co->mt.eos,
                                          .n_eos = co->mt.n_eos,
                                          .defaults = &co->mt.generation,
                                          .vocab = co->shape.vocab,
                                          .max_ctx = co->shape.max_ctx,
                                          .max_waiting = co->cfg.max_waiting,
                                          .modules = &co->mt.modules};
}

enum status text_requests_recover(struct coordinator *co, const struct request *r,
                                  struct recovered_request *q, uint32_t elapsed_ms)
{
    struct text_job *job = calloc(1, sizeof *job);
    if (!job)
        FAIL(ST_NOMEM, "no memory for a request");
    job->type = MSG_GENERATE;
    job->owner = r->owner;
    memcpy(job->request_id, r->id, sizeof job->request_id);
    set_request(co, job, r);
    job->recovered = q;
    job->elapsed_ms = elapsed_ms;
    enum status st = text_service_submit(co->text, &job);
    if (st != ST_OK) {
        job->recovered = NULL;
        text_job_free(job);
    }
    return st;
}

enum status text_requests_submit(struct coordinator *co, const struct client *c,
                                 const struct request_head *h, const struct request *r)
{
    struct text_job *job = calloc(1, sizeof *job);
    if (!job)
        FAIL(ST_NOMEM, "no memory for a request");
    job->type = h->type;
    job->client = c->id;
    job->owner = session_owner(co, c, h);
    memcpy(job->request_id, h->id, sizeof job->request_id);
    if (r)
        set_request(co, job, r);
    enum status st = client_port_take(co->client_port, &job->msg);
    if (st == ST_OK)
        st = text_service_submit(co->text, &job);
    if (st != ST_OK)
        text_job_free(job);
    return st;
}

void text_requests_take(struct coordinator *co, struct client *c, const struct request_head *h,
                        uint64_t now_us)
{
    enum status st = text_requests_submit(co, c, h, NULL);
    if (st != ST_OK)
        reply_error(co, c, MSG_ERROR,
                    &(struct msg_error){.request_id = h->id,
                                        .request = h->type,
                                        .code = st,
                                        .retryable = reply_passes(st),
                                        .detail = status_text()},
                    now_us);
}

void text_requests_reply(struct coordinator *co, const struct text_job *job, uint64_t now_us)
{
    struct client *c = client_port_find(co->client_port, job->client);
    struct client_msg m;
    if (!c)
        return;
    if (job->status != ST_OK) {
        reply_error(co, c, MSG_ERROR,
                    &(struct msg_error){.request_id = job->request_id,
                                        .request = job->type,
                                        .code = job->status,
                                        .retryable = reply_passes(job->status),
                                        .field = job->field,
                                        .detail = job->detail},
                    now_us);
        return;
    }
    if (job->type == MSG_TOKENIZE) {
        m.type = MSG_TOKENS;
        m.u.tokens = (struct msg_tokens){.request_id = job->request_id,
                                         .n_tokens = (uint32_t)job->tokens.n,
                                         .tokens = job->tokens.ids,
                                         .n_token_text = job->texts.n_text,
                                         .token_text = job->texts.text.data,
                                         .n_spelling = job->texts.n_spelling,
                                         .spelling = job->texts.spelling.data};
    } else {
        m.type = MSG_TEXT;
        m.u.text.request_id = job->request_id;
        m.u.text.text = (struct wire_text){job->text.data, job->text.len};
    }
    client_port_reply(co->client_port, c, &m, now_us);
}
