/* Folders of this user for files that can be made anew. */
#ifndef COMMON_CACHE_DIR_H
#define COMMON_CACHE_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* XDG_CACHE_HOME/ingot/WHAT, else HOME/.cache/ingot/WHAT (macOS: HOME/Library/Caches/ingot/WHAT) into out [n];
 * false and "": both are NULL or empty, or the path is too long.  The values of the environment;
 * XDG_CACHE_HOME counts when it is an absolute path. */
bool cache_dir_of(const char *xdg_cache_home, const char *home, const char *what, char *out,
                  size_t n);

/* Makes the folder and those above it that are missing; false: errno says why not. */
bool cache_dir_make(const char *dir);

#endif
