/* A model's configuration out of its directory (config.json) or its GGUF file. */
#include <stdio.h>
#include <sys/stat.h>

#include "common/formats/gguf_file.h"
#include "common/formats/model_config.h"
#include "common/mapped_file.h"
#include "common/model_path.h"

static enum status load_directory(struct model_config *out, const char *dir)
{
    struct mapped_file config, generation;
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/config.json", dir) >= sizeof path - 32)
        FAIL(ST_RANGE, "the model's path is too long");
    TRY(mapped_file_open(&config, path));
    snprintf(path, sizeof path, "%s/generation_config.json", dir);
    enum status st = mapped_file_open(&generation, path);
    if (st == ST_NOT_FOUND)
        st = model_config_parse(out, config.data, config.size, NULL, 0);
    else if (st == ST_OK)
        st = model_config_parse(out, config.data, config.size, generation.data, generation.size);
    mapped_file_close(&config);
    mapped_file_close(&generation);
    return st;
}

static enum status load_gguf(struct model_config *out, const char *path)
{
    struct gguf_file *f;
    TRY(gguf_file_open(&f, path));
    enum status st = model_config_from_gguf(out, gguf_file_model(f));
    gguf_file_close(f);
    if (st != ST_OK)
        FAIL(st, "%s: %s", path, status_text());
    return ST_OK;
}

enum status model_config_load(struct model_config *out, const char *path)
{
    struct stat st;
    TRY(model_path_check(path));
    bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    return is_dir ? load_directory(out, path) : load_gguf(out, path);
}
