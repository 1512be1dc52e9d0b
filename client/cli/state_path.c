#include "client/cli/state_path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static enum status make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        int rc = mkdir(path, 0700), why = errno;
        *at = '/';
        if (rc != 0 && why != EEXIST)
            FAIL(ST_IO, "cannot make the folder of %s: %s", path, strerror(why));
    }
    return ST_OK;
}

enum status state_path(char path[STATE_PATH], const char *state_home, const char *home,
                       const char *name)
{
    const char *base = state_home && *state_home == '/' ? state_home : home;
    if (!base || *base != '/')
        FAIL(ST_NOT_FOUND, "neither XDG_STATE_HOME nor HOME is set");
    int n = snprintf(path, STATE_PATH, "%s%s/ingot/%s", base,
                     base == state_home ? "" : "/.local/state", name);
    if (n >= STATE_PATH)
        FAIL(ST_RANGE, "the path of the user's state folder is too long");
    return make_folders(path);
}
