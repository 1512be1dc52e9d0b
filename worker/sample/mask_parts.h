/* What masks.c, which keeps grammars and matchers, and mask_rows.c, which makes the masks of a step's rows, share. */
#ifndef WORKER_SAMPLE_MASK_PARTS_H
#define WORKER_SAMPLE_MASK_PARTS_H

#include "common/grammar/grammar_memory.h"
#include "worker/sample/compiler.h"
#include "worker/sample/masks.h"
#include "worker/sample/side_thread.h"

/* A grammar, until it was removed and no sequence uses it. */
struct entry {
    uint64_t id;             /* 0: free, or removed */
    struct compile_job *job; /* until a plan needs it */
    struct grammar *grammar; /* NULL: free, or there is a job */
    struct grammar_share share;
    uint32_t n_users;
};

struct slot {
    struct entry *entry;            /* NULL: no grammar */
    struct matcher *matcher;        /* NULL: none, or one of any text (grammar_is_open) */
    struct thinking_state thinking; /* if the grammar has a budget of it */
    bool broken;                    /* its tokens do not follow the grammar */
    int32_t last_row;               /* its row in the last step, -1: none */
    int32_t stop[MAX_STOP_IDS], n_stop;
};

/* What masks_begin was called with. */
struct making {
    const struct step *s;
    const struct step_plan *plan;
    const int32_t *last;
};

struct masks {
    struct masks_config cfg;
    struct backend *be;
    struct compiler *compiler;
    struct token_trie *trie; /* NULL: no vocabulary yet */
    int32_t end[MAX_STOP_IDS];
    uint32_t n_end;
    struct entry entries[2 * MASKS_MAX_GRAMMARS]; /* removed ones may still have users */
    uint32_t n_known;
    struct grammar_memory memory;
    struct slot *slots; /* [max_open] */
    int32_t n_words;    /* of a row's mask */
    bool involved, any, need_last;
    struct masks_stats stats;
    struct side_thread *side;
    struct making making;
    int32_t *endings;                              /* [max_seqs] */
    struct forced_token forced[MAX_FORCED_TOKENS]; /* of the step, where they are wanted */
    uint32_t n_forced;
    uint32_t *ahead_row; /* [n_words] scratch, where they are wanted */
    const char **places; /* [max_seqs], for those that are stuck; borrowed of the grammars */
    bool *dear;          /* [max_seqs], of these: no mask could be made */
    char place[160];
    /* [max_seqs][n_words] each: one is written while the device may still read the other */
    struct buf *image[2], *words[2]; /* pinned; device */
    uint32_t *rows;                  /* image[i_image] */
    int i_image;
    bool lands; /* the backend has upload */
};

/* The sequence's text goes on with the token; without effect if it is none. */
MUST_CHECK enum status slot_feed(struct masks *m, struct slot *t, int32_t token);

/* Makes the masks of the step's rows and, where they are wanted, finds the tokens that are forced behind them. */
MUST_CHECK enum status mask_rows(struct masks *m, const struct step *s);

#endif
