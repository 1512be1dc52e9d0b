/* stories260K through the engine:
 * greedy ids, log probabilities and first logits of expected.json. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "rig.h"

static int32_t argmax(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static double logprob(const float *x, int32_t n, int32_t id)
{
    double sum = 0, top = (double)x[argmax(x, n)];
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - top);
    return (double)x[id] - top - log(sum);
}

static int32_t ids_of(const cJSON *list, int32_t *out, int32_t cap)
{
    const cJSON *c;
    int32_t n = 0;
    cJSON_ArrayForEach(c, list)
    {
        cr_assert_lt(n, cap);
        out[n++] = c->valueint;
    }
    return n;
}

static void check_case(struct engine *e, const cJSON *c, uint64_t seq)
{
    int32_t vocab = engine_config(e)->vocab, prompt[64], want[256];
    int32_t n = ids_of(cJSON_GetObjectItem(c, "prompt_ids"), prompt, 64);
    int32_t n_want = ids_of(cJSON_GetObjectItem(c, "ids"), want, 256);
    const cJSON *first = cJSON_GetObjectItem(c, "first_logits");
    const cJSON *logprobs = cJSON_GetObjectItem(c, "logprobs"), *item;
    float *logits = malloc((size_t)vocab * sizeof *logits);
    cr_assert_geq(n_want, 100);
    must(engine_prefill(e, seq, prompt, n, logits), "prefill");
    int32_t i = 0;
    cJSON_ArrayForEach(item, first)
    {
        cr_assert_float_eq((double)logits[i], item->valuedouble, 1e-4, "first logit %d: %g, not %g",
                           i, (double)logits[i], item->valuedouble);
        i++;
    }
    cr_assert_eq(i, vocab);
    item = logprobs->child;
    for (i = 0; i < n_want; i++, item = item->next) {
        int32_t id = argmax(logits, vocab);
        cr_assert_eq(id, want[i], "token %d is %d, not %d", i, id, want[i]);
        cr_assert_float_eq(logprob(logits, vocab, id), item->valuedouble, 1e-4);
        must(engine_decode(e, seq, id, n + i, logits), "decode");
    }
    free(logits);
}

static void check_model(const char *name)
{
    char path[1100];
    size_t size;
    const char *dir = shared_data(name);
    if (!dir)
        cr_skip_test("no shared data: %s", name);
    struct rig r;
    snprintf(path, sizeof path, "%s/expected.json", dir);
    char *text = read_file(path, &size);
    cJSON *root = cJSON_Parse(text), *c;
    cr_assert_not_null(root);
    rig_open(&r, dir, (struct rig_config){.max_ctx = 512, .n_blocks = 64});
    cr_assert_eq(r.mc->n_eos, 2);
    uint64_t seq = 1;
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(root, "cases")) check_case(r.e, c, seq++);
    cr_assert_eq(seq, 4);
    rig_close(&r);
    cJSON_Delete(root);
    free(text);
}

Test(stories, f32)
{
    check_model("models/stories260K");
}

Test(stories, bf16_in_two_files)
{
    check_model("models/stories260K-bf16");
}
