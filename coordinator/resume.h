/* Requests whose answers another coordinator, or this one before a restart, began: what a client sends of such an
 * answer in Generate.resume is checked and becomes the samples' state, as if it had been computed here.
 * resume_fill and resume_take run in the text thread, the others in the loop. */
#ifndef COORDINATOR_RESUME_H
#define COORDINATOR_RESUME_H

#include "common/wire/worker_msg.h"
#include "coordinator/journal/recover.h"
#include "coordinator/request.h"

struct model_identity;
struct served;

/* What was received of the answer, and with what it was computed.  Part of struct resolved. */
struct resumed {
    bool has_weights, has_text;
    uint8_t weights[SHA256_BYTES], text[SHA256_BYTES];
    char numerics[NUMERICS_ID_SIZE];
    bool received; /* the client has a part of the answer */
    bool begun; /* of a recovered request: the client may have tokens that are not in `samples` */
    uint32_t elapsed_ms, n_samples;
    struct resumed_sample {
        const int32_t *ids; /* [n] */
        uint32_t n;
        uint64_t n_text;       /* bytes */
        const float *logprobs; /* [n] of a recovered request, in the journal's memory; else NULL */
    } samples[MAX_SAMPLES];
    int32_t ids[]; /* of all samples */
};

/* Before the prompt is made: the seed and the clock that g leaves open are those of g->resume. */
void resume_fill(struct msg_generate *g);

/* Compares q, made of g, with g->resume, and copies what was received to q->resumed.
 * ST_RANGE: *field names what differs or is impossible.  vocab: of the model. */
MUST_CHECK enum status resume_take(struct resolved *q, const struct msg_generate *g, uint32_t vocab,
                                   const char **field);

/* What the journal has of an answer, as if a client had sent it: fills out and samples [MAX_SAMPLES].  Where the client
 * is to be told more of each token than the journal has, the answer begins anew: its tokens will be the same. */
MUST_CHECK enum status resume_from_journal(struct msg_resume *out,
                                           struct msg_resumed_sample *samples,
                                           const struct recovered_request *r,
                                           const struct msg_generate *g, struct wire_mem *mem);
/* After resume_take: adds to u the log probabilities, which are borrowed from r until resume_samples. */
void resume_add_facts(struct resumed *u, const struct recovered_request *r);

/* Would what serves compute the same bits?  ST_RANGE: no, *field says why not; ST_BUSY: not known yet. */
MUST_CHECK enum status resume_check(const struct resumed *u, const struct model_identity *id,
                                    const struct served *served, const char **field);

/* Gives the samples of r, which has just started, the tokens that were received and the text that they make; samples
 * that end with them are done.  Nothing of it is to be sent again.  ST_RANGE names the *field. */
MUST_CHECK enum status resume_samples(struct request *r, const char **field);

#endif
