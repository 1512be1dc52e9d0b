/* The figures of a step benchmark, for people and as JSON. */
#ifndef TESTS_BENCH_STEP_REPORT_H
#define TESTS_BENCH_STEP_REPORT_H

#include <stdio.h>

#include "bench/ceilings.h"
#include "bench/step_run.h"

enum { MAX_CEILINGS = 16 };

struct step_report {
    const char *model, *format; /* path or shape; kind of file */
    const char *device;
    enum activations activations;
    enum dtype type, kv_dtype;
    int ranks, threads; /* threads of each rank */
    int32_t chunk;
    size_t weight_bytes, file_bytes; /* of rank 0 */
    struct {
        int threads;
        struct ceilings top;
    } ceiling[MAX_CEILINGS];
    int n_ceilings; /* the last one is of all threads; 0: not measured */
    struct model_cost cost;
    const struct step_row *row;
    int n_rows, reps;
    bool has_start;
    double open_s, load_s, first_s; /* of a start, from main() on: each after the one before */
};

void step_report_table(FILE *f, const struct step_report *r);
void step_report_json(FILE *f, const struct step_report *r);

#endif
