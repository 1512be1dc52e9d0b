/* What a coordinator's journal says of the requests that had not ended, or ended shortly before its process did: each
 * with its messages and the tokens of its samples.  Called once at the start (journal_recover).  Nothing in the files
 * is trusted.  One thread. */
#ifndef COORDINATOR_JOURNAL_RECOVER_H
#define COORDINATOR_JOURNAL_RECOVER_H

#include "coordinator/journal/files.h"
#include "coordinator/journal/record.h"

struct admission;

enum { RECOVER_ENDED_US = 30 * 1000 * 1000 };

struct recovered_sample {
    int32_t *ids;    /* [n] of the answer; NULL with n 0 */
    float *logprobs; /* [n], NaN where they are not known */
    uint32_t n;
    bool has_logprobs;         /* all are known */
    enum finish_reason reason; /* FINISH_NONE: it had not ended */
};

struct recovered_request {
    struct recovered_request *next;
    struct journal_admission a; /* its pointers are into `bytes` and `id` */
    char id[MAX_LABEL + 1];
    unsigned char *bytes;
    struct admission *carried;                    /* the caller's (journal_carry) */
    struct recovered_sample samples[MAX_SAMPLES]; /* the first a.n_samples */
    uint64_t ended_us; /* now_us at the end of its last sample, 0: none has ended */
    bool cancelled;    /* a sample ended otherwise than by itself: it is not recovered */
};

struct recovered {
    struct recovered_request *first; /* in the order of their admission */
    uint32_t n;
    struct journal_served served; /* with what their tokens were computed */
};

/* Reads the newest file and, when that continues another one, the one before.  A file that is damaged in the middle
 * counts up to there, with a line in the log.  *out is never NULL after ST_OK.  ST_NOMEM, ST_IO: nothing is known of the
 * files. */
MUST_CHECK enum status recover_read(struct recovered **out, const struct journal_files *files);
void recovered_request_free(struct recovered_request *r); /* NULL is fine */
void recovered_free(struct recovered *r);

#endif
