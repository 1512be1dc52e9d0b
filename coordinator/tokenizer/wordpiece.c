/* WordPiece (the longest token that begins the rest of the word, again and again) and whole
 * words. */
#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

static enum status emit_unknown(struct work *w, const char *p, size_t n)
{
    if (w->t->model.unk < 0)
        FAIL(ST_UNSUPPORTED, "the vocabulary cannot spell \"%.*s\" and has no unknown token",
             (int)(n < 40 ? n : 40), p);
    return emit(w, w->t->model.unk, TOKEN_UNKNOWN, 0, n);
}

/* The longest token at p[at, n); its end goes to *end.  -1: none. */
static int32_t longest(struct work *w, const char *p, size_t n, size_t at, size_t *end,
                       enum status *st)
{
    const struct model *m = &w->t->model;
    size_t prefix = at > 0 ? m->prefix.len : 0;
    w->word.len = 0;
    *st = text_buf_append(&w->word, m->prefix.data, prefix);
    if (*st == ST_OK)
        *st = text_buf_append(&w->word, p + at, n - at);
    if (*st != ST_OK)
        return -1;
    for (*end = n; *end > at; (*end)--) {
        if (*end < n && u8_is_tail(p[*end]))
            continue;
        int32_t id = vocab_find_text(&w->t->vocab, w->word.data, prefix + (*end - at));
        if (id >= 0)
            return id;
    }
    return -1;
}

enum status wordpiece_encode(struct work *w, const char *p, size_t n)
{
    size_t chars = 0, first = w->out->n, end;
    enum status st;
    for (size_t i = 0; i < n; i++)
        chars += !u8_is_tail(p[i]);
    if (chars > w->t->model.max_word_chars)
        return emit_unknown(w, p, n);
    for (size_t at = 0; at < n; at = end) {
        int32_t id = longest(w, p, n, at, &end, &st);
        TRY(st);
        if (id < 0) { /* one part that is not there makes the whole word unknown */
            w->out->n = first;
            return emit_unknown(w, p, n);
        }
        TRY(emit(w, id, TOKEN_MODEL, at, end));
    }
    return ST_OK;
}

enum status wordlevel_encode(struct work *w, const char *p, size_t n)
{
    int32_t id = vocab_find_text(&w->t->vocab, p, n);
    return id >= 0 ? emit(w, id, TOKEN_MODEL, 0, n) : emit_unknown(w, p, n);
}
