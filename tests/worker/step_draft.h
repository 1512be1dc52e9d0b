/* A step without a model, and plans under construction, for tests of steps and of the edits of logits. */
#ifndef TESTS_WORKER_STEP_DRAFT_H
#define TESTS_WORKER_STEP_DRAFT_H

#include "worker/step/step.h"

enum { BLOCK = 4, CTX = 30, N_BLOCKS = 20, VOCAB = 50, SEQS = 3, TOKENS = 12 };

extern const struct step_config small_step;
extern struct backend *be; /* the plain CPU */
extern struct step *step;

void set_up_with(const struct step_config *cfg);
void set_up(void); /* with small_step */
void tear_down(void);

/* A plan under construction. */
struct draft {
    struct step_plan p;
    struct plan_seq seqs[8];
    struct plan_open opens[8];
    int32_t tokens[64], blocks[64], history[64], stop_ids[64];
    struct logit_bias bias[64];
    uint64_t closes[8];
};

void draft_begin(struct draft *d);
struct draft *fresh(void); /* the same one each time */
struct plan_open *add_open(struct draft *d, uint64_t id, uint32_t n_prompt);
/* Tokens first, first + 1, ...; blocks are first_block, first_block + 1, ... */
struct plan_seq *add_seq(struct draft *d, uint64_t id, uint32_t pos, uint32_t n, int32_t first,
                         uint32_t n_blocks, int32_t first_block, enum plan_want want);
void add_close(struct draft *d, uint64_t id);

#endif
