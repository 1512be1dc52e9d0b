/* The coordinator's state, which the files of the loop share: loop.c is the loop, clients.c answers
 * client messages, answers.c turns tokens into deltas and terminal messages, groups.c follows the
 * worker groups and their steps.  One thread. */
#ifndef COORDINATOR_COORDINATOR_H
#define COORDINATOR_COORDINATOR_H

#include "common/secret.h"
#include "coordinator/client_port.h"
#include "coordinator/gatekeeper.h"
#include "coordinator/journal/journal.h"
#include "coordinator/metrics.h"
#include "coordinator/model_identity.h"
#include "coordinator/request.h"
#include "coordinator/sched/fleet.h"
#include "coordinator/served.h"
#include "coordinator/tenants.h"
#include "coordinator/text_service.h"
#include "coordinator/worker_port.h"

enum tenants {
    TENANTS_OWN, /* a connection speaks for its own tenant only */
    TENANTS_ANY, /* a request may name another one */
};

struct coordinator_config {
    const char *model_path, *model_name;
    struct modules_asked asked; /* what the model gives also without modules */
    bool generation_config;     /* the model's generation_config.json has defaults for requests */
    const char *weights_digest; /* told, in hexadecimal; NULL: it has its own */
    struct digest_cache digests;
    const char *key,
        *allowed_keys; /* paths: the server's own key, the keys that may connect; NULL: none */
    struct client_port_config client_port;
    struct worker_port_config worker_port;
    uint32_t max_seqs, max_step_tokens; /* where the worker group's are not lower */
    uint32_t max_waiting;
    uint64_t max_waiting_tokens;
    uint64_t max_score_bytes; /* of the log probabilities of all prompts */
    uint32_t overtake, target_itl_us, max_step_us, turn_tokens; /* of sched_config */
    struct tenant_bounds tenant_bounds;
    bool prefix_cache;
    bool plain_content; /* --parse-special none: see model_text.h */
    enum tenants tenants;
    struct secret tenants_secret; /* Hello with it: any tenant */
    bool overlap;                 /* a step is planned while the one before it runs */
    uint32_t client_grace_ms;     /* a request whose client is gone lives on for that long */
    uint32_t slow_client_ms;      /* a client that does not read for that long is dropped */
    uint32_t drain_ms;            /* how long running requests may go on after SIGTERM */
    uint32_t group_wait_ms;       /* a request fails when it has had no group for that long */
    const char *journal_dir;      /* NULL = no journal */
    enum journal_sync journal_sync;
    enum journal_content journal_content;
    struct journal_bounds journal_bounds;
    int notify_fd; /* one line an event for a supervisor, -1 = none */
};

/* Requests beyond those that can wait.  As many again can be resumed. */
enum { SPARE_REQUESTS = 512 };

struct counters {
    uint64_t tokens_generated, prompt_tokens, cached_tokens, recoveries;
    uint64_t steps_overlapped; /* sent while another one ran */
    uint64_t finished, failed, cancelled;
};

struct coordinator {
    struct coordinator_config cfg;
    void *zmq_ctx;
    struct gatekeeper *keys;
    struct client_port *client_port;
    struct worker_port *worker_port;
    struct text_service *text;
    struct model_text mt;
    struct wire_mem rx; /* of the small message that is being handled */
    struct wire_mem tx; /* of the Accepted that is being written to the journal */
    struct request_table *requests;
    struct tenant_table *tenants;
    struct grammars *grammars;
    struct text_job *compiling; /* Generates that wait for ranks (grammar_wait.h) */
    struct journal *journal;
    struct recovered
        *recovered;      /* what the process before left, until the first worker group is there */
    struct fleet *fleet; /* NULL until the first worker group said what it can do */
    struct worker_group shape; /* that group's facts */
    struct model_identity identity;
    struct served served;
    struct sched_effect *fx;
    size_t fx_cap;
    struct request *dirty; /* requests with something to send */
    struct counters n;
    struct metrics metrics;
    uint8_t salt_key[16]; /* random: of the tenants' salts */
    uint64_t started_us, epoch, last_step_us, no_group_us, probe_seq;
    uint64_t turn;          /* of the loop */
    uint32_t live;          /* requests reserved or with the scheduler */
    struct log_limit noise; /* of the lines that clients and fake groups can cause in any number */
    bool draining, done;
    uint64_t drain_deadline_us;
    int exit_code;
};

#endif
