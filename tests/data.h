/* Where the tests find their data: shared_data("models/stories260K/config.json") gives a path in
 * the folder named by INGOT_DATA, or in ../shared/data beside the source tree, or NULL when there
 * is none; own_data("x") gives a path in tests/data.  The string is valid until the next call but
 * three. */
#ifndef TESTS_DATA_H
#define TESTS_DATA_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline const char *data_path(const char *root, const char *name)
{
    static char paths[4][1024];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", root, name);
    return access(p, R_OK) == 0 ? p : NULL;
}

static inline const char *shared_data(const char *name)
{
    const char *root = getenv("INGOT_DATA");
    return data_path(root ? root : INGOT_SOURCE_DIR "/../shared/data", name);
}

static inline const char *own_data(const char *name)
{
    return data_path(INGOT_SOURCE_DIR "/tests/data", name);
}

#endif
