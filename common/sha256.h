/* SHA-256 (FIPS 180-4) over OpenSSL's libcrypto.  Any thread; a struct sha256 belongs to one thread
 * at a time.  libcrypto asks for a few hundred bytes of memory in sha256_init: where there are none,
 * the process aborts. */
#ifndef COMMON_SHA256_H
#define COMMON_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

void sha256(const void *data, size_t n, uint8_t out[SHA256_BYTES]);

/* The same in parts: init, any number of updates, final (which frees what init took). */
struct sha256 {
    void *ctx;
};
void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *data, size_t n);
void sha256_final(struct sha256 *s, uint8_t out[SHA256_BYTES]);

#endif
