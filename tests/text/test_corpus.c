/* Runs a fuzz target over its corpus, and over every truncation of each file. */
#include <criterion/criterion.h>
#include <dirent.h>

#include "tests/text/vectors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

Test(corpus, ends_in_a_status)
{
    const char *dir = INGOT_SOURCE_DIR "/tests/fuzz/corpus/" CORPUS;
    DIR *d = opendir(dir);
    int files = 0;
    cr_assert_not_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        size_t n;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        char *bytes = e->d_name[0] == '.' ? NULL : read_all(path, &n);
        for (size_t k = 0; bytes && k <= n; k++) {
            char *cut = malloc(k ? k : 1); /* exactly as long, for the address sanitizer */
            cr_assert_not_null(cut);
            memcpy(cut, bytes, k);
            cr_assert_eq(LLVMFuzzerTestOneInput((const uint8_t *)cut, k), 0);
            free(cut);
        }
        files += bytes != NULL;
        free(bytes);
    }
    closedir(d);
    cr_expect_geq(files, 5);
}
