#include "coordinator/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"

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
    free(t->pair);
    text_buf_free(&t->chat_template);
    vocab_fini(&t->vocab);
    free(t);
}

enum status tokenizer_create(struct tokenizer **out)
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
