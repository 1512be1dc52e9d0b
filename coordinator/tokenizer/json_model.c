/* tokenizer.json as a whole, and in it the model: vocabulary and merges are read as a stream, the
 * rest with cJSON. */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/tok_json.h"

enum part { PART_NORMALIZER, PART_PRE, PART_POST, PART_DECODER, PART_ADDED, PART_N };

struct file_parts {
    struct tok_text part[PART_N];
    struct tok_text vocab, merges; /* of the model */
    cJSON *model;                  /* its other fields */
};

/* cJSON ends strings at U+0000; what holds one is refused instead of cut. */
static enum status parse_small(struct tok_text text, const char *what, cJSON **out)
{
    *out = NULL;
    if (!text.data)
        return ST_OK;
    for (size_t i = 0; i + 6 <= text.len; i++)
        if (memcmp(text.data + i, "\\u0000", 6) == 0 && (i == 0 || text.data[i - 1] != '\\'))
            FAIL(ST_UNSUPPORTED, "%s: U+0000 in a string", what);
    *out = cJSON_ParseWithLength(text.data, text.len);
    if (!*out)
        FAIL(ST_FORMAT, "%s: malformed JSON", what);
    return ST_OK;
}

static enum status walk_model(struct tok_json *r, struct file_parts *f)
{
    bool first, more;
    struct tok_text key, value;
    if (f->model)
        FAIL(ST_FORMAT, "tokenizer.json: two models");
    f->model = cJSON_CreateObject();
    if (!f->model)
        FAIL(ST_NOMEM, "no memory for the model");
    TRY(tok_json_open(r, '{', &first));
    for (;;) {
        TRY(tok_json_key(r, &first, &more, &key));
        if (!more)
            return ST_OK;
        char name[64] = "";
        if (key.len < sizeof name)
            memcpy(name, key.data, key.len);
        if (strcmp(name, "vocab") == 0) {
            TRY(tok_json_block(r, &f->vocab));
        } else if (strcmp(name, "merges") == 0) {
            TRY(tok_json_block(r, &f->merges));
        } else {
            cJSON *item;
            TRY(tok_json_value(r, &value));
            if (!*name)
                continue;
            TRY(parse_small(value, "model", &item));
            if (!cJSON_AddItemToObject(f->model, name, item)) {
                cJSON_Delete(item);
                FAIL(ST_NOMEM, "no memory for the model");
            }
        }
    }
}

static enum status walk_file(struct tok_json *r, struct file_parts *f)
{
    static const char *const names[PART_N] = {"normalizer", "pre_tokenizer", "post_processor",
                                              "decoder", "added_tokens"};
    bool first, more;
    struct tok_text key, value;
    TRY(tok_json_open(r, '{', &first));
    for (;;) {
        TRY(tok_json_key(r, &first, &more, &key));
        if (!more)
            return tok_json_end(r);
        int part = -1;
        for (int i = 0; i < PART_N; i++)
            if (tok_text_is(key, names[i]))
                part = i;
        if (tok_text_is(key, "model")) {
            TRY(walk_model(r, f));
            continue;
        }
        TRY(tok_json_value(r, &value));
        if (part >= 0)
            f->part[part] = value;
    }
}

/* ---- the model ---- */

static const cJSON *field(const cJSON *j, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(j, name);
}

static enum status model_bool(const cJSON *m, const char *name, bool fallback, bool *v)
{
    const cJSON *b = field(m, name);
    *v = fallback;
    if (!b || cJSON_IsNull(b))
        return ST_OK;
    if (!cJSON_IsBool(b))
        FAIL(ST_FORMAT, "model: \"%s\" is not true or false", name);
    *v = cJSON_IsTrue(b);
    return ST_OK;
}

static enum status model_text(const cJSON *m, const char *name, struct text_buf *out)
{
    const cJSON *s = field(m, name);
    if (!s || cJSON_IsNull(s))
        return ST_OK;
    if (!cJSON_IsString(s))
        FAIL(ST_FORMAT, "model: \"%s\" is not a string", name);
    return text_buf_append(out, s->valuestring, strlen(s->valuestring));
}

/* {"text": id, ...} */
static enum status load_vocab_map(struct tokenizer *t, struct tok_json *r)
{
    bool first, more;
    struct tok_text key;
    long id;
    TRY(tok_json_open(r, '{', &first));
    for (;;) {
        TRY(tok_json_key(r, &first, &more, &key));
        if (!more)
            return ST_OK;
        TRY(tok_json_index(r, TOK_MAX_VOCAB - 1, &id));
        TRY(vocab_set(&t->vocab, (int32_t)id, key.data, key.len, TF_MODEL));
    }
}

/* [["text", score], ...] */
static enum status load_vocab_scores(struct tokenizer *t, struct tok_json *r)
{
    bool first, more, inner, has;
    struct tok_text text;
    int32_t id = 0, cap = 0;
    TRY(tok_json_open(r, '[', &first));
    for (;; id++) {
        TRY(tok_json_item(r, &first, &more));
        if (!more)
            return ST_OK;
        if (id == cap) {
            cap = cap ? cap * 2 : 1024;
            double *s =
                cap > TOK_MAX_VOCAB ? NULL : realloc(t->model.scores, (size_t)cap * sizeof *s);
            if (!s)
                FAIL(ST_NOMEM, "no memory for the scores of %d tokens", (int)cap);
            t->model.scores = s;
        }
        TRY(tok_json_open(r, '[', &inner));
        TRY(tok_json_item(r, &inner, &has));
        TRY(tok_json_string(r, &text));
        TRY(vocab_set(&t->vocab, id, text.data, text.len, TF_MODEL));
        TRY(tok_json_item(r, &inner, &has));
        TRY(tok_json_number(r, &t->model.scores[id]));
        TRY(tok_json_item(r, &inner, &has));
        if (has)
            FAIL(ST_FORMAT, "model: token %d of the vocabulary is not a text and a score", (int)id);
    }
}

/* Merges are looked up by the batch: tables of hundreds of thousands of tokens do not fit into the
 * caches, so the slots of a whole batch are asked for before the first is read. */
#define BATCH 64

struct merge_texts {
    uint32_t at, left,
        right; /* bytes of batch.text: at, and the lengths of the parts, one behind the other */
    uint32_t left_hash, right_hash;
};

struct merge_load {
    struct text_buf text, joined;
    struct merge_texts batch[BATCH];
    size_t n;
    int32_t last_id; /* merges mostly make tokens in the order of their ids */
    uint32_t rank;
};

static enum status find_joined(const struct tokenizer *t, struct merge_load *l, const char *p,
                               const struct merge_texts *m, int32_t *id)
{
    const struct vocab *v = &t->vocab;
    size_t cut = t->model.prefix.len, n = m->left + m->right - cut;
    if (cut) {
        l->joined.len = 0;
        TRY(text_buf_append(&l->joined, p, m->left));
        TRY(text_buf_append(&l->joined, p + m->left + cut, m->right - cut));
        p = l->joined.data;
    }
    for (*id = l->last_id; *id <= l->last_id + 1 && *id < v->n_ids; ++*id)
        if ((v->flags[*id] & TF_MODEL) && v->text[*id].len == n &&
            memcmp(vocab_text(v, *id).data, p, n) == 0)
            return ST_OK;
    *id = vocab_find_text(v, p, n);
    if (*id < 0)
        FAIL(ST_FORMAT, "model: merge %u makes \"%.*s\", which is not in the vocabulary",
             (unsigned)l->rank, (int)(n < 100 ? n : 100), p);
    return ST_OK;
}

static enum status put_batch(struct tokenizer *t, struct merge_load *l)
{
    struct merge done[BATCH];
    for (size_t i = 0; i < l->n; i++) {
        const struct merge_texts *m = &l->batch[i];
        const char *p = l->text.data + m->at;
        int32_t id = -1, left = vocab_find_hashed(&t->vocab, p, m->left, m->left_hash);
        int32_t right = vocab_find_hashed(&t->vocab, p + m->left, m->right, m->right_hash);
        if (left < 0 || right < 0 || m->right < t->model.prefix.len)
            FAIL(ST_FORMAT, "model: a part of merge %u, \"%.*s\", is not in the vocabulary",
                 (unsigned)l->rank, (int)(m->left + m->right < 100 ? m->left + m->right : 100), p);
        TRY(find_joined(t, l, p, m, &id));
        l->last_id = id;
        done[i] = (struct merge){left, right, id, l->rank++};
        merge_map_prefetch(&t->model.merges, left, right);
    }
    for (size_t i = 0; i < l->n; i++)
        merge_map_put(&t->model.merges, done[i]);
    l->n = 0;
    l->text.len = 0;
    return ST_OK;
}

/* left is in the batch already, from byte at on. */
static enum status end_merge(struct tokenizer *t, struct merge_load *l, size_t at, size_t left,
                             struct tok_text right)
{
    TRY(text_buf_append(&l->text, right.data, right.len));
    if (l->text.len > UINT32_MAX)
        FAIL(ST_RANGE, "model: merges that are too long");
    struct merge_texts m = {(uint32_t)at, (uint32_t)left, (uint32_t)right.len, 0, 0};
    m.left_hash = str_hash(l->text.data + at, left);
    m.right_hash = str_hash(right.data, right.len);
    vocab_prefetch(&t->vocab, m.left_hash);
    vocab_prefetch(&t->vocab, m.right_hash);
    l->batch[l->n++] = m;
    return l->n == BATCH ? put_batch(t, l) : ST_OK;
}

/* "a b" or ["a", "b"] */
static enum status load_merge(struct tokenizer *t, struct tok_json *r, struct merge_load *l)
{
    struct tok_text s;
    bool first, more;
    size_t at = l->text.len;
    if (tok_json_peek(r) == '[') {
        TRY(tok_json_open(r, '[', &first));
        TRY(tok_json_item(r, &first, &more));
        TRY(tok_json_string(r, &s));
        TRY(text_buf_append(&l->text, s.data, s.len));
        size_t left = s.len;
        TRY(tok_json_item(r, &first, &more));
        TRY(tok_json_string(r, &s));
        struct tok_text right = s;
        TRY(tok_json_item(r, &first, &more));
        if (more)
            FAIL(ST_FORMAT, "model: merge %zu has more than two parts", (size_t)l->rank + l->n);
        return end_merge(t, l, at, left, right);
    }
    TRY(tok_json_string(r, &s));
    if (s.len >= 8 && memcmp(s.data, "#version", 8) == 0)
        return ST_OK;
    const char *blank = s.len ? memchr(s.data, ' ', s.len) : NULL;
    size_t left = blank ? (size_t)(blank - s.data) : 0;
    if (!blank || memchr(blank + 1, ' ', s.len - left - 1))
        FAIL(ST_FORMAT, "model: merge %zu is not two parts with a blank between",
             (size_t)l->rank + l->n);
    TRY(text_buf_append(&l->text, s.data, left));
    return end_merge(t, l, at, left, (struct tok_text){blank + 1, s.len - left - 1});
}

static enum status load_merge_list(struct tokenizer *t, struct tok_json *r, struct merge_load *l,
                                   size_t max)
{
    bool first, more;
    TRY(tok_json_open(r, '[', &first));
    if (tok_json_peek(r) == '[')
        max /= 2; /* pairs have a comma inside */
    TRY(merge_map_init(&t->model.merges, max + 1));
    for (;;) {
        TRY(tok_json_item(r, &first, &more));
        if (!more)
            break;
        TRY(load_merge(t, r, l));
    }
    TRY(put_batch(t, l));
    return tok_json_end(r);
}

static enum status load_merges(struct tokenizer *t, struct tok_text text)
{
    struct tok_json r;
    struct merge_load l = {0};
    size_t n = 0;
    if (!text.data)
        FAIL(ST_FORMAT, "model: a BPE without \"merges\"");
    for (size_t i = 0; i < text.len; i++) /* an upper bound: a comma may also stand in a merge */
        n += text.data[i] == ',';
    tok_json_init(&r, text.data, text.len);
    enum status st =
        text_buf_reserve(&l.text, 1); /* data is not NULL, even if all parts are empty */
    if (st == ST_OK)
        st = load_merge_list(t, &r, &l, n);
    text_buf_free(&l.text);
    text_buf_free(&l.joined);
    tok_json_fini(&r);
    return st;
}

static enum status load_bpe(struct tokenizer *t, const struct file_parts *f)
{
    struct model *m = &t->model;
    const cJSON *dropout = field(f->model, "dropout");
    struct text_buf unk = {0};
    if (dropout && !cJSON_IsNull(dropout) &&
        !(cJSON_IsNumber(dropout) && dropout->valuedouble == 0))
        FAIL(ST_UNSUPPORTED, "model: BPE with dropout is not supported");
    TRY(model_bool(f->model, "fuse_unk", false, &m->fuse_unk));
    TRY(model_bool(f->model, "byte_fallback", false, &m->byte_fallback));
    TRY(model_bool(f->model, "ignore_merges", false, &m->ignore_merges));
    TRY(model_text(f->model, "continuing_subword_prefix", &m->prefix));
    TRY(model_text(f->model, "end_of_word_suffix", &m->suffix));
    enum status st = model_text(f->model, "unk_token", &unk);
    if (st == ST_OK && unk.data) {
        m->unk = vocab_find_text(&t->vocab, unk.data, unk.len);
        if (m->unk < 0)
            st = status_fail(ST_FORMAT, __FILE__, __LINE__,
                             "model: unk_token \"%.*s\" is not in the vocabulary",
                             (int)(unk.len % 100), unk.data);
    }
    text_buf_free(&unk);
    TRY(st);
    TRY(load_merges(t, f->merges));
    return bpe_prepare(t);
}

static enum status load_unigram(struct tokenizer *t, const struct file_parts *f)
{
    const cJSON *unk = field(f->model, "unk_id");
    t->model.fuse_unk = true;
    TRY(model_bool(f->model, "byte_fallback", false, &t->model.byte_fallback));
    if (unk && !cJSON_IsNull(unk)) {
        if (!cJSON_IsNumber(unk) || unk->valuedouble < 0 || unk->valuedouble >= t->vocab.n_ids)
            FAIL(ST_RANGE, "model: \"unk_id\" is not in the vocabulary");
        t->model.unk = (int32_t)unk->valuedouble;
    }
    return unigram_prepare(t);
}

static enum status load_words(struct tokenizer *t, const struct file_parts *f, bool pieces)
{
    struct model *m = &t->model;
    struct text_buf unk = {0};
    const cJSON *max = field(f->model, "max_input_chars_per_word");
    TRY(model_text(f->model, "unk_token", &unk));
    if (unk.data)
        m->unk = vocab_find_text(&t->vocab, unk.data, unk.len);
    text_buf_free(&unk);
    m->max_word_chars = 100;
    if (!pieces)
        return ST_OK;
    if (max && (!cJSON_IsNumber(max) || max->valuedouble < 0 || max->valuedouble > 10000))
        FAIL(ST_RANGE, "model: \"max_input_chars_per_word\" is not a number up to 10000");
    if (max)
        m->max_word_chars = (size_t)max->valuedouble;
    return model_text(f->model, "continuing_subword_prefix", &m->prefix);
}

static enum status model_kind(const struct file_parts *f, enum model_kind *kind)
{
    static const char *const names[] = {"BPE", "Unigram", "WordPiece", "WordLevel"};
    const cJSON *type = field(f->model, "type");
    if (!type) { /* files of the first releases */
        *kind = f->merges.data                                 ? MODEL_BPE
                : field(f->model, "unk_id")                    ? MODEL_UNIGRAM
                : field(f->model, "continuing_subword_prefix") ? MODEL_WORDPIECE
                                                               : MODEL_WORDLEVEL;
        return ST_OK;
    }
    for (size_t i = 0; cJSON_IsString(type) && i < ARRAY_LEN(names); i++)
        if (strcmp(type->valuestring, names[i]) == 0) {
            *kind = (enum model_kind)i;
            return ST_OK;
        }
    FAIL(ST_UNSUPPORTED, "model %s is not supported",
         cJSON_IsString(type) ? type->valuestring : "(type is not a string)");
}

static enum status load_model(struct tokenizer *t, const struct file_parts *f)
{
    struct tok_json r;
    if (!f->model || !f->vocab.data)
        FAIL(ST_FORMAT, "tokenizer.json: no model, or a model without \"vocab\"");
    TRY(model_kind(f, &t->model.kind));
    tok_json_init(&r, f->vocab.data, f->vocab.len);
    enum status st =
        t->model.kind == MODEL_UNIGRAM ? load_vocab_scores(t, &r) : load_vocab_map(t, &r);
    if (st == ST_OK)
        st = tok_json_end(&r);
    tok_json_fini(&r);
    TRY(st);
    TRY(vocab_finish(&t->vocab, tokenizer_is_byte_level(t)));
    switch (t->model.kind) {
    case MODEL_BPE:
        return load_bpe(t, f);
    case MODEL_UNIGRAM:
        return load_unigram(t, f);
    case MODEL_WORDPIECE:
    case MODEL_WORDLEVEL:
        return load_words(t, f, t->model.kind == MODEL_WORDPIECE);
    }
    FAIL(ST_BUG, "model kind %d", (int)t->model.kind);
}

/* ---- added tokens ---- */

/* Of an added token, else of the model's; -1: none. */
static int32_t token_id(const struct tokenizer *t, const char *text)
{
    for (size_t i = 0; i < t->n_added; i++)
        if (tok_text_is(vocab_text(&t->vocab, t->added[i].id), text))
            return t->added[i].id;
    return vocab_find_text(&t->vocab, text, strlen(text));
}

/* Ids follow from the order of the tokens, as in HuggingFace; a file that says otherwise gets a
 * warning. */
static void check_id(const struct tokenizer *t, const char *text, const cJSON *said)
{
    int32_t id = token_id(t, text);
    if (cJSON_IsNumber(said) && said->valuedouble != (double)id)
        log_line(LOG_WARN, "tokenizer.json: the added token \"%.64s\" has the id %d, not %.0f",
                 text, (int)id, said->valuedouble);
}

static enum status load_added(struct tokenizer *t, const cJSON *list)
{
    const cJSON *j;
    if (!list || cJSON_IsNull(list))
        return ST_OK;
    if (!cJSON_IsArray(list))
        FAIL(ST_FORMAT, "added_tokens: not a list");
    cJSON_ArrayForEach(j, list)
    {
        const cJSON *content = field(j, "content");
        struct added_token a = {
            .id = -1,
            .single_word = cJSON_IsTrue(field(j, "single_word")),
            .lstrip = cJSON_IsTrue(field(j, "lstrip")),
            .rstrip = cJSON_IsTrue(field(j, "rstrip")),
            .normalized = cJSON_IsTrue(field(j, "normalized")),
            .special = cJSON_IsTrue(field(j, "special")),
        };
        if (!cJSON_IsString(content))
            FAIL(ST_FORMAT, "added_tokens: a token without \"content\"");
        TRY(tokenizer_add_token(t, a, content->valuestring, strlen(content->valuestring)));
        check_id(t, content->valuestring, field(j, "id"));
    }
    return ST_OK;
}

static enum status load_parts(struct tokenizer *t, const struct file_parts *f,
                              cJSON *const part[PART_N])
{
    TRY(load_normalizer(t, part[PART_NORMALIZER]));
    TRY(load_pre_tokenizer(t, part[PART_PRE]));
    TRY(load_model(t, f));
    TRY(load_added(t, part[PART_ADDED]));
    TRY(load_post_processor(t, part[PART_POST]));
    return load_decoder(t, part[PART_DECODER]);
}

enum status load_json(struct tokenizer *t, const char *data, size_t len)
{
    struct file_parts f = {0};
    cJSON *part[PART_N] = {0};
    struct tok_json r;
    tok_json_init(&r, data, len);
    enum status st = walk_file(&r, &f);
    for (int i = 0; i < PART_N && st == ST_OK; i++)
        st = parse_small(f.part[i], "tokenizer.json", &part[i]);
    if (st == ST_OK)
        st = load_parts(t, &f, part);
    for (int i = 0; i < PART_N; i++)
        cJSON_Delete(part[i]);
    cJSON_Delete(f.model);
    tok_json_fini(&r);
    return st;
}

/* "bos_token": "<s>" or {"content": "<s>", ...} */
static int32_t config_token(const struct tokenizer *t, const cJSON *j, const char *name)
{
    const cJSON *s = field(j, name);
    if (cJSON_IsObject(s))
        s = field(s, "content");
    if (!cJSON_IsString(s) || !*s->valuestring)
        return -1;
    return token_id(t, s->valuestring);
}

enum status load_config(struct tokenizer *t, const char *data, size_t len)
{
    cJSON *j;
    TRY(parse_small((struct tok_text){data, len}, "tokenizer_config.json", &j));
    t->specials.bos = config_token(t, j, "bos_token");
    t->specials.eos = config_token(t, j, "eos_token");
    t->specials.pad = config_token(t, j, "pad_token");
    t->specials.unk = config_token(t, j, "unk_token");
    cJSON_Delete(j);
    return ST_OK;
}
