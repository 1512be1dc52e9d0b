#include "common/histogram.h"

#include <assert.h>

void histogram_init(struct histogram *h, const uint64_t *bound, size_t n_bounds)
{
    assert(n_bounds <= HISTOGRAM_BOUNDS);
    *h = (struct histogram){.bound = bound, .n_bounds = (uint32_t)n_bounds};
}

void histogram_add(struct histogram *h, uint64_t value)
{
    uint32_t i = 0;
    while (i < h->n_bounds && value > h->bound[i])
        i++;
    h->count[i]++;
    h->sum += value;
}
