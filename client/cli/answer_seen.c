#include "client/cli/answer_seen.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool answer_seen_any(const struct answer_seen *s)
{
    for (int i = 0; i < MAX_SEEN; i++)
        if (s->sample[i].ids || s->sample[i].text)
            return true;
    return false;
}

void answer_seen_again(struct answer_seen *s)
{
    for (int i = 0; i < MAX_SEEN; i++) {
        s->sample[i].skip_ids = s->sample[i].ids;
        s->sample[i].skip_text = s->sample[i].text;
    }
}

/* Without its first n tokens. */
static void drop_ids(struct ingot_event *ev, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (uint32_t k = 0; ev->n_top && k < ev->n_top[i]; k++) {
            ev->top++;
            if (ev->n_top_text)
                ev->top_text += *ev->n_top_text++;
        }
        if (ev->n_token_text)
            ev->token_text += ev->n_token_text[i];
    }
    ev->n_ids -= (uint32_t)n;
    ev->ids += n;
    if (ev->logprobs)
        ev->logprobs += n;
    if (ev->n_top)
        ev->n_top += n;
    if (ev->n_token_text)
        ev->n_token_text += n;
}

bool answer_seen_trim(struct answer_seen *s, struct ingot_event *ev)
{
    if (ev->sample >= MAX_SEEN)
        return true;
    size_t ids = least(s->sample[ev->sample].skip_ids, ev->n_ids);
    size_t text = least(s->sample[ev->sample].skip_text, ev->n_text);
    s->sample[ev->sample].skip_ids -= ids;
    s->sample[ev->sample].skip_text -= text;
    if (ids)
        drop_ids(ev, ids);
    ev->text += text;
    ev->n_text -= text;
    s->sample[ev->sample].ids += ev->n_ids;
    s->sample[ev->sample].text += ev->n_text;
    return ev->n_ids || ev->n_text || !(ids || text);
}
