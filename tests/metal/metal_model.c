/* Whole models on the Metal device:
 *   metal_model --models DIR [--stories DIR] [--only same|golden|stories] [--few]
 *   same             one sequence decoded alone, against chunks, batches and a cache that was cut
 *                    back: equal bits
 *   golden, stories  numbers of other programs (tests/gpu/gpu_golden.c)
 * TAP on stdout. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_model.h"

int32_t greatest(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

struct decoder_config rank_config(const struct model_config *mc, enum dtype kv, int rank, int world)
{
    return (struct decoder_config){.rank = rank,
                                   .world = world,
                                   .max_tokens = 68,
                                   .max_seqs = 4,
                                   .max_out = 68,
                                   .n_blocks = 160,
                                   .block_len = 16,
                                   .max_ctx = mc->max_ctx < 512 ? mc->max_ctx : 512,
                                   .kv_dtype = kv};
}

static enum status open_rank(struct rank_engine *r, const char *dir, enum dtype kv,
                             bool rounds_inputs)
{
    memset(r, 0, sizeof *r);
    TRY(backend_open(&r->be, "metal", &(struct backend_config){0}));
    TRY(loader_open(&r->ld, dir));
    if (rounds_inputs)
        TRY(loader_round_inputs(r->ld));
    struct decoder_config cfg = rank_config(loader_config(r->ld), kv, 0, 1);
    return engine_create(&r->e, r->ld, r->be, NULL, &cfg);
}

enum status rank_open(struct rank_engine *r, const char *dir, enum dtype kv,
                      const struct rank_place *p)
{
    assert(!p); /* one rank alone */
    (void)p;
    return open_rank(r, dir, kv, false);
}

/* Metal multiplies all activations as they are. */
enum status rank_open_f32(struct rank_engine *r, const char *dir, enum dtype kv)
{
    return open_rank(r, dir, kv, false);
}

enum status rank_open_rounded(struct rank_engine *r, const char *dir, enum dtype kv)
{
    return open_rank(r, dir, kv, true);
}

void rank_close(struct rank_engine *r)
{
    engine_destroy(r->e);
    loader_close(r->ld);
    if (r->be)
        backend_ops_of(r->be)->close(r->be);
    memset(r, 0, sizeof *r);
}

/* ---- the same bytes ---- */

struct alone {
    struct rank_engine r;
    int32_t n, vocab, ids[TRUTH_LEN];
    float *row; /* [n, vocab]: after each token, decoded one by one */
    float *got; /* [n, vocab] */
};

static enum status same(const struct alone *a, const float *got, int32_t i, const char *what)
{
    size_t bytes = (size_t)a->vocab * sizeof(float);
    if (memcmp(got, a->row + (size_t)i * (size_t)a->vocab, bytes) != 0)
        FAIL(ST_BUG, "%s: the logits after token %d have other bits", what, i);
    return ST_OK;
}

static enum status decode_alone(struct alone *a, const char *dir, enum dtype kv, bool few)
{
    TRY(rank_open(&a->r, dir, kv, NULL));
    a->n = few ? TRUTH_LEN / 2 : TRUTH_LEN;
    a->vocab = engine_config(a->r.e)->vocab;
    a->row = calloc((size_t)(a->n * a->vocab), sizeof *a->row);
    a->got = calloc((size_t)(a->n * a->vocab), sizeof *a->got);
    if (!a->row || !a->got)
        FAIL(ST_NOMEM, "no memory for logits");
    for (int32_t i = 0; i < a->n; i++)
        a->ids[i] = (i * 31 + 5) % a->vocab;
    for (int32_t i = 0; i < a->n; i++)
        TRY(i == 0 ? engine_prefill(a->r.e, 9, a->ids, 1, a->row)
                   : engine_decode(a->r.e, 9, a->ids[i], i, a->row + (size_t)i * (size_t)a->vocab));
    engine_release(a->r.e, 9);
    return ST_OK;
}

static enum status in_chunks(struct alone *a)
{
    for (int32_t cut = 1; cut < a->n; cut += 5) {
        TRY(engine_prefill(a->r.e, 1, a->ids, cut, a->got));
        TRY(same(a, a->got, cut - 1, "first chunk"));
        TRY(engine_prefill(a->r.e, 1, a->ids + cut, a->n - cut, a->got));
        TRY(same(a, a->got, a->n - 1, "second chunk"));
        engine_release(a->r.e, 1);
    }
    TRY(engine_prepare(a->r.e, 1, a->n));
    TRY(engine_forward_verify(a->r.e, 1, a->ids, a->n, a->got));
    for (int32_t i = 0; i < a->n; i++)
        TRY(same(a, a->got + (size_t)i * (size_t)a->vocab, i, "all rows at once"));
    return ST_OK;
}

/* n sequences at different places of the text, then a prompt beside two decodes. */
static enum status in_batches(struct alone *a)
{
    for (int32_t n = 2; n <= 4; n++) {
        struct engine_token batch[4];
        for (int32_t s = 0; s < n; s++) {
            TRY(engine_prefill(a->r.e, (uint64_t)s, a->ids, 1 + 3 * s, a->got));
            batch[n - 1 - s] = (struct engine_token){(uint64_t)s, a->ids[1 + 3 * s], 1 + 3 * s};
        }
        TRY(engine_decode_batch(a->r.e, batch, n, a->got));
        for (int32_t s = 0; s < n; s++)
            TRY(same(a, a->got + (size_t)(n - 1 - s) * (size_t)a->vocab, 1 + 3 * s, "batch"));
        engine_reset(a->r.e);
    }
    TRY(engine_prefill(a->r.e, 1, a->ids, 9, a->got));
    TRY(engine_prefill(a->r.e, 2, a->ids, 4, a->got));
    const struct engine_chunk c[] = {
        {1, a->ids + 9, 1, 9, true}, {3, a->ids, 11, 0, true}, {2, a->ids + 4, 1, 4, true}};
    static const int32_t last[] = {9, 10, 4};
    TRY(engine_unified_forward(a->r.e, c, 3, a->got));
    for (int32_t i = 0; i < 3; i++)
        TRY(same(a, a->got + (size_t)i * (size_t)a->vocab, last[i], "a prompt beside decodes"));
    return ST_OK;
}

/* A beginning that stays in the cache after another continuation; a model with states beside the cache
 * begins anew. */
static enum status from_the_cache(struct alone *a)
{
    if (model_n_delta(engine_config(a->r.e)) > 0) {
        TRY(engine_prefill(a->r.e, 1, (int32_t[]){3, 2, 1}, 3, a->got));
        TRY(engine_truncate_kv(a->r.e, 1, 0));
        TRY(engine_prefill(a->r.e, 1, a->ids, a->n, a->got));
        return same(a, a->got, a->n - 1, "a sequence cut to nothing");
    }
    TRY(engine_prefill(a->r.e, 1, a->ids, 7, a->got));
    TRY(engine_prefill(a->r.e, 1, (int32_t[]){3, 2, 1}, 3, a->got));
    TRY(engine_truncate_kv(a->r.e, 1, 7));
    TRY(engine_prefill(a->r.e, 1, a->ids + 7, a->n - 7, a->got));
    return same(a, a->got, a->n - 1, "a beginning of the cache");
}

static void check_one(struct tap *t, const char *models, const char *name, enum dtype kv, bool few)
{
    static const struct {
        const char *name;
        enum status (*run)(struct alone *a);
    } all[] = {{"chunks", in_chunks}, {"batches", in_batches}, {"cache", from_the_cache}};
    char dir[1024];
    struct alone a = {0};
    snprintf(dir, sizeof dir, "%s/%s", models, name);
    enum status st = decode_alone(&a, dir, kv, few);
    if (st != ST_OK)
        tap_ok(t, false, "%s, %s cache: %s", name, dtype_name(kv), status_detail());
    for (size_t i = 0; i < ARRAY_LEN(all) && st == ST_OK; i++) {
        bool fine = all[i].run(&a) == ST_OK;
        tap_ok(t, fine, "%s, %s cache, %s%s%s", name, dtype_name(kv), all[i].name, fine ? "" : ": ",
               fine ? "" : status_detail());
        engine_reset(a.r.e);
    }
    rank_close(&a.r);
    free(a.row);
    free(a.got);
}

static void check_same(struct tap *t, const struct options *o)
{
    static const struct {
        const char *name;
        enum dtype kv;
        bool few;
    } all[] = {{"llama-gqa", DT_F32, false},
               {"llama-sharded-bf16", DT_BF16, false},
               {"llama-tied-f16", DT_F16, false},
               {"mistral-window", DT_F32, false},
               {"qwen3", DT_I8, true},
               {"llama-gqa", DT_E4M3, false},
               {"qwen3moe-v5-bf16", DT_BF16, false},
               {"gpt-oss", DT_BF16, false},
               {"deepseek3", DT_F32, false},
               {"minicpm3", DT_I8, false},
               {"qwen3next", DT_F32, false},
               {"nemotron-h-moe", DT_F32, false},
               {"gemma3n", DT_F16, false},
               {"gemma4-moe", DT_F32, false},
               {"llama4", DT_E4M3, false},
               {"llama-fp8-block", DT_F32, false},
               {"llama-gptq-zeros", DT_F16, false},
               {"qwen3moe-nvfp4", DT_BF16, false}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].few || !o->few)
            check_one(t, o->models, all[i].name, all[i].kv, o->few);
}

static int usage(void)
{
    fprintf(stderr, "usage: metal_model --models DIR [--stories DIR] [--only same|golden|stories] "
                    "[--few]\n");
    return 2;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    const char *only = "all";
    struct tap t = {0};
    for (int i = 1; i < argc; i++) {
        const char **value = strcmp(argv[i], "--models") == 0    ? &o.models
                             : strcmp(argv[i], "--stories") == 0 ? &o.stories
                             : strcmp(argv[i], "--only") == 0    ? &only
                                                                 : NULL;
        if (strcmp(argv[i], "--few") == 0)
            o.few = true;
        else if (value && i + 1 < argc)
            *value = argv[++i];
        else
            return usage();
    }
    bool all = strcmp(only, "all") == 0;
    bool same_too = strcmp(only, "same") == 0, golden = strcmp(only, "golden") == 0;
    bool stories = strcmp(only, "stories") == 0;
    if (!o.models || !(all || same_too || golden || stories))
        return usage();
    if (all || same_too)
        check_same(&t, &o);
    if (all || golden)
        check_golden(&t, &o);
    if (all || stories)
        check_stories(&t, &o);
    return tap_end(&t);
}
