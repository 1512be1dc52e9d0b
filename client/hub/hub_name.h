/* Names of models on a hub: ORG/NAME[@REVISION][:FILE|:QUANT].  Pure. */
#ifndef CLIENT_HUB_HUB_NAME_H
#define CLIENT_HUB_HUB_NAME_H

#include <stdbool.h>

#include "common/status.h"

enum { HUB_REPO_SIZE = 200, HUB_REVISION_SIZE = 200, HUB_FILE_SIZE = 512 };

struct hub_name {
    char repo[HUB_REPO_SIZE];         /* "ORG/NAME" */
    char revision[HUB_REVISION_SIZE]; /* branch, tag or commit; "main" when none is given */
    char pick[HUB_FILE_SIZE];         /* a file of the repository or a quantisation; "" */
};

/* ST_RANGE: it is no such name; in particular parts that are "..", and absolute paths. */
MUST_CHECK enum status hub_name_parse(struct hub_name *out, const char *text);

/* A path that stays in its folder: relative, no part is empty, "." or "..", no backslash, no control
 * characters, shorter than HUB_FILE_SIZE. */
bool hub_path_is_safe(const char *path);

/* Is it the id of a commit: 40 hexadecimal digits in lower case? */
bool hub_is_commit(const char *revision);

#endif
