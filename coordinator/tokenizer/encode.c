/* One encode call: added tokens are found first, what lies between is normalised, searched for
 * added tokens that are normalised too, cut into pieces, and each piece goes through the model. */
#include <stdlib.h>

#include "common/utf8.h"
#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

static enum status encode_piece(struct work *w, struct span s)
{
    const char *p = w->cur->p + s.begin;
    size_t n = s.end - s.begin;
    w->piece = s;
    w->raw_at = 0;
    w->char_at = s.begin;
    if (w->chars) {
        bool all;
        w->word.len = 0;
        TRY(bytes_of_chars(p, n, &w->word, &all));
        if (!all)
            FAIL(ST_UNSUPPORTED, "the tokenizer splits text inside its byte-level alphabet");
        p = w->word.data;
        n = w->word.len;
    }
    switch (w->t->model.kind) {
    case MODEL_BPE:
        return bpe_encode(w, p, n);
    case MODEL_UNIGRAM:
        return unigram_encode(w, p, n);
    case MODEL_WORDPIECE:
        return wordpiece_encode(w, p, n);
    case MODEL_WORDLEVEL:
        return wordlevel_encode(w, p, n);
    }
    FAIL(ST_BUG, "model kind %d", (int)w->t->model.kind);
}

/* Text between added tokens, bytes [begin, end) of the normalized text. */
static enum status encode_text(struct work *w, const struct ttext *norm, size_t begin, size_t end)
{
    bool chars = w->chars;
    w->view.p = norm->p + begin;
    w->view.n = end - begin;
    w->view.plain = norm->plain;
    w->view.base = norm->base + (norm->plain ? begin : 0);
    w->view.map = norm->plain || !w->mapping ? NULL : norm->map + begin;
    w->cur = &w->view;
    w->other = &w->c;
    TRY(pretokenize(w));
    for (size_t i = 0; i < w->spans.n; i++)
        TRY(encode_piece(w, w->spans.v[i]));
    w->chars = chars;
    return ST_OK;
}

/* Text between the added tokens that are looked for before normalisation: bytes [begin, end) of the
 * input. */
static enum status encode_part(struct work *w, size_t begin, size_t end)
{
    struct added_walk walk = {0};
    struct added_match m;
    w->cur = &w->a;
    w->other = &w->b;
    TRY(normalize(w, begin, end));
    struct ttext *norm = w->cur;
    while (added_next(w, &w->t->norm_added, norm, &walk, &m)) {
        if (m.id < 0) {
            TRY(encode_text(w, norm, m.begin, m.end));
            continue;
        }
        struct tmap from = w->mapping ? ttext_origin(norm, m.begin, m.end) : (struct tmap){0, 0};
        TRY(emit_at(w, m.id, TOKEN_ADDED, from.begin, from.end));
    }
    return ST_OK;
}

static enum status encode_all(struct work *w)
{
    const struct tokenizer *t = w->t;
    struct added_walk walk = {0};
    struct added_match m;
    bool special = w->flags & TOK_ADD_SPECIAL;
    for (size_t i = 0; special && i < t->n_head; i++)
        TRY(emit_at(w, t->head[i], TOKEN_TEMPLATE, 0, 0));
    const struct ttext raw = {.p = w->text, .n = w->n, .plain = true};
    while (added_next(w, &t->raw_added, &raw, &walk, &m))
        TRY(m.id < 0 ? encode_part(w, m.begin, m.end)
                     : emit_at(w, m.id, TOKEN_ADDED, m.begin, m.end));
    for (size_t i = 0; special && i < t->n_tail; i++)
        TRY(emit_at(w, t->tail[i], TOKEN_TEMPLATE, w->n, w->n));
    return ST_OK;
}

static void work_fini(struct work *w)
{
    struct ttext *texts[] = {&w->a, &w->b, &w->c, &w->d};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        text_buf_free(&texts[i]->own);
        free(texts[i]->map);
    }
    free(w->spans.v);
    free(w->next.v);
    regex_scratch_destroy(w->regex);
    text_buf_free(&w->word);
    free(w->symbols);
    free(w->heap);
    free(w->cache);
    free(w->nodes);
}

enum status tokenizer_encode(const struct tokenizer *t, const char *text, size_t n, unsigned flags,
                             struct token_list *out)
{
    return tokenizer_encode_marked(t, text, n, NULL, flags, out);
}

enum status tokenizer_encode_marked(const struct tokenizer *t, const char *text, size_t n,
                                    const char *content, unsigned flags, struct token_list *out)
{
    out->n = 0;
    if (n > TOK_MAX_TEXT)
        FAIL(ST_RANGE, "a text of %zu bytes is longer than %zu", n, TOK_MAX_TEXT);
    size_t valid = utf8_valid_prefix(text, n);
    if (valid < n)
        FAIL(ST_FORMAT, "the text is not UTF-8 at byte %zu", valid);
    struct work w = {
        .t = t, .text = n ? text : "", .n = n, .content = content, .flags = flags, .out = out};
    ttext_set_bounds(&w);
    w.mapping = t->needs_map || content || (flags & TOK_EXPLAIN);
    enum status st = encode_all(&w);
    work_fini(&w);
    return st;
}
