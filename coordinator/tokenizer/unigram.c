/* Unigram language model (Kudo 2018): the segmentation with the highest sum of scores, by Viterbi
 * over the vocabulary's trie.  A character that no token covers costs the lowest score less 10. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

#define UNKNOWN_PENALTY 10.0

struct unigram_node { /* the best way to reach this byte */
    double score;
    size_t from; /* where its last token begins; SIZE_MAX: not reached */
    int32_t id;  /* -1: unknown */
};

enum status unigram_prepare(struct tokenizer *t)
{
    struct model *m = &t->model;
    size_t total = 0;
    double least = 0;
    bool any = false;
    for (int32_t id = 0; id < t->vocab.n_ids; id++)
        if (t->vocab.flags[id] & TF_MODEL)
            total += t->vocab.text[id].len;
    TRY(trie_init(&m->trie, total));
    for (int32_t id = 0; id < t->vocab.n_ids; id++) {
        if (!(t->vocab.flags[id] & TF_MODEL))
            continue;
        struct tok_text s = vocab_text(&t->vocab, id);
        if (s.len > 0)
            trie_put(&m->trie, s.data, s.len, id, true);
        least = !any || m->scores[id] < least ? m->scores[id] : least;
        any = true;
    }
    m->unk_score = least - UNKNOWN_PENALTY;
    return ST_OK;
}

static enum status nodes_room(struct work *w, size_t n)
{
    if (n > w->nodes_cap) {
        size_t cap = n + n / 2;
        struct unigram_node *v = realloc(w->nodes, cap * sizeof *v);
        if (!v)
            FAIL(ST_NOMEM, "no memory to tokenize a piece of %zu bytes", n);
        w->nodes = v;
        w->nodes_cap = cap;
    }
    for (size_t i = 0; i < n; i++)
        w->nodes[i] = (struct unigram_node){.from = SIZE_MAX, .id = -1};
    return ST_OK;
}

static void reach(struct unigram_node *node, double score, size_t from, int32_t id)
{
    if (node->from == SIZE_MAX || score > node->score)
        *node = (struct unigram_node){score, from, id};
}

static void search(struct work *w, const char *p, size_t n)
{
    const struct model *m = &w->t->model;
    size_t len;
    for (size_t at = 0; at < n; at += len) {
        double here = w->nodes[at].score;
        bool covered = false;
        uint32_t node = 0;
        u8_get(p + at, &len);
        for (size_t i = at; i < n; i++) {
            node = trie_next(&m->trie, node, (unsigned char)p[i]);
            if (node == UINT32_MAX)
                break;
            int32_t id = m->trie.id[node];
            if (id < 0)
                continue;
            reach(&w->nodes[i + 1], here + m->scores[id], at, id);
            covered |= i + 1 - at == len;
        }
        if (!covered)
            reach(&w->nodes[at + len], here + m->unk_score, at, -1);
    }
}

static enum status emit_unknown(struct work *w, const char *p, size_t begin, size_t end)
{
    const struct tokenizer *t = w->t;
    bool bytes = t->model.byte_fallback;
    for (size_t i = begin; i < end && bytes; i++)
        bytes = t->vocab.byte_id[(unsigned char)p[i]] >= 0;
    for (size_t i = begin; i < end && bytes; i++)
        TRY(emit(w, t->vocab.byte_id[(unsigned char)p[i]], TOKEN_BYTE, i, i + 1));
    if (bytes)
        return ST_OK;
    if (t->model.unk < 0)
        FAIL(ST_UNSUPPORTED, "the vocabulary cannot spell \"%.*s\" and has no unknown token",
             (int)(end - begin < 40 ? end - begin : 40), p + begin);
    /* Joined unknown characters may spell a token: the vocabulary is asked again, as HuggingFace
     * does. */
    int32_t id = vocab_find_text(&t->vocab, p + begin, end - begin);
    return emit(w, id >= 0 ? id : t->model.unk, id >= 0 ? TOKEN_MODEL : TOKEN_UNKNOWN, begin, end);
}

enum status unigram_encode(struct work *w, const char *p, size_t n)
{
    TRY(nodes_room(w, n + 1));
    search(w, p, n);
    /* The path is found from its end: turn it round, each node then knows where its token ends. */
    size_t end = n, next = SIZE_MAX;
    while (end != SIZE_MAX) {
        size_t from = end > 0 ? w->nodes[end].from : SIZE_MAX;
        w->nodes[end].from = next;
        next = end;
        end = from;
    }
    for (size_t at = 0; at < n;) {
        size_t to = w->nodes[at].from;
        int32_t id = w->nodes[to].id;
        if (id >= 0 && id != w->t->model.unk) {
            TRY(emit(w, id, TOKEN_MODEL, at, to));
        } else {
            while (w->t->model.fuse_unk && to < n) {
                size_t after = w->nodes[to].from;
                if (w->nodes[after].id >= 0 && w->nodes[after].id != w->t->model.unk)
                    break;
                to = after;
            }
            TRY(emit_unknown(w, p, at, to));
        }
        at = to;
    }
    return ST_OK;
}
