#include "client/gateway/page_routes.h"

#include "client/gateway/page_files.h"

static void send_file(struct http_reply *r, const char *type, const void *data, size_t n)
{
    http_reply_header(
        r, "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    http_reply_header(r, "X-Content-Type-Options", "nosniff");
    http_reply_header(r, "Referrer-Policy", "no-referrer");
    http_reply_header(r, "Cache-Control", "no-cache");
    http_reply_send(r, 200, type, data, n);
}

void page_serve_html(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (void)g, (void)q;
    send_file(r, "text/html; charset=utf-8", page_html, page_html_size);
}

void page_serve_css(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (void)g, (void)q;
    send_file(r, "text/css; charset=utf-8", page_css, page_css_size);
}

void page_serve_script(struct gateway *g, const struct http_request *q, struct http_reply *r)
{
    (void)g, (void)q;
    send_file(r, "text/javascript; charset=utf-8", page_script, page_script_size);
}
