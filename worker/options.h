/* The worker program's command line. */
#ifndef WORKER_OPTIONS_H
#define WORKER_OPTIONS_H

#include "common/dtype.h"
#include "common/shared_options.h"
#include "worker/model/decoder.h"

struct worker_options {
    struct shared_options shared;
    const char *connect;
    bool inspect, device_info, hello, json, signs_of_life, no_warm_up;
    int64_t watch_epoch; /* 0: none */
};

/* As options_parse and options_print_help of common/options.h. */
MUST_CHECK enum status worker_options_parse(struct worker_options *o, int argc, char **argv,
                                            struct option_result *res);
void worker_options_print_help(FILE *f, enum option_help form);
/* The configuration in effect. */
void worker_options_print(FILE *f, const struct worker_options *o, const struct option_result *res);

/* The text of an enum option's value. */
const char *worker_backend_name(const struct shared_options *o);
const char *worker_coll_name(const struct shared_options *o);
/* Are graphs wanted where they are possible? */
bool worker_wants_graphs(const struct shared_options *o);
/* Has the backend what --activations asks for? */
bool worker_has_activations(const struct shared_options *o);
/* Are inputs of quantised matrices rounded as the checkpoint says? */
bool worker_rounds_inputs(const struct shared_options *o);
/* Is it --activations f32? */
bool worker_wants_f32(const struct shared_options *o);
/* Do ranks take cores of their own? */
bool worker_wants_binding(const struct shared_options *o);
/* isa points to constant text.  local_rank: this rank's number on its host. */
struct backend_config worker_backend_config(const struct shared_options *o, int threads,
                                            int local_rank);
/* weights: the type that the model's weights are stored in; --kv-dtype auto goes by it. */
enum dtype worker_kv_dtype(const struct shared_options *o, enum dtype weights);

/* The sizes asked for; rank 0, max_ctx and n_blocks as given (0 = to be decided). */
struct decoder_config worker_decoder_config(const struct shared_options *o, enum dtype weights,
                                            int world);

/* Options that exclude or need each other; ST_RANGE names them. */
MUST_CHECK enum status worker_options_check(const struct worker_options *o);

/* A --tp that was given is the number of ranks that mpirun has started. */
MUST_CHECK enum status worker_options_check_world(const struct worker_options *o, int world);

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
