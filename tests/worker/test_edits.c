/* The edits of logits that a step's rows want, against a plain computation. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/sample/edits.h"
#include "worker/step_draft.h"

/* One vocabulary share; parts of one row are put together and compared with the whole
 * computation. */
static void edited(struct draft *plans, int n_plans, int world, float *row)
{
    for (int r = 0; r < world; r++) {
        struct vocab_part part = {.first_id = r * VOCAB / world, .n_slices = 1};
        part.n_cols = (r + 1) * VOCAB / world - part.first_id;
        struct edits_config ec = {.max_open = SEQS,
                                  .max_ctx = CTX,
                                  .vocab = VOCAB,
                                  .max_seqs = small_step.max_seqs,
                                  .max_edits = small_step.max_edits,
                                  .part = part};
        struct edits *e;
        struct step *s;
        struct step_dev dev;
        struct buf *b;
        cr_assert_eq(step_create(&s, &small_step, be), ST_OK);
        cr_assert_eq(edits_create(&e, &ec, be), ST_OK);
        cr_assert_eq(backend_ops_of(be)->alloc(be, SEQS * VOCAB * 4, MEM_DEVICE, &b), ST_OK);
        struct view logits = {
            .buf = b, .cols = part.n_cols, .stride = part.n_cols, .dtype = DT_F32};
        for (int i = 0; i < n_plans; i++) {
            cr_assert_eq(step_apply(s, &plans[i].p, &dev), ST_OK, "%s", status_text());
            edits_note(e, s, &plans[i].p);
            edits_place(e, s);
            cr_assert_eq(step_upload(s), ST_OK, "%s", status_text());
        }
        logits.rows = step_n_out(s);
        cr_assert_eq(logits.rows, 1);
        cr_assert_eq(backend_ops_of(be)->write(be, logits, row + part.first_id), ST_OK);
        cr_assert_eq(edits_apply(e, s, logits), ST_OK, "%s", status_text());
        cr_assert_eq(backend_ops_of(be)->read(be, row + part.first_id, logits), ST_OK);
        backend_ops_of(be)->free(be, b);
        edits_destroy(e);
        step_destroy(s);
    }
}

/* Prompt 7 7 8 9 in two chunks, then the output 9 10 10; penalties, biases, a forbidden stop id. */
static int penalty_plans(struct draft *plans)
{
    static const int32_t prompt[] = {7, 7, 8, 9}, output[] = {9, 10, 10};
    for (int i = 0; i < 5; i++)
        draft_begin(&plans[i]);
    struct plan_open *o = add_open(&plans[0], 70, 4);
    o->sp.repetition_penalty = 2.0f;
    o->sp.presence_penalty = 0.5f;
    o->sp.frequency_penalty = 0.25f;
    o->sp.min_new = 4;
    o->n_stop_ids = plans[0].p.n_stop_ids = 1;
    plans[0].stop_ids[0] = 49;
    o->n_bias = plans[0].p.n_bias = 2;
    plans[0].bias[0] = (struct logit_bias){10, -1.5f};
    plans[0].bias[1] = (struct logit_bias){30, -3.0f};
    add_seq(&plans[0], 70, 0, 2, 0, 1, 0, WANT_NONE);
    add_seq(&plans[1], 70, 2, 2, 0, 0, 0, WANT_LAST);
    for (int i = 0; i < 3; i++) {
        add_seq(&plans[2 + i], 70, 4 + (uint32_t)i, 1, 0, i == 0, 1, WANT_LAST);
        plans[2 + i].tokens[0] = output[i];
    }
    memcpy(plans[0].tokens, prompt, 2 * sizeof *prompt);
    memcpy(plans[1].tokens, prompt + 2, 2 * sizeof *prompt);
    return 5;
}

static float penalised(float l, float bias, float mul, float add)
{
    l += bias;
    return (l > 0 ? l / mul : l * mul) + add;
}

Test(edits, penalties_biases_and_stop_ids, .init = set_up, .fini = tear_down)
{
    static struct draft plans[5];
    int n = penalty_plans(plans);
    for (int world = 1; world <= 4; world *= 2) {
        float row[VOCAB];
        for (int i = 0; i < VOCAB; i++)
            row[i] = (float)i - 9.5f; /* ids up to 9 are negative */
        edited(plans, n, world, row);
        for (int i = 0; i < VOCAB; i++) {
            float l = (float)i - 9.5f;
            if (i == 7 || i == 8)
                l = penalised(l, 0.0f, 2.0f, 0.0f); /* in the prompt only */
            if (i == 9)
                l = penalised(l, 0.0f, 2.0f, -0.75f); /* in both: once in the output */
            if (i == 10)
                l = penalised(l, -1.5f, 2.0f, -1.0f); /* negative by its bias */
            if (i == 30)
                l += -3.0f;
            if (i == 49)
                l = -INFINITY; /* three of at least four new tokens are there */
            cr_assert_eq(row[i], l, "world %d, id %d: %g, expected %g", world, i, (double)row[i],
                         (double)l);
        }
    }
}

Test(edits, stop_ids_are_free_after_min_new, .init = set_up, .fini = tear_down)
{
    static struct draft plans[5];
    float row[VOCAB] = {0};
    int n = penalty_plans(plans);
    plans[0].opens[0].sp.min_new = 3;
    edited(plans, n, 1, row);
    cr_assert_eq(row[49], 0.0f);
}

Test(edits, a_history_counts_like_the_tokens_themselves, .init = set_up, .fini = tear_down)
{
    static struct draft plans[5], again;
    float a[VOCAB], b[VOCAB];
    int n = penalty_plans(plans);
    /* the same sequence after a preemption: six tokens are cached, one is computed */
    draft_begin(&again);
    add_open(&again, 70, 4);
    again.opens[0] = plans[0].opens[0];
    again.p.n_stop_ids = plans[0].p.n_stop_ids;
    again.p.n_bias = plans[0].p.n_bias;
    memcpy(again.stop_ids, plans[0].stop_ids, sizeof again.stop_ids);
    memcpy(again.bias, plans[0].bias, sizeof again.bias);
    memcpy(again.history, (const int32_t[]){7, 7, 8, 9, 9, 10}, 6 * sizeof(int32_t));
    again.opens[0].n_history = again.p.n_history = 6;
    add_seq(&again, 70, 6, 1, 10, 2, 0, WANT_LAST);
    for (int i = 0; i < VOCAB; i++)
        a[i] = b[i] = (float)i - 20.0f;
    edited(plans, n, 1, a);
    edited(&again, 1, 1, b);
    cr_assert_arr_eq(a, b, sizeof a);
}

Test(edits, more_edits_than_one_upload, .init = set_up, .fini = tear_down)
{
    enum { V = 40000 };
    struct step_config sc = small_step;
    struct edits_config ec = {.max_open = SEQS,
                              .max_ctx = V,
                              .vocab = V,
                              .max_seqs = small_step.max_seqs,
                              .max_edits = 16384,
                              .part = {.first_id = 0, .n_cols = V, .n_slices = 1}};
    static float row[V];
    struct edits *e;
    struct step *s;
    struct step_dev dev;
    struct buf *b;
    sc.vocab = V;
    sc.max_edits = ec.max_edits;
    sc.max_ctx = V;
    sc.n_blocks = V;
    sc.block_len = V;
    cr_assert_eq(step_create(&s, &sc, be), ST_OK, "%s", status_text());
    cr_assert_eq(edits_create(&e, &ec, be), ST_OK);
    cr_assert_eq(backend_ops_of(be)->alloc(be, sizeof row, MEM_DEVICE, &b), ST_OK);
    struct draft *d = fresh();
    int32_t *history = malloc((V - 1) * sizeof *history);
    for (int32_t i = 0; i < V - 1; i++)
        history[i] = i; /* every id once, but for the last */
    add_open(d, 70, 1)->sp.frequency_penalty = 1.0f;
    d->p.history = history;
    d->opens[0].n_history = d->p.n_history = V - 1;
    add_seq(d, 70, V - 1, 1, 0, 1, 0, WANT_LAST);
    cr_assert_eq(step_apply(s, &d->p, &dev), ST_OK, "%s", status_text());
    edits_note(e, s, &d->p);
    edits_place(e, s);
    cr_assert(edits_any(e) && edits_many(e));
    cr_assert_eq(step_upload(s), ST_OK, "%s", status_text());
    struct view logits = {.buf = b, .rows = 1, .cols = V, .stride = V, .dtype = DT_F32};
    cr_assert_eq(edits_apply(e, s, logits), ST_OK, "%s", status_text());
    cr_assert_eq(backend_ops_of(be)->read(be, row, logits), ST_OK);
    cr_assert_eq(row[0], -1.0f); /* of the prompt once, of the output once */
    for (int i = 1; i < V - 1; i++)
        cr_assert_eq(row[i], -1.0f, "id %d: %g", i, (double)row[i]);
    cr_assert_eq(row[V - 1], 0.0f);
    free(history);
    backend_ops_of(be)->free(be, b);
    edits_destroy(e);
    step_destroy(s);
}
