/* Bytes for the HTTP parser and the beginning of the transcript (http_transcript.h) that they must give; errors may
 * come after the transcript of the requests before them. */
#ifndef TESTS_GATEWAY_HTTP_TABLE_H
#define TESTS_GATEWAY_HTTP_TABLE_H

#include <stddef.h>

#include "common/status.h"

struct http_row {
    const char *in;
    size_t n;
    const char *out; /* the whole transcript; of a refusal, its status and the start of its text */
};

extern const struct http_row http_rows[];
extern const size_t n_http_rows;

#endif
