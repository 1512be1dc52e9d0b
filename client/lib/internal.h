/* What the files of libingot share: sending, receiving and questions (ingot.c), the
 * connection (connection.c), the choice among servers (servers.c), requests and their
 * events (requests.c), their resumption over a new connection (resume.c), queries of text (queries.c), conversations (turns.c). */
#ifndef CLIENT_LIB_INTERNAL_H
#define CLIENT_LIB_INTERNAL_H

#include <string.h>
#include <zmq.h>

#include "client/lib/ingot.h"
#include "common/secret.h"
#include "common/wire/client_msg.h"
#include "common/wire/sock.h"

enum { MAX_MODELS = 8, MAX_ENDS = MAX_SAMPLES, MAX_ENDPOINTS = 8 };

/* Requests without their terminal event, by id; resume.c. */
struct running_set {
    struct running **buckets; /* [n_buckets], a power of two or 0: lists of equal hashes */
    uint32_t n_buckets, n;
    struct running *sent,
        *refused; /* rings in the order of sending; refused: to be sent again later */
};

/* Has the server worker groups?  servers.c. */
struct group_watch {
    char id[INGOT_ID_SIZE]; /* of the last Ping; "": none */
    bool none;              /* it had none when it was heard of last */
    uint64_t since_us;      /* since when it has been known to have none; 0: it has one */
    uint64_t ask_us;        /* when it is asked next */
    uint32_t n_left;        /* servers that were left in a row */
};

struct ingot_client {
    void *ctx, *sock;
    void *link_ends; /* tells when the connection has ended */
    bool open;       /* the server has said Welcome */
    bool broken;     /* the connection has ended since */
    bool deaf;       /* nothing more of what it brings is taken */
    struct wire_mem rx, tx;
    zmq_msg_t frame; /* what the last event or reply points into */
    bool has_frame;
    struct kept *kept, **kept_end;
    struct query *queries;       /* without their replies */
    struct query *lost;          /* of connections before; the program has not been told */
    char lost_id[INGOT_ID_SIZE]; /* of the last event that tells so */
    struct ingot_server server;
    char version[160], model_name[256];
    char *endpoints[MAX_ENDPOINTS]; /* [n_endpoints] */
    uint32_t n_endpoints, endpoint; /* the one that is used */
    uint32_t reconnect_ms;          /* 0: the program connects again itself */
    struct running_set running;     /* with reconnect_ms: all requests */
    struct group_watch groups;
    uint64_t lost_us, tried_us; /* when the connection was lost, and the present attempt began */
    char refused[128];          /* "": none; why a server has not taken a new one since */
    struct tenant tenant;
    char token[INGOT_TOKEN_SIZE];
    size_t n_token;
    struct sock_curve curve;
    bool has_curve;
    enum sock_refusal refusal; /* of the connection that is being made */
    struct secret secret;
    uint32_t heartbeat_ms;
    uint64_t heard_us, looked_us; /* when something was received, and looked for, last */
    uint32_t n_running;           /* requests without their terminal event */
    uint64_t next_id;
    struct ingot_sample_end ends[MAX_ENDS]; /* of the last event, like sampling */
    struct ingot_sampling sampling;
    struct ingot_stats stats;  /* of the last event */
    char probe[INGOT_ID_SIZE]; /* the last ingot_probe, "": none */
    struct ingot_model models[MAX_MODELS];
};

/* Does not wait: ST_BUSY when the connection takes nothing now. */
MUST_CHECK enum status client_send(struct ingot_client *c, const struct client_msg *msg);
/* The same of a message that is encoded. */
MUST_CHECK enum status client_send_bytes(struct ingot_client *c, struct wire_bytes bytes);

/* The next message from the socket into c->frame, without the server's probes.  watch: a request
 * runs, so silence means that the server is gone. */
MUST_CHECK enum status client_receive(struct ingot_client *c, struct client_msg *m, bool watch,
                                      uint64_t deadline_us);
void client_drop_frame(struct ingot_client *c);
void client_drop_kept(struct ingot_client *c);
/* There is no memory for what a message brings, so nothing that came behind it may be used: over a new connection all of
 * it comes again. */
void client_lose_message(struct ingot_client *c);

/* --- connection.c --- */
/* Connects again after a loss, as far as that is possible until deadline_us, and resumes all running requests.
 * ST_TIMEOUT: not yet, call again.  ST_PEER: no server has answered for reconnect_ms. */
MUST_CHECK enum status client_reconnect(struct ingot_client *c, uint64_t deadline_us);
/* The connection is lost: client_reconnect is to be called. */
void client_lose(struct ingot_client *c);

/* --- servers.c --- */
/* A connection was made to the server c->endpoint. */
void servers_begin(struct ingot_client *c, bool has_group);
/* The server has groups or not; one of several that has had none for a while is left. */
void servers_note(struct ingot_client *c, bool has_group);
/* Notes what a Pong says. */
void servers_take(struct ingot_client *c, const struct client_msg *m);
/* Asks, while requests run and there are several servers; *next_us: when it asks again, UINT64_MAX: not. */
MUST_CHECK enum status servers_ask(struct ingot_client *c, uint64_t *next_us);
/* The connection ends, and the next one is to the next server of the list. */
void servers_leave(struct ingot_client *c);
/* This server has no groups, and the list has others. */
bool servers_other_may_have_groups(const struct ingot_client *c);

/* --- resume.c --- */
/* A request that is to be sent as these bytes; it is entered when it has been, else freed. */
MUST_CHECK enum status running_create(struct ingot_client *c, struct running **out,
                                      const struct msg_generate *g, struct wire_bytes bytes);
/* In place of one of the same id.  *r = NULL. */
void running_enter(struct ingot_client *c, struct running **r);
void running_free(struct running *r); /* NULL is fine */
/* It is cancelled on each further connection too. */
void running_cancel(struct ingot_client *c, const char *id);
void running_forget_all(struct ingot_client *c);
/* Notes what the message in c->frame brings; *swallow: the program has seen that, or need not see it. */
MUST_CHECK enum status running_take(struct ingot_client *c, struct client_msg *m, bool *swallow);
/* All running requests are due again, over a new connection. */
void running_resume(struct ingot_client *c);
/* Sends those that are due: their refusal has passed; *next_us: when the next is, UINT64_MAX: none. */
MUST_CHECK enum status running_retry(struct ingot_client *c, uint64_t *next_us);

/* The first of the events that came while a question was asked; c->kept is not NULL. */
MUST_CHECK enum status client_take_kept(struct ingot_client *c, struct client_msg *m);
/* The server's model, as it says now. */
void client_take_model(struct ingot_client *c, const struct msg_model *m);
bool client_is_event(struct ingot_client *c, const struct client_msg *m);

/* Sends and waits for the reply of that type with that id.  Events that arrive meanwhile are kept. */
MUST_CHECK enum status client_ask(struct ingot_client *c, const struct client_msg *question,
                                  const char *id, enum msg_type want, struct client_msg *reply);

/* A query whose reply comes as an event.  ST_RANGE: the id is malformed or in use. */
MUST_CHECK enum status client_begin_query(struct ingot_client *c, const char *id);
/* false: there is none of that id. */
bool client_end_query(struct ingot_client *c, const char *id);
void client_drop_queries(struct ingot_client *c);
/* Where the library connects again, the program is told of each by an event. */
void client_lose_queries(struct ingot_client *c);
/* That event; false: all have been told. */
bool client_take_lost(struct ingot_client *c, struct ingot_event *ev);

/* The reply's pointers go on pointing into its memory. */
void client_fill_stats(struct ingot_stats *out, const struct msg_stats *s);

void client_make_id(struct ingot_client *c, char id[INGOT_ID_SIZE]);

/* NULL: empty. */
static inline struct wire_text client_text(const char *s, size_t n)
{
    return s ? (struct wire_text){s, n} : (struct wire_text){"", 0};
}

static inline struct wire_text client_string(const char *s)
{
    return client_text(s, s ? strlen(s) : 0);
}

/* The conversation of r, in c->rx. */
MUST_CHECK enum status client_fill_chat(struct ingot_client *c, const struct ingot_request *r,
                                        struct msg_chat *chat);

#endif
