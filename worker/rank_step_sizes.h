/* The configuration of a rank's steps, and sizes of what they take: rank_step.c takes it, and the memory plan adds it up
 * by rank_step_bytes and its like.  Pure functions of the configuration. */
#ifndef WORKER_RANK_STEP_SIZES_H
#define WORKER_RANK_STEP_SIZES_H

#include "collectives/coll.h"
#include "worker/embed/pooler.h"
#include "worker/model/decoder.h"
#include "worker/sample/masks.h"
#include "worker/sample/sampler.h"
#include "worker/step/step.h"

enum { FULL_ROWS = 8 };   /* whole rows of logits gathered at once */
enum { STATE_ROWS = 64 }; /* final states read at once */

struct rank_step_config {
    int rank, world;
    struct backend *be;
    struct coll *co; /* NULL when world is 1 */
    struct decoder *model;
    struct step_config step;
    const struct vocab_part *parts;   /* [world] every rank's share (copied) */
    uint32_t deadline_ms;             /* how long a step may take on the device, 0 = for ever */
    bool masks;                       /* the backend can mask logits */
    bool forced_tokens;               /* tokens that grammars force are in the results of a step */
    const struct pooler_config *pool; /* of the model's embeddings; NULL: it gives none */
    bool headless;                    /* it gives nothing else */
    bool encoder;                     /* of texts that are in a step as a whole */
    bool graphs; /* decodes run as graphs; step.pad and the model's pad block go with it */
};

/* Bytes that rank_step_create takes from the backend, for the memory plan; be, co and model are not
 * looked at. */
struct mem_bytes rank_step_bytes(const struct rank_step_config *cfg);
/* Bytes that it takes from the host besides, for drawing and the step's tables.  Not counted: what
 * the penalties keep, whose pages are not written before a sequence asks for penalties. */
size_t rank_step_host_bytes(const struct rank_step_config *cfg);
/* Bytes of the largest collective after the layers. */
size_t rank_step_coll_bytes(const struct rank_step_config *cfg);

/* What sampling needs to know of a row after its step's tables were changed by the next plan. */
struct out_row {
    uint64_t seq_id;
    struct sample_params sp;
    int32_t len;     /* tokens of the sequence before the one to be drawn */
    int32_t ending;  /* TOKEN_GRAMMAR_...: there is none to be drawn; else 0 */
    char place[160]; /* with TOKEN_GRAMMAR_STUCK: where in the grammar's source */
};

/* Rows of logits of a step, at most. */
int32_t sizes_rows(const struct rank_step_config *cfg);
/* Columns of the widest share of the vocabulary. */
int32_t sizes_widest_part(const struct rank_step_config *cfg);
struct draw_shape sizes_shape(const struct rank_step_config *cfg, int32_t n_rows);
struct masks_config sizes_masks(const struct rank_step_config *cfg);

/* Words that one rank gives for n_rows rows. */
size_t sizes_words(const struct rank_step_config *cfg, int32_t n_rows);
/* Words of the ids before the candidates: whole lines of 64 bytes. */
size_t sizes_ids(const struct rank_step_config *cfg);

/* Bytes of the buffers of these names in struct rank_step. */
size_t sizes_out(const struct rank_step_config *cfg);
size_t sizes_back(const struct rank_step_config *cfg); /* of a flight; 0: there is none */
size_t sizes_full(const struct rank_step_config *cfg);
size_t sizes_pick_row(const struct rank_step_config *cfg);
size_t sizes_picked(const struct rank_step_config *cfg);
/* Floats of the states that are read at once, and of a step's embeddings. */
size_t sizes_states(const struct rank_step_config *cfg);
size_t sizes_vectors(const struct rank_step_config *cfg);

#endif
