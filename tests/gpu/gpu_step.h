/* Steps for decoder_forward without an engine: `batch` sequences, whose KV blocks follow each
 * other and whose states are in the slot of their number, take n tokens each.  The arrays keep their
 * addresses, so that a recorded step can run again with others. */
#ifndef TESTS_GPU_GPU_STEP_H
#define TESTS_GPU_GPU_STEP_H

#include "worker/model/decoder.h"

struct gpu_step {
    struct backend *be;
    int32_t max_tokens, max_seqs, max_ctx, block_len;
    struct step_dev dev;
    struct buf *buf;
    int32_t *host;
};

/* Blocks of the decoder's KV cache that max_seqs sequences of max_ctx tokens take. */
int32_t gpu_step_blocks(int32_t max_seqs, int32_t max_ctx, int32_t block_len);

MUST_CHECK enum status gpu_step_init(struct gpu_step *s, struct backend *be, int32_t max_tokens,
                                     int32_t max_seqs, int32_t max_ctx, int32_t block_len);
void gpu_step_fini(struct gpu_step *s);

/* Uploads: sequence i gets token[i n ..] after `past` others; logits of each one's last token.  s
 * ->dev has the shape of the step; its max_kv is a bound for `reach` tokens (graphs: the most). */
MUST_CHECK enum status gpu_step_set(struct gpu_step *s, int32_t batch, int32_t n, int32_t past,
                                    int32_t reach, const int32_t *token);

#endif
