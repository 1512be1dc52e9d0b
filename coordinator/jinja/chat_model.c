/* Finds the chat template and the special tokens of a HuggingFace model directory. */
#include <stdio.h>
#include <string.h>

#include "common/mapped_file.h"
#include "coordinator/jinja/chat_template.h"
#include "coordinator/jinja/run.h"

enum { MAX_PATH = 4096 };

static enum status join_path(char *path, const char *dir, const char *name)
{
    int n = snprintf(path, MAX_PATH, "%s/%s", dir, name);
    if (n < 0 || n >= MAX_PATH)
        FAIL(ST_RANGE, "the path %.60s... is too long", dir);
    return ST_OK;
}

static void reader_init(struct jrun *r)
{
    *r = (struct jrun){.max_output = (size_t)64 << 20,
                       .steps_left = 100000000,
                       .max_steps = 100000000,
                       .max_depth = 100};
    jmem_init(&r->mem, (size_t)256 << 20);
}

static void reader_fini(struct jrun *r)
{
    text_buf_free(&r->out);
    jmem_fini(&r->mem);
}

/* Parses DIR/NAME as a JSON object.  The values look into f, which the caller closes after them. */
static enum status open_json(struct jrun *r, const char *dir, const char *name,
                             struct mapped_file *f, struct jval *out)
{
    char path[MAX_PATH];
    *f = (struct mapped_file){(const unsigned char *)"", 0};
    TRY(join_path(path, dir, name));
    TRY(mapped_file_open(f, path));
    enum status st = j_json_parse(r, (const char *)f->data, f->size, out);
    if (st != ST_OK)
        FAIL(st, "%s: %s", path, status_text());
    if (out->type != J_DICT)
        FAIL(ST_FORMAT, "%s is no JSON object", path);
    return ST_OK;
}

static enum status member(struct jrun *r, const struct jval *object, const char *name,
                          struct jval *out)
{
    struct jpair *p;
    *out = jv_undef();
    if (object->type == J_DICT) {
        TRY(jdict_find_str(r, object->u.dict, name, strlen(name), &p));
        if (p)
            *out = p->value;
    }
    return ST_OK;
}

/* DIR/NAME as a whole template. */
static enum status from_file(struct chat_template **out, const char *dir, const char *name)
{
    char path[MAX_PATH];
    struct mapped_file f;
    TRY(join_path(path, dir, name));
    TRY(mapped_file_open(&f, path));
    enum status st = chat_template_create(out, (const char *)f.data, f.size);
    mapped_file_close(&f);
    if (st != ST_OK)
        FAIL(st, "%s: %s", path, status_text());
    return ST_OK;
}

/* One entry of a list of named templates; *source is set when it is the one. */
static enum status named_entry(struct jrun *r, const struct jval *entry, const char *name,
                               const struct jstr **source)
{
    struct jval n, text;
    TRY(member(r, entry, "name", &n));
    TRY(member(r, entry, "template", &text));
    if (n.type != J_STR || text.type != J_STR)
        FAIL(ST_FORMAT, "an entry of chat_template has no \"name\" and \"template\"");
    if (r->out.len)
        TRY(j_emit_text(r, ", "));
    TRY(j_emit_str(r, &n));
    if (jstr_is(n.u.s, name, strlen(name)))
        *source = text.u.s;
    return ST_OK;
}

/* *source = the template of that name, or NULL; the names there are collect in r->out. */
static enum status pick(struct jrun *r, const struct jval *v, const char *name,
                        const struct jstr **source)
{
    if (v->type == J_STR) {
        if (strcmp(name, "default") == 0)
            *source = v->u.s;
        return j_emit_text(r, "default");
    }
    if (v->type != J_LIST && v->type != J_UNDEF && v->type != J_NONE)
        FAIL(ST_FORMAT, "chat_template is neither a text nor a list");
    for (size_t i = 0; v->type == J_LIST && i < v->u.list->n; i++)
        TRY(named_entry(r, &v->u.list->items[i], name, source));
    return ST_OK;
}

static enum status from_config(struct jrun *r, struct chat_template **out, const char *dir,
                               const char *file, const char *name, struct mapped_file *f)
{
    struct jval config, v;
    const struct jstr *source = NULL;
    TRY(open_json(r, dir, file, f, &config));
    TRY(member(r, &config, "chat_template", &v));
    enum status st = pick(r, &v, name, &source);
    if (st == ST_OK && !source)
        FAIL(ST_NOT_FOUND, "%s/%s has %s%.*s", dir, file, r->out.len ? "only: " : "none",
             (int)(r->out.len < 200 ? r->out.len : 200), r->out.len ? r->out.data : "");
    if (st == ST_OK)
        st = chat_template_create(out, source->p, source->n);
    if (st != ST_OK)
        FAIL(st, "%s/%s: %s", dir, file, status_text());
    return ST_OK;
}

static enum status try_config(struct chat_template **out, const char *dir, const char *file,
                              const char *name)
{
    struct jrun r;
    struct mapped_file f;
    reader_init(&r);
    enum status st = from_config(&r, out, dir, file, name, &f);
    mapped_file_close(&f);
    reader_fini(&r);
    return st;
}

enum status chat_template_from_model(struct chat_template **out, const char *model_dir,
                                     const char *name)
{
    char file[256];
    enum status st;
    *out = NULL;
    if (!name)
        name = "default";
    if (!*name || strlen(name) > 100 || strchr(name, '/'))
        FAIL(ST_RANGE, "'%.100s' is no name of a chat template", name);
    if (strcmp(name, "default") == 0)
        snprintf(file, sizeof file, "chat_template.jinja");
    else
        snprintf(file, sizeof file, "additional_chat_templates/%s.jinja", name);
    st = from_file(out, model_dir, file);
    if (st == ST_NOT_FOUND)
        st = try_config(out, model_dir, "chat_template.json", name);
    if (st == ST_NOT_FOUND)
        st = try_config(out, model_dir, "tokenizer_config.json", name);
    if (st == ST_NOT_FOUND)
        FAIL(st, "no chat template '%s': %s", name, status_text());
    return st;
}

/* --- special tokens --- */

static enum status emit_special(struct jrun *r, const struct jval *config, const char *name,
                                const struct jdump *how)
{
    struct jval v, key, object;
    TRY(member(r, config, name, &v));
    object = v;
    if (v.type == J_DICT)
        TRY(member(r, &object, "content", &v));
    if (v.type == J_UNDEF || v.type == J_NONE)
        return ST_OK;
    if (v.type != J_STR)
        FAIL(ST_FORMAT, "%s is neither a text nor {\"content\"}", name);
    if (r->out.len > 1)
        TRY(j_emit_text(r, ", "));
    TRY(jstr_literal(&r->mem, name, &key));
    TRY(j_json_dump(r, &key, how));
    TRY(j_emit_text(r, ": "));
    return j_json_dump(r, &v, how);
}

static enum status emit_specials(struct jrun *r, const char *dir, struct mapped_file *f)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    static const struct jdump how = {0};
    struct jval config = jv_none();
    enum status st = open_json(r, dir, "tokenizer_config.json", f, &config);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    TRY(j_emit_text(r, "{"));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        st = emit_special(r, &config, names[i], &how);
        if (st != ST_OK)
            FAIL(st, "%s/tokenizer_config.json: %s", dir, status_text());
    }
    return j_emit_text(r, "}");
}

enum status chat_special_tokens(const char *model_dir, struct text_buf *json)
{
    struct jrun r;
    struct mapped_file f;
    reader_init(&r);
    enum status st = emit_specials(&r, model_dir, &f);
    if (st == ST_OK)
        st = text_buf_append(json, r.out.data, r.out.len);
    mapped_file_close(&f);
    reader_fini(&r);
    return st;
}
