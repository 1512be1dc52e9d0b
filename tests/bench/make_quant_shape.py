#!/usr/bin/env python3
"""Writes a HuggingFace folder with random weights in the sizes of Llama 3.2 1B, quantised as a method of the libraries stores
it, for bench_step --model.  Embedding and norms are bf16, the head is the embedding.

    make_quant_shape.py gptq-order DIR

gptq, gptq-order: 4 bits, groups of 128, symmetric; the columns of a group side by side, or anywhere (desc_act), alike for
the matrices that have the same input, as its Hessian makes them.  nf4: bitsandbytes, blocks of 64.  nvfp4:
compressed-tensors, blocks of 16.  int8: compressed-tensors' rows, with inputs in int8 by token (--activations checkpoint).
"""
import argparse
import json
import math
import pathlib
import struct

import numpy as np

UNIT = 1 << 22
D, F, Q, KV, LAYERS, VOCAB, GROUP = 2048, 8192, 2048, 512, 16, 128256, 128
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": D, "intermediate_size": F,
          "num_hidden_layers": LAYERS, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": VOCAB,
          "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
          "hidden_act": "silu", "torch_dtype": "bfloat16"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True, "checkpoint_format": "gptq"}
LEVELS = [-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0, 0.0795803, 0.1609302, 0.2461123,
          0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]


def compressed(form, weights, inputs):
    return {"quant_method": "compressed-tensors", "quantization_status": "compressed", "format": form, "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs,
                                          "output_activations": None}}}


SAID = {"gptq": GPTQ | {"desc_act": False}, "gptq-order": GPTQ | {"desc_act": True},
        "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": False, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8"},
        "nvfp4": compressed("nvfp4-pack-quantized", {"num_bits": 4, "type": "float", "symmetric": True, "dynamic": False,
                                                     "strategy": "tensor_group", "group_size": 16}, None),
        "int8": compressed("int-quantized", {"num_bits": 8, "type": "int", "symmetric": True, "dynamic": False, "strategy": "channel"},
                           {"num_bits": 8, "type": "int", "symmetric": True, "dynamic": True, "strategy": "token"})}


def matrices():
    """name: rows, columns, and which input it has."""
    out = {}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        for name, n in ("q", Q), ("k", KV), ("v", KV):
            out[f"{at}self_attn.{name}_proj"] = n, D, f"{i} attention"
        out[at + "self_attn.o_proj"] = D, Q, f"{i} o"
        out[at + "mlp.gate_proj"] = out[at + "mlp.up_proj"] = F, D, f"{i} mlp"
        out[at + "mlp.down_proj"] = D, F, f"{i} down"
    return out


class Values:
    """Random elements of every kind, and the small tensors that are made whole."""

    def __init__(self):
        rng = np.random.default_rng(1)
        floats = rng.normal(0, 0.02, UNIT).astype(np.float32)
        self.rng, self.index = rng, {}
        self.unit = {"BF16": (floats.view(np.uint32) >> 16).astype("<u2").tobytes(), "bytes": rng.integers(0, 256, UNIT, np.uint8).tobytes(),
                     "F16": (0.004 * (1 + rng.random(UNIT))).astype("<f2").tobytes(),
                     "absmax": (0.05 * (1 + rng.random(UNIT))).astype("<f4").tobytes(),
                     "e4m3": rng.integers(0x40, 0x70, UNIT, np.uint8).tobytes(),
                     "rows": (np.full(UNIT, 3e-4, np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()}

    def order(self, of, cols, shuffled):
        if of not in self.index:
            k = np.arange(cols) // GROUP
            self.index[of] = (k[self.rng.permutation(cols)] if shuffled else k).astype("<i4").tobytes()
        return self.index[of]


def parts(method, n, k, of, values):
    """end of the name: type, shape, and a unit's name or the bytes"""
    if method.startswith("gptq"):
        return {"qweight": ("I32", [k // 8, n], "bytes"), "scales": ("F16", [k // GROUP, n], "F16"),
                "qzeros": ("I32", [k // GROUP, n // 8], b"\x77" * (k // GROUP * n // 2)),
                "g_idx": ("I32", [k], values.order(of, k, method == "gptq-order"))}
    if method == "nf4":
        state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [n, k]}).encode()
        return {"weight": ("U8", [n * k // 2, 1], "bytes"), "weight.absmax": ("F32", [n * k // 64], "absmax"),
                "weight.quant_map": ("F32", [16], np.array(LEVELS, "<f4").tobytes()),
                "weight.quant_state.bitsandbytes__nf4": ("U8", [len(state)], state)}
    if method == "nvfp4":
        return {"weight_packed": ("U8", [n, k // 2], "bytes"), "weight_scale": ("F8_E4M3", [n, k // 16], "e4m3"),
                "weight_global_scale": ("F32", [1], np.array([2000.0], "<f4").tobytes())}
    return {"weight": ("I8", [n, k], "bytes"), "weight_scale": ("BF16", [n, 1], "rows")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("method", choices=SAID)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    (args.out / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": SAID[args.method]}, indent=1))
    values, listed = Values(), {"model.embed_tokens.weight": ("BF16", [VOCAB, D], "BF16"), "model.norm.weight": ("BF16", [D], "BF16")}
    for i in range(LAYERS):
        for norm in "input_layernorm", "post_attention_layernorm":
            listed[f"model.layers.{i}.{norm}.weight"] = ("BF16", [D], "BF16")
    for name, (n, k, of) in matrices().items():
        listed |= {f"{name}.{end}": part for end, part in parts(args.method, n, k, of, values).items()}
    size = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "U8": 1, "I8": 1, "F8_E4M3": 1}
    head, at = {}, 0
    for name, (kind, shape, _) in listed.items():
        n = math.prod(shape) * size[kind]
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head).encode()
    with open(args.out / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, (_, _, what) in listed.items():
            left = head[name]["data_offsets"][1] - head[name]["data_offsets"][0]
            data = values.unit[what] if isinstance(what, str) else what
            while left > 0:
                f.write(data[:left])
                left -= min(left, len(data))


if __name__ == "__main__":
    main()
