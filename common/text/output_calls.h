/* Tool calls of any format as they are read, and what an accepted text says.  Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_CALLS_H
#define COMMON_TEXT_OUTPUT_CALLS_H

#include "common/text/output_scanner.h"

void output_scanner_init(struct output_scanner *s, enum output_tools format);

/* A plain JSON call that stands behind skip bytes of separators, after one that was marked or not. */
void output_scanner_resume(struct output_scanner *s, size_t skip, bool marked);

/* Reads on in the text from offset s->base to end, of which p is the first byte.  finished: no more will come.
 * SCAN_NEWS: s->news, at s->at; go on by calling again.
 * SCAN_OK: the calls end at s->at.  SCAN_BAD: this is no call, and none begins before s->at.
 * With s->begun a JSON that breaks off where the format's closing mark is ends the call: models forget braces. */
enum output_scan output_scanner_run(struct output_scanner *s, const char *p, size_t end,
                                    bool finished);

/* One call of an accepted text. */
struct output_call {
    struct output_span name, arguments,
        id; /* JSON values, or plain text when plain_name or plain_id */
    bool plain_name, plain_id;
};

/* Call i of the accepted text at p, of which nothing was dropped; SCAN_MORE: there are fewer; SCAN_BAD: it is no
 * call. */
enum output_scan output_scanner_call(const struct output_scanner *s, const char *p, size_t i,
                                     struct output_call *call);

/* After NEWS_ARGUMENTS or NEWS_CALL_END, p as in output_scanner_run: the call that was read last.  At
 * NEWS_ARGUMENTS without its arguments.  false: it is no call. */
bool output_scanner_last(const struct output_scanner *s, const char *p, struct output_call *call);
/* Where the arguments of that call begin, and how far they are read. */
size_t output_scanner_arguments(const struct output_scanner *s, size_t *to);

#endif
