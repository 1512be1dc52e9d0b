"""Writes tests/model/popular.json: configurations as popular repositories publish them, and what Ingot says of each.

    python3 make_popular.py          # needs transformers

Each is begun from transformers' configuration class, of which it has every key, with the sizes and options of the
repository's own config.json.  verdict, written before any of them was read by Ingot: "served"; the text that the refusal
must have; or "class": served where the class is, else refused with the class's name.
"""

import json
import pathlib
import warnings

from transformers import CONFIG_MAPPING

OUT = pathlib.Path(__file__).parents[1] / "model" / "popular.json"


def sizes(d, f, layers, q, kv, vocab, ctx, **more):
    return {"hidden_size": d, "intermediate_size": f, "num_hidden_layers": layers, "num_attention_heads": q,
            "num_key_value_heads": kv, "vocab_size": vocab, "max_position_embeddings": ctx, **more}


LLAMA31 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}
THETA = {"rope_type": "default"}
YARN = {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 48, "long_factor": [1.5] * 48,
        "original_max_position_embeddings": 4096}
LONG_PART = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 48, "long_factor": [1.5] * 48,
             "original_max_position_embeddings": 4096, "partial_rotary_factor": 0.75}
DEEPSEEK = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 4096,
            "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 0.707, "mscale_all_dim": 0.707}

LLAMA4 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
          "original_max_position_embeddings": 8192}
GRANITE4 = {"position_embedding_type": "nope", "attention_multiplier": 0.0078125, "embedding_multiplier": 12,
            "residual_multiplier": 0.22, "logits_scaling": 6, "mamba_d_state": 128, "mamba_d_head": 64, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True, "init_method": "mup", "normalization_function": "rmsnorm"}
HYBRID40 = ["attention" if i in (5, 15, 25, 35) else "mamba" for i in range(40)]
L31_8B = sizes(4096, 14336, 32, 32, 8, 128256, 131072, rope_parameters=LLAMA31)
QWEN25_7B = sizes(3584, 18944, 28, 28, 4, 152064, 32768)
AWQ = {"bits": 4, "group_size": 128, "modules_to_not_convert": None, "quant_method": "awq", "version": "gemm",
       "zero_point": True}
GPTQ = {"batch_size": 1, "bits": 4, "block_name_to_quantize": None, "cache_block_outputs": True, "damp_percent": 0.01,
        "dataset": None, "desc_act": False, "exllama_config": {"version": 1}, "group_size": 128,
        "modules_in_block_to_quantize": None, "quant_method": "gptq", "sym": True, "true_sequential": True,
        "use_cuda_fp16": False, "use_exllama": True}
BLOKE = {"bits": 4, "group_size": 128, "damp_percent": 0.1, "desc_act": True, "static_groups": False, "sym": True,
         "true_sequential": True, "model_name_or_path": None, "model_file_base_name": "model", "quant_method": "gptq"}


def compressed(form, activations=None, **weights):
    """As llm-compressor writes it."""
    weights = {"actorder": None, "block_structure": None, "dynamic": False, "group_size": None, "observer": "minmax",
               "observer_kwargs": {}, "symmetric": True, "type": "int"} | weights
    return {"config_groups": {"group_0": {"input_activations": activations, "output_activations": None,
                                          "targets": ["Linear"], "weights": weights}},
            "format": form, "global_compression_ratio": 1.5, "ignore": ["lm_head"], "kv_cache_scheme": None,
            "quant_method": "compressed-tensors", "quantization_status": "compressed", "sparsity_config": {},
            "transform_config": {}}


TOKENS = {"dynamic": True, "num_bits": 8, "strategy": "token", "symmetric": True, "type": "int"}
KV8 = {"dynamic": False, "num_bits": 8, "type": "float"}
BNB = {"_load_in_4bit": True, "_load_in_8bit": False, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8",
       "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True, "llm_int8_enable_fp32_cpu_offload": False,
       "llm_int8_has_fp16_weight": False, "llm_int8_skip_modules": None, "llm_int8_threshold": 6.0, "load_in_4bit": True,
       "load_in_8bit": False, "quant_method": "bitsandbytes"}
PACKED = [
    ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen2ForCausalLM", "qwen2", QWEN25_7B, AWQ, "served"),
    ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen2ForCausalLM", "qwen2", QWEN25_7B, GPTQ, "served"),
    ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen2ForCausalLM", "qwen2", QWEN25_7B, GPTQ | {"bits": 8}, "served"),
    ("Qwen/Qwen3-8B-FP8", "Qwen3ForCausalLM", "qwen3", sizes(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128),
     {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}, "served"),
    ("TheBloke/Mistral-7B-Instruct-v0.2-GPTQ", "MistralForCausalLM", "mistral",
     sizes(4096, 14336, 32, 32, 8, 32000, 32768, sliding_window=None), BLOKE, "served"),
    ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "LlamaForCausalLM", "llama", L31_8B,
     AWQ | {"backend": "autoawq", "do_fuse": False, "exllama_config": None, "fuse_max_seq_len": None,
            "modules_to_fuse": None}, "served"),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "LlamaForCausalLM", "llama", L31_8B,
     compressed("pack-quantized", num_bits=4, strategy="group", group_size=128, actorder="weight"), "served"),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "LlamaForCausalLM", "llama", L31_8B,
     compressed("int-quantized", TOKENS, num_bits=8, strategy="channel"), "served"),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "LlamaForCausalLM", "llama", L31_8B,
     compressed("float-quantized", TOKENS | {"type": "float"}, num_bits=8, type="float", strategy="channel"), "served"),
    ("RedHatAI/Llama-3.1-8B-Instruct-NVFP4", "LlamaForCausalLM", "llama", L31_8B,
     compressed("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16),
     "served"),
    ("nvidia/Llama-3.1-8B-Instruct-NVFP4", "LlamaForCausalLM", "llama", L31_8B,
     {"quant_method": "modelopt", "quant_algo": "NVFP4"}, "served"),
    ("unsloth/Llama-3.1-8B-Instruct-bnb-4bit", "LlamaForCausalLM", "llama", L31_8B,
     {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True,
      "quant_method": "bitsandbytes"}, "served"),
    ("unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit", "Qwen2ForCausalLM", "qwen2", QWEN25_7B,
     BNB | {"llm_int8_skip_modules": ["lm_head", "model.layers.0.self_attn"]}, "served"),
    ("a folder that transformers saved with load_in_8bit", "LlamaForCausalLM", "llama", L31_8B,
     BNB | {"_load_in_4bit": False, "_load_in_8bit": True, "load_in_4bit": False, "load_in_8bit": True}, "served"),
    ("nvidia/Llama-3.1-8B-Instruct-FP8", "LlamaForCausalLM", "llama", L31_8B,
     {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"], "kv_cache_scheme": KV8,
      "producer": {"name": "modelopt", "version": "0.29"}}, "served"),
    ("meta-llama/Llama-3.1-405B-Instruct-FP8", "LlamaForCausalLM", "llama",
     sizes(16384, 53248, 126, 128, 8, 128256, 131072, rope_parameters=LLAMA31),
     {"activation_scale_ub": 1200.0, "modules_to_not_convert": ["model.layers.0.mlp.down_proj"],
      "quant_method": "fbgemm_fp8"}, "served"),
    ("RedHatAI/Meta-Llama-3-8B-Instruct-FP8-KV", "LlamaForCausalLM", "llama", L31_8B,
     compressed("float-quantized", TOKENS | {"type": "float", "strategy": "tensor", "dynamic": False}, num_bits=8,
                type="float", strategy="tensor") | {"kv_cache_scheme": KV8}, "served"),
    ("RedHatAI/Qwen3-8B-FP8-block", "Qwen3ForCausalLM", "qwen3",
     sizes(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128),
     compressed("float-quantized", TOKENS | {"type": "float", "strategy": "group", "group_size": 128}, num_bits=8,
                type="float", strategy="block", block_structure=[128, 128]), "served"),
    ("meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", "Llama4ForConditionalGeneration", "llama4",
     {"text_config": {"max_position_embeddings": 1048576, "num_local_experts": 128, "interleave_moe_layer_step": 2,
                      "use_qk_norm": False, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}},
     {"activation_scale_ub": 1200.0, "modules_to_not_convert": ["language_model.model.layers.0.self_attn.q_proj"],
      "quant_method": "fbgemm_fp8"}, "served"),
    ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-quantized.w4a16", "Llama4ForConditionalGeneration", "llama4",
     {"text_config": {"max_position_embeddings": 10485760, "rope_parameters": LLAMA4, "for_llm_compressor": False}},
     compressed("pack-quantized", num_bits=4, strategy="group", group_size=128), "served"),
    ("RedHatAI/Qwen3-8B-MXFP4", "Qwen3ForCausalLM", "qwen3",
     sizes(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128),
     compressed("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32), "served"),
    ("cyankiwi/Qwen3-8B-AWQ-4bit", "Qwen3ForCausalLM", "qwen3",
     sizes(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128),
     compressed("pack-quantized", num_bits=4, strategy="group", group_size=32, symmetric=False), "served"),
    ("RedHatAI/Sparse-Llama-3.1-8B-2of4-FP8", "LlamaForCausalLM", "llama", L31_8B,
     compressed("float-quantized", num_bits=8, type="float", strategy="channel") |
     {"sparsity_config": {"format": "sparse-24-bitmask", "global_sparsity": 0.5}}, "sparse-24-bitmask"),
    ("nm-testing/Meta-Llama-3-8B-spinquant-w4a16", "LlamaForCausalLM", "llama", L31_8B,
     compressed("pack-quantized", num_bits=4, strategy="group", group_size=128) |
     {"transform_config": {"config_groups": {"v": {}}}}, "transform_config"),
    ("nvidia/Qwen3-8B-W4A8_AWQ", "Qwen3ForCausalLM", "qwen3", sizes(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128),
     {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "quant_algo = \"W4A8_AWQ\""),
    ("Intel/Qwen3-8B-int4-AutoRound", "Qwen3ForCausalLM", "qwen3",
     sizes(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128),
     {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "packing_format": "auto_round:auto_gptq"},
     "the method \"auto-round\""),
    ("amd/Llama-3.1-8B-Instruct-WMXFP4-AMXFP4", "LlamaForCausalLM", "llama", L31_8B,
     {"quant_method": "quark", "export": {"pack_method": "reorder"}}, "the method \"quark\""),
    ("pytorch/Qwen3-8B-INT4", "Qwen3ForCausalLM", "qwen3", sizes(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128),
     {"quant_method": "torchao", "quant_type": {"default": {}}}, "the method \"torchao\""),
    ("ISTA-DASLab/Meta-Llama-3.1-8B-Instruct-AQLM-PV-2Bit-1x16-hf", "LlamaForCausalLM", "llama", L31_8B,
     {"quant_method": "aqlm", "in_group_size": 8, "nbits_per_codebook": 16}, "the method \"aqlm\""),
    ("mobiuslabsgmbh/Llama-3.1-8B-Instruct-hqq-4bit", "LlamaForCausalLM", "llama", L31_8B,
     {"quant_method": "hqq", "quant_config": {}}, "the method \"hqq\""),
]
GEMMA3N_E2B = {"num_hidden_layers": 30, "intermediate_size": 8192, "num_kv_shared_layers": 10}

ROWS = [
    # repository, class, model_type, options, verdict
    ("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM", "llama",
     sizes(4096, 14336, 32, 32, 8, 128256, 131072, rope_parameters=LLAMA31, eos_token_id=[128001, 128008, 128009]), "served"),
    ("meta-llama/Llama-3.2-1B-Instruct", "LlamaForCausalLM", "llama",
     sizes(2048, 8192, 16, 32, 8, 128256, 131072, head_dim=64, tie_word_embeddings=True,
           rope_parameters=LLAMA31 | {"factor": 32.0}), "served"),
    ("meta-llama/Llama-3.2-3B-Instruct", "LlamaForCausalLM", "llama",
     sizes(3072, 8192, 28, 24, 8, 128256, 131072, head_dim=128, tie_word_embeddings=True,
           rope_parameters=LLAMA31 | {"factor": 32.0}), "served"),
    ("meta-llama/Llama-3.3-70B-Instruct", "LlamaForCausalLM", "llama",
     sizes(8192, 28672, 80, 64, 8, 128256, 131072, rope_parameters=LLAMA31), "served"),
    ("meta-llama/Llama-2-7b-chat-hf", "LlamaForCausalLM", "llama", sizes(4096, 11008, 32, 32, 32, 32000, 4096), "served"),
    ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "LlamaForCausalLM", "llama", sizes(2048, 5632, 22, 32, 4, 32000, 2048), "served"),
    ("HuggingFaceTB/SmolLM2-1.7B-Instruct", "LlamaForCausalLM", "llama",
     sizes(2048, 8192, 24, 32, 32, 49152, 8192, tie_word_embeddings=True), "served"),
    ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "LlamaForCausalLM", "llama",
     sizes(4096, 14336, 32, 32, 8, 128256, 131072, rope_parameters=LLAMA31), "served"),
    ("tiiuae/Falcon3-7B-Instruct", "LlamaForCausalLM", "llama",
     sizes(3072, 23040, 28, 12, 4, 131072, 32768, head_dim=256), "served"),
    ("01-ai/Yi-1.5-9B-Chat", "LlamaForCausalLM", "llama", sizes(4096, 11008, 48, 32, 4, 64000, 4096), "served"),
    ("mistralai/Mistral-7B-Instruct-v0.3", "MistralForCausalLM", "mistral",
     sizes(4096, 14336, 32, 32, 8, 32768, 32768, sliding_window=None), "served"),
    ("mistralai/Mistral-7B-v0.1", "MistralForCausalLM", "mistral",
     sizes(4096, 14336, 32, 32, 8, 32000, 32768, sliding_window=4096), "served"),
    ("mistralai/Mistral-Nemo-Instruct-2407", "MistralForCausalLM", "mistral",
     sizes(5120, 14336, 40, 32, 8, 131072, 131072, head_dim=128, sliding_window=None), "served"),
    ("mistralai/Mistral-Small-24B-Instruct-2501", "MistralForCausalLM", "mistral",
     sizes(5120, 32768, 40, 32, 8, 131072, 32768, head_dim=128, sliding_window=None), "served"),
    ("mistralai/Ministral-8B-Instruct-2410", "MistralForCausalLM", "mistral",
     sizes(4096, 12288, 36, 32, 8, 131072, 32768, head_dim=128, sliding_window=32768), "served"),
    ("mistralai/Mixtral-8x7B-Instruct-v0.1", "MixtralForCausalLM", "mixtral",
     sizes(4096, 14336, 32, 32, 8, 32000, 32768, sliding_window=None), "served"),
    ("mistralai/Ministral-3-8B-Instruct-2512 (text)", "Ministral3ForCausalLM", "ministral3", {}, "served"),
    ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "Mistral3ForConditionalGeneration", "mistral3", {}, "served"),
    ("Qwen/Qwen2.5-0.5B-Instruct", "Qwen2ForCausalLM", "qwen2",
     sizes(896, 4864, 24, 14, 2, 151936, 32768, tie_word_embeddings=True), "served"),
    ("Qwen/Qwen2.5-7B-Instruct", "Qwen2ForCausalLM", "qwen2", sizes(3584, 18944, 28, 28, 4, 152064, 32768), "served"),
    ("Qwen/Qwen2.5-Coder-32B-Instruct", "Qwen2ForCausalLM", "qwen2",
     sizes(5120, 27648, 64, 40, 8, 152064, 131072, rope_parameters=YARN), "served"),
    ("Qwen/QwQ-32B", "Qwen2ForCausalLM", "qwen2", sizes(5120, 27648, 64, 40, 8, 152064, 40960), "served"),
    ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen2ForCausalLM", "qwen2",
     sizes(3584, 18944, 28, 28, 4, 152064, 131072), "served"),
    ("Qwen/Qwen3-0.6B", "Qwen3ForCausalLM", "qwen3",
     sizes(1024, 3072, 28, 16, 8, 151936, 40960, head_dim=128, tie_word_embeddings=True), "served"),
    ("Qwen/Qwen3-8B", "Qwen3ForCausalLM", "qwen3", sizes(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128), "served"),
    ("Qwen/Qwen3-32B", "Qwen3ForCausalLM", "qwen3", sizes(5120, 25600, 64, 64, 8, 151936, 40960, head_dim=128), "served"),
    ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "Qwen3ForCausalLM", "qwen3",
     sizes(4096, 12288, 36, 32, 8, 151936, 131072, head_dim=128,
           rope_parameters=YARN | {"attn_factor": 0.8782488562869419}), "served"),
    ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen3MoeForCausalLM", "qwen3_moe",
     sizes(2048, 6144, 48, 32, 4, 151936, 262144, head_dim=128, moe_intermediate_size=768, num_experts=128,
           num_experts_per_tok=8, norm_topk_prob=True), "served"),
    ("Qwen/Qwen3-235B-A22B", "Qwen3MoeForCausalLM", "qwen3_moe",
     sizes(4096, 12288, 94, 64, 4, 151936, 40960, head_dim=128, moe_intermediate_size=1536, num_experts=128,
           num_experts_per_tok=8, norm_topk_prob=True), "served"),
    ("google/gemma-2b-it", "GemmaForCausalLM", "gemma", sizes(2048, 16384, 18, 8, 1, 256000, 8192, head_dim=256), "served"),
    ("google/gemma-2-2b-it", "Gemma2ForCausalLM", "gemma2", sizes(2304, 9216, 26, 8, 4, 256000, 8192, head_dim=256), "served"),
    ("google/gemma-2-9b-it", "Gemma2ForCausalLM", "gemma2", sizes(3584, 14336, 42, 16, 8, 256000, 8192, head_dim=256), "served"),
    ("google/gemma-2-27b-it", "Gemma2ForCausalLM", "gemma2",
     sizes(4608, 36864, 46, 32, 16, 256000, 8192, head_dim=128, query_pre_attn_scalar=144), "served"),
    ("google/gemma-3-1b-it", "Gemma3ForCausalLM", "gemma3_text",
     sizes(1152, 6912, 26, 4, 1, 262144, 32768, head_dim=256, sliding_window=512), "served"),
    ("google/gemma-3-4b-it", "Gemma3ForConditionalGeneration", "gemma3", {}, "served"),
    ("google/gemma-3n-E4B-it", "Gemma3nForConditionalGeneration", "gemma3n", {}, "served"),
    ("google/gemma-3n-E4B-it (text)", "Gemma3nForCausalLM", "gemma3n_text", {}, "served"),
    ("google/gemma-3n-E2B-it", "Gemma3nForConditionalGeneration", "gemma3n", {"text_config": GEMMA3N_E2B}, "served"),
    ("google/gemma-3n-E2B-it (text)", "Gemma3nForCausalLM", "gemma3n_text", GEMMA3N_E2B, "served"),
    ("google/gemma-4-31B-it (text)", "Gemma4ForCausalLM", "gemma4_text",
     sizes(5376, 21504, 60, 32, 16, 262144, 262144, head_dim=256, global_head_dim=512, num_global_key_value_heads=4,
           attention_k_eq_v=True, sliding_window=1024, final_logit_softcapping=30.0, hidden_size_per_layer_input=0,
           use_bidirectional_attention="vision"), "served"),
    ("google/gemma-4-31B-it", "Gemma4ForConditionalGeneration", "gemma4",
     {"text_config": sizes(5376, 21504, 60, 32, 16, 262144, 262144, head_dim=256, global_head_dim=512,
                           num_global_key_value_heads=4, attention_k_eq_v=True, sliding_window=1024,
                           final_logit_softcapping=30.0, hidden_size_per_layer_input=0,
                           use_bidirectional_attention="vision")}, "served"),
    ("google/gemma-4-E4B-it (text)", "Gemma4ForCausalLM", "gemma4_text",
     sizes(2560, 10240, 42, 8, 2, 262144, 131072, head_dim=256, num_kv_shared_layers=18), "served"),
    ("google/gemma-4-E2B-it (text)", "Gemma4ForCausalLM", "gemma4_text",
     sizes(1536, 6144, 35, 8, 1, 262144, 131072, head_dim=256, num_kv_shared_layers=20, use_double_wide_mlp=True), "served"),
    ("google/gemma-4-26B-A4B-it (text)", "Gemma4ForCausalLM", "gemma4_text",
     sizes(2816, 2112, 30, 16, 8, 262144, 262144, head_dim=256, num_global_key_value_heads=2, attention_k_eq_v=True,
           hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=128, top_k_experts=8,
           moe_intermediate_size=704), "served"),
    ("microsoft/Phi-3-mini-4k-instruct", "Phi3ForCausalLM", "phi3",
     sizes(3072, 8192, 32, 32, 32, 32064, 4096, sliding_window=2047), "served"),
    ("microsoft/Phi-3.5-mini-instruct", "Phi3ForCausalLM", "phi3",
     sizes(3072, 8192, 32, 32, 32, 32064, 131072, sliding_window=262144, original_max_position_embeddings=4096,
           rope_parameters=LONG), "served"),
    ("microsoft/phi-4", "Phi3ForCausalLM", "phi3",
     sizes(5120, 17920, 40, 40, 10, 100352, 16384, sliding_window=None, original_max_position_embeddings=16384), "served"),
    ("microsoft/Phi-4-mini-instruct", "Phi3ForCausalLM", "phi3",
     sizes(3072, 8192, 32, 24, 8, 200064, 131072, sliding_window=262144, tie_word_embeddings=True,
           partial_rotary_factor=0.75, original_max_position_embeddings=4096, rope_parameters=LONG_PART), "served"),
    ("microsoft/phi-2", "PhiForCausalLM", "phi", {}, "class"),
    ("microsoft/Phi-3.5-MoE-instruct", "PhimoeForCausalLM", "phimoe", {}, "class"),
    ("HuggingFaceTB/SmolLM3-3B", "SmolLM3ForCausalLM", "smollm3",
     sizes(2048, 11008, 36, 16, 4, 128256, 65536, tie_word_embeddings=True), "served"),
    ("ibm-granite/granite-3.3-8b-instruct", "GraniteForCausalLM", "granite",
     sizes(4096, 12800, 40, 32, 8, 49159, 131072, attention_multiplier=0.0078125, embedding_multiplier=12.0,
           residual_multiplier=0.22, logits_scaling=16.0, tie_word_embeddings=True), "served"),
    ("ibm-granite/granite-3.1-3b-a800m-instruct", "GraniteMoeForCausalLM", "granitemoe",
     sizes(1536, 512, 32, 24, 8, 49155, 131072, num_local_experts=40, num_experts_per_tok=8, attention_multiplier=0.015625,
           embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=6.0, tie_word_embeddings=True), "served"),
    ("ibm-granite/granite-4.0-h-small", "GraniteMoeHybridForCausalLM", "granitemoehybrid",
     GRANITE4 | sizes(4096, 768, 40, 32, 8, 100352, 131072, num_local_experts=72, num_experts_per_tok=10,
                      shared_intermediate_size=1536, mamba_n_heads=128, layer_types=HYBRID40), "served"),
    ("ibm-granite/granite-4.0-h-1b", "GraniteMoeHybridForCausalLM", "granitemoehybrid",
     GRANITE4 | sizes(1536, 4096, 40, 12, 4, 100352, 131072, num_local_experts=0, num_experts_per_tok=0,
                      shared_intermediate_size=4096, mamba_n_heads=48, layer_types=HYBRID40), "served"),
    ("ibm-granite/granite-4.0-micro", "GraniteMoeHybridForCausalLM", "granitemoehybrid",
     GRANITE4 | sizes(2560, 8192, 40, 40, 8, 100352, 131072, num_local_experts=0, num_experts_per_tok=0,
                      shared_intermediate_size=8192, mamba_n_heads=128, mamba_d_head=40, layer_types=["attention"] * 40,
                      position_embedding_type="rope"), "served"),
    ("zai-org/GLM-4-9B-0414", "Glm4ForCausalLM", "glm4",
     sizes(4096, 13696, 40, 32, 2, 151552, 32768, head_dim=128, attention_bias=True), "served"),
    ("zai-org/GLM-4.5-Air", "Glm4MoeForCausalLM", "glm4_moe", {"head_dim": 128}, "class"),
    ("LGAI-EXAONE/EXAONE-4.0-1.2B", "Exaone4ForCausalLM", "exaone4",
     sizes(2048, 4096, 30, 32, 8, 102400, 65536, head_dim=64, sliding_window=None,
           layer_types=["full_attention"] * 30, tie_word_embeddings=True), "served"),
    ("LGAI-EXAONE/EXAONE-4.0-32B", "Exaone4ForCausalLM", "exaone4",
     sizes(5120, 27392, 64, 40, 8, 102400, 131072, head_dim=128, sliding_window=4096), "served"),
    ("openai/gpt-oss-20b", "GptOssForCausalLM", "gpt_oss", {}, "class"),
    ("tiiuae/Falcon-H1-0.5B-Instruct", "FalconH1ForCausalLM", "falcon_h1",
     sizes(1024, 2048, 36, 8, 2, 32784, 16384, head_dim=64, mamba_d_ssm=1536, mamba_n_heads=24, mamba_d_head=64, mamba_d_state=128,
           mamba_chunk_size=128, mamba_use_mlp=True, mlp_expansion_factor=8, key_multiplier=0.390625,
           lm_head_multiplier=0.0390625, embedding_multiplier=5.656854249492381, attention_out_multiplier=0.9375,
           ssm_in_multiplier=1.25, ssm_out_multiplier=0.23570226039551587,
           ssm_multipliers=[0.3535533905932738, 0.25, 0.3535533905932738, 0.5, 0.3535533905932738],
           mlp_multipliers=[0.8838834764831844, 0.5859375]), "served"),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen3NextForCausalLM", "qwen3_next", {}, "served"),
    ("Qwen/Qwen1.5-MoE-A2.7B-Chat", "Qwen2MoeForCausalLM", "qwen2_moe", {}, "class"),
    ("deepseek-ai/DeepSeek-V2-Lite-Chat", "DeepseekV2ForCausalLM", "deepseek_v2",
     sizes(2048, 10944, 27, 16, 16, 102400, 163840, q_lora_rank=None, moe_intermediate_size=1408, n_routed_experts=64,
           num_experts_per_tok=6, first_k_dense_replace=1, n_group=1, topk_group=1, rope_parameters=DEEPSEEK), "served"),
    ("deepseek-ai/DeepSeek-V2.5", "DeepseekV2ForCausalLM", "deepseek_v2",
     sizes(5120, 12288, 60, 128, 128, 102400, 163840, q_lora_rank=1536, moe_intermediate_size=1536, n_routed_experts=160,
           num_experts_per_tok=6, first_k_dense_replace=1, n_group=8, topk_group=3, topk_method="group_limited_greedy",
           routed_scaling_factor=16.0, rope_parameters=DEEPSEEK), "served"),
    ("deepseek-ai/DeepSeek-V3.1", "DeepseekV3ForCausalLM", "deepseek_v3",
     {"max_position_embeddings": 163840, "rope_parameters": DEEPSEEK | {"mscale": 1.0, "mscale_all_dim": 1.0}}, "served"),
    ("moonshotai/Kimi-K2-Instruct", "DeepseekV3ForCausalLM", "deepseek_v3",
     sizes(7168, 18432, 61, 64, 64, 163840, 131072, n_routed_experts=384, n_group=1, topk_group=1, first_k_dense_replace=1,
           routed_scaling_factor=2.827, num_mtp_layers=0, rope_parameters=DEEPSEEK | {
               "rope_theta": 50000.0, "factor": 32.0, "beta_fast": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}), "served"),
    ("moonshotai/Moonlight-16B-A3B-Instruct", "DeepseekV3ForCausalLM", "deepseek_v3",
     sizes(2048, 11264, 27, 16, 16, 163840, 8192, q_lora_rank=None, moe_intermediate_size=1408, n_routed_experts=64,
           n_shared_experts=2, num_experts_per_tok=6, n_group=1, topk_group=1, first_k_dense_replace=1, rms_norm_eps=1e-5,
           routed_scaling_factor=2.446, num_mtp_layers=0, rope_parameters={"rope_type": "default", "rope_theta": 50000.0}),
     "served"),
    ("allenai/OLMo-2-1124-7B-Instruct", "Olmo2ForCausalLM", "olmo2", {}, "class"),
    ("allenai/OLMoE-1B-7B-0924-Instruct", "OlmoeForCausalLM", "olmoe", {}, "class"),
    ("CohereForAI/c4ai-command-r7b-12-2024", "Cohere2ForCausalLM", "cohere2", {}, "class"),
    ("bigcode/starcoder2-3b", "Starcoder2ForCausalLM", "starcoder2", {}, "class"),
    ("openai-community/gpt2", "GPT2LMHeadModel", "gpt2", {"n_ctx": 1024}, "served"),
    ("openai-community/gpt2-xl", "GPT2LMHeadModel", "gpt2",
     {"n_ctx": 1024, "n_embd": 1600, "n_head": 25, "n_layer": 48, "output_past": True}, "served"),
    ("cerebras/Cerebras-GPT-1.3B", "GPT2LMHeadModel", "gpt2",
     {"activation_function": "gelu", "n_embd": 2048, "n_head": 16, "n_inner": 8192, "n_layer": 24, "n_positions": 2048,
      "embd_pdrop": 0.0}, "served"),
    ("microsoft/DialoGPT-medium", "GPT2LMHeadModel", "gpt2", {"n_ctx": 1024, "n_embd": 1024, "n_head": 16, "n_layer": 24},
     "served"),
    ("facebook/opt-125m", "OPTForCausalLM", "opt", {"activation_dropout": 0.0, "prefix": "</s>"}, "served"),
    ("facebook/opt-1.3b", "OPTForCausalLM", "opt",
     {"activation_dropout": 0.0, "hidden_size": 2048, "ffn_dim": 8192, "num_attention_heads": 32, "num_hidden_layers": 24},
     "served"),
    ("facebook/opt-350m", "OPTForCausalLM", "opt",
     {"hidden_size": 1024, "ffn_dim": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
      "do_layer_norm_before": False, "word_embed_proj_dim": 512}, "norms behind the sums"),
    ("facebook/galactica-1.3b", "OPTForCausalLM", "opt",
     {"hidden_size": 2048, "ffn_dim": 8192, "num_attention_heads": 32, "num_hidden_layers": 24, "activation_function": "gelu",
      "enable_bias": False, "layer_norm_elementwise_affine": False, "vocab_size": 50000}, "as in Galactica"),
    ("EleutherAI/pythia-70m-deduped", "GPTNeoXForCausalLM", "gpt_neox",
     {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 8, "rotary_pct": 0.25,
      "rotary_emb_base": 10000, "vocab_size": 50304, "eos_token_id": 0}, "served"),
    ("EleutherAI/pythia-12b", "GPTNeoXForCausalLM", "gpt_neox",
     {"hidden_size": 5120, "intermediate_size": 20480, "num_hidden_layers": 36, "num_attention_heads": 40,
      "vocab_size": 50688, "eos_token_id": 0}, "served"),
    ("EleutherAI/gpt-neox-20b", "GPTNeoXForCausalLM", "gpt_neox", {"hidden_act": "gelu_fast", "eos_token_id": 0}, "served"),
    ("databricks/dolly-v2-3b", "GPTNeoXForCausalLM", "gpt_neox",
     {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 32,
      "vocab_size": 50280, "custom_pipelines": None}, "served"),
    ("togethercomputer/RedPajama-INCITE-Chat-3B-v1", "GPTNeoXForCausalLM", "gpt_neox",
     {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 32,
      "rotary_pct": 1.0, "use_parallel_residual": False}, "served"),
    ("tiiuae/Falcon-H1-1.5B-Instruct", "FalconH1ForCausalLM", "falcon_h1", {}, "class"),
    ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "NemotronHForCausalLM", "nemotron_h", {}, "class"),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "NemotronHForCausalLM", "nemotron_h",
     {"hidden_size": 2688, "intermediate_size": 1856, "hybrid_override_pattern":
      "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "num_key_value_heads": 2, "vocab_size": 131072,
      "max_position_embeddings": 262144, "mamba_num_heads": 64, "moe_intermediate_size": 1856,
      "moe_shared_expert_intermediate_size": 3712, "n_routed_experts": 128, "num_experts_per_tok": 6,
      "routed_scaling_factor": 2.5, "norm_eps": 1e-5, "rope_theta": 10000, "partial_rotary_factor": 1.0}, "served"),
    ("nvidia/Nemotron-H-8B-Base-8K", "NemotronHForCausalLM", "nemotron_h",
     {"hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", "max_position_embeddings": 8192,
      "attention_head_dim": 128, "rms_norm_eps": 1e-5, "time_step_rank": 256}, "served"),
    ("ibm-ai-platform/Bamba-9B-v2", "BambaForCausalLM", "bamba",
     {"attn_layer_indices": [9, 18, 27], "attn_rotary_emb": 64, "mamba_d_state": 128, "mamba_d_head": 64,
      "vocab_size": 128256, "rope_theta": 10000}, "served"),
    ("LiquidAI/LFM2-1.2B", "Lfm2ForCausalLM", "lfm2", {}, "class"),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "Llama4ForConditionalGeneration", "llama4",
     {"text_config": {"max_position_embeddings": 10485760, "rope_parameters": LLAMA4, "bos_token_id": 200000,
                      "eos_token_id": [200001, 200007, 200008], "pad_token_id": 200018, "for_llm_compressor": False}}, "served"),
    ("meta-llama/Llama-4-Maverick-17B-128E-Instruct", "Llama4ForConditionalGeneration", "llama4",
     {"text_config": {"max_position_embeddings": 1048576, "num_local_experts": 128, "interleave_moe_layer_step": 2,
                      "use_qk_norm": False, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}}, "served"),
    ("facebook/MobileLLM-R1-950M", "Llama4ForCausalLM", "llama4_text",
     sizes(1536, 6144, 22, 24, 6, 128256, 32768, head_dim=64, intermediate_size_mlp=6144, moe_layers=[], num_local_experts=0,
           num_experts_per_tok=0, interleave_moe_layer_step=0, no_rope_layers=[1] * 22, layer_types=["full_attention"] * 22,
           attn_temperature_tuning=False, tie_word_embeddings=True,
           rope_parameters={"rope_type": "default", "rope_theta": 8000000.0}), "served"),
    ("MiniMaxAI/MiniMax-M2", "MiniMaxM2ForCausalLM", "minimax_m2",
     {"rope_parameters": {"rope_type": "default", "rope_theta": 5000000.0}, "rotary_dim": 64,
      "attn_type_list": [1] * 62, "scoring_func": "sigmoid", "use_routing_bias": True, "use_qk_norm": True,
      "qk_norm_type": "per_layer", "use_mtp": True, "num_mtp_modules": 3, "mtp_transformer_layers": 1,
      "shared_intermediate_size": 0, "mlp_intermediate_size": 8192}, "served"),
    ("zai-org/GLM-4.7-Flash", "Glm4MoeLiteForCausalLM", "glm4_moe_lite",
     {"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}, "first_k_dense_replace": 1,
      "num_nextn_predict_layers": 1, "topk_method": "noaux_tc"}, "served"),
    ("rednote-hilab/dots.llm1.inst", "Dots1ForCausalLM", "dots1",
     {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6, "norm_topk_prob": True,
      "first_k_dense_replace": 1, "routed_scaling_factor": 2.5, "sliding_window": None,
      "max_position_embeddings": 32768, "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0}}, "served"),
    ("ByteDance-Seed/Seed-OSS-36B-Instruct", "SeedOssForCausalLM", "seed_oss",
     {"rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0}}, "served"),
    ("openbmb/MiniCPM3-4B", "MiniCPM3ForCausalLM", "minicpm3",
     {"rope_parameters": {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.1] * 16, "long_factor": [1.1] * 16,
                          "original_max_position_embeddings": 32768}}, "served"),
    ("baidu/ERNIE-4.5-0.3B-PT", "Ernie4_5ForCausalLM", "ernie4_5", {}, "served"),
]


def finite(v):
    """JSON has no infinity: as transformers saves it."""
    if isinstance(v, dict):
        return {k: finite(x) for k, x in v.items()}
    if isinstance(v, list):
        return [finite(x) for x in v]
    return {"__float__": "Infinity"} if v == float("inf") else v


def main():
    warnings.filterwarnings("ignore")
    out = []
    packed = [(*row[:3], row[3] | {"quantization_config": row[4]}, row[5]) for row in PACKED]
    for repository, name, model_type, options, verdict in ROWS + packed:
        config = CONFIG_MAPPING[model_type](**options, architectures=[name], dtype="bfloat16").to_dict()
        out.append({"repository": repository, "verdict": verdict, "config": finite(config)})
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in out)
    OUT.write_text(f"[\n{lines}\n]\n")
    print(len(out), "configurations,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
