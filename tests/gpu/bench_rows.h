/* The rows of bench_gpu --rows: ops that the models of bench_shapes.h have not, and parts of a layer of 8B. */
#ifndef TESTS_GPU_BENCH_ROWS_H
#define TESTS_GPU_BENCH_ROWS_H

#include <stdio.h>

#include "backends/backend.h"

struct bench_rows_config {
    bool tiny; /* small shapes, each measured once */
    double copy_gbs;
    const char *predicted; /* file of predict_rows.py, or NULL */
    FILE *json;            /* or NULL: rows of an array */
};

/* Prints a line for each row, with the time predicted for it.  be: "cuda", strict. */
MUST_CHECK enum status bench_rows(struct backend *be, const struct bench_rows_config *cfg);

/* Prints name, bytes and operations of each row; needs no device. */
void bench_rows_list(void);

#endif
