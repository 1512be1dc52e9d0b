/* The sampler against an independent reference, against HuggingFace's warpers (committed vectors,
 * see make_sampler_vectors.py), and against itself: candidates and the whole row give the same
 * token. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "data.h"
#include "worker/sample/sampler.h"

enum { MAX_V = 3000, K = MAX_CANDIDATES };

/* A row of logits as a rank sees it: sorted, with the device's float sums over 8 slices. */
struct row {
    int32_t v;
    float logit[MAX_V];
    float sorted[MAX_V];
    int32_t id[MAX_V];
    float stat[24];
};

static uint64_t scratch[2 * MAX_V];

/* test randomness: the generator under test with a key of its own */
static uint64_t dice_at;

static double dice(void)
{
    return rng_uniform(0x5eed5eed, dice_at++);
}

static double gauss(void)
{
    return sqrt(-2.0 * log(1.0 - dice())) * cos(6.283185307179586 * dice());
}

static void row_finish(struct row *r, const struct sample_params *sp)
{
    float inv_t = draw_inv_temperature(sp->temperature);
    sampler_sort(r->logit, r->v, r->sorted, r->id, scratch);
    for (int s = 0; s < 8; s++) {
        float m = -INFINITY, a = 0.0f, b = 0.0f;
        int from = s * r->v / 8, to = (s + 1) * r->v / 8;
        for (int i = from; i < to; i++)
            m = fmaxf(m, r->logit[i]);
        for (int i = from; i < to && m > -INFINITY; i++) {
            a += expf(r->logit[i] - m);
            b += expf((r->logit[i] - m) * inv_t);
        }
        r->stat[3 * s] = m;
        r->stat[3 * s + 1] = a;
        r->stat[3 * s + 2] = b;
    }
}

/* stat: of 8 slices of one row */
static struct draw_sums sums_of(const float *stat, float inv_temperature)
{
    const struct draw_shape one = {.n_ranks = 1, .n_slices = 8};
    return draw_row_sums(&one, stat, 0, inv_temperature);
}

static struct draw_candidates first_n(const struct row *r, const struct sample_params *sp,
                                      int32_t n)
{
    struct draw_candidates c = {.n = n, .logit = r->sorted, .id = r->id, .complete = n == r->v};
    c.sums = sums_of(r->stat, draw_inv_temperature(sp->temperature));
    return c;
}

static void random_row(struct row *r, int32_t v, double spread, bool ties)
{
    r->v = v;
    for (int32_t i = 0; i < v; i++) {
        double x = gauss() * spread;
        r->logit[i] = (float)(ties ? floor(x) : x);
    }
}

/* Independent: sorts by a plain comparison, filters as the header's rules say, in long double. */
struct ref {
    int32_t id[MAX_V];
    long double w[MAX_V], kept; /* weight of the kept set */
    int32_t n_kept, v;
};

static const struct row *sorting;

static int by_order(const void *a, const void *b)
{
    int32_t i = *(const int32_t *)a, k = *(const int32_t *)b;
    if (sorting->logit[i] != sorting->logit[k])
        return sorting->logit[i] > sorting->logit[k] ? -1 : 1;
    return i < k ? -1 : 1;
}

static void reference(struct ref *f, const struct row *r, const struct sample_params *sp)
{
    long double all = 0.0L, run = 0.0L;
    int32_t k = sp->top_k && sp->top_k < (uint32_t)r->v ? (int32_t)sp->top_k : r->v;
    for (int32_t i = 0; i < r->v; i++)
        f->id[i] = i;
    sorting = r;
    qsort(f->id, (size_t)r->v, sizeof f->id[0], by_order);
    f->v = r->v;
    for (int32_t i = 0; i < r->v; i++) {
        f->w[i] = expl(((long double)r->logit[f->id[i]] - (long double)r->logit[f->id[0]]) /
                       (long double)sp->temperature);
        if (i < k)
            all += f->w[i];
    }
    f->kept = 0.0L;
    for (f->n_kept = 0; f->n_kept < k; f->n_kept++) {
        if (f->n_kept > 0 && sp->top_p < 1.0f && run >= (long double)sp->top_p * all)
            break;
        if (f->w[f->n_kept] < (long double)sp->min_p)
            break;
        run += f->w[f->n_kept];
    }
    f->kept = run;
}

static struct sample_params random_params(void)
{
    static const float temperatures[] = {0.2f, 0.7f, 1.0f, 1.3f, 3.0f};
    static const float top_ps[] = {1.0f, 1.0f, 0.999f, 0.95f, 0.5f, 0.01f};
    static const float min_ps[] = {0.0f, 0.0f, 0.0f, 1e-4f, 0.05f, 0.9f};
    static const uint32_t top_ks[] = {0, 0, 0, 1, 2, 20, 63, 64, 65, 200, 5000};
    struct sample_params sp = sample_params_default();
    sp.temperature = temperatures[(int)(dice() * 5)];
    sp.top_p = top_ps[(int)(dice() * 6)];
    sp.min_p = min_ps[(int)(dice() * 6)];
    sp.top_k = top_ks[(int)(dice() * 11)];
    sp.seed = (uint64_t)(dice() * 1e15);
    sp.top_logprobs = (uint32_t)(dice() * 21);
    return sp;
}

Test(rng, philox_known_answers)
{
    /* the published test vectors of Philox4x32-10 */
    static const uint32_t in[3][6] = {
        {0, 0, 0, 0, 0, 0},
        {~0U, ~0U, ~0U, ~0U, ~0U, ~0U},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0}};
    static const uint32_t expected[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                            {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                            {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        struct philox r = philox4x32_10(in[i], in[i] + 4);
        cr_assert_arr_eq(r.word, expected[i], sizeof expected[i]);
    }
}

Test(rng, uniform_is_keyed_by_seed_and_position)
{
    cr_assert_eq(rng_uniform(1, 2), rng_uniform(1, 2));
    cr_assert_neq(rng_uniform(1, 2), rng_uniform(2, 1));
    cr_assert_neq(rng_uniform(1, 2), rng_uniform(1, 2 + (1ULL << 32)));
    cr_assert_neq(rng_uniform(1, 2), rng_uniform(1 + (1ULL << 32), 2));
    double sum = 0.0;
    for (uint64_t i = 0; i < 100000; i++) {
        double u = rng_uniform(7, i);
        cr_assert(u >= 0.0 && u < 1.0);
        sum += u;
    }
    cr_assert_float_eq(sum / 100000, 0.5, 0.005); /* 5.5 standard deviations */
}

Test(sampler, greedy_takes_the_lowest_id_of_equal_logits)
{
    static struct row r = {.v = 80};
    struct sample_params sp = sample_params_default();
    struct result_token t;
    sp.temperature = 0.0f;
    r.logit[40] = r.logit[17] = r.logit[70] = 2.0f;
    row_finish(&r, &sp);
    struct draw_candidates c = first_n(&r, &sp, K);
    cr_assert_eq(sampler_draw(&sp, &c, 5, &t), SAMPLED);
    cr_assert_eq(t.token, 17);
    cr_assert_float_eq(t.logprob, 2.0 - log(3 * exp(2.0) + 77), 1e-6);
}

Test(sampler, zero_and_minus_zero_are_equal)
{
    static struct row r = {.v = 66};
    struct sample_params sp = sample_params_default();
    for (int i = 0; i < 66; i++)
        r.logit[i] = i % 2 ? 0.0f : -0.0f;
    row_finish(&r, &sp);
    for (int i = 0; i < 66; i++)
        cr_assert_eq(r.id[i], i);
}

Test(sampler, candidates_and_whole_row_give_the_same_token)
{
    static struct row r;
    static struct ref f;
    int n_all = 0, n_sampled = 0, n_undecided_needlessly = 0;
    for (int round = 0; round < 6000; round++) {
        struct sample_params sp = random_params();
        struct result_token part, whole;
        uint64_t position = (uint64_t)round;
        random_row(&r, 65 + (int32_t)(dice() * (round % 10 ? 300 : MAX_V - 65)),
                   (double[]){0.1, 1.0, 4.0, 20.0}[round % 4], round % 7 == 0);
        row_finish(&r, &sp);
        /* the device's sums differ from exact ones by rounding, up or down */
        for (int s = 0; s < 8; s++)
            r.stat[3 * s + 2] *= 1.0f + (float)((dice() - 0.5) * 4e-6);
        struct draw_candidates few = first_n(&r, &sp, K), all = first_n(&r, &sp, r.v);
        cr_assert_eq(sampler_draw(&sp, &all, position, &whole), SAMPLED);
        enum sample_outcome o = sampler_draw(&sp, &few, position, &part);
        reference(&f, &r, &sp);
        if (o == SAMPLED) {
            n_sampled++;
            cr_assert_eq(part.token, whole.token, "round %d: %d, whole row %d", round, part.token,
                         whole.token);
            cr_assert_eq(part.logprob, whole.logprob);
            cr_assert_eq(part.n_top, whole.n_top);
            cr_assert_arr_eq(part.top, whole.top, part.n_top * sizeof part.top[0]);
        } else {
            n_all++;
            /* a kept set well inside the candidates must be decided without the row */
            bool inside = f.n_kept < K - 1 && !(sp.top_k > K) &&
                          (sp.top_k || sp.min_p > 0 || sp.top_p < 0.999f);
            n_undecided_needlessly += inside;
        }
    }
    cr_assert_gt(n_sampled, 3000);
    cr_assert_gt(n_all, 300);
    cr_assert_eq(n_undecided_needlessly, 0);
}

Test(sampler, whole_row_follows_the_rules)
{
    static struct row r;
    static struct ref f;
    int n_checked = 0;
    for (int round = 0; round < 4000; round++) {
        struct sample_params sp = random_params();
        struct result_token t;
        random_row(&r, 2 + (int32_t)(dice() * 500), (double[]){0.3, 2.0, 6.0}[round % 3],
                   round % 5 == 0);
        row_finish(&r, &sp);
        struct draw_candidates c = first_n(&r, &sp, r.v);
        cr_assert_eq(sampler_draw(&sp, &c, 99, &t), SAMPLED);
        reference(&f, &r, &sp);
        long double target = (long double)rng_uniform(sp.seed, 99) * f.kept, run = 0.0L;
        int32_t i = 0;
        bool border = false; /* within the rounding of the device's float sums */
        for (; i < f.v; i++) {
            run += f.w[i];
            border = border || fabsl(run - target) < 3e-6L * f.kept;
            if (run > target)
                break;
        }
        if (border || i >= f.n_kept)
            continue;
        n_checked++;
        cr_assert_eq(t.token, f.id[i], "round %d: %d, reference %d (T %g k %u p %g min %g)", round,
                     t.token, f.id[i], (double)sp.temperature, sp.top_k, (double)sp.top_p,
                     (double)sp.min_p);
    }
    cr_assert_gt(n_checked, 3800);
}

Test(sampler, logprobs_are_of_the_row_before_temperature)
{
    static struct row r;
    struct sample_params sp = sample_params_default();
    struct result_token t;
    long double sum = 0.0L;
    sp.temperature = 0.25f;
    sp.top_k = 3;
    sp.top_logprobs = MAX_TOP_LOGPROBS;
    random_row(&r, 300, 2.0, false);
    row_finish(&r, &sp);
    for (int i = 0; i < 300; i++)
        sum += expl((long double)r.logit[i]);
    struct draw_candidates c = first_n(&r, &sp, K);
    cr_assert_eq(sampler_draw(&sp, &c, 1, &t), SAMPLED);
    cr_assert_float_eq(t.logprob, (float)((long double)r.logit[t.token] - logl(sum)), 2e-6);
    cr_assert_eq(t.n_top, MAX_TOP_LOGPROBS);
    for (uint32_t k = 0; k < t.n_top; k++) {
        cr_assert_eq(t.top[k].id, r.id[k]);
        cr_assert_float_eq(t.top[k].logprob, (float)((long double)r.sorted[k] - logl(sum)), 2e-6);
    }
}

Test(sampler, min_p_keeps_what_just_reaches_it)
{
    static struct row r = {.v = 70};
    struct sample_params sp = sample_params_default();
    bool drawn[70] = {false};
    int n_drawn = 0;
    sp.min_p = 1.0f; /* only what is as probable as the first */
    for (int i = 0; i < 70; i++)
        r.logit[i] = i % 10 == 0 ? 4.0f : 3.999f;
    row_finish(&r, &sp);
    for (uint64_t position = 0; position < 1000; position++) {
        struct draw_candidates c = first_n(&r, &sp, K);
        struct result_token t;
        cr_assert_eq(sampler_draw(&sp, &c, position, &t), SAMPLED);
        cr_assert_eq(t.token % 10, 0);
        n_drawn += !drawn[t.token];
        drawn[t.token] = true;
    }
    cr_assert_eq(n_drawn, 7);
}

Test(sampler, impossible_tokens_are_never_drawn)
{
    static struct row r;
    struct sample_params sp = sample_params_default();
    random_row(&r, 70, 0.01, false);
    for (int i = 0; i < 70; i += 2)
        r.logit[i] = -INFINITY;
    row_finish(&r, &sp);
    for (uint64_t position = 0; position < 5000; position++) {
        struct draw_candidates c = first_n(&r, &sp, 70);
        struct result_token t;
        cr_assert(draw_finite(&c.sums));
        cr_assert_eq(sampler_draw(&sp, &c, position, &t), SAMPLED);
        cr_assert_eq(t.token % 2, 1);
    }
}

Test(sampler, impossible_tokens_are_no_alternatives)
{
    static struct row r;
    struct sample_params sp = sample_params_default();
    sp.top_logprobs = 5;
    random_row(&r, 70, 1.0, false);
    for (int n = 1; n <= 6; n++) {
        struct result_token t;
        for (int i = 0; i < 70; i++)
            r.logit[i] = i < n ? (float)i : -INFINITY;
        row_finish(&r, &sp);
        struct draw_candidates c = first_n(&r, &sp, 70);
        cr_assert_eq(sampler_draw(&sp, &c, 9, &t), SAMPLED);
        cr_assert_eq(t.n_top, n < 5 ? (uint32_t)n : 5u);
        for (uint32_t i = 0; i < t.n_top; i++)
            cr_assert_eq(t.top[i].id, n - 1 - (int)i);
        cr_assert(n > 1 || t.logprob == 0.0f);
    }
}

Test(sampler, a_tiny_temperature_is_greedy_in_effect)
{
    static struct row r;
    struct sample_params sp = sample_params_default();
    sp.temperature = 1e-40f;
    random_row(&r, 200, 3.0, false);
    row_finish(&r, &sp);
    struct draw_candidates c = first_n(&r, &sp, K);
    struct result_token t;
    cr_assert(draw_finite(&c.sums));
    cr_assert_eq(sampler_draw(&sp, &c, 3, &t), SAMPLED);
    cr_assert_eq(t.token, r.id[0]);
}

Test(sampler, broken_logits_are_seen)
{
    static const float bad[] = {NAN, INFINITY};
    for (int b = 0; b < 2; b++) {
        float stat[24];
        for (int i = 0; i < 24; i++)
            stat[i] = 1.0f;
        stat[3 * 5] = stat[3 * 5 + 1] = bad[b];
        struct draw_sums sums = sums_of(stat, 1.0f);
        cr_assert_not(draw_finite(&sums));
    }
}

Test(sampler, combine_gives_the_same_bits_for_empty_slices)
{
    float stat[24] = {0};
    for (int s = 0; s < 8; s++)
        stat[3 * s] = -INFINITY;
    stat[3 * 2] = 1.5f;
    stat[3 * 2 + 1] = 2.25f;
    stat[3 * 2 + 2] = 3.125f;
    struct draw_sums c = sums_of(stat, 0.7f);
    cr_assert(c.max == 1.5f && c.sum == 2.25 && c.sum_t == 3.125);
}

/* The tree written down as it is defined, level by level over an array of all parts. */
static struct draw_sums level_by_level(struct draw_sums *p, int n, double inv_t)
{
    for (; n > 1; n = (n + 1) / 2) {
        for (int i = 0; i + 1 < n; i += 2)
            p[i / 2] = draw_join(p[i], p[i + 1], inv_t);
        if (n % 2)
            p[n / 2] = p[n - 1];
    }
    return p[0];
}

Test(sampler, the_tree_of_any_number_of_slices_is_level_by_level)
{
    for (int n = 1; n <= 300; n++) {
        struct draw_sums parts[300];
        struct draw_tree tree = {.n_parts = 0};
        for (int i = 0; i < n; i++) {
            parts[i] = (struct draw_sums){(float)(gauss() * 3.0), 1.0 + dice(), 1.0 + dice()};
            draw_tree_add(&tree, parts[i], 1.7);
        }
        struct draw_sums a = draw_tree_end(&tree, 1.7), b = level_by_level(parts, n, 1.7);
        cr_assert(a.max == b.max && a.sum == b.sum && a.sum_t == b.sum_t, "%d parts", n);
    }
}

/* The bits are frozen: a compiler that contracts or reorders the arithmetic is found here. */
Test(sampler, exp_is_exact_and_the_same_everywhere)
{
    uint64_t digest = 0xcbf29ce484222325U;
    double worst = 0.0;
    for (int i = 0; i < 200000; i++) {
        double x = -708.0 * pow(10.0, -7.0 * i / 200000.0), got = draw_exp(x);
        long double want = expl((long double)x);
        double error = fabs((double)(((long double)got - want) / want));
        worst = error > worst ? error : worst;
    }
    for (int i = 0; i < 100000; i++) { /* inputs without libm */
        double x = -dice() * (i % 2 ? 700.0 : 1.0), got = draw_exp(x);
        uint64_t bits;
        memcpy(&bits, &got, sizeof bits);
        digest = (digest ^ bits) * 0x100000001b3U;
    }
    cr_assert_lt(worst, 0x1p-51, "relative error %g", worst);
    cr_assert_eq(digest, 0x705ce7650d822a39ULL, "%016llx", (unsigned long long)digest);
    cr_assert(draw_exp(0.0) == 1.0 && draw_exp(-0.0) == 1.0 && draw_exp(-INFINITY) == 0.0 &&
              draw_exp(-709.0) == 0.0 && isnan(draw_exp(NAN)));
}

Test(sampler, merge_gives_the_order_of_the_whole_vocabulary)
{
    enum { W = 4, EACH = 90, STRIDE = K + 13 };
    static struct row r;
    static float logit[W * STRIDE], got[K];
    static int32_t id[W * STRIDE], got_id[K];
    struct sample_params sp = sample_params_default();
    for (int round = 0; round < 200; round++) {
        random_row(&r, W * EACH, 3.0, round % 2);
        row_finish(&r, &sp);
        for (int w = 0; w < W; w++) {
            struct row part = {.v = EACH};
            memcpy(part.logit, r.logit + w * EACH, EACH * sizeof(float));
            sampler_sort(part.logit, EACH, part.sorted, part.id, scratch);
            for (int i = 0; i < K; i++) {
                logit[w * STRIDE + i] = part.sorted[i];
                id[w * STRIDE + i] = part.id[i] + w * EACH;
            }
        }
        cr_assert_eq(draw_merge(logit, id, W, K, STRIDE, got, got_id), K);
        cr_assert_arr_eq(got_id, r.id, sizeof got_id);
        cr_assert_arr_eq(got, r.sorted, sizeof got);
    }
}

Test(sampler, merge_skips_the_padding_of_short_shards)
{
    const float logit[] = {2, 1, -INFINITY, -INFINITY, 3, -INFINITY, -INFINITY, -INFINITY};
    const int32_t id[] = {0, 1, -1, -1, 2, -1, -1, -1};
    float out[4];
    int32_t out_id[4];
    cr_assert_eq(draw_merge(logit, id, 2, 4, 4, out, out_id), 3);
    cr_assert(out_id[0] == 2 && out_id[1] == 0 && out_id[2] == 1);
}

/* ---- HuggingFace's warpers ---- */

static bool next_case(FILE *f, struct row *r, struct sample_params *sp, double *p)
{
    *sp = sample_params_default();
    if (fscanf(f, "%d %f %u %f %f", &r->v, &sp->temperature, &sp->top_k, &sp->top_p, &sp->min_p) !=
        5)
        return false;
    for (int i = 0; i < r->v; i++)
        cr_assert_eq(fscanf(f, "%f", &r->logit[i]), 1);
    for (int i = 0; i < r->v; i++)
        cr_assert_eq(fscanf(f, "%lf", &p[i]), 1);
    return true;
}

Test(sampler, draws_follow_the_distribution_of_huggingface)
{
    enum { DRAWS = 6000 };
    static struct row r;
    static double p[MAX_V];
    const char *path = own_data("worker/warpers.txt");
    FILE *f = path ? fopen(path, "r") : NULL;
    struct sample_params sp;
    int n_cases = 0;
    cr_assert(f, "tests/data/worker/warpers.txt is missing");
    for (; next_case(f, &r, &sp, p); n_cases++) {
        int count[MAX_V] = {0};
        double chi = 0.0, pooled_p = 0.0;
        int df = -1, pooled = 0;
        sp.seed = (uint64_t)n_cases * 77 + 5;
        row_finish(&r, &sp);
        struct draw_candidates c = first_n(&r, &sp, r.v);
        for (uint64_t d = 0; d < DRAWS; d++) {
            struct result_token t;
            cr_assert_eq(sampler_draw(&sp, &c, d, &t), SAMPLED);
            count[t.token]++;
        }
        for (int i = 0; i < r.v; i++) {
            cr_assert(p[i] > 0.0 || count[i] == 0, "case %d: token %d is filtered out", n_cases, i);
            if (p[i] * DRAWS < 5.0) { /* too rare for the statistic: counted together */
                pooled_p += p[i];
                pooled += count[i];
                continue;
            }
            df++;
            chi += pow(count[i] - p[i] * DRAWS, 2) / (p[i] * DRAWS);
        }
        if (pooled_p * DRAWS >= 5.0) {
            df++;
            chi += pow(pooled - pooled_p * DRAWS, 2) / (pooled_p * DRAWS);
        }
        /* the draws are fixed by their seeds; the limit is that of a chance of about 1e-6 */
        cr_assert(chi < df + 5.0 * sqrt(2.0 * (df > 0 ? df : 0)) + 20.0,
                  "case %d: chi-square %g with %d degrees of freedom", n_cases, chi, df);
    }
    fclose(f);
    cr_assert_eq(n_cases, 108);
}
