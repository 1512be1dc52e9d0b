/* The text of one choice: the parser of the model's output, what it has collected, and what its form shows of it. */
#ifndef CLIENT_GATEWAY_ANSWER_OUTPUT_H
#define CLIENT_GATEWAY_ANSWER_OUTPUT_H

#include "client/gateway/answer_form.h"
#include "common/text/output_parser.h"

struct answer_output {
    struct answer_choice of;
    const struct answer_form *form;
    void *ctx;
    bool show;                    /* a stream: the form's functions are called */
    bool collect;                 /* texts are kept in of */
    struct output_parser *parser; /* NULL: the text is content as it is */
    struct text_buf waiting;      /* text that is not parsed yet: the client reads slowly */
    bool ended, finished;         /* ended: of.end is known; finished: it was shown */
};

/* parse NULL: all text is content.  On failure answer_output_fini is still to be called. */
MUST_CHECK enum status answer_output_init(struct answer_output *t,
                                          const struct output_options *parse);
void answer_output_fini(struct answer_output *t);

/* Parses what waits, and its end when it has ended.  Events go to *out. */
MUST_CHECK enum status answer_output_run(struct answer_output *t, struct text_buf *out);

#endif
