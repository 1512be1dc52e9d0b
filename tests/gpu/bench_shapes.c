#include "gpu/bench_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const struct bench_shape bench_shapes[] = {
    {"llama-3.2-1b", 16, 2048, 8192, 32, 8, 64, 128256, true, 32},
    {"llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256, false, 8},
};
const struct bench_shape bench_tiny_shapes[] = {
    {"tiny", 2, 512, 512, 8, 2, 64, 304, false, 8},
};
const size_t n_bench_shapes = ARRAY_LEN(bench_shapes);
const size_t n_bench_tiny_shapes = ARRAY_LEN(bench_tiny_shapes);

struct shape_source {
    struct tensor_source base;
    struct stored_tensor *tensor;
    char (*name)[80];
    size_t n;
    unsigned char *data; /* untouched pages: all tensors begin here */
    size_t n_bytes;      /* of the largest */
};

static void config_of(struct model_config *mc, const struct bench_shape *s)
{
    model_config_init(mc);
    mc->arch = arch_find("LlamaForCausalLM");
    mc->n_layers = s->n_layers;
    mc->hidden = s->hidden;
    mc->ffn = s->ffn;
    mc->vocab = s->vocab;
    mc->n_q = s->n_q;
    mc->n_kv = s->n_kv;
    mc->d_head = s->d_head;
    mc->max_ctx = 131072;
    mc->eps = 1e-5;
    mc->tied = s->tied;
    mc->dtype = DT_BF16;
    mc->rope.type = ROPE_LLAMA3;
    mc->rope.rot_dim = s->d_head;
    mc->rope.theta = 500000;
    mc->rope.factor = s->rope_factor;
    mc->rope.original_ctx = 8192;
    mc->rope.low_freq_factor = 1;
    mc->rope.high_freq_factor = 4;
}

static void shape_close(struct tensor_source *base)
{
    struct shape_source *s = (struct shape_source *)base;
    if (s->data)
        munmap(s->data, s->n_bytes);
    free(s->tensor);
    free(s->name);
    free(s);
}

static size_t shape_count(const struct tensor_source *s)
{
    return ((const struct shape_source *)s)->n;
}

static void shape_get(const struct tensor_source *s, size_t i, struct stored_tensor *out)
{
    *out = ((const struct shape_source *)s)->tensor[i];
}

static const struct tensor_source_ops shape_ops = {
    .format = "shape", .close = shape_close, .count = shape_count, .get = shape_get};

static void add(struct shape_source *s, const struct model_config *mc,
                const struct tensor_rule *rule, int32_t layer)
{
    const char *mark = strchr(rule->name, '#');
    size_t rows = (size_t)model_layer_axis(mc, rule->rows, layer),
           cols = (size_t)model_layer_axis(mc, rule->cols, layer);
    struct stored_tensor *t = &s->tensor[s->n];
    if (mark)
        snprintf(s->name[s->n], sizeof s->name[0], "%.*s%d%s", (int)(mark - rule->name), rule->name,
                 layer, mark + 1);
    else
        snprintf(s->name[s->n], sizeof s->name[0], "%s", rule->name);
    *t = (struct stored_tensor){
        .name = s->name[s->n], .type_name = "BF16", .dtype = DT_BF16, .n_bytes = rows * cols * 2};
    if (rule->rows != AX_ONE)
        t->shape[t->n_dims++] = rows;
    t->shape[t->n_dims++] = cols;
    s->n_bytes = t->n_bytes > s->n_bytes ? t->n_bytes : s->n_bytes;
    s->n++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct stored_tensor *)a)->name, ((const struct stored_tensor *)b)->name);
}

static enum status fill(struct shape_source *s, const struct model_config *mc)
{
    size_t most = (size_t)TN_N * (size_t)mc->n_layers;
    s->tensor = calloc(most, sizeof *s->tensor);
    s->name = calloc(most, sizeof *s->name);
    if (!s->tensor || !s->name)
        FAIL(ST_NOMEM, "no memory for %zu tensors", most);
    for (int32_t layer = 0; layer < mc->n_layers; layer++)
        for (int id = 0; id < TN_N; id++) {
            const struct tensor_rule *rule = &mc->arch->tensor[id];
            if (model_layer_has(mc, (enum tensor_id)id, layer) &&
                (layer == 0 || strchr(rule->name, '#')))
                add(s, mc, rule, layer);
        }
    qsort(s->tensor, s->n, sizeof *s->tensor, by_name);
    s->data = mmap(NULL, s->n_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->data == MAP_FAILED) {
        s->data = NULL;
        FAIL(ST_NOMEM, "no addresses for %zu bytes", s->n_bytes);
    }
    for (size_t i = 0; i < s->n; i++)
        s->tensor[i].data = s->data;
    return ST_OK;
}

enum status bench_shape_open(struct loader **out, const struct bench_shape *shape)
{
    struct model_config mc;
    struct shape_source *s = calloc(1, sizeof *s);
    if (!s)
        FAIL(ST_NOMEM, "no memory");
    s->base.ops = &shape_ops;
    config_of(&mc, shape);
    enum status st = model_config_check(&mc);
    if (st == ST_OK)
        st = fill(s, &mc);
    if (st != ST_OK) {
        shape_close(&s->base);
        return st;
    }
    struct tensor_source *src = &s->base;
    return loader_open_source(out, &mc, &src);
}
