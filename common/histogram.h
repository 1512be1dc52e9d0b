/* Counts of whole numbers between fixed bounds, as Prometheus' histograms have them.  The owner keeps the
 * struct; adding a value allocates nothing and costs a walk over at most HISTOGRAM_BOUNDS bounds. */
#ifndef COMMON_HISTOGRAM_H
#define COMMON_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 24 };

struct histogram {
    const uint64_t *bound; /* [n_bounds] ascending; borrowed for the histogram's life */
    uint32_t n_bounds;
    uint64_t count[HISTOGRAM_BOUNDS +
                   1]; /* [n_bounds + 1]: values <= bound[i] and above the one before; the
                                           * last: above all bounds */
    uint64_t sum;      /* of all values */
};

/* Empty, with the first n_bounds (at most HISTOGRAM_BOUNDS) of bound. */
void histogram_init(struct histogram *h, const uint64_t *bound, size_t n_bounds);
void histogram_add(struct histogram *h, uint64_t value);

#endif
