/* Documents in the order of their scores. */
#ifndef COMMON_RANKING_H
#define COMMON_RANKING_H

#include <stddef.h>

struct ranked {
    size_t index; /* of the document */
    float score;
};

/* Sorts n documents: the greatest score first, equal ones by their index. */
void ranking_sort(struct ranked *all, size_t n);

#endif
