/* Messages between coordinator and rank 0 (proto/worker.proto) as plain structs.  Decoded structs
 * and encoded bytes live in the wire_mem and are valid until its reset. */
#ifndef COMMON_WIRE_WORKER_MSG_H
#define COMMON_WIRE_WORKER_MSG_H

#include "common/plan.h"
#include "common/sha256.h"
#include "common/wire/frame.h"
#include "common/wire/ranks_msg.h"

enum { WORKER_WIRE_VERSION = 3 };

enum { NUMERICS_ID_SIZE = 96 };   /* of the text, NUL included */
#define NUMERICS_ID_FAST "/fast/" /* in an id: no bits are promised, it is equal to nothing */

/* Header types, as in worker.proto. */
enum worker_type {
    WMSG_HELLO = 128,
    WMSG_STEP_RESULT,
    WMSG_HEARTBEAT,
    WMSG_FAULT,
    WMSG_GOODBYE,
    WMSG_WEIGHTS,
    WMSG_FIGURES = 160,
    WMSG_GRAMMAR_READY,
    WMSG_WATCH,
    WMSG_WELCOME = 192,
    WMSG_STEP_PLAN,
    WMSG_RESET,
    WMSG_SHUTDOWN,
    WMSG_REFUSED,
    WMSG_VOCABULARY,
    WMSG_GRAMMAR,
};

struct worker_hello {
    uint32_t wire_version;
    const char *model, *backend, *coll;
    const char *numerics; /* id, worker/numerics.h */
    const char *hosts;    /* of its ranks, worker/rank_hosts.h */
    bool has_weights, has_text;
    uint8_t weights[SHA256_BYTES], text[SHA256_BYTES]; /* digests of the model */
    bool masks;                                        /* Open.grammar is possible */
    uint32_t embedding;                                /* components of its embeddings, 0: none */
    bool headless;                                     /* it gives nothing else */
    uint32_t world, vocab, max_ctx, block_len, n_blocks, max_step_tokens, max_seqs;
    uint32_t n_snapshots; /* of states, that it can keep */
    uint64_t launch;      /* random, names this launch of the group */
    uint64_t last_epoch;  /* the greatest that it has had, of any coordinator; 0: none */
    uint64_t pid;         /* of rank 0, for logs */
};

struct worker_welcome {
    uint64_t epoch;
    uint32_t heartbeat_ms; /* send a Heartbeat that often, also during a long step */
    uint32_t lease_ms;     /* end yourself when the coordinator was silent for that long */
};

struct worker_weights {
    uint64_t epoch;
    uint8_t digest[SHA256_BYTES];
};

struct worker_figures {
    uint64_t epoch;
    struct msg_ranks ranks;
};

struct worker_vocabulary {
    uint32_t n_tokens;
    const uint32_t *n_bytes; /* [n_tokens] of each id, 0: special or unused */
    const uint8_t *bytes;    /* concatenated */
    size_t n_all;            /* of them */
    const int32_t *end_ids;  /* [n_end_ids] */
    uint32_t n_end_ids;
};

struct worker_grammar {
    uint64_t id;
    uint32_t kind; /* enum grammar_kind; 0: no plan uses it any more */
    const char *source;
    size_t n_source;
};

struct worker_fault {
    uint64_t epoch;
    uint32_t rank;
    enum status status;
    const char *detail;
};

/* One decoded message; type says which member counts. */
struct worker_msg {
    enum worker_type type;
    union {
        struct worker_hello hello;
        struct worker_welcome welcome;
        struct step_plan plan;
        struct step_result result;
        struct worker_fault fault;
        struct worker_weights weights;
        struct worker_figures figures;
        struct worker_vocabulary vocabulary;
        struct worker_grammar grammar;
        struct {
            uint64_t epoch, id;
        } ready;
        struct {
            uint64_t epoch, last_step; /* heartbeat, reset, shutdown, goodbye, watch */
        } beat;
        const char *refused; /* why */
    } u;
};

/* ST_FORMAT: malformed or columns that do not fit together; ST_NOMEM: larger than the wire_mem. */
MUST_CHECK enum status worker_msg_decode(struct worker_msg *out, const void *data, size_t n,
                                         struct wire_mem *mem);
MUST_CHECK enum status worker_msg_encode(struct wire_bytes *out, const struct worker_msg *msg,
                                         struct wire_mem *mem);

#endif
