/* The workers' side: one ROUTER socket and the worker groups behind it.  A group is one MPI job and
 * sends messages through its rank 0.  Groups that run steps are active; others that have said Hello
 * stand by.  Every group has its own epoch; messages of other epochs are dropped.
 * A launcher may watch a group over a connection of its own: it is told when the group is given up.
 * No policy: worker_port reports events and the loop acts on them.  One thread (the loop). */
#ifndef COORDINATOR_WORKER_PORT_H
#define COORDINATOR_WORKER_PORT_H

#include "common/histogram.h"
#include "common/wire/worker_msg.h"
#include "coordinator/gatekeeper.h"
#include "coordinator/group_figures.h"
#include "coordinator/group_fit.h"
#include "coordinator/step_clock.h"

struct worker_port;

enum { MAX_WORKER_GROUPS = 64 };

/* A step in flight. */
struct sent_step {
    uint64_t begin_us; /* when it was sent, or when the result of the step before it arrived */
    uint64_t deadline_us;
    uint32_t n_tokens;
    struct cost_load load;
};

struct worker_group {
    bool used, active;
    uint32_t slot; /* its place, in [0, MAX_WORKER_GROUPS) */
    uint8_t identity[255];
    uint8_t n_identity;
    uint8_t watcher[255]; /* identity of the connection that watches it for its launcher */
    uint8_t n_watcher;    /* 0: none */
    char key[CURVE_SIZE]; /* of its connection; "": none was asked for */
    uint64_t epoch, launch, pid;
    uint64_t plan_epoch; /* the scheduler's, of the steps in flight */
    char model[128], backend[32], coll[32];
    char numerics[NUMERICS_ID_SIZE];
    char hosts[4096]; /* of its ranks */
    char address[64]; /* of rank 0's connection; "": ipc */
    bool has_weights, has_text;
    uint8_t weights[SHA256_BYTES], text[SHA256_BYTES]; /* digests */
    bool masks;         /* it can carry out sequences with grammars */
    uint32_t embedding; /* components of its embeddings; 0: it gives none */
    bool headless;      /* it gives nothing else */
    uint32_t world, vocab, max_ctx, block_len, n_blocks, max_step_tokens, max_seqs, n_snapshots;
    uint64_t heard_us;                          /* last message from it */
    const char *broken;                         /* why it cannot be reached; NULL: it can */
    struct sent_step sent[MAX_STEPS_IN_FLIGHT]; /* the oldest first */
    uint32_t n_sent;
    struct step_clock clock;
    uint32_t ring[256]; /* recent step times in us */
    uint32_t n_ring;
    uint64_t n_tokens;                       /* of answers, that its steps gave */
    struct histogram step_us, collective_us; /* of all steps; collective_us: as rank 0 reports it */
    struct group_figures figures;            /* of its ranks, as last reported */
};

struct worker_port_config {
    const char *endpoint;
    bool allow_remote;
    const struct gatekeeper *keys; /* NULL: groups need none */
    uint32_t heartbeat_ms;         /* period of heartbeats, in both directions */
    uint32_t silence_ms;           /* an idle group that is silent for longer is lost */
    uint32_t step_min_ms;          /* least deadline of a step */
    uint32_t first_step_ms; /* deadline of the first group's first steps, before a speed is known */
    uint32_t lease_ms;      /* sent to the workers */
};

enum worker_port_event_kind {
    WORKER_PORT_NONE,
    WORKER_PORT_JOINED,  /* the group said Hello and has the needed facts */
    WORKER_PORT_WEIGHTS, /* the group's weights digest became known and is the needed one */
    WORKER_PORT_GRAMMAR, /* all ranks of the group have compiled a grammar */
    WORKER_PORT_RESULT,  /* the result of an active group's oldest step in flight */
    WORKER_PORT_LOST,    /* the group was fenced, for the reason `why` */
};

struct worker_port_event {
    enum worker_port_event_kind kind;
    struct worker_group *group;
    struct step_result result; /* valid until the next call */
    uint64_t grammar;          /* its id */
    char why[512];
};

MUST_CHECK enum status worker_port_open(struct worker_port **out, void *zmq_ctx,
                                        const struct worker_port_config *cfg);
void worker_port_close(struct worker_port *l);
void *worker_port_socket(struct worker_port *l);
/* A second socket to wait on: it is readable when a connection has ended. */
void *worker_port_monitor(struct worker_port *l);
/* worker_port_poll has something to do within a millisecond, whether or not a message comes. */
bool worker_port_urgent(const struct worker_port *l);
const char *worker_port_endpoint(const struct worker_port *l);

/* Sets the facts that groups must have from now on, present groups included.  A group without them
 * is refused with the reason, which worker_port_poll reports as its loss. */
void worker_port_require(struct worker_port *l, const struct worker_port_need *need);

/* Next event: messages, ended connections, silence, deadlines.  WORKER_PORT_NONE when there is
 * nothing.  When this process itself was paused (stopped, or without a processor), the time does not
 * count against the groups. */
void worker_port_poll(struct worker_port *l, uint64_t now_us, struct worker_port_event *ev);

/* The first active group; NULL: none. */
struct worker_group *worker_port_active(struct worker_port *l);
/* Makes the standby group that has waited longest active; NULL when there is none.  With `known`
 * only a group whose weights digest is known, and equal to `weights` where that is not NULL. */
struct worker_group *worker_port_promote(struct worker_port *l, bool known, const uint8_t *weights);
/* Refuses a group that has not become active. */
void worker_port_refuse(struct worker_port *l, struct worker_group *g, const char *why);
/* Fences a group that broke the protocol; ev is the event of its loss. */
void worker_port_drop(struct worker_port *l, struct worker_group *g, const char *why,
                      struct worker_port_event *ev);
/* Sends a step to an active group, with the group's epoch; at most MAX_STEPS_IN_FLIGHT are in
 * flight.  Its deadline counts from the sending or, behind another step, from that step's result.
 * ST_PEER: the group was lost meanwhile; worker_port_poll will report it. */
MUST_CHECK enum status worker_port_send_plan(struct worker_port *l, struct worker_group *g,
                                             const struct step_plan *plan, uint64_t now_us);
/* Sends the group a Vocabulary or a Grammar. */
MUST_CHECK enum status worker_port_send(struct worker_port *l, struct worker_group *g,
                                        const struct worker_msg *msg);
/* Sends the heartbeats that are due. */
void worker_port_tend(struct worker_port *l, uint64_t now_us);
/* Asks all groups to end. */
void worker_port_shutdown(struct worker_port *l);

/* Group i in [0, MAX_WORKER_GROUPS); NULL when unused. */
struct worker_group *worker_port_group(struct worker_port *l, uint32_t i);
enum { WORKER_GROUP_NAME = 512 };
/* Its hosts, the address of its connection and the pid of rank 0, for log lines.  Returns out. */
const char *worker_group_name(const struct worker_group *g, char out[WORKER_GROUP_NAME]);
void worker_group_step_percentiles(const struct worker_group *g, uint64_t *p50, uint64_t *p99);

#endif
