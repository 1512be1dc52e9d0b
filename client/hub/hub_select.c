#include "client/hub/hub_select.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_PARTS = 99999 };

/* ---- lists ---- */

enum status hub_files_add(struct hub_files *f, const char *path, uint64_t size, const char *digest)
{
    if (f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 32;
        struct hub_file *v = realloc(f->v, cap * sizeof *v);
        if (!v)
            FAIL(ST_NOMEM, "no memory for a list of %zu files", cap);
        f->v = v;
        f->cap = cap;
    }
    struct hub_file *file = &f->v[f->n++];
    *file = (struct hub_file){.size = size};
    snprintf(file->path, sizeof file->path, "%s", path);
    snprintf(file->digest, sizeof file->digest, "%s", digest);
    return ST_OK;
}

void hub_files_free(struct hub_files *f)
{
    free(f->v);
    *f = (struct hub_files){.n = 0};
}

/* ---- names of files ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && strcasecmp(s + n - m, end) == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A language model; mmproj files are parts of models for pictures. */
static bool is_gguf(const char *path)
{
    return ends_with(path, ".gguf") && strncasecmp(base_name(path), "mmproj", 6) != 0;
}

static bool runs_code(const char *path)
{
    return ends_with(path, ".bin") || ends_with(path, ".pt") || ends_with(path, ".pth") ||
           ends_with(path, ".ckpt") || ends_with(path, ".pkl") || ends_with(path, ".py");
}

/* "STEM-00002-of-00003.gguf": the part's number from 1 and the number of parts; n_stem bytes come
 * before.  A whole file is part 1 of 1. */
struct part {
    unsigned i, n;
    size_t n_stem;
};

static struct part part_of(const char *path)
{
    struct part p = {1, 1, strlen(path)};
    const char *dot = strrchr(path, '.');
    unsigned i, n;
    int used = 0;
    if (dot && dot - path > 15 && sscanf(dot - 15, "-%5u-of-%5u%n", &i, &n, &used) == 2 &&
        used == 15 && i >= 1 && i <= n)
        p = (struct part){i, n, (size_t)(dot - 15 - path)};
    return p;
}

/* Does the name have the quantisation between two characters that are not part of one? */
static bool has_quant(const char *path, const char *quant)
{
    size_t n = strlen(quant);
    for (const char *c = path; *c; c++)
        if (strncasecmp(c, quant, n) == 0 && (c == path || strchr("-._/", c[-1])) &&
            (!c[n] || strchr("-./", c[n])))
            return true;
    return false;
}

/* ---- choices ---- */

/* The file with all its parts. */
static enum status choose_parts(struct hub_files *f, const char *path, const char **first)
{
    struct part p = part_of(path);
    unsigned found = 0;
    for (size_t i = 0; i < f->n; i++) {
        struct hub_file *file = &f->v[i];
        struct part q = part_of(file->path);
        bool same = q.n == p.n && q.n_stem == p.n_stem &&
                    strncmp(file->path, path, p.n_stem) == 0 &&
                    strcmp(strrchr(file->path, '.'), strrchr(path, '.')) == 0;
        if (!same || (p.n == 1 && strcmp(file->path, path) != 0))
            continue;
        file->chosen = true;
        found++;
        if (q.i == 1 && first)
            *first = file->path;
    }
    if (found != p.n)
        FAIL(ST_FORMAT, "%s: of its %u parts there are %u", path, p.n, found);
    return ST_OK;
}

static bool is_choice(const struct hub_file *f, const char *quant)
{
    return is_gguf(f->path) && part_of(f->path).i == 1 && (!quant || has_quant(f->path, quant));
}

/* The GGUF files of that quantisation (NULL: any): how many, and one of them. */
static size_t count_gguf(const struct hub_files *f, const char *quant, const char **one)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (is_choice(&f->v[i], quant)) {
            *one = f->v[i].path;
            n++;
        }
    return n;
}

/* "model.safetensors" and its parts; other names are other copies of the weights where these are there. */
static bool is_usual_weights(const char *path)
{
    return ends_with(path, ".safetensors") && strncmp(path, "model", 5) == 0 &&
           (path[5] == '.' || (path[5] == '-' && part_of(path).n_stem == 5));
}

static bool has_folder(const struct hub_files *f, bool *usual)
{
    bool config = false, weights = false;
    *usual = false;
    for (size_t i = 0; i < f->n; i++) {
        const char *path = f->v[i].path;
        config = config || strcmp(path, "config.json") == 0;
        weights = weights || (ends_with(path, ".safetensors") && !strchr(path, '/'));
        *usual = *usual || is_usual_weights(path);
    }
    return config && weights;
}

/* Of a module of the sentence-transformers library, "1_Pooling/config.json" or "2_Dense/model.safetensors". */
static bool is_of_module(const char *path)
{
    const char *file = strchr(path, '/');
    size_t digits = strspn(path, "0123456789");
    return file && digits > 0 && path[digits] == '_' &&
           (strcmp(file, "/config.json") == 0 || strcmp(file, "/model.safetensors") == 0);
}

static bool has_file(const struct hub_files *f, const char *path)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->v[i].path, path) == 0)
            return true;
    return false;
}

static enum status choose_folder(struct hub_files *f, bool usual)
{
    bool modules = has_file(f, "modules.json");
    for (size_t i = 0; i < f->n; i++) {
        struct hub_file *file = &f->v[i];
        bool weights = ends_with(file->path, ".safetensors");
        if (strchr(file->path, '/')) {
            file->chosen = modules && is_of_module(file->path);
            continue;
        }
        if (weights && (!usual || is_usual_weights(file->path)))
            TRY(choose_parts(f, file->path, NULL));
        if (ends_with(file->path, ".json") || ends_with(file->path, ".jinja") ||
            strcmp(file->path, "merges.txt") == 0)
            file->chosen = true;
    }
    return ST_OK;
}

static enum status select_default(struct hub_files *f, const char *repo, const char **model)
{
    bool usual;
    *model = "";
    if (has_folder(f, &usual))
        return choose_folder(f, usual);
    const char *one = NULL;
    size_t n = count_gguf(f, "Q4_K_M", &one);
    if (n == 0)
        n = count_gguf(f, NULL, &one);
    if (n == 0)
        FAIL(ST_NOT_FOUND, "%s has neither safetensors nor GGUF files", repo);
    if (n > 1)
        FAIL(ST_NOT_FOUND, "%s has several GGUF files: add :QUANT or :FILE to its name", repo);
    return choose_parts(f, one, model);
}

enum status hub_select(struct hub_files *f, const char *repo, const char *pick, const char **model)
{
    const char *one = NULL;
    for (size_t i = 0; i < f->n; i++)
        f->v[i].chosen = false;
    if (!*pick)
        return select_default(f, repo, model);
    if (runs_code(pick))
        FAIL(ST_UNSUPPORTED, "%s: such files may run code when they are opened, and are refused",
             pick);
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->v[i].path, pick) == 0) {
            if (!is_gguf(pick))
                FAIL(ST_UNSUPPORTED,
                     "%s is not a GGUF file; %s without a file is its safetensors folder", pick,
                     repo);
            return choose_parts(f, pick, model);
        }
    size_t n = count_gguf(f, pick, &one);
    if (n == 0)
        FAIL(ST_NOT_FOUND, "%s has no file '%s', and no GGUF file of that quantisation", repo,
             pick);
    if (n > 1)
        FAIL(ST_NOT_FOUND, "%s has several GGUF files with %s: name one", repo, pick);
    return choose_parts(f, one, model);
}

/* ---- texts ---- */

const char *hub_size_text(uint64_t bytes, char out[32])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)bytes;
    size_t i = 0;
    while (v >= 999.5 && i + 1 < ARRAY_LEN(units)) {
        v /= 1000.0;
        i++;
    }
    snprintf(out, 32, i && v < 99.5 ? "%.1f %s" : "%.0f %s", v, units[i]);
    return out;
}

void hub_print_choices(FILE *to, const struct hub_files *f)
{
    char text[32];
    for (size_t i = 0; i < f->n; i++) {
        struct part p = part_of(f->v[i].path);
        uint64_t size = 0;
        if (!is_choice(&f->v[i], NULL))
            continue;
        for (size_t k = 0; k < f->n; k++) {
            struct part q = part_of(f->v[k].path);
            if (k == i || (p.n > 1 && q.n == p.n && q.n_stem == p.n_stem &&
                           strncmp(f->v[k].path, f->v[i].path, p.n_stem) == 0))
                size += f->v[k].size;
        }
        fprintf(to, "  %-60s %s\n", f->v[i].path, hub_size_text(size, text));
    }
}
