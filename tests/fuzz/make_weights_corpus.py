"""Makes tests/fuzz/corpus/weights: models of one layer with packed weights, one for each way in which HuggingFace
folders store them, in the form that fuzz_weights.c reads.  Run: python3 make_weights_corpus.py"""
import json
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent / "corpus" / "weights"
D, F, V, HEADS = 32, 40, 4, 4
MATRICES = {"self_attn.q_proj": (D, D), "self_attn.k_proj": (D // 2, D), "self_attn.v_proj": (D // 2, D),
            "self_attn.o_proj": (D, D), "mlp.gate_proj": (F, D), "mlp.up_proj": (F, D), "mlp.down_proj": (D, F)}
NAMES = {"float32": "F32", "float16": "F16", "int32": "I32", "int64": "I64", "int8": "I8", "uint8": "F8_E4M3"}
rng = np.random.default_rng(5)


def numbers(kind, *shape):
    if kind in ("float16", "float32"):
        return rng.uniform(0.1, 1, shape).astype(kind)
    return rng.integers(0, 100, shape).astype(kind)


def zeros_of(bits, sym, *shape):
    """Words of zero points, in the middle where all must be."""
    return np.full(shape, (0x77777777 if bits == 4 else 0x7f7f7f7f), np.int32) if sym else numbers("int32", *shape)


def gptq(n, k, bits=4, group=32, sym=True, order=False):
    g = -(-k // group)
    index = np.arange(k) // group
    return {"qweight": numbers("int32", k * bits // 32, n), "scales": numbers("float16", g, n),
            "qzeros": zeros_of(bits, sym, g, n * bits // 32),
            "g_idx": (rng.permutation(index) if order else index).astype(np.int32)}


def awq(n, k, group=32):
    g = -(-k // group)
    return {"qweight": numbers("int32", k, n // 8), "scales": numbers("float16", g, n),
            "qzeros": numbers("int32", g, n // 8)}


def packed(n, k):
    return {"weight_packed": numbers("int32", n, k // 8), "weight_scale": numbers("float16", n, -(-k // 16)),
            "weight_zero_point": numbers("int32", n // 8, -(-k // 16)), "weight_shape": np.array([n, k])}


def int8(n, k):
    return {"weight": numbers("int8", n, k), "weight_scale": numbers("float32", n, 1)}


def fp8(n, k):
    return {"weight": numbers("uint8", n, k), "weight_scale_inv": numbers("float32", -(-n // 128), -(-k // 128))}


def compressed(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": False}
ROWS = {
    "gptq": (0, GPTQ, gptq),
    "gptq-order": (5, GPTQ | {"desc_act": True, "sym": False}, lambda n, k: gptq(n, k, sym=False, order=True)),
    "gptq-8bit": (2, GPTQ | {"bits": 8}, lambda n, k: gptq(n, k, bits=8)),
    "awq": (6, {"quant_method": "awq", "bits": 4, "group_size": 32}, awq),
    "packed": (1, compressed("pack-quantized", num_bits=4, symmetric=False, strategy="group", group_size=16), packed),
    "int8": (1, compressed("int-quantized", num_bits=8, strategy="channel"), int8),
    "fp8": (13, {"quant_method": "fp8", "weight_block_size": [128, 128]}, fp8),
}
for name, (choice, quant, make) in ROWS.items():
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": D, "intermediate_size": F,
              "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": 2, "vocab_size": V,
              "tie_word_embeddings": True, "max_position_embeddings": 64, "quantization_config": quant}
    tensors = {"model.embed_tokens.weight": numbers("float16", V, D), "model.norm.weight": numbers("float16", D),
               "model.layers.0.input_layernorm.weight": numbers("float16", D),
               "model.layers.0.post_attention_layernorm.weight": numbers("float16", D)}
    for matrix, (n, k) in MATRICES.items():
        tensors |= {f"model.layers.0.{matrix}.{end}": t for end, t in make(n, k).items()}
    header, at = {}, 0
    for key, t in tensors.items():
        header[key] = {"dtype": NAMES[str(t.dtype)], "shape": t.shape, "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / name).write_bytes(bytes([choice]) + json.dumps(config, separators=(",", ":")).encode() + b"\0" +
                             len(text).to_bytes(8, "little") + text + b"".join(t.tobytes() for t in tensors.values()))
