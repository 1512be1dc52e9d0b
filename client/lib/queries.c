/* Queries of text (tokenize, detokenize, apply a template), which wait for their reply or send only, and those of
 * figures that send only. */
#include <stdio.h>

#include "client/lib/internal.h"

/* ---- the messages ---- */

static struct client_msg tokenize(const char *id, const char *text, size_t n, bool add_special,
                                  bool want_token_text)
{
    struct client_msg m = {.type = MSG_TOKENIZE};
    m.u.tokenize = (struct msg_tokenize){.request_id = id,
                                         .model = "",
                                         .text = client_text(text, n),
                                         .add_special = add_special,
                                         .want_token_text = want_token_text};
    return m;
}

static enum status tokenize_chat(struct ingot_client *c, const char *id,
                                 const struct ingot_request *r, bool add_special,
                                 bool want_token_text, struct client_msg *m)
{
    *m = tokenize(id, NULL, 0, add_special, want_token_text);
    m->u.tokenize.model = r->model ? r->model : "";
    m->u.tokenize.has_chat = true;
    wire_mem_reset(&c->rx);
    return client_fill_chat(c, r, &m->u.tokenize.chat);
}

static struct client_msg detokenize(const char *id, const int32_t *ids, size_t n, bool skip_special)
{
    struct client_msg m = {.type = MSG_DETOKENIZE};
    m.u.detokenize = (struct msg_detokenize){.request_id = id,
                                             .model = "",
                                             .n_tokens = (uint32_t)n,
                                             .tokens = ids,
                                             .skip_special = skip_special};
    return m;
}

static enum status apply_template(struct ingot_client *c, const char *id,
                                  const struct ingot_request *r, struct client_msg *m)
{
    *m = (struct client_msg){.type = MSG_APPLY_TEMPLATE};
    m->u.apply_template.request_id = id;
    m->u.apply_template.model = r->model ? r->model : "";
    wire_mem_reset(&c->rx);
    return client_fill_chat(c, r, &m->u.apply_template.chat);
}

/* ---- with the reply ---- */

static enum status ask_tokens(struct ingot_client *c, const struct client_msg *m, const char *id,
                              const int32_t **ids, size_t *n_ids)
{
    struct client_msg reply;
    TRY(client_ask(c, m, id, MSG_TOKENS, &reply));
    *ids = reply.u.tokens.tokens;
    *n_ids = reply.u.tokens.n_tokens;
    return ST_OK;
}

enum ingot_code ingot_tokenize(struct ingot_client *c, const char *text, size_t n, bool add_special,
                               const int32_t **ids, size_t *n_ids)
{
    char id[INGOT_ID_SIZE];
    client_make_id(c, id);
    struct client_msg m = tokenize(id, text, n, add_special, false);
    return (enum ingot_code)ask_tokens(c, &m, id, ids, n_ids);
}

enum ingot_code ingot_tokenize_chat(struct ingot_client *c, const struct ingot_request *r,
                                    bool add_special, const int32_t **ids, size_t *n_ids)
{
    char id[INGOT_ID_SIZE];
    struct client_msg m;
    client_make_id(c, id);
    enum status st = tokenize_chat(c, id, r, add_special, false, &m);
    if (st == ST_OK)
        st = ask_tokens(c, &m, id, ids, n_ids);
    return (enum ingot_code)st;
}

static enum status ask_text(struct ingot_client *c, const struct client_msg *m, const char *id,
                            const char **text, size_t *n_text)
{
    struct client_msg reply;
    TRY(client_ask(c, m, id, MSG_TEXT, &reply));
    *text = reply.u.text.text.data;
    *n_text = reply.u.text.text.n;
    return ST_OK;
}

enum ingot_code ingot_detokenize(struct ingot_client *c, const int32_t *ids, size_t n,
                                 bool skip_special, const char **text, size_t *n_text)
{
    char id[INGOT_ID_SIZE];
    client_make_id(c, id);
    struct client_msg m = detokenize(id, ids, n, skip_special);
    return (enum ingot_code)ask_text(c, &m, id, text, n_text);
}

enum ingot_code ingot_apply_template(struct ingot_client *c, const struct ingot_request *r,
                                     const char **text, size_t *n_text)
{
    char id[INGOT_ID_SIZE];
    struct client_msg m;
    client_make_id(c, id);
    enum status st = apply_template(c, id, r, &m);
    if (st == ST_OK)
        st = ask_text(c, &m, id, text, n_text);
    return (enum ingot_code)st;
}

/* ---- without waiting ---- */

static enum ingot_code send_query(struct ingot_client *c, const struct client_msg *m,
                                  const char *id)
{
    enum status st = client_begin_query(c, id);
    if (st != ST_OK)
        return (enum ingot_code)st;
    st = client_send(c, m);
    if (st != ST_OK)
        (void)client_end_query(c, id);
    return (enum ingot_code)st;
}

enum ingot_code ingot_send_tokenize(struct ingot_client *c, const char *request_id,
                                    const char *text, size_t n, bool add_special,
                                    bool want_token_text)
{
    struct client_msg m = tokenize(request_id, text, n, add_special, want_token_text);
    return send_query(c, &m, request_id);
}

enum ingot_code ingot_send_tokenize_chat(struct ingot_client *c, const struct ingot_request *r,
                                         bool add_special, bool want_token_text)
{
    struct client_msg m;
    enum status st = tokenize_chat(c, r->request_id, r, add_special, want_token_text, &m);
    return st == ST_OK ? send_query(c, &m, r->request_id) : (enum ingot_code)st;
}

enum ingot_code ingot_send_detokenize(struct ingot_client *c, const char *request_id,
                                      const int32_t *ids, size_t n, bool skip_special)
{
    struct client_msg m = detokenize(request_id, ids, n, skip_special);
    return send_query(c, &m, request_id);
}

enum ingot_code ingot_send_apply_template(struct ingot_client *c, const struct ingot_request *r)
{
    struct client_msg m;
    enum status st = apply_template(c, r->request_id, r, &m);
    return st == ST_OK ? send_query(c, &m, r->request_id) : (enum ingot_code)st;
}

enum ingot_code ingot_send_stats(struct ingot_client *c, const char *request_id)
{
    struct client_msg m = {.type = MSG_STATS};
    m.u.simple = (struct msg_simple){request_id, 0};
    return send_query(c, &m, request_id);
}
