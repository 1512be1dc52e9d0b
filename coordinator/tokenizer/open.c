/* Making a tokenizer out of a file, a model directory or memory: finds which loader reads it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/formats/gguf_file.h"
#include "common/mapped_file.h"
#include "common/model_path.h"
#include "coordinator/tokenizer/impl.h"

#define MAX_JSON ((size_t)512 << 20) /* bytes of a tokenizer.json */

enum status tokenizer_from_json(struct tokenizer **out, const char *data, size_t len,
                                const char *config, size_t config_len)
{
    TRY(tokenizer_create(out));
    struct tokenizer *t = *out;
    enum status st = ST_OK;
    if (len > MAX_JSON)
        st = status_fail(ST_RANGE, __FILE__, __LINE__, "a tokenizer.json of %zu bytes is too large",
                         len);
    if (st == ST_OK)
        st = load_json(t, data, len);
    if (st == ST_OK && config)
        st = load_config(t, config, config_len);
    else if (st == ST_OK && t->n_head)
        t->specials.bos = t->head[0];
    if (st == ST_OK)
        st = tokenizer_finish(t);
    if (st != ST_OK) {
        tokenizer_destroy(t);
        *out = NULL;
    }
    return st;
}

enum status tokenizer_from_gguf(struct tokenizer **out, const struct gguf *g)
{
    TRY(tokenizer_create(out));
    enum status st = load_gguf(*out, g);
    if (st == ST_OK)
        st = tokenizer_finish(*out);
    if (st != ST_OK) {
        tokenizer_destroy(*out);
        *out = NULL;
    }
    return st;
}

/* ---- files ---- */

static enum status open_gguf(struct tokenizer **out, const char *path)
{
    struct gguf_file *f;
    TRY(gguf_file_open(&f, path));
    enum status st = tokenizer_from_gguf(out, gguf_file_model(f));
    gguf_file_close(f);
    return st;
}

static enum status open_json(struct tokenizer **out, const char *path, const char *config_path)
{
    struct mapped_file f, config;
    struct stat st_config;
    bool has_config = config_path && stat(config_path, &st_config) == 0;
    TRY(mapped_file_open(&f, path));
    enum status st = has_config ? mapped_file_open(&config, config_path) : ST_OK;
    if (st == ST_OK) {
        st = tokenizer_from_json(out, (const char *)f.data, f.size,
                                 has_config ? (const char *)config.data : NULL,
                                 has_config ? config.size : 0);
        if (has_config)
            mapped_file_close(&config);
    }
    mapped_file_close(&f);
    return st;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* The first .gguf file of a directory in the order of names, or ST_NOT_FOUND.  Parts of a split
 * file all carry the same vocabulary in the first part. */
static enum status find_gguf(const char *dir, char *path, size_t size)
{
    char best[MODEL_FILE_SIZE];
    if (!model_path_gguf(dir, best))
        FAIL(ST_NOT_FOUND, "%s holds neither a tokenizer.json nor a .gguf file: " MODEL_SOURCES,
             dir);
    if (snprintf(path, size, "%s/%s", dir, best) >= (int)size)
        FAIL(ST_RANGE, "%s: the path is too long", dir);
    return ST_OK;
}

static enum status open_directory(struct tokenizer **out, const char *dir)
{
    char path[4096], config[4096];
    struct stat st;
    if (snprintf(path, sizeof path, "%s/tokenizer.json", dir) >= (int)sizeof path ||
        snprintf(config, sizeof config, "%s/tokenizer_config.json", dir) >= (int)sizeof config)
        FAIL(ST_RANGE, "%s: the path is too long", dir);
    if (stat(path, &st) == 0)
        return open_json(out, path, config);
    TRY(find_gguf(dir, path, sizeof path));
    return open_gguf(out, path);
}

static bool begins_as_gguf(const char *path)
{
    char magic[4] = {0};
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(magic, 1, sizeof magic, f) : 0;
    if (f)
        fclose(f);
    return n == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
}

enum status tokenizer_open(struct tokenizer **out, const char *path)
{
    struct stat st;
    *out = NULL;
    TRY(model_path_exists(path));
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_directory(out, path);
    if (ends_with(path, ".gguf") || begins_as_gguf(path))
        return open_gguf(out, path);
    /* A tokenizer.json given by itself: its neighbour says which tokens are BOS and EOS. */
    char config[4096];
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    bool fits = snprintf(config, sizeof config, "%.*stokenizer_config.json", dir, path) <
                (int)sizeof config;
    return open_json(out, path, fits ? config : NULL);
}
