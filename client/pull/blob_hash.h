/* The digest that names a file on the hub: SHA-256 of large files (64 digits), git's blob id of small
 * ones (SHA-1, 40 digits).  One thread per struct. */
#ifndef CLIENT_PULL_BLOB_HASH_H
#define CLIENT_PULL_BLOB_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct blob_hash {
    void *ctx;
};

/* Is it 40 or 64 hexadecimal digits in lower case? */
bool blob_digest_is_valid(const char *digest);

/* For a file of size bytes and the kind of that valid digest. */
MUST_CHECK enum status blob_hash_begin(struct blob_hash *h, const char *digest, uint64_t size);
MUST_CHECK enum status blob_hash_add(struct blob_hash *h, const void *data, size_t n);
/* Is it the digest?  Frees h. */
bool blob_hash_matches(struct blob_hash *h, const char *digest);
void blob_hash_free(struct blob_hash *h); /* before it was compared */

#endif
