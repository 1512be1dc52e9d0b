#include "common/formats/safetensors_index.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/json_get.h"

enum { MAX_INDEX = 32 << 20 }; /* bytes of JSON */

static int row_by_tensor(const void *a, const void *b)
{
    return strcmp(((const struct st_index_row *)a)->tensor,
                  ((const struct st_index_row *)b)->tensor);
}

static int string_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A file beside the index: no directory, no way out of it, no hidden file. */
static bool plain_file_name(const char *s)
{
    return *s && *s != '.' && strlen(s) < 200 && !strchr(s, '/') && !strchr(s, '\\');
}

static char *keep(char **at, const char *s)
{
    size_t n = strlen(s) + 1;
    char *p = memcpy(*at, s, n);
    *at += n;
    return p;
}

static enum status read_map(struct st_index *ix, const cJSON *map, const char *what)
{
    const cJSON *c;
    size_t n = 0, n_names = 0;
    cJSON_ArrayForEach(c, map)
    {
        if (!cJSON_IsString(c) || !plain_file_name(c->valuestring))
            FAIL(ST_FORMAT,
                 "%s: the file of tensor %.200s is \"%.200s\": it must be a file name "
                 "without a directory",
                 what, c->string, cJSON_IsString(c) ? c->valuestring : "?");
        n_names += strlen(c->string) + strlen(c->valuestring) + 2;
        n++;
    }
    if (n == 0)
        FAIL(ST_FORMAT, "%s: weight_map is empty", what);
    ix->row = calloc(n, sizeof *ix->row);
    ix->file = calloc(n, sizeof *ix->file);
    ix->names = malloc(n_names);
    if (!ix->row || !ix->file || !ix->names)
        FAIL(ST_NOMEM, "%s: no memory for %zu tensors", what, n);
    char *at = ix->names;
    cJSON_ArrayForEach(c, map)
    {
        ix->file[ix->n] = keep(&at, c->valuestring);
        ix->row[ix->n++].tensor = keep(&at, c->string);
    }
    qsort(ix->file, n, sizeof *ix->file, string_order);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(ix->file[i], ix->file[ix->n_files - 1]) != 0)
            ix->file[ix->n_files++] = ix->file[i];
    n = 0;
    cJSON_ArrayForEach(c, map)
    {
        const char *name = c->valuestring;
        const char **f = bsearch(&name, ix->file, (size_t)ix->n_files, sizeof *f, string_order);
        ix->row[n++].file = (int32_t)(f - ix->file);
    }
    qsort(ix->row, n, sizeof *ix->row, row_by_tensor);
    return ST_OK;
}

enum status st_index_parse(struct st_index *out, const void *text, size_t len, const char *what)
{
    cJSON *root;
    enum status st = ST_OK;
    memset(out, 0, sizeof *out);
    TRY(json_parse(&root, text, len, MAX_INDEX, what));
    const cJSON *map = json_member(root, "weight_map");
    if (map && cJSON_IsObject(map))
        st = read_map(out, map, what);
    else
        st = status_fail(ST_FORMAT, __FILE__, __LINE__, "%s has no weight_map", what);
    cJSON_Delete(root);
    if (st != ST_OK)
        st_index_fini(out);
    return st;
}

void st_index_fini(struct st_index *ix)
{
    free(ix->row);
    free(ix->file);
    free(ix->names);
    memset(ix, 0, sizeof *ix);
}
