/* Splits a model's answer into reasoning, content and tool calls while it is generated.
 *
 * Pure: no clock, no input or output, no globals.
 * However a text is cut into pushes, it gives the same text in the same kinds of events and the
 * same calls; only the borders between neighbouring events of one kind (OUT_REASONING, OUT_CONTENT,
 * OUT_CALL_ARGUMENTS) depend on the cut.  No byte is lost: text that looked like a call and was none becomes
 * content.
 *
 * A call begins (OUT_CALL_BEGIN) as soon as it is certain, and its arguments are given while they are written:
 * after the format's mark, or in plain JSON with a name that is one of options.names, then the whole name, then the
 * '{' of the arguments.  From there on it stays a call.  Where its JSON breaks off (a wrong byte, the end of the
 * text) the call ends with the arguments as they are; what follows is content, except the format's closing mark.
 * In formats whose arguments are not JSON (output_xml.h, output_gemma.h) the arguments become JSON while they are read.
 * Other calls are given as a whole when their end has been read: plain JSON without names, arguments
 * written into a string or before the name, a call without arguments (they are {} then).  An id that
 * the model writes behind the arguments counts only for those.
 *
 * Callers: the gateway, the command line, the coordinator.
 * Owner: the caller, one thread at a time. */
#ifndef COMMON_TEXT_OUTPUT_PARSER_H
#define COMMON_TEXT_OUTPUT_PARSER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "common/text/output_event.h"
#include "common/text/output_tools.h"

struct output_options {
    enum output_tools tools;
    bool reasoning;           /* look for think marks; otherwise they are content */
    bool starts_in_reasoning; /* the prompt ended inside an open think block */
    const char *think_open;   /* NULL: "<think>" */
    const char *think_close;  /* NULL: "</think>" */
    size_t max_call;          /* bytes held back for one call, 0: 1 MiB; a longer one is content */
    const char *const *
        names; /* [n_names] functions that there are; borrowed for the parser's life.  NULL: not known */
    size_t n_names;
    const char *
        tools_json; /* a JSON array of the tools as in OpenAI's API, for the types of parameters; borrowed for
                               the parser's life.  NULL: not known */
};

struct output_parser;

/* ST_RANGE: an empty think mark; ST_NOMEM. */
MUST_CHECK enum status output_parser_create(struct output_parser **out,
                                            const struct output_options *options);
void output_parser_destroy(struct output_parser *p);

/* Takes n more bytes of UTF-8 text.  Then output_parser_next gives the events that are certain by
 * now. */
MUST_CHECK enum status output_parser_push(struct output_parser *p, const char *text, size_t n);

/* The text has ended: what was held back becomes events. */
MUST_CHECK enum status output_parser_finish(struct output_parser *p);

/* How many bytes of the text so far belong to reasoning, with its marks; they are at its beginning. */
size_t output_parser_reasoning_bytes(const struct output_parser *p);

/* The next event; false when there is none until more is pushed. */
bool output_parser_next(struct output_parser *p, struct output_event *event);

#endif
