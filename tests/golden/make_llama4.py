"""Makes the fixtures of tests/golden/models of Llama 4. README.md beside this file says what the files are.

    python3 make_llama4.py [NAME ...]

transformers is the oracle, as in make_families.py, whose functions this file uses: float32, eager attention, a control
for each option. A control is a changed configuration, or the name of a function of PATCHES, which changes what no key of
config.json stands for.
"""

import json
import shutil

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.llama4 import modeling_llama4

import make_families as mf

ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}
TEXT = {"model_type": "llama4_text", "hidden_size": 32, "intermediate_size": 24, "intermediate_size_mlp": 56,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu",
        "vocab_size": 104, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "initializer_range": 0.02,
        "use_cache": True, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "attention_bias": False,
        "attention_dropout": 0.0, "attention_chunk_size": 16, "attn_temperature_tuning": True, "attn_scale": 0.5,
        "floor_scale": 8, "num_local_experts": 5, "num_experts_per_tok": 2, "interleave_moe_layer_step": 2,
        "moe_layers": None, "no_rope_layers": [1, 1, 0, 1], "use_qk_norm": True, "output_router_logits": False,
        "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "for_llm_compressor": False, "rope_theta": 500.0,
        "rope_scaling": ROPE, "tie_word_embeddings": False, "cache_implementation": "hybrid", "torch_dtype": "float32"}
CAUSAL = {"architectures": ["Llama4ForCausalLM"]}
TOWER = {"model_type": "llama4_vision_model", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1,
         "num_attention_heads": 2, "image_size": 28, "patch_size": 14, "vision_output_dim": 8, "projector_input_dim": 8,
         "projector_output_dim": 8}
PLAIN = {"attention_chunk_size": 8192, "attn_scale": 0.1, "floor_scale": 8192, "no_rope_layers": []}


def layers(model):
    return getattr(model, "language_model", model).model.layers


def weighed_outputs(model):
    """The experts' weights are factors on their outputs."""
    def forward(self, hidden):
        x = hidden.reshape(-1, self.hidden_dim)
        scores, logits = self.router(x)
        each = self.experts(x.repeat(self.num_experts, 1)).reshape(self.num_experts, -1, self.hidden_dim)
        return self.shared_expert(x) + (each * scores.T[:, :, None]).sum(0), logits

    for layer in layers(model):
        if layer.is_moe_layer:
            layer.feed_forward.forward = forward.__get__(layer.feed_forward)


def without_shared_expert(model):
    for layer in layers(model):
        if layer.is_moe_layer:
            layer.feed_forward.shared_expert.down_proj.weight.fill_(0.0)


def halves(model):
    """RoPE's pairs are (i, i + d / 2)."""
    def rotate(q, k, freqs):
        def one(x):
            a, b = x.chunk(2, -1)
            pairs = torch.view_as_real(torch.complex(a.contiguous(), b.contiguous()) * freqs[:, :, None, :])
            return torch.cat([pairs[..., 0], pairs[..., 1]], -1)
        return one(q), one(k)

    modeling_llama4.apply_rotary_emb = rotate


def norms_everywhere(model):
    """Norms of q and k in the layers without RoPE too."""
    for layer in layers(model):
        layer.self_attn.qk_norm = modeling_llama4.Llama4TextL2Norm(1e-5)


def factors_everywhere(model):
    """The factor on q in the layers with RoPE too: as a factor on the scores of each position."""
    a = layers(model)[0].self_attn
    scale, floor = a.attn_scale, a.floor_scale

    def eager(module, query, *args, **more):
        if module.use_rope:
            at = torch.arange(query.shape[2])
            query = query * (torch.log1p(torch.floor((at + 1.0) / floor)) * scale + 1.0)[None, None, :, None]
        return EAGER(module, query, *args, **more)

    modeling_llama4.eager_attention_forward = eager


PATCHES = {f.__name__: f for f in (weighed_outputs, without_shared_expert, halves, norms_everywhere, factors_everywhere)}
EAGER, ROTATE = modeling_llama4.eager_attention_forward, modeling_llama4.apply_rotary_emb


def row(name, config, controls, dtype="float32"):
    text = config.get("text_config", config)
    text["torch_dtype"] = dtype
    return {"name": name, "config": config, "controls": controls, "dtype": dtype, "n_prompt": 20}


ROWS = [
    row("llama4", CAUSAL | TEXT, list(PATCHES) + [
        {"attention_chunk_size": 200}, {"attention_chunk_size": 17}, {"use_qk_norm": False},
        {"attn_temperature_tuning": False}, {"attn_scale": 0.1}, {"floor_scale": 16}, {"no_rope_layers": [1, 1, 1, 0]},
        {"num_experts_per_tok": 1}, {"rope_scaling.factor": 2.0}, {"rope_theta": 5000.0}, {"rms_norm_eps": 0.1},
        {"layer_types": ["chunked_attention"] * 4}]),
    # as Scout: experts in every layer, one a token, one factor of frequencies
    row("llama4-vision", {
        "architectures": ["Llama4ForConditionalGeneration"], "model_type": "llama4", "vision_config": TOWER,
        "boi_token_index": 101, "eoi_token_index": 102, "image_token_index": 103, "tie_word_embeddings": False,
        "torch_dtype": "float32", "text_config": TEXT | {
            "num_experts_per_tok": 1, "interleave_moe_layer_step": 1, "no_rope_layers": [], "eos_token_id": [2, 3, 4],
            "rope_scaling": ROPE | {"factor": 16.0, "high_freq_factor": 1.0}}},
        [{"text_config.attention_chunk_size": 200}, {"text_config.no_rope_layers": [1, 1, 1, 1]},
         {"text_config.rope_scaling.factor": 2.0}, {"text_config.num_experts_per_tok": 2}, "weighed_outputs"]),
    # listed layers: experts in one of three, chunks without RoPE and RoPE without chunks; no norms, biases, a tied head;
    # 6 heads on 3, which 4 ranks share
    row("llama4-layers-bf16", CAUSAL | TEXT | {
        "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 3, "moe_layers": [1],
        "layer_types": ["full_attention", "chunked_attention", "chunked_attention"], "no_rope_layers": [1, 0, 1],
        "attention_chunk_size": 7, "attention_bias": True, "use_qk_norm": False, "num_experts_per_tok": 3,
        "rope_scaling": None, "tie_word_embeddings": True},
        [{"layer_types": None}, {"attention_chunk_size": 8}, {"use_qk_norm": True}, {"attn_temperature_tuning": False},
         {"num_experts_per_tok": 2}, "weighed_outputs"], dtype="bfloat16"),
    # what GGUF has no keys for at its usual values
    row("llama4-plain-bf16", CAUSAL | TEXT | PLAIN, [{"no_rope_layers": [1, 1, 1, 1]}, {"use_qk_norm": False},
                                                    {"rope_scaling.factor": 2.0}, "weighed_outputs", "halves"],
        dtype="bfloat16"),
    # as MobileLLM-R1: no experts, RoPE and full attention in all layers
    row("llama4-dense", CAUSAL | TEXT | {
        "num_hidden_layers": 2, "interleave_moe_layer_step": 0, "moe_layers": [], "num_local_experts": 0,
        "num_experts_per_tok": 0, "no_rope_layers": [1, 1], "layer_types": ["full_attention"] * 2,
        "attn_temperature_tuning": False, "rope_scaling": None, "tie_word_embeddings": True},
        [{"use_qk_norm": False}, {"rope_theta": 5000.0}, "halves"]),
]


def write(directory, r, rng):
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(r["config"], indent=2) + "\n")
    config = AutoConfig.from_pretrained(directory)
    wrapped = hasattr(config, "text_config")
    with torch.device("meta"):
        model = (AutoModelForImageTextToText if wrapped else AutoModelForCausalLM).from_config(config)
    tensors = {}
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and config.get_text_config().tie_word_embeddings:
            continue
        value = mf.draw(name, tuple(p.shape), False, rng)
        if ".experts." in name:  # [E, in, out]
            value *= np.sqrt(p.shape[-1] / p.shape[-2]) * 1.5
        tensors[name] = torch.from_numpy(value).to(mf.DTYPES[r["dtype"]]).contiguous()
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "model.safetensors").chmod(0o644)


def split(tensors):
    """A tensor for each matrix of each expert, as compressed-tensors' folders have them."""
    out = {}
    for key, w in tensors.items():
        if w.dim() != 3:
            out[key] = w
            continue
        for e, each in enumerate(w):
            parts = zip(("gate", "up"), each.chunk(2, 1)) if key.endswith("gate_up_proj") else [("down", each)]
            out |= {key[:key.rindex(".")] + f".{e}.{part}_proj.weight": m.T.contiguous() for part, m in parts}
    return out


def joined(tensors):
    """The reverse."""
    out, stacks = {}, {}
    for key, w in tensors.items():
        if ".experts." in key:
            at, _, _ = key.rpartition(".weight")[0].rsplit(".", 2)
            stacks.setdefault(at, {})[key[len(at) + 1:].removesuffix(".weight")] = w.T
        else:
            out[key] = w
    for at, m in stacks.items():
        n = len(m) // 3
        out[at + ".gate_up_proj"] = torch.stack([torch.cat([m[f"{e}.gate_proj"], m[f"{e}.up_proj"]], 1) for e in range(n)])
        out[at + ".down_proj"] = torch.stack([m[f"{e}.down_proj"] for e in range(n)])
    return out


def effect(directory, r, change, ids, logits):
    if not isinstance(change, str):
        return mf.effect(directory, r["config"], change, ids, logits)
    model = mf.open_model(directory)
    with torch.no_grad():
        PATCHES[change](model)
    out = mf.forward(model, ids)
    modeling_llama4.eager_attention_forward, modeling_llama4.apply_rotary_emb = EAGER, ROTATE
    return float(np.abs(out - logits).max() / np.abs(logits).max())


def make(r, seed):
    directory = mf.OUT / r["name"]
    for attempt in range(40):
        shutil.rmtree(directory, ignore_errors=True)
        rng = np.random.default_rng([seed, attempt])
        write(directory, r, rng)
        model = mf.open_model(directory)
        ids = [int(i) for i in rng.integers(3, 100, mf.T)]
        logits = mf.forward(model, ids)
        new, gap = mf.greedy(model, ids[:r["n_prompt"]])
        if gap > mf.GAP and len(set(new)) > 3 and 103 not in new:  # the token of images
            break
    assert gap > mf.GAP, f"{r['name']}: no seed keeps its greedy ids apart"
    for change in r["controls"]:
        e = effect(directory, r, change, ids, logits)
        assert e > mf.MATTERS, f"{r['name']}: with {change} the logits differ by only {e:.2e}"
        print(f"    {str(change)[:90]:90} {e:.2f}")
    mf.record(directory, r, ids, logits, new, gap, attempt)


if __name__ == "__main__":
    mf.run(ROWS, make, 1700)
