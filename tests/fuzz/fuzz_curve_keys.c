/* Any bytes as a list of keys and as a key file: parsed or refused. */
#include <stdint.h>
#include <stdlib.h>

#include "common/wire/key_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct key_list list;
    struct curve_pair pair;
    if (key_list_parse(&list, (const char *)data, size) == ST_OK) {
        for (size_t i = 0; i < list.n; i++)
            if (key_list_find(&list, list.grant[i].key) != &list.grant[i])
                abort();
        key_list_free(&list);
    }
    if (curve_pair_parse(&pair, (const char *)data, size, true) == ST_OK &&
        !curve_public_is_good(pair.public_key))
        abort();
    return 0;
}
