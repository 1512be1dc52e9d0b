#include "common/formats/sentence_folder.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/formats/cross_encoder.h"
#include "common/formats/json_get.h"
#include "common/mapped_file.h"

enum { PATH_SIZE = 4096 };

/* *found false: there is no such file. */
static enum status open_file(struct mapped_file *f, const char *dir, const char *sub,
                             const char *name, bool *found)
{
    char path[PATH_SIZE];
    if ((size_t)snprintf(path, sizeof path, "%s/%s%s%s", dir, sub, *sub ? "/" : "", name) >=
        sizeof path)
        FAIL(ST_RANGE, "the model's path is too long");
    enum status st = mapped_file_open(f, path);
    *found = st == ST_OK;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* The modules' own files; the dimensions must follow each other. */
static enum status load_modules(struct sentence_modules *out, const char *dir)
{
    for (int32_t i = 0; i < out->n_modules; i++) {
        struct module *m = &out->module[i];
        struct mapped_file f;
        bool found;
        TRY(open_file(&f, dir, m->path, "config.json", &found));
        if (!found && m->kind == MODULE_DENSE)
            FAIL(ST_NOT_FOUND, "modules.json names %s, which has no config.json", m->path);
        if (!found || (m->kind == MODULE_NORMALIZE && !*m->path))
            continue; /* a Normalize of the model's own folder: config.json is the model's */
        enum status st = sentence_module_parse(m, f.data, f.size);
        mapped_file_close(&f);
        TRY(st);
        if (m->kind == MODULE_NORMALIZE)
            continue;
        if (m->in != out->dim)
            FAIL(ST_FORMAT, "%s/config.json: in_features is %d, its input has %d components",
                 m->path, m->in, out->dim);
        out->dim = m->out;
    }
    return ST_OK;
}

static enum status load_optional(struct sentence_modules *out, const char *dir)
{
    static const struct {
        const char *name;
        enum status (*parse)(struct sentence_modules *, const void *, size_t);
    } files[] = {
        {"config_sentence_transformers.json", sentence_prompts_parse},
        {"sentence_bert_config.json", sentence_transformer_parse},
        {"config.json", sentence_cuts_parse},
    };
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct mapped_file f;
        bool found;
        TRY(open_file(&f, dir, "", files[i].name, &found));
        if (!found)
            continue;
        enum status st = files[i].parse(out, f.data, f.size);
        mapped_file_close(&f);
        TRY(st);
    }
    return ST_OK;
}

/* Pooling and what is behind it. */
static enum status load_pooling(struct sentence_modules *out, const char *dir, const char *pooling,
                                int32_t hidden)
{
    struct mapped_file f;
    bool found;
    TRY(open_file(&f, dir, pooling, "config.json", &found));
    if (!found)
        FAIL(ST_NOT_FOUND, "modules.json names %s, which has no config.json", pooling);
    enum status st = sentence_pooling_parse(out, f.data, f.size, hidden);
    mapped_file_close(&f);
    TRY(st);
    return load_modules(out, dir);
}

static enum status load_folder(struct sentence_modules *out, const char *dir,
                               const struct model_config *mc)
{
    struct mapped_file f;
    char second[MODULE_PATH];
    bool found;
    TRY(open_file(&f, dir, "", "modules.json", &found));
    if (!found)
        return ST_OK;
    enum status st = sentence_modules_parse(out, f.data, f.size, second);
    mapped_file_close(&f);
    TRY(st);
    if (mc->classifier && out->present)
        FAIL(ST_UNSUPPORTED, "modules.json: modules behind a head for classification are not "
                             "supported");
    if (!mc->classifier && !out->present)
        FAIL(ST_UNSUPPORTED, "modules.json: 1 module: Transformer and Pooling are needed");
    if (out->scores)
        TRY(cross_encoder_logits(out, dir, second, mc));
    else if (out->present)
        TRY(load_pooling(out, dir, second, mc->hidden));
    out->scores |= mc->classifier;
    return load_optional(out, dir);
}

/* Without modules.json. */
static enum status use_defaults(struct sentence_modules *out, const struct model_config *mc)
{
    out->present = true;
    out->dim = mc->hidden;
    out->n_pools = 1;
    out->pool[0] = mc->arch->encoder ? POOL_MEAN : POOL_LAST;
    if (!mc->arch->encoder)
        out->module[out->n_modules++] = (struct module){.kind = MODULE_NORMALIZE};
    return ST_OK;
}

static enum status load_dir(struct sentence_modules *out, const char *dir,
                            const struct model_config *mc, struct modules_asked asked)
{
    out->pair = PAIR_BY_FILES; /* where there is no modules.json */
    TRY(load_folder(out, dir, mc));
    if (asked.rerank)
        TRY(cross_encoder_asked(out, dir, mc));
    if (mc->classifier)
        TRY(cross_encoder_head(out, mc));
    return out->scores ? cross_encoder_act_load(out, dir) : ST_OK;
}

enum status sentence_modules_load(struct sentence_modules *out, const char *model,
                                  const struct model_config *mc, struct modules_asked asked)
{
    struct stat sb;
    enum status st = ST_OK;
    *out = (struct sentence_modules){.default_prompt = -1};
    bool is_dir = model && stat(model, &sb) == 0 && S_ISDIR(sb.st_mode);
    if (is_dir)
        st = load_dir(out, model, mc, asked);
    else if (asked.rerank)
        st = status_fail(ST_UNSUPPORTED, __FILE__, __LINE__,
                         "--rerank needs a folder in HuggingFace layout");
    if (st != ST_OK) {
        sentence_modules_free(out);
        return st;
    }
    out->whole = mc->arch->encoder != NULL;
    out->n_types = mc->n_types;
    out->pad_id = mc->pad_id;
    return out->present || !(asked.embed || out->whole) ? ST_OK : use_defaults(out, mc);
}
