#include "common/cache_dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#ifdef __APPLE__
#define BELOW_HOME "/Library/Caches"
#else
#define BELOW_HOME "/.cache"
#endif

enum { MAX_PATH = 4096 };

bool cache_dir_of(const char *xdg_cache_home, const char *home, const char *what, char *out,
                  size_t n)
{
    bool xdg = xdg_cache_home && *xdg_cache_home == '/';
    out[0] = '\0';
    if (!xdg && (!home || !*home))
        return false;
    int k =
        snprintf(out, n, "%s%s/ingot/%s", xdg ? xdg_cache_home : home, xdg ? "" : BELOW_HOME, what);
    if (k < 0 || (size_t)k >= n)
        out[0] = '\0';
    return *out;
}

bool cache_dir_make(const char *dir)
{
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s", dir);
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(path, 0700); /* the last one tells */
        *p = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}
