/* The worker program's command line. */
#ifndef WORKER_OPTIONS_H
#define WORKER_OPTIONS_H

#include "common/dtype.h"
#include "common/options.h"
#include "worker/model/decoder.h"

struct worker_options {
    const char *model, *connect, *name, *pack_cache;
    int backend, coll, bind, isa, numerics, kv_dtype, graphs,
        log_level;  /* indices: see the functions below */
    int64_t device; /* -1: by the rank's number on its host */
    int64_t threads, kv_blocks, block_len, max_seqs, max_step_tokens, max_ctx, lease_ms, peer_ms,
        tp;
    uint64_t kv_memory;
    bool inspect, hello, json, die_with_parent, print_config;
};

extern const struct option_set worker_option_set;

/* The text of an enum option's value. */
const char *worker_backend_name(const struct worker_options *o);
const char *worker_coll_name(const struct worker_options *o);
/* Are graphs wanted where they are possible? */
bool worker_wants_graphs(const struct worker_options *o);
/* Do ranks take cores of their own? */
bool worker_wants_binding(const struct worker_options *o);
/* isa points to constant text.  local_rank: this rank's number on its host. */
struct backend_config worker_backend_config(const struct worker_options *o, int threads,
                                            int local_rank);
/* weights: the type that the model's weights are stored in; --kv-dtype auto goes by it. */
enum dtype worker_kv_dtype(const struct worker_options *o, enum dtype weights);

/* The sizes asked for; rank 0, max_ctx and n_blocks as given (0 = to be decided). */
struct decoder_config worker_decoder_config(const struct worker_options *o, enum dtype weights,
                                            int world);

/* Options that exclude or need each other; ST_RANGE names them. */
MUST_CHECK enum status worker_options_check(const struct worker_options *o);

/* Exit codes; --help prints them. */
enum worker_exit {
    EXIT_AS_ASKED = 0,
    EXIT_START = 1,
    EXIT_USAGE = 2,
    EXIT_MODEL = 3,
    EXIT_ORPHAN = 4,
    EXIT_REFUSED = 5,
    EXIT_FAULT = 6,
};

#endif
