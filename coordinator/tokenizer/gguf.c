/* A tokenizer out of GGUF metadata (tokenizer.ggml.*): byte-level BPE with a named pre-tokenizer,
 * SentencePiece BPE with scores, WordPiece, Unigram. */
#include <stdlib.h>
#include <string.h>

#include "common/formats/gguf.h"
#include "common/utf8.h"
#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

/* Values of tokenizer.ggml.token_type. */
enum {
    TYPE_NORMAL = 1,
    TYPE_UNKNOWN = 2,
    TYPE_CONTROL = 3,
    TYPE_USER = 4,
    TYPE_UNUSED = 5,
    TYPE_BYTE = 6,
};

static const char mark[] = "\xE2\x96\x81"; /* U+2581 */

struct source {
    const struct gguf *g;
    struct gguf_array tokens, types, scores;
    bool has_types, has_scores;
    bool phi3; /* special tokens take the blanks behind them */
};

static enum status optional(enum status st)
{
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status get_source(struct source *s, const struct gguf *g)
{
    struct gguf_str arch = {"", 0};
    s->g = g;
    TRY(gguf_get_array(g, "tokenizer.ggml.tokens", GGUF_STRING, &s->tokens));
    if (s->tokens.n == 0 || s->tokens.n > (uint64_t)TOK_MAX_VOCAB)
        FAIL(ST_RANGE, "gguf: a vocabulary of %llu tokens", (unsigned long long)s->tokens.n);
    s->has_types = gguf_has(g, "tokenizer.ggml.token_type");
    s->has_scores = gguf_has(g, "tokenizer.ggml.scores");
    if (s->has_types)
        TRY(gguf_get_array(g, "tokenizer.ggml.token_type", GGUF_I32, &s->types));
    if (s->has_scores)
        TRY(gguf_get_array(g, "tokenizer.ggml.scores", GGUF_F32, &s->scores));
    if ((s->has_types && s->types.n != s->tokens.n) ||
        (s->has_scores && s->scores.n != s->tokens.n))
        FAIL(ST_FORMAT, "gguf: token_type or scores has not as many elements as tokens");
    TRY(optional(gguf_get_str(g, "general.architecture", &arch)));
    s->phi3 = arch.len == 4 && memcmp(arch.data, "phi3", 4) == 0;
    return ST_OK;
}

static int64_t type_of(const struct source *s, int32_t id)
{
    return s->has_types ? gguf_array_int(&s->types, (uint64_t)id) : TYPE_NORMAL;
}

static bool is_added(int64_t type)
{
    return type == TYPE_CONTROL || type == TYPE_USER || type == TYPE_UNKNOWN;
}

/* Sets every token; spell (or NULL) rewrites the text of those that belong to the model. */
typedef enum status spell_fn(struct gguf_str in, int64_t type, struct text_buf *out);

static enum status set_tokens(struct tokenizer *t, const struct source *s, spell_fn *spell)
{
    struct gguf_cursor c = {0};
    struct text_buf text = {0};
    enum status st = ST_OK;
    for (int32_t id = 0; id < (int32_t)s->tokens.n && st == ST_OK; id++) {
        struct gguf_str in = gguf_array_next(&s->tokens, &c);
        int64_t type = type_of(s, id);
        if (!utf8_valid(in.data, in.len)) {
            st = status_fail(ST_FORMAT, __FILE__, __LINE__, "gguf: token %d is not UTF-8", (int)id);
            break;
        }
        text.len = 0;
        st = spell ? spell(in, type, &text) : text_buf_append(&text, in.data, in.len);
        if (st == ST_OK)
            st = vocab_set(&t->vocab, id, text.data ? text.data : "", text.len,
                           is_added(type) ? TF_ADDED : TF_MODEL);
    }
    text_buf_free(&text);
    return st;
}

static enum status set_added(struct tokenizer *t, const struct source *s)
{
    for (int32_t id = 0; id < (int32_t)s->tokens.n; id++) {
        int64_t type = type_of(s, id);
        if (!is_added(type))
            continue;
        struct tok_text text = vocab_text(&t->vocab, id);
        struct added_token a = {.id = id, .special = type != TYPE_USER};
        a.rstrip = s->phi3 && !tok_text_is(text, "<unk>") && !tok_text_is(text, "<s>") &&
                   !tok_text_is(text, "<|endoftext|>");
        if (text.len)
            TRY(tokenizer_add_token(t, a, text.data, text.len));
    }
    return ST_OK;
}

static enum status set_scores(struct tokenizer *t, const struct source *s)
{
    if (!s->has_scores)
        FAIL(ST_FORMAT, "gguf: tokenizer.ggml.scores is absent");
    t->model.scores = malloc((size_t)s->tokens.n * sizeof *t->model.scores);
    if (!t->model.scores)
        FAIL(ST_NOMEM, "no memory for %llu scores", (unsigned long long)s->tokens.n);
    for (uint64_t i = 0; i < s->tokens.n; i++) {
        t->model.scores[i] = gguf_array_float(&s->scores, i);
        if (t->model.scores[i] != t->model.scores[i])
            FAIL(ST_FORMAT, "gguf: the score of token %llu is not a number", (unsigned long long)i);
    }
    return ST_OK;
}

/* -1: absent */
static enum status get_id(const struct source *s, const char *key, int32_t *id)
{
    uint64_t v;
    enum status st = gguf_get_u64(s->g, key, &v);
    *id = -1;
    if (st != ST_OK)
        return optional(st);
    if (v < s->tokens.n) /* else no token has it */
        *id = (int32_t)v;
    return ST_OK;
}

static enum status set_specials(struct tokenizer *t, const struct source *s)
{
    struct tokenizer_specials *p = &t->specials;
    TRY(get_id(s, "tokenizer.ggml.bos_token_id", &p->bos));
    TRY(get_id(s, "tokenizer.ggml.eos_token_id", &p->eos));
    TRY(get_id(s, "tokenizer.ggml.padding_token_id", &p->pad));
    return get_id(s, "tokenizer.ggml.unknown_token_id", &p->unk);
}

static enum status put_around(int32_t **list, size_t *n, int32_t id, const char *what)
{
    if (id < 0)
        FAIL(ST_FORMAT, "gguf: the tokenizer adds %s, but there is no id for it", what);
    *list = malloc(sizeof **list);
    if (!*list)
        FAIL(ST_NOMEM, "no memory for a token");
    **list = id;
    *n = 1;
    return ST_OK;
}

static enum status set_template(struct tokenizer *t, const struct source *s, bool bos, bool eos)
{
    TRY(optional(gguf_get_bool(s->g, "tokenizer.ggml.add_bos_token", &bos)));
    TRY(optional(gguf_get_bool(s->g, "tokenizer.ggml.add_eos_token", &eos)));
    if (bos)
        TRY(put_around(&t->head, &t->n_head, t->specials.bos, "a BOS token"));
    return eos ? put_around(&t->tail, &t->n_tail, t->specials.eos, "an EOS token") : ST_OK;
}

static enum status set_text(struct text_buf *b, const char *s)
{
    return text_buf_append(b, s, strlen(s));
}

/* ---- byte-level BPE ---- */

static enum status set_merges(struct tokenizer *t, const struct source *s)
{
    struct gguf_array merges;
    struct gguf_cursor c = {0};
    struct text_buf joined = {0};
    enum status st = ST_OK;
    TRY(gguf_get_array(s->g, "tokenizer.ggml.merges", GGUF_STRING, &merges));
    TRY(merge_map_init(&t->model.merges, (size_t)merges.n));
    for (uint64_t i = 0; i < merges.n && st == ST_OK; i++) {
        struct gguf_str m = gguf_array_next(&merges, &c);
        const char *blank = m.len > 1 ? memchr(m.data + 1, ' ', m.len - 1) : NULL;
        size_t at = blank ? (size_t)(blank - m.data) : 0;
        int32_t left = -1, right = -1, id = -1;
        if (blank) {
            joined.len = 0;
            st = text_buf_append(&joined, m.data, at);
            if (st == ST_OK)
                st = text_buf_append(&joined, blank + 1, m.len - at - 1);
            if (st != ST_OK)
                break;
            left = vocab_find_text(&t->vocab, m.data, at);
            right = vocab_find_text(&t->vocab, blank + 1, m.len - at - 1);
            id = vocab_find_text(&t->vocab, joined.data, joined.len);
        }
        if (left < 0 || right < 0 || id < 0)
            st = status_fail(
                ST_FORMAT, __FILE__, __LINE__,
                "gguf: tokenizer.ggml.merges[%llu] is not a pair of tokens that make a token",
                (unsigned long long)i);
        else
            merge_map_put(&t->model.merges, (struct merge){left, right, id, (uint32_t)i});
    }
    text_buf_free(&joined);
    return st;
}

static enum status load_byte_level(struct tokenizer *t, const struct source *s)
{
    struct gguf_str pre = {"", 0};
    struct dec_step *d;
    bool bos;
    t->model.kind = MODEL_BPE;
    TRY(optional(gguf_get_str(s->g, "tokenizer.ggml.pre", &pre)));
    TRY(gguf_pre(t, (struct tok_text){pre.data, pre.len}, &bos));
    TRY(set_tokens(t, s, NULL));
    TRY(vocab_finish(&t->vocab, true));
    TRY(set_merges(t, s));
    TRY(bpe_prepare(t));
    TRY(set_template(t, s, bos, false));
    return add_dec(t, &d, DEC_BYTE_LEVEL);
}

/* ---- SentencePiece ---- */

static enum status set_metaspace_normalizer(struct tokenizer *t, bool prefix)
{
    struct norm_step *n;
    if (prefix) {
        TRY(add_norm(t, &n, NORM_PREPEND));
        TRY(set_text(&n->with, mark));
    }
    TRY(add_norm(t, &n, NORM_REPLACE));
    TRY(set_text(&n->find, " "));
    return set_text(&n->with, mark);
}

static enum status set_metaspace_decoder(struct tokenizer *t, bool prefix)
{
    struct dec_step *d;
    TRY(add_dec(t, &d, DEC_REPLACE));
    TRY(set_text(&d->find, mark));
    TRY(set_text(&d->with, " "));
    TRY(add_dec(t, &d, DEC_BYTE_FALLBACK));
    TRY(add_dec(t, &d, DEC_FUSE));
    if (!prefix)
        return ST_OK;
    TRY(add_dec(t, &d, DEC_STRIP));
    d->start = 1;
    return set_text(&d->find, " ");
}

/* merges: the file lists them, as Gemma 4's do; else they follow from the scores. */
static enum status load_pieces(struct tokenizer *t, const struct source *s, bool prefix,
                               bool merges)
{
    t->model.kind = MODEL_BPE;
    t->model.byte_fallback = true;
    t->model.fuse_unk = true;
    TRY(optional(gguf_get_bool(s->g, "tokenizer.ggml.add_space_prefix", &prefix)));
    TRY(set_tokens(t, s, NULL));
    TRY(vocab_finish(&t->vocab, false));
    if (!merges)
        TRY(set_scores(t, s));
    TRY(merges ? set_merges(t, s) : merges_from_scores(t));
    t->model.unk = t->specials.unk;
    TRY(bpe_prepare(t));
    TRY(set_metaspace_normalizer(t, prefix));
    TRY(set_template(t, s, true, false));
    return set_metaspace_decoder(t, prefix);
}

static enum status load_sentencepiece(struct tokenizer *t, const struct source *s)
{
    return load_pieces(t, s, true, false);
}

static enum status load_gemma4(struct tokenizer *t, const struct source *s)
{
    return load_pieces(t, s, false, true);
}

static enum status load_unigram(struct tokenizer *t, const struct source *s)
{
    struct gguf_array map;
    struct norm_step *n;
    struct pre_step *p;
    struct dec_step *d;
    t->model.kind = MODEL_UNIGRAM;
    t->model.fuse_unk = true;
    if (gguf_has(s->g, "tokenizer.ggml.precompiled_charsmap")) {
        enum status st = gguf_get_array(s->g, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, &map);
        if (st == ST_FORMAT) /* converters write it signed, too */
            st = gguf_get_array(s->g, "tokenizer.ggml.precompiled_charsmap", GGUF_I8, &map);
        TRY(st);
        if (map.n) {
            TRY(add_norm(t, &n, NORM_PRECOMPILED));
            TRY(set_precompiled(n, (const char *)map.data, (size_t)map.n));
        }
    }
    TRY(add_norm(t, &n, NORM_STRIP));
    n->right = true;
    TRY(add_norm(t, &n, NORM_REPLACE));
    TRY(regex_create(&n->regex, " {2,}", 5));
    TRY(set_text(&n->with, mark));
    TRY(add_pre(t, &p, PRE_METASPACE));
    TRY(set_text(&p->literal, mark));
    p->behavior = SPLIT_MERGED_WITH_NEXT;
    p->split = true;
    TRY(set_tokens(t, s, NULL));
    TRY(vocab_finish(&t->vocab, false));
    TRY(set_scores(t, s));
    t->model.unk = t->specials.unk;
    TRY(unigram_prepare(t));
    TRY(set_template(t, s, false, true));
    TRY(add_dec(t, &d, DEC_METASPACE));
    d->drop_first = true;
    return set_text(&d->find, mark);
}

/* ---- WordPiece ---- */

/* The file marks the beginnings of words with U+2581, BERT the other parts with ##. */

static enum status spell_wordpiece(struct gguf_str in, int64_t type, struct text_buf *out)
{
    if (is_added(type))
        return text_buf_append(out, in.data, in.len);
    if (in.len >= 3 && memcmp(in.data, mark, 3) == 0)
        return text_buf_append(out, in.data + 3, in.len - 3);
    if (in.len == 0 || in.data[0] != '[')
        TRY(set_text(out, "##"));
    return text_buf_append(out, in.data, in.len);
}

/* A vocabulary with capital letters is one of cased text. */
static bool is_cased(const struct tokenizer *t)
{
    for (int32_t id = 0; id < t->vocab.n_ids; id++) {
        struct tok_text s = vocab_text(&t->vocab, id);
        if ((t->vocab.flags[id] & TF_MODEL) && s.len && s.data[0] >= 'A' && s.data[0] <= 'Z')
            return true;
    }
    return false;
}

static enum status load_wordpiece(struct tokenizer *t, const struct source *s)
{
    struct norm_step *n;
    struct pre_step *p;
    struct dec_step *d;
    int32_t cls, sep;
    t->model.kind = MODEL_WORDPIECE;
    t->model.max_word_chars = 100;
    t->model.unk = t->specials.unk;
    TRY(set_text(&t->model.prefix, "##"));
    TRY(set_tokens(t, s, spell_wordpiece));
    TRY(vocab_finish(&t->vocab, false));
    TRY(add_norm(t, &n, NORM_CLEAN));
    TRY(add_norm(t, &n, NORM_SPACE_CJK));
    if (!is_cased(t)) {
        TRY(add_norm(t, &n, NORM_FORM));
        n->form = UC_NFD;
        TRY(add_norm(t, &n, NORM_STRIP_NONSPACING));
        TRY(add_norm(t, &n, NORM_LOWERCASE));
    }
    TRY(add_pre(t, &p, PRE_BERT));
    TRY(get_id(s, "tokenizer.ggml.cls_token_id", &cls));
    TRY(get_id(s, "tokenizer.ggml.seperator_token_id", &sep)); /* the format's own spelling */
    if (cls < 0)
        cls = t->specials.bos;
    if (sep < 0)
        sep = t->specials.eos;
    TRY(put_around(&t->head, &t->n_head, cls, "[CLS]"));
    TRY(put_around(&t->tail, &t->n_tail, sep, "[SEP]"));
    TRY(add_dec(t, &d, DEC_WORDPIECE));
    d->cleanup = true;
    return set_text(&d->find, "##");
}

enum status load_gguf(struct tokenizer *t, const struct gguf *g)
{
    static const struct {
        const char *name;
        enum status (*load)(struct tokenizer *t, const struct source *s);
    } kinds[] = {{"gpt2", load_byte_level},
                 {"llama", load_sentencepiece},
                 {"gemma4", load_gemma4},
                 {"bert", load_wordpiece},
                 {"t5", load_unigram}};
    struct source s = {0};
    struct gguf_str model, chat;
    TRY(gguf_get_str(g, "tokenizer.ggml.model", &model));
    TRY(get_source(&s, g));
    TRY(set_specials(t, &s));
    size_t i = 0;
    while (i < ARRAY_LEN(kinds) &&
           !tok_text_is((struct tok_text){model.data, model.len}, kinds[i].name))
        i++;
    if (i == ARRAY_LEN(kinds))
        FAIL(ST_UNSUPPORTED, "gguf: the tokenizer \"%s\" (tokenizer.ggml.model) is not supported",
             gguf_show(model).text);
    TRY(kinds[i].load(t, &s));
    TRY(set_added(t, &s));
    if (gguf_has(g, "tokenizer.chat_template")) {
        TRY(gguf_get_str(g, "tokenizer.chat_template", &chat));
        TRY(text_buf_append(&t->chat_template, chat.data, chat.len));
    }
    return decoder_prepare(t, true);
}
