#include "rig.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const golden_names[] = {
    "llama-attention-bias",
    "llama-gqa",
    "llama-head-dim",
    "llama-mha",
    "llama-mlp-bias",
    "llama-mqa",
    "llama-rope-linear",
    "llama-rope-llama3",
    "llama-rope-llama3-v5",
    "llama-rope-yarn",
    "llama-rope-yarn-factor",
    "llama-sharded-bf16",
    "llama-tied-f16",
    "mistral-no-window",
    "mistral-window",
    "mistral-window-v5",
    "mixtral",
    "mixtral-v5",
    "qwen2",
    "qwen2-yarn",
    "qwen3",
    "qwen3-v5",
    "qwen3moe",
    "qwen3moe-dense-first",
    "qwen3moe-step",
    "qwen3moe-v5-bf16",
    /* of make_families.py: the first of n_families() */
    "gemma2",
    "gemma2-types-bf16",
    "gemma2-bf16",
    "gemma3",
    "gemma3-v5",
    "gemma3-vision",
    "gemma3-vision-v5",
    "mistral3-vision",
    "ministral3",
    "ministral3-vision-v5",
    "phi3",
    "phi3-long",
    "phi3-short",
    "phi3-partial-bf16",
    "smollm3",
    "smollm3-bias-bf16",
    "granite",
    "gemma",
    "ministral",
    "granitemoe",
    "granitemoe-bf16",
    "glm4",
    "glm4-plain",
    "exaone4",
    "exaone4-full",
    "gemma-plain-bf16",
    "gemma3-plain-bf16",
    "qwen2moe",
    "qwen2moe-step-bf16",
    "glm4moe",
    "glm4moe-groups",
    "olmo2",
    "olmo2-bias",
    "olmo3",
    "olmo3-v5",
    "olmoe",
    "cohere",
    "cohere-bias",
    "cohere2",
    "cohere2-types-bf16",
    "starcoder2",
    "starcoder2-plain",
    "gpt-oss",
    "gpt-oss-mxfp4",
    "gpt-oss-bf16",
    "deepseek2-lite-bf16",
    "deepseek2",
    "deepseek3",
    "deepseek3-halves-bf16",
    "moonlight-bf16",
    "glm4lite",
    "glm4lite-layers-bf16",
    "dots1",
    "minimax-m2",
    "minimax-m2-kv1-bf16",
    "qwen3next",
    "qwen3next-uneven-bf16",
    "qwen35",
    "qwen35-uneven-bf16",
    "qwen35-vision",
    "qwen35moe-bf16",
    "qwen35moe-vision",
    "seed-oss",
    "seed-oss-bias-bf16",
    "ernie45",
    "ernie45-bias",
    "minicpm3",
    "minicpm3-long-bf16",
    "llama-fp8-block",
    "llama-fp8-tensor",
    "llama-fp8-channel",
    "qwen3moe-fp8-block",
    "deepseek3-fp8-block",
    "qwen3next-fp8-block",
    "qwen35moe-fp8-block",
    /* of make_classic.py */
    "neox",
    "neox-sequential-bf16",
    "neox-v5",
    "gpt2",
    "gpt2-bare-bf16",
    "gpt2-inner",
    "opt",
    "opt-bare-bf16",
    /* of make_gemma4.py */
    "gemma4",
    "gemma4-values-bf16",
    "gemma4-bias",
    "gemma4-vision",
    "gemma4-inputs",
    "gemma4-inputs-bf16",
    "gemma4-moe",
    "gemma4-moe-bf16",
    /* of make_gemma3n.py */
    "gemma3n",
    "gemma3n-active-bf16",
    "gemma3n-vision-bf16",
    "gemma3n-widths",
    /* of make_mamba.py */
    "granite-hybrid",
    "granite-hybrid-groups-bf16",
    "granite-hybrid-dense",
    "falcon-h1",
    "falcon-h1-norm-bf16",
    "falcon-h1-gate",
    "bamba",
    "bamba-groups-bf16",
    "nemotron-h",
    "nemotron-h-moe",
    "nemotron-h-groups-bf16",
    /* of make_llama4.py */
    "llama4",
    "llama4-vision",
    "llama4-layers-bf16",
    "llama4-plain-bf16",
    "llama4-dense",
    /* its experts, of make_fp8.py and make_integers.py */
    "llama4-fp8",
    "llama4-fp8-split",
    "llama4-int4-order",
    /* of make_integers.py */
    "llama-gptq",
    "llama-gptq-zeros",
    "llama-gptq-v2",
    "llama-gptq-8bit",
    "llama-gptq-8bit-zeros",
    "llama-gptq-order",
    "llama-gptq-order-zeros",
    "qwen3moe-gptq",
    "qwen3moe-gptq-order",
    "deepseek3-gptq",
    "llama-awq",
    "qwen3moe-awq",
    "llama-int4",
    "llama-int8-packed",
    "llama-int4-zeros",
    "llama-int4-order",
    "llama-int8",
    "llama-int8-zeros",
    "llama-int8-f32",
    "qwen3moe-int4",
    "qwen3next-gptq-order",
    "qwen35-int4",
    /* of make_floats4.py */
    "llama-nf4",
    "llama-nf4-double",
    "llama-fp4",
    "qwen3moe-nf4",
    "llama-bnb8",
    "llama-nvfp4",
    "qwen3moe-nvfp4",
    "llama-nvfp4-modelopt",
    "deepseek3-nvfp4",
    "llama-ct-mxfp4",
    "qwen3moe-ct-mxfp4",
};
const size_t n_golden = ARRAY_LEN(golden_names);

size_t n_families(void)
{
    size_t first = 0;
    while (strcmp(golden_names[first], "gemma2") != 0)
        first++;
    return n_golden - first;
}

size_t *golden_indices(void)
{
    static size_t index[ARRAY_LEN(golden_names)];
    for (size_t i = 0; i < n_golden; i++)
        index[i] = i;
    return index;
}

void must(enum status st, const char *what)
{
    cr_assert(st == ST_OK, "%s: %s: %s", what, status_name(st), status_detail());
}

const char *rig_isa(void)
{
    return getenv("INGOT_ISA");
}

static int32_t or_default(int32_t v, int32_t d)
{
    return v ? v : d;
}

struct decoder_config rig_decoder_config(const struct model_config *mc, struct rig_config c,
                                         int rank, int world)
{
    int32_t max_ctx = mc->max_ctx < 256 ? mc->max_ctx : 256;
    return (struct decoder_config){.rank = rank,
                                   .world = world,
                                   .max_tokens = or_default(c.max_tokens, 96),
                                   .max_seqs = or_default(c.max_seqs, 8),
                                   .max_out = or_default(c.max_out, or_default(c.max_tokens, 96)),
                                   .n_blocks = or_default(c.n_blocks, 40),
                                   .block_len = or_default(c.block_len, 16),
                                   .max_ctx = or_default(c.max_ctx, max_ctx),
                                   .kv_dtype = c.kv_dtype};
}

static enum status open_rank(struct rig *r, const char *dir, struct rig_config c, int rank,
                             int world, uint64_t session)
{
    struct backend_config bc = {.threads = or_default(c.threads, 1),
                                .isa = c.isa ? c.isa : rig_isa(),
                                .activations = c.sorted ? ACTIVATIONS_BF16 : ACTIVATIONS_F32};
    memset(r, 0, sizeof *r);
    TRY(backend_open(&r->be, "cpu", &bc));
    TRY(loader_open(&r->ld, dir));
    if (c.checkpoint)
        TRY(loader_round_inputs(r->ld));
    struct backend_info info;
    backend_ops_of(r->be)->info(r->be, &info);
    loader_sort_columns(r->ld, c.sorted ? info.features : 0);
    r->mc = loader_config(r->ld);
    struct decoder_config cfg = rig_decoder_config(r->mc, c, rank, world);
    if (world > 1) {
        struct coll_config cc = {.rank = rank,
                                 .world = world,
                                 .be = r->be,
                                 .deadline_ms = 120000,
                                 .session = session,
                                 .one_host = true};
        TRY(engine_coll_bytes(&cc.max_bytes, r->mc, &cfg));
        TRY(coll_open(&r->co, "shm", &cc));
    }
    return engine_create(&r->e, r->ld, r->be, r->co, &cfg);
}

void rig_open(struct rig *r, const char *dir, struct rig_config cfg)
{
    must(open_rank(r, dir, cfg, 0, 1, 0), dir);
}

void rig_close(struct rig *r)
{
    engine_destroy(r->e);
    if (r->co)
        r->co->ops->close(r->co);
    loader_close(r->ld);
    if (r->be)
        backend_ops_of(r->be)->close(r->be);
    memset(r, 0, sizeof *r);
}

struct member {
    pthread_t thread;
    const char *dir;
    struct rig_config cfg;
    int rank, world;
    uint64_t session;
    enum status (*body)(void *ctx, struct engine *e, int rank);
    void *ctx;
    enum status st;
    char detail[1024];
};

static void *member_main(void *arg)
{
    struct member *m = arg;
    struct rig r;
    m->st = open_rank(&r, m->dir, m->cfg, m->rank, m->world, m->session);
    if (m->st == ST_OK)
        m->st = m->body(m->ctx, r.e, m->rank);
    snprintf(m->detail, sizeof m->detail, "%s", m->st == ST_OK ? "" : status_detail());
    rig_close(&r);
    return NULL;
}

void rig_group(const char *dir, struct rig_config cfg, int world,
               enum status (*body)(void *ctx, struct engine *e, int rank), void *ctx)
{
    static uint64_t n_groups;
    uint64_t session = (uint64_t)getpid() << 20 | n_groups++;
    struct member *m = calloc((size_t)world, sizeof *m);
    cr_assert_not_null(m);
    for (int r = 0; r < world; r++) {
        m[r] = (struct member){.dir = dir,
                               .cfg = cfg,
                               .rank = r,
                               .world = world,
                               .session = session,
                               .body = body,
                               .ctx = ctx};
        cr_assert_eq(pthread_create(&m[r].thread, NULL, member_main, &m[r]), 0);
    }
    for (int r = 0; r < world; r++)
        pthread_join(m[r].thread, NULL);
    for (int r = 0; r < world; r++)
        cr_assert(m[r].st == ST_OK, "%s: rank %d of %d: %s: %s", dir, r, world,
                  status_name(m[r].st), m[r].detail);
    free(m);
}

struct logits_job {
    const int32_t *ids;
    int32_t n, vocab, chunk;
    float *logits; /* of rank 0 */
};

static enum status compute_logits(void *ctx, struct engine *e, int rank)
{
    const struct logits_job *j = ctx;
    size_t row = (size_t)j->vocab;
    float *to = calloc((size_t)j->n * row, sizeof *to);
    enum status st = engine_prepare(e, 1, 0);
    for (int32_t at = 0; st == ST_OK && at < j->n; at += j->chunk) {
        int32_t n = j->n - at < j->chunk ? j->n - at : j->chunk;
        st = engine_forward_verify(e, 1, j->ids + at, n, to + (size_t)at * row);
    }
    if (rank == 0)
        memcpy(j->logits, to, (size_t)j->n * row * sizeof *to);
    free(to);
    return st;
}

float *rig_logits(const char *dir, struct rig_config cfg, int world, const int32_t *ids, int32_t n,
                  int32_t vocab, int32_t chunk)
{
    struct logits_job j = {ids, n, vocab, chunk, calloc((size_t)n * (size_t)vocab, sizeof(float))};
    rig_group(dir, cfg, world, compute_logits, &j);
    return j.logits;
}

double rig_distance(const float *logits, const float *right, int32_t n, int32_t vocab)
{
    double worst = 0;
    for (int32_t t = 0; t < n; t++) {
        double diff = 0, top = 0;
        for (int32_t v = 0; v < vocab; v++) {
            size_t i = (size_t)t * (size_t)vocab + (size_t)v;
            diff = fmax(diff, fabs((double)logits[i] - (double)right[i]));
            top = fmax(top, fabs((double)right[i]));
            if (isnan(logits[i]))
                return INFINITY;
        }
        worst = fmax(worst, diff / top);
    }
    return worst;
}

char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f, "cannot open %s", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *data = malloc((size_t)n + 1);
    cr_assert_not_null(data);
    cr_assert_eq(fread(data, 1, (size_t)n, f), (size_t)n);
    fclose(f);
    data[n] = 0;
    *size = (size_t)n;
    return data;
}

const char *golden_dir(const char *name)
{
    static _Thread_local char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/models/%s", INGOT_SOURCE_DIR, name);
    return path;
}

void golden_open(struct golden *g, const char *dir)
{
    char path[1100];
    size_t size;
    snprintf(path, sizeof path, "%s/expected.json", dir);
    char *text = read_file(path, &size);
    cJSON *root = cJSON_Parse(text), *id;
    cr_assert_not_null(root, "%s", path);
    g->n = cJSON_GetObjectItem(root, "n_positions")->valueint;
    g->vocab = cJSON_GetObjectItem(root, "vocab_size")->valueint;
    const cJSON *limit = cJSON_GetObjectItem(root, "limit");
    g->limit = limit ? limit->valuedouble : 1e-4;
    const cJSON *limit_sorted = cJSON_GetObjectItem(root, "limit_sorted");
    g->limit_sorted = limit_sorted ? limit_sorted->valuedouble : 0;
    g->ids = malloc((size_t)g->n * sizeof *g->ids);
    int32_t i = 0;
    cJSON_ArrayForEach(id, cJSON_GetObjectItem(root, "input_ids")) g->ids[i++] = id->valueint;
    cr_assert_eq(i, g->n);
    snprintf(path, sizeof path, "%s/%s", dir, cJSON_GetObjectItem(root, "logits")->valuestring);
    g->logits = (float *)(void *)read_file(path, &size);
    cr_assert_eq(size, (size_t)g->n * (size_t)g->vocab * sizeof(float), "%s", path);
    cJSON_Delete(root);
    free(text);
}

void golden_close(struct golden *g)
{
    free(g->ids);
    free(g->logits);
}
