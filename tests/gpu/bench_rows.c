/* Each row is one op, or the few that always come together, on random data: a recorded graph of several
 * calls over data that is together larger than the L2 cache where an op's weights, caches or states
 * come from memory in a model. */
#include "gpu/bench_rows.h"

#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda_backend.h"
#include "gpu/bench_row.h"

enum { SAMPLES = 7, WARM_UPS = 3 };

static enum status call_experts(struct run *r, int i)
{
    const struct moe_layer *ml = &r->ml;
    TRY(r->op->moe_route(r->be, ml, r->aux, r->ids[MAX_CALLS - 1], r->weights));
    TRY(r->op->moe_ffn(r->be, ml, r->x, r->ids[i], r->weights, r->scratch, r->out));
    return ml->down_bias ? r->op->moe_bias(r->be, ml, r->ids[i], r->weights, r->out) : ST_OK;
}

/* The i-th call of a row. */
static enum status call(struct run *r, int i)
{
    const struct step_dev *st = &r->step.dev;
    switch (r->row->kind) {
    case ROW_LINEAR:
        return r->op->linear(r->be, r->w[i], r->x, r->out);
    case ROW_DELTA_CONV:
        return r->op->delta_conv(r->be, &r->dl, st, r->x, r->state[i]);
    case ROW_DELTA_RULE:
        return r->op->delta_rule(r->be, &r->dl, st, r->x, r->aux, r->state[i], r->out);
    case ROW_TO_LATENT:
        return r->op->latent_to_cache(r->be, &r->al, st, r->aux, r->x, r->kv[i], r->x);
    case ROW_LATENT:
        return r->op->attention(r->be, &r->al, st, r->x, r->kv[i], r->out);
    case ROW_HEADS:
        return r->op->heads_linear(r->be, r->w[i], r->x, r->out);
    case ROW_SINKS:
        return r->op->attention(r->be, &r->al, st, r->x, r->kv[i], r->out);
    case ROW_EXPERTS:
        return call_experts(r, i);
    case ROW_DENSE:
        return dense_call(r, i);
    default:
        return r->op->round_input(r->be, &r->rule, r->x, (struct view){0}, r->out);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of one call: the median of SAMPLES graphs. */
static enum status measure(struct run *r, double *us)
{
    double all[SAMPLES];
    int samples = r->cfg->tiny ? 1 : SAMPLES, warm_ups = r->cfg->tiny ? 0 : WARM_UPS;
    struct graph *g;
    TRY(r->op->graph_begin(r->be));
    for (int i = 0; i < r->calls; i++)
        TRY(call(r, i));
    TRY(r->op->graph_end(r->be, &g));
    for (int i = -warm_ups; i < samples; i++) {
        uint64_t ns;
        TRY(r->op->event_mark(r->be, 0));
        TRY(r->op->graph_launch(r->be, g));
        TRY(r->op->event_mark(r->be, 1));
        TRY(r->op->event_elapsed(r->be, 0, 1, &ns));
        if (i >= 0)
            all[i] = (double)ns / 1e3 / r->calls;
    }
    r->op->graph_free(r->be, g);
    qsort(all, (size_t)samples, sizeof *all, by_value);
    *us = all[samples / 2];
    return ST_OK;
}

/* Names of the kernels that a call launches, each once: "a", "b". */
static enum status kernels_of(struct run *r, char *out, size_t size)
{
    uint64_t before = r->be->n_enqueued;
    size_t at = 0;
    TRY(call(r, 0));
    TRY(r->op->sync(r->be));
    out[0] = '\0';
    for (uint64_t i = before; i < r->be->n_enqueued; i++) {
        const char *name = r->be->enqueued[i % N_ENQUEUED];
        char quoted[80];
        name += *name == '(';
        snprintf(quoted, sizeof quoted, "\"%.*s\"", (int)strcspn(name, "<)"), name);
        if (!strstr(out, quoted) && at + strlen(quoted) + 3 < size)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at ? ", " : "", quoted);
    }
    return ST_OK;
}

/* Microseconds that the file has for a row; 0: none. */
static double predicted_us(const char *path, const char *name)
{
    char line[4096];
    double us = 0;
    size_t n = strlen(name);
    FILE *f = path ? fopen(path, "r") : NULL;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, n) == 0 && line[n] == '\t')
            us = strtod(line + n, NULL);
    if (f)
        fclose(f);
    return us;
}

static enum status run_row(struct run *r, const char *sep)
{
    char kernels[2048];
    double us = 0, bytes, flops, predicted = predicted_us(r->cfg->predicted, r->row->name);
    TRY(row_make(r));
    TRY(kernels_of(r, kernels, sizeof kernels));
    TRY(measure(r, &us));
    row_work(r->row, r->z, &bytes, &flops);
    printf("row    %-34s %9.1f us (predicted %.1f) %8.0f GB/s %4.0f %% of copy %8.1f TFLOP/s\n",
           r->row->name, us, predicted, bytes / us / 1e3, 100 * bytes / us / 1e3 / r->cfg->copy_gbs,
           flops / us / 1e6);
    if (r->cfg->json)
        fprintf(r->cfg->json,
                "%s\n  {\"name\": \"%s\", \"us\": %.3f, \"predicted_us\": %.1f, \"bytes\": %.0f, "
                "\"flops\": %.0f, \"kernels\": [%s]}",
                sep, r->row->name, us, predicted, bytes, flops, kernels);
    return ST_OK;
}

static void run_fini(struct run *r)
{
    gpu_step_fini(&r->step);
    while (r->n_weights > 0)
        r->op->free_weight(r->be, r->weight[--r->n_weights]);
    while (r->n_bufs > 0)
        r->op->free(r->be, r->buf[--r->n_bufs]);
}

/* As many as keep the kernels: 8 tokens and more than 32 have others, of a dense layer 16 too. */
static void shrink(struct row *q)
{
    bool few = q->kind == ROW_EXPERTS && q->tokens <= 64;
    q->tokens = q->tokens <= 8 ? q->tokens : few ? 8 : 40;
    q->keys = q->keys > 40 ? 40 : q->keys;
    q->seqs = q->seqs > 3 && q->kind != ROW_DENSE ? 3 : q->seqs;
}

enum status bench_rows(struct backend *be, const struct bench_rows_config *cfg)
{
    struct row rows[MAX_ROWS];
    size_t n = row_list(rows);
    for (size_t i = 0; i < n; i++) {
        if (cfg->tiny)
            shrink(&rows[i]);
        struct run r = {.be = be,
                        .op = backend_ops_of(be),
                        .cfg = cfg,
                        .row = &rows[i],
                        .z = cfg->tiny ? &row_sizes_tiny : &row_sizes};
        enum status st = run_row(&r, i ? "," : "");
        run_fini(&r);
        TRY(st);
    }
    return ST_OK;
}

void bench_rows_list(void)
{
    struct row rows[MAX_ROWS];
    double bytes, flops;
    size_t n = row_list(rows);
    for (size_t i = 0; i < n; i++) {
        row_work(&rows[i], &row_sizes, &bytes, &flops);
        printf("%s\t%.0f\t%.0f\n", rows[i].name, bytes, flops);
    }
}
