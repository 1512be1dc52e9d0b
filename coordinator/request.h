/* A Generate request from arrival to its terminal message, and the table of all of them.
 * The request owns the truth of an answer: prompt, every token, its text, what was sent.  A delta
 * is always "what is new since the last one", so a slow client gets fewer and larger deltas, and a
 * client that attaches again gets everything so far.  One thread (the loop). */
#ifndef COORDINATOR_REQUEST_H
#define COORDINATOR_REQUEST_H

#include "common/text/text_buf.h"
#include "common/wire/client_msg.h"
#include "coordinator/sched/sched.h"
#include "coordinator/tokenizer/detok.h"
#include "coordinator/tokenizer/stop.h"

struct client;

enum request_state {
    REQ_TOKENIZING, /* with the text service */
    REQ_LIVE,       /* its samples are with the scheduler */
    REQ_ENDED,      /* kept for a while so that a client can attach again */
};

struct sample {
    uint64_t seq_id;
    int32_t *tokens;           /* [n_prompt + max_new]: the scheduler appends */
    uint32_t n;                /* tokens so far, prompt and answer */
    float *logprobs;           /* [max_new] or NULL */
    uint32_t *n_top;           /* [max_new] or NULL */
    struct token_logprob *top; /* concatenated, grows */
    uint32_t n_top_all, cap_top;
    struct detok detok;
    struct stop_stream stop;
    struct text_buf text; /* final text */
    bool done;
    enum msg_reason reason;
    int32_t stop_id;      /* -1 = none */
    int32_t matched_stop; /* index of the stop string, -1 = none */
    /* sent to the client so far */
    uint32_t sent_tokens, sent_top, seq; /* of the answer; seq numbers deltas */
    size_t sent_text;
};

struct request {
    struct request *next_dirty; /* the loop's list of requests with something to send */
    bool dirty;
    uint64_t serial; /* never used again; a sequence id is made of serial, slot and sample */
    uint32_t slot;
    char id[MAX_REQUEST_ID + 1];
    uint64_t digest; /* of the Generate's bytes: the same id with other bytes is refused */
    enum request_state state;
    struct client *client; /* NULL: gone */
    uint64_t orphan_us;    /* when the client went */
    bool cancelled;        /* while tokenizing */
    bool admitted;         /* the scheduler took it: a failure is Error, else Rejected */
    bool accepted_sent, terminal_sent, attached;
    uint32_t queue_position;

    uint32_t n_prompt, max_new, n_samples, n_done;
    struct sample *samples; /* [n_samples] */
    struct sample_params sp;
    uint32_t n_stop_ids, n_bias, n_stops;
    int32_t *stop_ids;
    struct logit_bias *bias;
    struct wire_text *stops;   /* copies */
    struct stop_set *stop_set; /* NULL: no stop strings */
    bool include_stop, skip_special;
    int32_t priority;
    uint32_t deadline_ms;

    enum status failed; /* not ST_OK: the terminal message is Error or Rejected with detail */
    bool retryable;
    char detail[512];

    uint64_t arrived_us, planned_us, first_token_us, ended_us;
    uint32_t cached_tokens, preemptions, recoveries;
};

struct request_table;

MUST_CHECK enum status request_table_create(struct request_table **out, uint32_t max_requests);
void request_table_destroy(struct request_table *t);

/* NULL when there is none. */
struct request *request_find(struct request_table *t, const char *id);
/* The sample that a scheduler sequence belongs to; NULL when it is gone. */
struct request *request_of_seq(struct request_table *t, uint64_t seq_id, struct sample **sample);

/* Copies what the request needs of g; stop_ids are the model's end-of-sequence ids, joined with the
 * request's own unless ignore_eos.  ST_BUSY when the table is full of live requests (an ended one
 * is dropped to make room). */
MUST_CHECK enum status request_add(struct request_table *t, const struct msg_generate *g,
                                   uint64_t digest, const int32_t *eos, uint32_t n_eos,
                                   uint64_t now_us, struct request **out);
/* Takes the prompt and makes the samples with their sequence ids. */
MUST_CHECK enum status request_start(struct request *r, const int32_t *prompt, uint32_t n_prompt,
                                     uint32_t max_new, const struct tokenizer *tok);
/* The key under which a sample draws: sample 0 uses the request's seed itself. */
uint64_t sample_seed(uint64_t seed, uint32_t i_sample);
/* Groups the samples of one request for the scheduler. */
uint64_t request_group(const struct request *r);
void request_remove(struct request_table *t, struct request *r);

/* Removes ended requests older than keep_us. */
void request_expire(struct request_table *t, uint64_t now_us, uint64_t keep_us);

uint32_t request_count(const struct request_table *t, enum request_state state);
/* Iterates; *at begins as 0. */
struct request *request_next(struct request_table *t, uint32_t *at);

/* Appends one sampled token: text, stop strings, logprobs.  *ended: a stop string ended the sample.
 */
MUST_CHECK enum status sample_token(struct request *r, struct sample *s,
                                    const struct result_token *t, bool *ended);
/* The sample is over: what the detokenizer and the stop matcher held back becomes text. */
MUST_CHECK enum status sample_end(struct request *r, struct sample *s, enum msg_reason reason);

#endif
