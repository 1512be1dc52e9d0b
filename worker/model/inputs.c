#include "worker/model/inputs.h"

#include <math.h>

/* x += the table's rows for those ids, by way of out */
static enum status add_rows(struct decoder *m, enum weight_id table, int32_t first_id,
                            struct view ids, const struct scratch *s)
{
    if (!m->w[table])
        return ST_OK;
    TRY(m->op->embed(m->be, m->w[table], first_id, ids, s->out));
    return m->op->add(m->be, s->resid, s->out, 1.0f);
}

/* The sum is in the order of transformers' BertEmbeddings. */
enum status inputs_embed(struct decoder *m, const struct step_dev *st, const struct scratch *s)
{
    TRY(m->op->embed(m->be, m->w[W_EMBED], m->sh.vocab.first_id, st->token, s->resid));
    TRY(all_reduce(m, s->resid));
    TRY(scale(m, s->resid, m->mc.embed_scale));
    TRY(add_rows(m, W_TYPES, 0, st->type, s));
    return add_rows(m, W_POSITIONS, -m->mc.first_position, st->pos, s);
}

/* s->new_inputs: rows of the table, summed over the ranks in pieces that their messages hold */
static enum status embed_inputs(struct decoder *m, const struct step_dev *st,
                                const struct scratch *s)
{
    struct view x = s->new_inputs, ids = st->token;
    size_t row = (size_t)x.cols * sizeof(float);
    int32_t most = (int32_t)(decoder_coll_bytes(&m->mc, &m->cfg) / row);
    if (m->mc.input_vocab < m->mc.vocab) {
        TRY(m->op->known_ids(m->be, st->token, m->mc.input_vocab, s->known_ids));
        ids = s->known_ids;
    }
    TRY(m->op->embed(m->be, m->w[W_INPUT_EMBED], m->sh.input_first, ids, x));
    for (int32_t t = 0; t < s->new_inputs.rows; t += x.rows) {
        int32_t left = s->new_inputs.rows - t;
        x.rows = left < most ? left : most;
        TRY(all_reduce(m, x));
        x.off += (size_t)x.rows * row;
    }
    return ST_OK;
}

enum status inputs_of_layers(struct decoder *m, const struct step_dev *st, const struct scratch *s)
{
    const struct backend_ops *op = m->op;
    int32_t P = m->mc.d_input;
    struct view from = s->new_inputs, to = s->inputs; /* [T L, P] */
    from.rows = to.rows = s->inputs.rows * m->mc.n_layers;
    from.cols = from.stride = to.cols = to.stride = P;
    TRY(op->linear(m->be, m->w[W_INPUT_PROJ], s->resid, s->new_inputs));
    TRY(op->scale(m->be, s->new_inputs, (float)(1.0 / sqrt((double)m->mc.hidden))));
    TRY(op->add_rms_norm(m->be, from, (struct view){0}, NULL, m->w[W_INPUT_PROJ_NORM], m->eps, to));
    TRY(embed_inputs(m, st, s));
    TRY(op->add(m->be, s->inputs, s->new_inputs, (float)sqrt((double)P)));
    return op->scale(m->be, s->inputs, (float)sqrt(0.5));
}
