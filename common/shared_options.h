/* The options that several programs of a server take: each is one row of one table, with one name,
 * type, range, default and help.  A row says who takes it: the coordinator, a worker rank, and the
 * commands of `ingot` that start both.  These commands pass a value on by the same table
 * (client/cli/serve_options.h).  Options of one program alone are rows of that program.
 *
 *     struct args { struct shared_options shared; const char *workers; };
 *     shared_rows(&rows, FOR_COORDINATOR, offsetof(struct args, shared));
 *     rows_add(&rows, own_rows, ARRAY_LEN(own_rows), 0);
 */
#ifndef COMMON_SHARED_OPTIONS_H
#define COMMON_SHARED_OPTIONS_H

#include "common/options.h"

enum option_user {
    FOR_COORDINATOR = 1,
    FOR_WORKER = 2,
    FOR_SERVE = 4, /* ingot serve */
    FOR_LOAD = 8,  /* ingot run, chat MODEL, inspect: a model for one command */
};

struct shared_options {
    /* model */
    const char *model, *name, *pack_cache;
    bool embed;
    int rerank; /* index into off, qwen3 */
    /* endpoints */
    const char *listen;
    bool allow_remote;
    const char *key, *allowed_keys, *server_key;
    /* ranks and device; the enums are indices into the choices of their rows */
    int64_t tp, threads, device; /* device -1: by the rank's number on its host */
    int backend, coll, bind, isa, activations, numerics, graphs;
    /* sizes */
    int64_t max_seqs, max_step_tokens, max_ctx, block_len, kv_blocks;
    int64_t state_snapshots; /* -1: as many as max_seqs */
    uint64_t kv_memory;      /* bytes */
    int kv_dtype;
    /* queue */
    int64_t max_queued, max_queued_tokens, tenant_requests, tenant_queued_tokens, overtake,
        turn_tokens;
    /* steps */
    double target_itl_ms, max_step_ms; /* -1: chosen by measured times */
    bool prefix_cache, overlap, forced_tokens;
    /* clients */
    int64_t max_clients, tenant_clients, client_grace_ms, slow_client_ms, drain_ms;
    uint64_t max_message;  /* bytes */
    int generation_config; /* index into auto, none */
    int tenants;           /* index into own, any */
    /* time limits */
    int64_t heartbeat_ms, silence_ms, step_deadline_ms, first_step_ms, peer_ms, lease_ms,
        contact_ms, rejoin_ms, group_wait_ms;
    /* process */
    const char *journal;
    uint64_t journal_size;          /* bytes */
    uint64_t prompt_logprob_memory; /* bytes */
    int64_t journal_hours;
    int parse_special;   /* index into all, none */
    int journal_sync;    /* index into batch, each, none */
    int journal_content; /* index into all, none */
    const char *failure_file;
    bool print_config, die_with_parent;
    int64_t launch; /* 0: none given */
    int log_level;
};

/* Adds the rows that this user takes, under their headings; base is the offset of a struct
 * shared_options in the destination. */
void shared_rows(struct row_list *l, enum option_user user, size_t base);

/* The rows that a command takes and that it has to pass on to a program, with the program's
 * defaults: where a value is the default nothing needs to be passed. */
void shared_rows_passed(struct row_list *l, enum option_user command, enum option_user program);

#endif
