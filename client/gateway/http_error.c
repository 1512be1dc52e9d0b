#include "client/gateway/http_error.h"

/* OpenAI's names for kinds of failures. */
static const char *error_type(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 503:
        return "unavailable_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

void http_error_write(struct json_writer *w, int status, const char *message, const char *param)
{
    json_write_object(w);
    json_write_key(w, "error");
    json_write_object(w);
    json_member_string(w, "message", message);
    json_member_string(w, "type", error_type(status));
    if (param && *param)
        json_member_string(w, "param", param);
    else
        json_member_null(w, "param");
    json_member_i64(w, "code", status);
    json_write_end_object(w);
    json_write_end_object(w);
}
