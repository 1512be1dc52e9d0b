/* Tool calls as a list of Python calls, which Llama 4 writes (its model card), between marks or as the whole answer:
 *
 *     <|python_start|>[NAME(KEY=VALUE, ..), NAME()]<|python_end|>
 *     VALUE: 'TEXT', "TEXT", a number, True, False, None, [VALUE, ..], (VALUE, ..) or {'KEY': VALUE, ..}
 *
 * They become JSON objects while they are read: strings piece by piece, words (numbers, literals) when they have ended.
 * Python's escapes become what they mean.  What models also write is taken: true, false and null, commas behind the last
 * item, other words without quotes (a string).  Arguments without a KEY make it no call.
 * Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_PYTHON_H
#define COMMON_TEXT_OUTPUT_PYTHON_H

#include "common/text/output_events.h"
#include "common/text/output_writer.h"
#include "common/text/output_xml.h"

struct output_python { /* begin with output_python_begin; free with output_python_free */
    int phase;
    char quote;             /* of the string that is read */
    bool comma, colon;      /* a comma was read and not written; a colon must come */
    struct output_writer w; /* of the arguments */
    const char *const *names;
    size_t n_names;
};

/* names [n_names]: without a mark the first call must be of one of them; NULL: they are not known. */
void output_python_begin(struct output_python *y, const char *const *names, size_t n_names);
void output_python_free(struct output_python *y);

/* Reads on in the text, takes the first *n bytes, and adds events, as output_xml_run. */
MUST_CHECK enum status output_python_run(struct output_python *y, struct output_span text,
                                         bool finished, struct output_events *events, size_t *n,
                                         enum output_xml_state *state);

#endif
