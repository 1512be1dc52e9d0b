/* The body of an error, as OpenAI's clients read it:
 * {"error":{"message":...,"type":...,"param":...,"code":status}}. */
#ifndef CLIENT_GATEWAY_HTTP_ERROR_H
#define CLIENT_GATEWAY_HTTP_ERROR_H

#include "common/json/json_write.h"

/* param: the path of the field at fault, or NULL. */
void http_error_write(struct json_writer *w, int status, const char *message, const char *param);

#endif
