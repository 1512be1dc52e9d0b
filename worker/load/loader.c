#include "worker/load/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/backend.h"
#include "common/formats/config_fields.h"
#include "common/model_path.h"
#include "common/quant.h"

struct loader {
    struct model_config mc;
    struct input_scheme inputs;
    struct tensor_source *src;
    bool *used; /* [count] */
    void (*report)(void *ctx, size_t done, size_t total);
    void *report_ctx;
    struct pack_cache *cache;
};

static enum status check_path(const char *path, bool *is_dir)
{
    struct stat st;
    size_t n = strlen(path);
    if (n > 3900)
        FAIL(ST_RANGE, "the model's path has %zu characters: too long", n);
    TRY(model_path_check(path));
    *is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (!*is_dir && !(n > 5 && strcmp(path + n - 5, ".gguf") == 0))
        FAIL(ST_UNSUPPORTED,
             "%s is neither a model directory (one with config.json and safetensors files) nor a "
             ".gguf file",
             path);
    return ST_OK;
}

static enum status take_marks(struct loader *ld)
{
    ld->used = calloc(loader_count(ld) + 1, sizeof *ld->used);
    if (!ld->used)
        FAIL(ST_NOMEM, "no memory");
    return ST_OK;
}

static enum status open_parts(struct loader *ld, const char *path)
{
    bool is_dir = false;
    TRY(check_path(path, &is_dir));
    TRY(input_scheme_load(&ld->inputs, path));
    if (is_dir) {
        TRY(model_config_load(&ld->mc, path));
        TRY(safetensors_source_open(&ld->src, path, ld->mc.wrapped, ld->mc.arch->prefix));
    } else {
        TRY(gguf_source_open(&ld->src, &ld->mc, path));
    }
    struct stored_tensor head;
    if (ld->mc.arch->single &&
        !loader_has(ld, ld->mc.arch->tensor[TN_EXPERT_DOWN].name, 0, 0, &head))
        ld->mc.arch = ld->mc.arch->single;
    const char *name = ld->mc.arch->tensor[TN_HEAD].name;
    ld->mc.headless |= ld->src->bare && !ld->mc.tied && name && !loader_has(ld, name, 0, 0, &head);
    return take_marks(ld);
}

enum status loader_open(struct loader **out, const char *path)
{
    *out = NULL;
    struct loader *ld = calloc(1, sizeof *ld);
    if (!ld)
        FAIL(ST_NOMEM, "no memory");
    enum status st = open_parts(ld, path);
    if (st != ST_OK) {
        loader_close(ld);
        return st;
    }
    *out = ld;
    return ST_OK;
}

enum status loader_open_source(struct loader **out, const struct model_config *mc,
                               struct tensor_source **src)
{
    *out = NULL;
    struct loader *ld = calloc(1, sizeof *ld);
    if (!ld) {
        (*src)->ops->close(*src);
        *src = NULL;
        FAIL(ST_NOMEM, "no memory");
    }
    ld->mc = *mc;
    ld->src = *src;
    *src = NULL;
    enum status st = take_marks(ld);
    if (st != ST_OK) {
        loader_close(ld);
        return st;
    }
    *out = ld;
    return ST_OK;
}

void loader_close(struct loader *ld)
{
    if (!ld)
        return;
    if (ld->src)
        ld->src->ops->close(ld->src);
    free(ld->used);
    free(ld);
}

const struct model_config *loader_config(const struct loader *ld)
{
    return &ld->mc;
}

const char *loader_format(const struct loader *ld)
{
    return ld->src->ops->format;
}

const struct input_scheme *loader_inputs(const struct loader *ld)
{
    return &ld->inputs;
}

enum status loader_round_inputs(struct loader *ld)
{
    const struct input_scheme *s = &ld->inputs;
    if (s->refused[0])
        FAIL(ST_UNSUPPORTED, "--activations checkpoint: %s", s->refused);
    ld->mc.exact_inputs = true;
    ld->mc.inputs = s->rounding;
    ld->mc.input_group = s->group;
    ld->mc.input_scales = s->from_file;
    return ST_OK;
}

void loader_sort_columns(struct loader *ld, unsigned features)
{
    enum { LEAST = 32 }; /* of a group, so that its columns in a slice of K fill a quad or more */
    struct model_config *mc = &ld->mc;
    mc->int_sorted = mc->int_order && mc->int_group >= LEAST && !mc->exact_inputs &&
                     !mc->arch->encoder && (features & 1U << FEATURE_SORTED);
}

size_t loader_count(const struct loader *ld)
{
    return ld->src->ops->count(ld->src);
}

void loader_get(const struct loader *ld, size_t i, struct stored_tensor *out)
{
    ld->src->ops->get(ld->src, i, out);
}

static uint64_t fnv1a(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3U;
    return h;
}

/* Advice about whole pages: when it is not taken, only time is lost. */
static void advise(const void *data, size_t n_bytes, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)data / page * page;
    (void)posix_madvise((void *)start, (uintptr_t)data + n_bytes - start, advice);
}

void loader_reads_little(const struct loader *ld, bool little)
{
    struct stored_tensor t;
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        advise(t.data, t.n_bytes, little ? POSIX_MADV_RANDOM : POSIX_MADV_NORMAL);
    }
}

uint64_t loader_digest(const struct loader *ld)
{
    char config[CONFIG_TEXT_SIZE];
    struct stored_tensor t;
    uint64_t h = fnv1a(0xcbf29ce484222325U, config, config_text(&ld->mc, config));
    loader_reads_little(ld, true);
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        h = fnv1a(h, t.name, strlen(t.name) + 1);
        h = fnv1a(h, t.type_name, strlen(t.type_name) + 1);
        h = fnv1a(h, t.shape, sizeof t.shape[0] * (size_t)t.n_dims);
        h = fnv1a(h, t.data, t.n_bytes < 256 ? t.n_bytes : 256);
    }
    loader_reads_little(ld, false);
    return h;
}

/* Index of the tensor, or count. */
static size_t find(const struct loader *ld, const char *name, struct stored_tensor *out)
{
    size_t lo = 0, hi = loader_count(ld), n = hi;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        loader_get(ld, mid, out);
        int order = strcmp(out->name, name);
        if (order == 0)
            return mid;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return n;
}

static void fill_name(char *out, size_t size, const char *pattern, int32_t layer, int32_t expert)
{
    size_t at = 0;
    for (const char *p = pattern; *p && at + 1 < size; p++) {
        if (*p == '#' || *p == '@')
            at += (size_t)snprintf(out + at, size - at, "%d", *p == '#' ? layer : expert);
        else
            out[at++] = *p;
    }
    out[at < size ? at : size - 1] = 0;
}

/* The tensor of that name, whose shape is checked; *at: its index. */
static enum status shaped(const struct loader *ld, const char *name, int32_t n_dims,
                          const uint64_t *shape, struct stored_tensor *out, size_t *at)
{
    char want[200], got[200];
    size_t i = find(ld, name, out);
    if (i == loader_count(ld))
        FAIL(ST_NOT_FOUND, "the model has no tensor %s", name);
    if (out->n_dims != n_dims || memcmp(out->shape, shape, sizeof *shape * (size_t)n_dims) != 0)
        FAIL(ST_FORMAT, "tensor %s: expected %s got %s", name,
             shape_text(want, sizeof want, shape, n_dims),
             shape_text(got, sizeof got, out->shape, out->n_dims));
    *at = i;
    return ST_OK;
}

enum status loader_parts(struct loader *ld, const char *pattern, const char *type, int32_t layer,
                         int32_t expert, int32_t n_dims, const uint64_t *shape,
                         struct stored_tensor *out)
{
    char name[256];
    size_t i;
    fill_name(name, sizeof name, pattern, layer, expert);
    TRY(shaped(ld, name, n_dims, shape, out, &i));
    bool floats = out->dtype == DT_F32 || out->dtype == DT_F16 || out->dtype == DT_BF16;
    if (strcmp(type, "float") == 0 ? !floats : strcmp(out->type_name, type) != 0)
        FAIL(ST_UNSUPPORTED, "tensor %s: the type %s is not supported (%s is)", name,
             out->type_name, floats || strcmp(type, "float") != 0 ? type : "f32, f16 or bf16");
    ld->used[i] = true;
    return ST_OK;
}

bool loader_has(const struct loader *ld, const char *pattern, int32_t layer, int32_t expert,
                struct stored_tensor *out)
{
    char name[256];
    fill_name(name, sizeof name, pattern, layer, expert);
    return find(ld, name, out) < loader_count(ld);
}

enum status loader_tensor(struct loader *ld, const char *pattern, int32_t layer, int32_t expert,
                          int32_t n_dims, const uint64_t *shape, struct stored_tensor *out)
{
    char name[256];
    size_t i;
    fill_name(name, sizeof name, pattern, layer, expert);
    TRY(shaped(ld, name, n_dims, shape, out, &i));
    bool is_float = out->dtype == DT_F32 || out->dtype == DT_F16 || out->dtype == DT_BF16;
    bool fp8 = out->dtype == DT_E4M3 && ld->mc.fp8;
    if (!is_float && !fp8 && !quant_form(out->dtype))
        FAIL(ST_UNSUPPORTED,
             "tensor %s: the type %s is not supported (f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, "
             "q8_0, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs "
             "and mxfp4 are, with quantization_config's method fp8 also F8_E4M3)",
             name, out->type_name);
    if (!is_float && n_dims == 1)
        FAIL(ST_UNSUPPORTED, "tensor %s: a vector of type %s is not supported", name,
             out->type_name);
    ld->used[i] = true;
    return ST_OK;
}

/* Is it one of the shapes that loader_scales allows? */
static bool scales_fit(const struct model_config *mc, const struct stored_tensor *matrix,
                       const struct stored_tensor *t)
{
    uint64_t rows = matrix->shape[0], cols = matrix->shape[1];
    uint64_t n = t->n_dims > 0 ? t->shape[0] : 1, m = t->n_dims > 1 ? t->shape[1] : 1;
    if (t->n_dims > 2)
        return false;
    if (mc->fp8_rows) {
        uint64_t r = (uint64_t)mc->fp8_rows, c = (uint64_t)mc->fp8_cols;
        return t->n_dims == 2 && n == (rows + r - 1) / r && m == (cols + c - 1) / c;
    }
    return m == 1 && (n == 1 || n == rows);
}

enum status loader_column_scales(struct loader *ld, const struct stored_tensor *stack,
                                 struct stored_tensor *out)
{
    char name[300], got[200], of[200];
    snprintf(name, sizeof name, "%.280s_scale", stack->name);
    size_t i = find(ld, name, out);
    if (i == loader_count(ld))
        FAIL(ST_NOT_FOUND, "the e4m3 tensor %s has no %s beside it", stack->name, name);
    if (out->dtype != DT_F32 && out->dtype != DT_BF16 && out->dtype != DT_F16)
        FAIL(ST_UNSUPPORTED, "tensor %s: scales of type %s are not supported", name,
             out->type_name);
    if (out->n_dims != 3 || out->shape[0] != stack->shape[0] ||
        out->shape[1] * out->shape[2] != stack->shape[2] ||
        (out->shape[1] != 1 && out->shape[2] != 1))
        FAIL(ST_FORMAT, "tensor %s: %s are not the scales of the columns of %s", name,
             shape_text(got, sizeof got, out->shape, out->n_dims),
             shape_text(of, sizeof of, stack->shape, stack->n_dims));
    ld->used[i] = true;
    return ST_OK;
}

enum status loader_scales(struct loader *ld, const struct stored_tensor *matrix,
                          struct stored_tensor *out)
{
    char name[300], got[200], of[200];
    snprintf(name, sizeof name, "%.280s_scale_inv", matrix->name);
    size_t i = find(ld, name, out);
    if (i == loader_count(ld)) {
        snprintf(name, sizeof name, "%.280s_scale", matrix->name);
        i = find(ld, name, out);
    }
    if (i == loader_count(ld))
        FAIL(ST_NOT_FOUND, "the e4m3 tensor %s has neither %s_inv nor %s beside it", matrix->name,
             name, name);
    if (out->dtype != DT_F32 && out->dtype != DT_BF16 && out->dtype != DT_F16)
        FAIL(ST_UNSUPPORTED, "tensor %s: scales of type %s are not supported", name,
             out->type_name);
    if (!scales_fit(&ld->mc, matrix, out))
        FAIL(ST_FORMAT, "tensor %s: %s are not the scales of %s with weight_block_size [%d, %d]",
             name, shape_text(got, sizeof got, out->shape, out->n_dims),
             shape_text(of, sizeof of, matrix->shape, matrix->n_dims), ld->mc.fp8_rows,
             ld->mc.fp8_cols);
    ld->used[i] = true;
    return ST_OK;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* Of the layers behind the last one, which predict further tokens. */
static bool of_extra_layer(const struct loader *ld, const char *name)
{
    const char *rule = ld->mc.arch->tensor[TN_Q].name, *layer = strchr(rule, '#');
    size_t n = (size_t)(layer - rule);
    if (ld->mc.n_mtp == 0 || strncmp(name, rule, n) != 0)
        return false;
    long i = strtol(name + n, NULL, 10);
    return i >= ld->mc.n_layers && i < (long)ld->mc.n_layers + ld->mc.n_mtp;
}

/* Of a layer that reads the keys and values of another one: its own, which files of Gemma 4 have all the same. */
static bool of_shared_kv(const struct loader *ld, const char *name)
{
    static const enum tensor_id ids[] = {TN_K,        TN_V,        TN_K_NORM,
                                         TN_GLOBAL_K, TN_GLOBAL_V, TN_GLOBAL_K_NORM};
    const struct tensor_rule *rules = ld->mc.arch->tensor;
    char own[256];
    for (int32_t i = ld->mc.n_layers - ld->mc.n_kv_shared; i < ld->mc.n_layers; i++) {
        for (size_t k = 0; k < ARRAY_LEN(ids); k++) {
            const char *patterns[] = {rules[ids[k]].name, rules[ids[k]].bias};
            for (size_t j = 0; j < ARRAY_LEN(patterns); j++) {
                if (!patterns[j])
                    continue;
                fill_name(own, sizeof own, patterns[j], i, 0);
                if (strcmp(own, name) == 0)
                    return true;
            }
        }
    }
    return false;
}

/* Of heads: an encoder's for training, and that of a classifier, which pooler.h reads. */
static bool of_other_head(const struct loader *ld, const char *name)
{
    const struct encoder *e = ld->mc.arch->encoder;
    for (const char *const *u = e ? e->unused : NULL; u && *u; u++)
        if (strncmp(name, *u, strlen(*u)) == 0)
            return true;
    const char *head = e ? "classifier." : "score.";
    return ld->mc.classifier && strncmp(name, head, strlen(head)) == 0;
}

/* Scales of activations, which stay in float or have scales of their own, and of the KV cache, which has its own. */
static bool of_rounding(const struct loader *ld, const char *name)
{
    static const char *const ends[] = {
        ".input_scale",    ".activation_scale", ".input_global_scale",
        ".input_scale_ub", ".k_scale",          ".v_scale"};
    bool quantised = ld->mc.fp8 || ld->mc.fp4 != FP4_NONE || ld->mc.ints != INTS_NONE;
    for (size_t i = 0; quantised && i < ARRAY_LEN(ends); i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* Tensors that carry nothing more: RoPE frequencies and causal masks as old checkpoints save them,
 * and divisors of the frequencies, which the configuration holds. */
static bool carries_nothing(const struct loader *ld, const char *name)
{
    bool divisors =
        (ld->mc.rope.type == ROPE_DIVISORS && strcmp(name, "rope_freqs.weight") == 0) ||
        (ld->mc.rope.type == ROPE_LONGROPE && (strcmp(name, "rope_factors_short.weight") == 0 ||
                                               strcmp(name, "rope_factors_long.weight") == 0));
    bool of_mtp = ld->mc.arch->mtp_tensors && strncmp(name, "mtp.", 4) == 0;
    bool of_mask = ld->mc.arch->masks &&
                   (ends_with(name, ".attn.bias") || ends_with(name, ".attention.bias") ||
                    ends_with(name, ".masked_bias"));
    return ends_with(name, ".rotary_emb.inv_freq") || of_rounding(ld, name) || divisors || of_mtp ||
           of_mask || of_extra_layer(ld, name) || of_other_head(ld, name) || of_shared_kv(ld, name);
}

/* Beside integers: a bias of zeros, which AutoGPTQ wrote for every matrix. */
static bool is_zero_bias(const struct loader *ld, const struct stored_tensor *t)
{
    if (ld->mc.ints != INTS_GPTQ || !ends_with(t->name, ".bias"))
        return false;
    for (size_t i = 0; i < t->n_bytes; i++)
        if (t->data[i])
            return false;
    return true;
}

/* The copy of the embedding that some checkpoints with a tied head keep.  Where it differs, the
 * configuration and the file disagree about the head. */
static enum status check_tied_head(const struct loader *ld, const struct stored_tensor *head)
{
    const char *name = ld->mc.arch->tensor[TN_EMBED].name;
    struct stored_tensor embed;
    if (find(ld, name, &embed) < loader_count(ld) && embed.dtype == head->dtype &&
        embed.n_bytes == head->n_bytes && memcmp(embed.data, head->data, head->n_bytes) == 0)
        return ST_OK;
    FAIL(ST_UNSUPPORTED,
         "tie_word_embeddings is true, but %s is not %s: with tie_word_embeddings false in "
         "config.json the model uses its own head",
         head->name, name);
}

enum status loader_check_used(const struct loader *ld)
{
    struct stored_tensor t;
    for (size_t i = 0; i < loader_count(ld); i++) {
        loader_get(ld, i, &t);
        if (!ld->used[i] && ld->mc.tied && strcmp(t.name, ld->mc.arch->tensor[TN_HEAD].name) == 0)
            TRY(check_tied_head(ld, &t));
        else if (!ld->used[i] && !carries_nothing(ld, t.name) && !is_zero_bias(ld, &t))
            FAIL(ST_UNSUPPORTED,
                 "the model has the tensor %s, which %s with this configuration does not use",
                 t.name, ld->mc.arch->name);
    }
    return ST_OK;
}

void loader_on_progress(struct loader *ld, void (*report)(void *ctx, size_t done, size_t total),
                        void *ctx)
{
    ld->report = report;
    ld->report_ctx = ctx;
}

void loader_report(struct loader *ld, size_t done, size_t total)
{
    if (ld->report)
        ld->report(ld->report_ctx, done, total);
}

void loader_set_cache(struct loader *ld, struct pack_cache *c)
{
    ld->cache = c;
}

struct pack_cache *loader_cache(const struct loader *ld)
{
    return ld->cache;
}

void loader_will_read(const void *data, size_t n_bytes)
{
    advise(data, n_bytes, POSIX_MADV_WILLNEED);
}
