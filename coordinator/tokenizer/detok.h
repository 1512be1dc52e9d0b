/* Incremental detokenizer: takes ids one by one and gives text as soon as it is certain.
 *
 * The deltas put together are the bytes of tokenizer_decode of all ids, which is made of this.  A
 * delta never ends inside a UTF-8 sequence or inside a run of byte-fallback tokens (an emoji and
 * its modifiers): such a run is held until a token of another kind ends it, or until DETOK_MAX_RUN
 * bytes of it have arrived.
 *
 * Caller: the coordinator, one per sequence.  The state is this struct alone, of fixed size; a copy
 * of the struct is a snapshot from which the stream can be resumed.  One thread at a time per
 * struct. */
#ifndef COORDINATOR_TOKENIZER_DETOK_H
#define COORDINATOR_TOKENIZER_DETOK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "common/text/text_buf.h"
#include "coordinator/tokenizer/tokenizer.h"

#define DETOK_MAX_RUN 512 /* bytes of a run of byte-fallback tokens that are held at most */

struct detok {
    const struct tokenizer *tok; /* borrowed, outlives the stream */
    unsigned flags;
    const int32_t
        *keep; /* [n_keep] special tokens that are text all the same; set after detok_init */
    size_t n_keep;
    bool started;        /* a token has been taken, or follows a prompt with text */
    bool run_bad;        /* the run of byte tokens is not UTF-8: each byte becomes U+FFFD */
    uint8_t n_tail;      /* bytes in tail */
    uint8_t strip_left;  /* leading characters that may still be dropped */
    uint16_t strip_held; /* trailing characters held back, dropped at the end */
    uint16_t n_run;      /* bytes in run */
    int32_t pending;     /* id held back until it is known whether it is the last; -1: none */
    uint8_t tail[4];     /* an unfinished UTF-8 sequence of byte-level tokens */
    uint8_t run[DETOK_MAX_RUN]; /* byte-fallback tokens whose end is not known */
};

/* flags: TOK_SKIP_SPECIAL. */
void detok_init(struct detok *d, const struct tokenizer *tok, unsigned flags);
/* After detok_init: the ids that will be pushed follow prompt[n].  If one of these gives text, then the stream is not the
 * beginning of a text, and blanks that the decoder drops at a beginning are kept: prompt and answer put together are the
 * text of all ids. */
void detok_follow(struct detok *d, const int32_t *prompt, size_t n);
/* Appends what has become certain (perhaps nothing).  An id that no token has gives no text: models
 * pad their vocabularies.  ST_RANGE: id is negative. */
MUST_CHECK enum status detok_push(struct detok *d, int32_t id, struct text_buf *out);
/* Appends the bytes that id would add to the text, before it is pushed: put together they are the text, but for
 * bytes that are not UTF-8, and characters that are stripped at the very end. */
MUST_CHECK enum status detok_bytes(const struct detok *d, int32_t id, struct text_buf *out);
/* The end: appends what was held back.  The stream is then as after detok_init. */
MUST_CHECK enum status detok_flush(struct detok *d, struct text_buf *out);

#endif
