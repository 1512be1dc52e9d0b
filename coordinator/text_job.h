/* One request's work for the text service: decode, check, render, encode, then compile its grammar.  The loop makes a
 * job with the received bytes and gives it away; it comes back with the result.  Owned by one side at a time. */
#ifndef COORDINATOR_TEXT_JOB_H
#define COORDINATOR_TEXT_JOB_H

#include "common/wire/sock.h"
#include "coordinator/grammar_check.h"
#include "coordinator/journal/recover.h"
#include "coordinator/model_text.h"
#include "coordinator/owner.h"
#include "coordinator/resolved.h"

struct text_job {
    struct text_job *next; /* in a queue */
    enum msg_type type;    /* MSG_GENERATE, MSG_TOKENIZE, MSG_DETOKENIZE, MSG_APPLY_TEMPLATE */
    char request_id[MAX_REQUEST_ID + 1];
    struct owner owner;           /* in whose line it waits */
    uint64_t client;              /* who asked (for all but Generate) */
    uint64_t request;             /* Generate: request_key of the reserved request */
    struct resolve_limits limits; /* Generate */
    struct sock_msg *msg;         /* the received bytes; NULL in a finished job */
    struct recovered_request
        *recovered;      /* in place of msg: a Generate of the journal; NULL: it is not */
    uint32_t elapsed_ms; /* of that: since it began */
    atomic_bool stop;    /* set by any thread: the result is not wanted any more */
    bool keep_request;   /* Generate: its bytes are wanted for the journal */
    /* result */
    enum status status;
    char detail[512], field[64]; /* of a failure */
    struct resolved *resolved;   /* Generate; NULL on failure */
    bool has_grammar;            /* Generate: a grammar was checked, with this result */
    enum status grammar_status;
    struct grammar_verdict grammar;
    uint64_t compiling; /* id of the grammar that ranks compile for it (grammar_wait.h) */
    uint8_t *kept;      /* [n_kept] keep_request: the frame without `resume` */
    size_t n_kept;
    struct token_list tokens; /* Tokenize */
    struct token_texts {
        uint32_t *n_text, *n_spelling; /* [tokens.n] bytes; NULL: not wanted */
        struct text_buf text, spelling;
    } texts;              /* Tokenize */
    struct text_buf text; /* Detokenize, ApplyTemplate */
};

/* Fills the result but for the grammar's.  mem: scratch of the calling thread. */
void text_job_do(struct text_job *job, const struct model_text *mt, struct wire_mem *mem);
/* Is there a grammar, and nothing wrong so far? */
bool text_job_has_grammar(const struct text_job *job);
/* Compiles it, as the ranks will: a bad one is refused before anything runs.  check: of the calling thread. */
void text_job_compile(struct text_job *job, struct grammar_check *check);
/* The thread's failure becomes the result. */
void text_job_fail(struct text_job *job, enum status st, const char *field);
void text_job_free(struct text_job *job); /* NULL is fine */

#endif
