#include "client/gateway/http_tls.h"

#include <openssl/err.h>
#include <stdbool.h>

/* The reason of OpenSSL's last failure. */
static const char *reason(void)
{
    const char *text = ERR_reason_error_string(ERR_peek_last_error());
    return text ? text : "unknown reason";
}

enum status http_tls_create(SSL_CTX **out, const char *cert, const char *key)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx)
        FAIL(ST_NOMEM, "no memory for TLS");
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS); /* idle connections stay small */
    const char *file = cert;
    bool ok = SSL_CTX_use_certificate_chain_file(ctx, cert) == 1;
    if (ok) {
        file = key;
        ok = SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1 &&
             SSL_CTX_check_private_key(ctx) == 1;
    }
    if (!ok) {
        SSL_CTX_free(ctx);
        FAIL(ST_IO, "%s: %s", file, reason());
    }
    *out = ctx;
    return ST_OK;
}
