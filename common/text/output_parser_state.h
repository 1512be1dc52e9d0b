/* The state of an output parser.  Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_PARSER_STATE_H
#define COMMON_TEXT_OUTPUT_PARSER_STATE_H

#include "common/text/output_calls.h"
#include "common/text/output_events.h"
#include "common/text/output_gemma.h"
#include "common/text/output_python.h"
#include "common/text/output_xml.h"
#include "common/text/text_buf.h"

enum { PARSER_MAX_MARKS = 20 };

enum parser_state {
    AT_START, /* blanks, perhaps a think mark */
    IN_REASONING,
    CONTENT_START, /* blanks, perhaps a call in plain JSON */
    IN_CONTENT,
    IN_CALL,    /* the scanner is at work at the beginning of the text */
    IN_XML,     /* the same, of a call whose arguments are elements, Gemma 4's or Python */
    AFTER_CALL, /* blanks that are dropped when another call or the end follows */
    IN_HEADER,  /* of harmony's messages, see output_harmony.h */
    IN_CHANNEL, /* in one of them */
};

struct parser_mark { /* what begins something in the content */
    const char *text;
    size_t n;
    enum output_tools format; /* OUTPUT_TOOLS_NONE: it is dropped (the end of a DeepSeek block) */
};

struct output_parser {
    enum parser_state state;
    bool reasoning, starts_in_reasoning;
    bool plain; /* calls without a mark are looked for */
    enum output_tools tools;
    char *think_open, *think_close;
    size_t n_open, n_close, max_call;
    struct parser_mark marks[PARSER_MAX_MARKS];
    size_t n_marks;
    bool begins_mark[256];          /* by the mark's first byte */
    struct text_buf text;           /* what is not yet an event */
    size_t at;                      /* where it begins in text */
    size_t dropped;                 /* bytes before text */
    size_t reasoning_bytes;         /* once it is over */
    bool finished;                  /* no more text will come */
    bool harmony;                   /* the states IN_HEADER, IN_CHANNEL and IN_CALL */
    enum output_kind channel;       /* IN_CHANNEL: what the message's text is */
    bool only_reasoning;            /* harmony: there was nothing else yet */
    bool no_header;                 /* harmony: the text that follows is no header */
    const struct parser_mark *mark; /* with which the call began; NULL: without one */
    struct output_scanner scanner;
    struct output_xml xml;
    struct output_gemma gemma;
    struct output_python python;
    bool in_arguments;        /* of the call that began last */
    size_t n_begun;           /* the scanner's call that began last, counted from 1 */
    const char *const *names; /* [n_names] */
    size_t n_names;
    struct output_span tools_json; /* p NULL: not known */
    struct output_events events;
};

/* The text that is not yet an event, n bytes. */
const char *parser_rest(const struct output_parser *p, size_t *n);
/* Makes the next n bytes an event, or a part of the last one when that is of the same kind. */
MUST_CHECK enum status parser_emit(struct output_parser *p, enum output_kind kind, size_t n);

#endif
