#include "common/formats/cross_encoder.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/config_json.h"
#include "common/formats/json_get.h"
#include "common/json/json_read.h"
#include "common/mapped_file.h"

/* ---- the function behind the score ---- */

/* sentence-transformers from version 4 on; before, one key of the root. */
static enum status read_act(enum dense_act *act, const cJSON *root)
{
    const cJSON *own = json_member(root, "sentence_transformers");
    const char *name = NULL;
    if (own && !cJSON_IsObject(own))
        FAIL(ST_FORMAT, "sentence_transformers must be an object");
    TRY(json_string(root, "sbert_ce_default_activation_function", &name));
    if (own)
        TRY(json_string(own, "activation_fn", &name));
    return name ? sentence_score_act(act, name) : ST_OK;
}

enum status cross_encoder_act(enum dense_act *act, const void *text, size_t n)
{
    cJSON *root;
    TRY(json_parse_python(&root, text, n, MAX_CONFIG, "config.json"));
    enum status st = cJSON_IsObject(root) ? read_act(act, root) : ST_OK;
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "config.json: %s", status_text());
    return ST_OK;
}

static enum status open_file(struct mapped_file *f, const char *dir, const char *sub,
                             const char *name)
{
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/%s%s%s", dir, sub, *sub ? "/" : "", name) >=
        sizeof path)
        FAIL(ST_RANGE, "the model's path is too long");
    return mapped_file_open(f, path);
}

enum status cross_encoder_act_load(struct sentence_modules *out, const char *dir)
{
    struct mapped_file f;
    enum dense_act *act = &out->module[out->n_modules - 1].act;
    *act = out->act_said ? out->act : DENSE_SIGMOID;
    if (out->act_said)
        return ST_OK;
    TRY(open_file(&f, dir, "", "config.json"));
    enum status st = cross_encoder_act(act, f.data, f.size);
    mapped_file_close(&f);
    return st;
}

/* ---- a head for classification ---- */

/* The members of `out` that scores have, with the modules behind the pooling. */
static void use_modules(struct sentence_modules *out, const struct model_config *mc,
                        enum pooling pool, const struct module *module, int32_t n)
{
    out->present = out->scores = true;
    out->prefix = mc->arch->prefix;
    out->n_pools = 1;
    out->pool[0] = pool;
    out->n_modules = n;
    memcpy(out->module, module, (size_t)n * sizeof *module);
    out->dim = 1;
}

enum status cross_encoder_head(struct sentence_modules *out, const struct model_config *mc)
{
    const struct encoder *e = mc->arch->encoder;
    if (mc->n_labels != 1)
        FAIL(ST_UNSUPPORTED,
             "config.json: a head for %d labels is not supported: a reranker has one (id2label)",
             mc->n_labels);
    struct module last = {.kind = MODULE_DENSE, .in = mc->hidden, .out = 1, .tensor = "score"};
    if (!e) {
        use_modules(out, mc, POOL_LAST, &last, 1);
        return ST_OK;
    }
    last.bias = true;
    last.tensor = e->head[1];
    struct module head[3] = {{.kind = MODULE_DENSE,
                              .act = e->head_norm ? DENSE_GELU : DENSE_TANH,
                              .bias = mc->head_bias,
                              .in = mc->hidden,
                              .out = mc->hidden,
                              .tensor = e->head[0]}};
    int32_t n = 1;
    if (e->head_norm)
        head[n++] = (struct module){.kind = MODULE_LAYER_NORM,
                                    .in = mc->hidden,
                                    .out = mc->hidden,
                                    .eps = mc->eps,
                                    .tensor = e->head_norm};
    head[n++] = last;
    use_modules(out, mc, mc->head_mean ? POOL_MEAN : POOL_CLS, head, n);
    return ST_OK;
}

/* ---- the logits of tokens ---- */

static enum status use_rows(struct sentence_modules *out, const struct model_config *mc,
                            const int32_t row[2])
{
    const struct tensor_rule *rule = &mc->arch->tensor[mc->tied ? TN_EMBED : TN_HEAD];
    if (mc->arch->encoder || mc->headless)
        FAIL(ST_UNSUPPORTED, "%s has no logits to make scores of", mc->arch->name);
    if (mc->wrapped || mc->logit_cap > 0 || mc->logit_scale != 1 || rule->fused != FUSED_NO)
        FAIL(ST_UNSUPPORTED,
             "scores of tokens' logits are not supported for %s: they are capped or scaled, or the "
             "model is a part of a multi-modal one",
             mc->arch->name);
    struct module difference = {.kind = MODULE_DENSE,
                                .in = mc->hidden,
                                .out = 1,
                                .tensor = rule->name,
                                .of_rows = true,
                                .row = {row[0], row[1]}};
    use_modules(out, mc, POOL_LAST, &difference, 1);
    return ST_OK;
}

static enum status read_logits(int32_t row[2], const cJSON *root, int32_t vocab)
{
    const char *input = "causal_logits";
    if (!cJSON_IsObject(root))
        FAIL(ST_FORMAT, "not an object");
    TRY(json_need(root, "true_token_id"));
    row[1] = -1;
    TRY(json_i32(root, "true_token_id", 0, vocab - 1, &row[0]));
    TRY(json_i32(root, "false_token_id", 0, vocab - 1, &row[1]));
    TRY(json_string(root, "module_input_name", &input));
    if (strcmp(input, "causal_logits") != 0)
        FAIL(ST_UNSUPPORTED, "module_input_name \"%.60s\" is not supported", input);
    return ST_OK;
}

enum status cross_encoder_logits_parse(int32_t row[2], const void *text, size_t n, int32_t vocab)
{
    static const char what[] = "the configuration of LogitScore";
    cJSON *root;
    TRY(json_parse(&root, text, n, MAX_MODULE_FILE, what));
    enum status st = read_logits(row, root, vocab);
    cJSON_Delete(root);
    if (st != ST_OK)
        FAIL(st, "%s: %s", what, status_text());
    return ST_OK;
}

enum status cross_encoder_logits(struct sentence_modules *out, const char *dir, const char *folder,
                                 const struct model_config *mc)
{
    struct mapped_file f;
    int32_t row[2];
    TRY(open_file(&f, dir, folder, "config.json"));
    enum status st = cross_encoder_logits_parse(row, f.data, f.size, mc->vocab);
    mapped_file_close(&f);
    TRY(st);
    return use_rows(out, mc, row);
}

/* ---- what an option says ---- */

/* c is before the vocabulary. */
static enum status find_words(struct json_cursor *c, const char *const *word, int32_t *id, size_t n)
{
    struct json_span key;
    TRY(json_enter_object(c));
    while (json_next_key(c, &key)) {
        int64_t value;
        for (size_t i = 0; i < n; i++)
            if (json_span_is(key, word[i])) {
                TRY(json_read_i64(c, 0, INT32_MAX, &value));
                id[i] = (int32_t)value;
                break;
            }
    }
    return ST_OK;
}

enum status cross_encoder_words(const char *const *word, int32_t *id, size_t n, const void *text,
                                size_t len)
{
    struct json_cursor c;
    struct json_span key;
    for (size_t i = 0; i < n; i++)
        id[i] = -1;
    TRY(json_open(&c, text, len, NULL));
    TRY(json_enter_object(&c));
    while (json_next_key(&c, &key)) {
        if (!json_span_is(key, "model"))
            continue;
        TRY(json_enter_object(&c));
        while (json_next_key(&c, &key))
            if (json_span_is(key, "vocab") && json_peek(&c) == JSON_OBJECT)
                TRY(find_words(&c, word, id, n));
    }
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0)
            FAIL(ST_NOT_FOUND, "\"%s\" is no token of tokenizer.json", word[i]);
    return ST_OK;
}

enum status cross_encoder_asked(struct sentence_modules *out, const char *dir,
                                const struct model_config *mc)
{
    static const char *const words[2] = {"yes", "no"};
    struct mapped_file f;
    int32_t row[2];
    if (mc->arch->encoder || (out->present && !out->scores))
        FAIL(ST_UNSUPPORTED, "--rerank qwen3 is for decoders whose folder has no other modules");
    out->pair = PAIR_QWEN3;
    out->message = MESSAGE_TEXT;
    out->generation_prompt = false;
    if (mc->classifier)
        return ST_OK;
    TRY(open_file(&f, dir, "", "tokenizer.json"));
    enum status st = cross_encoder_words(words, row, 2, f.data, f.size);
    mapped_file_close(&f);
    TRY(st);
    if (row[0] >= mc->vocab || row[1] >= mc->vocab)
        FAIL(ST_RANGE, "the tokens %d and %d are not in the vocabulary of %d", row[0], row[1],
             mc->vocab);
    return use_rows(out, mc, row);
}
