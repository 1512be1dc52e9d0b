#include "common/sha256.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "common/log.h"

static void need(int ok)
{
    if (ok)
        return;
    log_line(LOG_ERROR, "libcrypto cannot compute SHA-256: no memory, or no provider for it");
    abort();
}

void sha256_init(struct sha256 *s)
{
    s->ctx = EVP_MD_CTX_new();
    need(s->ctx != NULL && EVP_DigestInit_ex(s->ctx, EVP_sha256(), NULL) == 1);
}

void sha256_update(struct sha256 *s, const void *data, size_t n)
{
    need(EVP_DigestUpdate(s->ctx, data, n) == 1);
}

void sha256_final(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    need(EVP_DigestFinal_ex(s->ctx, out, NULL) == 1);
    EVP_MD_CTX_free(s->ctx);
    s->ctx = NULL;
}

void sha256(const void *data, size_t n, uint8_t out[SHA256_BYTES])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_update(&s, data, n);
    sha256_final(&s, out);
}
