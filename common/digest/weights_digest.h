/* The weights digest of a model: 32 bytes that are equal only where the same numbers are computed.
 *
 *   SHA-256("ingot weights digest 1\n", length of the configuration's text as u64 little-endian, that
 *   text (config_text), number of files as u64, the file_digest of each)
 *
 * Files: model.safetensors, or those of the index by name, or all parts of a GGUF model.
 *
 * Files of together at most WEIGHTS_DIGEST_AT_ONCE bytes are hashed by the open, as are the ones that
 * the cache knows looked up; others by a thread of low priority on all cores that the process had at
 * the open, once weights_digest_begin is called.  Any thread may ask for the state; open, begin and
 * close belong to the owner. */
#ifndef COMMON_DIGEST_WEIGHTS_DIGEST_H
#define COMMON_DIGEST_WEIGHTS_DIGEST_H

#include "common/digest/digest_cache.h"

struct weights_digest;

enum { WEIGHTS_DIGEST_AT_ONCE = 16 << 20 };

enum digest_state {
    DIGEST_PENDING,
    DIGEST_KNOWN,
    DIGEST_NONE, /* a failure, which was logged: there will be none */
};

struct weights_digest_config {
    const char *model;                /* folder or .gguf file */
    const struct digest_cache *cache; /* copied */
    bool shares; /* another process of this host that has no such flag hashes where the cache cannot
                    be used: this one then has no digest */
};

/* Fails where the model cannot be read: ST_NOT_FOUND, ST_FORMAT, ... name the file. */
MUST_CHECK enum status weights_digest_open(struct weights_digest **out,
                                           const struct weights_digest_config *cfg);
/* Ends the thread, at the latest after the block that it reads.  NULL is fine. */
void weights_digest_close(struct weights_digest *w);

/* Hashing may begin.  NULL is fine. */
void weights_digest_begin(struct weights_digest *w);

/* out is set when it is DIGEST_KNOWN.  NULL: DIGEST_NONE. */
enum digest_state weights_digest_get(const struct weights_digest *w, uint8_t out[SHA256_BYTES]);

#endif
