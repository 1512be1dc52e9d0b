/* A file of API keys: what is accepted has sorted ids of their form, good names and numbers within bounds, and is found. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/keys/key_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check(const struct key_file *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct key_record *r = &f->key[i];
        must(strlen(r->id) == KEY_ID_SIZE - 1);
        must(i == 0 || strcmp(f->key[i - 1].id, r->id) < 0);
        must(key_name_is_good(r->name) && key_name_is_good(r->tenant));
        must(r->priority >= -KEY_MAX_PRIORITY && r->priority <= KEY_MAX_PRIORITY);
        must(key_file_find(f, r->id) == r && !key_matches(r, "ingot-0-0"));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct key_file keys;
    if (size == 0) /* fmemopen takes no empty memory */
        return 0;
    FILE *f = fmemopen((void *)(uintptr_t)data, size, "r");
    must(f);
    if (key_file_read(&keys, f, "keys") == ST_OK) {
        check(&keys);
        key_file_free(&keys);
    }
    must(keys.n == 0 && !keys.key);
    fclose(f);
    return 0;
}
