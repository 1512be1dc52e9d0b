/* JSON values as bytes of a SHA-256, so that the order of members and the layout of the text do not
 * matter.  Pure. */
#ifndef COMMON_DIGEST_JSON_DIGEST_H
#define COMMON_DIGEST_JSON_DIGEST_H

#include "common/sha256.h"
#include "common/status.h"

struct cJSON;

/* Type, then: a number's bits; a text's length and bytes; a list's length and elements; an object's
 * number of members and each name and value by ascending names.  ST_NOMEM. */
MUST_CHECK enum status json_digest(struct sha256 *s, const struct cJSON *value);

#endif
