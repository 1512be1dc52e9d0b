/* What a step has to read and to compute at the least, counted from the model's tensors: the other
 * half of a roofline.  Activations are not counted. */
#ifndef TESTS_BENCH_STEP_COST_H
#define TESTS_BENCH_STEP_COST_H

#include "worker/load/weights.h"
#include "worker/model/decoder.h"

struct model_cost {
    double layer_bytes, head_bytes; /* packed weights of all ranks that every step reads, and that
                                       a step with logits reads too */
    double layer_macs, head_macs;   /* multiply-adds of a token, and of a row of logits */
    double expert_bytes;            /* likewise of the experts, all of them; a step reads those that
                                       its tokens chose, counted as if each chose at random */
    double unchosen;                /* share of the experts that a token does not choose */
    double kv_bytes;                /* of a token's entries over all layers, K and V */
    double
        state_bytes; /* of a sequence's states of gated delta nets, read and written in each step */
    double attn_macs; /* for a token and a key that it sees, over all layers */
};

MUST_CHECK enum status model_cost(struct model_cost *out, struct loader *ld, struct backend *be,
                                  int world, enum dtype kv_dtype);

struct step_cost {
    double weight_bytes, kv_bytes, ops; /* ops: a multiply-add is two */
};

/* n tokens of one sequence after `context`, in steps of `chunk`, logits of the last. */
struct step_cost prefill_cost(const struct model_cost *m, int32_t n, int32_t context,
                              int32_t chunk);

/* n steps of one token for each of `seqs` sequences that have `context` before. */
struct step_cost decode_cost(const struct model_cost *m, int32_t n, int32_t seqs, int32_t context);

#endif
