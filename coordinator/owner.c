#include "coordinator/owner.h"

#include <string.h>

#include "common/random.h"

/* The purpose and the lengths are hashed too, so that no two different inputs are the same bytes. */
static void hash(uint8_t out[SHA256_BYTES], const char *purpose, const void *a, size_t n_a,
                 const void *b, size_t n_b)
{
    struct sha256 s;
    uint8_t n = (uint8_t)n_a;
    sha256_init(&s);
    sha256_update(&s, purpose, strlen(purpose) + 1);
    sha256_update(&s, &n, 1);
    sha256_update(&s, a, n_a);
    if (n_b)
        sha256_update(&s, b, n_b);
    sha256_final(&s, out);
}

struct owner_proof owner_proof_of_token(struct wire_text token)
{
    struct owner_proof p;
    if (token.n)
        hash(p.bytes, "ingot token", token.data, token.n, NULL, 0);
    else
        random_bytes(p.bytes, sizeof p.bytes);
    return p;
}

struct owner_proof owner_proof_of_key(const char *key)
{
    struct owner_proof p;
    hash(p.bytes, "ingot key", key, strlen(key), NULL, 0);
    return p;
}

struct owner owner_of(const struct tenant *tenant, const struct owner_proof *proof)
{
    struct owner o;
    hash(o.bytes, proof ? "ingot owner" : "ingot tenant", tenant->bytes, tenant->n,
         proof ? proof->bytes : NULL, proof ? sizeof proof->bytes : 0);
    return o;
}

bool owner_equal(const struct owner *a, const struct owner *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
