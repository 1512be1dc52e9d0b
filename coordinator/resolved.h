/* A Generate with everything decided: prompt ids, sampling with its defaults and seed, stop ids and
 * limits in force.  Made by the text thread, which owns it until the loop takes it over; never
 * changed afterwards. */
#ifndef COORDINATOR_RESOLVED_H
#define COORDINATOR_RESOLVED_H

#include "common/formats/generation.h"
#include "common/formats/sentence_modules.h"
#include "common/sha256.h"
#include "common/text/text_buf.h"
#include "common/wire/client_msg.h"
#include "coordinator/tokenizer/stop.h"

struct resumed;

struct resolved {
    int32_t *prompt; /* [n_prompt] */
    /* [n_prompt] of an encoder's tokens, or NULL; in plans each adds type_step to its token's id */
    uint8_t *types;
    int32_t type_step;
    uint32_t n_prompt, max_new, n_samples;
    struct sample_params sp; /* its seed is that of sample 0 */
    bool ignore_eos;         /* not with a grammar of some texts: a complete answer ends */
    int32_t
        *stop_ids; /* [n_stop_ids]: n_eos of the model's, 0 with ignore_eos, then the request's */
    uint32_t n_stop_ids, n_eos;
    struct logit_bias *bias; /* [n_bias] */
    uint32_t n_bias, n_stops;
    struct wire_text *stops;   /* [n_stops], in stop_bytes */
    char *stop_bytes;          /* the stop strings one after the other */
    struct stop_set *stop_set; /* NULL: no stop strings */
    bool include_stop, skip_special;
    uint32_t grammar_kind;                /* enum grammar_kind; 0: none */
    char *grammar;                        /* [n_grammar] its source */
    size_t n_grammar, grammar_bytes;      /* grammar_bytes: of memory that it holds compiled */
    uint8_t grammar_digest[SHA256_BYTES]; /* over kind (one byte) and source */
    int32_t priority;
    uint32_t deadline_ms;         /* 0 = none */
    uint8_t digest[SHA256_BYTES]; /* over the prompt's ids, each as 4 bytes, little endian */
    bool want_prompt_ids, want_token_text;
    struct text_buf prompt_text; /* if the client wants it */
    bool starts_in_reasoning;    /* a chat that ends inside thinking */
    const int32_t *keep;         /* [n_keep] special tokens that are text; the model's, borrowed */
    uint32_t n_keep;
    bool is_chat;               /* the prompt was rendered with this clock */
    int64_t clock_s;            /* seconds since 1970 UTC */
    int32_t zone_s;             /* seconds east of UTC */
    uint32_t dimensions;        /* of the embedding (sp.embed); 0: all */
    uint32_t n_scores_received; /* entries of the prompt's log probabilities that the client has */
    struct resumed *resumed;    /* what the client had received; NULL: a new request */
};

/* Bounds of the model and of the server that a request is checked against. */
struct resolve_limits {
    const int32_t *eos; /* [n_eos] the model's */
    uint32_t n_eos;
    const struct generation_defaults *defaults; /* of what a request leaves open */
    uint32_t vocab, max_ctx;
    uint32_t max_waiting;                   /* sequences that can be queued at all */
    const struct sentence_modules *modules; /* of the model's embeddings */
};

/* Takes the prompt's ids over (prompt->ids is NULL then) and copies the rest of g; the clock and
 * zone of a chat are set already.  ST_RANGE: *field
 * is the path of the field at fault, or as it was when that is the prompt. */
MUST_CHECK enum status resolve_generate(struct resolved **out, const struct msg_generate *g,
                                        struct token_list *prompt,
                                        const struct resolve_limits *limits, const char **field);
/* One of the model's ends, not a stop token of the request alone. */
bool resolved_is_end_id(const struct resolved *q, int32_t id);
void resolved_free(struct resolved *q); /* NULL is fine */

#endif
