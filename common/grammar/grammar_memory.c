#include "common/grammar/grammar_memory.h"

static void unlink_share(struct grammar_memory *m, struct grammar_share *s)
{
    *(s->newer ? &s->newer->older : &m->newest) = s->older;
    *(s->older ? &s->older->newer : &m->oldest) = s->newer;
    s->newer = s->older = NULL;
}

static void link_newest(struct grammar_memory *m, struct grammar_share *s)
{
    s->older = m->newest;
    *(m->newest ? &m->newest->newer : &m->oldest) = s;
    m->newest = s;
}

static void count(struct grammar_memory *m, struct grammar_share *s)
{
    m->n_bytes -= s->n_bytes;
    s->n_bytes = grammar_bytes(s->grammar);
    m->n_bytes += s->n_bytes;
}

void grammar_memory_used(struct grammar_memory *m, struct grammar_share *share,
                         struct grammar *grammar)
{
    if (share->grammar)
        unlink_share(m, share);
    share->grammar = grammar;
    link_newest(m, share);
    count(m, share);
    for (struct grammar_share *s = m->oldest; s != share && m->n_bytes > m->max; s = s->newer) {
        grammar_shrink(s->grammar);
        count(m, s);
    }
}

void grammar_memory_leave(struct grammar_memory *m, struct grammar_share *share)
{
    if (!share->grammar)
        return;
    unlink_share(m, share);
    m->n_bytes -= share->n_bytes;
    *share = (struct grammar_share){0};
}
