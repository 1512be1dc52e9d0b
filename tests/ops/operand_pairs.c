#include "ops/operand_pairs.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_OUT = 24, K_IN = 100, ATT_COLS = 512 };

#define NORM(TYPE, ROWS, K, SLICES)                                                                \
    {                                                                                              \
        .from = OPERAND_NORM, .dtype = TYPE, .rows = ROWS, .k = K, .n_slices = SLICES              \
    }
#define ACT(TYPE, ROWS, K, SLICES, ACTIVATION, DOWN)                                               \
    {                                                                                              \
        .from = OPERAND_ACT_MUL, .dtype = TYPE, .rows = ROWS, .k = K, .n_slices = SLICES,          \
        .act = ACTIVATION, .down = DOWN                                                            \
    }
#define ATTENTION(TYPE, ROWS, SEQS)                                                                \
    {                                                                                              \
        .from = OPERAND_ATTENTION, .dtype = TYPE, .rows = ROWS, .k = ATT_COLS, .n_seqs = SEQS      \
    }
/* Rows of each kernel: from an operand of rows (8, 16, 32), of fragments. */
const struct operand_pair operand_pairs[] = {
    NORM(DT_BF16, 1, 600, 1),
    NORM(DT_BF16, 8, 100, 1),
    NORM(DT_BF16, 9, 480, 8),
    NORM(DT_BF16, 32, 600, 1),
    NORM(DT_BF16, 33, 600, 1),
    NORM(DT_BF16, 70, 480, 8),
    NORM(DT_F16, 3, 600, 1),
    NORM(DT_F16, 16, 480, 8),
    NORM(DT_F16, 20, 100, 1),
    NORM(DT_F16, 40, 600, 1),
    NORM(DT_F16, 70, 480, 8),
    /* in one kernel */
    ACT(DT_BF16, 1, 512, 8, ACT_SILU, DT_BF16),
    ACT(DT_BF16, 8, 64, 1, ACT_GELU, DT_BF16),
    ACT(DT_BF16, 12, 512, 8, ACT_GELU_TANH, DT_BF16),
    ACT(DT_BF16, 32, 128, 1, ACT_SILU, DT_BF16),
    ACT(DT_BF16, 5, 130, 1, ACT_RELU2, DT_F32),
    ACT(DT_BF16, 17, 130, 1, ACT_RELU, DT_F32),
    /* in two: zeros between slices, scales, many rows */
    ACT(DT_BF16, 3, 480, 8, ACT_SILU, DT_BF16),
    ACT(DT_BF16, 40, 512, 8, ACT_SILU, DT_BF16),
    ACT(DT_BF16, 40, 300, 1, ACT_GELU, DT_BF16),
    ACT(DT_F16, 3, 512, 8, ACT_SILU, DT_F16),
    ACT(DT_F16, 40, 480, 8, ACT_GELU_TANH, DT_F16),
    ACT(DT_BF16, 12, 512, 8, ACT_SILU, DT_F16),
    /* decodes, prompts, both, and caches of f32 */
    ATTENTION(DT_BF16, 3, 3),
    ATTENTION(DT_F16, 40, 40),
    ATTENTION(DT_BF16, 20, 2),
    ATTENTION(DT_F16, 40, 2),
    ATTENTION(DT_F32, 5, 2),
    ATTENTION(DT_F32, 36, 4),
};
const size_t n_operand_pairs = ARRAY_LEN(operand_pairs);

const char *operand_pair_name(const struct operand_pair *p)
{
    static const char *const from[] = {"norm", "act_mul", "attention"};
    static char s[160];
    snprintf(s, sizeof s, "operand of %s rows %d k %d %s slices %d act %d to %s seqs %d",
             from[p->from], p->rows, p->k, dtype_name(p->dtype), p->n_slices, (int)p->act,
             dtype_name(p->down), p->n_seqs);
    return s;
}

/* The norm of the sum of two rows, as the operand of w or as elements.  f16: weights of the norm far beyond that type. */
static struct view normed(struct op_env *e, const struct operand_pair *p, const struct weight *w,
                          int32_t k, bool operand)
{
    float *r = in_rows(141, 0, p->rows, k), *x = in_rows(142, 0, p->rows, k),
          *norm = in_rows(143, 0, 1, k);
    for (int32_t i = 0; i < k && p->dtype == DT_F16; i++)
        norm[i] *= i / 256 % 2 ? 0x1p-20f : 0x1p20f;
    struct view vr = env_view(e, p->rows, k, DT_F32, r), vx = env_view(e, p->rows, k, DT_F32, x),
                h = env_packed(e, p->rows, k, DT_F32, NULL);
    struct weight *weights = env_vector(e, norm, k);
    if (operand)
        h = env_operand(e, h, w, OPERAND_NORM);
    ENV_RUN(e, e->ops->add_rms_norm(e->be, vr, vx, NULL, weights, 1e-5f, h));
    free(r);
    free(x);
    free(norm);
    return h;
}

/* out [T, N_OUT].  Memory is taken first, so that no copy is between the kernels. */
static void run_norm(struct op_env *e, const struct operand_pair *p, bool operand, float *out)
{
    struct weight *w = env_matrix(e, p->dtype, 144, N_OUT, p->k, p->n_slices, NULL);
    struct view h = normed(e, p, w, p->k, operand), to = env_view(e, p->rows, N_OUT, DT_F32, NULL);
    ENV_RUN(e, e->ops->linear(e->be, w, h, to));
    env_read(e, out, to);
}

/* out [T, N_OUT], of elements [T, k] */
static void run_act(struct op_env *e, const struct operand_pair *p, bool operand, float *out)
{
    float *bias = in_rows(145, 0, 1, 2 * p->k);
    struct weight *w = env_matrix(e, p->dtype, 146, 2 * p->k, K_IN, 1, bias), *down = NULL;
    struct view mid = env_view(e, p->rows, 2 * p->k, DT_F32, NULL),
                ffn = env_packed(e, p->rows, p->k, DT_F32, NULL), to = ffn, h;
    if (p->down != DT_F32) {
        down = env_matrix(e, p->down, 147, N_OUT, p->k, p->n_slices, NULL);
        ffn = operand ? env_operand(e, ffn, down, OPERAND_ACT_MUL) : ffn;
        to = env_view(e, p->rows, N_OUT, DT_F32, NULL);
    }
    h = normed(e, p, w, K_IN, operand); /* the kernels follow each other from here on */
    if (operand) {
        ENV_RUN(e, e->ops->linear_act_mul(e->be, p->act, w, h, mid, ffn));
    } else {
        ENV_RUN(e, e->ops->linear(e->be, w, h, mid));
        ENV_RUN(e, e->ops->act_mul(e->be, p->act, mid, ffn));
    }
    if (down)
        ENV_RUN(e, e->ops->linear(e->be, down, ffn, to));
    env_read(e, out, to);
    free(bias);
}

static void run_attention(struct op_env *e, const struct operand_pair *p, bool operand, float *out)
{
    const struct op_case c = {.op = &op_attention,
                              .rows = p->rows,
                              .n = N_OUT,
                              .n_seqs = p->n_seqs,
                              .past = 20,
                              .n_q = 8,
                              .n_kv = 2,
                              .q_per_kv = 4,
                              .d = ATT_COLS / 8,
                              .block_len = 16,
                              .dtype = p->dtype,
                              .variant = operand ? 1 : 2};
    ENV_RUN(e, op_attention.run(e->be, &c, 0, p->rows, out));
}

static enum status run(struct backend *be, const struct operand_pair *p, bool operand, float *out)
{
    struct op_env e = env_open(be);
    if (p->from == OPERAND_NORM)
        run_norm(&e, p, operand, out);
    else if (p->from == OPERAND_ACT_MUL)
        run_act(&e, p, operand, out);
    else
        run_attention(&e, p, operand, out);
    return env_close(&e);
}

void operand_pair_check(struct backend *be, const struct operand_pair *p, char why[OP_WHY_BYTES])
{
    int32_t cols = p->from == OPERAND_ACT_MUL && p->down == DT_F32 ? p->k : N_OUT;
    size_t n = (size_t)p->rows * (size_t)cols;
    float *got = calloc(n, sizeof *got), *want = calloc(n, sizeof *want);
    bool fine = run(be, p, false, want) == ST_OK && run(be, p, true, got) == ST_OK;
    why[0] = '\0';
    if (!fine)
        snprintf(why, OP_WHY_BYTES, "%s", status_text());
    for (size_t i = 0; fine && i < n && !why[0]; i++)
        if (bits_of_f32(got[i]) != bits_of_f32(want[i]) || !(got[i] * 0 == 0))
            snprintf(why, OP_WHY_BYTES, "row %zu column %zu: %a, of elements %a", i / (size_t)cols,
                     i % (size_t)cols, (double)got[i], (double)want[i]);
    free(got);
    free(want);
}
