/* Keys of connections: CURVE key pairs (CurveZMQ, RFC 26) in files.  A key file has a line "public KEY" and a line
 * "secret KEY"; only its owner may read it.  A public key is written in Z85 (ZeroMQ RFC 32), 40 characters.  FILE.pub
 * beside a key file has the public line alone.  Secrets never come from a command line. */
#ifndef COMMON_WIRE_CURVE_KEY_H
#define COMMON_WIRE_CURVE_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum { CURVE_TEXT = 40, CURVE_SIZE = CURVE_TEXT + 1 /* with NUL */ };

struct curve_pair {
    char public_key[CURVE_SIZE], secret_key[CURVE_SIZE];
};

/* ST_UNSUPPORTED: this build of ZeroMQ has no CURVE. */
MUST_CHECK enum status curve_pair_make(struct curve_pair *out);
/* Makes path, with mode 0600, and path.pub.  ST_IO: also if path exists. */
MUST_CHECK enum status curve_pair_save(const struct curve_pair *p, const char *path);
/* ST_IO; ST_RANGE: others may read the file; ST_FORMAT: not a key file, or the public key is not the secret's. */
MUST_CHECK enum status curve_pair_load(struct curve_pair *out, const char *path);
/* The public key in the n bytes of a key file. */
MUST_CHECK enum status curve_pair_parse(struct curve_pair *out, const char *text, size_t n,
                                        bool with_secret);
/* A public key as an option gives it: the path of a file with a public line, else its 40 characters. */
MUST_CHECK enum status curve_public_load(char out[CURVE_SIZE], const char *key_or_path);
/* 40 characters of Z85. */
bool curve_public_is_good(const char *key);

#endif
