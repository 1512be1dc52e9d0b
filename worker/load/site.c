#include "worker/load/site.h"

#include <string.h>

enum { NAME_SIZE = 256 };

/* false: the pattern does not end in "weight". */
static bool beside(char out[NAME_SIZE], const char *pattern, const char *end)
{
    size_t n = strlen(pattern), m = strlen("weight"), more = strlen(end) + 1;
    if (n < m || n - m + more > NAME_SIZE || strcmp(pattern + n - m, "weight") != 0)
        return false;
    memcpy(out, pattern, n - m);
    memcpy(out + n - m, end, more);
    return true;
}

bool site_has(const struct loader *ld, const char *pattern, int32_t layer, int32_t expert,
              const char *end, struct stored_tensor *out)
{
    char name[NAME_SIZE];
    return beside(name, pattern, end) && loader_has(ld, name, layer, expert, out);
}

enum status site_part(const struct site *s, const char *end, const char *type, uint64_t rows,
                      uint64_t cols, struct stored_tensor *out)
{
    char name[NAME_SIZE];
    const uint64_t shape[2] = {rows ? rows : 1, cols};
    int32_t n_dims = cols ? 2 : 1;
    if (!beside(name, s->pattern, end))
        FAIL(ST_UNSUPPORTED, "tensor %s: what it is quantised with has no name", s->pattern);
    if (rows == 0 && loader_has(s->ld, name, s->layer, s->expert, out) && out->n_dims == 0)
        n_dims = 0;
    return loader_parts(s->ld, name, type, s->layer, s->expert, n_dims, shape, out);
}
