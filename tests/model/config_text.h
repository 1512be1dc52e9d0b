/* Texts of config.json for tests: one of each architecture, changed by members of another. */
#ifndef TESTS_MODEL_CONFIG_TEXT_H
#define TESTS_MODEL_CONFIG_TEXT_H

#include "common/formats/model_config.h"

#define LLAMA "LlamaForCausalLM"
#define MISTRAL "MistralForCausalLM"
#define QWEN2 "Qwen2ForCausalLM"
#define QWEN3 "Qwen3ForCausalLM"
#define MIXTRAL "MixtralForCausalLM"
#define QWEN3MOE "Qwen3MoeForCausalLM"
#define GEMMA2 "Gemma2ForCausalLM"
#define GEMMA3 "Gemma3ForCausalLM"
#define GEMMA3N "Gemma3nForCausalLM"
#define GEMMA4 "Gemma4ForCausalLM"
#define GRANITE4 "GraniteMoeHybridForCausalLM"
#define FALCONH1 "FalconH1ForCausalLM"
#define BAMBA "BambaForCausalLM"
#define NEMOTRONH "NemotronHForCausalLM"
#define LLAMA4 "Llama4ForCausalLM"
#define PHI3 "Phi3ForCausalLM"
#define MINISTRAL3 "Ministral3ForCausalLM"

/* A small configuration of that architecture; valid until the next call. */
const char *config_base(const char *arch);
/* The base of that architecture with the members of `more`, a JSON object, put in; a member "-"
 * takes the base's member away. */
MUST_CHECK enum status config_parse(const char *arch, const char *more, const char *generation,
                                    struct model_config *mc);
/* The same; a failure fails the test. */
struct model_config config_good(const char *arch, const char *more);

#endif
