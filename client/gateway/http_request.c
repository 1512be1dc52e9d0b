#include "client/gateway/http_request.h"

#include <string.h>

const char *http_request_header(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_headers; i++)
        if (strcmp(r->headers[i].name, name) == 0)
            return r->headers[i].value;
    return NULL;
}

const char *http_method_name(enum http_method m)
{
    static const char *const names[HTTP_N_METHODS] = {
        [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
        [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
        [HTTP_OPTIONS] = "OPTIONS",
    };
    return m < HTTP_N_METHODS ? names[m] : "?";
}

bool http_parser_refuse(struct http_parser *p, int status, const char *error)
{
    p->status = status;
    p->error = error;
    return false;
}
