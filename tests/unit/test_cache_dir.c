/* The user's cache folder by the environment's values. */
#include "common/cache_dir.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "temp_dir.h"

Test(cache_dir, by_the_environment)
{
    char dir[64];
    cr_assert(cache_dir_of("/c", "/h", "what", dir, sizeof dir));
    cr_assert_str_eq(dir, "/c/ingot/what");
    static const char *const not_absolute[] = {NULL, "", "c"};
    for (int i = 0; i < 3; i++) {
        cr_assert(cache_dir_of(not_absolute[i], "/h", "what", dir, sizeof dir));
#ifdef __APPLE__
        cr_assert_str_eq(dir, "/h/Library/Caches/ingot/what");
#else
        cr_assert_str_eq(dir, "/h/.cache/ingot/what");
#endif
        cr_assert_not(cache_dir_of(not_absolute[i], NULL, "what", dir, sizeof dir));
        cr_assert_str_eq(dir, "");
        cr_assert_not(cache_dir_of(not_absolute[i], "", "what", dir, sizeof dir));
    }
}

Test(cache_dir, a_path_that_is_too_long_is_none)
{
    char dir[sizeof "/c/ingot/what"];
    cr_assert(cache_dir_of("/c", NULL, "what", dir, sizeof dir));
    cr_assert_not(cache_dir_of("/cc", NULL, "what", dir, sizeof dir));
    cr_assert_str_eq(dir, "");
}

Test(cache_dir, folders_are_made)
{
    char root[32], dir[64], file[64];
    struct stat st;
    temp_dir_make(root);
    snprintf(dir, sizeof dir, "%s/a/b/c", root);
    snprintf(file, sizeof file, "%s/file", root);
    cr_assert(cache_dir_make(dir) && cache_dir_make(dir));
    cr_assert(stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700);
    FILE *f = fopen(file, "w");
    cr_assert(f && fclose(f) == 0);
    strcat(file, "/below");
    cr_assert_not(cache_dir_make(file));
    cr_assert_eq(errno, ENOTDIR);
    temp_dir_remove(root);
}
