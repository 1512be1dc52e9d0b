/* The arguments of a tool call in APIs that show them as an object. */
#ifndef CLIENT_GATEWAY_CALL_ARGUMENTS_H
#define CLIENT_GATEWAY_CALL_ARGUMENTS_H

#include "common/json/json_write.h"

/* The object as the model wrote it, on one line.  Text that is no JSON object, because the answer ended inside it or the
 * model wrote something else, becomes {"INVALID_JSON": text}, so that nothing is lost. */
void call_arguments_write(struct json_writer *w, const char *text, size_t n);

#endif
