"""Makes the fixtures of tests/golden/models with weights in e4m3 (quant_method "fp8"). README.md beside this file says
what the files are.

    python3 make_fp8.py [NAME ...]

The weights of a row of make_families.py's form are drawn, and every matrix of the layers but the named ones is rounded
to e4m3 with a scale for each block, for each row or for all. transformers, in float32, computes the logits with the
values that these stand for: element * scale, of torch's float8_e4m3fn. A control takes scales that are shifted by one
block, or those of the next row, and must give other logits.
"""

import json
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import make_families as mf
import make_llama4 as ml

LLAMA = mf.BASE | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                   "num_hidden_layers": 2, "rope_theta": 500.0, "tie_word_embeddings": False,
                   "hidden_size": 136, "intermediate_size": 272, "num_attention_heads": 8, "num_key_value_heads": 2,
                   "head_dim": 20}
QWEN3_MOE = mf.BASE | {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_act": "silu",
                       "num_hidden_layers": 2, "rope_theta": 500.0, "tie_word_embeddings": False, "hidden_size": 136,
                       "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 144,
                       "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}
DEEPSEEK3 = json.loads((mf.OUT / "deepseek3" / "config.json").read_text())
QWEN3_NEXT = mf.QWEN3NEXT | {
    "hidden_size": 136, "num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 24, "linear_value_head_dim": 36,
    "num_experts": 4, "moe_intermediate_size": 40, "shared_expert_intermediate_size": 56, "num_attention_heads": 4,
    "head_dim": 24}
QWEN3_5_MOE = mf.QWEN35MOE | {k: v for k, v in QWEN3_NEXT.items() if k.startswith("linear_num") or k in (
    "hidden_size", "num_hidden_layers", "layer_types", "num_experts", "moe_intermediate_size",
    "shared_expert_intermediate_size")} | {"linear_key_head_dim": 20, "linear_value_head_dim": 24, "num_attention_heads": 4,
                                           "head_dim": 16}
LLAMA4 = ml.CAUSAL | ml.TEXT | {"hidden_size": 136, "num_hidden_layers": 2, "no_rope_layers": [1, 0]}
BLOCK = [128, 128]
ROWS = [("llama-fp8-block", LLAMA, BLOCK, ["lm_head", "model.layers.1.self_attn.k_proj"]),
        ("llama-fp8-tensor", LLAMA, None, ["lm_head"]),
        ("llama-fp8-channel", LLAMA, "channel", ["lm_head"]),
        ("qwen3moe-fp8-block", QWEN3_MOE, BLOCK, ["lm_head", "mlp.gate"]),
        ("deepseek3-fp8-block", DEEPSEEK3, BLOCK, ["lm_head", "mlp.gate"]),
        ("qwen3next-fp8-block", QWEN3_NEXT, BLOCK, ["lm_head", "mlp.gate", "mlp.shared_expert_gate", "mtp.fc",
                                                    "layers.2.linear_attn.in_proj_ba"]),
        ("qwen35moe-fp8-block", QWEN3_5_MOE, BLOCK, ["lm_head", "mlp.gate", "mlp.shared_expert_gate", "mtp.fc",
                                                     "linear_attn.in_proj_a", "linear_attn.in_proj_b"]),
        # FBGEMM's: experts [E, in, out] with a scale for each column, beside the matrices of attention in float
        ("llama4-fp8", LLAMA4, "channel", ["lm_head", "router", *(f"self_attn.{p}_proj" for p in "qkvo"),
                                           *(f"shared_expert.{p}_proj" for p in ("gate", "up", "down"))]),
        # compressed-tensors': a tensor for each expert's matrix
        ("llama4-fp8-split", LLAMA4 | {"hidden_size": 40, "intermediate_size": 136}, "channel", ["lm_head", "router"])]


def spread(scale, shape, block):
    """The scale of every element."""
    if block == BLOCK:
        scale = scale.repeat_interleave(128, 0)[:shape[0]].repeat_interleave(128, 1)[:, :shape[1]]
    return scale.expand(shape)


def rounded(w, block):
    n, k = w.shape
    if block == BLOCK:
        padded = torch.zeros((n + 127) // 128 * 128, (k + 127) // 128 * 128)
        padded[:n, :k] = w
        most = padded.reshape(padded.shape[0] // 128, 128, -1, 128).abs().amax((1, 3))
    else:
        most = w.abs().amax(1, keepdim=True) if block else w.abs().max().reshape(1)
    scale = most / 448
    return (w / spread(scale, w.shape, block)).to(torch.float8_e4m3fn), scale


def rounded_columns(w):
    """[E, in, out], and a scale for each column in that form."""
    scale = w.abs().amax(1, keepdim=True) / 448
    return (w / scale).to(torch.float8_e4m3fn), scale


def single(tensors):
    """A tensor for each matrix of each expert, as published with scales."""
    out = {}
    for key, w in tensors.items():
        if w.dim() == 3 and "experts" in key:
            out |= mf.split_experts(key, w.numpy(), torch.float32)
        else:
            out[key] = w
    return out


def joined(tensors, n_experts):
    """The reverse, as transformers has Qwen3.5's."""
    out = {k: w for k, w in tensors.items() if ".experts." not in k}
    for at in {k[:k.index(".experts.") + 9] for k in tensors if ".experts." in k}:
        gate, up, down = (torch.stack([tensors[f"{at}{e}.{part}_proj.weight"] for e in range(n_experts)])
                          for part in ("gate", "up", "down"))
        out |= {at + "gate_up_proj": torch.cat([gate, up], 1).contiguous(), at + "down_proj": down}
    return out


def make(name, config, block, kept, seed):
    directory = mf.OUT / name
    row = {"name": name, "config": config, "dtype": "float32", "controls": [], "n_prompt": 20, "published": False}
    llama4 = config["model_type"] == "llama4_text"
    (ml if llama4 else mf).make(row, seed)
    stored, values, other = {}, {}, {}
    drawn = load_file(directory / "model.safetensors")
    divided = name.endswith("split")
    for key, w in (ml.split(drawn) if divided else drawn if llama4 else single(drawn)).items():
        module = key.removesuffix(".weight")
        if w.dim() == 3:
            w = w * (0.5 + torch.arange(w.shape[2]) / w.shape[2]) * (1 + torch.arange(len(w)) / 4)[:, None, None]
            q, scale = rounded_columns(w)
            stored[key], stored[key + "_scale"] = q, scale.transpose(1, 2).contiguous() if "down" in key else scale
            values[key], other[key] = q.float() * scale, q.float() * scale.roll(1, -1)
            continue
        if w.dim() != 2 or "embed" in key or any(module.endswith(k) for k in kept):
            stored[key] = values[key] = other[key] = w
            continue
        w = w * (1 + 3 * torch.arange(w.shape[1]) / w.shape[1]) * (0.5 + torch.arange(w.shape[0])[:, None] / w.shape[0])
        q, scale = rounded(w, block)
        stored[key], stored[key + ("_scale_inv" if block == BLOCK else "_scale")] = q, scale
        if block != BLOCK and not llama4:
            stored[module + ".input_scale"] = torch.ones(1)
        values[key] = q.float() * spread(scale, w.shape, block)
        turned = scale.roll(1, -1 if block == BLOCK else 0) if scale.numel() > 1 else scale * 1.5
        other[key] = q.float() * spread(turned, w.shape, block)
    logits = {}
    for what, tensors in (("other", other), ("values", values)):
        if divided:
            tensors = ml.joined(tensors)
        if name.startswith("qwen35moe"):
            tensors = joined(tensors, config["num_experts"])
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        model = mf.open_model(directory)
        expected = json.loads((directory / "expected.json").read_text())
        ids = expected["input_ids"]
        logits[what] = mf.forward(model, ids)
    off = np.abs(logits["other"] - logits["values"]).max() / np.abs(logits["values"]).max()
    assert off > mf.MATTERS, f"{name}: with other scales the logits differ by only {off:.2e}"
    new, gap = mf.greedy(model, ids[:row["n_prompt"]])
    if gap <= mf.GAP:
        return False
    expected["greedy_ids"] = new
    logits["values"].astype("<f4").tofile(directory / "logits.f32")
    (directory / "expected.json").write_text(json.dumps(expected) + "\n")
    quant = {"quant_method": "fp8", "activation_scheme": "dynamic" if block == BLOCK else "static", "fmt": "e4m3",
             "modules_to_not_convert": kept}
    if block == BLOCK:
        quant["weight_block_size"] = block
    if divided:
        quant = {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": kept, "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel",
                                                           "symmetric": True, "dynamic": False},
                        "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True,
                                              "dynamic": True}}}}
    elif llama4:
        quant = {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": kept}
    (directory / "config.json").write_text(json.dumps(config | {"quantization_config": quant}, indent=2) + "\n")
    save_file(stored, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "model.safetensors").chmod(0o644)
    size = sum(p.stat().st_size for p in directory.iterdir())
    print(f"{name:24} {size:8} bytes  other scales {off:.2f}  gap {gap:.1e}", flush=True)
    return True


if __name__ == "__main__":
    for i, each in enumerate(ROWS):
        if not sys.argv[1:] or each[0] in sys.argv[1:]:
            assert any(make(*each, seed) for seed in range(9000 + 100 * i, 9000 + 100 * i + 40)), each[0]
