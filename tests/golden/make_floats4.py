"""Makes the fixtures of tests/golden/models whose weights are floats of 4 bits, and bitsandbytes' 8 bits. README.md beside
this file says what the files are.

    python3 make_floats4.py [NAME ...]          # needs transformers, compressed-tensors and bitsandbytes

The weights of a row of make_families.py's form are drawn, and every matrix of the layers is quantised by the method's
own library (bitsandbytes' quantize_4bit and int8_vectorwise_quant, compressed-tensors' NVFP4 and MXFP4 compressors). The
library's own dequantisation gives the values, in float32, with which transformers computes the logits. Files of ModelOpt
have the numbers of compressed-tensors' under other names and the global scale's inverse. Each control reads one thing
wrongly and must give other logits. MXFP4 meets activations in 8 bits: see make_integers.py for `limit`.
"""

import json
import sys

import numpy as np
import torch
from bitsandbytes import functional as bnb
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import load_file, save_file

import make_families as mf
import make_integers as mi

WIDE = mi.LLAMA | {"hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2}
SMALL = WIDE | {"num_hidden_layers": 1}
BIG = mi.SHORT | {"hidden_size": 128, "intermediate_size": 192, "head_dim": 32}
MOE = mi.QWEN3_MOE | {"moe_intermediate_size": 96}


def bnb_pack(w, s):
    q, state = bnb.quantize_4bit(w, blocksize=s["block"], quant_type=s["type"], compress_statistics=s.get("double", False))
    out = {"weight": q.clone()} | {f"weight.{k}": v.clone().contiguous() for k, v in state.as_dict(packed=True).items()}
    # on a CPU bitsandbytes 0.50.2 gives other values than its formula where a block is no part of a row: a row for each
    state.shape = torch.Size([w.numel() // s["block"], s["block"]])

    def value(q):
        return bnb.dequantize_4bit(q, state).reshape(w.shape).clone()
    right, wrong = value(q), {"halves": value((q << 4 | q >> 4).to(torch.uint8))}
    assert (right - w).abs().mean() < 0.25 * w.abs().mean()
    absmax = state.absmax
    state.absmax = absmax.roll(1, 0)
    wrong["scales"] = value(q)
    state.absmax = absmax
    if s.get("double"):
        state.offset = torch.tensor(0.0)
        wrong["offset"] = value(q)
    return out, right, wrong


def scb_pack(w, s):
    q, scb, _ = bnb.int8_vectorwise_quant(w.half())
    value = bnb.int8_vectorwise_dequant(q, scb)
    out = {"weight": q, "SCB": scb, "weight_format": torch.tensor(0, dtype=torch.uint8)}
    return out, value, {"scales": bnb.int8_vectorwise_dequant(q, scb.roll(1, 0))}


def compressor(s):
    args = QuantizationArgs(num_bits=4, type="float", strategy="group" if s["mx"] else "tensor_group",
                            group_size=32 if s["mx"] else 16, symmetric=True,
                            scale_dtype=torch.uint8 if s["mx"] else torch.float8_e4m3fn)
    name = "mxfp4-pack-quantized" if s["mx"] else "nvfp4-pack-quantized"
    return BaseCompressor.get_value_from_registry(name), QuantizationScheme(targets=["Linear"], weights=args)


def fp4_pack(w, s):
    library, scheme = compressor(s)
    n, k = w.shape
    if s["mx"]:
        most = w.reshape(n, -1, 32).abs().amax(-1)
        given = {"weight": w, "weight_scale": torch.exp2(torch.floor(torch.log2(most)) - 2)}
    else:
        most = w.reshape(n, -1, 16).abs().amax(-1)
        total = (448 * 6 / w.abs().max()).reshape(1)
        given = {"weight": w, "weight_scale": (most / 6 * total).to(torch.float8_e4m3fn).float(), "weight_global_scale": total}
    out = {end: v.contiguous() for end, v in library.compress(given, scheme).items()}

    def value(t):
        """The library's decompress, but in float32 where that has bfloat16."""
        codes = unpack_fp4_from_uint8(t["weight_packed"], n, k, dtype=torch.float32)
        scale = library._decompress_scale(t["weight_scale"], torch.float32)
        right = dequantize(codes, scale.float(), args=scheme.weights, global_scale=t.get("weight_global_scale"),
                           dtype=torch.float32)
        rough = library.decompress({end: v.clone() for end, v in t.items()}, scheme)["weight"].float()
        assert (right - rough).abs().max() <= 2 ** -7 * right.abs().max()
        return right
    packed = out["weight_packed"]
    wrong = {"scales": value(out | {"weight_scale": out["weight_scale"].roll(1, 1)}),
             "halves": value(out | {"weight_packed": packed << 4 | packed >> 4})}
    if not s["mx"]:
        wrong["global scale"] = value(out | {"weight_global_scale": out["weight_global_scale"] * 1.5})
    right = value(out)
    if not s["mx"] and not s.get("modelopt"):
        out["input_global_scale"] = torch.tensor([300.0])
    if s.get("modelopt"):
        # what a file of ModelOpt says: the inverse, by which compressed-tensors' converter reads it
        second = 1 / out.pop("weight_global_scale").reshape(())
        levels = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6])
        codes = torch.stack([packed & 15, packed >> 4], -1).reshape(n, k).long()
        own = levels[codes] * (out["weight_scale"].float() * second).repeat_interleave(16, 1)
        assert (own - right).abs().max() <= 5e-7 * right.abs().max()
        right = own
        out = {"weight": out["weight_packed"], "weight_scale": out["weight_scale"], "weight_scale_2": second,
               "input_scale": torch.tensor(0.01)}
    return out, right, wrong


def row(name, config, pack, said, controls, kept=(), **scheme):
    return dict(name=name, config=config, pack=pack, said=said, controls=controls, scheme=scheme,
                kept=["embed", "lm_head", "mlp.gate.", *kept])


def of_bnb(type, double):
    return {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False, "_load_in_4bit": True,
            "_load_in_8bit": False, "bnb_4bit_quant_type": type, "bnb_4bit_use_double_quant": double,
            "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8", "llm_int8_threshold": 6.0,
            "llm_int8_skip_modules": ["lm_head"], "llm_int8_enable_fp32_cpu_offload": False,
            "llm_int8_has_fp16_weight": False}


EIGHT = of_bnb("fp4", False) | {"load_in_4bit": False, "_load_in_4bit": False, "load_in_8bit": True, "_load_in_8bit": True}


def of_compressed(mx):
    weights = {"num_bits": 4, "type": "float", "symmetric": True, "dynamic": False, "observer": "minmax",
               "strategy": "group" if mx else "tensor_group", "group_size": 32 if mx else 16, "actorder": None,
               "scale_dtype": "torch.uint8" if mx else "torch.float8_e4m3fn"}
    inputs = None if mx else weights | {"dynamic": "local"}
    return {"quant_method": "compressed-tensors", "format": ("mxfp4" if mx else "nvfp4") + "-pack-quantized",
            "quantization_status": "compressed", "ignore": ["lm_head"], "kv_cache_scheme": None,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs,
                                          "output_activations": None}}}


MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "producer": {"name": "modelopt"},
            "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}
ROWS = [
    row("llama-nf4", WIDE | {"intermediate_size": 192}, bnb_pack, of_bnb("nf4", False), ["scales", "halves"], block=64,
        type="nf4", kept=["layers.1.self_attn.k_proj"]),
    row("llama-nf4-double", BIG, bnb_pack, of_bnb("nf4", True), ["scales", "halves", "offset"], block=64, type="nf4",
        double=True),
    row("llama-fp4", BIG | {"intermediate_size": 256}, bnb_pack, of_bnb("fp4", False), ["scales", "halves"], block=256, type="fp4"),
    row("qwen3moe-nf4", MOE | {"moe_intermediate_size": 128}, bnb_pack, of_bnb("nf4", True), ["scales", "offset"], block=64, type="nf4",
        double=True),
    row("llama-bnb8", BIG, scb_pack, EIGHT, ["scales"], dtype="float16"),
    row("llama-nvfp4", WIDE, fp4_pack, of_compressed(False), ["scales", "halves", "global scale"], mx=False),
    row("qwen3moe-nvfp4", MOE, fp4_pack, of_compressed(False), ["scales", "global scale"], mx=False),
    row("llama-nvfp4-modelopt", SMALL, fp4_pack, MODELOPT, ["scales", "global scale"], mx=False, modelopt=True),
    row("deepseek3-nvfp4", mi.DEEPSEEK3, fp4_pack, of_compressed(False), ["scales"], mx=False),
    row("llama-ct-mxfp4", SMALL, fp4_pack, of_compressed(True), ["scales", "halves"], mx=True),
    row("qwen3moe-ct-mxfp4", MOE, fp4_pack, of_compressed(True), ["scales"], mx=True),
]


def make(r, seed):
    directory, s = mf.OUT / r["name"], r["scheme"]
    rounds = s.get("mx", False)
    plain = {"name": r["name"], "config": r["config"], "dtype": "float32", "controls": [], "n_prompt": 20,
             "published": False}
    mf.make(plain, seed)
    rng = np.random.default_rng(seed)
    tensors = load_file(directory / "model.safetensors")
    names = mi.quantised_names(tensors, r["kept"])
    keep = torch.bfloat16
    stored = {k: w.to(keep) for k, w in tensors.items() if k.removesuffix(".weight") not in names}
    values = {wrong: {k: w.float() for k, w in stored.items()} for wrong in [None, *r["controls"]]}
    for name in names:
        w = tensors[name + ".weight"].float()
        k = np.arange(w.shape[1]) // 16
        w = w * torch.from_numpy((1 + 2 * rng.random(k.max() + 1)[k]) / 2 *
                                 (0.5 + rng.random((w.shape[0], 1)))).float()
        t, right, wrong = r["pack"](w, s)
        stored |= {f"{name}.{end}": x for end, x in t.items()}
        values[None][name + ".weight"] = right.float().contiguous()
        for what in r["controls"]:
            values[what][name + ".weight"] = wrong[what].float().contiguous()
    if s.get("modelopt"):
        stored["model.layers.0.self_attn.k_proj.k_scale"] = torch.tensor(1.0)
    expected = json.loads((directory / "expected.json").read_text())
    ids, logits = expected["input_ids"], {}
    for wrong in [*r["controls"], None]:
        save_file(values[wrong], directory / "model.safetensors", metadata={"format": "pt"})
        model = mf.open_model(directory)
        logits[wrong] = mf.forward(model, ids)
    right = logits.pop(None)
    for wrong, other in logits.items():
        off = np.abs(other - right).max() / np.abs(right).max()
        assert off > mf.MATTERS, f"{r['name']}: with wrong {wrong} the logits differ by only {off:.2e}"
        print(f"    {wrong:40} {off:.2f}")
    mf.GAP = mi.GREEDY_GAP if rounds else 1e-3
    if rounds:
        mi.round_inputs(model, r["config"], names)
        expected["limit"] = 1.7 * mi.worst(mf.forward(model, ids), right)
    new, gap = mf.greedy(model, ids[:plain["n_prompt"]])
    enough, mf.GAP = gap > mf.GAP, 1e-3
    if not enough or expected.get("limit", 0) > 0.1:
        return False
    expected["greedy_ids"] = new
    right.astype("<f4").tofile(directory / "logits.f32")
    (directory / "expected.json").write_text(json.dumps(expected) + "\n")
    config = r["config"] | {"torch_dtype": "bfloat16", "quantization_config": r["said"]}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(stored, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "model.safetensors").chmod(0o644)
    size = sum(p.stat().st_size for p in directory.iterdir())
    print(f"{r['name']:24} {size:8} bytes  limit {expected.get('limit', 1e-4):.1e}  gap {gap:.1e}", flush=True)
    return True


def main():
    torch.set_num_threads(1)
    for i, r in enumerate(ROWS):
        if not sys.argv[1:] or r["name"] in sys.argv[1:]:
            assert any(make(r, seed) for seed in range(15000 + 100 * i, 15000 + 100 * i + 60)), r["name"]


if __name__ == "__main__":
    main()
