#include "gpu/router_tap.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/gpu_model.h"

/* An op has no context of its own: what the tap in place of moe_route needs. */
static struct {
    struct backend_ops ops;
    const struct backend_ops *real;
    double margin;
    bool *sure;
} tap;

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static bool is_sure(const float *logits, int32_t n, int32_t k)
{
    float l[MOE_MAX_EXPERTS];
    for (int32_t i = 0; i < n; i++)
        l[i] = logits[i];
    qsort(l, (size_t)n, sizeof *l, descending);
    double most = fmax(fabs((double)l[0]), fabs((double)l[n - 1]));
    return k == n || (double)l[k - 1] - (double)l[k] > tap.margin * most;
}

static enum status tapped_route(struct backend *be, const struct moe_layer *ml, struct view logits,
                                struct view ids, struct view weights)
{
    float *l = malloc((size_t)logits.rows * (size_t)logits.cols * sizeof *l);
    if (!l)
        FAIL(ST_NOMEM, "no memory for router logits");
    enum status st = tap.real->read(be, l, logits);
    for (int32_t t = 0; t < logits.rows && st == ST_OK; t++)
        tap.sure[t] &= is_sure(l + (size_t)t * (size_t)logits.cols, ml->n_experts, ml->top_k);
    free(l);
    TRY(st);
    return tap.real->moe_route(be, ml, logits, ids, weights);
}

/* All tokens in one step: a row of the router is a position. */
static enum status run(struct rank_engine *r, const char *dir, const int32_t *ids, int32_t n)
{
    TRY(backend_open(&r->be, "cpu", &(struct backend_config){.isa = "plain"}));
    tap.real = backend_ops_of(r->be);
    tap.ops = *tap.real;
    tap.ops.moe_route = tapped_route;
    ((struct backend_base *)(void *)r->be)->ops = &tap.ops;
    TRY(loader_open(&r->ld, dir));
    struct decoder_config cfg = rank_config(loader_config(r->ld), DT_F32, 0, 1);
    float *logits = malloc((size_t)n * (size_t)loader_config(r->ld)->vocab * sizeof *logits);
    if (!logits || n > cfg.max_tokens)
        FAIL(ST_RANGE, "%d tokens in a step", n);
    enum status st = engine_create(&r->e, r->ld, r->be, NULL, &cfg);
    if (st == ST_OK)
        st = engine_prepare(r->e, 1, n);
    if (st == ST_OK)
        st = engine_forward_verify(r->e, 1, ids, n, logits);
    free(logits);
    return st;
}

enum status router_sure_rows(const char *dir, const int32_t *ids, int32_t n, double margin,
                             bool *sure)
{
    struct rank_engine r = {0};
    tap.margin = margin;
    tap.sure = sure;
    enum status st = run(&r, dir, ids, n);
    rank_close(&r);
    return st;
}
