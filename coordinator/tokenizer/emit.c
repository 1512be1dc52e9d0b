/* The tokens that an encode call gives, and with TOK_EXPLAIN the bytes of the input that each
 * covers.  Called by encode.c and by the models. */
#include <stdlib.h>

#include "coordinator/tokenizer/impl.h"
#include "coordinator/tokenizer/unicode.h"

void token_list_free(struct token_list *l)
{
    free(l->ids);
    free(l->origins);
    *l = (struct token_list){0};
}

static enum status list_room(struct token_list *l, bool origins)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        int32_t *ids = realloc(l->ids, cap * sizeof *ids);
        if (!ids)
            FAIL(ST_NOMEM, "no memory for %zu tokens", cap);
        l->ids = ids;
        l->cap = cap;
    }
    if (origins && l->origins_cap < l->cap) {
        struct token_origin *o = realloc(l->origins, l->cap * sizeof *o);
        if (!o)
            FAIL(ST_NOMEM, "no memory for the origins of %zu tokens", l->cap);
        l->origins = o;
        l->origins_cap = l->cap;
    }
    return ST_OK;
}

enum status emit_at(struct work *w, int32_t id, enum token_source source, size_t begin, size_t end)
{
    struct token_list *l = w->out;
    bool explain = w->flags & TOK_EXPLAIN;
    if (l->n == l->cap || (explain && l->origins_cap < l->cap))
        TRY(list_room(l, explain));
    if (explain)
        l->origins[l->n] = (struct token_origin){begin, end, source};
    l->ids[l->n++] = id;
    return ST_OK;
}

/* Where byte raw of the piece is spelled in cur; raw does not go back within a piece. */
static size_t spelled_at(struct work *w, size_t raw)
{
    if (!w->chars)
        return w->piece.begin + raw;
    if (raw < w->raw_at) {
        w->raw_at = 0;
        w->char_at = w->piece.begin;
    }
    while (w->raw_at < raw && w->char_at < w->piece.end) {
        size_t len;
        u8_get(w->cur->p + w->char_at, &len);
        w->char_at += len;
        w->raw_at++;
    }
    return w->char_at;
}

enum status emit(struct work *w, int32_t id, enum token_source source, size_t begin, size_t end)
{
    if (!(w->flags & TOK_EXPLAIN))
        return emit_at(w, id, source, 0, 0);
    size_t from = spelled_at(w, begin), to = spelled_at(w, end);
    struct tmap m = ttext_origin(w->cur, from, to);
    return emit_at(w, id, source, m.begin, m.end);
}
