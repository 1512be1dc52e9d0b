/* Numbers of other programs: the fixtures of HuggingFace transformers, stories260K. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_model.h"
#include "gpu/router_tap.h"

/* Greatest |difference| of a row of logits over the row's greatest |logit|.  f32: as on the CPU.
 * 16-bit weights: each of a layer's four products and the head take their input rounded to the
 * weights' type, which changes it by 2^-8 (bf16) or 2^-11 (f16) of its size at most; as many such
 * changes as there are roundings are allowed.  A loader that ignores an option of its fixture is
 * off by 0.6 (tests/golden/README.md). */
static double bound_of(enum dtype weights, int32_t n_layers)
{
    double roundings = 4.0 * n_layers + 1;
    return weights == DT_F32 ? 1e-4 : weights == DT_F16 ? roundings * 0x1p-11 : roundings * 0x1p-8;
}

enum { MAX_POSITIONS = 128, MIN_SURE = 8 }; /* fewer rows would show little */

struct golden {
    int32_t n, vocab;
    int32_t *ids;  /* [n] */
    float *logits; /* [n, vocab] */
    double
        limit_sorted; /* of the difference of sorted columns' inputs in 8 bits (make_integers.py); 0: they are not */
};

static char *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *data = n >= 0 ? malloc((size_t)n + 1) : NULL;
    *size = data ? fread(data, 1, (size_t)n, f) : 0;
    fclose(f);
    if (data)
        data[*size] = 0;
    return data;
}

static cJSON *read_json(const char *dir)
{
    char path[1200];
    size_t size;
    snprintf(path, sizeof path, "%s/expected.json", dir);
    char *text = read_all(path, &size);
    cJSON *root = text ? cJSON_Parse(text) : NULL;
    free(text);
    return root;
}

static int32_t *ids_of(const cJSON *list, int32_t *n)
{
    int32_t *ids = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *ids), i = 0;
    const cJSON *c;
    cJSON_ArrayForEach(c, list) if (ids) ids[i++] = c->valueint;
    *n = i;
    return ids;
}

static bool golden_read(struct golden *g, const char *dir)
{
    char path[1200];
    size_t size = 0;
    int32_t n_ids = 0;
    cJSON *root = read_json(dir), *n, *file, *sorted;
    memset(g, 0, sizeof *g);
    if (!root)
        return false;
    sorted = cJSON_GetObjectItem(root, "limit_sorted");
    g->limit_sorted = sorted ? sorted->valuedouble : 0;
    g->vocab = cJSON_GetObjectItem(root, "vocab_size")->valueint;
    g->ids = ids_of(cJSON_GetObjectItem(root, "input_ids"), &n_ids);
    n = cJSON_GetObjectItem(root, "n_positions");
    file = cJSON_GetObjectItem(root, "logits");
    g->n = n ? n->valueint : n_ids;
    snprintf(path, sizeof path, "%s/%s", dir, file ? file->valuestring : "logits.f32");
    g->logits = (float *)(void *)read_all(path, &size);
    cJSON_Delete(root);
    return g->ids && g->logits && n_ids == g->n && g->n <= MAX_POSITIONS &&
           size == (size_t)g->n * (size_t)g->vocab * sizeof(float);
}

/* Of the rows that are sure of their experts: those whose best token differs, and the worst
 * relative difference. */
static void compare(const struct golden *g, const bool *sure, const float *logits, int *other_ids,
                    double *worst)
{
    *other_ids = 0;
    *worst = 0;
    for (int32_t t = 0; t < g->n; t++) {
        if (!sure[t])
            continue;
        const float *got = logits + (size_t)t * (size_t)g->vocab;
        const float *want = g->logits + (size_t)t * (size_t)g->vocab;
        double diff = 0, top = 0;
        for (int32_t v = 0; v < g->vocab; v++) {
            double d = fabs((double)got[v] - (double)want[v]);
            diff = isnan(got[v]) ? INFINITY : fmax(diff, d);
            top = fmax(top, fabs((double)want[v]));
        }
        *other_ids += greatest(got, g->vocab) != greatest(want, g->vocab);
        *worst = fmax(*worst, diff / top);
    }
}

/* Where two experts' logits are nearly equal, rounding may put one in the place of the other, which
 * is another function: such rows have no bound and are left out.  Router logits are as far off as
 * those of the vocabulary at most, each of the two. */
static enum status find_sure(const struct golden *g, const char *dir, enum dtype weights,
                             const struct model_config *mc, bool *sure, int *n_sure)
{
    double margin = weights == DT_F32 || !mc->n_experts ? 0 : 2 * bound_of(weights, mc->n_layers);
    for (int32_t t = 0; t < g->n; t++)
        sure[t] = true;
    if (margin > 0)
        TRY(router_sure_rows(dir, g->ids, g->n, margin, sure));
    *n_sure = 0;
    for (int32_t t = 0; t < g->n; t++)
        *n_sure += sure[t];
    return ST_OK;
}

static enum status golden_logits(const struct golden *g, struct engine *e, float **logits)
{
    *logits = calloc((size_t)g->n * (size_t)g->vocab, sizeof **logits);
    if (!*logits || engine_config(e)->vocab != g->vocab)
        FAIL(ST_RANGE, "vocabulary of %d", engine_config(e)->vocab);
    TRY(engine_prepare(e, 1, g->n));
    return engine_forward_verify(e, 1, g->ids, g->n, *logits);
}

static void check_fixture(struct tap *t, const struct options *o, const char *name,
                          enum dtype weights)
{
    char dir[1024];
    struct golden g;
    struct rank_engine r;
    float *logits = NULL;
    bool sure[MAX_POSITIONS];
    int other_ids, n_sure;
    double worst;
    snprintf(dir, sizeof dir, "%s/%s", o->models, name);
    enum status st =
        weights == DT_F32 ? rank_open_f32(&r, dir, DT_F32) : rank_open(&r, dir, DT_F32, NULL);
    if (st == ST_UNSUPPORTED) {
        tap_skip(t, name, status_detail());
    } else if (st != ST_OK) {
        tap_ok(t, false, "%s: %s", name, status_detail());
    } else if (!golden_read(&g, dir)) {
        tap_ok(t, false, "%s: no expected.json", name);
    } else if (find_sure(&g, dir, weights, engine_config(r.e), sure, &n_sure) != ST_OK ||
               golden_logits(&g, r.e, &logits) != ST_OK) {
        tap_ok(t, false, "%s: %s", name, status_detail());
    } else {
        compare(&g, sure, logits, &other_ids, &worst);
        double bound = bound_of(weights, engine_config(r.e)->n_layers);
        if (engine_config(r.e)->int_sorted)
            bound += g.limit_sorted;
        bool fine = worst <= bound && (weights != DT_F32 || other_ids == 0) && n_sure >= MIN_SURE;
        tap_ok(t, fine,
               "%s (%s): relative difference %.2g, at most %.2g; %d of %d best ids differ%s", name,
               dtype_name(weights), worst, bound, other_ids, n_sure,
               n_sure < g.n ? " (of rows that are sure of their experts)" : "");
    }
    if (st == ST_OK) {
        free(g.ids);
        free(g.logits);
    }
    free(logits);
    rank_close(&r);
}

/* ---- inputs in f16 where they meet e4m3 ---- */

/* sqrt(mean (got - want)^2 / mean want^2) over all logits; NaN where any is. */
static double mean_distance(const struct golden *g, const float *got, const float *want)
{
    double diff = 0, all = 0;
    for (size_t i = 0; i < (size_t)g->n * (size_t)g->vocab; i++) {
        double d = (double)got[i] - (double)want[i];
        diff += d * d;
        all += (double)want[i] * (double)want[i];
    }
    return sqrt(diff / all);
}

/* The backend's default, against logits of inputs that numpy rounded to f16 or left as they are
 * (tests/golden/make_mild.py): within the fixture's limit of its own, and further from the other. */
static void check_halves(struct tap *t, const struct options *o, const char *name)
{
    char dir[1024], path[1200];
    struct golden g = {0};
    struct rank_engine r = {0};
    size_t size = 0;
    float *logits = NULL, *want = NULL;
    snprintf(dir, sizeof dir, "%s/%s", o->models, name);
    snprintf(path, sizeof path, "%s/logits-f16.f32", dir);
    cJSON *root = read_json(dir), *limit = cJSON_GetObjectItem(root, "limit_f16");
    want = (float *)(void *)read_all(path, &size);
    if (!limit || !golden_read(&g, dir) || !want ||
        size != (size_t)g.n * (size_t)g.vocab * sizeof *want) {
        tap_ok(t, false, "%s in f16: its files are not whole", name);
    } else if (rank_open(&r, dir, DT_F32, NULL) != ST_OK ||
               golden_logits(&g, r.e, &logits) != ST_OK) {
        tap_ok(t, false, "%s in f16: %s", name, status_detail());
    } else {
        bool halves = strcmp(backend_ops_of(r.be)->name, "cuda") == 0; /* Metal's stay in f32 */
        double f16 = mean_distance(&g, logits, want), f32 = mean_distance(&g, logits, g.logits);
        double near = halves ? f16 : f32, far = halves ? f32 : f16;
        tap_ok(t, near <= limit->valuedouble && far > limit->valuedouble,
               "%s in %s: mean distance %.2g, at most %.2g; from the other's %.2g", name,
               halves ? "f16" : "f32", near, limit->valuedouble, far);
    }
    cJSON_Delete(root);
    free(g.ids);
    free(g.logits);
    free(logits);
    free(want);
    rank_close(&r);
}

/* ---- inputs rounded as the checkpoint says ---- */

/* The folder of expected.json, and that of the model, which may be one of the others. */
static bool input_dirs(const struct options *o, const char *name, char *dir, char *model,
                       size_t size)
{
    snprintf(dir, size, "%s/../inputs/%s", o->models, name);
    cJSON *root = read_json(dir);
    const cJSON *other = cJSON_GetObjectItem(root, "model");
    if (other && *other->valuestring)
        snprintf(model, size, "%s/%s", o->models, other->valuestring);
    else
        snprintf(model, size, "%s", dir);
    cJSON_Delete(root);
    return other != NULL;
}

/* Fixtures that are all in f32 but for the rounding, of sequences that have no value near the middle of a step: where the
 * inputs of 16-bit matrices are rounded, too, a value may fall on the other side, so int8-token and int8-token-zeros,
 * which have such matrices, have no bound here. */
static void check_inputs(struct tap *t, const struct options *o, const char *name)
{
    char dir[1024], model[1024];
    struct golden g = {0};
    struct rank_engine r = {0};
    float *logits = NULL;
    bool all[MAX_POSITIONS];
    int other_ids;
    double worst, bound = bound_of(DT_F32, 0);
    enum status st = ST_OK;
    memset(all, true, sizeof all);
    if (!input_dirs(o, name, dir, model, sizeof dir) || !golden_read(&g, dir)) {
        tap_ok(t, false, "inputs of %s: no expected.json", name);
    } else if ((st = rank_open_rounded(&r, model, DT_F32)) == ST_UNSUPPORTED) {
        tap_skip(t, name, status_detail());
    } else if (st != ST_OK || golden_logits(&g, r.e, &logits) != ST_OK) {
        tap_ok(t, false, "inputs of %s: %s", name, status_detail());
    } else {
        compare(&g, all, logits, &other_ids, &worst);
        tap_ok(t, worst <= bound && other_ids == 0,
               "inputs of %s: relative difference %.2g, at most %.2g; %d of %d best ids differ",
               name, worst, bound, other_ids, g.n);
    }
    free(g.ids);
    free(g.logits);
    free(logits);
    rank_close(&r);
}

void check_golden(struct tap *t, const struct options *o)
{
    static const struct {
        const char *name;
        bool few;
    } inputs[] = {{"fp8-block", true},        {"fp8-static", false},
                  {"int8-token-f32", true},   {"int8-static", false},
                  {"ct-fp8-token", false},    {"ct-fp8-static", false},
                  {"ct-fp8-group", false},    {"fp8-block-latent", true},
                  {"fp8-block-delta", false}, {"fp8-block-experts", true}};
    static const struct {
        const char *name;
        enum dtype weights;
        bool few;
    } all[] = {
        {"llama-gqa", DT_F32, true},
        {"llama-sharded-bf16", DT_BF16, true},
        {"llama-tied-f16", DT_F16, true},
        {"mistral-window", DT_F32, true},
        {"qwen3", DT_F32, true},
        {"llama-attention-bias", DT_F32, false},
        {"llama-head-dim", DT_F32, false},
        {"llama-mha", DT_F32, false},
        {"llama-mlp-bias", DT_F32, false},
        {"llama-mqa", DT_F32, false},
        {"llama-rope-linear", DT_F32, false},
        {"llama-rope-llama3", DT_F32, false},
        {"llama-rope-llama3-v5", DT_F32, false},
        {"llama-rope-yarn", DT_F32, false},
        {"llama-rope-yarn-factor", DT_F32, false},
        {"mistral-no-window", DT_F32, false},
        {"mistral-window-v5", DT_F32, false},
        {"qwen2", DT_F32, false},
        {"qwen2-yarn", DT_F32, false},
        {"qwen3-v5", DT_F32, false},
        {"mixtral", DT_F32, true},
        {"mixtral-v5", DT_F32, false},
        {"qwen3moe", DT_F32, true},
        {"qwen3moe-step", DT_F32, false},
        {"qwen3moe-dense-first", DT_F32, false},
        {"qwen3moe-v5-bf16", DT_BF16, true},
        /* quantised, with the type of their other tensors; then families with ops of their own.  F32: with
         * --activations f32, because these e4m3 models take roundings far: the f32 order's are 3e-5 of their
         * logits, 20 times those of llama-gqa, and f16's would be 8192 times as large.  check_halves has f16's. */
        {"llama-fp8-block", DT_F32, true},
        {"llama-fp8-mild", DT_F32, false},
        {"llama-fp8-channel", DT_F32, false},
        {"llama-fp8-tensor", DT_F32, false},
        {"llama-gptq-order", DT_F16, true},
        {"llama-gptq-order-zeros", DT_F16, false},
        {"llama-int4-order", DT_BF16, false},
        {"llama-nf4", DT_BF16, false},
        {"llama-nf4-double", DT_BF16, false},
        {"llama-fp4", DT_BF16, false},
        {"llama-bnb8", DT_BF16, false},
        {"llama-nvfp4", DT_BF16, false},
        {"llama-nvfp4-modelopt", DT_BF16, false},
        {"qwen3moe-fp8-block", DT_F32, false},
        {"qwen3moe-gptq-order", DT_F16, false},
        {"qwen3moe-nf4", DT_BF16, false},
        {"qwen3moe-nvfp4", DT_BF16, true},
        {"gpt-oss", DT_F32, true},
        {"qwen2moe", DT_F32, false},
        {"glm4moe", DT_F32, false},
        {"glm4moe-groups", DT_F32, false},
        {"olmo2", DT_F32, false},
        {"olmo3", DT_F32, false},
        {"olmoe", DT_F32, false},
        {"starcoder2", DT_F32, false},
        {"gpt2", DT_F32, false},
        {"neox", DT_F32, false},
        {"opt", DT_F32, false},
        {"deepseek2", DT_F32, false},
        {"deepseek3", DT_F32, true},
        {"minicpm3", DT_F32, false},
        {"qwen3next", DT_F32, true},
        {"qwen35", DT_F32, false},
        {"bamba", DT_F32, false},
        {"granite-hybrid", DT_F32, false},
        {"falcon-h1", DT_F32, false},
        {"nemotron-h", DT_F32, false},
        {"nemotron-h-moe", DT_F32, true},
        {"gemma3n-widths", DT_F32, true},
        {"gemma4", DT_F32, false},
        {"gemma4-inputs", DT_F32, false},
        {"gemma4-moe", DT_F32, false},
        {"llama4", DT_F32, true},
        {"minimax-m2", DT_F32, false},
        {"ernie45", DT_F32, false},
        {"dots1", DT_F32, false},
        /* ops of the usual families in other places */
        {"gemma", DT_F32, false},
        {"gemma2", DT_F32, false},
        {"gemma3", DT_F32, false},
        {"ministral", DT_F32, false},
        {"ministral3", DT_F32, false},
        {"phi3", DT_F32, false},
        {"phi3-long", DT_F32, false},
        {"smollm3", DT_F32, false},
        {"granite", DT_F32, false},
        {"granitemoe", DT_F32, false},
        {"glm4", DT_F32, false},
        {"glm4lite", DT_F32, false},
        {"exaone4", DT_F32, false},
        {"cohere", DT_F32, false},
        {"cohere2", DT_F32, false},
        {"seed-oss", DT_F32, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].few || !o->few)
            check_fixture(t, o, all[i].name, all[i].weights);
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++)
        if (inputs[i].few || !o->few)
            check_inputs(t, o, inputs[i].name);
    check_halves(t, o, "llama-fp8-mild");
}

/* ---- stories260K ---- */

static double logprob(const float *x, int32_t n, int32_t id)
{
    double sum = 0, top = (double)x[greatest(x, n)];
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return (double)x[id] - top - log(sum);
}

/* Decodes the expected text; counts positions where the best token is another one. */
static enum status tell(struct engine *e, uint64_t seq, const cJSON *c, int32_t most, int *others,
                        int *n_checked, double *worst)
{
    int32_t n, n_want, vocab = engine_config(e)->vocab;
    int32_t *prompt = ids_of(cJSON_GetObjectItem(c, "prompt_ids"), &n);
    int32_t *want = ids_of(cJSON_GetObjectItem(c, "ids"), &n_want);
    const cJSON *item = cJSON_GetObjectItem(c, "logprobs")->child;
    float *logits = calloc((size_t)vocab, sizeof *logits);
    enum status st = engine_prefill(e, seq, prompt, n, logits);
    for (int32_t i = 0; i < n_want && i < most && item && st == ST_OK; i++, item = item->next) {
        *others += greatest(logits, vocab) != want[i];
        *worst = fmax(*worst, fabs(logprob(logits, vocab, want[i]) - item->valuedouble));
        ++*n_checked;
        st = engine_decode(e, seq, want[i], n + i, logits);
    }
    free(prompt);
    free(want);
    free(logits);
    return st;
}

static void check_story(struct tap *t, const struct options *o, const char *name, bool f32)
{
    char dir[1024];
    struct rank_engine r;
    int others = 0, n_checked = 0;
    double worst = 0, bound = f32 ? 1e-4 : 0.1;
    uint64_t seq = 1;
    snprintf(dir, sizeof dir, "%s/%s", o->stories, name);
    cJSON *root = read_json(dir), *c;
    if (!root) {
        tap_skip(t, name, "its files are not here");
        return;
    }
    enum status st = rank_open(&r, dir, f32 ? DT_F32 : DT_BF16, NULL);
    cJSON_ArrayForEach(c,
                       cJSON_GetObjectItem(root, "cases")) if (st == ST_OK && (!o->few || seq < 2))
        st = tell(r.e, seq++, c, o->few ? 6 : 256, &others, &n_checked, &worst);
    if (st != ST_OK)
        tap_ok(t, false, "%s: %s", name, status_detail());
    else
        tap_ok(t, n_checked >= 6 && worst <= bound && (!f32 || others == 0),
               "%s: %d of %d greedy ids differ; log probabilities within %.2g, at most %.2g", name,
               others, n_checked, worst, bound);
    cJSON_Delete(root);
    rank_close(&r);
}

void check_stories(struct tap *t, const struct options *o)
{
    if (!o->stories) {
        tap_skip(t, "stories260K", "no --stories folder");
        return;
    }
    check_story(t, o, "stories260K", true);
    check_story(t, o, "stories260K-bf16", false);
}
