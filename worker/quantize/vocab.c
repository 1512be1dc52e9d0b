/* tokenizer.json and tokenizer_config.json as tokenizer.ggml.* keys.  Source of the keys and of the
 * token types: docs/gguf.md of ggml-org/ggml. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mapped_file.h"
#include "worker/quantize/keys.h"
#include "worker/quantize/vocab_pre.h"

enum { MAX_JSON = 256 << 20 }; /* bytes of a tokenizer.json */

enum token_type { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

struct token {
    const char *text; /* NULL: unused */
    enum token_type type;
    float score;
};

struct vocab {
    const struct keys_source *s;
    struct gguf_writer *w;
    cJSON *root, *config; /* config may be NULL */
    const cJSON *model;
    struct token *token; /* [n] */
    int32_t n;
    bool sentencepiece;
    bool lists_merges; /* scores cannot say them */
};

static enum status load(cJSON **out, const char *dir, const char *name)
{
    char path[4400];
    struct mapped_file f;
    *out = NULL;
    snprintf(path, sizeof path, "%.4000s/%.300s", dir, name);
    TRY(mapped_file_open(&f, path));
    enum status st = json_parse(out, f.data, f.size, MAX_JSON, name);
    mapped_file_close(&f);
    return st;
}

/* ---- tokens ---- */

static enum status set_token(struct vocab *v, const cJSON *id, const char *text,
                             enum token_type type)
{
    uint64_t i;
    if (!json_is_u53(id, &i) || !text)
        FAIL(ST_FORMAT, "tokenizer.json: a token without text or id");
    if (i >= (uint64_t)v->n)
        FAIL(ST_UNSUPPORTED, "tokenizer.json: token %llu, but the model has %d",
             (unsigned long long)i, v->n);
    v->token[i].text = text;
    v->token[i].type = type;
    return ST_OK;
}

static bool is_byte(const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    return strlen(text) == 6 && memcmp(text, "<0x", 3) == 0 && strchr(hex, text[3]) &&
           strchr(hex, text[4]) && text[5] == '>';
}

static enum status set_tokens(struct vocab *v)
{
    const cJSON *item, *unk = json_member(v->model, "unk_token");
    const char *unknown = cJSON_IsString(unk) ? unk->valuestring : NULL;
    bool inexact = false;
    v->n = v->s->mc->vocab;
    v->token = calloc((size_t)v->n, sizeof *v->token);
    if (!v->token)
        FAIL(ST_NOMEM, "no memory for %d tokens", v->n);
    cJSON_ArrayForEach(item, json_member(v->model, "vocab")) TRY(set_token(
        v, item, item->string, v->sentencepiece && is_byte(item->string) ? BYTE : NORMAL));
    cJSON_ArrayForEach(item, json_member(v->root, "added_tokens"))
    {
        const cJSON *text = json_member(item, "content");
        const char *s = cJSON_IsString(text) ? text->valuestring : NULL;
        bool special = cJSON_IsTrue(json_member(item, "special"));
        bool is_unknown = v->sentencepiece && s && unknown && strcmp(s, unknown) == 0;
        TRY(set_token(v, json_member(item, "id"), s,
                      is_unknown ? UNKNOWN
                      : special  ? CONTROL
                                 : USER));
        inexact |= cJSON_IsTrue(json_member(item, "lstrip")) ||
                   cJSON_IsTrue(json_member(item, "rstrip")) ||
                   cJSON_IsTrue(json_member(item, "single_word"));
    }
    if (inexact)
        TRY(vocab_note(v->s->notes,
                       "added tokens take blanks beside them, or whole words only: GGUF cannot say "
                       "that"));
    return ST_OK;
}

static enum status put_tokens(struct vocab *v)
{
    char pad[32];
    TRY(gguf_begin_array(v->w, "tokenizer.ggml.tokens", GGUF_STRING, (size_t)v->n));
    for (int32_t i = 0; i < v->n; i++) {
        struct token *t = &v->token[i];
        if (!t->text)
            t->type = UNUSED;
        snprintf(pad, sizeof pad, "[PAD%d]", i);
        const char *text = t->text ? t->text : pad;
        TRY(gguf_item_str(v->w, text, strlen(text)));
    }
    TRY(gguf_begin_array(v->w, "tokenizer.ggml.token_type", GGUF_I32, (size_t)v->n));
    for (int32_t i = 0; i < v->n; i++)
        TRY(gguf_item_32(v->w, (uint32_t)v->token[i].type));
    return ST_OK;
}

/* ---- merges ---- */

/* A merge as "left right"; the file has it in this form or as a pair.
 * *blank: offset of the blank between the two. */
static enum status merge_text(const cJSON *item, struct text_buf *out, size_t *blank)
{
    out->len = 0;
    if (cJSON_IsString(item)) {
        const char *at = *item->valuestring ? strchr(item->valuestring + 1, ' ') : NULL;
        if (!at)
            FAIL(ST_FORMAT, "tokenizer.json: the merge \"%.60s\" is no pair", item->valuestring);
        *blank = (size_t)(at - item->valuestring);
        return text_buf_append(out, item->valuestring, strlen(item->valuestring));
    }
    const cJSON *left = cJSON_GetArrayItem(item, 0), *right = cJSON_GetArrayItem(item, 1);
    if (cJSON_GetArraySize(item) != 2 || !cJSON_IsString(left) || !cJSON_IsString(right))
        FAIL(ST_FORMAT, "tokenizer.json: a merge is no pair");
    if (strchr(left->valuestring, ' ') || strchr(right->valuestring, ' '))
        FAIL(ST_UNSUPPORTED,
             "tokenizer.json: a merge of tokens with blanks cannot be said in GGUF");
    *blank = strlen(left->valuestring);
    TRY(text_buf_append(out, left->valuestring, *blank));
    TRY(text_buf_append(out, " ", 1));
    return text_buf_append(out, right->valuestring, strlen(right->valuestring));
}

static enum status put_merges(struct vocab *v)
{
    const cJSON *item, *merges = json_member(v->model, "merges");
    struct text_buf text = {0};
    size_t blank;
    enum status st = gguf_begin_array(v->w, "tokenizer.ggml.merges", GGUF_STRING,
                                      (size_t)cJSON_GetArraySize(merges));
    cJSON_ArrayForEach(item, merges)
    {
        if (st == ST_OK)
            st = merge_text(item, &text, &blank);
        if (st == ST_OK)
            st = gguf_item_str(v->w, text.data, text.len);
    }
    text_buf_free(&text);
    return st;
}

struct by_text {
    const char *text;
    int32_t id;
};

static int text_order(const void *a, const void *b)
{
    return strcmp(((const struct by_text *)a)->text, ((const struct by_text *)b)->text);
}

/* SentencePiece ranks merges by the score of the token that they make, which is minus the position of
 * its first merge.  Where the merges of one token are not adjacent, scores cannot say them. */
static enum status scores_from_merges(struct vocab *v, const struct by_text *index, size_t n)
{
    const cJSON *item;
    struct text_buf text = {0};
    struct token *last = NULL;
    int32_t n_made = 0;
    size_t blank = 0;
    enum status st = ST_OK;
    cJSON_ArrayForEach(item, json_member(v->model, "merges"))
    {
        st = merge_text(item, &text, &blank);
        if (st == ST_OK) {
            memmove(text.data + blank, text.data + blank + 1, text.len - blank - 1);
            text.data[text.len - 1] = '\0';
            const struct by_text *hit =
                bsearch(&(struct by_text){text.data, 0}, index, n, sizeof *index, text_order);
            struct token *t = hit ? &v->token[hit->id] : NULL;
            if (!t)
                st = status_fail(ST_FORMAT, __FILE__, __LINE__,
                                 "tokenizer.json: a merge makes \"%.60s\", which is no token",
                                 text.data);
            else if (t != last && t->score != 0)
                v->lists_merges = true;
            else if (t != last)
                t->score = -(float)++n_made;
            last = t;
        }
        if (st != ST_OK)
            break;
    }
    text_buf_free(&text);
    for (int32_t i = 0; i < v->n; i++)
        if (v->token[i].type == NORMAL && v->token[i].score == 0)
            v->token[i].score = -(float)(n_made + 1);
    return st;
}

static enum status make_scores(struct vocab *v)
{
    struct by_text *index = calloc((size_t)v->n, sizeof *index);
    size_t n = 0;
    if (!index)
        FAIL(ST_NOMEM, "no memory for %d tokens", v->n);
    for (int32_t i = 0; i < v->n; i++)
        if (v->token[i].text && v->token[i].type == NORMAL)
            index[n++] = (struct by_text){v->token[i].text, i};
    qsort(index, n, sizeof *index, text_order);
    enum status st = scores_from_merges(v, index, n);
    free(index);
    return st;
}

static enum status put_scores(struct vocab *v)
{
    TRY(gguf_begin_array(v->w, "tokenizer.ggml.scores", GGUF_F32, (size_t)v->n));
    for (int32_t i = 0; i < v->n; i++)
        TRY(gguf_item_32(v->w, bits_of_f32(v->token[i].score)));
    return ST_OK;
}

/* ---- special tokens ---- */

static int32_t find_token(const struct vocab *v, const char *text)
{
    for (int32_t i = 0; i < v->n; i++)
        if (v->token[i].text && strcmp(v->token[i].text, text) == 0)
            return i;
    return -1;
}

/* The token that tokenizer_config.json calls so; -1: none. */
static int32_t named_token(const struct vocab *v, const char *name)
{
    const cJSON *t = json_member(v->config, name);
    if (cJSON_IsObject(t))
        t = json_member(t, "content");
    return cJSON_IsString(t) ? find_token(v, t->valuestring) : -1;
}

static enum status put_id(struct vocab *v, const char *key, int32_t id)
{
    return id < 0 ? ST_OK : gguf_put_u32(v->w, key, (uint32_t)id);
}

/* The ids that end a generation: the first is EOS, two more have keys. */
static enum status put_ends_of_turn(struct vocab *v, int32_t eos)
{
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    size_t n = 0;
    for (int32_t i = 0; i < v->s->mc->n_eos; i++) {
        int32_t id = v->s->mc->eos_id[i];
        if (id == eos)
            continue;
        if (n == ARRAY_LEN(keys))
            return vocab_note(v->s->notes,
                              "more than three tokens end a generation: GGUF has keys for "
                              "three");
        TRY(put_id(v, keys[n++], id));
    }
    return ST_OK;
}

static enum status put_specials(struct vocab *v)
{
    int32_t head, tail, bos = named_token(v, "bos_token"), eos = named_token(v, "eos_token");
    int32_t unk = named_token(v, "unk_token");
    const cJSON *model_unk = json_member(v->model, "unk_token");
    TRY(vocab_ends(v->root, &head, &tail));
    if (unk < 0 && cJSON_IsString(model_unk))
        unk = find_token(v, model_unk->valuestring);
    if (bos < 0)
        bos = head;
    if (eos < 0 && v->s->mc->n_eos)
        eos = v->s->mc->eos_id[0];
    if ((head >= 0 && head != bos) || (tail >= 0 && tail != eos))
        FAIL(ST_UNSUPPORTED,
             "tokenizer.json: its post-processor adds other tokens than BOS and EOS");
    TRY(put_id(v, "tokenizer.ggml.bos_token_id", bos));
    TRY(put_id(v, "tokenizer.ggml.eos_token_id", eos));
    TRY(put_id(v, "tokenizer.ggml.unknown_token_id", unk));
    TRY(put_id(v, "tokenizer.ggml.padding_token_id", named_token(v, "pad_token")));
    TRY(put_ends_of_turn(v, eos));
    TRY(gguf_put_bool(v->w, "tokenizer.ggml.add_bos_token", head >= 0));
    return gguf_put_bool(v->w, "tokenizer.ggml.add_eos_token", tail >= 0);
}

/* ---- chat template ---- */

static enum status put_named(struct vocab *v, const cJSON *entry)
{
    const cJSON *name = json_member(entry, "name"), *text = json_member(entry, "template");
    char key[160] = "tokenizer.chat_template";
    if (!cJSON_IsString(name) || !cJSON_IsString(text))
        FAIL(ST_FORMAT,
             "tokenizer_config.json: an entry of chat_template has no name and template");
    if (strcmp(name->valuestring, "default") != 0)
        snprintf(key, sizeof key, "tokenizer.chat_template.%.100s", name->valuestring);
    return gguf_put_str(v->w, key, text->valuestring, strlen(text->valuestring));
}

static enum status put_template(struct vocab *v)
{
    char path[4400];
    struct mapped_file f;
    const cJSON *item, *t = json_member(v->config, "chat_template");
    snprintf(path, sizeof path, "%.4000s/chat_template.jinja", v->s->path);
    enum status st = mapped_file_open(&f, path);
    if (st == ST_OK) {
        st = gguf_put_str(v->w, "tokenizer.chat_template", (const char *)f.data, f.size);
        mapped_file_close(&f);
        return st;
    }
    if (st != ST_NOT_FOUND)
        return st;
    if (cJSON_IsString(t))
        return gguf_put_str(v->w, "tokenizer.chat_template", t->valuestring,
                            strlen(t->valuestring));
    if (cJSON_IsArray(t))
        cJSON_ArrayForEach(item, t) TRY(put_named(v, item));
    return ST_OK;
}

/* ---- all ---- */

static enum status put_model(struct vocab *v)
{
    const char *pre;
    bool prefix;
    if (v->sentencepiece) {
        TRY(vocab_space_prefix(v->root, &prefix, v->s->notes));
        if (v->lists_merges && prefix)
            FAIL(ST_UNSUPPORTED, "tokenizer.json: the merges of a token do not stand together: "
                                 "GGUF's scores cannot say that");
        if (v->lists_merges) { /* Gemma 4's kind: SentencePiece with a list of merges */
            TRY(gguf_put_str(v->w, "tokenizer.ggml.model", "gemma4", 6));
            return gguf_put_bool(v->w, "tokenizer.ggml.add_space_prefix", false);
        }
        TRY(gguf_put_str(v->w, "tokenizer.ggml.model", "llama", 5));
        TRY(gguf_put_str(v->w, "tokenizer.ggml.pre", "default", 7));
        return gguf_put_bool(v->w, "tokenizer.ggml.add_space_prefix", prefix);
    }
    TRY(vocab_pre_name(v->root, &pre, v->s->notes));
    TRY(gguf_put_str(v->w, "tokenizer.ggml.model", "gpt2", 4));
    return gguf_put_str(v->w, "tokenizer.ggml.pre", pre, strlen(pre));
}

static enum status put_vocab(struct vocab *v)
{
    const cJSON *type;
    v->model = json_member(v->root, "model");
    type = json_member(v->model, "type");
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "BPE") != 0)
        FAIL(ST_UNSUPPORTED, "tokenizer.json: only BPE tokenizers are written into GGUF files");
    v->sentencepiece = cJSON_IsTrue(json_member(v->model, "byte_fallback"));
    TRY(set_tokens(v));
    if (v->sentencepiece)
        TRY(make_scores(v));
    TRY(put_model(v));
    TRY(put_tokens(v));
    TRY(v->sentencepiece && !v->lists_merges ? put_scores(v) : put_merges(v));
    TRY(put_specials(v));
    return put_template(v);
}

enum status vocab_from_folder(struct gguf_writer *w, const struct keys_source *s)
{
    struct vocab v = {.s = s, .w = w};
    enum status st = load(&v.root, s->path, "tokenizer.json");
    if (st == ST_NOT_FOUND)
        return vocab_note(s->notes, "there is no tokenizer.json: the file has no tokenizer");
    if (st == ST_OK)
        st = load(&v.config, s->path, "tokenizer_config.json");
    if (st == ST_OK || st == ST_NOT_FOUND)
        st = put_vocab(&v);
    cJSON_Delete(v.root);
    cJSON_Delete(v.config);
    free(v.token);
    return st;
}
