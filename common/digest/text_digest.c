#include "common/digest/text_digest.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "common/digest/json_digest.h"
#include "common/formats/gguf_file.h"
#include "common/formats/json_get.h"
#include "common/formats/model_config.h"
#include "common/mapped_file.h"
#include "common/model_path.h"

enum { MAX_JSON = 64 << 20, PATH_SIZE = 4096 };

/* Every part begins with its name and length: none can be taken for another's. */
static void put_part(struct sha256 *s, const char *name, const void *data, size_t n)
{
    unsigned char bytes[8];
    struct byte_writer w = {.data = bytes, .cap = sizeof bytes};
    put_u64(&w, n);
    sha256_update(s, name, strlen(name) + 1);
    sha256_update(s, bytes, sizeof bytes);
    sha256_update(s, data, n);
}

/* ---- ids ---- */

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void put_ids(struct sha256 *s, const struct model_config *mc)
{
    int32_t id[MAX_STOP_IDS + 1];
    unsigned char bytes[sizeof id];
    struct byte_writer w = {.data = bytes, .cap = sizeof bytes};
    size_t n = (size_t)mc->n_eos;
    memcpy(id, mc->eos_id, n * sizeof *id);
    qsort(id, n, sizeof *id, by_value);
    id[n] = mc->bos_id;
    put_i32s(&w, id, n + 1);
    put_part(s, "ids", bytes, w.n);
}

/* ---- GGUF ---- */

struct key {
    struct gguf_str name;
    size_t i;
};

static int by_key(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.data, y->name.data, n);
    return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static void put_key(struct sha256 *s, const struct gguf *g, const struct key *key)
{
    enum gguf_type type;
    size_t n;
    struct gguf_str name = gguf_key(g, key->i, &type);
    const unsigned char *value = gguf_raw_value(g, key->i, &n), as_byte = (unsigned char)type;
    put_part(s, "key", name.data, name.len);
    put_part(s, "type", &as_byte, 1);
    put_part(s, "value", value, n);
}

static enum status put_metadata(struct sha256 *s, const struct gguf *g)
{
    static const char begin[] = "tokenizer.";
    struct key *key = calloc(gguf_n_keys(g) + 1, sizeof *key);
    size_t n = 0;
    enum gguf_type type;
    if (!key)
        FAIL(ST_NOMEM, "no memory for %zu keys", gguf_n_keys(g));
    for (size_t i = 0; i < gguf_n_keys(g); i++) {
        struct gguf_str name = gguf_key(g, i, &type);
        if (name.len >= sizeof begin - 1 && memcmp(name.data, begin, sizeof begin - 1) == 0)
            key[n++] = (struct key){name, i};
    }
    qsort(key, n, sizeof *key, by_key);
    for (size_t i = 0; i < n; i++)
        put_key(s, g, &key[i]);
    free(key);
    return ST_OK;
}

/* mc NULL: the tokenizer alone. */
static enum status of_gguf(struct sha256 *s, const char *path, struct model_config *mc)
{
    struct gguf_file *f;
    TRY(gguf_file_open(&f, path));
    enum status st = mc ? model_config_from_gguf(mc, gguf_file_model(f)) : ST_OK;
    if (st == ST_OK)
        st = put_metadata(s, gguf_file_model(f));
    gguf_file_close(f);
    return st;
}

/* ---- a folder ---- */

/* *found = false: there is no such file. */
static enum status open_file(struct mapped_file *f, const char *dir, const char *name, bool *found)
{
    char path[PATH_SIZE];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        FAIL(ST_RANGE, "the model's path is too long");
    enum status st = mapped_file_open(f, path);
    *found = st == ST_OK;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* The bytes of DIR/NAME, when it is there. */
static enum status put_file(struct sha256 *s, const char *dir, const char *name, bool *found)
{
    struct mapped_file f;
    TRY(open_file(&f, dir, name, found));
    if (*found)
        put_part(s, name, f.data, f.size);
    mapped_file_close(&f);
    return ST_OK;
}

struct member_rule {
    const char *const *names; /* [n] */
    size_t n;
    bool only; /* only these members count; else all but these */
};

static bool counts(const struct member_rule *rule, const char *name)
{
    for (size_t i = 0; i < rule->n; i++)
        if (strcmp(rule->names[i], name) == 0)
            return rule->only;
    return !rule->only;
}

/* The members of a JSON file that count; the whole file where it is no object. */
static enum status put_members(struct sha256 *s, const char *name, const struct mapped_file *f,
                               const struct member_rule *rule)
{
    cJSON *root = NULL, *next;
    uint8_t digest[SHA256_BYTES];
    struct sha256 inner;
    if (json_parse(&root, f->data, f->size, MAX_JSON, name) != ST_OK || !cJSON_IsObject(root)) {
        cJSON_Delete(root);
        put_part(s, name, f->data, f->size);
        return ST_OK;
    }
    for (cJSON *item = root->child; item; item = next) {
        next = item->next;
        if (!counts(rule, item->string) || cJSON_IsNull(item))
            cJSON_Delete(cJSON_DetachItemViaPointer(root, item));
    }
    sha256_init(&inner);
    enum status st = json_digest(&inner, root);
    sha256_final(&inner, digest);
    cJSON_Delete(root);
    put_part(s, name, digest, sizeof digest);
    return st;
}

static enum status put_json(struct sha256 *s, const char *dir, const char *name,
                            const struct member_rule *rule, bool *found)
{
    struct mapped_file f;
    TRY(open_file(&f, dir, name, found));
    enum status st = *found ? put_members(s, name, &f, rule) : ST_OK;
    mapped_file_close(&f);
    return st;
}

static enum status put_tokenizer(struct sha256 *s, const char *dir, bool *has)
{
    static const char *const others[] = {"tekken.json", "tiktoken.model", "tokenizer.model",
                                         "vocab.json",  "merges.txt",     "vocab.txt"};
    char name[MODEL_FILE_SIZE], path[PATH_SIZE];
    bool found, whole;
    TRY(put_file(s, dir, "tokenizer.json", &whole));
    *has = whole;
    for (size_t i = 0; !whole && i < ARRAY_LEN(others); i++) {
        TRY(put_file(s, dir, others[i], &found));
        *has = found || *has;
    }
    if (whole || !model_path_gguf(dir, name))
        return ST_OK;
    *has = true;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        FAIL(ST_RANGE, "the model's path is too long");
    return of_gguf(s, path, NULL);
}

static enum status put_templates(struct sha256 *s, const char *dir, bool *has)
{
    static const char *const files[] = {"chat_template.jinja",
                                        "additional_chat_templates/tool_use.jinja"};
    static const char *const template[] = {"chat_template"};
    /* those that the tokenizer and the templates read */
    static const char *const config[] = {"chat_template", "bos_token", "eos_token", "unk_token",
                                         "sep_token",     "pad_token", "cls_token", "mask_token"};
    static const struct member_rule only_template = {template, ARRAY_LEN(template), true},
                                    only_read = {config, ARRAY_LEN(config), true};
    bool found;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        TRY(put_file(s, dir, files[i], &found));
        *has = found || *has;
    }
    TRY(put_json(s, dir, "chat_template.json", &only_template, &found));
    *has = found || *has;
    TRY(put_json(s, dir, "tokenizer_config.json", &only_read, &found));
    *has = found || *has;
    return ST_OK;
}

static enum status of_folder(struct sha256 *s, const char *dir, struct model_config *mc, bool *has)
{
    static const char *const said[] = {"transformers_version", "_from_model_config", "_commit_hash",
                                       "_name_or_path"};
    static const char *const prompts[] = {"prompts", "default_prompt_name"};
    static const struct member_rule all_but = {said, ARRAY_LEN(said), false},
                                    only_prompts = {prompts, ARRAY_LEN(prompts), true};
    bool found, templates = false;
    TRY(model_config_load(mc, dir));
    TRY(put_tokenizer(s, dir, has));
    TRY(put_templates(s, dir, &templates));
    *has = *has || templates;
    TRY(put_json(s, dir, "config_sentence_transformers.json", &only_prompts, &found));
    return put_json(s, dir, "generation_config.json", &all_but, &found);
}

/* ---- */

static enum status of_model(struct sha256 *s, const char *model, struct model_config *mc, bool *has)
{
    struct stat st;
    TRY(model_path_exists(model));
    put_part(s, "ingot text digest 1", "", 0);
    *has = stat(model, &st) == 0 && !S_ISDIR(st.st_mode);
    TRY(*has ? of_gguf(s, model, mc) : of_folder(s, model, mc, has));
    put_ids(s, mc);
    return ST_OK;
}

enum status text_digest(const char *model, bool *has, uint8_t out[SHA256_BYTES])
{
    struct model_config *mc = calloc(1, sizeof *mc);
    struct sha256 s;
    *has = false;
    if (!mc)
        FAIL(ST_NOMEM, "no memory for a configuration");
    sha256_init(&s);
    enum status st = of_model(&s, model, mc, has);
    sha256_final(&s, out);
    free(mc);
    return st;
}
