/* Whose a request is: its tenant together with the proof that the connection gave (its key, else the token of Hello), so that knowing a tenant's name
 * and an id is not enough to attach to a request, to cancel it, or to share its prefix cache.  The proof is a hash.
 * Connections that may act for any tenant need no other proof: their requests belong to
 * the tenant's name.  Pure. */
#ifndef COORDINATOR_OWNER_H
#define COORDINATOR_OWNER_H

#include "common/sha256.h"
#include "common/wire/client_msg.h"

/* A hash, so that it may be kept in the journal: it is the same after a restart, and tells neither name nor token. */
struct owner {
    uint8_t bytes[SHA256_BYTES];
};

/* A connection's proof, of its token; without a token of random bytes: no other connection has the same. */
struct owner_proof {
    uint8_t bytes[SHA256_BYTES];
};
struct owner_proof owner_proof_of_token(struct wire_text token); /* n 0: none */
/* Of a connection with a CURVE key: its public key in Z85.  The key is the proof, whatever the token. */
struct owner_proof owner_proof_of_key(const char *key);

/* proof NULL: of a connection that may act for any tenant. */
struct owner owner_of(const struct tenant *tenant, const struct owner_proof *proof);
bool owner_equal(const struct owner *a, const struct owner *b);

#endif
