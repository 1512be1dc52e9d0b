/* A request of any API in the gateway's own terms: the prompts and options of the coordinator's request, and how the
 * answer is to be parsed.  The reader of an API's JSON fills it (openai_request.c), answer_start sends it. */
#ifndef CLIENT_GATEWAY_ANSWER_REQUEST_H
#define CLIENT_GATEWAY_ANSWER_REQUEST_H

#include "client/lib/ingot.h"
#include "common/status.h"
#include "common/text/text_buf.h"

enum { ANSWER_MAX_CHOICES = 128, ANSWER_MAX_MODEL = 256, ANSWER_MAX_FIELD = 32 };

struct answer_prompt { /* text or ids */
    const char *text;
    size_t n_text;
    const int32_t *ids;
    size_t n_ids;
};

struct answer_request {
    struct ingot_request ask;      /* without its prompt where there are prompts */
    struct answer_prompt *prompts; /* NULL: ask.turns is the only prompt */
    size_t n_prompts; /* 1 with turns; prompts times ask.n: at most ANSWER_MAX_CHOICES */
    char model[ANSWER_MAX_MODEL];         /* as the client named it; "": not named */
    char grammar_field[ANSWER_MAX_FIELD]; /* of the request that ask.grammar is from; "": none */
    bool stream;
    bool calls;    /* the answer may hold tool calls; otherwise nothing is parsed as one */
    bool one_call; /* only the first one is shown */
    bool
        reasoning; /* thinking is told from content where the model's marks are known; else it is content */
    bool drop_budget; /* of thinking, where the model has no marks of it; else it is refused */
    bool
        no_answer; /* the prompts only: the one token that is generated is neither shown nor counted */
    bool tokens; /* struct answer_choice has tokens: for log probabilities and token ids */
    const char **
        tools; /* [n_tools] names of the functions that there are; the list is freed, names are kept texts */
    size_t n_tools;
    void **block; /* all memory of the above */
    size_t n_blocks;
};

void answer_request_init(struct answer_request *q);
void answer_request_free(struct answer_request *q);

/* n bytes, at least one, that live as long as q; NULL: no memory.  data NULL: not set. */
void *answer_keep(struct answer_request *q, const void *data, size_t n);
/* The text with a NUL; b is emptied. */
MUST_CHECK enum status answer_keep_text(struct answer_request *q, struct text_buf *b,
                                        const char **out);
/* An array that grows by doubling: room for one more after n. */
MUST_CHECK enum status answer_grow(void **array, size_t n, size_t item_size);

#endif
