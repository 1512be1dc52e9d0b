#include "common/ranking.h"

#include <stdlib.h>

static int by_score(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

void ranking_sort(struct ranked *all, size_t n)
{
    qsort(all, n, sizeof *all, by_score);
}
