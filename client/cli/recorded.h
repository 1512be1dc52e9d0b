/* A sample of a journal, as `ingot-journal show` prints it. */
#ifndef CLIENT_CLI_RECORDED_H
#define CLIENT_CLI_RECORDED_H

#include "client/lib/ingot.h"
#include "common/text/text_buf.h"

struct id_list {
    int32_t *ids; /* [n] */
    size_t n, cap;
};

struct recorded {
    uint64_t seq_id;
    char request_id[INGOT_ID_SIZE], weights[65], numerics[256], reason[16];
    struct ingot_request r; /* sampling and grammar; its pointers are into this struct */
    struct id_list prompt, tokens, stop_ids;
    uint32_t *types; /* [prompt.n], see recorded_split_types; or NULL */
    float *logprobs; /* [tokens.n]; NaN: not recorded */
    size_t n_logprobs, cap_logprobs;
    struct ingot_bias *bias;
    size_t n_bias, cap_bias;
    struct text_buf grammar;
    uint64_t n_resumed; /* of the tokens: they came from the client */
    bool wants_prompt_logprobs;
    char embedding[17]; /* digest of its embedding, hexadecimal; "": it has tokens */
    uint32_t top_logprobs;
};

/* Reads one line; out may have been read into before.  ST_FORMAT, ST_RANGE, ST_NOMEM. */
MUST_CHECK enum status recorded_read(struct recorded *out, const char *line, size_t n);
/* Of an encoder's sample: its prompt has id + type * vocab of each token, which becomes ids and types. */
MUST_CHECK enum status recorded_split_types(struct recorded *r, uint32_t vocab);
void recorded_free(struct recorded *r);

#endif
