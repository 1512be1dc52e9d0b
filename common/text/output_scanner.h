/* A scanner reads one call, or a list of calls, and goes on where it stopped.  It reads only forwards, so that what it
 * says of a text does not depend on how the text was cut.  Here: its state, and the steps of which the formats
 * (output_formats.h) are made.  Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_SCANNER_H
#define COMMON_TEXT_OUTPUT_SCANNER_H

#include "common/text/output_members.h"
#include "common/text/output_tools.h"

enum { OUTPUT_MAX_NAME = 256 /* bytes of a function's name or a call's id outside of JSON */ };

/* Offsets count from where the call began. */
struct output_scanner {
    enum output_tools format;
    bool marked;     /* it began with the format's mark: what follows is meant as a call */
    bool only_known; /* without a mark: a call only if there is a function of that name */
    int phase;
    size_t base; /* bytes from its beginning that the caller has dropped */
    size_t at;   /* how far it has read */
    struct output_json json;
    struct output_members members; /* where the JSON has the name */
    size_t json_from, json_to;     /* from plus one, 0: not begun; to: as far as it is JSON */
    bool json_ended, json_broken;
    enum output_news news;     /* after SCAN_NEWS */
    bool begun;                /* set by the caller: the call was announced, see output_calls.h */
    size_t name_from, name_to; /* outside of the JSON; equal: the JSON has the name */
    size_t id_from, id_to;
};

/* The text that there is: from offset s->base to n. */
struct scan_input {
    const char *p; /* at offset s->base */
    size_t n;      /* offset of the end */
    bool finished; /* no more will come */
};

/* Does the name stand before the JSON? */
bool output_scanner_named(const struct output_scanner *s);

/* Each step moves s->at, and is repeated until it says SCAN_OK. */
char scan_byte_at(const struct output_scanner *s, const struct scan_input *in);
enum output_scan scan_literal(struct output_scanner *s, const struct scan_input *in,
                              const char *text);
/* The same, but another text there is fine: then nothing is taken. */
enum output_scan scan_maybe(struct output_scanner *s, const struct scan_input *in, const char *text,
                            bool *taken);
/* Skips blanks up to something else. */
enum output_scan scan_blanks(struct output_scanner *s, const struct scan_input *in);
/* A list or object; also SCAN_NEWS, with s->news. */
enum output_scan scan_json(struct output_scanner *s, const struct scan_input *in);
/* A name, up to the first byte that cannot be in one; *to is 0 before the first call. */
enum output_scan scan_name(struct output_scanner *s, const struct scan_input *in, size_t *from,
                           size_t *to);

#define SCAN_STEP(expr)                                                                            \
    do {                                                                                           \
        enum output_scan step_ = (expr);                                                           \
        if (step_ != SCAN_OK)                                                                      \
            return step_;                                                                          \
    } while (0)

#endif
