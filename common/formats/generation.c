#include "common/formats/generation.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/formats/json_get.h"
#include "common/mapped_file.h"

enum { MAX_GENERATION = 4 << 20 }; /* bytes of JSON */

static enum status get(const cJSON *root, const char *key, double lo, double hi, bool *has,
                       float *out)
{
    double v = 0;
    TRY(json_double(root, key, lo, hi, &v));
    *has = json_member(root, key) != NULL;
    *out = (float)v;
    return ST_OK;
}

static enum status get_count(const cJSON *root, const char *key, int32_t lo, bool *has,
                             uint32_t *out)
{
    int32_t v = 0;
    TRY(json_i32(root, key, lo, INT32_MAX, &v));
    *has = json_member(root, key) != NULL;
    *out = v > 0 ? (uint32_t)v : 0;
    return ST_OK;
}

static enum status read_all(struct generation_defaults *out, const cJSON *root)
{
    bool said;
    if (!cJSON_IsObject(root))
        FAIL(ST_FORMAT, "not an object");
    TRY(get(root, "temperature", 0, 100, &out->has_temperature, &out->temperature));
    TRY(get(root, "top_p", 1e-6, 1, &out->has_top_p, &out->top_p));
    TRY(get(root, "min_p", 0, 1, &out->has_min_p, &out->min_p));
    TRY(get(root, "repetition_penalty", 0.01, 100, &out->has_repetition_penalty,
            &out->repetition_penalty));
    TRY(get_count(root, "top_k", -1, &out->has_top_k, &out->top_k));
    return get_count(root, "max_new_tokens", 1, &said, &out->max_new);
}

enum status generation_parse(struct generation_defaults *out, const void *text, size_t len)
{
    static const char what[] = "generation_config.json";
    cJSON *root;
    *out = (struct generation_defaults){0};
    TRY(json_parse_python(&root, text, len, MAX_GENERATION, what));
    enum status st = read_all(out, root);
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "%s: %s", what, status_text());
    return ST_OK;
}

enum status generation_load(struct generation_defaults *out, const char *model)
{
    struct mapped_file f;
    char path[4096];
    struct stat sb;
    *out = (struct generation_defaults){0};
    if (stat(model, &sb) != 0 || !S_ISDIR(sb.st_mode))
        return ST_OK;
    if ((size_t)snprintf(path, sizeof path, "%s/generation_config.json", model) >= sizeof path)
        FAIL(ST_RANGE, "the model's path is too long");
    enum status st = mapped_file_open(&f, path);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    st = generation_parse(out, f.data, f.size);
    mapped_file_close(&f);
    return st;
}
