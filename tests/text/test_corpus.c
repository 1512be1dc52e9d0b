/* Runs a fuzz target over its corpus, and over every truncation of each file. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mapped_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

Test(corpus, ends_in_a_status)
{
    const char *dir = INGOT_SOURCE_DIR "/tests/fuzz/corpus/" CORPUS;
    DIR *d = opendir(dir);
    int files = 0;
    cr_assert_not_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        struct mapped_file f;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        cr_assert_eq(mapped_file_open(&f, path), ST_OK, "%s", status_text());
        for (size_t k = 0; k <= f.size; k++) {
            char *cut = malloc(k ? k : 1); /* exactly as long, for the address sanitizer */
            cr_assert_not_null(cut);
            memcpy(cut, f.data, k);
            cr_assert_eq(LLVMFuzzerTestOneInput((const uint8_t *)cut, k), 0);
            free(cut);
        }
        files++;
        mapped_file_close(&f);
    }
    closedir(d);
    cr_expect_geq(files, 5);
}
