#include "client/gateway/answer_memory.h"

#include <stdio.h>

enum { RETRY_MS = 1000 };

void answer_share_init(struct answer_share *s, struct answer_memory *m)
{
    *s = (struct answer_share){.of = m};
    m->n++;
}

void answer_share_fini(struct answer_share *s)
{
    s->of->held -= s->held;
    s->of->n--;
}

enum answer_room answer_share_set(struct answer_share *s, size_t bytes)
{
    struct answer_memory *m = s->of;
    bool grows = bytes > s->held;
    m->held += bytes;
    m->held -= s->held;
    s->held = bytes;
    if (!grows)
        return ANSWER_FITS;
    if (bytes > m->max_answer)
        return ANSWER_TOO_LARGE;
    size_t output = http_server_counts(m->server).output;
    size_t rest = output < m->max_all ? m->max_all - output : 0;
    return m->held > rest && bytes > rest / m->n ? ANSWER_NO_ROOM : ANSWER_FITS;
}

size_t answer_share_left(const struct answer_share *s)
{
    return s->held < s->of->max_answer ? s->of->max_answer - s->held : 1;
}

struct answer_error answer_room_error(struct answer_memory *m, enum answer_room room)
{
    if (room == ANSWER_NO_ROOM) {
        snprintf(m->text, sizeof m->text,
                 "this gateway holds as many answers as it may, %zu bytes (--max-answer-memory)",
                 m->max_all);
        return (struct answer_error){503, m->text, "", RETRY_MS};
    }
    snprintf(m->text, sizeof m->text,
             "the answer takes more than the %zu bytes that this gateway holds of one "
             "(--max-answer): ask for less, or for a stream",
             m->max_answer);
    return (struct answer_error){400, m->text, "", 0};
}
