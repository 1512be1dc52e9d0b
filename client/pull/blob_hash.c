#include "client/pull/blob_hash.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "common/hex.h"

enum { SHA256_DIGITS = 64, SHA1_DIGITS = 40 };

bool blob_digest_is_valid(const char *digest)
{
    size_t n = strlen(digest);
    return (n == SHA256_DIGITS || n == SHA1_DIGITS) && strspn(digest, "0123456789abcdef") == n;
}

enum status blob_hash_begin(struct blob_hash *h, const char *digest, uint64_t size)
{
    bool git = strlen(digest) == SHA1_DIGITS;
    char head[40];
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, git ? EVP_sha1() : EVP_sha256(), NULL) != 1) {
        blob_hash_free(h);
        FAIL(ST_UNSUPPORTED, "libcrypto cannot compute %s", git ? "SHA-1" : "SHA-256");
    }
    int n = snprintf(head, sizeof head, "blob %" PRIu64, size);
    return git ? blob_hash_add(h, head, (size_t)n + 1) : ST_OK;
}

enum status blob_hash_add(struct blob_hash *h, const void *data, size_t n)
{
    if (EVP_DigestUpdate(h->ctx, data, n) != 1)
        FAIL(ST_BUG, "libcrypto cannot go on with a digest");
    return ST_OK;
}

bool blob_hash_matches(struct blob_hash *h, const char *digest)
{
    uint8_t out[EVP_MAX_MD_SIZE];
    char text[2 * EVP_MAX_MD_SIZE + 1];
    unsigned n = 0;
    bool ok = EVP_DigestFinal_ex(h->ctx, out, &n) == 1;
    blob_hash_free(h);
    hex_of(out, n, text);
    return ok && strcmp(text, digest) == 0;
}

void blob_hash_free(struct blob_hash *h)
{
    EVP_MD_CTX_free(h->ctx);
    h->ctx = NULL;
}
