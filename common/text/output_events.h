/* The events of an output parser that were not taken yet, and their texts.  Internal to the output parser. */
#ifndef COMMON_TEXT_OUTPUT_EVENTS_H
#define COMMON_TEXT_OUTPUT_EVENTS_H

#include "common/text/output_calls.h"
#include "common/text/output_event.h"
#include "common/text/text_buf.h"

struct output_events { /* begin with {0} */
    struct text_buf texts;
    struct output_item *items;
    size_t n, cap, i_next;
    int n_calls;
};

void output_events_free(struct output_events *e);
/* Forgets the events when all were taken. */
void output_events_make_room(struct output_events *e);

/* Makes n bytes an event, or a part of the last one when that is of the same kind. */
MUST_CHECK enum status output_events_text(struct output_events *e, enum output_kind kind,
                                          const char *text, size_t n);
MUST_CHECK enum status output_events_begin(struct output_events *e, const struct output_call *call);
MUST_CHECK enum status output_events_end(struct output_events *e);
/* Begin, arguments and end. */
MUST_CHECK enum status output_events_call(struct output_events *e, const struct output_call *call);

/* The next event, as of output_parser_next. */
bool output_events_next(struct output_events *e, struct output_event *out);

#endif
