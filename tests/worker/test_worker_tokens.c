/* The worker program's tokens: those of other programs, and the same ones whatever the ranks and the
 * batch.  A coordinator inside the test drives it. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "worker/fake.h"

static cJSON *load_json(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = fopen(path, "r"), *m = open_memstream(&text, &n);
    cr_assert(f && m, "cannot read %s", path);
    for (int c; (c = fgetc(f)) != EOF;)
        fputc(c, m);
    fclose(f);
    fclose(m);
    cJSON *j = cJSON_Parse(text);
    free(text);
    cr_assert(j, "%s is not JSON", path);
    return j;
}

static uint32_t int_list(const cJSON *j, const char *name, int32_t *out, uint32_t max)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(j, name), *e;
    uint32_t n = 0;
    cr_assert(cJSON_IsArray(list), "%s is not a list", name);
    cJSON_ArrayForEach(e, list)
    {
        cr_assert(n < max);
        out[n++] = e->valueint;
    }
    return n;
}

/* ---- the right tokens ---- */

/* All prompts of an expected.json at once, greedy. */
static void check_expected(const char *name, int world, const char *coll)
{
    enum { CASES = 3, NEW = 128 };
    static int32_t prompt[CASES][64], ids[CASES][NEW];
    static struct result_token out[CASES][NEW];
    struct fake_stream s[CASES] = {0};
    struct fake f;
    char file[256], model[1024];
    snprintf(file, sizeof file, "models/%s/expected.json", name);
    const char *path = shared_data(file);
    if (!path)
        cr_skip_test("no models/%s in the shared data", name);
    snprintf(model, sizeof model, "%.*s", (int)(strrchr(path, '/') - path), path);
    cJSON *j = load_json(path);
    const cJSON *cases = cJSON_GetObjectItemCaseSensitive(j, "cases");
    cr_assert_eq(cJSON_GetArraySize(cases), CASES);
    for (int i = 0; i < CASES; i++) {
        const cJSON *c = cJSON_GetArrayItem(cases, i);
        s[i] = (struct fake_stream){.seq_id = 100 + (uint64_t)i,
                                    .sp = sample_params_default(),
                                    .prompt = prompt[i],
                                    .n_prompt = int_list(c, "prompt_ids", prompt[i], 64),
                                    .n_new = int_list(c, "ids", ids[i], NEW),
                                    .out = out[i]};
        s[i].sp.temperature = 0.0f;
    }
    cJSON_Delete(j);
    fake_start(&f, world, model, coll, FAKE_LEASE_MS);
    fake_generate(&f, s, CASES, 3);
    for (int i = 0; i < CASES; i++)
        for (uint32_t k = 0; k < s[i].n_new; k++)
            cr_assert_eq(out[i][k].token, ids[i][k], "prompt %d, token %u: %d, expected %d", i, k,
                         out[i][k].token, ids[i][k]);
    fake_shut_down(&f);
}

Test(stories, one_rank)
{
    check_expected("stories260K", 1, "auto");
}

Test(stories, two_ranks_shm)
{
    check_expected("stories260K", 2, "shm");
}

Test(stories, two_ranks_mpi)
{
    check_expected("stories260K", 2, "mpi");
}

Test(stories, four_ranks_shm)
{
    check_expected("stories260K", 4, "shm");
}

Test(stories, four_ranks_mpi)
{
    check_expected("stories260K", 4, "mpi");
}

Test(stories, bf16_shards_on_two_ranks)
{
    check_expected("stories260K-bf16", 2, "auto");
}

/* The fixture's positions one after the other: each greedy token is the greatest of HuggingFace's
 * logits. */
static void check_fixture(int world, uint32_t chunk)
{
    enum { V = 104, N = 68, FIRST = 20 };
    static int32_t ids[N];
    static float logits[N][V];
    static struct result_token out[N];
    char path[600];
    struct fake f;
    snprintf(path, sizeof path, "%s/expected.json", fake_tiny_model());
    cJSON *j = load_json(path);
    cr_assert_eq(int_list(j, "input_ids", ids, N), N);
    cJSON_Delete(j);
    snprintf(path, sizeof path, "%s/logits.f32", fake_tiny_model());
    FILE *file = fopen(path, "rb");
    cr_assert(file && fread(logits, sizeof logits, 1, file) == 1);
    fclose(file);
    struct fake_stream s = {.seq_id = 7,
                            .sp = sample_params_default(),
                            .prompt = ids,
                            .n_prompt = FIRST,
                            .n_new = N - FIRST + 1,
                            .forced = true,
                            .out = out};
    s.sp.temperature = 0.0f;
    fake_start(&f, world, fake_tiny_model(), "auto", FAKE_LEASE_MS);
    cr_assert(fake_logged(&f, "first steps in "));
    fake_generate(&f, &s, 1, chunk);
    for (int i = FIRST; i <= N; i++) {
        int32_t token = out[i - FIRST].token;
        for (int32_t v = 0; v < V; v++) /* 1e-4: what the project promises of its logits */
            cr_assert(logits[i - 1][v] <= logits[i - 1][token] + 1e-4f,
                      "position %d: %d, HuggingFace has %d", i, token, v);
    }
    fake_shut_down(&f);
}

Test(fixture, one_rank)
{
    check_fixture(1, 64);
}

Test(fixture, two_ranks)
{
    check_fixture(2, 7);
}

Test(fixture, four_ranks)
{
    check_fixture(4, 64);
}

/* ---- the same tokens, whatever the world ---- */

enum { N_MIXED = 8, NEW_MIXED = 40 };

static struct result_token mixed[3][N_MIXED][NEW_MIXED];
static const int32_t mixed_prompt[] = {1, 5, 77, 100, 9, 9, 42, 17, 3, 88, 21};
static const int32_t mixed_stop[] = {2, 50, 51, 52};
static const struct logit_bias mixed_bias[] = {{10, 3.5f}, {90, -100.0f}};

static void mixed_streams(struct fake_stream *s, struct result_token out[N_MIXED][NEW_MIXED])
{
    for (int i = 0; i < N_MIXED; i++) {
        s[i] = (struct fake_stream){.seq_id = 1 + (uint64_t)i,
                                    .sp = sample_params_default(),
                                    .prompt = mixed_prompt,
                                    .n_prompt = 3 + (uint32_t)i,
                                    .n_new = NEW_MIXED - (uint32_t)i,
                                    .out = out[i]};
        s[i].sp.seed = 1000 + (uint64_t)i;
        s[i].sp.top_logprobs = (uint32_t)(i * 20 / 7);
    }
    s[1].sp.temperature = 3.0f; /* flat over 104 tokens: 64 candidates often do not decide */
    s[2].sp.top_p = 0.9f;
    s[3].sp.top_k = 90; /* more than there are candidates: always the whole row */
    s[4].sp.min_p = 0.3f;
    s[5].sp.temperature = 0.0f;
    s[5].sp.repetition_penalty = 1.3f;
    s[6].sp.presence_penalty = 1.5f;
    s[6].sp.frequency_penalty = 0.5f;
    s[7].sp.min_new = 20;
    s[7].stop_ids = mixed_stop;
    s[7].n_stop_ids = 4;
    s[7].bias = mixed_bias;
    s[7].n_bias = 2;
}

static void run_mixed(int world, const char *coll, uint32_t chunk,
                      struct result_token out[N_MIXED][NEW_MIXED])
{
    struct fake_stream s[N_MIXED];
    struct fake f;
    mixed_streams(s, out);
    fake_start(&f, world, fake_tiny_model(), coll, FAKE_LEASE_MS);
    fake_generate(&f, s, N_MIXED, chunk);
    fake_shut_down(&f);
}

static void check_same(struct result_token a[N_MIXED][NEW_MIXED],
                       struct result_token b[N_MIXED][NEW_MIXED])
{
    for (int i = 0; i < N_MIXED; i++)
        for (int k = 0; k < NEW_MIXED - i; k++) {
            cr_assert_eq(a[i][k].token, b[i][k].token, "stream %d, token %d", i, k);
            cr_assert_eq(a[i][k].logprob, b[i][k].logprob, "stream %d, logprob %d", i, k);
            cr_assert_eq(a[i][k].n_top, b[i][k].n_top);
            cr_assert_arr_eq(a[i][k].top, b[i][k].top, a[i][k].n_top * sizeof a[i][k].top[0]);
        }
}

Test(same_bytes, one_two_and_four_ranks)
{
    run_mixed(1, "auto", 8, mixed[0]);
    run_mixed(2, "shm", 3, mixed[1]);
    run_mixed(4, "mpi", 1, mixed[2]);
    check_same(mixed[0], mixed[1]);
    check_same(mixed[0], mixed[2]);
    /* the parameters did something: bias, minimum and penalties show */
    for (int k = 0; k < NEW_MIXED - 7; k++) {
        cr_assert_neq(mixed[0][7][k].token, 90);
        for (int i = 0; i < 4 && k < 20; i++)
            cr_assert_neq(mixed[0][7][k].token, mixed_stop[i]);
    }
}

Test(same_bytes, alone_and_in_a_batch)
{
    static struct result_token alone[NEW_MIXED];
    struct fake_stream s[N_MIXED];
    struct fake f;
    run_mixed(1, "auto", 8, mixed[0]);
    fake_start(&f, 1, fake_tiny_model(), "auto", FAKE_LEASE_MS);
    for (int i = 0; i < N_MIXED; i++) {
        mixed_streams(s, mixed[1]);
        s[i].out = alone;
        fake_generate(&f, &s[i], 1, 64);
        for (uint32_t k = 0; k < s[i].n_new; k++) {
            cr_assert_eq(alone[k].token, mixed[0][i][k].token, "stream %d, token %u", i, k);
            cr_assert_eq(alone[k].logprob, mixed[0][i][k].logprob);
        }
    }
    fake_shut_down(&f);
}
