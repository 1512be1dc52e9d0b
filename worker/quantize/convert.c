#include "worker/quantize/convert.h"

#include <stdlib.h>
#include <string.h>

#include "common/checked.h"
#include "common/pool.h"
#include "worker/load/group_weights.h"
#include "worker/quantize/quant_encode.h"

enum { BATCH_BYTES = 8 << 20 };

struct part {                /* of one thread */
    float *row, *back;       /* [row_len]: a row, and what will be read from the new file */
    unsigned char *gathered; /* of a transposed tensor: the row's elements, one behind the other */
    double error2, value2;
    bool bad; /* a value cannot be written */
};

struct batch {
    const struct pieces *pieces;
    const struct piece *piece;
    uint64_t first; /* row */
    long n;
    unsigned char *out; /* [n] rows */
    struct part *part;
};

/* ---- one row ---- */

static void expand(enum dtype t, const unsigned char *p, size_t n, float *out)
{
    uint16_t h;
    if (quant_form(t)) {
        quant_expand(t, p, n, out);
        return;
    }
    if (t == DT_F32) {
        memcpy(out, p, n * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(&h, p + i * sizeof h, sizeof h);
        out[i] = t == DT_F16 ? f32_of_f16(h) : f32_of_bf16(h);
    }
}

static void encode(enum dtype t, const float *x, size_t n, unsigned char *out)
{
    if (quant_form(t)) {
        quant_encode(t, x, n, out);
        return;
    }
    if (t == DT_F32) {
        memcpy(out, x, n * sizeof *x);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t h = t == DT_F16 ? f16_of_f32(x[i]) : bf16_of_f32(x[i]);
        memcpy(out + i * sizeof h, &h, sizeof h);
    }
}

/* Where row r of the new tensor lies in the old one. */
static uint64_t source_row(const struct piece *p, uint64_t r)
{
    if (!p->heads)
        return r;
    uint64_t d = p->n_rows / (uint64_t)p->heads, at = r % d;
    return r - at + at / 2 + at % 2 * (d / 2);
}

/* The stored blocks of a row as those of GGUF. */
static void join_blocks(const unsigned char *from, const unsigned char *scales, size_t n,
                        unsigned char *out)
{
    const struct quant_form *f = quant_form(DT_MXFP4);
    for (size_t b = 0; b < n / (size_t)f->block; b++)
        mxfp4_block(from + b * ((size_t)f->n_bytes - 1), scales[b], out + b * (size_t)f->n_bytes);
}

/* Its elements one behind the other. */
static const unsigned char *row_elements(const struct batch *b, const struct piece_run *run,
                                         uint64_t r, struct part *s)
{
    const struct piece *p = b->piece;
    uint64_t at = source_row(p, r) - run->first_row;
    const unsigned char *from = run->data + (size_t)at * p->row_step;
    size_t size = dtype_size(p->from), n = (size_t)p->row_len;
    const struct piece_heads *h = &p->columns;
    if (run->scales) {
        join_blocks(from, run->scales + (size_t)at * p->scale_step, n, s->gathered);
        return s->gathered;
    }
    if (h->size) {
        size_t head = (size_t)h->size * size;
        for (size_t i = 0; i < n / (size_t)h->size; i++)
            memcpy(s->gathered + i * head, from + piece_head(h, i) * head, head);
        return s->gathered;
    }
    if (!p->step)
        return from;
    for (size_t i = 0; i < n; i++)
        memcpy(s->gathered + i * size, from + i * p->step, size);
    return s->gathered;
}

static void convert_row(const struct batch *b, uint64_t r, unsigned char *out, struct part *s)
{
    const struct piece *p = b->piece;
    const struct piece_run *run = pieces_run(b->pieces, p, source_row(p, r));
    const unsigned char *from = row_elements(b, run, r, s);
    size_t n = (size_t)p->row_len;
    expand(p->from, from, n, s->row);
    for (size_t i = 0; run->factor != 1 && i < n; i++)
        s->row[i] *= run->factor;
    for (size_t i = 0; p->add != 0 && i < n; i++) /* -0 stays as it is */
        s->row[i] += p->add;
    for (size_t i = 0; p->decay && i < n; i++)
        s->row[i] = decay_of_log(s->row[i]);
    if (p->from == p->to && p->add == 0 && run->factor == 1 && !p->decay)
        memcpy(out, from, p->to_bytes);
    else
        encode(p->to, s->row, n, out);
    expand(p->to, out, n, s->back);
    for (size_t i = 0; i < n; i++) {
        double x = (double)s->row[i], e = (double)s->back[i] - x;
        s->value2 += x * x;
        s->error2 += e * e;
    }
    s->bad |= !isfinite(s->value2) || !isfinite(s->error2);
}

static void convert_rows(void *ctx, int part, int n_parts)
{
    struct batch *b = ctx;
    long from, to;
    pool_share(b->n, part, n_parts, &from, &to);
    for (long i = from; i < to; i++)
        convert_row(b, b->first + (uint64_t)i, b->out + (size_t)i * b->piece->to_bytes,
                    &b->part[part]);
}

/* ---- all ---- */

struct run {
    struct convert *cv;
    struct pool *pool;
    struct gguf_writer *w;
    struct part *part; /* [n_threads] */
    unsigned char *out;
    uint64_t done, total; /* bytes of the old tensors */
};

static long batch_rows(const struct piece *p)
{
    size_t widest = p->from_bytes > p->to_bytes ? p->from_bytes : p->to_bytes;
    size_t n = BATCH_BYTES / (widest ? widest : 1);
    return n < 1 ? 1 : n > p->n_rows ? (long)p->n_rows : (long)n;
}

static enum status convert_piece(struct run *r, const struct pieces *all, const struct piece *p)
{
    struct batch b = {.pieces = all, .piece = p, .out = r->out, .part = r->part};
    struct convert_stats *s = &r->cv->stats[p->type];
    for (int i = 0; i < r->cv->n_threads; i++)
        r->part[i].error2 = r->part[i].value2 = 0;
    for (; b.first < p->n_rows; b.first += (uint64_t)b.n) {
        uint64_t left = p->n_rows - b.first;
        b.n = batch_rows(p);
        b.n = (uint64_t)b.n > left ? (long)left : b.n;
        if (*r->cv->stop)
            FAIL(ST_CANCELED, "interrupted");
        pool_run(r->pool, convert_rows, &b);
        for (int i = 0; i < r->cv->n_threads; i++)
            if (r->part[i].bad)
                FAIL(ST_RANGE, "tensor %s has values that are not finite, or too large for %s",
                     p->name, ggml_type_info(p->type)->name);
        TRY(gguf_write_data(r->w, b.out, (size_t)b.n * p->to_bytes));
        r->done += (uint64_t)b.n * p->from_bytes;
        r->cv->report(r->cv->ctx, p->name, r->done, r->total);
    }
    s->n_tensors++;
    s->n_elements += p->n_rows * p->row_len;
    s->n_bytes += p->n_rows * p->to_bytes;
    for (int i = 0; i < r->cv->n_threads; i++) {
        s->error2 += r->part[i].error2;
        s->value2 += r->part[i].value2;
    }
    return gguf_end_tensor(r->w);
}

static enum status make_room(struct run *r, const struct pieces *p)
{
    size_t widest = 1, out = 1;
    for (size_t i = 0; i < p->n; i++) {
        const struct piece *o = &p->v[i];
        size_t n = (size_t)batch_rows(o) * o->to_bytes;
        widest = o->row_len > widest ? (size_t)o->row_len : widest;
        out = n > out ? n : out;
        r->total += o->n_rows * o->from_bytes;
    }
    r->part = calloc((size_t)r->cv->n_threads, sizeof *r->part);
    r->out = malloc(out);
    if (!r->part || !r->out)
        FAIL(ST_NOMEM, "no memory for batches of rows");
    for (int i = 0; i < r->cv->n_threads; i++) {
        r->part[i].row = malloc(widest * sizeof(float));
        r->part[i].back = malloc(widest * sizeof(float));
        r->part[i].gathered = malloc(widest * sizeof(float));
        if (!r->part[i].row || !r->part[i].back || !r->part[i].gathered)
            FAIL(ST_NOMEM, "no memory for rows of %zu elements", widest);
    }
    return pool_create(&r->pool, r->cv->n_threads, r->cv->n_threads, false);
}

static enum status run_all(struct run *r, const struct pieces *p)
{
    TRY(make_room(r, p));
    for (size_t i = 0; i < p->n; i++)
        TRY(convert_piece(r, p, &p->v[i]));
    return ST_OK;
}

enum status convert_run(struct convert *cv, const struct pieces *p, struct gguf_writer *w)
{
    struct run r = {.cv = cv, .w = w};
    enum status st = run_all(&r, p);
    pool_destroy(r.pool);
    for (int i = 0; r.part && i < cv->n_threads; i++) {
        free(r.part[i].row);
        free(r.part[i].back);
        free(r.part[i].gathered);
    }
    free(r.part);
    free(r.out);
    return st;
}
