/* Experts of the Metal backend on the tests' double: the order of additions of moe_layers.h for every
 * type of weights, routers to the CPU's bits. */
#include "double.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backends/metal/metal_backend.h"
#include "effort.h"
#include "no_cache.h"
#include "ops/moe_layers.h"
#include "ops/op_checks.h"

static struct backend *open_named(const char *name)
{
    struct backend *be = NULL;
    struct backend_config cfg = {.isa = "plain", .threads = 1};
    cr_assert_eq(backend_open(&be, name, &cfg), ST_OK, "%s", status_detail());
    if (strcmp(name, "metal") == 0)
        check_no_cache(be);
    return be;
}

static void close_be(struct backend *be)
{
    backend_ops_of(be)->close(be);
}

/* Other numbers of ranks: of small matrices, with INGOT_ALL of all. */
static bool in_worlds(int32_t D, int32_t F)
{
    return everything() || (!SANITIZED && D * F <= 64 * 320);
}

/* Against products and activations one by one, then other numbers of ranks and tokens alone. */
static void check(enum dtype t, int32_t E, int32_t k, int32_t D, int32_t F, int32_t T)
{
    struct backend *be = open_named("metal");
    struct layer l = make_layer(t, E, k, D, F, T);
    metal_double_seed(0);
    check_order(be, be, &l, "the stated order");
    metal_double_seed(77);
    if (in_worlds(D, F))
        check_worlds(be, &l);
    free_layer(&l);
    close_be(be);
    cr_assert_eq(metal_double_live(), 0);
}

Test(moe_metal, float_experts)
{
    check(DT_F32, 4, 2, 40, 56, 9);
    check(DT_F16, 8, 8, 33, 21, 5);
    check(DT_BF16, 64, 8, 32, 24, 6);
    check(DT_F32, 5, 1, 36, 5, 20); /* empty slices */
}

Test(moe_metal, quantised_experts)
{
    check(DT_Q8_0, 4, 2, 64, 320, 9);
    check(DT_Q4_0, 8, 3, 96, 256, 3);
    check(DT_Q4_1, 4, 4, 64, 160, 3);
    check(DT_Q5_0, 4, 2, 64, 256, 1);
    check(DT_Q5_1, 4, 1, 64, 288, 3);
    check(DT_Q4_K, 2, 1, 256, 1024, 2);
    check(DT_Q5_K, 3, 2, 256, 512, 1);
    check(DT_Q6_K, 4, 3, 256, 512, 1); /* empty slices */
    check(DT_Q2_K, 4, 2, 256, 512, 3);
    check(DT_Q3_K, 4, 2, 256, 512, 1);
    check(DT_IQ4_NL, 4, 2, 64, 256, 4);
    check(DT_IQ4_XS, 3, 1, 256, 512, 1);
    check(DT_MXFP4, 4, 2, 64, 320, 4);
}

/* Slices of these widths begin within blocks: their scales are of 8, 4 or fewer columns. */
Test(moe_metal, experts_of_huggingface_folders)
{
    check(DT_E4M3, 4, 2, 128, 2048, 3);
    check(DT_E4M3, 4, 2, 96, 600, 5);
    check(DT_INT4_BF16, 4, 2, 64, 320, 9);
    check(DT_INT4_ZERO_F16, 4, 3, 96, 256, 3);
    check(DT_INT4_ZERO_BF16, 4, 2, 64, 288, 1);
    check(DT_INT8_BF16, 4, 2, 64, 320, 2);
    check(DT_INT8_ZERO_F16, 4, 2, 64, 256, 3);
    check(DT_INT8_ZERO_BF16, 4, 2, 64, 160, 2);
    check(DT_INT4_INDEX, 4, 2, 70, 333, 4);
    check(DT_INT8_INDEX, 4, 2, 64, 256, 4);
    check(DT_NF4, 4, 2, 128, 1024, 3);
    check(DT_FP4, 4, 2, 64, 300, 2);
    check(DT_NVFP4, 4, 3, 64, 512, 4);
    check(DT_NVFP4, 4, 2, 48, 280, 2);
}

/* By simdgroup matrices on devices with other places of elements and other orders of sums; enough pairs for the
 * larger tiles, and few. */
static void check_matrices(uint64_t device, enum dtype t, int32_t E, int32_t k, int32_t D,
                           int32_t F, int32_t T)
{
    cr_assert_eq(setenv("INGOT_METAL_PRODUCTS", "matrices", 1), 0);
    metal_double_matrices(device);
    check(t, E, k, D, F, T);
}

Test(moe_metal, experts_by_matrices)
{
    check_matrices(0, DT_F32, 4, 2, 40, 56, 21);
    check_matrices(5, DT_BF16, 8, 2, 33, 21, 3);
    check_matrices(62, DT_Q8_0, 2, 1, 64, 256, 40);
    check_matrices(1, DT_Q4_K, 2, 1, 256, 512, 2);
    check_matrices(5, DT_E4M3, 3, 2, 128, 280, 17);
    check_matrices(0, DT_INT4_INDEX, 2, 2, 70, 133, 9);
    check_matrices(62, DT_NVFP4, 4, 3, 64, 256, 4);
}

/* ---- the input of down, rounded ---- */

enum { R_T = 3, R_D = 40, R_F = 72 };

static struct weight_src matrix_of(const float *data, int32_t rows, int32_t cols, int n_slices)
{
    struct weight_src src = {.name = "matrix", .cols = cols, .n_parts = 1, .n_slices = n_slices};
    for (int i = 0; i < n_slices; i++)
        src.slice_end[i] = cols * (i + 1) / n_slices;
    src.part[0] = (struct weight_part){
        .data = data, .row_bytes = (size_t)cols * sizeof *data, .dtype = DT_F32, .rows = rows};
    return src;
}

struct rounded {
    float gate_up[2 * R_F * R_D], down[R_D * R_F], x[R_T * R_D];
    float one_by_one[R_T * R_D], by_experts[R_T * R_D];
};

static void fill(float *to, int n, int step)
{
    for (int i = 0; i < n; i++)
        to[i] = (float)(i * step % 2003 - 1000) / 4001.0f;
}

/* By products, the activation and round_input. */
static void run_one_by_one(struct backend *be, struct rounded *r, const struct input_rule *rule)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct weight_src gate_up = matrix_of(r->gate_up, 2 * R_F, R_D, 1),
                      down = matrix_of(r->down, R_D, R_F, N_SLICES);
    struct weight *w[2];
    cr_assert_eq(op->load_weight(be, &gate_up, &w[0]), ST_OK, "%s", status_detail());
    cr_assert_eq(op->load_weight(be, &down, &w[1]), ST_OK, "%s", status_detail());
    struct view x = view_of(be, R_T, R_D, DT_F32, r->x),
                both = view_of(be, R_T, 2 * R_F, DT_F32, NULL),
                mid = view_of(be, R_T, R_F, DT_F32, NULL),
                out = view_of(be, R_T, R_D, DT_F32, NULL), none = {0};
    cr_assert_eq(op->linear(be, w[0], x, both), ST_OK);
    cr_assert_eq(op->act_mul(be, ACT_SILU, both, mid), ST_OK);
    cr_assert_eq(op->round_input(be, rule, mid, none, mid), ST_OK);
    cr_assert_eq(op->linear(be, w[1], mid, out), ST_OK);
    cr_assert_eq(op->read(be, r->one_by_one, out), ST_OK);
    struct buf *all[] = {x.buf, both.buf, mid.buf, out.buf};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        op->free(be, all[i]);
    op->free_weight(be, w[0]);
    op->free_weight(be, w[1]);
}

/* By moe_ffn with one expert of weight 1. */
static void run_by_experts(struct backend *be, struct rounded *r, const struct input_rule *rule)
{
    static const int32_t ids[R_T] = {0};
    static const float ones[R_T] = {1, 1, 1};
    const struct backend_ops *op = backend_ops_of(be);
    struct weight_src gate_up = matrix_of(r->gate_up, 2 * R_F, R_D, 1),
                      down = matrix_of(r->down, R_D, R_F, N_SLICES);
    struct weight *w[2];
    struct moe_layer ml = {.n_experts = 1,
                           .top_k = 1,
                           .hidden = R_D,
                           .ffn = R_F,
                           .scale = 1,
                           .act = ACT_SILU,
                           .round_hidden = *rule};
    cr_assert_eq(op->load_stack(be, &gate_up, 1, &w[0]), ST_OK, "%s", status_detail());
    cr_assert_eq(op->load_stack(be, &down, 1, &w[1]), ST_OK, "%s", status_detail());
    int32_t floats = (int32_t)(op->moe_scratch(be, &ml, R_T) / sizeof(float));
    ml.gate_up = w[0];
    ml.down = w[1];
    struct view v[] = {view_of(be, R_T, R_D, DT_F32, r->x), view_of(be, R_T, 1, DT_I32, ids),
                       view_of(be, R_T, 1, DT_F32, ones), view_of(be, 1, floats, DT_F32, NULL),
                       view_of(be, R_T, R_D, DT_F32, NULL)};
    cr_assert_eq(op->moe_ffn(be, &ml, v[0], v[1], v[2], v[3], v[4]), ST_OK);
    cr_assert_eq(op->read(be, r->by_experts, v[4]), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        op->free(be, v[i].buf);
    op->free_weight(be, w[0]);
    op->free_weight(be, w[1]);
}

Test(moe_metal, rounded_experts_have_the_bits_of_ops_one_by_one)
{
    static struct rounded r, floats;
    static const struct input_rule rules[] = {{.grid = GRID_INT8, .all = R_F},
                                              {.grid = GRID_E4M3, .group = 32, .all = R_F},
                                              {.grid = GRID_INT8, .scale = 0.003f, .all = R_F}};
    struct backend *be = open_named("metal");
    fill(r.gate_up, 2 * R_F * R_D, 7919);
    fill(r.down, R_D * R_F, 104729);
    fill(r.x, R_T * R_D, 31);
    floats = r;
    run_by_experts(be, &floats, &(struct input_rule){0});
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        run_one_by_one(be, &r, &rules[i]);
        run_by_experts(be, &r, &rules[i]);
        cr_assert_arr_eq(r.by_experts, r.one_by_one, sizeof r.by_experts, "rule %zu", i);
        cr_assert_arr_neq(r.by_experts, floats.by_experts, sizeof r.by_experts, "rule %zu", i);
    }
    close_be(be);
    cr_assert_eq(metal_double_live(), 0);
}

/* ---- inputs rounded by scales of each expert ---- */

struct scaled_case {
    int32_t n_experts, top_k, hidden, ffn, n;
    const float *input_scale, *hidden_scale; /* [E], or NULL */
    enum input_grid grid;
};

/* A stack of made-up matrices [rows, cols]. */
static struct weight *made_up_stack(struct backend *be, int32_t n, int32_t rows, int32_t cols,
                                    int n_slices, int step)
{
    struct weight_src src[4];
    struct weight *w;
    float *data = malloc((size_t)n * (size_t)rows * (size_t)cols * sizeof *data);
    cr_assert(data && n <= (int32_t)ARRAY_LEN(src));
    fill(data, n * rows * cols, step);
    for (int32_t e = 0; e < n; e++)
        src[e] = matrix_of(data + (size_t)e * (size_t)rows * (size_t)cols, rows, cols, n_slices);
    cr_assert_eq(backend_ops_of(be)->load_stack(be, src, n, &w), ST_OK, "%s", status_detail());
    free(data);
    return w;
}

/* Rows [first, first + n) of out, each token's experts t, t + 1, ... modulo E. */
static void run_scaled(struct backend *be, const struct scaled_case *c, int32_t first, int32_t n,
                       float *out)
{
    const struct backend_ops *op = backend_ops_of(be);
    struct moe_layer ml = {.n_experts = c->n_experts,
                           .top_k = c->top_k,
                           .hidden = c->hidden,
                           .ffn = c->ffn,
                           .scale = 1,
                           .act = ACT_SILU,
                           .round_input = {.grid = c->grid, .all = c->hidden},
                           .round_hidden = {.grid = c->grid, .all = c->ffn},
                           .input_scale = c->input_scale,
                           .hidden_scale = c->hidden_scale};
    float *x = malloc((size_t)(first + n) * (size_t)c->hidden * sizeof *x);
    float *share = malloc((size_t)(n * c->top_k) * sizeof *share);
    int32_t *ids = malloc((size_t)(n * c->top_k) * sizeof *ids);
    cr_assert(x && share && ids);
    fill(x, (first + n) * c->hidden, 31);
    for (int32_t i = 0; i < n * c->top_k; i++) {
        ids[i] = (first + i / c->top_k + i % c->top_k) % c->n_experts;
        share[i] = 0.25f + (float)ids[i] / 8;
    }
    int32_t floats = (int32_t)(op->moe_scratch(be, &ml, n) / sizeof(float));
    struct weight *gate_up = made_up_stack(be, c->n_experts, 2 * c->ffn, c->hidden, 1, 7919);
    struct weight *down = made_up_stack(be, c->n_experts, c->hidden, c->ffn, N_SLICES, 104729);
    ml.gate_up = gate_up;
    ml.down = down;
    struct view v[] = {
        view_of(be, n, c->hidden, DT_F32, x + (size_t)first * (size_t)c->hidden),
        view_of(be, n, c->top_k, DT_I32, ids), view_of(be, n, c->top_k, DT_F32, share),
        view_of(be, 1, floats, DT_F32, NULL), view_of(be, n, c->hidden, DT_F32, NULL)};
    cr_assert_eq(op->moe_ffn(be, &ml, v[0], v[1], v[2], v[3], v[4]), ST_OK, "%s", status_detail());
    cr_assert_eq(op->read(be, out, v[4]), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(v); i++)
        op->free(be, v[i].buf);
    op->free_weight(be, gate_up);
    op->free_weight(be, down);
    free(x);
    free(share);
    free(ids);
}

/* As the CPU has it, but for the order of a product's sums; rows alone have the bits of rows together. */
static void check_scaled(struct backend *be, struct backend *cpu, struct scaled_case c)
{
    size_t n = (size_t)c.n * (size_t)c.hidden;
    float *got = malloc(n * sizeof *got), *want = malloc(n * sizeof *want), worst = 0, most = 0;
    float *floats = malloc(n * sizeof *floats);
    cr_assert(got && want && floats);
    run_scaled(be, &c, 0, c.n, got);
    run_scaled(cpu, &c, 0, c.n, want);
    for (size_t i = 0; i < n; i++) {
        worst = fmaxf(worst, fabsf(got[i] - want[i]));
        most = fmaxf(most, fabsf(want[i]));
    }
    cr_assert_leq(worst, 1e-5f * most, "off by %g of %g", (double)worst, (double)most);
    for (int32_t t = 0; t < c.n; t += c.n / 2) {
        run_scaled(be, &c, t, 1, floats);
        cr_assert_arr_eq(floats, got + (size_t)t * (size_t)c.hidden,
                         (size_t)c.hidden * sizeof *floats, "token %d", t);
    }
    c.grid = GRID_NONE;
    c.input_scale = c.hidden_scale = NULL;
    run_scaled(be, &c, 0, c.n, floats);
    cr_assert_arr_neq(got, floats, n * sizeof *got);
    free(got);
    free(want);
    free(floats);
}

Test(moe_metal, experts_round_by_scales_of_their_own)
{
    static const float in[] = {0.004f, 0.011f, 0.0007f}, mid[] = {0.002f, 0.0003f, 0.0051f};
    struct backend *be = open_named("metal"), *cpu = open_named("cpu");
    struct scaled_case c = {3, 2, 40, 72, 5, in, mid, GRID_INT8};
    check_scaled(be, cpu, c);
    c.grid = GRID_E4M3;
    check_scaled(be, cpu, c);
    c.hidden_scale = NULL; /* that of a token's peak */
    check_scaled(be, cpu, c);
    c.input_scale = NULL;
    c.hidden_scale = mid;
    check_scaled(be, cpu, c);
    close_be(cpu);
    close_be(be);
    cr_assert_eq(metal_double_live(), 0);
}

/* They fit into 16 MiB, and are all tokens where that has room. */
Test(moe_metal, rounded_inputs_fit_into_the_scratch)
{
    static const struct {
        int32_t top_k, hidden, n, tokens;
    } all[] = {{2, 40, 5, 5},      {8, 2048, 512, 248}, {2, 4096, 2048, 496},
               {8, 7168, 512, 70}, {32, 32768, 128, 3}, {1, 64, 4096, 4096}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        const struct moe_layer ml = {
            .n_experts = 64, .top_k = all[i].top_k, .hidden = all[i].hidden, .ffn = 64};
        int32_t got = metal_rounded_tokens(&ml, all[i].n);
        cr_assert_eq(got, all[i].tokens, "%d: %d", (int)i, got);
        cr_assert_leq((int64_t)got * all[i].top_k * all[i].hidden * 4, 16 << 20);
    }
}

enum { T = 6, E = 130, K = 8 };

static struct weight *vector_of(struct backend *be, const float *data)
{
    struct weight *w = NULL;
    const struct weight_src src = {
        .name = "router",
        .vector = true,
        .cols = E,
        .n_parts = 1,
        .part = {{.data = data, .row_bytes = E * sizeof(float), .dtype = DT_F32, .rows = 1}}};
    cr_assert_eq(backend_ops_of(be)->load_weight(be, &src, &w), ST_OK, "%s", status_detail());
    return w;
}

/* The router of a family on one backend; terms [E] are biases of sigmoids or factors of a softmax. */
static void route_on(struct backend *be, struct moe_layer ml, const float *terms,
                     const float *logits, int32_t *ids, float *weights)
{
    struct weight *w = terms ? vector_of(be, terms) : NULL;
    if (ml.sigmoid)
        ml.route_bias = w;
    else
        ml.expert_scale = w;
    route(be, &ml, logits, T, ids, weights);
    if (w)
        backend_ops_of(be)->free_weight(be, w);
}

Test(moe_metal, routers_have_the_bits_of_the_cpu)
{
    static const struct {
        bool renormalise, sigmoid, terms;
        int32_t n_groups, top_groups;
    } all[] = {
        {0},
        {.renormalise = true},
        {.terms = true},
        {.n_groups = 10, .top_groups = 3},
        {.sigmoid = true},
        {.sigmoid = true, .renormalise = true},
        {.sigmoid = true, .renormalise = true, .terms = true},
        {.sigmoid = true, .n_groups = 26, .top_groups = 4},
        {.sigmoid = true, .renormalise = true, .terms = true, .n_groups = 10, .top_groups = 3}};
    struct backend *be = open_named("metal"), *cpu = open_named("cpu");
    float logits[T * E], terms[E], want[T * K], got[T * K];
    int32_t want_ids[T * K], got_ids[T * K];
    for (int i = 0; i < T * E; i++)
        logits[i] = (float)((i * 7919) % 403) / 40 - 5;
    for (int i = 0; i < E; i++)
        terms[i] = (float)((i * 31) % 17) / 20;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct moe_layer ml = {.n_experts = E,
                               .top_k = K,
                               .scale = 1.5f,
                               .renormalise = all[i].renormalise,
                               .sigmoid = all[i].sigmoid,
                               .n_groups = all[i].n_groups,
                               .top_groups = all[i].top_groups};
        const float *own = all[i].terms ? terms : NULL;
        route_on(cpu, ml, own, logits, want_ids, want);
        metal_double_seed((uint64_t)i * 9);
        route_on(be, ml, own, logits, got_ids, got);
        cr_assert_arr_eq(got_ids, want_ids, sizeof want_ids, "router %zu", i);
        cr_assert_arr_eq(got, want, sizeof want, "router %zu", i);
    }
    check_strange_routers(be);
    close_be(cpu);
    close_be(be);
}

Test(moe_metal, stacks_that_cannot_be)
{
    struct backend *be = open_named("metal");
    check_stacks_that_cannot_be(be);
    close_be(be);
}
