/* The ways models write tool calls, as scanners that go on where they stopped.  A scanner reads
 * only forwards, so what it says of a text does not depend on how the text was cut.  Internal to
 * output_parser.c. */
#ifndef COMMON_TEXT_OUTPUT_CALLS_H
#define COMMON_TEXT_OUTPUT_CALLS_H

#include "common/text/output_members.h"
#include "common/text/output_tools.h"

enum { OUTPUT_MAX_NAME = 256 /* bytes of a function's name or a call's id outside of JSON */ };

#define DS_CALLS_BEGIN                                                                             \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "calls\xe2\x96\x81"                                                                            \
    "begin\xef\xbd\x9c>"
#define DS_CALLS_END                                                                               \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "calls\xe2\x96\x81"                                                                            \
    "end\xef\xbd\x9c>"
#define DS_CALL_BEGIN                                                                              \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "call\xe2\x96\x81"                                                                             \
    "begin\xef\xbd\x9c>"
#define DS_CALL_END                                                                                \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "call\xe2\x96\x81"                                                                             \
    "end\xef\xbd\x9c>"
#define DS_SEP                                                                                     \
    "<\xef\xbd\x9ctool\xe2\x96\x81"                                                                \
    "sep\xef\xbd\x9c>"

/* One call, or a list of calls, that is being read.  Offsets count from where it began. */
struct output_scanner {
    enum output_tools format;
    bool marked; /* it began with the format's mark: what follows is meant as a call */
    int phase;
    size_t base; /* bytes from its beginning that the caller has dropped */
    size_t at;   /* how far it has read */
    struct output_json json;
    struct output_members members; /* where the JSON has the name */
    size_t json_from, json_to;     /* from plus one, 0: not begun; to: as far as it is JSON */
    bool json_ended, json_broken;
    enum output_news news; /* after SCAN_NEWS */
    bool begun;            /* set by the caller: the call was announced, see output_scanner_run */
    size_t name_from, name_to; /* outside of the JSON; equal: the JSON has the name */
    size_t id_from, id_to;
};

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
