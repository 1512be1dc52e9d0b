"""Makes the fixtures of tests/golden/models whose oracle is transformers alone: the families behind the first six.
README.md beside this file says what the files are.

    python3 make_families.py [NAME ...]

Weights are drawn from the seed of the row, every norm weight and bias among them. Each directory is loaded as a
published repository would be (float32, eager attention). A control runs transformers with one option changed: its
logits must differ by more than MATTERS, so that a loader that ignores the option fails the fixture. greedy_ids are
48 tokens behind the first n_prompt ones, each by more than GAP ahead of the second.
"""

import json
import pathlib
import shutil
import sys
import tempfile
import types

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.utils import logging

OUT = pathlib.Path(__file__).parent / "models"
T, N_NEW = 68, 48
MATTERS, GAP = 1e-2, 1e-3
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

BASE = {"hidden_size": 32, "intermediate_size": 56, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 104, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
        "initializer_range": 0.02, "use_cache": True, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}
GEMMA = {"head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "hidden_act": "gelu_pytorch_tanh",
         "attention_bias": False, "attention_dropout": 0.0, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 24,
         "cache_implementation": "hybrid", "sliding_window": 12}
GEMMA1 = BASE | {"architectures": ["GemmaForCausalLM"], "model_type": "gemma", "head_dim": 16, "hidden_act": "gelu",
                 "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False, "rope_theta": 500.0,
                 "rope_scaling": None}
GEMMA2 = BASE | GEMMA | {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "rope_theta": 10000.0,
                         "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
GEMMA3 = BASE | GEMMA | {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "rope_theta": 1000000.0,
                         "rope_local_base_freq": 500.0, "sliding_window_pattern": 3,
                         "attn_logit_softcapping": None, "final_logit_softcapping": None}
MISTRAL = BASE | {"model_type": "mistral", "head_dim": 16, "hidden_act": "silu", "rope_theta": 500.0,
                  "sliding_window": None, "tie_word_embeddings": False}
MINISTRAL3 = BASE | {"architectures": ["Ministral3ForCausalLM"], "model_type": "ministral3", "head_dim": 16,
                     "hidden_act": "silu", "sliding_window": None, "tie_word_embeddings": False,
                     "rope_parameters": {"rope_type": "yarn", "type": "yarn", "rope_theta": 500.0, "factor": 16.0,
                                         "original_max_position_embeddings": 16, "beta_fast": 32.0, "beta_slow": 1.0,
                                         "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4}}
PHI3 = BASE | {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 64,
               "hidden_act": "silu", "rope_theta": 10000.0, "rope_scaling": None,
               "attention_bias": False, "attention_dropout": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0,
               "original_max_position_embeddings": 256, "sliding_window": None, "tie_word_embeddings": False,
               "pad_token_id": 0, "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}}
SHORT = [1.0, 1.05, 1.1, 1.2, 1.5, 1.9, 2.4, 3.0]
LONG = [1.0, 1.3, 1.9, 3.0, 5.0, 9.0, 14.0, 22.0]
LONGROPE = {"type": "longrope", "short_factor": SHORT, "long_factor": LONG}


SMOLLM3 = BASE | {"architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "hidden_act": "silu",
                  "rope_theta": 500.0, "rope_scaling": None, "attention_bias": False, "mlp_bias": False,
                  "use_sliding_window": False, "sliding_window": None, "max_window_layers": 28, "pretraining_tp": 2,
                  "no_rope_layer_interval": 2, "no_rope_layers": [1, 0, 1, 0], "pad_token_id": 0, "tie_word_embeddings": True}
GRANITE = BASE | {"architectures": ["GraniteForCausalLM"], "model_type": "granite", "hidden_act": "silu",
                  "rope_theta": 10000.0, "rope_scaling": None, "attention_bias": False, "mlp_bias": False,
                  "attention_multiplier": 0.2, "embedding_multiplier": 3.0, "residual_multiplier": 0.4,
                  "logits_scaling": 2.0, "tie_word_embeddings": True}
GRANITE_MOE = GRANITE | {"architectures": ["GraniteMoeForCausalLM"], "model_type": "granitemoe", "num_local_experts": 5,
                         "num_experts_per_tok": 2, "intermediate_size": 24, "output_router_logits": False,
                         "router_aux_loss_coef": 0.001, "logits_scaling": 0.5}
GRANITE_MOE.pop("mlp_bias")
GLM4 = BASE | {"pad_token_id": 0, "architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "hidden_act": "silu", "head_dim": 16,
               "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "attention_bias": True, "rms_norm_eps": 1e-5,
               "tie_word_embeddings": False}
EXAONE4 = BASE | {"architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4", "hidden_act": "silu",
                  "head_dim": 16, "rope_theta": 500.0, "rope_scaling": None, "tie_word_embeddings": False,
                  "sliding_window": 12, "sliding_window_pattern": "LG",
                  "layer_types": ["sliding_attention", "full_attention"] * 2}

QWEN2MOE = BASE | {"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "hidden_act": "silu",
                   "rope_theta": 500.0, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
                   "shared_expert_intermediate_size": 36, "norm_topk_prob": False, "decoder_sparse_step": 1,
                   "mlp_only_layers": [], "use_sliding_window": False, "sliding_window": 128, "max_window_layers": 21,
                   "output_router_logits": False, "router_aux_loss_coef": 0.001, "tie_word_embeddings": False}
GLM4MOE = BASE | {"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_act": "silu",
                  "head_dim": 16, "rope_theta": 10000.0, "rope_scaling": None, "partial_rotary_factor": 0.5,
                  "attention_bias": True, "use_qk_norm": True, "n_routed_experts": 8, "num_experts_per_tok": 3,
                  "moe_intermediate_size": 20, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
                  "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.5, "num_nextn_predict_layers": 1,
                  "pad_token_id": 0, "tie_word_embeddings": False}
DOTS1 = BASE | {"architectures": ["Dots1ForCausalLM"], "model_type": "dots1", "hidden_act": "silu", "head_dim": 16,
                "rope_theta": 10000.0, "rope_scaling": None, "attention_bias": False, "n_routed_experts": 8,
                "num_experts_per_tok": 3, "moe_intermediate_size": 20, "n_shared_experts": 2, "first_k_dense_replace": 1,
                "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
                "sliding_window": None, "max_window_layers": 62, "tie_word_embeddings": False}
MINIMAX = BASE | {"architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax_m2", "hidden_act": "silu", "head_dim": 16,
                  "rope_theta": 5000.0, "rotary_dim": 8, "num_local_experts": 8, "num_experts_per_tok": 3,
                  "intermediate_size": 20, "scoring_func": "sigmoid", "use_routing_bias": True, "use_qk_norm": True,
                  "qk_norm_type": "per_layer", "attn_type_list": [1, 1, 1, 1], "shared_intermediate_size": 0,
                  "use_mtp": True, "num_mtp_modules": 3, "mtp_transformer_layers": 1, "output_router_logits": False,
                  "tie_word_embeddings": False}
SEED_OSS = BASE | {"architectures": ["SeedOssForCausalLM"], "model_type": "seed_oss", "hidden_act": "silu", "head_dim": 16,
                   "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "attention_bias": True,
                   "attention_out_bias": False, "mlp_bias": False, "residual_dropout": 0.1, "tie_word_embeddings": False}
ERNIE = BASE | {"architectures": ["Ernie4_5ForCausalLM"], "model_type": "ernie4_5", "hidden_act": "silu", "head_dim": 16,
                "rope_theta": 500.0, "rope_scaling": None, "use_bias": False, "tie_word_embeddings": True,
                "rms_norm_eps": 1e-5}
OLMO2 = BASE | {"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "hidden_act": "silu", "rope_theta": 500000.0,
                "rope_scaling": None, "attention_bias": False, "pad_token_id": 0, "tie_word_embeddings": False}
OLMO3 = OLMO2 | {"architectures": ["Olmo3ForCausalLM"], "model_type": "olmo3", "sliding_window": 12,
                 "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
                 "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32,
                                  "attention_factor": 1.2, "beta_fast": 32.0, "beta_slow": 1.0}}
OLMOE = OLMO2 | {"architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "rope_theta": 10000.0, "num_experts": 6,
                 "num_experts_per_tok": 2, "intermediate_size": 20, "norm_topk_prob": False, "clip_qkv": None,
                 "output_router_logits": False, "router_aux_loss_coef": 0.01}
COHERE = {k: v for k, v in BASE.items() if k != "rms_norm_eps"} | {
    "architectures": ["CohereForCausalLM"], "model_type": "cohere", "hidden_act": "silu", "layer_norm_eps": 1e-5,
    "rope_theta": 10000.0, "attention_bias": False, "attention_dropout": 0.0, "logit_scale": 0.25, "pad_token_id": 0,
    "use_qk_norm": False, "tie_word_embeddings": True}
COHERE2 = COHERE | {"architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2", "sliding_window": 12,
                    "sliding_window_pattern": 4, "rotary_pct": 1.0, "order_of_interleaved_layers": "local_attn_first",
                    "position_embedding_type": "rope_gptj", "use_embedding_sharing": True, "layer_switch": 4,
                    "use_gated_activation": True, "use_parallel_block": True, "use_parallel_embedding": True,
                    "rope_scaling": None, "cache_implementation": "hybrid"}
STARCODER2 = {k: v for k, v in BASE.items() if k != "rms_norm_eps"} | {
    "architectures": ["Starcoder2ForCausalLM"], "model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh",
    "norm_epsilon": 1e-5, "rope_theta": 10000.0, "use_bias": True, "sliding_window": 12, "attention_dropout": 0.0,
    "residual_dropout": 0.0, "embedding_dropout": 0.0, "mlp_type": "default", "norm_type": "layer_norm",
    "tie_word_embeddings": True}

GPT_OSS = BASE | {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_act": "silu", "head_dim": 16,
                  "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2, "num_local_experts": 4,
                  "num_experts_per_tok": 2, "experts_per_token": 2, "initial_context_length": 32, "swiglu_limit": 1.5,
                  "attention_bias": True, "sliding_window": 12, "rope_theta": 150000.0, "output_router_logits": False,
                  "router_aux_loss_coef": 0.9, "tie_word_embeddings": False, "pad_token_id": 0,
                  "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                   "original_max_position_embeddings": 32, "truncate": False},
                  "layer_types": ["sliding_attention", "full_attention"]}

DEEPSEEK = BASE | {"num_hidden_layers": 3, "num_key_value_heads": 4, "hidden_act": "silu", "rope_theta": 10000.0,
                   "attention_bias": False, "attention_dropout": 0.0, "n_routed_experts": 8, "num_experts_per_tok": 3,
                   "moe_intermediate_size": 12, "n_shared_experts": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1,
                   "kv_lora_rank": 24, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10, "ep_size": 1,
                   "aux_loss_alpha": 0.001, "seq_aux": True, "pretraining_tp": 1, "tie_word_embeddings": False,
                   "rms_norm_eps": 1e-6, "rope_scaling": {"type": "yarn", "factor": 8.0, "beta_fast": 32, "beta_slow": 1,
                                                          "original_max_position_embeddings": 32, "mscale": 0.707,
                                                          "mscale_all_dim": 0.707}}
DEEPSEEK2 = DEEPSEEK | {"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "q_lora_rank": None,
                        "n_group": 1, "topk_group": 1, "topk_method": "greedy", "scoring_func": "softmax",
                        "norm_topk_prob": False, "routed_scaling_factor": 1.0}
DEEPSEEK3 = DEEPSEEK | {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "q_lora_rank": 20,
                        "num_attention_heads": 6, "num_key_value_heads": 6, "n_group": 4, "topk_group": 2,
                        "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True,
                        "routed_scaling_factor": 2.5, "n_shared_experts": 1, "num_nextn_predict_layers": 1,
                        "rope_scaling": DEEPSEEK["rope_scaling"] | {"mscale": 1.0, "mscale_all_dim": 1.0}}
GLM4LITE = {k: v for k, v in DEEPSEEK.items() if k not in ("first_k_dense_replace", "moe_layer_freq", "ep_size",
                                                          "aux_loss_alpha", "seq_aux", "rope_scaling")} | {
    "architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite", "q_lora_rank": 20, "n_group": 1,
    "topk_group": 1, "topk_method": "noaux_tc", "norm_topk_prob": True, "routed_scaling_factor": 1.8, "n_shared_experts": 1,
    "num_nextn_predict_layers": 1, "rms_norm_eps": 1e-5, "partial_rotary_factor": 1.0}
QWEN3NEXT = {k: v for k, v in BASE.items() if k != "intermediate_size"} | {
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "hidden_act": "silu", "head_dim": 16,
    "intermediate_size": 40, "rope_theta": 500.0, "rope_scaling": None, "partial_rotary_factor": 0.25,
    "attention_bias": False, "attention_dropout": 0.0, "rms_norm_eps": 1e-6, "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12, "linear_num_key_heads": 4,
    "linear_num_value_heads": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "num_experts": 6,
    "num_experts_per_tok": 2, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 24, "norm_topk_prob": True,
    "use_sliding_window": False, "output_router_logits": False, "router_aux_loss_coef": 0.001,
    "tie_word_embeddings": False}
QWEN35 = {k: v for k, v in QWEN3NEXT.items() if "expert" not in k and "moe" not in k and k not in (
    "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "rope_theta", "rope_scaling", "partial_rotary_factor",
    "output_router_logits", "router_aux_loss_coef", "use_sliding_window", "full_attention_interval")} | {
    "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "attn_output_gate": True,
    "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False,
    "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "partial_rotary_factor": 0.5,
                        "mrope_section": [2, 1, 1], "mrope_interleaved": True}}
QWEN35MOE = {k: v for k, v in QWEN35.items() if k != "intermediate_size"} | {
    "architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text", "num_experts": 6,
    "num_experts_per_tok": 2, "moe_intermediate_size": 20, "shared_expert_intermediate_size": 24,
    "output_router_logits": False, "router_aux_loss_coef": 0.001}
MINICPM3 = BASE | {"architectures": ["MiniCPM3ForCausalLM"], "model_type": "minicpm3", "num_key_value_heads": 4,
                   "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0, "q_lora_rank": 20,
                   "kv_lora_rank": 24, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "scale_emb": 12, "scale_depth": 1.4,
                   "dim_model_base": 256, "rope_scaling": LONGROPE | {"short_factor": SHORT[2:6], "long_factor": LONG[2:6],
                                                                      "original_max_position_embeddings": 256},
                   "auto_map": {"AutoConfig": "configuration_minicpm.MiniCPM3Config"}}
YARN_ALIKE = [{"rope_scaling.mscale_all_dim": 0.2}, {"rope_scaling.mscale": 1.5}, {"rope_scaling.factor": 4.0}]


def vision(text, name, model_type, **more):
    """A multi-modal model around a text model; the vision tower is a tiny one."""
    siglip = {"model_type": "siglip_vision_model", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
              "num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    pixtral = {"model_type": "pixtral", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
               "num_attention_heads": 2, "head_dim": 4, "image_size": 28, "patch_size": 14}
    text = {k: v for k, v in text.items() if k not in ("architectures", "torch_dtype", "cache_implementation")}
    return {"architectures": [name], "model_type": model_type, "text_config": text, "torch_dtype": "float32",
            "vision_config": siglip if model_type == "gemma3" else pixtral, **more}


def qwen_vision(text, name, model_type):
    """The multi-modal model around a text model of Qwen3.5."""
    tower = {"model_type": model_type, "hidden_size": 8, "intermediate_size": 16, "depth": 1, "num_heads": 2,
             "out_hidden_size": 32, "num_position_embeddings": 16, "patch_size": 2}
    text = {k: v for k, v in text.items() if k not in ("architectures", "torch_dtype")} | {"dtype": "float32"}
    return {"architectures": [name], "model_type": model_type, "text_config": text, "vision_config": tower,
            "image_token_id": 103, "video_token_id": 102, "vision_start_token_id": 101, "vision_end_token_id": 100,
            "tie_word_embeddings": False}


QWEN35_VISION = qwen_vision(QWEN35, "Qwen3_5ForConditionalGeneration", "qwen3_5")
QWEN35MOE_VISION = qwen_vision(QWEN35MOE, "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe")


def row(name, config, controls, dtype="float32", published=True, n_prompt=20, seed=None):
    """controls: what is changed one at a time; a key with a dot is inside the object before it."""
    return dict(name=name, config=config | ({} if "text_config" in config else {"torch_dtype": dtype}),
                controls=controls, dtype=dtype, published=published, n_prompt=n_prompt, seed=seed)


ROWS = [
    row("gemma2", GEMMA2, [{"attn_logit_softcapping": None}, {"final_logit_softcapping": None},
                           {"query_pre_attn_scalar": 16}, {"sliding_window": 200},
                           {"layer_types": ["full_attention", "sliding_attention"] * 2},
                           {"hidden_activation": "silu"}]),
    row("gemma2-types-bf16", GEMMA2 | {"layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                                                       "full_attention"], "tie_word_embeddings": False},
        [{"layer_types": None}], dtype="bfloat16"),
    row("gemma2-bf16", GEMMA2 | {"query_pre_attn_scalar": 16}, [{"query_pre_attn_scalar": 24}], dtype="bfloat16"),
    row("gemma3", GEMMA3, [{"rope_local_base_freq": 10000.0}, {"sliding_window_pattern": 2}, {"sliding_window": 200},
                           {"query_pre_attn_scalar": 16}, {"rope_theta": 500.0}]),
    row("gemma3-v5", {k: v for k, v in GEMMA3.items() if k not in ("rope_theta", "rope_local_base_freq",
                                                                    "sliding_window_pattern")} |
        {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 800.0}},
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
         "final_logit_softcapping": 3.0, "attn_logit_softcapping": 4.0},
        [{"rope_parameters.full_attention": {"rope_type": "default", "rope_theta": 5000.0}},
         {"rope_parameters.sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}},
         {"final_logit_softcapping": None}]),  # transformers reads attn_logit_softcapping here without effect
    row("gemma3-vision", vision(GEMMA3 | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
                                "Gemma3ForConditionalGeneration", "gemma3", mm_tokens_per_image=4,
                                image_token_index=103, boi_token_index=101, eoi_token_index=102, eos_token_id=[2, 3]),
        [{"text_config.rope_scaling": None}]),
    row("gemma3-vision-v5", vision(GEMMA3 | {"query_pre_attn_scalar": 16}, "Gemma3ForConditionalGeneration", "gemma3",
                                   mm_tokens_per_image=4, image_token_index=103, boi_token_index=101, eoi_token_index=102),
        [{"text_config.sliding_window": 200}], published=False),
    row("mistral3-vision", vision(MISTRAL, "Mistral3ForConditionalGeneration", "mistral3", image_token_index=103,
                                  projector_hidden_act="gelu", spatial_merge_size=2, vision_feature_layer=-1,
                                  multimodal_projector_bias=False),
        [{"text_config.rope_theta": 10000.0}]),
    row("ministral3", MINISTRAL3, [{"rope_parameters.llama_4_scaling_beta": 0.0}, {"rope_parameters.factor": 4.0}]),
    row("ministral3-vision-v5", vision(MINISTRAL3 | {"tie_word_embeddings": True}, "Mistral3ForConditionalGeneration",
                                       "mistral3", image_token_index=103, spatial_merge_size=2,
                                       vision_feature_layer=-1),
        [{"text_config.rope_parameters.llama_4_scaling_beta": 0.0}], published=False),
    row("phi3", PHI3 | {"sliding_window": 12}, [{"sliding_window": None}, {"rope_theta": 500.0}]),
    row("phi3-long", PHI3 | {"original_max_position_embeddings": 32, "rope_scaling": LONGROPE, "sliding_window": 240},
        [{"rope_scaling.long_factor": SHORT}, {"original_max_position_embeddings": 256}], n_prompt=40),
    row("phi3-short", PHI3 | {"max_position_embeddings": 128, "original_max_position_embeddings": 128,
                              "rope_scaling": LONGROPE},
        [{"rope_scaling.short_factor": LONG}, {"rope_scaling": None}]),
    row("phi3-partial-bf16", PHI3 | {"original_max_position_embeddings": 32, "partial_rotary_factor": 0.75,
                                     "rope_scaling": LONGROPE | {"short_factor": SHORT[:6], "long_factor": LONG[:6]},
                                     "tie_word_embeddings": True}, [{"rope_scaling.long_factor": SHORT[:6]}],
        dtype="bfloat16", n_prompt=40),
    row("smollm3", SMOLLM3, [{"no_rope_layers": [1, 1, 1, 1]}, {"no_rope_layers": [0, 1, 0, 1]},
                             {"rope_theta": 10000.0}]),
    row("smollm3-bias-bf16", {k: v for k, v in SMOLLM3.items() if k != "no_rope_layers"} |
        {"attention_bias": True, "no_rope_layer_interval": 4}, [{"no_rope_layer_interval": 2}], dtype="bfloat16"),
    row("granite", GRANITE, [{"attention_multiplier": 0.35}, {"embedding_multiplier": 1.0},
                             {"residual_multiplier": 1.0}, {"logits_scaling": 1.0}]),
    row("gemma", GEMMA1, [{"hidden_act": "silu"}, {"rope_theta": 10000.0}]),
    row("ministral", MISTRAL | {"architectures": ["MinistralForCausalLM"], "model_type": "ministral", "sliding_window": 12,
                                "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                                                "full_attention"]}, [{"layer_types": None}, {"sliding_window": 200}]),
    row("granitemoe", GRANITE_MOE, [{"num_experts_per_tok": 1}, {"residual_multiplier": 1.0}]),
    row("granitemoe-bf16", GRANITE_MOE | {"num_experts_per_tok": 5, "tie_word_embeddings": False},
        [{"num_experts_per_tok": 2}], dtype="bfloat16"),
    row("glm4", GLM4, [{"partial_rotary_factor": 1.0}, {"rms_norm_eps": 0.1}]),
    row("glm4-plain", {k: v for k, v in GLM4.items() if k != "partial_rotary_factor"} |
        {"attention_bias": False, "tie_word_embeddings": True}, [{"rope_theta": 500.0}]),
    row("exaone4", EXAONE4, [{"sliding_window": 200}, {"layer_types": ["full_attention", "sliding_attention"] * 2},
                             {"rope_theta": 10000.0}]),
    row("exaone4-full", EXAONE4 | {"sliding_window": None, "sliding_window_pattern": None,
                                   "layer_types": ["full_attention"] * 4}, [{"rope_theta": 10000.0}]),
    # as published: GGUF files of the Gemmas have no keys for query_pre_attn_scalar, the pattern and Gemma's rope_theta
    row("gemma-plain-bf16", GEMMA1 | {"rope_theta": 10000.0}, [{"hidden_act": "silu"}], dtype="bfloat16"),
    row("gemma3-plain-bf16", GEMMA3 | {"query_pre_attn_scalar": 16, "sliding_window_pattern": 6, "num_hidden_layers": 7,
                                       "rope_local_base_freq": 10000.0},
        [{"sliding_window_pattern": 2}, {"sliding_window": 200}, {"rope_local_base_freq": 500.0}], dtype="bfloat16"),
    row("qwen2moe", QWEN2MOE, [{"norm_topk_prob": True}, {"num_experts_per_tok": 3}, {"rope_theta": 10000.0}]),
    row("qwen2moe-step-bf16", QWEN2MOE | {"decoder_sparse_step": 2, "norm_topk_prob": True, "use_sliding_window": True,
                                          "sliding_window": 12, "max_window_layers": 3},
        [{"use_sliding_window": False}, {"norm_topk_prob": False}], dtype="bfloat16"),
    row("glm4moe", GLM4MOE, [{"routed_scaling_factor": 1.0}, {"norm_topk_prob": False}, {"num_experts_per_tok": 2},
                             {"partial_rotary_factor": 1.0}]),
    row("glm4moe-groups", GLM4MOE | {"use_qk_norm": False, "n_group": 4, "topk_group": 2, "n_shared_experts": 2,
                                     "first_k_dense_replace": 2, "attention_bias": False, "num_nextn_predict_layers": 0},
        [{"topk_group": 4}, {"n_group": 2}, {"routed_scaling_factor": 1.0}]),
    row("olmo2", OLMO2, [{"rope_theta": 500.0}, {"rms_norm_eps": 0.1}]),
    row("olmo2-bias", OLMO2 | {"attention_bias": True, "num_key_value_heads": 1, "tie_word_embeddings": True},
        [{"rope_theta": 500.0}]),
    row("olmo3", OLMO3, [{"sliding_window": 200}, {"layer_types": ["full_attention"] * 4}, {"rope_scaling.factor": 4.0},
                         {"rope_scaling.attention_factor": 1.0}]),
    row("olmo3-v5", {k: v for k, v in OLMO3.items() if k not in ("rope_scaling", "rope_theta", "layer_types")} |
        {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}},
        [{"rope_parameters.sliding_attention.rope_theta": 10000.0}, {"sliding_window": 200}]),
    row("olmoe", OLMOE, [{"norm_topk_prob": True}, {"num_experts_per_tok": 3}, {"rope_theta": 500.0}]),
    row("cohere", COHERE, [{"logit_scale": 1.0}, {"rope_theta": 500.0}, {"layer_norm_eps": 0.1}]),
    row("cohere-bias", COHERE | {"attention_bias": True, "tie_word_embeddings": False}, [{"logit_scale": 1.0}]),
    row("cohere2", COHERE2, [{"sliding_window": 200}, {"sliding_window_pattern": 2}, {"logit_scale": 1.0},
                             {"rope_theta": 500.0}]),
    row("cohere2-types-bf16", {k: v for k, v in COHERE2.items() if k != "sliding_window_pattern"} |
        {"layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"]},
        [{"layer_types": None}], dtype="bfloat16"),
    row("starcoder2", STARCODER2, [{"sliding_window": None}, {"hidden_act": "silu"}, {"rope_theta": 500.0},
                                   {"norm_epsilon": 0.1}]),
    row("starcoder2-plain", STARCODER2 | {"use_bias": False, "sliding_window": None, "tie_word_embeddings": False},
        [{"hidden_act": "silu"}]),
    row("gpt-oss", GPT_OSS, [{"swiglu_limit": 7.0}, {"sliding_window": 200}, {"rope_scaling.truncate": True},
                             {"num_experts_per_tok": 3}, {"layer_types": ["full_attention", "sliding_attention"]}],
        seed=1000),
    row("gpt-oss-mxfp4", GPT_OSS | {"intermediate_size": 160, "quantization_config": {
        "quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                            "model.embed_tokens", "lm_head"]}}, [], seed=1002),
    row("gpt-oss-bf16", GPT_OSS | {"num_hidden_layers": 3, "swiglu_limit": 7.0, "num_key_value_heads": 1,
                                   "attention_bias": False, "tie_word_embeddings": True,
                                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        [{"sliding_window": 200}, {"swiglu_limit": 1.5}], dtype="bfloat16", seed=1001),
    row("deepseek2-lite-bf16", DEEPSEEK2, YARN_ALIKE + [{"num_experts_per_tok": 2}, {"routed_scaling_factor": 2.0},
                                                   {"rope_theta": 500.0}, {"rms_norm_eps": 0.1}],
        dtype="bfloat16", seed=1100),
    row("deepseek2", DEEPSEEK2 | {"q_lora_rank": 20, "n_group": 4, "topk_group": 2, "routed_scaling_factor": 4.0,
                                  "topk_method": "group_limited_greedy", "n_routed_experts": 12,
                                  "first_k_dense_replace": 0, "num_hidden_layers": 2, "rope_scaling": None},
        [{"topk_method": "greedy"}, {"topk_group": 3}, {"n_group": 6}, {"routed_scaling_factor": 1.0}], seed=1101),
    row("deepseek3", DEEPSEEK3, YARN_ALIKE + [{"topk_group": 3}, {"n_group": 2}, {"norm_topk_prob": False},
                                              {"routed_scaling_factor": 1.0}, {"rope_interleave": False}], seed=1102),
    row("deepseek3-halves-bf16", DEEPSEEK3 | {"attention_bias": True, "rope_interleave": False, "norm_topk_prob": False,
                                         "num_attention_heads": 4, "num_key_value_heads": 4,
                                         "rope_scaling": None, "tie_word_embeddings": True},
        [{"rope_interleave": True}, {"norm_topk_prob": True}], dtype="bfloat16", seed=1103),
    row("glm4lite", GLM4LITE, [{"routed_scaling_factor": 1.0}, {"norm_topk_prob": False}, {"num_experts_per_tok": 2},
                               {"rope_theta": 500.0}, {"rope_interleave": False}], seed=1105),
    row("glm4lite-layers-bf16", GLM4LITE | {"mlp_layer_types": ["sparse", "dense", "sparse"], "attention_bias": True,
                                            "n_group": 4, "topk_group": 2, "num_nextn_predict_layers": 0},
        [{"topk_group": 4}, {"n_group": 2}, {"routed_scaling_factor": 1.0}], dtype="bfloat16", seed=1106),
    row("dots1", DOTS1, [{"routed_scaling_factor": 1.0}, {"norm_topk_prob": False}, {"num_experts_per_tok": 2},
                         {"rope_theta": 500.0}], seed=1107),
    row("minimax-m2", MINIMAX, [{"rotary_dim": 16}, {"num_experts_per_tok": 2}, {"rope_theta": 500.0}], seed=1108),
    row("minimax-m2-kv1-bf16", MINIMAX | {"num_key_value_heads": 1, "rotary_dim": 16, "rms_norm_eps": 1e-5},
        [{"rotary_dim": 8}, {"num_experts_per_tok": 2}], dtype="bfloat16", seed=1109),
    row("qwen3next", QWEN3NEXT, [{"partial_rotary_factor": 1.0}, {"norm_topk_prob": False}, {"num_experts_per_tok": 3},
                                 {"rope_theta": 10000.0}, {"rms_norm_eps": 0.1}], seed=1200),
    row("qwen3next-uneven-bf16", {k: v for k, v in QWEN3NEXT.items() if k not in ("partial_rotary_factor",
                                                                                  "full_attention_interval")} |
        {"linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 20, "linear_value_head_dim": 72,
         "linear_conv_kernel_dim": 3, "decoder_sparse_step": 2, "mlp_only_layers": [3], "num_key_value_heads": 1,
         "norm_topk_prob": False, "tie_word_embeddings": True,
         "layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"]},
        [{"partial_rotary_factor": 1.0}, {"norm_topk_prob": True}], dtype="bfloat16", seed=1201),
    row("qwen35", QWEN35, [{"rope_parameters.partial_rotary_factor": 0.25}, {"rope_parameters.rope_theta": 10000.0},
                           {"rms_norm_eps": 0.1}], seed=1202),
    row("qwen35-vision", QWEN35_VISION, [{"text_config.rope_parameters.partial_rotary_factor": 0.25}], published=False,
        seed=1203),
    row("qwen35moe-bf16", QWEN35MOE, [{"num_experts_per_tok": 3}, {"rope_parameters.rope_theta": 10000.0}],
        dtype="bfloat16", seed=1204),
    row("qwen35moe-vision", QWEN35MOE_VISION, [{"text_config.num_experts_per_tok": 3}], published=False, seed=1205),
    row("qwen35-uneven-bf16", QWEN35 | {"linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 20,
                                        "linear_value_head_dim": 36, "linear_conv_kernel_dim": 3,
                                        "tie_word_embeddings": True},
        [{"rope_parameters.partial_rotary_factor": 0.25}], dtype="bfloat16", seed=1206),
    row("seed-oss", SEED_OSS, [{"rope_parameters.rope_theta": 10000.0}], seed=1110),
    row("seed-oss-bias-bf16", SEED_OSS | {"attention_bias": False, "attention_out_bias": True, "mlp_bias": True},
        [{"rope_parameters.rope_theta": 10000.0}], dtype="bfloat16", seed=1111),
    row("ernie45", ERNIE, [{"rope_theta": 10000.0}, {"rms_norm_eps": 0.1}], seed=1112),
    row("ernie45-bias", ERNIE | {"use_bias": True, "tie_word_embeddings": False}, [{"rope_theta": 10000.0}], seed=1113),
    row("minicpm3", MINICPM3, [{"scale_emb": 6}, {"scale_depth": 1.0}, {"dim_model_base": 128}, {"rope_theta": 500.0},
                               {"rope_scaling.short_factor": LONG[2:6]}], seed=1114),
    row("minicpm3-long-bf16", MINICPM3 | {
        "q_lora_rank": None, "v_head_dim": 10, "attention_bias": True, "mlp_bias": True, "scale_emb": 1.5, "scale_depth": None,
        "dim_model_base": None, "tie_word_embeddings": False,
        "rope_scaling": MINICPM3["rope_scaling"] | {"original_max_position_embeddings": 32}},
        [{"scale_emb": 3}, {"scale_depth": 1.4}, {"dim_model_base": 16}, {"rope_scaling.long_factor": SHORT[2:6]},
         {"rope_scaling.original_max_position_embeddings": 256}], dtype="bfloat16", n_prompt=40, seed=1115),
    row("moonlight-bf16", DEEPSEEK3 | {"q_lora_rank": None, "n_group": 1, "topk_group": 1, "rope_scaling": None,
                                       "rms_norm_eps": 1e-5, "rope_theta": 50000.0, "routed_scaling_factor": 2.446,
                                       "n_shared_experts": 2, "num_nextn_predict_layers": 0, "kv_lora_rank": 40,
                                       "num_attention_heads": 8, "num_key_value_heads": 8},
        [{"rope_theta": 500.0}, {"routed_scaling_factor": 1.0}, {"num_experts_per_tok": 2}], dtype="bfloat16", seed=1104),
]


def open_model(directory):
    """transformers' model, loaded as a published repository."""
    config = AutoConfig.from_pretrained(directory)
    auto = AutoModelForImageTextToText if hasattr(config, "text_config") else AutoModelForCausalLM
    model, info = auto.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager",
                                       output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[kind], f"{directory.name}: {kind} {info[kind]}"
    return model


def forward(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def draw(name, shape, scaled, rng):
    if name.endswith("A_log"):  # some heads forget within a few tokens, others remember all
        return rng.uniform(-4, 0.5, shape)
    if name.endswith("bias"):
        return rng.normal(0, 0.1 if "correction" in name else 0.4, shape)
    if len(shape) == 1:
        return rng.uniform(0.5, 1.5, shape)
    if "embed" in name:
        return rng.normal(0, 0.08 if scaled else 0.5, shape)  # the model multiplies it
    gain = 2.0 if "q_proj" in name or "k_proj" in name or "qkv" in name else 1.5
    return rng.normal(0, gain / np.sqrt(shape[-1]), shape)


def mixtral_name(name):
    """The names of MiniMax's and Mixtral's repositories."""
    for new, old in ((".mlp.", ".block_sparse_moe."), ("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")):
        name = name.replace(new, old)
    return name


def published_name(name, wrapped):
    """Of repositories that are older than transformers 5."""
    for new, old in (("experts.gate_up_proj", "input_linear.weight"), ("experts.down_proj", "output_linear.weight"),
                     ("router.weight", "router.layer.weight")):
        if "block_sparse_moe." + new in name:
            return name.replace(new, old)
    if not wrapped:
        return name
    if name.startswith("model.language_model."):
        return "language_model.model." + name[len("model.language_model."):]
    for part in ("vision_tower.", "multi_modal_projector."):
        if name.startswith("model." + part):
            return name[len("model."):]
    return "language_model." + name if name == "lm_head.weight" else name


def split_experts(name, value, dtype):
    """One tensor for each matrix of each expert, as published."""
    out, prefix = {}, name[:name.rindex(".") + 1]
    for i, each in enumerate(torch.from_numpy(value).to(dtype)):
        parts = {name[len(prefix):]: each}
        if name.endswith("gate_up_proj"):
            gate, up = each.chunk(2)
            parts = {"gate_proj": gate, "up_proj": up}
        out |= {f"{prefix}{i}.{part}.weight": v.contiguous() for part, v in parts.items()}
    return out


def mxfp4(name, shape, rng):
    """Blocks and scales of random 4-bit weights under the published names, and their values as transformers reads
    them: [E, cols, rows]."""
    n_experts, cols, rows = shape
    blocks = torch.from_numpy(rng.integers(0, 256, (n_experts, rows, cols // 32, 16), dtype=np.uint8))
    scales = torch.from_numpy(rng.integers(121, 125, (n_experts, rows, cols // 32), dtype=np.uint8))
    value = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    return {name + "_blocks": blocks, name + "_scales": scales}, value


def round_experts(model):
    """The inputs of the experts' matrices rounded to 8 bits in groups of 32, as ARCHITECTURE.md's numeric contract
    has it for weights in blocks; otherwise transformers' formulas."""
    def rounded(x):
        groups = x.reshape(-1, 32)
        most = groups.abs().amax(-1, keepdim=True)
        return (torch.round(groups * (127 / most)) * (most / 127)).reshape(x.shape)

    def forward(self, x, router_indices=None, routing_weights=None):
        shape, x = x.shape, x.reshape(-1, x.shape[-1])
        out = torch.zeros_like(x)
        for t in range(x.shape[0]):
            for e, weight in zip(router_indices[t], routing_weights[t]):
                h = self._apply_gate(rounded(x[t:t + 1]) @ self.gate_up_proj[e] + self.gate_up_proj_bias[e])
                out[t] += weight * (rounded(h) @ self.down_proj[e] + self.down_proj_bias[e])[0]
        return out.reshape(shape)

    for layer in model.model.layers:
        layer.mlp.experts.forward = types.MethodType(forward, layer.mlp.experts)


def write(directory, r, rng):
    """Random weights under the names of the model that transformers makes from the configuration."""
    directory.mkdir(parents=True)
    plain = {k: v for k, v in r["config"].items() if k != "quantization_config"}
    (directory / "config.json").write_text(json.dumps(plain, indent=2) + "\n")
    config = AutoConfig.from_pretrained(directory)
    wrapped = hasattr(config, "text_config")
    with torch.device("meta"):
        model = (AutoModelForImageTextToText if wrapped else AutoModelForCausalLM).from_config(config)
    tied = (config.get_text_config() if wrapped else config).tie_word_embeddings
    gemma, delta = (r["config"]["model_type"].startswith(x) for x in ("gemma", "qwen3_"))
    delta = delta and r["config"]["model_type"] != "qwen3_moe"
    mixtral = r["config"]["model_type"] == "minimax_m2"
    nemotron = r["config"]["model_type"] == "nemotron_h"
    scaled = gemma or bool({"embedding_multiplier", "scale_emb"} & r["config"].keys())
    tensors, stored = {}, {}
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        if plain != r["config"] and name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            packed, tensors[name] = mxfp4(name, tuple(p.shape), rng)
            stored |= packed
            continue
        value = draw(name, tuple(p.shape), scaled, rng)
        if nemotron:
            name = name.replace("model.", "backbone.", 1)
        if name.replace(".mixer.", ".mlp.").split(".mlp.experts.")[-1] in ("gate_up_proj", "up_proj", "down_proj") and not (
                r["config"]["model_type"].startswith(("gpt_oss", "qwen3_5"))):
            experts = split_experts(name, value, DTYPES[r["dtype"]])
            tensors |= {mixtral_name(k) if mixtral else k: v for k, v in experts.items()}
            continue
        if (gemma or delta) and name.endswith("norm.weight") and not any(
                part in name for part in ("vision", "visual", "linear_attn")):
            value -= 1
        if r["published"]:
            name = mixtral_name(name) if mixtral and ".mlp." in name else published_name(name, wrapped)
        tensors[name] = torch.from_numpy(value).to(DTYPES[r["dtype"]]).contiguous()
    if delta:  # of layers that predict further tokens; transformers does not read them
        tensors["mtp.fc.weight"] = torch.zeros(2, 4)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "model.safetensors").chmod(0o644)
    return {k: v for k, v in tensors.items() if k + "_blocks" not in stored} | stored


def changed(config, change):
    config = json.loads(json.dumps(config))
    for path, value in change.items():
        at, *keys = config, *path.split(".")
        for key in keys[:-1]:
            at = at[key]
        if value is None and keys[-1] in ("layer_types",):
            at.pop(keys[-1])
        else:
            at[keys[-1]] = value
    return config


def effect(directory, config, change, ids, logits):
    """The same weights under a changed configuration: max |difference| / max |logit|."""
    with tempfile.TemporaryDirectory() as other:
        other = pathlib.Path(other)
        (other / "config.json").write_text(json.dumps(changed(config, change)))
        (other / "model.safetensors").symlink_to((directory / "model.safetensors").resolve())
        return float(np.abs(forward(open_model(other), ids) - logits).max() / np.abs(logits).max())


def greedy(model, ids):
    out, least = list(ids), np.inf
    for _ in range(N_NEW):
        last = forward(model, out)[-1]
        best, second = np.sort(last)[::-1][:2]
        least = min(least, float(best - second))
        if least <= GAP:
            break
        out.append(int(last.argmax()))
    return out[len(ids):], least


def make(r, seed):
    directory = OUT / r["name"]
    for attempt in range(40):
        shutil.rmtree(directory, ignore_errors=True)
        rng = np.random.default_rng([seed, attempt])
        stored = write(directory, r, rng)
        model = open_model(directory)
        if "quantization_config" in r["config"]:
            round_experts(model)
        ids = [int(i) for i in rng.integers(3, 100, T)]
        logits = forward(model, ids)
        new, gap = greedy(model, ids[:r["n_prompt"]])
        if gap > GAP and len(set(new)) > 3:
            break
    assert gap > GAP, f"{r['name']}: no seed keeps its greedy ids apart"
    for change in r["controls"]:
        e = effect(directory, r["config"], change, ids, logits)
        assert e > MATTERS, f"{r['name']}: with {change} the logits differ by only {e:.2e}"
        print(f"    {str(change)[:90]:90} {e:.2f}")
    if "quantization_config" in r["config"]:  # transformers has read the values
        (directory / "config.json").write_text(json.dumps(r["config"], indent=2) + "\n")
        save_file(stored, directory / "model.safetensors", metadata={"format": "pt"})
        (directory / "model.safetensors").chmod(0o644)
    record(directory, r, ids, logits, new, gap, attempt,
           **({"limit": 1e-2} if "quantization_config" in r["config"] else {}))


def record(directory, r, ids, logits, new, gap, attempt, **more):
    """What the fixture is compared with; more: members of expected.json."""
    logits.astype("<f4").tofile(directory / "logits.f32")
    (directory / "expected.json").write_text(json.dumps(
        {"input_ids": ids, "n_positions": T, "vocab_size": logits.shape[1], "logits": "logits.f32",
         "n_prompt": r["n_prompt"], "greedy_ids": new} | more) + "\n")
    n_bytes = sum(p.stat().st_size for p in directory.iterdir())
    print(f"{r['name']:24} {r['dtype']:8} {n_bytes:7} bytes  |logit| {np.abs(logits).max():5.2f}  gap {gap:.1e}  "
          f"attempt {attempt}", flush=True)


def run(rows, make_row, first_seed=0):
    """The rows that the command line names, or all."""
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    for seed, r in enumerate(rows, first_seed):
        if not sys.argv[1:] or r["name"] in sys.argv[1:]:
            make_row(r, seed if r.get("seed") is None else r["seed"])


if __name__ == "__main__":
    run(ROWS, make)
