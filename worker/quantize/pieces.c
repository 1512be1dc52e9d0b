#include "worker/quantize/pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/quant.h"

static size_t row_bytes(enum dtype t, uint64_t n)
{
    const struct quant_form *f = quant_form(t);
    return f ? (size_t)n / (size_t)f->block * (size_t)f->n_bytes : (size_t)n * dtype_size(t);
}

static uint64_t product(const uint64_t *v, int32_t n)
{
    uint64_t p = 1;
    for (int32_t i = 0; i < n; i++)
        p *= v[i];
    return p;
}

/* Room for one more element of `size` bytes. */
static enum status grow(void **v, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return ST_OK;
    size_t more = *cap ? 2 * *cap : 256;
    void *p = realloc(*v, more * size);
    if (!p)
        FAIL(ST_NOMEM, "no memory for %zu tensors or parts of them", more);
    *v = p;
    *cap = more;
    return ST_OK;
}

enum status pieces_begin(struct piece **out, struct pieces *ps, const char *name,
                         const struct stored_tensor *like, int32_t n_dims, const uint64_t *shape,
                         const struct choice *c)
{
    bool is_float = like->dtype == DT_F32 || like->dtype == DT_F16 || like->dtype == DT_BF16;
    void *v = ps->v;
    if (!is_float && !quant_form(like->dtype))
        FAIL(ST_UNSUPPORTED, "tensor %s: the type %s is not supported", like->name,
             like->type_name);
    if (strlen(name) >= sizeof ps->v->name)
        FAIL(ST_RANGE, "tensor %.60s...: its name is too long", name);
    if (n_dims < 1)
        FAIL(ST_FORMAT, "tensor %s has no dimensions", like->name);
    TRY(grow(&v, ps->n, &ps->cap, sizeof *ps->v));
    ps->v = v;
    struct piece *p = *out = &ps->v[ps->n++];
    *p = (struct piece){.n_dims = n_dims, .from = like->dtype, .first_run = ps->n_runs};
    snprintf(p->name, sizeof p->name, "%s", name);
    memcpy(p->shape, shape, sizeof *shape * (size_t)n_dims);
    p->n_rows = product(shape, n_dims - 1);
    p->row_len = shape[n_dims - 1];
    p->type = choice_type(c, name, n_dims, p->row_len, &p->wanted);
    p->to = gguf_dtype(p->type);
    p->from_bytes = p->row_step = row_bytes(p->from, p->row_len);
    p->to_bytes = row_bytes(p->to, p->row_len);
    return ST_OK;
}

void pieces_as_column(struct piece *p)
{
    p->n_rows *= p->row_len;
    p->row_len = 1;
    p->from_bytes = p->row_step = dtype_size(p->from);
    p->to_bytes = dtype_size(p->to);
}

enum status pieces_add_run(struct pieces *ps, struct piece *p, struct piece_run run)
{
    void *v = ps->run;
    TRY(grow(&v, ps->n_runs, &ps->run_cap, sizeof *ps->run));
    ps->run = v;
    ps->run[ps->n_runs++] = run;
    p->n_runs++;
    return ST_OK;
}

const struct piece_run *pieces_run(const struct pieces *ps, const struct piece *p, uint64_t r)
{
    const struct piece_run *run = &ps->run[p->first_run];
    size_t lo = 0, hi = p->n_runs;
    while (hi - lo > 1) { /* the last run that begins at r or before */
        size_t mid = lo + (hi - lo) / 2;
        if (run[mid].first_row <= r)
            lo = mid;
        else
            hi = mid;
    }
    return &run[lo];
}

enum status pieces_add_whole(struct pieces *ps, const char *name, const struct stored_tensor *t,
                             const struct choice *c)
{
    struct piece *p;
    TRY(pieces_begin(&p, ps, name, t, t->n_dims, t->shape, c));
    return pieces_add_run(ps, p, (struct piece_run){.data = t->data, .factor = 1});
}

void pieces_free(struct pieces *p)
{
    free(p->v);
    free(p->run);
    free(p->divisors);
    *p = (struct pieces){0};
}
