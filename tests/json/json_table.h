/* Documents that must be accepted, with their canonical text, and documents that must be refused, with the byte
 * and the path. */
#ifndef TESTS_JSON_JSON_TABLE_H
#define TESTS_JSON_JSON_TABLE_H

#include <stddef.h>

#include "common/status.h"

struct json_good {
    const char *in;
    size_t n;
    const char *out; /* as the writer writes what the reader has read */
};

struct json_bad {
    const char *in;
    size_t n;
    size_t byte;
    const char *path;
    const char *text; /* is part of the sentence */
};

extern const struct json_good json_good[];
extern const size_t n_json_good;
extern const struct json_bad json_bad[];
extern const size_t n_json_bad;

#endif
