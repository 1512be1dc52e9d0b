/* GGUF models in several files: the keys split.*, and the joining of all parts' tensor tables.
 * Called by gguf.c and gguf_file.c. */
#include <stdlib.h>
#include <string.h>

#include "common/formats/gguf_impl.h"

enum { MAX_PARTS = 99999 }; /* file names have five digits */

static enum status part_number(const struct gguf *g, const char *key, uint64_t max, uint64_t *v)
{
    if (!gguf_has(g, key))
        FAIL(ST_FORMAT, "gguf: a part of a split model has no %s", key);
    TRY(gguf_get_u64(g, key, v));
    if (*v > max)
        FAIL(ST_FORMAT, "gguf: %s is %llu, more than %llu", key, (unsigned long long)*v,
             (unsigned long long)max);
    return ST_OK;
}

enum status gguf_read_part(struct gguf *g)
{
    g->n_parts = 1;
    if (!gguf_has(g, "split.count"))
        return ST_OK;
    TRY(part_number(g, "split.count", MAX_PARTS, &g->n_parts));
    if (g->n_parts < 2) { /* tools write 0 and 1 for a whole model */
        g->n_parts = 1;
        return ST_OK;
    }
    TRY(part_number(g, "split.no", g->n_parts - 1, &g->part));
    return part_number(g, "split.tensors.count", GGUF_MAX_TENSORS, &g->n_all_tensors);
}

bool gguf_is_part(const struct gguf *g)
{
    return g->n_parts > 1;
}

static enum status check_part(const struct gguf *g, const struct gguf *first, size_t i)
{
    if (g->part != i)
        FAIL(ST_FORMAT, "gguf: part %zu says that it is part %llu", i + 1,
             (unsigned long long)g->part + 1);
    if (g->n_parts != first->n_parts)
        FAIL(ST_FORMAT, "gguf: part %zu is of a model in %llu files, part 1 of one in %llu", i + 1,
             (unsigned long long)g->n_parts, (unsigned long long)first->n_parts);
    if (g->n_all_tensors != first->n_all_tensors)
        FAIL(ST_FORMAT, "gguf: part %zu is of a model of %llu tensors, part 1 of one of %llu",
             i + 1, (unsigned long long)g->n_all_tensors, (unsigned long long)first->n_all_tensors);
    return ST_OK;
}

enum status gguf_join(struct gguf *const *part, size_t n)
{
    struct gguf *first = part[0];
    size_t n_tensors = 0;
    if (n != first->n_parts)
        FAIL(ST_FORMAT, "gguf: %zu parts of a model in %llu files", n,
             (unsigned long long)first->n_parts);
    for (size_t i = 0; i < n; i++) {
        TRY(check_part(part[i], first, i));
        n_tensors += part[i]->n_tensors;
    }
    if (n_tensors != first->n_all_tensors)
        FAIL(ST_FORMAT, "gguf: the %zu parts have %zu tensors, split.tensors.count is %llu", n,
             n_tensors, (unsigned long long)first->n_all_tensors);
    struct gguf_tensor *all = calloc(n_tensors ? n_tensors : 1, sizeof *all);
    if (!all)
        FAIL(ST_NOMEM, "gguf: no memory for %zu tensors", n_tensors);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (part[i]->n_tensors)
            memcpy(all + at, part[i]->tensors, part[i]->n_tensors * sizeof *all);
        at += part[i]->n_tensors;
        free(part[i]->tensors);
        part[i]->tensors = NULL;
        part[i]->n_tensors = 0;
    }
    first->tensors = all;
    first->n_tensors = n_tensors;
    first->n_parts = 1;
    return gguf_sort_tensors(first);
}
