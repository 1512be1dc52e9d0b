#include "worker/embed/pooler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/exact_math.h"
#include "common/dtype.h"
#include "common/mapped_file.h"
#include "worker/load/safetensors.h"
#include "worker/load/tensor_source.h"

/* A Dense module's. */
struct dense {
    float *weight; /* [out, in] */
    float *bias;   /* [out] or NULL */
};

struct pooler {
    struct pooler_config cfg;
    struct dense dense[MAX_MODULES];
    /* by slot, [max_open, hidden]; NULL where no mode needs them */
    double *sum, *weighted;
    float *max, *first, *last;
    double *x, *y; /* [widest] what the modules pass on */
};

/* ---- life ---- */

static size_t widest(const struct pooler_config *cfg)
{
    const struct sentence_modules *m = cfg->modules;
    size_t most = (size_t)POOL_N * (size_t)cfg->hidden;
    for (int32_t i = 0; i < m->n_modules; i++)
        if ((size_t)m->module[i].out > most)
            most = (size_t)m->module[i].out;
    return most;
}

static bool needs_sum(const struct sentence_modules *m)
{
    return sentence_modules_pools(m, POOL_MEAN) || sentence_modules_pools(m, POOL_MEAN_SQRT_LEN);
}

size_t pooler_bytes(const struct pooler_config *cfg)
{
    const struct sentence_modules *m = cfg->modules;
    size_t states = (size_t)cfg->max_open * (size_t)cfg->hidden, n = 0;
    n += needs_sum(m) ? states * sizeof(double) : 0;
    n += sentence_modules_pools(m, POOL_WEIGHTED_MEAN) ? states * sizeof(double) : 0;
    n += sentence_modules_pools(m, POOL_MAX) ? states * sizeof(float) : 0;
    n += sentence_modules_pools(m, POOL_CLS) ? states * sizeof(float) : 0;
    n += sentence_modules_pools(m, POOL_LAST) ? states * sizeof(float) : 0;
    for (int32_t i = 0; i < m->n_modules; i++)
        n += (m->module[i].kind == MODULE_LAYER_NORM ? 1 : (size_t)m->module[i].in + 1) *
             (size_t)m->module[i].out * sizeof(float);
    return n + 2 * widest(cfg) * sizeof(double);
}

/* The elements of a tensor as f32. */
static enum status copy_floats(float **out, const char *name, const unsigned char *data,
                               enum dtype dtype, const char *type_name, size_t n_bytes)
{
    if (dtype != DT_F32 && dtype != DT_F16 && dtype != DT_BF16)
        FAIL(ST_UNSUPPORTED, "tensor %s: the type %s is not supported (F32, F16 and BF16 are)",
             name, type_name);
    size_t size = dtype_size(dtype), n = n_bytes / size;
    *out = malloc(n * sizeof **out);
    if (!*out)
        FAIL(ST_NOMEM, "no memory for tensor %s", name);
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        if (dtype == DT_F32) {
            memcpy(*out + i, data + i * size, sizeof **out);
            continue;
        }
        memcpy(&half, data + i * size, sizeof half);
        (*out)[i] = dtype == DT_F16 ? f32_of_f16(half) : f32_of_bf16(half);
    }
    return ST_OK;
}

/* n floats of a tensor [n_dims] of that shape. */
static enum status read_tensor(float **out, const struct safetensors *st,
                               const struct mapped_file *f, const char *name, int32_t n_dims,
                               const uint64_t *shape)
{
    const struct st_tensor *t = safetensors_find(st, name);
    char want[100], got[100];
    if (!t)
        FAIL(ST_NOT_FOUND, "there is no tensor %s", name);
    if (t->n_dims != n_dims || memcmp(t->shape, shape, sizeof *shape * (size_t)n_dims) != 0)
        FAIL(ST_FORMAT, "tensor %s: expected %s got %s", name,
             shape_text(want, sizeof want, shape, n_dims),
             shape_text(got, sizeof got, t->shape, t->n_dims));
    return copy_floats(out, name, f->data + t->offset, t->dtype, t->type_name, t->n_bytes);
}

static enum status read_dense(struct dense *d, const struct module *m, const struct mapped_file *f,
                              const char *name)
{
    uint64_t shape[2] = {(uint64_t)m->out, (uint64_t)m->in};
    struct safetensors tensors;
    TRY(safetensors_parse(&tensors, f->data, f->size, name));
    enum status st = read_tensor(&d->weight, &tensors, f, "linear.weight", 2, shape);
    if (st == ST_OK && m->bias)
        st = read_tensor(&d->bias, &tensors, f, "linear.bias", 1, shape);
    safetensors_fini(&tensors);
    if (st != ST_OK)
        FAIL(st, "%s: %s", name, status_text());
    return ST_OK;
}

static enum status find_stored(struct stored_tensor *t, const struct tensor_source *s,
                               const char *name)
{
    for (size_t i = 0, n = s->ops->count(s); i < n; i++) {
        s->ops->get(s, i, t);
        if (strcmp(t->name, name) == 0)
            return ST_OK;
    }
    FAIL(ST_NOT_FOUND, "the model has no tensor %s", name);
}

/* n floats of that tensor of the model's files. */
static enum status read_stored(float **out, const struct tensor_source *s, const char *name,
                               int32_t n_dims, const uint64_t *shape)
{
    struct stored_tensor t;
    char want[100], got[100];
    TRY(find_stored(&t, s, name));
    if (t.n_dims != n_dims || memcmp(t.shape, shape, sizeof *shape * (size_t)n_dims) != 0)
        FAIL(ST_FORMAT, "tensor %s: expected %s got %s", name,
             shape_text(want, sizeof want, shape, n_dims),
             shape_text(got, sizeof got, t.shape, t.n_dims));
    return copy_floats(out, name, t.data, t.dtype, t.type_name, t.n_bytes);
}

/* The weight from the rows of a matrix [vocab, in] of the model's files. */
static enum status load_rows(struct dense *d, const struct module *m, const struct tensor_source *s)
{
    struct stored_tensor t;
    float *second = NULL;
    TRY(find_stored(&t, s, m->tensor));
    if (t.n_dims != 2 || t.shape[1] != (uint64_t)m->in || t.shape[0] <= (uint64_t)m->row[0] ||
        (m->row[1] >= 0 && t.shape[0] <= (uint64_t)m->row[1]))
        FAIL(ST_FORMAT, "tensor %s: rows %d and %d of %d columns are not in it", m->tensor,
             m->row[0], m->row[1], m->in);
    size_t row_bytes = t.n_bytes / (size_t)t.shape[0];
    TRY(copy_floats(&d->weight, m->tensor, t.data + (size_t)m->row[0] * row_bytes, t.dtype,
                    t.type_name, row_bytes));
    if (m->row[1] < 0)
        return ST_OK;
    TRY(copy_floats(&second, m->tensor, t.data + (size_t)m->row[1] * row_bytes, t.dtype,
                    t.type_name, row_bytes));
    for (int32_t i = 0; i < m->in; i++)
        d->weight[i] -= second[i];
    free(second);
    return ST_OK;
}

/* A matrix, and a bias where there is one, of a classifier's head. */
static enum status load_matrix(struct dense *d, const struct module *m,
                               const struct tensor_source *s)
{
    uint64_t shape[2] = {(uint64_t)m->out, (uint64_t)m->in};
    char name[128];
    snprintf(name, sizeof name, "%s.weight", m->tensor);
    if (m->kind == MODULE_LAYER_NORM)
        return read_stored(&d->weight, s, name, 1, shape);
    TRY(read_stored(&d->weight, s, name, 2, shape));
    if (!m->bias)
        return ST_OK;
    snprintf(name, sizeof name, "%s.bias", m->tensor);
    return read_stored(&d->bias, s, name, 1, shape);
}

static enum status load_head(struct dense *d, const struct module *m, const char *prefix,
                             const char *model)
{
    struct tensor_source *s;
    TRY(safetensors_source_open(&s, model, false, prefix));
    enum status st = m->of_rows ? load_rows(d, m, s) : load_matrix(d, m, s);
    s->ops->close(s);
    return st;
}

static enum status load_dense(struct dense *d, const struct module *m, const char *model)
{
    struct mapped_file f;
    char path[4400], name[MODULE_PATH + 32];
    snprintf(name, sizeof name, "%s/model.safetensors", m->path);
    if ((size_t)snprintf(path, sizeof path, "%s/%s", model, name) >= sizeof path)
        FAIL(ST_RANGE, "the model's path is too long");
    TRY(mapped_file_open(&f, path));
    enum status st = read_dense(d, m, &f, name);
    mapped_file_close(&f);
    return st;
}

static enum status take_memory(struct pooler *p)
{
    const struct sentence_modules *m = p->cfg.modules;
    size_t n = (size_t)p->cfg.max_open * (size_t)p->cfg.hidden, wide = widest(&p->cfg);
    bool weighted = sentence_modules_pools(m, POOL_WEIGHTED_MEAN);
    p->sum = needs_sum(m) ? calloc(n, sizeof *p->sum) : NULL;
    p->weighted = weighted ? calloc(n, sizeof *p->weighted) : NULL;
    p->max = sentence_modules_pools(m, POOL_MAX) ? calloc(n, sizeof *p->max) : NULL;
    p->first = sentence_modules_pools(m, POOL_CLS) ? calloc(n, sizeof *p->first) : NULL;
    p->last = sentence_modules_pools(m, POOL_LAST) ? calloc(n, sizeof *p->last) : NULL;
    p->x = calloc(wide, sizeof *p->x);
    p->y = calloc(wide, sizeof *p->y);
    if ((needs_sum(m) && !p->sum) || (weighted && !p->weighted) ||
        (sentence_modules_pools(m, POOL_MAX) && !p->max) ||
        (sentence_modules_pools(m, POOL_CLS) && !p->first) ||
        (sentence_modules_pools(m, POOL_LAST) && !p->last) || !p->x || !p->y)
        FAIL(ST_NOMEM, "no memory for embeddings of %d sequences", p->cfg.max_open);
    for (int32_t i = 0; i < m->n_modules; i++)
        if (m->module[i].tensor)
            TRY(load_head(&p->dense[i], &m->module[i], m->prefix, p->cfg.model));
        else if (m->module[i].kind == MODULE_DENSE)
            TRY(load_dense(&p->dense[i], &m->module[i], p->cfg.model));
    return ST_OK;
}

enum status pooler_create(struct pooler **out, const struct pooler_config *cfg)
{
    *out = NULL;
    struct pooler *p = calloc(1, sizeof *p);
    if (!p)
        FAIL(ST_NOMEM, "no memory for embeddings");
    p->cfg = *cfg;
    enum status st = take_memory(p);
    if (st != ST_OK) {
        pooler_destroy(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void pooler_destroy(struct pooler *p)
{
    if (!p)
        return;
    for (int i = 0; i < MAX_MODULES; i++) {
        free(p->dense[i].weight);
        free(p->dense[i].bias);
    }
    free(p->sum);
    free(p->weighted);
    free(p->max);
    free(p->first);
    free(p->last);
    free(p->x);
    free(p->y);
    free(p);
}

/* ---- rows ---- */

void pooler_take(struct pooler *p, int32_t slot, int32_t pos, const float *rows, int32_t n)
{
    size_t h = (size_t)p->cfg.hidden, at = (size_t)slot * h;
    if (n == 0)
        return;
    for (int32_t i = 0; i < n; i++) {
        const float *row = rows + (size_t)i * h;
        bool begins = pos + i == 0;
        double weight = (double)pos + i + 1;
        for (size_t k = 0; p->sum && k < h; k++)
            p->sum[at + k] = (begins ? 0.0 : p->sum[at + k]) + (double)row[k];
        for (size_t k = 0; p->weighted && k < h; k++)
            p->weighted[at + k] = (begins ? 0.0 : p->weighted[at + k]) + weight * (double)row[k];
        for (size_t k = 0; p->max && k < h; k++)
            p->max[at + k] = begins || row[k] > p->max[at + k] ? row[k] : p->max[at + k];
        if (p->first && begins)
            memcpy(p->first + at, row, h * sizeof *row);
    }
    if (p->last)
        memcpy(p->last + at, rows + (size_t)(n - 1) * h, h * sizeof *rows);
}

/* ---- modules ---- */

/* The pooled vector, the modes one behind the other; returns its length. */
static size_t pool(const struct pooler *p, int32_t slot, int32_t n, double *out)
{
    const struct sentence_modules *m = p->cfg.modules;
    size_t h = (size_t)p->cfg.hidden, at = (size_t)slot * h, len = 0;
    double weights = (double)n * ((double)n + 1) / 2;
    for (int32_t i = 0; i < m->n_pools; i++)
        for (size_t k = 0; k < h; k++, len++)
            switch (m->pool[i]) {
            case POOL_CLS:
                out[len] = (double)p->first[at + k];
                break;
            case POOL_MAX:
                out[len] = (double)p->max[at + k];
                break;
            case POOL_MEAN:
                out[len] = p->sum[at + k] / (double)n;
                break;
            case POOL_MEAN_SQRT_LEN:
                out[len] = p->sum[at + k] / sqrt((double)n);
                break;
            case POOL_WEIGHTED_MEAN:
                out[len] = p->weighted[at + k] / weights;
                break;
            case POOL_LAST:
            case POOL_N:
                out[len] = (double)p->last[at + k];
                break;
            }
    return len;
}

/* Not with libm, whose exp, tanh and erf differ between machines. */
static double activate(enum dense_act act, double x)
{
    switch (act) {
    case DENSE_TANH:
        return (double)exact_soft_cap((float)x, 1);
    case DENSE_RELU:
        return x > 0 ? x : 0;
    case DENSE_SIGMOID:
        return (double)gate(1, (float)x);
    case DENSE_GELU:
        return (double)exact_gelu((float)x);
    case DENSE_IDENTITY:
        break;
    }
    return x;
}

static void apply_dense(const struct dense *d, const struct module *m, const double *x, double *y)
{
    for (int32_t o = 0; o < m->out; o++) {
        const float *w = d->weight + (size_t)o * (size_t)m->in;
        double sum = d->bias ? (double)d->bias[o] : 0.0;
        for (int32_t i = 0; i < m->in; i++)
            sum += (double)w[i] * x[i];
        y[o] = activate(m->act, sum);
    }
}

/* To length 1; torch.nn.functional.normalize's least divisor. */
static void normalize(double *x, size_t n)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    double norm = sqrt(squares) > 1e-12 ? sqrt(squares) : 1e-12;
    for (size_t i = 0; i < n; i++)
        x[i] /= norm;
}

static void layer_norm(const struct dense *d, const struct module *m, double *x, size_t n)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        mean += x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    double scale = 1 / sqrt(squares / (double)n + m->eps);
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) * scale * (double)d->weight[i];
}

void pooler_finish(struct pooler *p, int32_t slot, int32_t n, float *out)
{
    const struct sentence_modules *m = p->cfg.modules;
    size_t len = pool(p, slot, n, p->x);
    for (int32_t i = 0; i < m->n_modules; i++) {
        if (m->module[i].kind == MODULE_NORMALIZE) {
            normalize(p->x, len);
            continue;
        }
        if (m->module[i].kind == MODULE_LAYER_NORM) {
            layer_norm(&p->dense[i], &m->module[i], p->x, len);
            continue;
        }
        apply_dense(&p->dense[i], &m->module[i], p->x, p->y);
        double *done = p->y;
        p->y = p->x;
        p->x = done;
        len = (size_t)m->module[i].out;
    }
    for (size_t i = 0; i < len; i++)
        out[i] = (float)p->x[i];
}
