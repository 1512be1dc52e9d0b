/* Columns of groups in any order, sorted: they meet activations in 8 bits.  The distance from transformers' logits is at most 1.7
 * times that of transformers with inputs rounded so (limit_sorted of tests/golden/make_integers.py); the bits are the same on
 * 1, 2, 4 and 8 ranks, in chunks and on the plain path, and others without the sorting. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static const char *const names[] = {"llama-gptq-order", "llama-gptq-order-zeros",
                                    "llama-int4-order", "qwen3moe-gptq-order"};

static double limit_sorted(const char *name)
{
    char path[1100];
    size_t size;
    snprintf(path, sizeof path, "%s/expected.json", golden_dir(name));
    char *text = read_file(path, &size);
    cJSON *root = cJSON_Parse(text), *limit = cJSON_GetObjectItem(root, "limit_sorted");
    cr_assert(cJSON_IsNumber(limit), "%s", path);
    double value = limit->valuedouble;
    cJSON_Delete(root);
    free(text);
    return value;
}

struct job {
    const struct golden *g;
    int32_t chunk;
    float *logits; /* [n, vocab], of rank 0 */
};

static enum status run(void *ctx, struct engine *e, int rank)
{
    const struct job *j = ctx;
    const struct golden *g = j->g;
    size_t row = (size_t)g->vocab;
    float *to = calloc((size_t)g->n * row, sizeof *to);
    enum status st = engine_prepare(e, 1, 0);
    for (int32_t at = 0; st == ST_OK && at < g->n; at += j->chunk) {
        int32_t n = g->n - at < j->chunk ? g->n - at : j->chunk;
        st = engine_forward_verify(e, 1, g->ids + at, n, to + (size_t)at * row);
    }
    if (rank == 0)
        memcpy(j->logits, to, (size_t)g->n * row * sizeof *to);
    free(to);
    return st;
}

static float *run_on(const char *name, const struct golden *g, int world, int32_t chunk,
                     struct rig_config cfg)
{
    struct job j = {g, chunk, calloc((size_t)g->n * (size_t)g->vocab, sizeof(float))};
    rig_group(golden_dir(name), cfg, world, run, &j);
    return j.logits;
}

/* Greatest difference of a row relative to its greatest logit. */
static double distance(const struct golden *g, const float *got)
{
    double worst = 0;
    for (int32_t t = 0; t < g->n; t++) {
        double diff = 0, top = 0;
        for (int32_t v = 0; v < g->vocab; v++) {
            size_t at = (size_t)t * (size_t)g->vocab + (size_t)v;
            cr_assert_not(isnan(got[at]));
            diff = fmax(diff, fabs((double)got[at] - (double)g->logits[at]));
            top = fmax(top, fabs((double)g->logits[at]));
        }
        worst = fmax(worst, diff / top);
    }
    return worst;
}

Test(sorted, as_near_as_8_bits_are_and_the_same_on_any_number_of_ranks)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct golden g;
        golden_open(&g, golden_dir(names[i]));
        size_t bytes = (size_t)g.n * (size_t)g.vocab * sizeof(float);
        float *one = run_on(names[i], &g, 1, g.n, (struct rig_config){.sorted = true});
        double off = distance(&g, one), limit = limit_sorted(names[i]);
        cr_log_info("%s: relative difference %g of %g", names[i], off, limit);
        cr_expect(off <= limit, "%s: relative difference %g of %g", names[i], off, limit);
        cr_expect(off > 1e-3, "%s: off by only %g: not in 8 bits", names[i], off);
        for (int world = 1; world <= 4; world *= 2) {
            float *parts = run_on(names[i], &g, world, 3, (struct rig_config){.sorted = true});
            cr_expect_arr_eq(parts, one, bytes, "%s: other bits on %d ranks in chunks", names[i],
                             world);
            free(parts);
        }
        float *plain =
            run_on(names[i], &g, 1, g.n, (struct rig_config){.sorted = true, .isa = "plain"});
        cr_expect_arr_eq(plain, one, bytes, "%s: other bits on the plain path", names[i]);
        free(plain);
        free(one);
        golden_close(&g);
    }
}

/* Groups of fewer than 32 columns stay as they are. */
Test(sorted, small_groups_meet_floats)
{
    const char *name = "qwen3next-gptq-order";
    struct golden g;
    golden_open(&g, golden_dir(name));
    size_t bytes = (size_t)g.n * (size_t)g.vocab * sizeof(float);
    float *a = run_on(name, &g, 1, g.n, (struct rig_config){.sorted = true});
    float *b = run_on(name, &g, 1, g.n, (struct rig_config){0});
    cr_expect_arr_eq(a, b, bytes);
    free(a);
    free(b);
    golden_close(&g);
}
