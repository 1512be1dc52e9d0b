/* Configurations that are refused by name, and values that change nothing. */
#include <criterion/criterion.h>
#include <string.h>

#include "config_text.h"
#include "guard.h"

#define QUANT(METHOD, MORE) "{\"quantization_config\":{\"quant_method\":\"" METHOD "\"" MORE "}}"
#define GPTQ(MORE) QUANT("gptq", ",\"bits\":4,\"group_size\":32" MORE)
#define AWQ(MORE) QUANT("awq", ",\"bits\":4,\"group_size\":32" MORE)
/* compressed-tensors: members of the configuration; of the only group; of its weights */
#define COMPRESSED(MORE, GROUP, WEIGHTS)                                                           \
    QUANT("compressed-tensors", MORE ",\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],"  \
                                     "\"weights\":{\"num_bits\":4" WEIGHTS "}" GROUP "}}")
#define PACKED(WEIGHTS) COMPRESSED(",\"format\":\"pack-quantized\"", "", WEIGHTS)
#define FLOATS(WEIGHTS)                                                                            \
    COMPRESSED(",\"format\":\"float-quantized\"", "", ",\"type\":\"float\"" WEIGHTS)
#define NVFP4(WEIGHTS)                                                                             \
    COMPRESSED(",\"format\":\"nvfp4-pack-quantized\"", "", ",\"type\":\"float\"" WEIGHTS)
#define FP8(MORE) "{\"quantization_config\":{\"quant_method\":\"fp8\"" MORE "}}"

static const struct {
    const char *arch, *more;
    enum status st;
    const char *text;
} bad[] = {
    {LLAMA, "{\"architectures\":\"-\",\"model_type\":\"-\"}", ST_FORMAT, "architectures must be"},
    {LLAMA, "{\"architectures\":\"-\",\"model_type\":\"bloom\"}", ST_UNSUPPORTED,
     "the model_type \"bloom\" is not supported"},
    {LLAMA, "{\"architectures\":[]}", ST_FORMAT, "architectures must be"},
    {LLAMA, "{\"architectures\":[\"BloomForCausalLM\"]}", ST_UNSUPPORTED,
     "BloomForCausalLM is not supported (LlamaForCausalLM"},
    {LLAMA, "{\"model_type\":\"mistral\"}", ST_UNSUPPORTED, "model_type \"mistral\""},
    {LLAMA, "{\"hidden_size\":\"-\"}", ST_FORMAT, "hidden_size is missing"},
    {LLAMA, "{\"vocab_size\":\"100\"}", ST_FORMAT, "vocab_size must be a number"},
    {LLAMA, "{\"vocab_size\":0}", ST_RANGE, "vocab_size is 0"},
    {LLAMA, "{\"vocab_size\":100.5}", ST_FORMAT, "vocab_size is 100.5"},
    {LLAMA, "{\"hidden_size\":1e300}", ST_RANGE, "hidden_size"},
    {LLAMA, "{\"num_hidden_layers\":513}", ST_RANGE, "num_hidden_layers"},
    {LLAMA, "{\"num_attention_heads\":6}", ST_RANGE, "hidden_size 64 is no multiple"},
    {LLAMA, "{\"num_key_value_heads\":3}", ST_RANGE, "4 attention heads cannot share 3"},
    {LLAMA, "{\"head_dim\":15}", ST_RANGE, "a head of 15"},
    {LLAMA, "{\"num_attention_heads\":65536,\"head_dim\":65536}", ST_RANGE, "too many"},
    {LLAMA, "{\"hidden_act\":\"relu6\"}", ST_UNSUPPORTED, "hidden_act \"relu6\""},
    {LLAMA, "{\"torch_dtype\":\"float8\"}", ST_UNSUPPORTED, "torch_dtype \"float8\""},
    {LLAMA, "{\"rms_norm_eps\":-1}", ST_RANGE, "rms_norm_eps"},
    {LLAMA, "{\"tie_word_embeddings\":1}", ST_FORMAT, "tie_word_embeddings must be true or false"},
    {LLAMA, "{\"eos_token_id\":[1,2.5]}", ST_RANGE, "eos_token_id"},
    {LLAMA, "{\"eos_token_id\":-2}", ST_RANGE, "eos_token_id"},
    {QWEN3MOE, "{\"num_experts\":\"-\"}", ST_FORMAT, "num_experts is missing"},
    {MIXTRAL, "{\"num_local_experts\":\"-\"}", ST_FORMAT, "num_local_experts is missing"},
    {QWEN3MOE, "{\"num_experts\":0}", ST_RANGE, "num_experts is 0"},
    {QWEN3MOE, "{\"num_local_experts\":4}", ST_FORMAT, "num_experts is 8, num_local_experts 4"},
    {QWEN3MOE, "{\"num_experts_per_tok\":9}", ST_RANGE, "num_experts_per_tok is 9"},
    {QWEN3MOE, "{\"num_experts_per_tok\":\"-\"}", ST_FORMAT, "num_experts_per_tok is missing"},
    {QWEN3MOE, "{\"moe_intermediate_size\":\"-\"}", ST_FORMAT, "moe_intermediate_size is missing"},
    {QWEN3MOE, "{\"decoder_sparse_step\":0}", ST_RANGE, "decoder_sparse_step is 0"},
    {QWEN3MOE, "{\"mlp_only_layers\":[4]}", ST_RANGE, "mlp_only_layers has an entry"},
    {QWEN3MOE, "{\"mlp_only_layers\":[-1]}", ST_RANGE, "mlp_only_layers has an entry"},
    {QWEN3MOE, "{\"mlp_only_layers\":2}", ST_FORMAT, "mlp_only_layers is no list"},
    {QWEN3MOE, "{\"shared_expert_intermediate_size\":64}", ST_UNSUPPORTED,
     "shared_expert_intermediate_size = 64"},
    {QWEN3MOE, "{\"use_qk_norm\":false}", ST_UNSUPPORTED, "use_qk_norm = false"},
    {MIXTRAL, "{\"moe_intermediate_size\":8}", ST_UNSUPPORTED, "moe_intermediate_size = 8"},
    {"Qwen2MoeForCausalLM", "{\"shared_expert_intermediate_size\":\"-\"}", ST_FORMAT,
     "shared_expert_intermediate_size is missing"},
    {"Qwen2MoeForCausalLM", "{\"qkv_bias\":false}", ST_UNSUPPORTED, "qkv_bias = false"},
    {"Glm4MoeForCausalLM", "{\"n_routed_experts\":\"-\"}", ST_FORMAT,
     "n_routed_experts is missing"},
    {"Glm4MoeForCausalLM", "{\"n_group\":3}", ST_RANGE, "8 experts in 3 groups"},
    {"Glm4MoeForCausalLM", "{\"topk_group\":2}", ST_RANGE, "8 experts in 1 groups"},
    {"Glm4MoeForCausalLM", "{\"n_group\":8,\"topk_group\":1}", ST_RANGE, "1 groups of 1"},
    {"Glm4MoeForCausalLM", "{\"n_shared_experts\":1024,\"moe_intermediate_size\":16777216}",
     ST_RANGE, "n_shared_experts 1024"},
    {"Glm4MoeLiteForCausalLM", "{\"mlp_layer_types\":[\"dense\",\"sparse\"]}", ST_FORMAT,
     "mlp_layer_types must be a list of num_hidden_layers (4)"},
    {"Glm4MoeLiteForCausalLM", "{\"mlp_layer_types\":[\"dense\",\"moe\",\"sparse\",\"sparse\"]}",
     ST_UNSUPPORTED, "mlp_layer_types[1] is \"moe\""},
    {"Glm4MoeLiteForCausalLM", "{\"mlp_layer_types\":{\"a\":1}}", ST_FORMAT, "mlp_layer_types"},
    {"Glm4MoeLiteForCausalLM", "{\"first_k_dense_replace\":2}", ST_UNSUPPORTED,
     "first_k_dense_replace 2 does not agree"},
    {"Glm4MoeLiteForCausalLM", "{\"routed_scaling_factor\":\"-\"}", ST_FORMAT,
     "routed_scaling_factor is missing"},
    {"Glm4MoeForCausalLM", "{\"mlp_layer_types\":[\"dense\"]}", ST_UNSUPPORTED, "mlp_layer_types"},
    {"Dots1ForCausalLM", "{\"norm_topk_prob\":\"-\"}", ST_FORMAT, "norm_topk_prob is missing"},
    {"Dots1ForCausalLM", "{\"n_shared_experts\":\"-\"}", ST_FORMAT, "n_shared_experts is missing"},
    {"Dots1ForCausalLM", "{\"sliding_window\":4096}", ST_UNSUPPORTED, "sliding_window = 4096"},
    {"MiniMaxM2ForCausalLM", "{\"rotary_dim\":32}", ST_RANGE, "rotary_dim"},
    {"MiniMaxM2ForCausalLM", "{\"rotary_dim\":7}", ST_RANGE, "7 rotated elements"},
    {"MiniMaxM2ForCausalLM", "{\"attn_type_list\":[1,0,1,1]}", ST_UNSUPPORTED,
     "attn_type_list = [1,0,1,1]"},
    {"MiniMaxM2ForCausalLM", "{\"use_routing_bias\":false}", ST_UNSUPPORTED, "use_routing_bias"},
    {"MiniMaxM2ForCausalLM", "{\"scoring_func\":\"softmax\"}", ST_UNSUPPORTED, "scoring_func"},
    {"MiniMaxM2ForCausalLM", "{\"shared_intermediate_size\":64}", ST_UNSUPPORTED,
     "shared_intermediate_size = 64"},
    {"MiniMaxM2ForCausalLM", "{\"qk_norm_type\":\"per_head\"}", ST_UNSUPPORTED, "qk_norm_type"},
    {LLAMA, "{\"attn_type_list\":[0]}", ST_UNSUPPORTED, "attn_type_list"},
    {LLAMA, "{\"rotary_dim\":8}", ST_UNSUPPORTED, "rotary_dim = 8"},
    {LLAMA, "{\"attention_out_bias\":true}", ST_UNSUPPORTED, "attention_out_bias = true"},
    {"OlmoeForCausalLM", "{\"clip_qkv\":8.0}", ST_UNSUPPORTED, "clip_qkv = 8"},
    {"GptOssForCausalLM", "{\"rope_parameters\":\"-\"}", ST_FORMAT, "rope_parameters is missing"},
    {"GptOssForCausalLM",
     "{\"quantization_config\":{\"quant_method\":\"mxfp4\"},\"hidden_size\":48}", ST_RANGE,
     "mxfp4: hidden_size 48"},
    {"GptOssForCausalLM", QUANT("quark", ""), ST_UNSUPPORTED, "of the method \"quark\""},
    {"GptOssForCausalLM", "{\"swiglu_limit\":-1}", ST_RANGE, "swiglu_limit"},
    {QWEN3, "{\"quantization_config\":{\"quant_method\":\"mxfp4\"}}", ST_UNSUPPORTED,
     "of the method \"mxfp4\""},
    {"Cohere2ForCausalLM", "{\"use_parallel_block\":false}", ST_UNSUPPORTED, "use_parallel_block"},
    {"Cohere2ForCausalLM", "{\"rms_norm_eps\":1e-5}", ST_UNSUPPORTED, "rms_norm_eps"},
    {"Cohere2ForCausalLM", "{\"use_qk_norm\":true}", ST_UNSUPPORTED, "use_qk_norm = true"},
    {"Starcoder2ForCausalLM", "{\"norm_type\":\"rms_norm\"}", ST_UNSUPPORTED, "norm_type"},
    {QWEN3, "{\"num_experts\":8}", ST_UNSUPPORTED, "num_experts = 8"},
    {LLAMA, "{\"architectures\":[\"Qwen2MoeForCausalLM\"]}", ST_UNSUPPORTED,
     "model_type \"llama\" does not belong to Qwen2MoeForCausalLM"},
    {LLAMA, "{\"architectures\":[\"DeepseekForCausalLM\"]}", ST_UNSUPPORTED,
     "the architecture DeepseekForCausalLM is not supported"},
    /* what would change the result and is not known */
    {LLAMA, "{\"partial_rotary_factor\":0.5}", ST_UNSUPPORTED, "partial_rotary_factor = 0.5"},
    {LLAMA, "{\"logit_scale\":0.0625}", ST_UNSUPPORTED, "logit_scale = 0.0625"},
    {LLAMA, "{\"final_logit_softcapping\":30}", ST_UNSUPPORTED, "final_logit_softcapping = 30"},
    {LLAMA, QUANT("hqq", ""), ST_UNSUPPORTED,
     "quantization_config: weights of the method \"hqq\" are not supported"},
    {LLAMA, QUANT("bitsandbytes", ""), ST_UNSUPPORTED, "load_in_4bit and load_in_8bit"},
    {LLAMA, QUANT("bitsandbytes", ",\"load_in_4bit\":true,\"load_in_8bit\":true"), ST_UNSUPPORTED,
     "load_in_4bit and load_in_8bit"},
    {LLAMA, QUANT("bitsandbytes", ",\"load_in_4bit\":1"), ST_FORMAT, "load_in_4bit must be"},
    {LLAMA, QUANT("bitsandbytes", ",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"af4\""),
     ST_UNSUPPORTED, "bnb_4bit_quant_type = \"af4\""},
    {LLAMA, QUANT("bitsandbytes", ",\"load_in_4bit\":true,\"bnb_4bit_quant_storage\":\"bfloat16\""),
     ST_UNSUPPORTED, "bnb_4bit_quant_storage = \"bfloat16\""},
    {LLAMA, QUANT("bitsandbytes", ",\"load_in_8bit\":true,\"llm_int8_skip_modules\":7"), ST_FORMAT,
     "llm_int8_skip_modules is not a list"},
    {LLAMA, QUANT("modelopt", ""), ST_UNSUPPORTED, "quant_algo = \"?\""},
    {LLAMA, QUANT("modelopt", ",\"quant_algo\":\"W4A16_AWQ\""), ST_UNSUPPORTED,
     "quant_algo = \"W4A16_AWQ\""},
    {LLAMA, QUANT("modelopt", ",\"quant_algo\":\"FP8\",\"ignore\":[1]"), ST_FORMAT,
     "ignore has an entry"},
    {LLAMA, QUANT("auto-round", ""), ST_UNSUPPORTED, "of the method \"auto-round\""},
    {LLAMA, QUANT("gptq", ""), ST_FORMAT, "bits is missing"},
    {LLAMA, QUANT("gptq", ",\"bits\":3"), ST_UNSUPPORTED,
     "bits = 3 is not supported (4 and 8 are)"},
    {LLAMA, QUANT("gptq", ",\"bits\":\"4\""), ST_FORMAT, "bits must be a number"},
    {LLAMA, QUANT("gptq", ",\"bits\":4,\"group_size\":0"), ST_RANGE, "group_size is 0"},
    {LLAMA, QUANT("gptq", ",\"bits\":4,\"group_size\":-2"), ST_RANGE, "group_size is -2"},
    {LLAMA, GPTQ(",\"sym\":1"), ST_FORMAT, "sym must be true or false"},
    {LLAMA, GPTQ(",\"desc_act\":\"no\""), ST_FORMAT, "desc_act must be true or false"},
    {LLAMA, GPTQ(",\"checkpoint_format\":\"marlin\""), ST_UNSUPPORTED,
     "checkpoint_format = \"marlin\" is not supported"},
    {LLAMA, GPTQ(",\"format\":\"bitblas\""), ST_UNSUPPORTED, "format = \"bitblas\""},
    {LLAMA, GPTQ(",\"is_marlin_format\":true"), ST_UNSUPPORTED, "is_marlin_format"},
    {LLAMA, GPTQ(",\"pack_dtype\":\"int64\""), ST_UNSUPPORTED, "pack_dtype = \"int64\""},
    {LLAMA, GPTQ(",\"adapter\":{\"rank\":8}"), ST_UNSUPPORTED, "adapter"},
    {LLAMA, GPTQ(",\"rotation\":\"hadamard\""), ST_UNSUPPORTED, "rotation"},
    {LLAMA, GPTQ(",\"dynamic\":[]"), ST_FORMAT, "dynamic is not an object"},
    {LLAMA, GPTQ(",\"dynamic\":{\"+:.*up\":{\"bits\":8}}"), ST_UNSUPPORTED,
     "a rule of its own for +:.*up"},
    {LLAMA, QUANT("awq", ",\"bits\":8"), ST_UNSUPPORTED, "bits = 8 is not supported (4 is)"},
    {LLAMA, AWQ(",\"version\":\"gemv\""), ST_UNSUPPORTED, "version = \"gemv\""},
    {LLAMA, AWQ(",\"version\":4"), ST_FORMAT, "version must be"},
    {LLAMA, AWQ(",\"backend\":\"llm-awq\""), ST_UNSUPPORTED, "backend = \"llm-awq\""},
    {LLAMA, AWQ(",\"zero_point\":false"), ST_UNSUPPORTED, "zero_point = false"},
    {LLAMA, AWQ(",\"modules_to_not_convert\":[1]"), ST_FORMAT,
     "modules_to_not_convert has an entry"},
    {LLAMA, QUANT("compressed-tensors", ""), ST_FORMAT, "config_groups is not an object"},
    {LLAMA, QUANT("compressed-tensors", ",\"config_groups\":{\"a\":{},\"b\":{}}"), ST_UNSUPPORTED,
     "has 2 schemes"},
    {LLAMA, QUANT("compressed-tensors", ",\"config_groups\":{\"a\":{}}"), ST_UNSUPPORTED,
     "a scheme without weights"},
    {LLAMA, COMPRESSED("", "", ""), ST_UNSUPPORTED, "format = \"?\""},
    {LLAMA, COMPRESSED(",\"format\":\"mixed-precision\"", "", ""), ST_UNSUPPORTED,
     "format = \"mixed-precision\""},
    {LLAMA, COMPRESSED(",\"format\":\"int-quantized\"", "", ""), ST_UNSUPPORTED, "num_bits = 4"},
    {LLAMA, COMPRESSED("", ",\"format\":\"marlin-24\"", ""), ST_UNSUPPORTED, "\"marlin-24\""},
    {LLAMA, COMPRESSED(",\"format\":\"pack-quantized\",\"ignore\":7", "", ""), ST_FORMAT,
     "ignore is not a list"},
    {LLAMA, FLOATS(",\"strategy\":\"channel\""), ST_UNSUPPORTED, "floats of 4 bits in the format"},
    {LLAMA, NVFP4(",\"strategy\":\"group\""), ST_UNSUPPORTED,
     "strategy = \"group\" with group_size 16"},
    {LLAMA, NVFP4(",\"strategy\":\"tensor_group\",\"group_size\":32"), ST_UNSUPPORTED,
     "with group_size 32 is not supported for the format \"nvfp4-pack-quantized\""},
    {LLAMA, NVFP4(",\"strategy\":\"tensor_group\",\"symmetric\":false"), ST_UNSUPPORTED,
     "with group_size 16 and zero points"},
    {LLAMA, COMPRESSED(",\"transform_config\":{\"a\":{}}", "", ""), ST_UNSUPPORTED,
     "transform_config"},
    {LLAMA, COMPRESSED(",\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}", "", ""),
     ST_UNSUPPORTED, "sparsity_config: format = \"sparse-24-bitmask\""},
    {LLAMA, PACKED(",\"type\":\"code\""), ST_UNSUPPORTED, "type = \"code\""},
    {LLAMA, PACKED(",\"strategy\":\"block\""), ST_UNSUPPORTED, "strategy = \"block\""},
    {LLAMA, PACKED(",\"strategy\":\"group\""), ST_FORMAT, "group_size is missing"},
    {LLAMA, PACKED(",\"strategy\":\"group\",\"group_size\":0"), ST_RANGE, "group_size is 0"},
    {LLAMA, PACKED(",\"actorder\":\"random\""), ST_UNSUPPORTED, "actorder is none of"},
    {LLAMA, PACKED(",\"symmetric\":0"), ST_FORMAT, "symmetric must be true or false"},
    {LLAMA, FLOATS(""), ST_UNSUPPORTED, "floats of 4 bits"},
    {LLAMA, FLOATS(",\"num_bits\":8"), ST_FORMAT, "num_bits"},
    {LLAMA, FP8(",\"fmt\":\"e5m2\""), ST_UNSUPPORTED, "quantization_config: fmt = \"e5m2\""},
    {LLAMA, FP8(",\"activation_scheme\":7"), ST_UNSUPPORTED, "activation_scheme"},
    {LLAMA, FP8(",\"scale_fmt\":\"ue8m0\""), ST_UNSUPPORTED, "scale_fmt = \"ue8m0\""},
    {LLAMA, FP8(",\"modules_to_not_convert\":3"), ST_FORMAT,
     "modules_to_not_convert is not a list"},
    {LLAMA, FP8(",\"ignored_layers\":[3]"), ST_FORMAT, "ignored_layers has an entry"},
    {LLAMA, FP8(",\"weight_block_size\":[128]"), ST_FORMAT, "weight_block_size is not"},
    {LLAMA, FP8(",\"weight_block_size\":[128,0]"), ST_RANGE, "weight_block_size [128, 0]"},
    {LLAMA, FP8(",\"weight_block_size\":[1.5,128]"), ST_RANGE, "weight_block_size [1.5, 128]"},
    {LLAMA, FP8(",\"weight_block_size\":[128,64]"), ST_UNSUPPORTED, "a multiple of 128"},
    {LLAMA, "{\"quantization_config\":{\"bits\":4}}", ST_UNSUPPORTED, "of the method \"?\""},
    {LLAMA, "{\"auto_map\":{\"AutoModel\":\"x.Y\"}}", ST_UNSUPPORTED, "auto_map"},
    {LLAMA, "{\"is_causal\":false}", ST_UNSUPPORTED, "is_causal = false"},
    {LLAMA, "{\"sliding_window\":16}", ST_UNSUPPORTED, "sliding_window = 16"},
    {LLAMA, "{\"something_new\":[1,2,3]}", ST_UNSUPPORTED, "something_new = [1,2,3]"},
    {LLAMA,
     "{\"something_long\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}",
     ST_UNSUPPORTED, "something_long = ..."},
    {MISTRAL, "{\"attention_bias\":true}", ST_UNSUPPORTED, "attention_bias = true"},
    {MISTRAL, "{\"use_sliding_window\":true}", ST_UNSUPPORTED, "use_sliding_window = true"},
    {QWEN2, "{\"attention_bias\":true}", ST_UNSUPPORTED, "attention_bias = true"},
    {QWEN2, "{\"mlp_bias\":true}", ST_UNSUPPORTED, "mlp_bias = true"},
    {QWEN2, "{\"use_mrope\":true}", ST_UNSUPPORTED, "use_mrope = true"},
    {MISTRAL, "{\"sliding_window\":0}", ST_RANGE, "sliding_window is 0"},
    {QWEN2, "{\"layer_types\":[\"full_attention\"]}", ST_FORMAT, "layer_types must be a list"},
    {QWEN2,
     "{\"layer_types\":[\"full_attention\",\"full_attention\",\"full_attention\","
     "\"sliding_attention\"]}",
     ST_FORMAT, "no sliding window is in use"},
    {QWEN2,
     "{\"layer_types\":[\"full_attention\",\"linear_attention\",\"full_attention\","
     "\"full_attention\"]}",
     ST_UNSUPPORTED, "layer_types[1] is \"linear_attention\""},
    {MISTRAL,
     "{\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\","
     "\"sliding_attention\"]}",
     ST_UNSUPPORTED, "are alike"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}}", ST_UNSUPPORTED,
     "type \"dynamic\" is not supported"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[1]}}", ST_UNSUPPORTED,
     "the type \"mrope\" is not supported"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"linear\"}}", ST_FORMAT, "factor is missing"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}}", ST_RANGE, "factor is 0"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"linear\",\"rope_type\":\"yarn\",\"factor\":2}}",
     ST_FORMAT, "the type \"linear\" and the rope_type \"yarn\""},
    {LLAMA,
     "{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,"
     "\"high_freq_factor\":4}}",
     ST_RANGE, "high_freq_factor"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4}}",
     ST_FORMAT, "high_freq_factor is missing"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"beta_fast\":1,\"beta_slow\":2}}",
     ST_RANGE, "beta_fast 1 is less"},
    {LLAMA, "{\"rope_scaling\":7}", ST_FORMAT, "rope_scaling must be an object"},
    {LLAMA, "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},\"rope_parameters\":{}}",
     ST_FORMAT, "which holds"},
    {LLAMA, "{\"rope_theta\":2,\"rope_parameters\":{\"rope_theta\":3}}", ST_FORMAT, "which holds"},
    {LLAMA, "{\"rope_parameters\":{\"full_attention\":{\"rope_theta\":3}}}", ST_UNSUPPORTED,
     "rope_parameters.full_attention"},
    {LLAMA, "{\"hidden_activation\":\"gelu\"}", ST_UNSUPPORTED, "hidden_activation"},
    {GEMMA2, "{\"use_bidirectional_attention\":true}", ST_UNSUPPORTED,
     "use_bidirectional_attention = true"},
    {GEMMA2, "{\"attention_bias\":true}", ST_UNSUPPORTED, "attention_bias = true"},
    {GEMMA2, "{\"attn_logit_softcapping\":0}", ST_RANGE, "attn_logit_softcapping is 0"},
    {GEMMA2, "{\"query_pre_attn_scalar\":\"x\"}", ST_FORMAT, "query_pre_attn_scalar"},
    {GEMMA2, "{\"rope_local_base_freq\":5}", ST_UNSUPPORTED, "rope_local_base_freq = 5"},
    {GEMMA3, "{\"sliding_window_pattern\":0}", ST_RANGE, "sliding_window_pattern is 0"},
    {GEMMA3, "{\"rope_parameters\":{\"rope_theta\":5}}", ST_UNSUPPORTED,
     "rope_parameters.rope_theta is not understood"},
    {PHI3, "{\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1]}}", ST_FORMAT,
     "short_factor must be a list of 8 numbers"},
    {PHI3,
     "{\"partial_rotary_factor\":0.25,\"rope_scaling\":{\"type\":\"longrope\","
     "\"short_factor\":[1,2],\"long_factor\":[1,0]}}",
     ST_RANGE, "long_factor[1]"},
    {MINISTRAL3, "{}", ST_FORMAT, "rope_parameters is missing"},
    {PHI3, "{\"partial_rotary_factor\":0.1}", ST_RANGE, "rotates nothing of a head of 16"},
    {"SmolLM3ForCausalLM", "{\"no_rope_layers\":[1,0]}", ST_FORMAT,
     "no_rope_layers must be a list"},
    {"SmolLM3ForCausalLM", "{\"no_rope_layers\":[1,0,2,1]}", ST_RANGE, "no_rope_layers[2]"},
    {"SmolLM3ForCausalLM", "{\"use_sliding_window\":true}", ST_UNSUPPORTED,
     "use_sliding_window = true"},
    {"GraniteForCausalLM", "{\"attention_bias\":true}", ST_UNSUPPORTED, "attention_bias = true"},
    {"GraniteForCausalLM", "{\"logits_scaling\":0}", ST_RANGE, "logits_scaling is 0"},
    {"Exaone4ForCausalLM", "{\"sliding_window_pattern\":\"LG\"}", ST_FORMAT,
     "sliding_window_pattern"},
    {GRANITE4, "{\"layer_types\":[\"mamba\",\"mamba\",\"mamba\",\"mamba\"]}", ST_UNSUPPORTED,
     "no layer of GraniteMoeHybridForCausalLM is full_attention"},
    {GRANITE4, "{\"layer_types\":[\"mamba\",\"conv\",\"mamba\",\"attention\"]}", ST_UNSUPPORTED,
     "layer_types[1] is \"conv\""},
    {GRANITE4, "{\"layer_types\":[\"mamba\"]}", ST_FORMAT, "layer_types must be a list"},
    {GRANITE4, "{\"mamba_n_heads\":7}", ST_RANGE, "are no 7 heads"},
    {GRANITE4, "{\"mamba_n_groups\":3}", ST_RANGE, "cannot share mamba_n_groups 3"},
    {GRANITE4, "{\"mamba_d_head\":5}", ST_RANGE, "mamba_d_head is 5"},
    {GRANITE4, "{\"mamba_d_conv\":1}", ST_RANGE, "mamba_d_conv is 1"},
    {GRANITE4, "{\"mamba_d_state\":5000}", ST_RANGE, "mamba_d_state is 5000"},
    {GRANITE4, "{\"mamba_proj_bias\":true}", ST_UNSUPPORTED, "mamba_proj_bias = true"},
    {GRANITE4, "{\"time_step_limit\":[1]}", ST_FORMAT, "time_step_limit must be a list"},
    {GRANITE4, "{\"time_step_limit\":[2,1]}", ST_RANGE, "time_step_limit: 2 is greater than 1"},
    {GRANITE4, "{\"time_step_limit\":[0,\"x\"]}", ST_RANGE, "time_step_limit[1]"},
    {GRANITE4, "{\"time_step_limit\":[-1,1]}", ST_RANGE, "time_step_limit[0]"},
    {GRANITE4, "{\"position_embedding_type\":\"alibi\"}", ST_UNSUPPORTED,
     "position_embedding_type \"alibi\""},
    {GRANITE4, "{\"shared_intermediate_size\":0}", ST_RANGE, "shared_intermediate_size is 0"},
    {GRANITE4, "{\"num_local_experts\":\"-\"}", ST_FORMAT, "num_local_experts is missing"},
    {GRANITE4, "{\"hidden_act\":\"gelu\"}", ST_UNSUPPORTED, "with silu alone"},
    {GRANITE4, "{\"attention_bias\":true}", ST_UNSUPPORTED, "attention_bias = true"},
    {FALCONH1, "{\"mamba_d_ssm\":60}", ST_RANGE, "60 channels (mamba_d_ssm) are no 8 heads"},
    {FALCONH1, "{\"mamba_d_head\":4}", ST_RANGE, "8 heads of it are not the 64 channels"},
    {FALCONH1, "{\"ssm_multipliers\":[1,1]}", ST_FORMAT, "ssm_multipliers must be a list of 5"},
    {FALCONH1, "{\"ssm_multipliers\":[1,1,1,1,\"x\"]}", ST_RANGE, "ssm_multipliers[4]"},
    {FALCONH1, "{\"mlp_multipliers\":1}", ST_FORMAT, "mlp_multipliers must be a list of 2"},
    {FALCONH1, "{\"key_multiplier\":0}", ST_RANGE, "key_multiplier is 0"},
    {FALCONH1, "{\"projectors_bias\":true}", ST_UNSUPPORTED, "projectors_bias = true"},
    {FALCONH1, "{\"attention_bias\":true}", ST_UNSUPPORTED, "attention_bias = true"},
    {FALCONH1, "{\"mamba_use_mlp\":false}", ST_UNSUPPORTED, "mamba_use_mlp = false"},
    {FALCONH1, "{\"num_key_value_heads\":\"-\"}", ST_FORMAT, "num_key_value_heads is missing"},
    {GRANITE4, "{\"mamba_d_ssm\":64}", ST_UNSUPPORTED, "mamba_d_ssm = 64"},
    {LLAMA, "{\"mamba_n_heads\":4}", ST_UNSUPPORTED, "mamba_n_heads = 4"},
    {BAMBA, "{\"attn_layer_indices\":[4]}", ST_RANGE, "attn_layer_indices[0] is no layer (0 .. 3)"},
    {BAMBA, "{\"attn_layer_indices\":1}", ST_FORMAT, "attn_layer_indices is no list"},
    {BAMBA, "{\"attn_layer_indices\":[]}", ST_UNSUPPORTED, "no layer of BambaForCausalLM is"},
    {BAMBA, "{\"attn_rotary_emb\":16}", ST_UNSUPPORTED, "attn_rotary_emb 16: BambaForCausalLM"},
    {BAMBA, "{\"mamba_proj_bias\":true}", ST_UNSUPPORTED, "mamba_proj_bias = true"},
    {BAMBA, "{\"mamba_num_heads\":8}", ST_UNSUPPORTED, "mamba_num_heads = 8"},
    {NEMOTRONH, "{\"hybrid_override_pattern\":\"ME*X\"}", ST_UNSUPPORTED, "letter 3 is none of"},
    {NEMOTRONH, "{\"hybrid_override_pattern\":\"ME*\"}", ST_FORMAT,
     "num_hidden_layers is 4, but hybrid_override_pattern has 3 layers"},
    {NEMOTRONH, "{\"hybrid_override_pattern\":\"-\"}", ST_FORMAT,
     "layers_block_type or hybrid_override_pattern is missing"},
    {NEMOTRONH, "{\"hybrid_override_pattern\":\"\"}", ST_RANGE, "has 0 letters"},
    {NEMOTRONH, "{\"hybrid_override_pattern\":\"MEM-\"}", ST_UNSUPPORTED, "no layer of Nemotron"},
    {NEMOTRONH, "{\"layers_block_type\":[\"mlp\",\"hyena\",\"moe\",\"mlp\"]}", ST_UNSUPPORTED,
     "layers_block_type[1] is \"hyena\""},
    {NEMOTRONH, "{\"layers_block_type\":7}", ST_FORMAT, "layers_block_type must be a list"},
    {NEMOTRONH, "{\"layers_block_type\":[\"attention\"]}", ST_FORMAT,
     "num_hidden_layers is 4, but layers_block_type has 1"},
    {NEMOTRONH, "{\"n_groups\":3}", ST_RANGE, "mamba_num_heads 8 cannot share n_groups 3"},
    {NEMOTRONH, "{\"mamba_hidden_act\":\"gelu\"}", ST_UNSUPPORTED, "mamba_hidden_act \"gelu\""},
    {NEMOTRONH, "{\"time_step_limit\":[0.1,1]}", ST_UNSUPPORTED, "time_step_limit [0.1, 1]"},
    {NEMOTRONH, "{\"time_step_min\":-1}", ST_RANGE, "time_step_min"},
    {NEMOTRONH, "{\"layer_norm_epsilon\":0.01}", ST_FORMAT,
     "layer_norm_epsilon is 0.01, rms_norm_eps is 1e-05"},
    {NEMOTRONH, "{\"attention_head_dim\":8}", ST_FORMAT, "head_dim is 16, attention_head_dim is 8"},
    {NEMOTRONH, "{\"moe_latent_size\":32}", ST_UNSUPPORTED, "moe_latent_size = 32"},
    {NEMOTRONH, "{\"moe_shared_expert_intermediate_size\":\"-\"}", ST_FORMAT,
     "moe_shared_expert_intermediate_size is missing"},
    {NEMOTRONH, "{\"first_k_dense_replace\":1}", ST_UNSUPPORTED, "first_k_dense_replace = 1"},
    {NEMOTRONH, "{\"n_group\":3}", ST_RANGE, "8 experts in 3 groups"},
    {NEMOTRONH, "{\"attention_bias\":true}", ST_UNSUPPORTED, "attention_bias = true"},
    {NEMOTRONH, "{\"use_bias\":true}", ST_UNSUPPORTED, "use_bias = true"},
    {NEMOTRONH, "{\"mlp_bias\":true}", ST_UNSUPPORTED, "mlp_bias = true"},
    {NEMOTRONH, "{\"hidden_act\":\"silu\"}", ST_UNSUPPORTED, "hidden_act = \"silu\""},
    {NEMOTRONH, "{\"mamba_expand\":2}", ST_UNSUPPORTED, "mamba_expand = 2"},
    {LLAMA, "{\"architectures\":[\"Llama4ForConditionalGeneration\"]}", ST_UNSUPPORTED,
     "Llama4ForConditionalGeneration is not supported: its attention in chunks"},
    {LLAMA, "{\"architectures\":[\"JambaForCausalLM\"]}", ST_UNSUPPORTED,
     "JambaForCausalLM is not supported: Mamba's first form"},
    {LLAMA, "{\"architectures\":[\"MambaForCausalLM\"]}", ST_UNSUPPORTED,
     "MambaForCausalLM is not supported: Mamba's first form"},
    {LLAMA, "{\"architectures\":[\"FalconMambaForCausalLM\"]}", ST_UNSUPPORTED,
     "FalconMambaForCausalLM is not supported: Mamba's first form"},
    {LLAMA, "{\"architectures\":[\"Mamba2ForCausalLM\"]}", ST_UNSUPPORTED,
     "Mamba2ForCausalLM is not supported: it has no layer with attention"},
    {LLAMA, "{\"architectures\":[\"Zamba2ForCausalLM\"]}", ST_UNSUPPORTED,
     "Zamba2ForCausalLM is not supported: its layers share"},
    {LLAMA, "{\"architectures\":[\"Lfm2ForCausalLM\"]}", ST_UNSUPPORTED,
     "Lfm2ForCausalLM is not supported: its layers of short convolutions"},
    {LLAMA, "{\"architectures\":[\"Plamo2ForCausalLM\"]}", ST_UNSUPPORTED,
     "Plamo2ForCausalLM is not supported: Mamba's first form"},
    {LLAMA, "{\"architectures\":[\"RwkvForCausalLM\"]}", ST_UNSUPPORTED,
     "RwkvForCausalLM is not supported: it has no layer with attention"},
    {LLAMA, "{\"architectures\":[\"Gemma3nForConditionalGeneration\"]}", ST_UNSUPPORTED,
     "Gemma3nForConditionalGeneration is not supported: "},
    {GEMMA4, "{\"hidden_size_per_layer_input\":\"-\"}", ST_UNSUPPORTED,
     "vocab_size_per_layer_input = 262144 is not supported beside vocab_size = 100"},
    {GEMMA4, "{\"hidden_size_per_layer_input\":-1}", ST_RANGE, "hidden_size_per_layer_input"},
    {GEMMA4, "{\"num_kv_shared_layers\":4}", ST_RANGE, "num_kv_shared_layers"},
    {GEMMA4, "{\"num_kv_shared_layers\":2}", ST_UNSUPPORTED,
     "num_kv_shared_layers = 2: layer 3 shares keys and values, and no layer of its kind"},
    {GEMMA4, "{\"enable_moe_block\":true}", ST_FORMAT, "num_experts is missing"},
    {GEMMA4,
     "{\"enable_moe_block\":true,\"num_experts\":4,\"top_k_experts\":5,"
     "\"moe_intermediate_size\":8}",
     ST_RANGE, "top_k_experts"},
    {GEMMA4, "{\"use_bidirectional_attention\":\"all\"}", ST_UNSUPPORTED,
     "use_bidirectional_attention = \"all\""},
    {GEMMA4, "{\"query_pre_attn_scalar\":256}", ST_UNSUPPORTED, "query_pre_attn_scalar = 256"},
    {GEMMA4, "{\"sliding_window_pattern\":2}", ST_UNSUPPORTED, "sliding_window_pattern = 2"},
    {GEMMA4, "{\"rope_parameters\":null}", ST_FORMAT, "rope_parameters is missing"},
    {GEMMA4,
     "{\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":1e4},\"full_attention\":"
     "{\"rope_type\":\"proportional\",\"rope_theta\":1e4,\"partial_rotary_factor\":0.001}}}",
     ST_RANGE, "rotates nothing of a head of 512"},
    {GEMMA4,
     "{\"global_head_dim\":1024,\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":1e4},"
     "\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1e4}}}",
     ST_RANGE, "of a head of 1024 elements: at most 512"},
    {GEMMA4, "{\"rope_parameters\":{\"sliding_attention\":{},\"full_attention\":{}}}", ST_FORMAT,
     "rope_theta is missing"},
    {GEMMA4, "{\"global_head_dim\":13}", ST_RANGE, "a head of 13 with"},
    {GEMMA4, "{\"attention_k_eq_v\":true,\"num_global_key_value_heads\":3}", ST_RANGE,
     "cannot share 3 key/value heads"},
    {GEMMA4, "{\"per_layer_config\":{\"1\":{\"head_dim\":24}}}", ST_UNSUPPORTED,
     "per_layer_config.1: only layers of full_attention"},
    {GEMMA4, "{\"per_layer_config\":{\"4\":{\"head_dim\":24}}}", ST_FORMAT,
     "per_layer_config.4: not one of the 4 layers"},
    {GEMMA4, "{\"per_layer_config\":{\"3\":{},\"03\":{}}}", ST_FORMAT, "per_layer_config.03"},
    {GEMMA4, "{\"per_layer_config\":{\"-1\":{}}}", ST_FORMAT, "per_layer_config.-1"},
    {GEMMA4, "{\"per_layer_config\":{\"3\":{\"hidden_size\":24}}}", ST_UNSUPPORTED,
     "per_layer_config.3.hidden_size is not understood"},
    {GEMMA4,
     "{\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\","
     "\"full_attention\"],\"per_layer_config\":{\"3\":{\"head_dim\":24}}}",
     ST_UNSUPPORTED, "per_layer_config has 1 of the 2 layers"},
    {GEMMA4,
     "{\"layer_types\":[\"full_attention\",\"sliding_attention\",\"sliding_attention\","
     "\"full_attention\"],\"per_layer_config\":{\"3\":{\"head_dim\":24},\"0\":{}}}",
     ST_UNSUPPORTED, "per_layer_config.0: 2 key/value heads of 16, another layer"},
    {LLAMA, "{\"rope_parameters\":{\"partial_rotary_factor\":0.5}}", ST_UNSUPPORTED,
     "partial_rotary_factor"},
};

Test(config, refused_by_name)
{
    struct model_config mc;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        enum status st = config_parse(bad[i].arch, bad[i].more, NULL, &mc);
        cr_assert_eq(st, bad[i].st, "%s: %s %s", bad[i].more, status_name(st), status_text());
        cr_assert_not_null(strstr(status_text(), bad[i].text), "%s: \"%s\"", bad[i].more,
                           status_text());
        cr_assert_eq(strncmp(status_text(), "config.json: ", 13), 0, "%s", status_text());
    }
}

Test(config, harmless_values_pass)
{
    config_good(LLAMA,
                "{\"partial_rotary_factor\":1.0,\"auto_map\":null,\"quantization_config\":null,"
                "\"pretraining_tp\":2,\"attention_dropout\":0.1,\"logit_scale\":1,"
                "\"rope_interleaved\":false,\"something_new\":null,\"use_cache\":true,"
                "\"initializer_range\":0.02,\"transformers_version\":\"9\",\"pad_token_id\":-1}");
    config_good(LLAMA, "{\"bias\":false,\"activation\":\"swiglu\",\"type_vocab_size\":2,"
                       "\"parallel_attn\":false,\"num_experts_per_tok\":0,\"num_experts\":0}");
    config_good(QWEN3,
                "{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"attn_factor\":0.87,"
                "\"original_max_position_embeddings\":32}}");
}

Test(config, the_model_type_stands_in_for_architectures)
{
    struct model_config mc = config_good(QWEN2, "{\"architectures\":\"-\"}");
    cr_assert_str_eq(mc.arch->name, QWEN2);
    mc = config_good(QWEN3MOE, "{\"architectures\":null}");
    cr_assert_str_eq(mc.arch->name, QWEN3MOE);
}

Test(config, the_list_of_architectures_is_whole)
{
    static const char text[] = "{\"architectures\":[\"BloomForCausalLM\"]}";
    static const char *const words[] = {" Mistral, ",
                                        " GptOss",
                                        " Qwen3_5Moe",
                                        " OPT;",
                                        "GPT2LMHeadModel,",
                                        "XLMRobertaModel are)",
                                        "Gemma3ForConditionalGeneration"};
    struct model_config mc;
    cr_assert_eq(model_config_parse(&mc, text, strlen(text), NULL, 0), ST_UNSUPPORTED);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        cr_expect(strstr(status_text(), words[i]), "%s: %s", words[i], status_text());
}

Test(config, default_eps)
{
    cr_assert_eq(config_good(LLAMA, "{\"rms_norm_eps\":\"-\"}").eps, 1e-6);
    cr_assert_eq(config_good(MIXTRAL, "{\"rms_norm_eps\":\"-\"}").eps, 1e-5);
}

Test(config, bad_text)
{
    struct model_config mc;
    static const char *const texts[] = {"",    " ",
                                        "{",   "null",
                                        "[]",  "{\"a\":1,\"a\":2}",
                                        "{}x", "{\"architectures\":[\"LlamaForCausalLM\\u0000\"]}"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct guarded g = guard_copy(texts[i], strlen(texts[i]));
        cr_assert_eq(model_config_parse(&mc, g.data, g.len, NULL, 0), ST_FORMAT, "%s", texts[i]);
        guard_free(&g);
    }
    const char *whole = config_base(LLAMA);
    for (size_t n = 0; n < strlen(whole); n++) {
        struct guarded g = guard_copy(whole, n);
        cr_assert_eq(model_config_parse(&mc, g.data, g.len, NULL, 0), ST_FORMAT);
        guard_free(&g);
    }
}
