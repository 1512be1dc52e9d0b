#include "worker/model/product.h"

/* *out: in, or a rounded copy of it.  Where ranks share groups of columns, each gives the peaks of its own. */
static enum status rounded(struct decoder *m, const struct input_rule *r, struct view in,
                           struct view *out)
{
    struct view peaks = {0};
    *out = in;
    if (r->grid == GRID_NONE)
        return ST_OK;
    *out = scratch_rows(m, m->at.rounded, in.rows, in.cols);
    if (r->shared) {
        peaks = scratch_rows(m, m->at.peaks, in.rows, input_groups(r));
        TRY(m->op->input_peaks(m->be, r, in, peaks));
        TRY(m->co->ops->all_reduce(m->co, peaks, REDUCE_MAX));
    }
    return m->op->round_input(m->be, r, in, peaks, *out);
}

/* Parts with inputs of their own: the product of all with each of them, of which its rows are taken. */
static enum status product_apart(struct decoder *m, const struct weight *w,
                                 const struct matrix_input *input, struct view in, struct view out)
{
    struct view all = scratch_rows(m, m->at.apart, in.rows, out.cols), x;
    int32_t at = 0;
    for (int32_t i = 0; i < input->n; at += input->rows[i++]) {
        TRY(rounded(m, &input->rule[i], in, &x));
        TRY(m->op->linear(m->be, w, x, all));
        TRY(m->op->copy(m->be, view_columns(out, at, input->rows[i]),
                        view_columns(all, at, input->rows[i])));
    }
    return ST_OK;
}

static enum status multiply(struct decoder *m, const struct weight *w,
                            const struct matrix_input *input, struct view in, struct view out)
{
    struct view x = in;
    if (input->n > 1)
        return product_apart(m, w, input, in, out);
    if (input->n == 1)
        TRY(rounded(m, &input->rule[0], in, &x));
    return m->op->linear(m->be, w, x, out);
}

enum status product(struct decoder *m, const struct layer *l, enum weight_id id, struct view in,
                    struct view out)
{
    return multiply(m, l->w[id], &l->input[id], in, out);
}

static bool rounds(const struct matrix_input *input)
{
    return input->n > 1 || (input->n == 1 && input->rule[0].grid != GRID_NONE);
}

struct view input_of(const struct decoder *m, const struct layer *l, enum weight_id id,
                     enum operand_source from, struct view out)
{
    if (m->op->reads_operand && l->w[id] && !rounds(&l->input[id]) &&
        m->op->reads_operand(m->be, l->w[id], from))
        out.reader = l->w[id];
    return out;
}

enum status product_act_mul(struct decoder *m, const struct layer *l, enum weight_id id,
                            struct view in, struct view mid, struct view out)
{
    if (m->op->linear_act_mul && !rounds(&l->input[id]))
        return m->op->linear_act_mul(m->be, m->act, l->w[id], in, mid, out);
    TRY(product(m, l, id, in, mid));
    return m->op->act_mul(m->be, m->act, mid, out);
}

enum status product_head(struct decoder *m, struct view in, struct view out)
{
    return m->mc.tied ? m->op->linear(m->be, m->w[W_EMBED], in, out)
                      : multiply(m, m->w[W_HEAD], &m->head_input, in, out);
}

/* Ranks share groups of the input of down: its peaks are those of all of them. */
static enum status experts_apart(struct decoder *m, const struct moe_layer *ml, struct view x,
                                 const struct scratch *s, struct view out)
{
    int32_t cols = ml->top_k * input_groups(&ml->round_hidden);
    for (int32_t t = 0, n; t < x.rows; t += n) {
        n = x.rows - t < MOE_AT_ONCE ? x.rows - t : MOE_AT_ONCE;
        struct view ids = view_rows(s->ids, t, n), weights = view_rows(s->weights, t, n);
        struct view peaks = scratch_rows(m, m->at.peaks, n, cols);
        TRY(m->op->moe_hidden(m->be, ml, view_rows(x, t, n), ids, weights, s->moe, peaks));
        TRY(m->co->ops->all_reduce(m->co, peaks, REDUCE_MAX));
        TRY(m->op->moe_down(m->be, ml, peaks, ids, weights, s->moe, view_rows(out, t, n)));
    }
    return ST_OK;
}

enum status experts(struct decoder *m, const struct layer *l, struct view in,
                    const struct scratch *s, struct view out)
{
    struct view x = in;
    if (!l->moe.input_scale)
        TRY(rounded(m, &l->moe.round_input, in, &x));
    if (l->moe.round_hidden.shared)
        return experts_apart(m, &l->moe, x, s, out);
    return m->op->moe_ffn(m->be, &l->moe, x, s->ids, s->weights, s->moe, out);
}
