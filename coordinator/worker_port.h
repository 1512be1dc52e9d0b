/* The workers' side: one ROUTER socket and the worker groups behind it.  A group is one MPI job and
 * speaks through its rank 0.  One group is active; others that say Hello are standby and take over
 * when the active one is lost.  Every group has an epoch of its own; whatever carries another epoch
 * is dropped. Pure of policy: it reports events, the loop acts.  One thread (the loop). */
#ifndef COORDINATOR_WORKER_PORT_H
#define COORDINATOR_WORKER_PORT_H

#include "common/wire/worker_msg.h"

struct worker_port;

enum { MAX_WORKER_GROUPS = 8 };

struct sent_step {     /* one that the ranks have not answered */
    uint64_t begin_us; /* when it was sent, or the one before it answered */
    uint64_t deadline_us;
    uint32_t n_tokens;
};

struct worker_group {
    bool used, active;
    uint8_t identity[255];
    uint8_t n_identity;
    uint64_t epoch, launch, pid;
    uint64_t plan_epoch; /* the scheduler's, of the steps in flight */
    char model[128], backend[32], coll[32];
    char numerics[NUMERICS_ID_SIZE];
    bool has_weights, has_text;
    uint8_t weights[SHA256_BYTES], text[SHA256_BYTES]; /* digests */
    uint32_t world, vocab, max_ctx, block_len, n_blocks, max_step_tokens, max_seqs;
    uint64_t heard_us;                          /* last message from it */
    struct sent_step sent[MAX_STEPS_IN_FLIGHT]; /* the oldest first */
    uint32_t n_sent;
    uint64_t steps, max_step_us, max_us_per_token; /* slowest seen */
    uint32_t ring[256];                            /* recent step times in us */
    uint32_t n_ring;
};

/* What a group must fit. */
struct worker_port_need {
    uint32_t model_vocab, model_max_ctx; /* what the model has: more is impossible */
    bool has_shape;                      /* of the scheduler: these */
    uint32_t block_len, max_ctx, max_step_tokens, max_seqs;
    bool has_weights, has_text;
    uint8_t weights[SHA256_BYTES], text[SHA256_BYTES];
    const char *weights_from;        /* whose digest that is, for messages */
    char numerics[NUMERICS_ID_SIZE]; /* "": any */
};

struct worker_port_config {
    const char *endpoint;
    bool allow_remote;
    uint32_t heartbeat_ms; /* asked of the workers, and sent to them */
    uint32_t silence_ms;   /* an idle group silent for longer is lost */
    uint32_t step_min_ms;  /* a step's deadline is never shorter */
    uint32_t
        first_step_ms; /* deadline of a group's first steps, while nothing is known of its speed */
    uint32_t lease_ms; /* told to workers */
};

enum worker_port_event_kind {
    WORKER_PORT_NONE,
    WORKER_PORT_JOINED,  /* group said Hello, and fits what is needed */
    WORKER_PORT_WEIGHTS, /* the group's weights digest is known now, and fits */
    WORKER_PORT_RESULT,  /* of the active group's oldest step in flight */
    WORKER_PORT_LOST,    /* the group was fenced; why says what happened */
};

struct worker_port_event {
    enum worker_port_event_kind kind;
    struct worker_group *group;
    struct step_result result; /* valid until the next call */
    char why[512];
};

MUST_CHECK enum status worker_port_open(struct worker_port **out, void *zmq_ctx,
                                        const struct worker_port_config *cfg);
void worker_port_close(struct worker_port *l);
void *worker_port_socket(struct worker_port *l);
const char *worker_port_endpoint(const struct worker_port *l);

/* What groups must fit from now on, those that are here too: one that does not is refused by name,
 * which worker_port_poll reports as its loss. */
void worker_port_require(struct worker_port *l, const struct worker_port_need *need);

/* Next event: messages, silence, deadlines.  WORKER_PORT_NONE when there is nothing. */
void worker_port_poll(struct worker_port *l, uint64_t now_us, struct worker_port_event *ev);

struct worker_group *worker_port_active(struct worker_port *l);
/* Makes the longest-waiting standby group active; NULL when there is none.  known: only one whose
 * weights digest is known, and, where `weights` is not NULL, equal to that. */
struct worker_group *worker_port_promote(struct worker_port *l, bool known, const uint8_t *weights);
/* Sends a group away that has not become active. */
void worker_port_refuse(struct worker_port *l, struct worker_group *g, const char *why);
/* Fences a group that broke the protocol; ev tells the loss. */
void worker_port_drop(struct worker_port *l, struct worker_group *g, const char *why,
                      struct worker_port_event *ev);
/* Sends a step to the active group, with the group's epoch; at most MAX_STEPS_IN_FLIGHT are in flight.
 * Its deadline begins when it is sent or, behind another one, when that is answered.  ST_PEER: the
 * group was lost meanwhile (worker_port_poll will report it). */
MUST_CHECK enum status worker_port_send_plan(struct worker_port *l, const struct step_plan *plan,
                                             uint64_t now_us);
/* Heartbeats to all groups when they are due. */
void worker_port_tend(struct worker_port *l, uint64_t now_us);
/* Asks all groups to end. */
void worker_port_shutdown(struct worker_port *l);

const struct worker_group *worker_port_group(const struct worker_port *l,
                                             int i); /* NULL when unused */
void worker_group_step_percentiles(const struct worker_group *g, uint64_t *p50, uint64_t *p99);

#endif
