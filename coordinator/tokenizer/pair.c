/* Two texts joined as the post-processor says.  Called through tokenizer.h. */
#include <stdlib.h>
#include <string.h>

#include "coordinator/tokenizer/impl.h"

/* out and types have room for all. */
static void join(const struct pair_piece *pair, size_t n_pair, const struct token_list text[2],
                 struct token_list *out, uint32_t *types)
{
    for (size_t i = 0; i < n_pair; i++) {
        const struct pair_piece *p = &pair[i];
        size_t n = p->id >= 0 ? 1 : text[p->text].n;
        for (size_t k = 0; k < n; k++) {
            types[out->n] = p->type;
            out->ids[out->n++] = p->id >= 0 ? p->id : text[p->text].ids[k];
        }
    }
}

static enum status join_all(const struct tokenizer *t, const struct token_list text[2],
                            struct token_list *out, uint32_t **types)
{
    /* where the post-processor says nothing of pairs, HuggingFace's tokenizers do the same */
    static const struct pair_piece plain[] = {{-1, 0, 0}, {-1, 1, 1}};
    const struct pair_piece *pair = t->n_pair ? t->pair : plain;
    size_t n_pair = t->n_pair ? t->n_pair : ARRAY_LEN(plain);
    size_t n = n_pair + text[0].n + text[1].n;
    int32_t *ids = realloc(out->ids, n * sizeof *ids);
    if (!ids)
        FAIL(ST_NOMEM, "no memory for %zu tokens", n);
    out->ids = ids;
    out->cap = n;
    out->n = 0;
    *types = malloc(n * sizeof **types);
    if (!*types)
        FAIL(ST_NOMEM, "no memory for the types of %zu tokens", n);
    join(pair, n_pair, text, out, *types);
    return ST_OK;
}

enum status tokenizer_encode_pair(const struct tokenizer *t, const struct tok_text text[2],
                                  struct token_list *out, uint32_t **types)
{
    struct token_list part[2] = {{0}, {0}};
    enum status st = ST_OK;
    *types = NULL;
    if (t->odd_pair)
        FAIL(ST_UNSUPPORTED, "this model's tokenizer does not join two texts as they are");
    for (int i = 0; st == ST_OK && i < 2; i++)
        st = tokenizer_encode(t, text[i].data, text[i].len, 0, &part[i]);
    if (st == ST_OK)
        st = join_all(t, part, out, types);
    token_list_free(&part[0]);
    token_list_free(&part[1]);
    return st;
}
