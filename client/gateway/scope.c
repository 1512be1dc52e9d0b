#include "client/gateway/scope.h"

#include <stdio.h>
#include <string.h>

#include "common/hex.h"

enum { MAX_IDEMPOTENCY_KEY = 255, ID_BYTES = 24, RETRY_MS = 1000 };

static bool refuse(struct scope_refusal *no, int status, const char *message, const char *param)
{
    *no = (struct scope_refusal){.status = status, .message = message, .param = param};
    return false;
}

static bool is_good_key(const char *key)
{
    size_t n = strlen(key);
    for (size_t i = 0; i < n; i++)
        if (key[i] < 0x20 || key[i] > 0x7e)
            return false;
    return n >= 1 && n <= MAX_IDEMPOTENCY_KEY;
}

/* Two requests are the same when method, path and body are. */
static void name_request(struct scope *s, const struct http_request *q, const char *key)
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 h;
    sha256(key, strlen(key), digest);
    s->id[0] = 'i';
    hex_of(digest, ID_BYTES, s->id + 1);
    sha256_init(&h);
    sha256_update(&h, q->path, strlen(q->path) + 1);
    sha256_update(&h, q->body, q->n_body);
    sha256_final(&h, s->body_digest);
}

static bool apply_key(struct scope *s, const struct gateway *g, const struct http_request *q,
                      const struct http_reply *r, struct ingot_request *ask,
                      struct scope_refusal *no)
{
    const char *key = http_request_header(q, "idempotency-key");
    if (!key)
        return true;
    if (!is_good_key(key))
        return refuse(no, 400, "Idempotency-Key: it must have 1 to 255 visible characters", "");
    if (!api_keys_required(g->keys) && !http_reply_is_loopback(r))
        return refuse(no, 403,
                      "Idempotency-Key: without API keys only clients on this machine may use it",
                      "");
    name_request(s, q, key);
    ask->request_id = s->id;
    ask->client_digest = s->body_digest;
    ask->n_client_digest = sizeof s->body_digest;
    return true;
}

bool scope_apply(struct scope *s, const struct gateway *g, const struct http_request *q,
                 const struct http_reply *r, struct ingot_request *ask, struct scope_refusal *no)
{
    const struct ingot_server *server = upstream_server(g->upstream);
    if (!api_keys_caller(g->keys, q, &s->caller))
        return refuse(no, 401, "the API key is missing or wrong", "");
    if (ask->priority > s->caller.max_priority)
        return refuse(no, 403,
                      api_keys_required(g->keys) ? "priority: above the highest of this API key"
                                                 : "priority: above 0 needs an API key",
                      "priority");
    ask->has_grace = true;
    ask->grace_ms = g->resume_grace_ms;
    if (!s->caller.own_tenant) {
        if (server && !server->any_tenant) {
            (void)refuse(no, 503,
                         "the coordinator does not let this gateway act for several tenants: both "
                         "need the same --tenants-secret",
                         "");
            no->retry_after_ms = RETRY_MS;
            return false;
        }
        ask->tenant = s->caller.tenant;
        ask->n_tenant = sizeof s->caller.tenant;
    }
    if (s->caller.has_limits)
        ask->limits = &s->caller.limits;
    return apply_key(s, g, q, r, ask, no);
}
