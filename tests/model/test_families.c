/* The families whose oracle is transformers alone (tests/golden/make_families.py): the logits of
 * every position as one chunk on one rank agree with transformers; chunks, decoding from the cache
 * and 2 and 4 ranks give the same bits; the greedy ids are those of transformers. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

enum { N_NEW = 48 };

struct job {
    struct golden g;
    int32_t n_prompt, greedy[N_NEW];
    int32_t chunk; /* of the prompt; then one token after the other, all logits compared */
    float *whole;  /* [n, vocab] of one chunk on one rank */
    const char *what;
};

static void job_open(struct job *j, const char *dir)
{
    char path[1100];
    size_t size;
    golden_open(&j->g, dir);
    snprintf(path, sizeof path, "%s/expected.json", dir);
    char *text = read_file(path, &size);
    cJSON *root = cJSON_Parse(text), *id;
    int32_t n = 0;
    j->n_prompt = cJSON_GetObjectItem(root, "n_prompt")->valueint;
    cJSON_ArrayForEach(id, cJSON_GetObjectItem(root, "greedy_ids")) j->greedy[n++] = id->valueint;
    cr_assert_eq(n, N_NEW);
    cJSON_Delete(root);
    free(text);
    j->whole = malloc((size_t)j->g.n * (size_t)j->g.vocab * sizeof *j->whole);
}

static int32_t argmax(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static enum status same(const struct job *j, int rank, int32_t at, int32_t n, const float *logits)
{
    size_t V = (size_t)j->g.vocab;
    if (memcmp(logits, j->whole + (size_t)at * V, (size_t)n * V * sizeof *logits) != 0)
        FAIL(ST_BUG, "rank %d, positions %d to %d: %s gives other bits", rank, at, at + n - 1,
             j->what);
    return ST_OK;
}

/* Half of the tokens in chunks, the rest one by one. */
static enum status in_pieces(const struct job *j, struct engine *e, int rank, float *logits)
{
    const struct golden *g = &j->g;
    TRY(engine_prepare(e, 2, g->n));
    for (int32_t at = 0, n; at < g->n; at += n) {
        n = at < g->n / 2 ? j->chunk : 1;
        n = at < g->n / 2 && at + n > g->n / 2 ? g->n / 2 - at : n;
        if (n > 1)
            TRY(engine_forward_verify(e, 2, g->ids + at, n, logits));
        else
            TRY(engine_decode(e, 2, g->ids[at], at, logits));
        TRY(same(j, rank, at, n, logits));
    }
    engine_release(e, 2);
    return ST_OK;
}

static enum status greedy(const struct job *j, struct engine *e, float *logits)
{
    TRY(engine_prefill(e, 3, j->g.ids, j->n_prompt, logits));
    for (int32_t i = 0; i < N_NEW; i++) {
        int32_t id = argmax(logits, j->g.vocab);
        if (id != j->greedy[i])
            FAIL(ST_BUG, "greedy token %d is %d, not %d", i, id, j->greedy[i]);
        TRY(engine_decode(e, 3, id, j->n_prompt + i, logits));
    }
    engine_release(e, 3);
    return ST_OK;
}

static enum status whole(const struct job *j, struct engine *e, int rank, float *logits)
{
    TRY(engine_prepare(e, 1, j->g.n));
    TRY(engine_forward_verify(e, 1, j->g.ids, j->g.n, logits));
    engine_release(e, 1);
    return same(j, rank, 0, j->g.n, logits);
}

static enum status body(void *ctx, struct engine *e, int rank)
{
    const struct job *j = ctx;
    float *logits = malloc((size_t)j->g.n * (size_t)j->g.vocab * sizeof *logits);
    enum status st = whole(j, e, rank, logits);
    if (st == ST_OK)
        st = in_pieces(j, e, rank, logits);
    if (st == ST_OK)
        st = greedy(j, e, logits);
    free(logits);
    return st;
}

static void agrees(const struct job *j, const char *name)
{
    const struct golden *g = &j->g;
    for (int32_t t = 0; t < g->n; t++) {
        double diff = 0, top = 0;
        for (int32_t v = 0; v < g->vocab; v++) {
            size_t i = (size_t)t * (size_t)g->vocab + (size_t)v;
            cr_assert_not(isnan(j->whole[i]));
            diff = fmax(diff, fabs((double)j->whole[i] - (double)g->logits[i]));
            top = fmax(top, fabs((double)g->logits[i]));
        }
        cr_assert(diff <= g->limit * top, "%s: position %d: relative difference %g", name, t,
                  diff / top);
    }
}

ParameterizedTestParameters(families, exact)
{
    return cr_make_param_array(size_t, golden_indices(), n_families());
}

ParameterizedTest(size_t *i, families, exact)
{
    const char *name = golden_names[n_golden - n_families() + *i];
    char dir[1024];
    struct job j = {.what = "another way"};
    struct rig r;
    snprintf(dir, sizeof dir, "%s", golden_dir(name));
    job_open(&j, dir);
    rig_open(&r, dir, (struct rig_config){0});
    must(engine_prepare(r.e, 1, j.g.n), "prepare");
    must(engine_forward_verify(r.e, 1, j.g.ids, j.g.n, j.whole), name);
    rig_close(&r);
    agrees(&j, name);
    for (int world = 1; world <= 4; world *= 2) {
        j.chunk = 4 + 3 * world;
        rig_group(dir, (struct rig_config){0}, world, body, &j);
    }
    free(j.whole);
    golden_close(&j.g);
}
