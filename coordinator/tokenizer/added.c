/* Added tokens: finding them in a text before and after normalization.  Called by encode.c and, to
 * prepare the search, by tokenizer.c. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

static enum status add_to_matcher(struct matcher *m, const struct tok_text *texts,
                                  const int32_t *ids, size_t n)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += texts[i].len;
    m->empty = total == 0;
    if (m->empty)
        return ST_OK;
    TRY(trie_init(&m->trie, total));
    for (size_t i = 0; i < n; i++) {
        if (texts[i].len == 0)
            continue;
        m->first[(unsigned char)texts[i].data[0]] = true;
        trie_put(&m->trie, texts[i].data, texts[i].len, ids[i], false);
    }
    return ST_OK;
}

static enum status make_matcher(struct tokenizer *t, struct matcher *m, bool normalized)
{
    struct tok_text *texts = calloc(t->n_added + 1, sizeof *texts);
    int32_t *ids = calloc(t->n_added + 1, sizeof *ids);
    size_t n = 0;
    enum status st = ST_OK;
    if (!texts || !ids) {
        free(texts);
        free(ids);
        FAIL(ST_NOMEM, "no memory for %zu added tokens", t->n_added);
    }
    /* Special tokens come first: of two that normalise to one text the first is found. */
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < t->n_added; i++)
            if (t->added[i].normalized == normalized && t->added[i].special == (pass == 0)) {
                texts[n] = t->added[i].text;
                ids[n++] = t->added[i].id;
            }
    struct text_buf *norm = calloc(n + 1, sizeof *norm);
    for (size_t i = 0; i < n && norm && normalized && st == ST_OK; i++) {
        st = normalize_text(t, texts[i].data, texts[i].len, &norm[i]);
        texts[i] = (struct tok_text){norm[i].data, norm[i].len};
    }
    if (norm && st == ST_OK)
        st = add_to_matcher(m, texts, ids, n);
    for (size_t i = 0; i < n && norm; i++)
        text_buf_free(&norm[i]);
    free(norm);
    free(texts);
    free(ids);
    if (!norm)
        FAIL(ST_NOMEM, "no memory for %zu added tokens", t->n_added);
    return st;
}

enum status added_prepare(struct tokenizer *t)
{
    size_t n = (size_t)t->vocab.n_ids;
    t->added_of = malloc((n ? n : 1) * sizeof *t->added_of);
    if (!t->added_of)
        FAIL(ST_NOMEM, "no memory for %zu tokens", n);
    memset(t->added_of, 0xFF, n * sizeof *t->added_of);
    for (size_t i = 0; i < t->n_added; i++) {
        struct added_token *a = &t->added[i];
        a->text = vocab_text(&t->vocab, a->id);
        t->added_of[a->id] = (int32_t)i;
    }
    TRY(make_matcher(t, &t->raw_added, false));
    return make_matcher(t, &t->norm_added, true);
}

void added_fini(struct tokenizer *t)
{
    trie_fini(&t->raw_added.trie);
    trie_fini(&t->norm_added.trie);
    free(t->added);
    free(t->added_of);
}

/* Has [begin, end) of x a byte of content? */
static bool is_content(const struct work *w, const struct ttext *x, size_t begin, size_t end)
{
    if (!w->content)
        return false;
    struct tmap from = ttext_origin(x, begin, end);
    return from.end > from.begin && memchr(w->content + from.begin, 1, from.end - from.begin);
}

/* Special tokens that content spells are none: neither alone nor with what the template wrote beside it. */
static bool may_parse(const struct work *w, const struct ttext *x, int32_t id, size_t begin,
                      size_t end)
{
    const struct tokenizer *t = w->t;
    return !w->content || !t->added[t->added_of[id]].special || !is_content(w, x, begin, end);
}

/* The leftmost, then longest, token from at on. */
static bool find_token(const struct work *w, const struct matcher *m, const struct ttext *x,
                       size_t at, struct added_match *out)
{
    const char *p = x->p;
    size_t n = x->n;
    for (; at < n; at++) {
        if (!m->first[(unsigned char)p[at]])
            continue;
        uint32_t node = 0;
        int32_t id = -1;
        size_t end = at;
        for (size_t i = at; i < n; i++) {
            node = trie_next(&m->trie, node, (unsigned char)p[i]);
            if (node == UINT32_MAX)
                break;
            if (m->trie.id[node] >= 0 && may_parse(w, x, m->trie.id[node], at, i + 1)) {
                id = m->trie.id[node];
                end = i + 1;
            }
        }
        if (id >= 0) {
            *out = (struct added_match){id, at, end};
            return true;
        }
    }
    return false;
}

static bool is_single_word(const char *p, size_t n, size_t begin, size_t end)
{
    size_t len;
    return (begin == 0 || !uc_is_word(u8_before(p, begin, &len))) &&
           (end == n || !uc_is_word(u8_get(p + end, &len)));
}

/* The search goes over the bytes of the text as they are; a token's lstrip and rstrip then widen
 * what it covers, but what an earlier token took is not given out twice. */
bool added_next(const struct work *w, const struct matcher *m, const struct ttext *x,
                struct added_walk *walk, struct added_match *out)
{
    const struct tokenizer *t = w->t;
    const char *p = x->p;
    size_t n = x->n;
    struct added_match hit;
    size_t len;
    if (walk->has_held) {
        walk->has_held = false;
        *out = walk->held;
        return true;
    }
    while (!m->empty && find_token(w, m, x, walk->at, &hit)) {
        const struct added_token *a = &t->added[t->added_of[hit.id]];
        walk->at = hit.end;
        if ((w->flags & TOK_NO_PARSE_SPECIAL) && a->special)
            continue;
        if (a->single_word && !is_single_word(p, n, hit.begin, hit.end))
            continue;
        if (a->lstrip) {
            while (hit.begin > 0 && uc_is_space(u8_before(p, hit.begin, &len)))
                hit.begin -= len;
            if (hit.begin < walk->done)
                hit.begin = walk->done;
        }
        while (a->rstrip && hit.end < n && uc_is_space(u8_get(p + hit.end, &len)))
            hit.end += len;
        size_t done = walk->done;
        walk->done = hit.end;
        *out = hit;
        if (done < hit.begin) {
            walk->held = hit;
            walk->has_held = true;
            *out = (struct added_match){-1, done, hit.begin};
        }
        return true;
    }
    walk->at = n;
    if (walk->done == n)
        return false;
    *out = (struct added_match){-1, walk->done, n};
    walk->done = n;
    return true;
}
