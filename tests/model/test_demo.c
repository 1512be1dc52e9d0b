/* The demo model against HuggingFace transformers: greedy ids of tests/golden/demo_expected.json,
 * on one, two and four ranks. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>

#include "rig.h"

enum { MAX_IDS = 1024 };

static int32_t argmax(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static int32_t ids_of(const cJSON *list, int32_t *out)
{
    const cJSON *c;
    int32_t n = 0;
    cJSON_ArrayForEach(c, list) if (n < MAX_IDS) out[n++] = c->valueint;
    return n;
}

/* On ranks other than threads of Criterion's own, so without its assertions. */
static enum status run_case(struct engine *e, const cJSON *c, float *logits)
{
    int32_t prompt[MAX_IDS], want[MAX_IDS], vocab = engine_config(e)->vocab;
    int32_t n = ids_of(cJSON_GetObjectItem(c, "prompt_ids"), prompt);
    int32_t n_want = ids_of(cJSON_GetObjectItem(c, "ids"), want);
    if (n < 1 || n_want < 1)
        FAIL(ST_FORMAT, "a case without ids");
    TRY(engine_prefill(e, 1, prompt, n, logits));
    for (int32_t i = 0; i < n_want; i++) {
        int32_t id = argmax(logits, vocab);
        if (id != want[i])
            FAIL(ST_BUG, "token %d after %d is %d, not %d", i, n, id, want[i]);
        TRY(engine_decode(e, 1, id, n + i, logits));
    }
    engine_release(e, 1);
    return ST_OK;
}

static enum status run_cases(void *ctx, struct engine *e, int rank)
{
    static const char *const lists[] = {"cases", "raw"};
    float *logits = malloc((size_t)engine_config(e)->vocab * sizeof *logits);
    enum status st = ST_OK;
    (void)rank;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const cJSON *c;
        cJSON_ArrayForEach(c, cJSON_GetObjectItem(ctx, lists[i])) if (st == ST_OK) st =
            run_case(e, c, logits);
    }
    free(logits);
    return st;
}

Test(demo, greedy_ids)
{
    const char *path = INGOT_SOURCE_DIR "/tests/golden/demo_expected.json";
    size_t size;
    if (access(path, R_OK) != 0)
        cr_skip_test("no tests/golden/demo_expected.json");
    char *text = read_file(path, &size);
    cJSON *root = cJSON_Parse(text);
    cr_assert_not_null(root);
    cr_assert_geq(cJSON_GetArraySize(cJSON_GetObjectItem(root, "cases")), 4);
    for (int world = 1; world <= 4; world *= 2)
        rig_group(INGOT_SOURCE_DIR "/deploy/demo-model",
                  (struct rig_config){.max_ctx = MAX_IDS, .n_blocks = 64, .max_out = 4}, world,
                  run_cases, root);
    cJSON_Delete(root);
    free(text);
}
