/* A secret that programs of one service share, from a file or the environment. */
#ifndef COMMON_SECRET_H
#define COMMON_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum { SECRET_MIN = 16, SECRET_MAX = 256 /* bytes */ };

struct secret {
    char bytes[SECRET_MAX];
    size_t n; /* 0: there is none */
};

/* The file's content without a newline at its end; without a file the text; without both an empty secret.  Strings
 * may be NULL.  ST_IO: the file cannot be read; ST_RANGE: shorter than SECRET_MIN or longer than SECRET_MAX. */
MUST_CHECK enum status secret_load(struct secret *out, const char *path, const char *text);

/* In a time that does not depend on the bytes; an empty secret equals nothing. */
bool secret_equal(const struct secret *s, const void *data, size_t n);

#endif
