/* A Generate request from arrival to its terminal message, and the table of all requests.
 *
 * A request owns the state of its answer: prompt, every token, its text, and how much of it was
 * sent.  A delta is always the difference to the last one, so a slow client gets fewer and larger
 * deltas, and a client that attaches again gets everything so far.  One thread (the loop). */
#ifndef COORDINATOR_REQUEST_H
#define COORDINATOR_REQUEST_H

#include "common/text/text_buf.h"
#include "coordinator/owner.h"
#include "coordinator/prompt_scores.h"
#include "coordinator/resolved.h"
#include "coordinator/sched/sched.h"
#include "coordinator/tokenizer/detok.h"

struct client;
struct tenant_account;

enum request_state {
    REQ_RESERVED, /* with the text thread: id and owner are known, nothing else */
    REQ_LIVE,     /* its samples are with the scheduler */
    REQ_ENDED,    /* kept for a while so that a client can attach again */
};

struct sample {
    uint64_t seq_id;
    int32_t *tokens;          /* [ask->n_prompt + max_new]: the scheduler appends */
    uint32_t n;               /* tokens so far, prompt and answer */
    struct token_facts facts; /* of the answer's tokens */
    struct detok detok;
    struct stop_stream stop;
    struct text_buf text; /* final text */
    bool started, done;
    enum msg_reason reason;
    uint32_t n_resumed;         /* of its answer's tokens: they came from the client */
    int32_t stop_id;            /* -1 = none */
    int32_t matched_stop;       /* index of the stop string, -1 = none */
    uint64_t first_us, last_us; /* when its first and last token came, 0 = none */
    /* sent to the client so far */
    uint32_t sent_tokens, seq; /* of the answer; seq numbers deltas */
    size_t sent_text;
};

struct request {
    struct request *next_dirty; /* the loop's list of requests with something to send */
    bool dirty;
    struct request *next_same_hash, *next_ended, *prev_ended; /* of the table */
    uint64_t serial; /* never used again; a sequence id is made of serial, slot and sample */
    uint32_t slot;
    struct owner owner;
    struct tenant tenant;
    char id[MAX_REQUEST_ID + 1]; /* unique among the owner's */
    uint64_t digest; /* of the Generate's bytes: the same id with other bytes is refused */
    enum request_state state;
    struct client *client;          /* NULL: gone */
    struct request *next_of_client; /* in the client's list */
    struct request **client_link;   /* what points to it there; NULL: in no list */
    uint32_t orphan_at;             /* an orphan: its place in the table's heap */
    uint64_t orphan_end_us;         /* when it ends, unless a client attaches to it */
    uint32_t grace_ms;              /* how long it goes on then */
    struct tenant_account *account; /* NULL: it has ended */
    uint32_t n_entered, n_queued;   /* samples that the account counts, in flight and waiting */
    uint32_t queued_tokens;         /* of each that waits */
    bool resumed;   /* it began elsewhere: its client or the journal had a part of the answer */
    bool recovered; /* the part was in the journal */
    struct admission *admission; /* in the journal, until it ends; NULL: there is none */
    uint64_t admitted_turn;      /* of the loop */
    uint64_t before_us;          /* if so: how long before its arrival here */
    bool abandoned;              /* it ended because its client was gone */
    bool cancelled;              /* before or while it ran */
    bool admitted;               /* the scheduler took it: a failure is Error, else Rejected */
    bool accepted_sent, terminal_sent, attached;
    uint32_t queue_position, retry_after_ms; /* retry: of a failure that is retryable */

    struct resolved *ask; /* NULL while the text thread has it */
    uint32_t n_samples, n_done;
    struct sample *samples;       /* [n_samples]; NULL until it starts */
    struct prompt_scores *scores; /* NULL: not wanted, or it has not started */

    float *embedding; /* [n_embedding] of its prompt; NULL: none */
    uint32_t n_embedding;

    enum status failed; /* not ST_OK: the terminal message is Error or Rejected, with these: */
    bool retryable;
    char detail[512], field[64];

    uint64_t arrived_us, planned_us, first_token_us, ended_us;
    uint64_t keep_until_us; /* of one that has ended, at the least */
    uint32_t cached_tokens, preemptions, recoveries;
    uint32_t losses;  /* of groups that had it, since its last token */
    uint64_t grammar; /* id in plans, 0 = none; taken from struct grammars while it is live */
};

struct request_table;

MUST_CHECK enum status request_table_create(struct request_table **out, uint32_t max_requests);
void request_table_destroy(struct request_table *t);

/* Makes a request that holds its id and nothing else yet: it can be found, attached to and ended
 * while the text thread decodes the rest.  No other of the owner has that id.  ST_BUSY: the table
 * is full of live requests (an ended one is dropped to make room); ST_NOMEM. */
MUST_CHECK enum status request_reserve(struct request_table *t, const struct owner *owner,
                                       const char *id, uint64_t digest, uint64_t now_us,
                                       struct request **out);
/* NULL when there is none.  Work does not grow with the number of requests. */
struct request *request_find(struct request_table *t, const struct owner *owner, const char *id);
/* Names this request for ever: one more of the same id has another key.  It is also the part that
 * the sequence ids of its samples share. */
uint64_t request_key(const struct request *r);
/* NULL when it is gone. */
struct request *request_of_key(struct request_table *t, uint64_t key);
/* The sample that a scheduler sequence belongs to; NULL when it is gone. */
struct request *request_of_seq(struct request_table *t, uint64_t seq_id, struct sample **sample);

/* Takes the resolved request over (also when it fails) and makes the samples with their sequence
 * ids. */
MUST_CHECK enum status request_start(struct request *r, struct resolved **ask,
                                     const struct tokenizer *tok);
/* The key under which a sample draws: sample 0 uses the request's seed itself. */
uint64_t sample_seed(uint64_t seed, uint32_t i_sample);
/* The request is REQ_ENDED from now on. */
void request_end(struct request_table *t, struct request *r, uint64_t now_us);
void request_remove(struct request_table *t, struct request *r);

/* The request belongs to that client from now on, whose list *first is. */
void request_join(struct request_table *t, struct request *r, struct client *c,
                  struct request **first);
/* Its client is gone: it belongs to no client.  Unless it has ended, it is an orphan until it ends or
 * belongs to a client again. */
void request_orphan(struct request_table *t, struct request *r, uint64_t end_us);
/* An orphan whose end_us has passed, the one of the least end_us; NULL: there is none.  O(1); the
 * functions above and request_end take O(log n) for n orphans. */
struct request *request_overdue(struct request_table *t, uint64_t now_us);

/* Makes room for the log probabilities of the prompt beside those that are kept, which are max bytes together at most; if
 * need be it removes requests that have ended, the first one first.  ST_RANGE: they alone need more than max; ST_BUSY:
 * there is not enough room. */
MUST_CHECK enum status request_score_room(struct request_table *t, const struct resolved *ask,
                                          uint64_t max);
/* Removes requests that ended more than keep_us ago and have nothing to send. */
void request_expire(struct request_table *t, uint64_t now_us, uint64_t keep_us);

/* Iterates; *at begins as 0. */
struct request *request_next(struct request_table *t, uint32_t *at);
/* Requests that all request_find together have looked at. */
uint64_t request_probes(const struct request_table *t);

/* Appends one sampled token: text, stop strings, logprobs.
 * *ended: a stop string ended the sample. */
MUST_CHECK enum status sample_token(struct request *r, struct sample *s,
                                    const struct result_token *t, bool *ended);
/* Of its answer n_tokens tokens, which it has, and n_text bytes of text have been sent. */
void sample_seek(struct sample *s, uint32_t n_tokens, uint64_t n_text);
/* The sample is over: what the detokenizer and the stop matcher held back becomes text, unless the request has failed
 * for a reason that passes: then its client goes on with it. */
MUST_CHECK enum status sample_end(struct request *r, struct sample *s, enum msg_reason reason);

#endif
