#include "common/model_path.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum status model_path_exists(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return ST_OK;
    if (errno == ENOENT || errno == ENOTDIR)
        FAIL(ST_NOT_FOUND, "there is no model at %s: " MODEL_SOURCES, path);
    FAIL(ST_IO, "cannot open the model at %s: %s", path, strerror(errno));
}

static bool ends_with_gguf(const char *name)
{
    size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".gguf") == 0;
}

bool model_path_gguf(const char *dir, char name[MODEL_FILE_SIZE])
{
    DIR *d = opendir(dir);
    name[0] = '\0';
    if (!d)
        return false;
    for (struct dirent *e; (e = readdir(d));)
        if (ends_with_gguf(e->d_name) && (!*name || strcmp(e->d_name, name) < 0))
            snprintf(name, MODEL_FILE_SIZE, "%s", e->d_name);
    closedir(d);
    return *name;
}

enum status model_path_check(const char *path)
{
    char config[4096], name[MODEL_FILE_SIZE];
    struct stat st;
    TRY(model_path_exists(path));
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return ST_OK;
    if (snprintf(config, sizeof config, "%s/config.json", path) >= (int)sizeof config)
        FAIL(ST_RANGE, "the model's path is too long");
    if (access(config, F_OK) == 0)
        return ST_OK;
    if (model_path_gguf(path, name))
        FAIL(ST_NOT_FOUND, "%s has no config.json; to use the GGUF file in it give %s/%s", path,
             path, name);
    FAIL(ST_NOT_FOUND, "there is no model in %s, it has no config.json: " MODEL_SOURCES, path);
}
