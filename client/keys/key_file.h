/* The file of API keys: one line of JSON a key, written by `ingot api-key` and read by ingot-gateway.
 *
 *     {"id":"5f0c...","name":"alice","tenant":"alice","salt":"...","hash":"...","requests":8,
 *      "tokens_per_minute":100000,"priority":0}
 *
 * A key is "ingot-ID-SECRET".  The file has HMAC-SHA256(salt, key) alone.  A slow function (scrypt, PBKDF2) protects
 * secrets that people make up; a key's 256 random bits cannot be guessed at any speed, and the gateway checks a key with
 * every request.  ID is no secret: it finds the line without a look at the others. */
#ifndef CLIENT_KEYS_KEY_FILE_H
#define CLIENT_KEYS_KEY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

enum {
    KEY_ID_BYTES = 6,
    KEY_ID_SIZE = 2 * KEY_ID_BYTES + 1, /* with NUL, as the others */
    KEY_SECRET_BYTES = 32,
    KEY_TEXT_SIZE = 6 + 2 * KEY_ID_BYTES + 1 + 2 * KEY_SECRET_BYTES + 1,
    KEY_NAME_SIZE = 65,
    KEY_SALT_BYTES = 16,
    KEY_HASH_BYTES = 32,
    KEY_MAX_PRIORITY = 100,
    MAX_KEYS = 1 << 16,
};

struct key_record {
    char id[KEY_ID_SIZE];     /* lower-case hexadecimal */
    char name[KEY_NAME_SIZE]; /* for people */
    char tenant
        [KEY_NAME_SIZE]; /* keys of one tenant share its limits, prefix cache and names of requests */
    uint8_t salt[KEY_SALT_BYTES], hash[KEY_HASH_BYTES];
    uint32_t requests;          /* samples in flight; 0: no limit */
    uint32_t tokens_per_minute; /* 0: no limit */
    int32_t priority;           /* the highest that a request may have, -100 to 100 */
};

struct key_file {
    struct key_record *key; /* [n] in ascending order of their ids */
    size_t n;
};

/* ST_NOT_FOUND: there is no file; ST_IO; ST_FORMAT, ST_RANGE: what is wrong, and in which line. */
MUST_CHECK enum status key_file_load(struct key_file *out, const char *path);
/* The same of an open file; path: its name in errors. */
MUST_CHECK enum status key_file_read(struct key_file *out, FILE *f, const char *path);
/* Replaces the file as a whole, with mode 0600.  The old one stays when this fails. */
MUST_CHECK enum status key_file_save(const struct key_file *f, const char *path);
void key_file_free(struct key_file *f);

/* NULL: none. */
struct key_record *key_file_find(const struct key_file *f, const char *id);
/* Makes a key: fills id, salt and hash of r, adds it, and gives the key's text.  ST_NOMEM; ST_RANGE: too many. */
MUST_CHECK enum status key_file_add(struct key_file *f, const struct key_record *r,
                                    char text[KEY_TEXT_SIZE]);
void key_file_remove(struct key_file *f, struct key_record *r);

/* The id in a key's text; false: it has another form. */
bool key_id(const char *text, char id[KEY_ID_SIZE]);
/* Is it this key?  The time does not depend on where it differs. */
bool key_matches(const struct key_record *r, const char *text);
/* A name of 1 to 64 printable ASCII characters without spaces, quotes and backslashes. */
bool key_name_is_good(const char *name);

/* Waits for other commands that change the file, and makes an empty one where there is none; close(*fd) lets it go. */
MUST_CHECK enum status key_file_lock(const char *path, int *fd);

#endif
