/* The lines of `generate --json`. */
#ifndef CLIENT_CLI_ANSWER_JSON_H
#define CLIENT_CLI_ANSWER_JSON_H

#include <stdio.h>

#include "client/lib/ingot.h"

/* One event as one line; with_sample: deltas say whose they are. */
void answer_json_event(FILE *f, const struct ingot_event *ev, bool with_sample);
/* A failure that is not the server's answer. */
void answer_json_error(FILE *f, enum ingot_code code, const char *detail, bool retryable);

#endif
