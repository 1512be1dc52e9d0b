/* The order of sequences, and ordered sets of slots without allocation: insert, remove and next in O(log n) expected.  A node's
 * heap order is a hash of its slot.  Called by the other files of this folder. */
#include "common/hash.h"
#include "coordinator/sched/internal.h"

static struct tree_link *link_of(const struct sched *s, const struct tree *t, int32_t i)
{
    struct seq *q = &s->seqs[i];
    return t->kind == WAITING ? &q->in_waiting : &q->in_deadlines;
}

static bool above(int32_t a, int32_t b)
{
    return hash_mix((uint64_t)a + 1) > hash_mix((uint64_t)b + 1);
}

bool seq_before(const struct seq *a, const struct seq *b)
{
    if (a->front != b->front)
        return a->front;
    if (a->rank != b->rank)
        return a->rank < b->rank;
    if (a->round != b->round)
        return a->round < b->round;
    return a->ticket < b->ticket;
}

bool tree_before(const struct sched *s, const struct tree *t, int32_t a, int32_t b)
{
    const struct seq *x = &s->seqs[a], *y = &s->seqs[b];
    if (t->kind == WAITING)
        return seq_before(x, y);
    if (x->req.deadline_us != y->req.deadline_us)
        return x->req.deadline_us < y->req.deadline_us;
    return x->arrival < y->arrival;
}

void tree_insert(struct sched *s, struct tree *t, int32_t i)
{
    int32_t *at = &t->root, *l = &link_of(s, t, i)->left, *r = &link_of(s, t, i)->right;
    while (*at >= 0 && above(*at, i))
        at = tree_before(s, t, i, *at) ? &link_of(s, t, *at)->left : &link_of(s, t, *at)->right;
    int32_t k = *at; /* what hangs there is divided below i */
    *at = i;
    while (k >= 0)
        if (tree_before(s, t, k, i)) {
            *l = k;
            l = &link_of(s, t, k)->right;
            k = *l;
        } else {
            *r = k;
            r = &link_of(s, t, k)->left;
            k = *r;
        }
    *l = -1;
    *r = -1;
    t->n++;
}

void tree_remove(struct sched *s, struct tree *t, int32_t i)
{
    int32_t *at = &t->root, a = link_of(s, t, i)->left, b = link_of(s, t, i)->right;
    while (*at != i) {
        assert(*at >= 0 && "only what is in the tree is removed");
        at = tree_before(s, t, i, *at) ? &link_of(s, t, *at)->left : &link_of(s, t, *at)->right;
    }
    while (a >= 0 && b >= 0)
        if (above(a, b)) {
            *at = a;
            at = &link_of(s, t, a)->right;
            a = *at;
        } else {
            *at = b;
            at = &link_of(s, t, b)->left;
            b = *at;
        }
    *at = a >= 0 ? a : b;
    t->n--;
}

static int32_t leftmost(const struct sched *s, const struct tree *t, int32_t i)
{
    while (i >= 0 && link_of(s, t, i)->left >= 0)
        i = link_of(s, t, i)->left;
    return i;
}

int32_t tree_first(const struct sched *s, const struct tree *t)
{
    return leftmost(s, t, t->root);
}

int32_t tree_next(const struct sched *s, const struct tree *t, int32_t i)
{
    int32_t best = -1, k = t->root;
    if (link_of(s, t, i)->right >= 0)
        return leftmost(s, t, link_of(s, t, i)->right);
    while (k >= 0) {
        bool later = tree_before(s, t, i, k);
        best = later ? k : best;
        k = later ? link_of(s, t, k)->left : link_of(s, t, k)->right;
    }
    return best;
}
