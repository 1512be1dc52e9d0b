/* Making a tokenizer out of a file, a model directory or memory: finds which loader reads it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/formats/gguf_file.h"
#include "common/log.h"
#include "common/mapped_file.h"
#include "common/model_path.h"
#include "coordinator/tokenizer/impl.h"

#define MAX_JSON ((size_t)512 << 20) /* bytes of a tokenizer.json */

/* What the loaders have in common behind them; st: how the loader ended. */
static enum status finish(struct tokenizer **out, enum status st)
{
    if (st == ST_OK)
        st = tokenizer_finish(*out);
    if (st != ST_OK) {
        tokenizer_destroy(*out);
        *out = NULL;
    }
    return st;
}

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
    return finish(out, st);
}

enum status tokenizer_from_gguf(struct tokenizer **out, const struct gguf *g)
{
    TRY(tokenizer_create(out));
    return finish(out, load_gguf(*out, g));
}

enum status tokenizer_from_tekken(struct tokenizer **out, const char *data, size_t len)
{
    TRY(tokenizer_create(out));
    return finish(out, load_tekken(*out, data, len));
}

enum status tokenizer_from_tiktoken(struct tokenizer **out, const char *data, size_t len,
                                    const char *config, size_t config_len)
{
    TRY(tokenizer_create(out));
    return finish(out, load_tiktoken(*out, data, len, config, config_len));
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

static enum status open_tekken(struct tokenizer **out, const char *path)
{
    struct mapped_file f;
    TRY(mapped_file_open(&f, path));
    enum status st = tokenizer_from_tekken(out, (const char *)f.data, f.size);
    mapped_file_close(&f);
    return st;
}

static enum status open_tiktoken(struct tokenizer **out, const char *path, const char *config_path)
{
    struct mapped_file f, config;
    TRY(mapped_file_open(&config, config_path));
    enum status st = mapped_file_open(&f, path);
    if (st == ST_OK) {
        st = tokenizer_from_tiktoken(out, (const char *)f.data, f.size, (const char *)config.data,
                                     config.size);
        mapped_file_close(&f);
    }
    mapped_file_close(&config);
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

/* PATH/name; false: there is no such file. */
static bool has_file(char *path, size_t size, const char *dir, const char *name)
{
    struct stat st;
    return (size_t)snprintf(path, size, "%s/%s", dir, name) < size && stat(path, &st) == 0;
}

static enum status open_directory(struct tokenizer **out, const char *dir)
{
    char path[4096], config[4096];
    if (strlen(dir) + 32 > sizeof path)
        FAIL(ST_RANGE, "%s: the path is too long", dir);
    snprintf(config, sizeof config, "%s/tokenizer_config.json", dir);
    if (has_file(path, sizeof path, dir, "tokenizer.json"))
        return open_json(out, path, config);
    if (has_file(path, sizeof path, dir, "tekken.json"))
        return open_tekken(out, path);
    if (has_file(path, sizeof path, dir, "tiktoken.model"))
        return open_tiktoken(out, path, config);
    bool of_hf = has_file(path, sizeof path, dir, "config.json");
    TRY(find_gguf(dir, path, sizeof path));
    if (of_hf)
        log_line(LOG_WARN, "%s has no tokenizer.json: the tokenizer of %s is used", dir, path);
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
    if (ends_with(path, "tekken.json"))
        return open_tekken(out, path);
    /* A tokenizer.json given by itself: its neighbour says which tokens are BOS and EOS. */
    char config[4096];
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    bool fits = snprintf(config, sizeof config, "%.*stokenizer_config.json", dir, path) <
                (int)sizeof config;
    return open_json(out, path, fits ? config : NULL);
}
