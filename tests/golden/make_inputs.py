"""Makes tests/golden/inputs: what models give whose inputs of quantised matrices are rounded as their quantization_config
says (--activations checkpoint). README.md beside this file says what the files are.

    python3 make_inputs.py [NAME ...]

Weights are those of a folder of tests/golden/models, or small ones drawn here. transformers computes in float32 with
the values that the weights stand for, and each quantised linear's input is rounded first: by compressed-tensors' own
compute_dynamic_scales_and_zp and fake_quantize for its schemes, and as act_quant of transformers' finegrained_fp8 does
for fp8 (scale = greatest magnitude of 128 columns / 448, torch's float8_e4m3fn), which runs on GPUs alone.

A value near the middle between two numbers of the grid may be rounded to either where sums have another order. So
prompts are drawn until every rounded value of the whole sequence is MARGIN steps of the grid or more from there; then
the logits are compared within 1e-4.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import fake_quantize
from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

HERE = Path(__file__).resolve().parent
MODELS, OUT = HERE / "models", HERE / "inputs"
N_PROMPT, N_NEW = 6, 4
MARGIN, GAP, MATTERS = 1e-4, 1e-2, 1e-2
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 64,
         "intermediate_size": 152, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 16, "vocab_size": 104, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 500.0,
         "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}
MOE = {k: v for k, v in LLAMA.items() if k != "intermediate_size"} | {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "intermediate_size": 56, "num_experts": 4,
    "num_experts_per_tok": 2, "moe_intermediate_size": 44, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []}


def compressed(form, weights, inputs):
    return {"quant_method": "compressed-tensors", "quantization_status": "compressed", "format": form,
            "ignore": ["lm_head"], "config_groups": {"group_0": {
                "targets": ["Linear"], "weights": weights, "input_activations": inputs, "output_activations": None}}}


INT8 = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}
FP8 = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel", "dynamic": False}
# name, model of tests/golden/models, or the configuration and quantization_config of one that is drawn
ROWS = [("fp8-block", "llama-fp8-block"),
        ("fp8-block-experts", "qwen3moe-fp8-block"),
        ("fp8-static", "llama-fp8-tensor"),
        ("int8-token", "llama-int8"),
        ("int8-token-zeros", "llama-int8-zeros"),
        ("int8-static", (LLAMA, compressed("int-quantized", INT8, {
            "num_bits": 8, "type": "int", "symmetric": True, "strategy": "tensor", "dynamic": False}))),
        ("ct-fp8-token", (LLAMA, compressed("float-quantized", FP8, {
            "num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}))),
        ("ct-fp8-static", (LLAMA, compressed("float-quantized", FP8, {
            "num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}))),
        ("ct-fp8-group", (LLAMA, compressed("float-quantized", FP8, {
            "num_bits": 8, "type": "float", "symmetric": True, "strategy": "group", "group_size": 8,
            "dynamic": True}))),
        ("ct-fp8-token-experts", (MOE, compressed("float-quantized", FP8, {
            "num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}))),
        ("ct-fp8-static-experts", (MOE, compressed("float-quantized", FP8, {
            "num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}))),
        ("fp8-block-latent", "deepseek3-fp8-block"),
        ("fp8-block-delta", "qwen3next-fp8-block"),
        # all in f32 but for the rounding: for backends that round the inputs of 16-bit matrices too
        ("int8-token-f32", (LLAMA, compressed("int-quantized", INT8, {
            "num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True})))]


def draw(config, quant, directory, seed):
    """A model with random weights, quantised by rows, and scales of inputs where these are static."""
    rng = torch.Generator().manual_seed(seed)
    (directory / "config.json").write_text(json.dumps(config))
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory))
    group = quant["config_groups"]["group_0"]
    ints, stored = group["weights"]["type"] == "int", {}
    for key, w in model.state_dict().items():
        w = torch.randn(w.shape, generator=rng) / w.shape[-1] ** 0.5 if w.dim() == 2 else \
            torch.rand(w.shape, generator=rng) + 0.5
        if w.dim() == 1 or "embed" in key or "lm_head" in key or "mlp.gate." in key:
            stored[key] = w * (1 if w.dim() == 1 else 4)
            continue
        w = w * (0.5 + torch.rand((w.shape[0], 1), generator=rng)) * 2
        scale = w.abs().amax(1, keepdim=True) / (127.5 if ints else 448)
        stored[key] = (w / scale).round().clamp(-128, 127).to(torch.int8) if ints else (w / scale).to(torch.float8_e4m3fn)
        stored[key + "_scale"] = scale
        if not group["input_activations"]["dynamic"]:  # some values are beyond the range; q, k and v, gate and up have one
            at = {"q": 1, "k": 1, "v": 1, "o": 2, "gate": 3, "up": 3, "down": 4}[key.split(".")[-2].split("_")[0]]
            if ".experts." in key:  # each has its own
                at += 2 * int(key.split(".experts.")[1].split(".")[0])
            stored[key.removesuffix("weight") + "input_scale"] = torch.tensor([(0.6 + 0.1 * at) * 1.5 / (128 if ints else 448)])
    save_file(stored, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps(config | {"quantization_config": quant}, indent=1) + "\n")


def values_of(stored):
    """What the weights stand for, by name; and the names of the quantised linears."""
    values, names = {}, []
    for key, w in stored.items():
        if key.endswith(("_scale", "_scale_inv", "_zero_point", "input_scale")):
            continue
        values[key] = w.float()
        if w.dtype not in (torch.int8, torch.float8_e4m3fn):
            continue
        names.append(key.removesuffix(".weight"))
        inverse = stored.get(key + "_scale_inv")
        if inverse is not None:
            scale = inverse.repeat_interleave(128, 0)[:w.shape[0]].repeat_interleave(128, 1)[:, :w.shape[1]]
        else:
            scale = stored[key + "_scale"].float()
        zero = stored.get(key + "_zero_point")
        values[key] = (w.float() - (0 if zero is None else zero.float())) * scale
    return values, names


class Rounding:
    """The rounding of the inputs of quantised linears, and how near they came to the middle of a step."""

    def __init__(self, quant, stored):
        self.quant, self.stored, self.nearest, self.on = quant, stored, 1.0, True

    def scale_and_args(self, name, x):
        """scale, of the columns it is for, and compressed-tensors' arguments or None."""
        q = self.quant
        if q["quant_method"] == "fp8":
            if q["activation_scheme"] == "static":
                return self.stored[name + ".input_scale"].float(), None
            padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % 128))
            s = padded.unflatten(-1, (-1, 128)).abs().amax(-1) / 448.0
            return s.repeat_interleave(128, -1)[..., :x.shape[-1]], None
        args = QuantizationArgs(**q["config_groups"]["group_0"]["input_activations"])
        if not args.dynamic:
            return self.stored[name + ".input_scale"].float(), args
        return compute_dynamic_scales_and_zp(x, args, None)[0], args

    def __call__(self, name, x):
        if not self.on or x.numel() == 0:
            return x
        flat = x.dim() == 2  # of a token's expert
        x = x[None] if flat else x
        scale, args = self.scale_and_args(name, x)
        if args is None:
            out = torch.where(scale > 0, (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn).float() * scale, 0.0)
        else:
            out = fake_quantize(x, scale, torch.zeros_like(scale), args)
        ints = args is not None and args.type == "int"
        if scale.numel() > 1 and scale.shape != x.shape:
            scale = scale.reshape(*x.shape[:-1], -1).repeat_interleave(x.shape[-1] // scale.reshape(*x.shape[:-1], -1).shape[-1], -1)
        self.nearest = min(self.nearest, near_middle((x / scale).double(), ints))
        return out[0] if flat else out


def near_middle(y, ints):
    """How far the nearest value is from the middle between two numbers of the grid, in steps of the grid."""
    top = 127 if ints else 448
    a = y.abs().flatten()
    a = a[a < top + (0.5 if ints else 16)]
    step = torch.ones_like(a) if ints else 2.0 ** (torch.floor(torch.log2(a.clamp(min=2.0 ** -6))) - 3)
    return float(((a / step) % 1 - 0.5).abs().min())


def open_model(config, values, directory):
    (directory / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "quantization_config"}))
    save_file(values, directory / "model.safetensors", metadata={"format": "pt"})
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def sequence(model, rounding, rng):
    """A prompt with its greedy continuation and all logits, or None."""
    ids = [int(i) for i in rng.integers(3, 100, N_PROMPT)]
    for _ in range(N_NEW):
        rounding.nearest = 1.0
        last = logits_of(model, ids)[-1]
        best, second = np.sort(last)[::-1][:2]
        if rounding.nearest < MARGIN or best - second < GAP:
            return None
        ids.append(int(last.argmax()))
    rounding.nearest = 1.0
    logits = logits_of(model, ids)
    return (ids, logits) if rounding.nearest >= MARGIN else None


def make(name, what, seed):
    directory = OUT / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    source = MODELS / what if isinstance(what, str) else directory
    if source == directory:
        draw(*what, directory, seed)
    config, stored = json.loads((source / "config.json").read_text()), load_file(source / "model.safetensors")
    values, names = values_of(stored)
    with tempfile.TemporaryDirectory() as scratch:
        model = open_model(config, values, Path(scratch))
    rounding, found = Rounding(config["quantization_config"], stored), set()
    for module_name, module in model.named_modules():
        if module_name in names:
            found.add(module_name)
            module.register_forward_pre_hook(lambda m, args, n=module_name: (rounding(n, args[0]),))
    assert found == set(names), set(names) ^ found
    rng = np.random.default_rng(seed)
    tries = 1
    while (made := sequence(model, rounding, rng)) is None:
        tries += 1
        assert tries < 20000, name
    ids, logits = made
    rounding.on = False
    plain = logits_of(model, ids)
    off = float((np.abs(logits - plain).max(-1) / np.abs(plain).max(-1)).max())
    assert off > MATTERS, f"{name}: rounding changes the logits by only {off:.1e}"
    logits.astype("<f4").tofile(directory / "logits.f32")
    (directory / "expected.json").write_text(json.dumps({
        "model": what if isinstance(what, str) else "", "input_ids": ids, "n_prompt": N_PROMPT,
        "vocab_size": logits.shape[1], "nearest": rounding.nearest, "off": off}) + "\n")
    for f in directory.iterdir():
        f.chmod(0o644)
    print(f"{name:20} {tries:6} prompts  nearest {rounding.nearest:.1e}  without rounding {off:.3f}", flush=True)


if __name__ == "__main__":
    for i, each in enumerate(ROWS):
        if not sys.argv[1:] or each[0] in sys.argv[1:]:
            make(*each, 4000 + i)
