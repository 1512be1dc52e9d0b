/* Strict reading of JSON files over cJSON: size cap, no duplicate names, no NUL inside, nothing
 * after the value, and getters that name the field and what was wrong with it.  Pure; used by the
 * parsers of this folder and by whoever reads a JSON file from outside. */
#ifndef COMMON_FORMATS_JSON_GET_H
#define COMMON_FORMATS_JSON_GET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct cJSON;

/* *out is the root, freed by the caller with cJSON_Delete.  what names the text in errors.
 * ST_FORMAT: malformed, duplicate name, too long (cap bytes). */
MUST_CHECK enum status json_parse(struct cJSON **out, const void *text, size_t len, size_t cap,
                                  const char *what);

/* The same for what Python's json writes: Infinity, -Infinity and NaN outside strings are values.
 * The first two are numbers, which the getters find outside their bounds; NaN becomes the string
 * "NaN", which is of the wrong type wherever a number is read. */
MUST_CHECK enum status json_parse_python(struct cJSON **out, const void *text, size_t len,
                                         size_t cap, const char *what);

/* Member of that name, or NULL when it is absent or null. */
const struct cJSON *json_member(const struct cJSON *obj, const char *key);

/* The getters leave *out as it is when the member is absent or null, and fail with ST_FORMAT (wrong
 * type) or ST_RANGE (outside [lo, hi]) otherwise, naming the member. */
MUST_CHECK enum status json_i32(const struct cJSON *obj, const char *key, int32_t lo, int32_t hi,
                                int32_t *out);
MUST_CHECK enum status json_double(const struct cJSON *obj, const char *key, double lo, double hi,
                                   double *out);
MUST_CHECK enum status json_bool(const struct cJSON *obj, const char *key, bool *out);
/* Borrowed from obj. */
MUST_CHECK enum status json_string(const struct cJSON *obj, const char *key, const char **out);

/* ST_FORMAT "KEY is missing" when the member is absent or null. */
MUST_CHECK enum status json_need(const struct cJSON *obj, const char *key);

/* The number as an integer in [0, 2^53]; false when it is none. */
bool json_is_u53(const struct cJSON *item, uint64_t *out);

#endif
