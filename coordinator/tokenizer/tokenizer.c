#include "coordinator/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/formats/gguf_file.h"
#include "common/mapped_file.h"
#include "common/model_path.h"
#include "coordinator/tokenizer/impl.h"

#define MAX_JSON ((size_t)512 << 20) /* bytes of a tokenizer.json */

const char *token_source_name(enum token_source s)
{
    static const char *const names[TOKEN_SOURCE_N] = {"model", "byte", "unknown", "added",
                                                      "template"};
    return s >= 0 && s < TOKEN_SOURCE_N ? names[s] : "unknown";
}

void tokenizer_destroy(struct tokenizer *t)
{
    if (!t)
        return;
    for (int i = 0; i < MAX_STEPS; i++) {
        norm_step_fini(&t->norm[i]);
        pre_step_fini(&t->pre[i]);
        text_buf_free(&t->decoder.steps[i].find);
        text_buf_free(&t->decoder.steps[i].with);
    }
    text_buf_free(&t->model.prefix);
    text_buf_free(&t->model.suffix);
    merge_map_fini(&t->model.merges);
    free(t->model.alone);
    free(t->model.scores);
    trie_fini(&t->model.trie);
    added_fini(t);
    free(t->head);
    free(t->tail);
    text_buf_free(&t->chat_template);
    vocab_fini(&t->vocab);
    free(t);
}

static enum status create(struct tokenizer **out)
{
    *out = NULL;
    struct tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        FAIL(ST_NOMEM, "no memory for a tokenizer");
    vocab_init(&t->vocab);
    t->model.unk = -1;
    t->specials = (struct tokenizer_specials){.bos = -1, .eos = -1, .pad = -1, .unk = -1};
    *out = t;
    return ST_OK;
}

bool tokenizer_is_byte_level(const struct tokenizer *t)
{
    for (int i = 0; i < t->n_norm; i++)
        if (t->norm[i].kind == NORM_BYTE_LEVEL)
            return true;
    for (int i = 0; i < t->n_pre; i++)
        if (t->pre[i].kind == PRE_BYTE_LEVEL)
            return true;
    return false;
}

/* Steps that this tokenizer could not carry out faithfully. */
static enum status check_byte_level(const struct tokenizer *t)
{
    int n = 0;
    for (int i = 0; i < t->n_norm; i++) {
        n += t->norm[i].kind == NORM_BYTE_LEVEL;
        if (n && t->norm[i].kind != NORM_BYTE_LEVEL)
            FAIL(ST_UNSUPPORTED, "normalizer: a step behind ByteLevel is not supported");
    }
    for (int i = 0; i < t->n_pre; i++) {
        n += t->pre[i].kind == PRE_BYTE_LEVEL;
        if (n && t->pre[i].kind == PRE_METASPACE)
            FAIL(ST_UNSUPPORTED, "pre_tokenizer: Metaspace behind ByteLevel is not supported");
    }
    if (n > 1)
        FAIL(ST_UNSUPPORTED, "ByteLevel twice is not supported");
    if (n && t->model.kind != MODEL_BPE)
        FAIL(ST_UNSUPPORTED, "ByteLevel with a model other than BPE is not supported");
    return ST_OK;
}

enum status tokenizer_add_token(struct tokenizer *t, struct added_token a, const char *text,
                                size_t n)
{
    if (n == 0)
        return ST_OK;
    if (a.id < 0)
        a.id = vocab_find_text(&t->vocab, text, n);
    int32_t next = t->vocab.n_model;
    for (size_t i = 0; i < t->n_added; i++) {
        struct tok_text s = vocab_text(&t->vocab, t->added[i].id);
        if (s.len == n && memcmp(s.data, text, n) == 0)
            a.id = t->added[i].id;
        if (t->added[i].id >= next)
            next = t->added[i].id + 1;
    }
    if (a.id < 0) {
        a.id = next;
        TRY(vocab_set(&t->vocab, a.id, text, n, TF_ADDED));
    }
    t->vocab.flags[a.id] |= (uint8_t)(TF_ADDED | (a.special ? TF_SPECIAL : 0));
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].id == a.id) { /* said twice: the later holds */
            t->added[i] = a;
            return ST_OK;
        }
    if ((t->n_added & (t->n_added - 1)) == 0) { /* a power of two, or none: full */
        struct added_token *list =
            realloc(t->added, (t->n_added ? t->n_added * 2 : 1) * sizeof *list);
        if (!list)
            FAIL(ST_NOMEM, "no memory for %zu added tokens", t->n_added + 1);
        t->added = list;
    }
    t->added[t->n_added++] = a;
    return ST_OK;
}

static struct tok_text special_text(const struct tokenizer *t, int32_t id)
{
    return id < 0 ? (struct tok_text){0} : vocab_text(&t->vocab, id);
}

enum status tokenizer_finish(struct tokenizer *t)
{
    static const char *const kinds[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    struct tokenizer_specials *s = &t->specials;
    TRY(check_byte_level(t));
    TRY(added_prepare(t));
    for (int i = 0; i < t->n_pre; i++)
        t->needs_map |= t->pre[i].kind == PRE_METASPACE && t->pre[i].scheme == PREPEND_FIRST &&
                        (t->n_norm > 0 || i > 0);
    if (s->unk < 0)
        s->unk = t->model.unk;
    s->bos_text = special_text(t, s->bos);
    s->eos_text = special_text(t, s->eos);
    s->pad_text = special_text(t, s->pad);
    s->unk_text = special_text(t, s->unk);
    s->adds_bos = t->n_head > 0 && t->head[0] == s->bos;
    s->adds_eos = t->n_tail > 0 && t->tail[t->n_tail - 1] == s->eos;
    snprintf(t->describe, sizeof t->describe, "%s, %d tokens, %s", kinds[t->model.kind],
             (int)tokenizer_vocab_size(t),
             t->vocab.byte_level      ? "byte-level"
             : t->model.byte_fallback ? "byte fallback"
                                      : "characters");
    return ST_OK;
}

enum status tokenizer_from_json(struct tokenizer **out, const char *data, size_t len,
                                const char *config, size_t config_len)
{
    TRY(create(out));
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
    if (st == ST_OK)
        st = tokenizer_finish(t);
    if (st != ST_OK) {
        tokenizer_destroy(t);
        *out = NULL;
    }
    return st;
}

enum status tokenizer_from_gguf(struct tokenizer **out, const struct gguf *g)
{
    TRY(create(out));
    enum status st = load_gguf(*out, g);
    if (st == ST_OK)
        st = tokenizer_finish(*out);
    if (st != ST_OK) {
        tokenizer_destroy(*out);
        *out = NULL;
    }
    return st;
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

static enum status open_directory(struct tokenizer **out, const char *dir)
{
    char path[4096], config[4096];
    struct stat st;
    if (snprintf(path, sizeof path, "%s/tokenizer.json", dir) >= (int)sizeof path ||
        snprintf(config, sizeof config, "%s/tokenizer_config.json", dir) >= (int)sizeof config)
        FAIL(ST_RANGE, "%s: the path is too long", dir);
    if (stat(path, &st) == 0)
        return open_json(out, path, config);
    TRY(find_gguf(dir, path, sizeof path));
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
    /* A tokenizer.json given by itself: its neighbour says which tokens are BOS and EOS. */
    char config[4096];
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path) + 1 : 0;
    bool fits = snprintf(config, sizeof config, "%.*stokenizer_config.json", dir, path) <
                (int)sizeof config;
    return open_json(out, path, fits ? config : NULL);
}

/* ---- questions ---- */

int32_t tokenizer_find(const struct tokenizer *t, const char *text, size_t n)
{
    for (size_t i = 0; i < t->n_added; i++) {
        struct tok_text s = t->added[i].text;
        if (s.len == n && memcmp(s.data, text, n) == 0)
            return t->added[i].id;
    }
    return vocab_find_text(&t->vocab, text, n);
}

int32_t tokenizer_vocab_size(const struct tokenizer *t)
{
    int32_t n = t->vocab.n_model;
    for (size_t i = 0; i < t->n_added; i++)
        n += !(t->vocab.flags[t->added[i].id] & TF_MODEL);
    return n;
}

int32_t tokenizer_max_id(const struct tokenizer *t)
{
    return t->vocab.n_ids - 1;
}

bool tokenizer_is_special(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab.n_ids && (t->vocab.flags[id] & TF_SPECIAL);
}

const struct tokenizer_specials *tokenizer_specials(const struct tokenizer *t)
{
    return &t->specials;
}

const char *tokenizer_describe(const struct tokenizer *t)
{
    return t->describe;
}

struct tok_text tokenizer_chat_template(const struct tokenizer *t)
{
    return (struct tok_text){t->chat_template.data, t->chat_template.len};
}
