/* A KV cache of f16, bf16 or e4m3 rounds what is stored, and nothing else: logits are, bit for bit,
 * those of an f32 cache whose entries were rounded by the definition when they were written
 * (attention reads element * scale rounded to f32, then computes as with f32).  With int8 entries the CPU
 * rounds queries and weights to 16 bits too (test_attention_int8.c has the bits): logits are near those
 * of that f32 cache.  And what these roundings cost. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kv_spec.h"
#include "rig.h"

enum { STORIES_TOKENS = 320 }; /* crosses an attention split */

static const enum dtype small_types[] = {DT_F16, DT_BF16, DT_I8, DT_E4M3};

/* ---- a backend that rounds what qkv_to_cache wrote to an f32 cache ---- */

static enum dtype round_to;
static const struct backend_ops *plain_ops;
static struct backend_ops rounding_ops;

static void round_head(float *x, int d)
{
    char stored[4 * 512];
    float scale = 0;
    spec_store(round_to, x, d, stored, &scale);
    for (int i = 0; i < d; i++)
        x[i] = spec_value(round_to, stored, i, scale);
}

static enum status rounded_qkv_to_cache(struct backend *be, const struct attn_layer *al,
                                        const struct step_dev *st, struct view qkv,
                                        struct kv_layer kv, struct view q)
{
    TRY(plain_ops->qkv_to_cache(be, al, st, qkv, kv, q));
    const int32_t *slot = plain_ops->host_ptr(be, st->slot);
    for (int32_t t = 0; t < st->n_tokens; t++)
        for (int which = 0; which < 2; which++) {
            struct view v = which ? kv.v : kv.k;
            float *row = (float *)plain_ops->host_ptr(be, v) + (size_t)slot[t] * (size_t)v.stride;
            for (int32_t g = 0; g < al->n_kv; g++)
                round_head(row + (size_t)(g * al->d_head), al->d_head);
        }
    return ST_OK;
}

/* ---- engines ---- */

struct one {
    struct backend *be;
    struct loader *ld;
    struct engine *e;
    int32_t vocab, n_layers, d, n_kv;
};

/* isa NULL: rig_isa().  rounded: entries are rounded to round_to. */
static void open_one(struct one *o, const char *dir, const char *isa, enum dtype kv, bool rounded)
{
    struct backend_config bc = {.threads = 1, .isa = isa ? isa : rig_isa()};
    must(backend_open(&o->be, "cpu", &bc), "backend");
    if (rounded) {
        plain_ops = backend_ops_of(o->be);
        rounding_ops = *plain_ops;
        rounding_ops.qkv_to_cache = rounded_qkv_to_cache;
        ((struct backend_base *)o->be)->ops = &rounding_ops;
    }
    must(loader_open(&o->ld, dir), dir);
    const struct model_config *mc = loader_config(o->ld);
    struct rig_config rc = {
        .kv_dtype = kv, .n_blocks = 32, .max_ctx = mc->max_ctx < 512 ? mc->max_ctx : 512};
    struct decoder_config cfg = rig_decoder_config(mc, rc, 0, 1);
    must(engine_create(&o->e, o->ld, o->be, NULL, &cfg), "engine");
    o->vocab = mc->vocab;
    o->n_layers = mc->n_layers;
    o->d = mc->d_head;
    o->n_kv = mc->n_kv;
}

static void close_one(struct one *o)
{
    engine_destroy(o->e);
    loader_close(o->ld);
    backend_ops_of(o->be)->close(o->be);
}

/* Logits [n, V] of n tokens, the last three by decoding: freed by the caller. */
static float *logits_of(struct one *o, const int32_t *ids, int32_t n)
{
    size_t V = (size_t)o->vocab;
    float *logits = malloc((size_t)n * V * sizeof *logits);
    cr_assert_not_null(logits);
    must(engine_prepare(o->e, 1, n), "room");
    must(engine_forward_verify(o->e, 1, ids, n - 3, logits), "prefill");
    for (int32_t i = n - 3; i < n; i++)
        must(engine_decode(o->e, 1, ids[i], i, logits + (size_t)i * V), "decode");
    return logits;
}

struct cache {
    struct engine_kv *layer; /* [n_layers] */
    size_t row_bytes;
};

static struct cache export_cache(struct one *o, int32_t n)
{
    struct cache c = {calloc((size_t)o->n_layers, sizeof *c.layer), engine_kv_row_bytes(o->e)};
    size_t rows = (size_t)n * c.row_bytes, scales = (size_t)(n * o->n_kv) * sizeof(float);
    for (int32_t i = 0; i < o->n_layers; i++)
        c.layer[i] = (struct engine_kv){.k = malloc(rows),
                                        .v = malloc(rows),
                                        .k_scale = malloc(scales),
                                        .v_scale = malloc(scales)};
    must(engine_export_kv(o->e, 1, c.layer), "export");
    return c;
}

static void free_cache(struct cache *c, int32_t n_layers)
{
    for (int32_t i = 0; i < n_layers; i++) {
        free(c->layer[i].k);
        free(c->layer[i].v);
        free(c->layer[i].k_scale);
        free(c->layer[i].v_scale);
    }
    free(c->layer);
}

/* Head g of token t: where it stands, and its scale. */
static const char *head_at(const struct one *o, const struct cache *c, int32_t layer, int which,
                           int32_t t, int32_t g, const float **scale)
{
    const struct engine_kv *l = &c->layer[layer];
    const char *data = which ? l->v : l->k;
    *scale = (which ? l->v_scale : l->k_scale) + t * o->n_kv + g;
    return data + (size_t)t * c->row_bytes + (size_t)g * (c->row_bytes / (size_t)o->n_kv);
}

/* Layers whose K and V are the same in both: with int8 entries the second one's input already has
 * been through attention. */
static int32_t equal_layers(enum dtype t, const struct one *o)
{
    return t == DT_I8 ? 1 : o->n_layers;
}

/* Whole caches: what `small` stores reads as what `rounded` (f32) stores, in every layer of equal_layers; and in
 * the first, whose K and V no rounding has touched, its bytes are those of the definition for the
 * entries of `exact` (f32). */
static void check_caches(const char *what, enum dtype t, const struct one *o,
                         const struct cache *small, const struct cache *rounded,
                         const struct cache *exact, int32_t n)
{
    char want[4 * 512];
    float want_scale = 0;
    const float *scale, *none;
    for (int32_t i = 0; i < n * equal_layers(t, o) * o->n_kv * 2; i++) {
        int which = i % 2;
        int32_t g = i / 2 % o->n_kv, row = i / 2 / o->n_kv % n, layer = i / 2 / o->n_kv / n;
        const char *at = head_at(o, small, layer, which, row, g, &scale);
        const float *f32 = (const void *)head_at(o, rounded, layer, which, row, g, &none);
        bool scaled = t == DT_I8 || t == DT_E4M3;
        for (int32_t j = 0; j < o->d; j++) {
            float v = spec_value(t, at, j, scaled ? *scale : 1.0f);
            cr_assert_eq(v, f32[j], "%s, %s: layer %d, token %d, head %d, %c[%d]: %a, not %a", what,
                         dtype_name(t), layer, row, g, "kv"[which], j, (double)v, (double)f32[j]);
        }
        if (layer > 0)
            continue;
        f32 = (const void *)head_at(o, exact, 0, which, row, g, &none);
        spec_store(t, f32, o->d, want, &want_scale);
        cr_assert(memcmp(at, want, (size_t)o->d * dtype_size(t)) == 0 &&
                      (!scaled || memcmp(scale, &want_scale, sizeof want_scale) == 0),
                  "%s, %s: token %d, head %d, %c: other bytes", what, dtype_name(t), row, g,
                  "kv"[which]);
    }
}

struct cost {
    double mean, worst; /* |difference| of logits, as a share of the row's greatest - least */
    int32_t same;       /* rows with the same greatest logit */
};

static struct cost cost_of(const float *got, const float *want, int32_t n, int32_t vocab)
{
    struct cost c = {0};
    for (int32_t t = 0; t < n; t++, got += vocab, want += vocab) {
        int32_t top = 0, bottom = 0, got_top = 0;
        for (int32_t i = 1; i < vocab; i++) {
            top = want[i] > want[top] ? i : top;
            bottom = want[i] < want[bottom] ? i : bottom;
            got_top = got[i] > got[got_top] ? i : got_top;
        }
        double spread = (double)want[top] - (double)want[bottom];
        for (int32_t i = 0; i < vocab; i++) {
            double off = fabs((double)got[i] - (double)want[i]) / spread;
            c.mean += off / ((double)n * vocab);
            c.worst = fmax(c.worst, off);
        }
        c.same += got_top == top;
    }
    return c;
}

static void check_same(const char *what, enum dtype t, const float *got, const float *want,
                       int32_t n, int32_t vocab)
{
    for (int32_t i = 0; i < n * vocab; i++)
        cr_assert(memcmp(&got[i], &want[i], sizeof *got) == 0,
                  "%s, %s: logit %d of token %d: %a, not %a", what, dtype_name(t), i % vocab,
                  i / vocab, (double)got[i], (double)want[i]);
}

/* int8: 16 bits for queries and weights may add 1/16 to what the entries' own rounding costs.  Half a unit
 * is a share of 1/65534 of the greatest of a row, in an entry 1/254: 1/258 of that.  Where the input of
 * a later layer is moved by 1/258 of a step, an entry is rounded to its neighbour with that
 * probability, which is a mean square of 1/258 of a step's, so a deviation of 1/16. */
static void check_near(const char *what, const float *got, const float *rounded,
                       const float *unrounded, int32_t n, int32_t vocab)
{
    struct cost own = cost_of(rounded, unrounded, n, vocab), more = cost_of(got, rounded, n, vocab);
    printf("%s: mean %.5f %%, worst %.4f %% of the spread beside an f32 cache of the entries\n",
           what, 100 * more.mean, 100 * more.worst);
    cr_assert_gt(more.mean, 0.0, "%s: queries and weights are not rounded", what);
    cr_assert_lt(more.mean, own.mean / 16, "%s: 16 bits cost %g, the entries %g", what, more.mean,
                 own.mean);
}

static void check_model(const char *dir, const char *isa, const int32_t *ids, int32_t n)
{
    struct one exact, small, rounded;
    open_one(&exact, dir, isa, DT_F32, false);
    float *unrounded = logits_of(&exact, ids, n);
    struct cache exact_cache = export_cache(&exact, n);
    for (size_t i = 0; i < ARRAY_LEN(small_types); i++) {
        round_to = small_types[i];
        open_one(&small, dir, isa, round_to, false);
        open_one(&rounded, dir, isa, DT_F32, true);
        float *a = logits_of(&small, ids, n), *b = logits_of(&rounded, ids, n);
        if (round_to == DT_I8)
            check_near(dir, a, b, unrounded, n, small.vocab);
        else
            check_same(dir, round_to, a, b, n, small.vocab);
        cr_assert(memcmp(a, unrounded, (size_t)(n * small.vocab) * sizeof *a) != 0,
                  "%s, %s: nothing was rounded", dir, dtype_name(round_to));
        struct cache ca = export_cache(&small, n), cb = export_cache(&rounded, n);
        check_caches(dir, round_to, &small, &ca, &cb, &exact_cache, n);
        free_cache(&ca, small.n_layers);
        free_cache(&cb, small.n_layers);
        free(a);
        free(b);
        close_one(&small);
        close_one(&rounded);
    }
    free_cache(&exact_cache, exact.n_layers);
    free(unrounded);
    close_one(&exact);
}

/* ---- what is run ---- */

/* The model's own continuation of its first token, greedy, with an f32 cache. */
static void greedy_text(const char *dir, int32_t *ids, int32_t n)
{
    struct one o;
    open_one(&o, dir, NULL, DT_F32, false);
    float *logits = malloc((size_t)o.vocab * sizeof *logits);
    ids[0] = 1;
    must(engine_prefill(o.e, 1, ids, 1, logits), "prefill");
    for (int32_t i = 1; i < n; i++) {
        ids[i] = 0;
        for (int32_t j = 1; j < o.vocab; j++)
            ids[i] = logits[j] > logits[ids[i]] ? j : ids[i];
        must(engine_decode(o.e, 1, ids[i], i, logits), "decode");
    }
    free(logits);
    close_one(&o);
}

static const char *stories(void)
{
    const char *dir = shared_data("models/stories260K");
    if (!dir)
        cr_skip_test("no shared data: models/stories260K");
    return dir;
}

Test(kv_types, stories)
{
    int32_t ids[STORIES_TOKENS];
    const char *dir = stories();
    greedy_text(dir, ids, STORIES_TOKENS);
    check_model(dir, NULL, ids, STORIES_TOKENS);
    check_model(dir, "plain", ids, 40);
}

Test(kv_types, fixtures)
{
    static const char *const names[] = {"llama-gqa", "llama-mha", "qwen2", "qwen3", "mixtral"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct golden g;
        char dir[1024];
        snprintf(dir, sizeof dir, "%s", golden_dir(names[i]));
        golden_open(&g, dir);
        check_model(dir, NULL, g.ids, g.n);
        golden_close(&g);
    }
}

/* ---- what it costs ---- */

/* Prints the table, and asserts its order.  An element of half its head's greatest, a, is rounded
 * by at most 2^-12 a in f16, 2^-9 a in bf16, 2^-8 a in int8 and 2^-5 a in e4m3; the mean over
 * thousands of logits follows. */
static void check_cost(const char *name, const char *dir, const int32_t *ids, int32_t n)
{
    struct one o;
    struct cost before = {0};
    open_one(&o, dir, NULL, DT_F32, false);
    float *want = logits_of(&o, ids, n);
    close_one(&o);
    for (size_t i = 0; i < ARRAY_LEN(small_types); i++) {
        open_one(&o, dir, NULL, small_types[i], false);
        float *got = logits_of(&o, ids, n);
        struct cost c = cost_of(got, want, n, o.vocab);
        printf("%-12s head %3d, %3d tokens, KV %-4s: mean %8.5f %%, worst %8.4f %% of the spread, "
               "same top token %d of %d\n",
               name, o.d, n, dtype_name(small_types[i]), 100 * c.mean, 100 * c.worst, c.same, n);
        cr_assert_gt(c.mean, before.mean, "%s: %s costs %g, the type before it %g", name,
                     dtype_name(small_types[i]), c.mean, before.mean);
        before = c;
        free(got);
        close_one(&o);
    }
    free(want);
}

Test(kv_types, cost_on_stories)
{
    int32_t ids[STORIES_TOKENS];
    const char *dir = stories();
    greedy_text(dir, ids, STORIES_TOKENS);
    check_cost("stories260K", dir, ids, STORIES_TOKENS);
}

Test(kv_types, cost_on_fixtures)
{
    static const char *const names[] = {"qwen3", "llama-gqa"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct golden g;
        golden_open(&g, golden_dir(names[i]));
        check_cost(names[i], golden_dir(names[i]), g.ids, g.n);
        golden_close(&g);
    }
}
