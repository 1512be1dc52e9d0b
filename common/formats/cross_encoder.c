#include "common/formats/cross_encoder.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"
#include "common/mapped_file.h"

/* sentence-transformers from version 4 on; before, one key of the root. */
static enum status read_act(bool *sigmoid, const cJSON *root)
{
    static const struct {
        const char *name;
        bool sigmoid;
    } acts[] = {{"torch.nn.modules.activation.Sigmoid", true},
                {"torch.nn.modules.linear.Identity", false}};
    const cJSON *own = json_member(root, "sentence_transformers");
    const char *name = NULL;
    if (own && !cJSON_IsObject(own))
        FAIL(ST_FORMAT, "sentence_transformers must be an object");
    TRY(json_string(root, "sbert_ce_default_activation_function", &name));
    if (own)
        TRY(json_string(own, "activation_fn", &name));
    for (size_t i = 0; name && i < ARRAY_LEN(acts); i++)
        if (strcmp(name, acts[i].name) == 0) {
            *sigmoid = acts[i].sigmoid;
            return ST_OK;
        }
    if (name)
        FAIL(ST_UNSUPPORTED, "the activation function %.100s of a reranker is not supported", name);
    return ST_OK;
}

enum status cross_encoder_act(bool *sigmoid, const void *text, size_t n)
{
    cJSON *root;
    TRY(json_parse_python(&root, text, n, MAX_CONFIG, "config.json"));
    enum status st = cJSON_IsObject(root) ? read_act(sigmoid, root) : ST_OK;
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "config.json: %s", status_text());
    return ST_OK;
}

static enum status load_act(bool *sigmoid, const char *dir)
{
    struct mapped_file f;
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/config.json", dir) >= sizeof path)
        FAIL(ST_RANGE, "the model's path is too long");
    TRY(mapped_file_open(&f, path));
    enum status st = cross_encoder_act(sigmoid, f.data, f.size);
    mapped_file_close(&f);
    return st;
}

enum status cross_encoder_load(bool *sigmoid, const char *dir, const struct model_config *mc)
{
    if (mc->n_labels != 1)
        FAIL(ST_UNSUPPORTED,
             "config.json: a head for %d labels is not supported: a reranker has one (id2label)",
             mc->n_labels);
    *sigmoid = true;
    return load_act(sigmoid, dir);
}
