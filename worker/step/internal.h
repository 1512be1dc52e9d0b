/* What step.c and check.c share. */
#ifndef WORKER_STEP_INTERNAL_H
#define WORKER_STEP_INTERNAL_H

#include "worker/step/id_map.h"
#include "worker/step/step.h"

/* Where the last sampled token of an open sequence is on the device. */
struct fed {
    uint64_t serial; /* of the plan that sampled it */
    int32_t row;     /* of its logits in that step */
};

struct step {
    struct step_config cfg;
    struct backend *be;
    int32_t max_blocks;    /* of one sequence */
    struct fed *fed;       /* [max_open] */
    struct step_seq *seqs; /* [max_open] */
    int32_t *tables;       /* [max_open, max_blocks] */
    int32_t *free_slots;   /* [max_open] stack */
    int32_t n_free;
    struct id_map slot_of; /* open sequences */
    uint64_t serial;       /* plans applied or refused so far */
    int32_t *out_slot;     /* [max_seqs] */
    int32_t n_out;
    struct step_scored *scored; /* [max_scored] */
    int32_t n_scored;
    struct step_embed *embeds; /* [max_seqs] */
    int32_t n_embeds;

    struct step_copy *restores, *keeps; /* [max_seqs] */
    int32_t n_restores, n_keeps;

    struct id_map fresh;    /* check: the plan's opens, by index */
    uint64_t *fresh_serial; /* [max_open] check: serial of the plan that used open i */
    uint64_t *close_serial; /* [max_open] check: serial of the plan that closes the slot */
    uint64_t *keep_serial;  /* [n_snapshots] check: serial of the plan that writes it */

    /* One buffer on the device and two images of it in pinned memory, in i32: while one is copied
     * the next step is written into the other.  With `land` an image is uploaded into its own
     * buffer of the device, while the step before reads dev, and moved to dev behind that step. */
    struct buf *dev, *image[2], *landed[2];
    int i_image;
    int32_t n_rows;        /* of logits, with pads */
    int32_t n_seqs, width; /* rows of the block table, with pads, and blocks of the longest one */
    int32_t *host;         /* of the image of this step */
    bool feeds, padded;
    size_t at_token, at_from, at_pos, at_slot, at_seq, at_q_start, at_kv_len, at_state, at_out_row,
        at_inv_temp, at_draw, at_edit_start, at_type, at_edit, at_table, n_words;
};

/* Everything that step_apply relies on; ST_PEER names the first fault.  Changes nothing but
 * scratch. */
MUST_CHECK enum status step_check(struct step *s, const struct step_plan *plan);

#endif
