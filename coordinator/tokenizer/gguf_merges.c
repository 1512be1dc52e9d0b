/* Merges out of a SentencePiece vocabulary, which has scores instead: every way to cut a token into
 * two tokens is a merge, ranked by the token's score, then by the length of the left part, as
 * HuggingFace's converter ranks them. */
#include <stdlib.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

struct candidate {
    double score; /* of the joined token */
    uint32_t left_chars, right_chars;
    uint32_t order; /* of being found: ties keep it */
    int32_t left, right, id;
};

static int by_rank(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->left_chars != y->left_chars)
        return x->left_chars > y->left_chars ? -1 : 1;
    if (x->right_chars != y->right_chars)
        return x->right_chars > y->right_chars ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

struct candidates {
    struct candidate *v;
    size_t n, cap;
};

static enum status add(struct candidates *c, struct candidate x)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 4096;
        struct candidate *v = realloc(c->v, cap * sizeof *v);
        if (!v)
            FAIL(ST_NOMEM, "no memory for %zu merges", cap);
        c->v = v;
        c->cap = cap;
    }
    x.order = (uint32_t)c->n;
    c->v[c->n++] = x;
    return ST_OK;
}

#define MAX_TOKEN 1024 /* bytes of a token that is cut */

static enum status cut_token(const struct tokenizer *t, int32_t id, struct candidates *c)
{
    struct tok_text s = vocab_text(&t->vocab, id);
    uint32_t chars = 0, left_chars = 0;
    size_t len;
    if (s.len > MAX_TOKEN)
        FAIL(ST_RANGE, "gguf: token %d has %zu bytes, more than %d", (int)id, s.len, MAX_TOKEN);
    for (size_t i = 0; i < s.len; i++)
        chars += !u8_is_tail(s.data[i]);
    for (size_t at = 0; at < s.len; at += len, left_chars++) {
        u8_get(s.data + at, &len);
        if (at == 0)
            continue;
        int32_t left = vocab_find_text(&t->vocab, s.data, at);
        int32_t right = left < 0 ? -1 : vocab_find_text(&t->vocab, s.data + at, s.len - at);
        if (right >= 0)
            TRY(add(c, (struct candidate){.score = t->model.scores[id],
                                          .left_chars = left_chars,
                                          .right_chars = chars - left_chars,
                                          .left = left,
                                          .right = right,
                                          .id = id}));
    }
    return ST_OK;
}

enum status merges_from_scores(struct tokenizer *t)
{
    struct candidates c = {0};
    enum status st = ST_OK;
    for (int32_t id = 0; id < t->vocab.n_ids && st == ST_OK; id++)
        if ((t->vocab.flags[id] & TF_MODEL) && !(t->vocab.flags[id] & TF_BYTE))
            st = cut_token(t, id, &c);
    if (c.n)
        qsort(c.v, c.n, sizeof *c.v, by_rank);
    if (st == ST_OK)
        st = merge_map_init(&t->model.merges, c.n);
    for (size_t i = 0; i < c.n && st == ST_OK; i++)
        merge_map_put(&t->model.merges,
                      (struct merge){c.v[i].left, c.v[i].right, c.v[i].id, (uint32_t)i});
    free(c.v);
    return st;
}
