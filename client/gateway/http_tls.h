/* TLS for the HTTP server: TLS 1.2 and 1.3 with one certificate. */
#ifndef CLIENT_GATEWAY_HTTP_TLS_H
#define CLIENT_GATEWAY_HTTP_TLS_H

#include <openssl/ssl.h>

#include "common/status.h"

/* cert: a PEM chain, the server's own first; key: its PEM key.  Freed with SSL_CTX_free.  ST_IO: a file
 * cannot be read, or key and certificate do not belong together. */
MUST_CHECK enum status http_tls_create(SSL_CTX **out, const char *cert, const char *key);

#endif
