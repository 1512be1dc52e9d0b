/* What the model tests share: an engine on one rank, the same on several ranks that are threads of
 * this process, and the golden files. */
#ifndef TESTS_MODEL_RIG_H
#define TESTS_MODEL_RIG_H

#include "data.h"
#include "worker/engine/engine.h"

struct rig_config {
    int32_t max_tokens, max_seqs, max_out, n_blocks, block_len, max_ctx; /* 0: a default */
    enum dtype kv_dtype;
    int threads;     /* 0: 1 */
    const char *isa; /* NULL: rig_isa() */
    bool checkpoint; /* inputs are rounded as the checkpoint says */
    bool sorted;     /* columns in any order are sorted: as without --activations f32 */
};

struct rig {
    struct backend *be;
    struct loader *ld;
    struct coll *co;
    struct engine *e;
    const struct model_config *mc;
};

/* The instruction set that the environment names (INGOT_ISA), or NULL: the best one. */
const char *rig_isa(void);

/* Fails the test on error. */
void rig_open(struct rig *r, const char *dir, struct rig_config cfg);
void rig_close(struct rig *r);

struct decoder_config rig_decoder_config(const struct model_config *mc, struct rig_config cfg,
                                         int rank, int world);

/* Runs body on each of `world` ranks, each with its own back end, loader and engine, joined by the
 * shared-memory collective.  Fails the test when a rank fails. */
void rig_group(const char *dir, struct rig_config cfg, int world,
               enum status (*body)(void *ctx, struct engine *e, int rank), void *ctx);

/* Logits [n, vocab] of ids [n], a new sequence in steps of `chunk` tokens, on `world` ranks; freed by the caller. */
float *rig_logits(const char *dir, struct rig_config cfg, int world, const int32_t *ids, int32_t n,
                  int32_t vocab, int32_t chunk);

/* The greatest difference of a row of logits [n, vocab] from that of `right`, relative to its greatest logit; INFINITY
 * with a NaN. */
double rig_distance(const float *logits, const float *right, int32_t n, int32_t vocab);

/* FAILs the test with status_detail unless st is ST_OK. */
void must(enum status st, const char *what);

/* Bytes of a whole file, freed by the caller, with a NUL behind. */
char *read_file(const char *path, size_t *size);

/* tests/golden/models: 68 token ids and the logits of every position. */
struct golden {
    int32_t n, vocab;
    int32_t *ids;  /* [n] */
    float *logits; /* [n, vocab] */
    /* Greatest difference in a row relative to its greatest logit: 1e-4, or the file's where
     * activations are in 8 bits. */
    double limit;
    double limit_sorted; /* the same where columns are sorted (make_integers.py); 0: they are not */
};
void golden_open(struct golden *g, const char *dir);
void golden_close(struct golden *g);
/* "SOURCE/tests/golden/models/NAME" */
const char *golden_dir(const char *name);
extern const char *const golden_names[];
extern const size_t n_golden;
size_t *golden_indices(void); /* [n_golden] 0, 1, ...: for parameterised tests */
size_t n_families(void);      /* the last ones, which have greedy ids too */

#endif
