#include "common/text/output_events.h"

#include <stdlib.h>

struct output_item {
    enum output_kind kind;
    size_t at[2], n[2]; /* in texts: text or name, id */
    bool has_id;
    int i_call;
};

void output_events_free(struct output_events *e)
{
    free(e->items);
    text_buf_free(&e->texts);
}

void output_events_make_room(struct output_events *e)
{
    if (e->i_next == e->n) {
        e->i_next = e->n = 0;
        e->texts.len = 0;
    }
}

static enum status add(struct output_events *e, enum output_kind kind, struct output_item **out)
{
    if (e->n == e->cap) {
        size_t cap = e->cap ? e->cap * 2 : 8;
        struct output_item *items = realloc(e->items, cap * sizeof *items);
        if (!items)
            FAIL(ST_NOMEM, "no memory for %zu output events", cap);
        e->items = items;
        e->cap = cap;
    }
    *out = &e->items[e->n++];
    **out = (struct output_item){.kind = kind, .i_call = e->n_calls - 1};
    return ST_OK;
}

enum status output_events_text(struct output_events *e, enum output_kind kind, const char *text,
                               size_t n)
{
    struct output_item *item = e->n > e->i_next ? &e->items[e->n - 1] : NULL;
    if (n == 0)
        return ST_OK;
    if (!item || item->kind != kind) {
        TRY(add(e, kind, &item));
        item->at[0] = e->texts.len;
    }
    TRY(text_buf_append(&e->texts, text, n));
    item->n[0] += n;
    return ST_OK;
}

static enum status store(struct output_events *e, struct output_span s, bool plain,
                         struct output_item *item, int i)
{
    item->at[i] = e->texts.len;
    if (plain)
        TRY(text_buf_append(&e->texts, s.p, s.n));
    else
        TRY(output_json_text(s, &e->texts));
    item->n[i] = e->texts.len - item->at[i];
    return ST_OK;
}

enum status output_events_begin(struct output_events *e, const struct output_call *call)
{
    struct output_item *item = NULL;
    e->n_calls++;
    TRY(add(e, OUT_CALL_BEGIN, &item));
    item->has_id = call->id.p != NULL;
    TRY(store(e, call->name, call->plain_name, item, 0));
    return item->has_id ? store(e, call->id, call->plain_id, item, 1) : ST_OK;
}

enum status output_events_end(struct output_events *e)
{
    struct output_item *item = NULL;
    return add(e, OUT_CALL_END, &item);
}

enum status output_events_call(struct output_events *e, const struct output_call *call)
{
    struct output_item *item = NULL;
    TRY(output_events_begin(e, call));
    TRY(add(e, OUT_CALL_ARGUMENTS, &item));
    TRY(store(e, call->arguments, *call->arguments.p != '"', item, 0));
    return output_events_end(e);
}

bool output_events_next(struct output_events *e, struct output_event *out)
{
    if (e->i_next == e->n)
        return false;
    const struct output_item *item = &e->items[e->i_next++];
    const char *texts = e->texts.data;
    *out = (struct output_event){.kind = item->kind, .i_call = item->i_call};
    if (item->kind != OUT_CALL_BEGIN) {
        out->text = texts + item->at[0];
        out->n_text = item->n[0];
        return true;
    }
    out->name = texts + item->at[0];
    out->n_name = item->n[0];
    out->id = item->has_id ? texts + item->at[1] : NULL;
    out->n_id = item->n[1];
    return true;
}
