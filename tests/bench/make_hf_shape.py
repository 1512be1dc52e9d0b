#!/usr/bin/env python3
"""Writes a HuggingFace folder with random weights in the sizes of a kind of model, so that `ingot quantize` can make a GGUF
file of it that other engines open too.  Matrices are bf16, norms and other vectors f32, experts of gpt-oss MXFP4.  The
tokenizer is the Qwen3 one of the shared data.

    make_hf_shape.py delta-1b DIR TOKENIZER_DIR
"""
import argparse
import json
import lzma
import math
import pathlib
import shutil
import struct

import numpy as np

UNIT = 1 << 22
MLA = {"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 5632,
       "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": None,
       "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 8, "num_experts_per_tok": 2,
       "n_shared_experts": 1, "moe_intermediate_size": 1408, "first_k_dense_replace": 26, "routed_scaling_factor": 1.0,
       "vocab_size": 151936, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
       "tie_word_embeddings": False}
DELTA = {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": 2048, "intermediate_size": 6144,
         "num_hidden_layers": 20, "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
         "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
         "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "vocab_size": 151936, "max_position_embeddings": 32768,
         "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "hidden_act": "silu",
         "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25,
                             "mrope_interleaved": True, "mrope_section": [11, 11, 10]}}
OSS = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
       "num_hidden_layers": 6, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "num_local_experts": 32,
       "num_experts_per_tok": 4, "experts_per_token": 4, "sliding_window": 128, "vocab_size": 151936,
       "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 150000.0, "attention_bias": True,
       "swiglu_limit": 7.0, "tie_word_embeddings": False, "hidden_act": "silu",
       "layer_types": ["sliding_attention", "full_attention"] * 3,
       "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                        "original_max_position_embeddings": 4096},
       "quantization_config": {"quant_method": "mxfp4"}}


def ffn(at, hidden, width):
    return {f"{at}gate_proj.weight": (width, hidden), f"{at}up_proj.weight": (width, hidden), f"{at}down_proj.weight": (hidden, width)}


def latent_layer(c, i):
    d, heads, rank = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    nope, rope = c["qk_nope_head_dim"], c["qk_rope_head_dim"]
    out = {"self_attn.q_proj.weight": (heads * (nope + rope), d), "self_attn.kv_a_proj_with_mqa.weight": (rank + rope, d),
           "self_attn.kv_a_layernorm.weight": (rank,), "self_attn.kv_b_proj.weight": (heads * (nope + c["v_head_dim"]), rank),
           "self_attn.o_proj.weight": (d, heads * c["v_head_dim"])}
    if i < c["first_k_dense_replace"]:
        return out | ffn("mlp.", d, c["intermediate_size"])
    for e in range(c["n_routed_experts"]):
        out |= ffn(f"mlp.experts.{e}.", d, c["moe_intermediate_size"])
    return out | {"mlp.gate.weight": (c["n_routed_experts"], d)} | ffn("mlp.shared_experts.", d, c["moe_intermediate_size"])


def delta_layer(c, i):
    d, dh = c["hidden_size"], c["head_dim"]
    out = ffn("mlp.", d, c["intermediate_size"])
    if (i + 1) % c["full_attention_interval"] == 0:
        q, kv = c["num_attention_heads"] * dh, c["num_key_value_heads"] * dh
        return out | {"self_attn.q_proj.weight": (2 * q, d), "self_attn.k_proj.weight": (kv, d),
                      "self_attn.v_proj.weight": (kv, d), "self_attn.o_proj.weight": (d, q), "self_attn.q_norm.weight": (dh,),
                      "self_attn.k_norm.weight": (dh,)}
    keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    heads = c["linear_num_value_heads"]
    values = heads * c["linear_value_head_dim"]
    return out | {"linear_attn.in_proj_qkv.weight": (2 * keys + values, d), "linear_attn.in_proj_z.weight": (values, d),
                  "linear_attn.in_proj_b.weight": (heads, d), "linear_attn.in_proj_a.weight": (heads, d),
                  "linear_attn.conv1d.weight": (2 * keys + values, 1, c["linear_conv_kernel_dim"]), "linear_attn.A_log": (heads,),
                  "linear_attn.dt_bias": (heads,), "linear_attn.norm.weight": (c["linear_value_head_dim"],),
                  "linear_attn.out_proj.weight": (d, values)}


def oss_layer(c, _):
    d, dh, n, width = c["hidden_size"], c["head_dim"], c["num_local_experts"], c["intermediate_size"]
    q, kv = c["num_attention_heads"] * dh, c["num_key_value_heads"] * dh
    out = {"self_attn.sinks": (c["num_attention_heads"],), "mlp.router.weight": (n, d), "mlp.router.bias": (n,)}
    for name, rows, cols in ("q", q, d), ("k", kv, d), ("v", kv, d), ("o", d, q):
        out |= {f"self_attn.{name}_proj.weight": (rows, cols), f"self_attn.{name}_proj.bias": (rows,)}
    for name, rows, cols in ("gate_up", 2 * width, d), ("down", d, width):
        at = f"mlp.experts.{name}_proj_"
        out |= {at + "blocks": (n, rows, cols // 32, 16), at + "scales": (n, rows, cols // 32), at + "bias": (n, rows)}
    return out


SHAPES = {"mla-1b": (MLA, latent_layer), "delta-1b": (DELTA, delta_layer), "mxfp4-4b": (OSS, oss_layer)}


def tensors(config, layer):
    d, vocab = config["hidden_size"], config["vocab_size"]
    out = {"model.embed_tokens.weight": (vocab, d), "model.norm.weight": (d,)}
    if not config["tie_word_embeddings"]:
        out["lm_head.weight"] = (vocab, d)
    for i in range(config["num_hidden_layers"]):
        one = {"input_layernorm.weight": (d,), "post_attention_layernorm.weight": (d,)} | layer(config, i)
        out |= {f"model.layers.{i}.{name}": shape for name, shape in one.items()}
    return out


def kind_of(name, shape):
    """(type, bytes of an element)"""
    if name.endswith(("_blocks", "_scales")):
        return "U8", 1
    vector = len(shape) == 1 or name.endswith("conv1d.weight")
    return ("F32", 4) if vector and "bias" not in name else ("BF16", 2)


def units():
    rng = np.random.default_rng(1)
    values = rng.normal(0, 0.02, UNIT).astype(np.float32)
    return {"BF16": (values.view(np.uint32) >> 16).astype(np.uint16).tobytes(), "F32": np.full(UNIT, 0.5, np.float32).tobytes(),
            "blocks": rng.integers(0, 256, UNIT, np.uint8).tobytes(), "scales": rng.integers(118, 122, UNIT, np.uint8).tobytes()}


def write(folder, listed):
    head, at = {}, 0
    for name, shape in listed.items():
        kind, size = kind_of(name, shape)
        n = math.prod(shape) * size
        head[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head).encode()
    unit = units()
    with open(folder / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, h in head.items():
            n = h["data_offsets"][1] - h["data_offsets"][0]
            of = unit[name.rsplit("_", 1)[1] if h["dtype"] == "U8" else h["dtype"]]
            for done in range(0, n, len(of)):
                f.write(of[:n - done])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path, help="a folder with tokenizer.json or tokenizer.json.xz")
    args = parser.parse_args()
    config, layer = SHAPES[args.shape]
    args.out.mkdir(parents=True)
    (args.out / "config.json").write_text(json.dumps(config, indent=1))
    packed = args.tokenizer / "tokenizer.json.xz"
    text = lzma.open(packed).read() if packed.exists() else (args.tokenizer / "tokenizer.json").read_bytes()
    (args.out / "tokenizer.json").write_bytes(text)
    shutil.copy(args.tokenizer / "tokenizer_config.json", args.out)
    write(args.out, tensors(config, layer))


if __name__ == "__main__":
    main()
