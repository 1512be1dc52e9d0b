/* Reads one journal file, feeds its inputs into a fresh scheduler and compares what comes out,
 * record by record.  Nothing in the file is trusted.  One thread; everything is owned by the
 * replay. */
#ifndef COORDINATOR_JOURNAL_REPLAY_H
#define COORDINATOR_JOURNAL_REPLAY_H

#include "coordinator/journal/record.h"

struct replay;

enum replay_kind {
    REPLAY_DONE,   /* no more records */
    REPLAY_SUBMIT, /* request; also for those live at the start of the file */
    REPLAY_CANCEL, /* request (NULL when it was not live), why */
    REPLAY_PLAN,   /* fx; plan when made */
    REPLAY_COMMIT, /* fx, result */
    REPLAY_RESET,  /* fx */
    REPLAY_OPEN,   /* fx: the group of scheduler g serves */
    REPLAY_CLOSE,  /* fx: it serves no longer */
    REPLAY_MOVE,   /* moves, n_moves */
    REPLAY_ADMIT,  /* admission */
    REPLAY_SERVED, /* served */
    REPLAY_END,    /* the process ended in good order, or went on in the next file */
};

struct replay_request {
    struct sched_req r; /* tokens: [n_end] */
    char label[MAX_LABEL + 1];
    uint8_t owner[SHA256_BYTES]; /* zeros: not recorded */
    uint32_t n_known;            /* tokens so far */
    uint32_t n_end;              /* n_known at which it ends by length */
    uint32_t n_before;           /* tokens known at its submission, or at the start of the file */
    float *logprobs;             /* [n_end], of the tokens from n_before on */
    enum finish_reason reason;   /* FINISH_NONE: still live */
    uint64_t embedding;          /* digest of its embedding, with FINISH_EMBEDDED */
    uint64_t n_step_first,
        n_step_last; /* steps (committed) of its first and last new token, 0 = none */
    struct replay_request *next;
};

struct replay_event { /* valid until the next call */
    enum replay_kind kind;
    uint64_t number, offset;        /* of the record */
    uint32_t g;                     /* its scheduler; 0: the queue of a fleet, or the only one */
    const struct fleet_move *moves; /* [n_moves] */
    size_t n_moves;
    const struct replay_request *request;
    enum finish_reason why;
    const struct journal_admission *admission;
    const struct journal_served *served;
    const struct step_plan *plan; /* NULL when none was made */
    const struct step_result *result;
    const struct sched_effect *fx;
    size_t n_fx;
    /* the requests that ended with this record; freed with the next call */
    const struct replay_request *ended;
};

struct replay_summary {
    char build[64];
    uint64_t began_us; /* wall clock, since 1970 */
    uint64_t began_now_us,
        last_now_us; /* now_us at the beginning and of the last plan; 0: not recorded */
    struct sched_config cfg;
    uint64_t n_records, n_plans, n_tokens, n_submitted, n_ended, n_resets;
    uint64_t n_opens, n_moves; /* of groups, of sequences */
    uint32_t n_live;
    bool no_content; /* tokens are hashes: --journal-content none */
    bool ended_well; /* an end record was there */
    bool chained;    /* version 5 or later: the next two are known */
    uint64_t before; /* the last check of the file before; 0: a process began with this file */
    uint64_t check;  /* the last check of this file */
    size_t n_torn;   /* bytes of an unfinished record at the end */
};

/* data: the whole file, borrowed until close.  max_bytes bounds what the replay allocates.
 * ST_FORMAT: no journal, or damaged; ST_UNSUPPORTED: of another version; ST_RANGE: larger than
 * max_bytes; ST_NOMEM. */
MUST_CHECK enum status replay_open(struct replay **out, const void *data, size_t n,
                                   size_t max_bytes);
void replay_close(struct replay *p);

/* Does the next record.  ST_BUG: something else came out than is recorded; ST_FORMAT: damaged.  The
 * text names the record and its place. */
MUST_CHECK enum status replay_next(struct replay *p, struct replay_event *ev);

/* The requests still live, linked by next. */
const struct replay_request *replay_live(const struct replay *p);
void replay_summary(const struct replay *p, struct replay_summary *out);

#endif
