/* Every head size in steps of 16, latent attention, and every KV type: one rank and four, in chunks of 1 to 7 tokens,
 * give the bits of the plain path over the whole prompt, under every instruction set. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "isas.h"
#include "make_model.h"
#include "rig.h"

enum { MOST_CHUNK = 7, N_TOKENS = MOST_CHUNK * (MOST_CHUNK + 1) / 2, VOCAB = 104 };

static const enum dtype types[] = {DT_F32, DT_F16, DT_BF16, DT_I8, DT_E4M3};

struct job {
    bool chunks;                    /* of 1, 2, 3, ... tokens; else one */
    float logits[N_TOKENS * VOCAB]; /* [N_TOKENS, VOCAB], from rank 0 */
};

static enum status forward(void *ctx, struct engine *e, int rank)
{
    struct job *j = ctx;
    int32_t ids[N_TOKENS];
    float *logits = calloc(N_TOKENS * VOCAB, sizeof *logits);
    enum status st = engine_prepare(e, 1, 0);
    for (int32_t i = 0; i < N_TOKENS; i++)
        ids[i] = (i * 7 + 3) % VOCAB;
    for (int32_t at = 0, n = j->chunks ? 1 : N_TOKENS; st == ST_OK && at < N_TOKENS; at += n++)
        st = engine_forward_verify(e, 1, ids + at, n, logits + (size_t)(at * VOCAB));
    if (rank == 0)
        memcpy(j->logits, logits, sizeof j->logits);
    free(logits);
    return st;
}

/* Two query heads for each KV head, so that a tile has twice the chunk's rows on one rank and the
 * chunk's on each of four; a window, so that rows' ranges of keys differ at both ends. */
static const char *model_of(int32_t d)
{
    return toy_make(&(struct toy){.arch = "MistralForCausalLM",
                                  .model_type = "mistral",
                                  .more = ",\"sliding_window\":11",
                                  .n_layers = 1,
                                  .hidden = 24,
                                  .ffn = 40,
                                  .vocab = VOCAB,
                                  .n_q = 4,
                                  .n_kv = 2,
                                  .d_head = d,
                                  .tied = true});
}

static void check_type(const char *dir, int32_t d, enum dtype t)
{
    struct job want = {.chunks = false};
    struct rig_config cfg = {.kv_dtype = t, .block_len = 8, .isa = "plain"};
    rig_group(dir, cfg, 1, forward, &want);
    for (int32_t k = 0; k < N_TOKENS * VOCAB; k++)
        cr_assert(isfinite(want.logits[k]) && want.logits[k] != 0, "logits that test nothing");
    for (size_t i = 0; i < ARRAY_LEN(float_isas); i++) {
        if (!has_isa(float_isas[i]))
            continue;
        cfg.isa = float_isas[i];
        for (int world = 1; world <= 4; world *= 4) {
            struct job got = {.chunks = true};
            rig_group(dir, cfg, world, forward, &got);
            for (int32_t k = 0; k < N_TOKENS * VOCAB; k++)
                cr_assert(memcmp(&got.logits[k], &want.logits[k], sizeof(float)) == 0,
                          "heads of %d, KV %s, %s, world %d: token %d, logit %d: %a, not %a", d,
                          dtype_name(t), float_isas[i], world, k / VOCAB, k % VOCAB,
                          (double)got.logits[k], (double)want.logits[k]);
        }
    }
}

static void check_head(int32_t d)
{
    const char *dir = model_of(d);
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
        check_type(dir, d, types[t]);
    toy_remove(dir);
}

Test(head_sizes, same_bits_in_chunks_and_on_ranks)
{
    check_head(24);
    for (int32_t d = 16; d <= 256; d += 16)
        check_head(d);
}

Test(head_sizes, latent_attention_too)
{
    static const char *const names[] = {"deepseek2-lite-bf16", "deepseek3"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *dir = golden_dir(names[i]);
        for (size_t t = 0; t < ARRAY_LEN(types); t++)
            check_type(dir, 32, types[t]);
    }
}
