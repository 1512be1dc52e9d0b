/* JSON arguments of a call that are written while another notation of them is read (output_gemma.h, output_python.h).
 * Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_WRITER_H
#define COMMON_TEXT_OUTPUT_WRITER_H

#include "common/text/output_json.h"
#include "common/text/text_buf.h"

/* What reading of the arguments came to. */
enum output_step {
    STEP_GOES_ON,
    STEP_NEEDS_MORE,
    STEP_BROKEN,     /* at the byte that is next */
    STEP_BROKEN_OFF, /* the closing mark is next */
    STEP_ENDED,
};

struct output_writer {       /* begin with output_writer_begin; free with output_writer_free */
    struct output_json json; /* what was written so far */
    struct text_buf out;     /* not yet given */
};

void output_writer_begin(struct output_writer *w);
void output_writer_free(struct output_writer *w);

/* Text inside a string, as it is meant. */
MUST_CHECK enum status output_writer_text(struct output_writer *w, const char *p, size_t n);
/* A byte of the JSON, if it can follow.  *step: STEP_GOES_ON, STEP_BROKEN (nothing is written) or STEP_ENDED. */
MUST_CHECK enum status output_writer_byte(struct output_writer *w, char c, enum output_step *step);
/* A word: true, false and null, in Python's spelling too, and numbers as such, anything else and keys as strings. */
MUST_CHECK enum status output_writer_word(struct output_writer *w, const char *p, size_t n,
                                          enum output_step *step);

#endif
