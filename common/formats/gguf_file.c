#include "common/formats/gguf_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mapped_file.h"

enum { ENDING = 20 }; /* "-00001-of-00003.gguf" */

struct gguf_file {
    struct mapped_file *map; /* [n] */
    struct gguf **part;      /* [n]; the first is the model */
    size_t n;
};

static int five_digits(const char *s)
{
    int v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9')
            return 0;
        v = 10 * v + s[i] - '0';
    }
    return v;
}

bool gguf_parse_part_name(const char *path, struct gguf_part_name *out)
{
    size_t n = strlen(path);
    if (n <= ENDING || n > 4000)
        return false;
    const char *s = path + n - ENDING;
    if (s[0] != '-' || memcmp(s + 6, "-of-", 4) != 0 || strcmp(s + 15, ".gguf") != 0)
        return false;
    *out = (struct gguf_part_name){(int)(n - ENDING), five_digits(s + 1), five_digits(s + 10)};
    return out->part > 0 && out->part <= out->count;
}

static enum status open_part(struct gguf_file *f, size_t i, const char *path)
{
    TRY(mapped_file_open(&f->map[i], path));
    enum status st = gguf_parse(&f->part[i], f->map[i].data, f->map[i].size);
    if (st != ST_OK)
        FAIL(st, "%s: %s", path, status_text());
    return ST_OK;
}

static enum status make_room(struct gguf_file *f, size_t n)
{
    f->map = calloc(n, sizeof *f->map);
    f->part = calloc(n, sizeof *f->part);
    if (!f->map || !f->part)
        FAIL(ST_NOMEM, "no memory for the %zu parts of a model", n);
    f->n = n;
    return ST_OK;
}

static void release(struct gguf_file *f)
{
    for (size_t i = 0; i < f->n; i++) {
        gguf_free(f->part[i]);
        mapped_file_close(&f->map[i]);
    }
    free(f->part);
    free(f->map);
    *f = (struct gguf_file){0};
}

static enum status open_parts(struct gguf_file *f, const char *path,
                              const struct gguf_part_name *name)
{
    release(f);
    TRY(make_room(f, (size_t)name->count));
    for (int i = 0; i < name->count; i++) {
        char part[4100];
        snprintf(part, sizeof part, "%.*s-%05d-of-%05d.gguf", name->stem, path, i + 1, name->count);
        enum status st = open_part(f, (size_t)i, part);
        if (st == ST_NOT_FOUND)
            FAIL(st, "%s: part %d of %d is missing: %s", path, i + 1, name->count, part);
        if (st != ST_OK)
            return st;
        if (!gguf_is_part(f->part[i]))
            FAIL(ST_FORMAT, "%s is named as part %d of %d, but it holds no split.count", part,
                 i + 1, name->count);
    }
    enum status st = gguf_join(f->part, f->n);
    if (st != ST_OK)
        FAIL(st, "%s: %s", path, status_text());
    return ST_OK;
}

static enum status open_all(struct gguf_file *f, const char *path)
{
    struct gguf_part_name name;
    uint64_t count = 0;
    TRY(make_room(f, 1));
    TRY(open_part(f, 0, path));
    if (!gguf_is_part(f->part[0]))
        return ST_OK;
    TRY(gguf_get_u64(f->part[0], "split.count", &count));
    if (!gguf_parse_part_name(path, &name))
        FAIL(ST_FORMAT,
             "%s is one of the %llu parts of a model, but its name does not end in "
             "-00001-of-%05llu.gguf or the like, by which the others are found",
             path, (unsigned long long)count, (unsigned long long)count);
    if ((uint64_t)name.count != count)
        FAIL(ST_FORMAT, "%s says that it is one of %llu parts, its name that it is one of %d", path,
             (unsigned long long)count, name.count);
    return open_parts(f, path, &name);
}

enum status gguf_file_open(struct gguf_file **out, const char *path)
{
    *out = NULL;
    struct gguf_file *f = calloc(1, sizeof *f);
    if (!f)
        FAIL(ST_NOMEM, "no memory");
    enum status st = open_all(f, path);
    if (st != ST_OK) {
        gguf_file_close(f);
        return st;
    }
    *out = f;
    return ST_OK;
}

void gguf_file_close(struct gguf_file *f)
{
    if (!f)
        return;
    release(f);
    free(f);
}

const struct gguf *gguf_file_model(const struct gguf_file *f)
{
    return f->part[0];
}

size_t gguf_file_parts(const struct gguf_file *f)
{
    return f->n;
}
