#include "common/formats/sentence_modules.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/json_get.h"

enum { MAX_PROMPTS = 1024 };

/* ---- modules.json ---- */

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* A folder inside the model's: no "..", nothing absolute. */
static enum status check_module_path(const char *path)
{
    if (*path == '/' || strstr(path, "..") || strlen(path) >= MODULE_PATH)
        FAIL(ST_RANGE, "path \"%.150s\" is not a folder of the model's", path);
    return ST_OK;
}

static enum status add_module(struct sentence_modules *out, enum module_kind kind, const char *path)
{
    if (out->n_modules == MAX_MODULES)
        FAIL(ST_UNSUPPORTED, "more than %d modules behind Pooling are not supported", MAX_MODULES);
    struct module *m = &out->module[out->n_modules++];
    *m = (struct module){.kind = kind};
    snprintf(m->path, sizeof m->path, "%s", path);
    return ST_OK;
}

/* Module i of the list. */
static enum status read_module(struct sentence_modules *out, int i, const cJSON *item,
                               char second[MODULE_PATH])
{
    const char *type = "", *path = "";
    TRY(json_need(item, "type"));
    TRY(json_string(item, "type", &type));
    TRY(json_string(item, "path", &path));
    TRY(check_module_path(path));
    const char *name = last_part(type);
    if (strncmp(type, "sentence_transformers.", strlen("sentence_transformers.")) != 0)
        FAIL(ST_UNSUPPORTED, "the type %.100s is not supported", type);
    if (strcmp(name, "Transformer") == 0 && i == 0) {
        if (*path)
            FAIL(ST_UNSUPPORTED,
                 "a Transformer in the folder %s is not supported: its files must be "
                 "beside modules.json",
                 path);
        return ST_OK;
    }
    bool score = strcmp(name, "LogitScore") == 0;
    if ((strcmp(name, "Pooling") == 0 || score) && i == 1) {
        snprintf(second, MODULE_PATH, "%s", path);
        out->scores = score;
        out->present = true;
        return ST_OK;
    }
    if (strcmp(name, "Normalize") == 0 && i > 1 && !out->scores)
        return add_module(out, MODULE_NORMALIZE, path);
    if (strcmp(name, "Dense") == 0 && i > 1 && !out->scores)
        return add_module(out, MODULE_DENSE, path);
    FAIL(
        ST_UNSUPPORTED,
        "%.100s is not supported as module %d: Transformer, Pooling, then Dense and Normalize are, "
        "and Transformer, LogitScore",
        type, i);
}

enum status sentence_modules_parse(struct sentence_modules *out, const void *text, size_t n,
                                   char second[MODULE_PATH])
{
    static const char what[] = "modules.json";
    const cJSON *item;
    cJSON *root;
    int i = 0;
    enum status st = ST_OK;
    *out = (struct sentence_modules){.default_prompt = -1};
    TRY(json_parse(&root, text, n, MAX_MODULE_FILE, what));
    if (!cJSON_IsArray(root)) {
        cJSON_Delete(root);
        FAIL(ST_FORMAT, "%s: not an array", what);
    }
    cJSON_ArrayForEach(item, root)
    {
        st = cJSON_IsObject(item) ? read_module(out, i++, item, second)
                                  : status_fail(ST_FORMAT, __FILE__, __LINE__, "not an object");
        if (st != ST_OK)
            break;
    }
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "%s: %s", what, status_text());
    if (i == 0)
        FAIL(ST_UNSUPPORTED, "%s: 0 modules: Transformer and Pooling are needed", what);
    return ST_OK;
}

/* ---- Pooling ---- */

static const struct {
    const char *name, *flag; /* flag: as a file names it with one member a mode */
} pools[POOL_N] = {
    [POOL_CLS] = {"cls", "pooling_mode_cls_token"},
    [POOL_MAX] = {"max", "pooling_mode_max_tokens"},
    [POOL_MEAN] = {"mean", "pooling_mode_mean_tokens"},
    [POOL_MEAN_SQRT_LEN] = {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens"},
    [POOL_WEIGHTED_MEAN] = {"weightedmean", "pooling_mode_weightedmean_tokens"},
    [POOL_LAST] = {"lasttoken", "pooling_mode_lasttoken"},
};

static enum status take_pool(struct sentence_modules *out, enum pooling mode)
{
    if (sentence_modules_pools(out, mode))
        FAIL(ST_FORMAT, "pooling mode %s is there twice", pools[mode].name);
    out->pool[out->n_pools++] = mode;
    return ST_OK;
}

static enum status take_pool_name(struct sentence_modules *out, const char *name)
{
    for (int p = 0; p < POOL_N; p++)
        if (strcmp(name, pools[p].name) == 0)
            return take_pool(out, (enum pooling)p);
    FAIL(ST_UNSUPPORTED, "pooling_mode %.60s is not supported", name);
}

/* "mean", or a list of such names. */
static enum status read_pool_names(struct sentence_modules *out, const cJSON *mode)
{
    const cJSON *item;
    if (cJSON_IsString(mode))
        return take_pool_name(out, mode->valuestring);
    if (!cJSON_IsArray(mode))
        FAIL(ST_FORMAT, "pooling_mode must be a string or a list of strings");
    cJSON_ArrayForEach(item, mode)
    {
        if (!cJSON_IsString(item))
            FAIL(ST_FORMAT, "pooling_mode must be a string or a list of strings");
        TRY(take_pool_name(out, item->valuestring));
    }
    return ST_OK;
}

/* One member a mode, which counts where there is no pooling_mode. */
static enum status read_pool_flags(struct sentence_modules *out, const cJSON *root)
{
    static const char begin[] = "pooling_mode_";
    const cJSON *item;
    for (int p = 0; p < POOL_N; p++) {
        bool on = false;
        TRY(json_bool(root, pools[p].flag, &on));
        if (on)
            TRY(take_pool(out, (enum pooling)p));
    }
    cJSON_ArrayForEach(item, root)
    {
        bool known = strncmp(item->string, begin, sizeof begin - 1) != 0;
        for (int p = 0; p < POOL_N; p++)
            known = known || strcmp(item->string, pools[p].flag) == 0;
        if (!known && !cJSON_IsFalse(item))
            FAIL(ST_UNSUPPORTED, "%.60s is not supported", item->string);
    }
    return ST_OK;
}

static enum status read_pooling(struct sentence_modules *out, const cJSON *root, int32_t hidden)
{
    bool include_prompt = true;
    int32_t dim = hidden;
    if (!cJSON_IsObject(root))
        FAIL(ST_FORMAT, "not an object");
    TRY(json_i32(root, "word_embedding_dimension", 1, INT32_MAX, &dim));
    TRY(json_i32(root, "embedding_dimension", 1, INT32_MAX, &dim));
    if (dim != hidden)
        FAIL(ST_FORMAT, "the dimension is %d, the model's states have %d components", dim, hidden);
    TRY(json_bool(root, "include_prompt", &include_prompt));
    if (!include_prompt)
        FAIL(ST_UNSUPPORTED, "include_prompt false is not supported");
    if (json_member(root, "pooling_mode"))
        TRY(read_pool_names(out, json_member(root, "pooling_mode")));
    else
        TRY(read_pool_flags(out, root));
    if (out->n_pools == 0)
        FAIL(ST_FORMAT, "no pooling mode is set");
    if (hidden > INT32_MAX / POOL_N)
        FAIL(ST_RANGE, "%d components are too many", hidden);
    out->dim = out->n_pools * hidden;
    return ST_OK;
}

enum status sentence_pooling_parse(struct sentence_modules *out, const void *text, size_t n,
                                   int32_t hidden)
{
    static const char what[] = "the configuration of Pooling";
    cJSON *root;
    TRY(json_parse(&root, text, n, MAX_MODULE_FILE, what));
    enum status st = read_pooling(out, root, hidden);
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "%s: %s", what, status_text());
    return ST_OK;
}

/* ---- Dense ---- */

/* A module takes the embedding and gives the embedding. */
static enum status check_default_names(const cJSON *root)
{
    static const char *const keys[] = {"module_input_name", "module_output_name"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const char *name = "sentence_embedding";
        TRY(json_string(root, keys[i], &name));
        if (strcmp(name, "sentence_embedding") != 0)
            FAIL(ST_UNSUPPORTED, "%s \"%.60s\" is not supported", keys[i], name);
    }
    return ST_OK;
}

static enum status read_dense(struct module *out, const cJSON *root)
{
    static const struct {
        const char *name;
        enum dense_act act;
    } acts[] = {{"Identity", DENSE_IDENTITY},
                {"Tanh", DENSE_TANH},
                {"ReLU", DENSE_RELU},
                {"Sigmoid", DENSE_SIGMOID},
                {"GELU", DENSE_GELU}};
    const char *act = "";
    bool residual = false;
    static const char *const needed[] = {"in_features", "out_features", "bias",
                                         "activation_function"};
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        TRY(json_need(root, needed[i]));
    TRY(json_i32(root, "in_features", 1, 1 << 20, &out->in));
    TRY(json_i32(root, "out_features", 1, 1 << 20, &out->out));
    TRY(check_default_names(root));
    TRY(json_bool(root, "use_residual", &residual));
    if (residual)
        FAIL(ST_UNSUPPORTED, "use_residual true is not supported");
    TRY(json_bool(root, "bias", &out->bias));
    TRY(json_string(root, "activation_function", &act));
    for (size_t i = 0; i < ARRAY_LEN(acts); i++)
        if (strncmp(act, "torch.nn.modules.", strlen("torch.nn.modules.")) == 0 &&
            strcmp(last_part(act), acts[i].name) == 0) {
            out->act = acts[i].act;
            return ST_OK;
        }
    FAIL(ST_UNSUPPORTED, "activation_function %.100s is not supported", act);
}

enum status sentence_module_parse(struct module *out, const void *text, size_t n)
{
    cJSON *root;
    char what[MODULE_PATH + 32];
    snprintf(what, sizeof what, "%s/config.json", out->path);
    TRY(json_parse(&root, text, n, MAX_MODULE_FILE, what));
    enum status st = !cJSON_IsObject(root)
                         ? status_fail(ST_FORMAT, __FILE__, __LINE__, "not an object")
                     : out->kind == MODULE_DENSE ? read_dense(out, root)
                                                 : check_default_names(root);
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "%s: %s", what, status_text());
    return ST_OK;
}

/* ---- prompts ---- */

static enum status add_prompt(struct sentence_modules *out, const cJSON *item)
{
    struct sentence_prompt *p = &out->prompt[out->n_prompts];
    if (!cJSON_IsString(item))
        FAIL(ST_FORMAT, "prompts.%.60s must be a string", item->string);
    out->n_prompts++;
    p->name = strdup(item->string);
    p->text = strdup(item->valuestring);
    if (!p->name || !p->text)
        FAIL(ST_NOMEM, "no memory for prompts");
    return ST_OK;
}

static enum status read_prompts(struct sentence_modules *out, const cJSON *root)
{
    const cJSON *prompts, *item;
    const char *wanted = out->scores ? "CrossEncoder" : "SentenceTransformer";
    const char *name = NULL, *act = NULL, *type = wanted;
    if (!cJSON_IsObject(root))
        FAIL(ST_FORMAT, "not an object");
    TRY(json_string(root, "model_type", &type));
    if (strcmp(type, wanted) != 0)
        FAIL(ST_UNSUPPORTED, "model_type %.60s is not supported for these modules (%s is)", type,
             wanted);
    TRY(json_string(root, "activation_fn", &act));
    if (out->scores && act) {
        TRY(sentence_score_act(&out->act, act));
        out->act_said = true;
    }
    if ((prompts = json_member(root, "prompts"))) {
        int n = cJSON_IsObject(prompts) ? cJSON_GetArraySize(prompts) : -1;
        if (n < 0 || n > MAX_PROMPTS)
            FAIL(ST_FORMAT, "prompts must be an object of at most %d members", MAX_PROMPTS);
        out->prompt = calloc((size_t)n + 1, sizeof *out->prompt);
        if (!out->prompt)
            FAIL(ST_NOMEM, "no memory for prompts");
        cJSON_ArrayForEach(item, prompts) TRY(add_prompt(out, item));
    }
    TRY(json_string(root, "default_prompt_name", &name));
    for (uint32_t i = 0; name && i < out->n_prompts; i++)
        if (strcmp(out->prompt[i].name, name) == 0)
            out->default_prompt = (int32_t)i;
    if (name && out->default_prompt < 0)
        FAIL(ST_FORMAT, "default_prompt_name %.60s is none of the prompts", name);
    return ST_OK;
}

enum status sentence_prompts_parse(struct sentence_modules *out, const void *text, size_t n)
{
    static const char what[] = "config_sentence_transformers.json";
    cJSON *root;
    TRY(json_parse(&root, text, n, MAX_MODULE_FILE, what));
    enum status st = read_prompts(out, root);
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "%s: %s", what, status_text());
    return ST_OK;
}

enum status sentence_score_act(enum dense_act *out, const char *name)
{
    static const struct {
        const char *name;
        enum dense_act act;
    } acts[] = {{"torch.nn.modules.activation.Sigmoid", DENSE_SIGMOID},
                {"torch.nn.modules.linear.Identity", DENSE_IDENTITY}};
    for (size_t i = 0; i < ARRAY_LEN(acts); i++)
        if (strcmp(name, acts[i].name) == 0) {
            *out = acts[i].act;
            return ST_OK;
        }
    FAIL(ST_UNSUPPORTED, "the activation function %.100s of a reranker is not supported", name);
}

/* ---- the Transformer's own ---- */

/* Of apply_chat_template only add_generation_prompt; nothing else that changes tokens. */
static enum status read_processing(struct sentence_modules *out, const cJSON *root)
{
    const cJSON *kwargs = json_member(root, "processing_kwargs"), *of, *item;
    if (kwargs && !cJSON_IsObject(kwargs))
        FAIL(ST_FORMAT, "processing_kwargs must be an object");
    cJSON_ArrayForEach(of, kwargs)
    {
        bool chat = strcmp(of->string, "chat_template") == 0;
        cJSON_ArrayForEach(item, of)
        {
            if (!chat || !item->string || strcmp(item->string, "add_generation_prompt") != 0)
                FAIL(ST_UNSUPPORTED, "processing_kwargs.%.60s.%.60s is not supported", of->string,
                     item->string ? item->string : "?");
            TRY(json_bool(of, "add_generation_prompt", &out->generation_prompt));
        }
    }
    return ST_OK;
}

/* Files from before there was a modality_config are of texts. */
static enum status read_modalities(struct sentence_modules *out, const cJSON *root)
{
    const cJSON *config = json_member(root, "modality_config");
    const cJSON *message = config ? json_member(config, "message") : NULL;
    const char *form = "auto";
    if ((config && !cJSON_IsObject(config)) || (message && !cJSON_IsObject(message)))
        FAIL(ST_FORMAT, "modality_config must be an object of objects");
    out->pair = message ? PAIR_MESSAGES : PAIR_JOINED;
    if (message)
        TRY(json_string(message, "format", &form));
    if (strcmp(form, "auto") == 0)
        return ST_OK;
    if (strcmp(form, "flat") != 0 && strcmp(form, "structured") != 0)
        FAIL(ST_UNSUPPORTED, "the message format %.60s is not supported", form);
    out->message = *form == 'f' ? MESSAGE_TEXT : MESSAGE_PARTS;
    return ST_OK;
}

static enum status read_transformer(struct sentence_modules *out, const cJSON *root)
{
    bool lower = false;
    const char *task = "feature-extraction";
    if (!cJSON_IsObject(root))
        FAIL(ST_FORMAT, "not an object");
    TRY(json_bool(root, "do_lower_case", &lower));
    if (lower)
        FAIL(ST_UNSUPPORTED, "do_lower_case true is not supported");
    TRY(json_string(root, "transformer_task", &task));
    bool of_scores =
        strcmp(task, out->present ? "text-generation" : "sequence-classification") == 0;
    if (strcmp(task, "feature-extraction") != 0 && !(out->scores && of_scores))
        FAIL(ST_UNSUPPORTED, "transformer_task %.60s is not supported here", task);
    TRY(read_processing(out, root));
    if (out->scores)
        TRY(read_modalities(out, root));
    return json_i32(root, "max_seq_length", 1, INT32_MAX, &out->max_tokens);
}

enum status sentence_transformer_parse(struct sentence_modules *out, const void *text, size_t n)
{
    static const char what[] = "sentence_bert_config.json";
    cJSON *root;
    TRY(json_parse(&root, text, n, MAX_MODULE_FILE, what));
    enum status st = read_transformer(out, root);
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "%s: %s", what, status_text());
    return ST_OK;
}

/* ---- config.json: how embeddings may be cut ---- */

static enum status read_cuts(struct sentence_modules *out, const cJSON *root)
{
    const cJSON *list = json_member(root, "matryoshka_dimensions"), *item;
    uint64_t n;
    TRY(json_bool(root, "is_matryoshka", &out->any_cut));
    if (!list)
        return ST_OK;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > MAX_CUTS)
        FAIL(ST_FORMAT, "matryoshka_dimensions must be a list of at most %d numbers", MAX_CUTS);
    cJSON_ArrayForEach(item, list)
    {
        if (!json_is_u53(item, &n) || n == 0 || n > INT32_MAX)
            FAIL(ST_FORMAT, "matryoshka_dimensions must be a list of whole numbers above 0");
        out->cut[out->n_cuts++] = (int32_t)n;
    }
    return ST_OK;
}

enum status sentence_cuts_parse(struct sentence_modules *out, const void *text, size_t n)
{
    cJSON *root;
    TRY(json_parse_python(&root, text, n, MAX_MODULE_FILE, "config.json"));
    enum status st = cJSON_IsObject(root) ? read_cuts(out, root) : ST_OK;
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "config.json: %s", status_text());
    return ST_OK;
}

void sentence_modules_free(struct sentence_modules *m)
{
    for (uint32_t i = 0; i < m->n_prompts; i++) {
        free(m->prompt[i].name);
        free(m->prompt[i].text);
    }
    free(m->prompt);
    *m = (struct sentence_modules){.default_prompt = -1};
}

/* ---- questions ---- */

bool sentence_modules_pools(const struct sentence_modules *m, enum pooling mode)
{
    for (int32_t i = 0; i < m->n_pools; i++)
        if (m->pool[i] == mode)
            return true;
    return false;
}

enum embed_rows sentence_modules_rows(const struct sentence_modules *m)
{
    if (!m->present)
        return EMBED_NONE;
    if (m->whole)
        return EMBED_WHOLE;
    return m->n_pools == 1 && m->pool[0] == POOL_LAST ? EMBED_LAST : EMBED_ALL;
}

size_t sentence_modules_text(const struct sentence_modules *m, char out[MODULES_TEXT])
{
    size_t n = 0;
    out[0] = 0;
    for (int32_t i = 0; i < m->n_pools; i++)
        n += (size_t)snprintf(out + n, MODULES_TEXT - n, "pool %s\n", pools[m->pool[i]].name);
    for (int32_t i = 0; i < m->n_modules; i++) {
        const struct module *o = &m->module[i];
        n += (size_t)snprintf(out + n, MODULES_TEXT - n, "module %d %d %d %d %d\n", (int)o->kind,
                              (int)o->act, o->bias, o->in, o->out);
        if (o->of_rows)
            n += (size_t)snprintf(out + n, MODULES_TEXT - n, "rows %d %d\n", o->row[0], o->row[1]);
    }
    return n;
}

enum status sentence_modules_prompt(const struct sentence_modules *m, const char *name,
                                    const char **out)
{
    *out = m->default_prompt < 0 ? NULL : m->prompt[m->default_prompt].text;
    if (!*name)
        return ST_OK;
    for (uint32_t i = 0; i < m->n_prompts; i++)
        if (strcmp(m->prompt[i].name, name) == 0) {
            *out = m->prompt[i].text;
            return ST_OK;
        }
    FAIL(ST_RANGE, "the model has no prompt \"%.60s\"", name);
}

enum status sentence_modules_cut(const struct sentence_modules *m, uint32_t n)
{
    if (n == 0 || n == (uint32_t)m->dim)
        return ST_OK;
    if (n > (uint32_t)m->dim)
        FAIL(ST_RANGE, "dimensions is %u: the model's embeddings have %d", n, m->dim);
    for (int32_t i = 0; i < m->n_cuts; i++)
        if (n == (uint32_t)m->cut[i])
            return ST_OK;
    if (m->any_cut && m->n_cuts == 0)
        return ST_OK;
    FAIL(ST_UNSUPPORTED,
         "dimensions is %u: the model was not made for that (is_matryoshka and "
         "matryoshka_dimensions of its config.json)",
         n);
}

void sentence_modules_cut_vector(const struct sentence_modules *m, float *v, size_t n)
{
    double squares = 0;
    if (m->n_modules == 0 || m->module[m->n_modules - 1].kind != MODULE_NORMALIZE)
        return;
    for (size_t i = 0; i < n; i++)
        squares += (double)v[i] * (double)v[i];
    double norm = sqrt(squares) > 1e-12 ? sqrt(squares) : 1e-12;
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] / norm);
}
