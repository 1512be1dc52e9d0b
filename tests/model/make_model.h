/* Writes a small random model in F32 into a fresh directory, for tests that need sizes no fixture
 * has. */
#ifndef TESTS_MODEL_MAKE_MODEL_H
#define TESTS_MODEL_MAKE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

struct toy {
    const char *arch, *model_type; /* NULL: LlamaForCausalLM */
    int32_t n_layers, hidden, ffn, vocab, n_q, n_kv, d_head;
    bool attention_bias, mlp_bias, tied, qk_norm, qkv_bias;
    int32_t n_experts, expert_ffn; /* in every layer, named as those of Qwen3-MoE; 0: dense */
    const char *more; /* further members of config.json, each begun by a comma, or NULL */
};

/* The directory's path, valid until the next call; toy_remove deletes it with its files. */
const char *toy_make(const struct toy *t);
void toy_remove(const char *dir);

#endif
