/* What `ingot-journal show` prints: one line of JSON per sample, the samples of a request in order.  One thread. */
#ifndef COORDINATOR_TOOLS_JOURNAL_SHOW_H
#define COORDINATOR_TOOLS_JOURNAL_SHOW_H

#include "coordinator/journal/replay.h"

struct journal_show;

struct show_config {
    const char *
        model; /* a model directory or .gguf file, for the text of the answers; NULL: without text */
    const char *request; /* the request or sequence that is printed; NULL: all */
};

MUST_CHECK enum status journal_show_open(struct journal_show **out, const struct show_config *cfg);
void journal_show_close(struct journal_show *s);

/* After each record of a file (REPLAY_DONE at its end): requests whose samples have all ended are printed, at the end
 * the others too.  served: the last one, at that record.  ST_RANGE: the model has another tokenizer than the journal. */
MUST_CHECK enum status journal_show_event(struct journal_show *s, const struct replay *p,
                                          const struct replay_event *ev,
                                          const struct journal_served *served);
/* Samples that were printed. */
unsigned journal_show_found(const struct journal_show *s);

/* "eos", "length", ...; "live": it has not ended */
const char *journal_reason_name(enum finish_reason why);

#endif
