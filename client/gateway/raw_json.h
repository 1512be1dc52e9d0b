/* JSON that came from elsewhere, written into a stream whose events are lines. */
#ifndef CLIENT_GATEWAY_RAW_JSON_H
#define CLIENT_GATEWAY_RAW_JSON_H

#include "common/json/json_write.h"

/* A value that is JSON already, on one line. */
void raw_json_write(struct json_writer *w, const char *json, size_t n);

/* The arguments of a tool call, in APIs that show them as an object.  Text that is no JSON object, because the answer
 * ended inside it or the model wrote something else, becomes {"INVALID_JSON": text}, so that nothing is lost. */
void raw_json_write_arguments(struct json_writer *w, const char *text, size_t n);

#endif
