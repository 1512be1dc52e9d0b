/* The text of one choice: the parser of the model's output, what it has collected, and what its form shows of it. */
#ifndef CLIENT_GATEWAY_ANSWER_OUTPUT_H
#define CLIENT_GATEWAY_ANSWER_OUTPUT_H

#include "client/gateway/answer_form.h"
#include "common/text/output_parser.h"

struct answer_output {
    struct answer_choice of;
    const struct answer_form *form;
    void *ctx;
    bool show;      /* a stream: the form's functions are called */
    bool collect;   /* texts are kept in of */
    bool short_ids; /* of calls: 9 letters and digits, as Mistral's templates want them */
    bool one_call;  /* only the first one is shown */
    struct output_parser *parser; /* owned; NULL: the text is content as it is */
    struct text_buf waiting;      /* text that is not parsed yet: the client reads slowly */
    bool ended, finished;         /* ended: of.end is known; finished: it was shown */
    bool cut;                     /* ended by a stop token or string */
    bool skip_call;               /* the call that is being read is not shown */
    bool keep_tokens;             /* in of.tokens */
    bool scores_shown;            /* of its prompt */
    uint64_t n_text;              /* bytes that have come */
    /* where tokens begin in the answer of which it is not known yet whether they are reasoning */
    bool count_reasoning;
    uint64_t *begin;
    size_t n_begin;
    uint64_t n_token_text; /* bytes of all tokens */
    size_t call_bytes;     /* of memory of all calls */
};

void answer_output_fini(struct answer_output *t);

/* Takes the tokens and the text of an event DELTA. */
MUST_CHECK enum status answer_output_add(struct answer_output *t, const struct ingot_event *ev);

/* Parses what waits, and its end when it has ended.  Events go to *out. */
MUST_CHECK enum status answer_output_run(struct answer_output *t, struct text_buf *out);

/* Bytes of memory that it uses. */
size_t answer_output_size(const struct answer_output *t);

#endif
