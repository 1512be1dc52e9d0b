"""Makes tests/golden/models: tiny random models of each supported family and option, with the logits
that HuggingFace transformers computes from them. README.md beside this file says what the files are.

    python3 make_fixtures.py

Each directory is written first and then loaded by transformers as any published repository would be
(float32, eager attention). The logits are checked twice before they are written: against the float64
forward pass below, which shares no code with transformers, and against a control in which the option
that the fixture is about is left out; the control must give other logits, or the fixture shows nothing.
"""

import json
import math
import pathlib
import shutil

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

OUT = pathlib.Path(__file__).parent / "models"
T = 68  # positions of every fixture
AGREE = 2e-5  # transformers (float32) against numpy (float64): max |difference| / max |logit|
MATTERS = 1e-2  # the control must differ by more than this, same measure
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
ARCHITECTURE = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
                "qwen3": "Qwen3ForCausalLM", "mixtral": "MixtralForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM"}

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
LINEAR = {"type": "linear", "factor": 4.0}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
YARN_EXPLICIT = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "attention_factor": 1.5,
                 "beta_fast": 4.0, "beta_slow": 0.5}
QWEN3_MOE = {"head_dim": 16, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6, "num_experts": 8,
             "num_experts_per_tok": 3, "moe_intermediate_size": 20, "norm_topk_prob": False, "decoder_sparse_step": 1,
             "mlp_only_layers": [], "use_sliding_window": False, "sliding_window": None, "max_window_layers": 2,
             "attention_bias": False, "output_router_logits": False, "router_aux_loss_coef": 0.001}


def fixture(name, family, control, dtype="float32", rope_form="published", n_shards=1, **settings):
    """One row of the table. `control` is what to change so that the option under test is left out."""
    return dict(name=name, family=family, control=control, dtype=dtype, rope_form=rope_form, n_shards=n_shards,
                settings=settings)


FIXTURES = [
    fixture("llama-mha", "llama", {"rope_theta": 500.0}, num_key_value_heads=4),
    fixture("llama-gqa", "llama", {"rms_norm_eps": 0.5}, hidden_size=64, num_attention_heads=8, num_key_value_heads=2,
            tie_word_embeddings=True),
    fixture("llama-mqa", "llama", {"rope_theta": 10000.0}, num_key_value_heads=1, rope_theta=500.0),
    fixture("llama-rope-llama3", "llama", {"rope_scaling": None}, head_dim=16, rope_theta=500.0, rope_scaling=LLAMA3),
    fixture("llama-rope-llama3-v5", "llama", {"rope_scaling": None}, rope_form="v5", head_dim=16, rope_theta=500.0,
            rope_scaling=LLAMA3),
    fixture("llama-rope-linear", "llama", {"rope_scaling": None}, rope_scaling=LINEAR),
    fixture("llama-rope-yarn", "llama", {"rope_scaling": None}, head_dim=16, rope_scaling=YARN),
    fixture("llama-rope-yarn-factor", "llama", {"rope_scaling": dict(YARN_EXPLICIT, attention_factor=None)}, head_dim=16,
            rope_scaling=YARN_EXPLICIT),
    fixture("llama-head-dim", "llama", {"rope_theta": 500.0}, head_dim=24),
    fixture("llama-attention-bias", "llama", {"attention_bias": False}, attention_bias=True),
    fixture("llama-mlp-bias", "llama", {"mlp_bias": False}, mlp_bias=True),
    fixture("llama-tied-f16", "llama", {"rope_theta": 500.0}, dtype="float16", hidden_size=64, num_attention_heads=8,
            num_key_value_heads=4, tie_word_embeddings=True),
    fixture("llama-sharded-bf16", "llama", {"rope_theta": 500.0}, dtype="bfloat16", n_shards=3, hidden_size=64,
            num_attention_heads=8, num_key_value_heads=4, num_hidden_layers=3, vocab_size=101, eos_token_id=[2, 5, 9]),
    fixture("mistral-window", "mistral", {"sliding_window": None}, sliding_window=16),
    fixture("mistral-window-v5", "mistral", {"sliding_window": None}, rope_form="v5", sliding_window=7, head_dim=16),
    fixture("mistral-no-window", "mistral", {"sliding_window": 16}, sliding_window=None, head_dim=None),
    fixture("qwen2", "qwen2", {"sliding_window": 16, "use_sliding_window": True, "max_window_layers": 0},
            use_sliding_window=False, sliding_window=16, max_window_layers=1, rope_theta=1000000.0, rms_norm_eps=1e-6,
            tie_word_embeddings=True),
    fixture("qwen2-yarn", "qwen2", {"rope_scaling": None}, use_sliding_window=False, sliding_window=16,
            max_window_layers=2, rope_scaling=YARN, num_attention_heads=2, num_key_value_heads=1),
    fixture("qwen3", "qwen3", {"qk_norm": False}, head_dim=16, rope_theta=1000000.0, rms_norm_eps=1e-6,
            tie_word_embeddings=True, use_sliding_window=False, sliding_window=None, max_window_layers=2,
            attention_bias=False),
    fixture("qwen3-v5", "qwen3", {"qk_norm": False}, rope_form="v5", head_dim=16, num_key_value_heads=4,
            use_sliding_window=False, sliding_window=None, max_window_layers=2, attention_bias=False,
            layer_types=["full_attention", "full_attention"]),
    fixture("mixtral", "mixtral", {"num_experts_per_tok": 1}, num_local_experts=4, num_experts_per_tok=2,
            sliding_window=None, rope_theta=1000000.0),
    fixture("mixtral-v5", "mixtral", {"sliding_window": None}, rope_form="v5", num_local_experts=5,
            num_experts_per_tok=3, sliding_window=16, head_dim=16),
    fixture("qwen3moe", "qwen3_moe", {"norm_topk_prob": False}, **QWEN3_MOE | {"norm_topk_prob": True}),
    fixture("qwen3moe-step", "qwen3_moe", {"norm_topk_prob": True}, num_hidden_layers=4,
            **QWEN3_MOE | {"decoder_sparse_step": 2, "mlp_only_layers": [3], "num_experts": 6}),
    fixture("qwen3moe-dense-first", "qwen3_moe", {"num_experts_per_tok": 2}, num_hidden_layers=3,
            **QWEN3_MOE | {"mlp_only_layers": [0], "num_experts_per_tok": 1, "norm_topk_prob": True,
                           "attention_bias": True}),
    fixture("qwen3moe-v5-bf16", "qwen3_moe", {"norm_topk_prob": False}, dtype="bfloat16", rope_form="v5", n_shards=2,
            **{k: v for k, v in QWEN3_MOE.items() if k != "num_experts"}
            | {"num_local_experts": 16, "num_experts_per_tok": 8, "norm_topk_prob": True, "moe_intermediate_size": 12}),
]


def make_config(row):
    """The config.json: the keys that published repositories of the family have."""
    c = {"architectures": [ARCHITECTURE[row["family"]]], "model_type": row["family"], "hidden_size": 32,
         "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 104, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
         "hidden_act": "silu", "attention_dropout": 0.0, "initializer_range": 0.02, "tie_word_embeddings": False,
         "use_cache": True, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": row["dtype"]}
    if row["family"] == "llama":
        c |= {"attention_bias": False, "mlp_bias": False, "rope_scaling": None, "pretraining_tp": 1}
    c |= row["settings"]
    if row["rope_form"] == "v5":
        scaling = c.pop("rope_scaling", None) or {"rope_type": "default"}
        c["rope_parameters"] = {"rope_theta": c.pop("rope_theta"), **scaling}
        c["dtype"] = c.pop("torch_dtype")
    return c


def facts_of(config, family):
    """The settings by one name each, whichever form the file has."""
    f = dict(config, family=family, qk_norm=family.startswith("qwen3"))
    if "rope_parameters" in f:
        scaling = dict(f["rope_parameters"])
        f["rope_theta"] = scaling.pop("rope_theta")
        f["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    f["head_dim"] = f.get("head_dim") or f["hidden_size"] // f["num_attention_heads"]
    for key in ("rope_scaling", "sliding_window"):
        f.setdefault(key, None)
    if family.startswith("qwen") and not f["use_sliding_window"]:
        f["sliding_window"] = None
    f["qkv_bias"] = family == "qwen2" or f.get("attention_bias", False)
    f["n_experts"] = f.get("num_experts") or f.get("num_local_experts") or 0
    f["expert_ffn"] = f.get("moe_intermediate_size") or f["intermediate_size"]
    f["renormalise"] = family == "mixtral" or f.get("norm_topk_prob", False)
    f["sparse"] = [f["n_experts"] > 0 and (i + 1) % f.get("decoder_sparse_step", 1) == 0
                   and i not in f.get("mlp_only_layers", []) for i in range(f["num_hidden_layers"])]
    f["o_bias"] = family != "qwen2" and f.get("attention_bias", False)
    return f


def expert_names(f, p):
    """The router, and (gate, up, down) of each expert."""
    if f["family"] == "mixtral":
        p += "block_sparse_moe."
        parts = ("w1", "w3", "w2")
    else:
        p += "mlp."
        parts = ("gate_proj", "up_proj", "down_proj")
    return p + "gate", [[f"{p}experts.{e}.{part}" for part in parts] for e in range(f["n_experts"])]


def make_weights(f, rng):
    """Name -> float64 array. Every norm weight and bias is random too, so that none can be forgotten unseen."""
    D, F, V, d = f["hidden_size"], f["intermediate_size"], f["vocab_size"], f["head_dim"]
    q, kv = f["num_attention_heads"] * d, f["num_key_value_heads"] * d
    w = {"model.embed_tokens.weight": rng.normal(0, 0.5, (V, D))}

    def linear(name, n_out, n_in, bias, gain):
        w[name + ".weight"] = rng.normal(0, gain / math.sqrt(n_in), (n_out, n_in))
        if bias:
            w[name + ".bias"] = rng.normal(0, 0.4, n_out)

    def norm(name, n):
        w[name + ".weight"] = rng.uniform(0.5, 1.5, n)

    for i in range(f["num_hidden_layers"]):
        p = f"model.layers.{i}."
        norm(p + "input_layernorm", D)
        norm(p + "post_attention_layernorm", D)
        linear(p + "self_attn.q_proj", q, D, f["qkv_bias"], 1.5)
        linear(p + "self_attn.k_proj", kv, D, f["qkv_bias"], 1.5)
        linear(p + "self_attn.v_proj", kv, D, f["qkv_bias"], 1.0)
        linear(p + "self_attn.o_proj", D, q, f["o_bias"], 1.0)
        if f["qk_norm"]:
            norm(p + "self_attn.q_norm", d)
            norm(p + "self_attn.k_norm", d)
        if f["sparse"][i]:
            router, names = expert_names(f, p)
            linear(router, f["n_experts"], D, False, 2.0)
            for gate, up, down in names:
                linear(gate, f["expert_ffn"], D, False, 1.0)
                linear(up, f["expert_ffn"], D, False, 1.0)
                linear(down, D, f["expert_ffn"], False, 1.5)
            continue
        mlp_bias = f.get("mlp_bias", False)
        linear(p + "mlp.gate_proj", F, D, mlp_bias, 1.0)
        linear(p + "mlp.up_proj", F, D, mlp_bias, 1.0)
        linear(p + "mlp.down_proj", D, F, mlp_bias, 1.5)
    norm("model.norm", D)
    if not f["tie_word_embeddings"]:
        linear("lm_head", V, D, False, 1.5)
    return w


def write_model(directory, config, weights, dtype, n_shards):
    tensors = {k: torch.from_numpy(v).to(DTYPES[dtype]).contiguous() for k, v in weights.items()}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if n_shards == 1:
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    else:
        where = {}
        names = list(tensors)
        for i in range(n_shards):
            file = f"model-{i + 1:05}-of-{n_shards:05}.safetensors"
            part = names[len(names) * i // n_shards:len(names) * (i + 1) // n_shards]
            save_file({k: tensors[k] for k in part}, directory / file, metadata={"format": "pt"})
            where |= {k: file for k in part}
        n_bytes = sum(t.numel() * t.element_size() for t in tensors.values())
        index = {"metadata": {"total_size": n_bytes}, "weight_map": where}
        (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    for file in directory.glob("*.safetensors"):
        file.chmod(0o644)
    return {k: t.to(torch.float64).numpy() for k, t in tensors.items()}


def rope_frequencies(f):
    """-> (radians per position [d/2], factor on cos and sin), as the papers and configurations define them."""
    d, theta, s = f["head_dim"], f["rope_theta"], f["rope_scaling"]
    freq = theta ** (-np.arange(0, d, 2) / d)
    kind = None if s is None else s.get("rope_type", s.get("type"))
    if kind is None:
        return freq, 1.0
    if kind == "linear":  # positions divided by the factor
        return freq / s["factor"], 1.0
    if kind == "llama3":  # long waves are slowed down, short ones kept, those between blended
        turns = s["original_max_position_embeddings"] * freq / (2 * math.pi)
        blend = np.clip((turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"]), 0, 1)
        return freq / s["factor"] * (1 - blend) + freq * blend, 1.0
    assert kind == "yarn"  # Peng et al. 2023, by dimension index between two numbers of turns

    def dimension(turns):
        return d * math.log(s["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(dimension(s.get("beta_fast", 32.0))), 0)
    high = min(math.ceil(dimension(s.get("beta_slow", 1.0))), d - 1)
    ramp = np.clip((np.arange(d // 2) - low) / max(high - low, 1e-3), 0, 1)
    factor = s.get("attention_factor") or 0.1 * math.log(s["factor"]) + 1.0
    return freq / s["factor"] * ramp + freq * (1 - ramp), factor


def forward(f, w, ids):
    """Logits [T, V] in float64."""
    Hq, Hkv, d, n = f["num_attention_heads"], f["num_key_value_heads"], f["head_dim"], len(ids)

    def linear(x, name, bias):
        return x @ w[name + ".weight"].T + (w[name + ".bias"] if bias else 0.0)

    def rms_norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + f["rms_norm_eps"]) * w[name + ".weight"]

    def experts(h, p):
        router, names = expert_names(f, p)
        out = np.zeros_like(h)
        for t, logit in enumerate(linear(h, router, False)):
            chosen = np.argsort(-logit, kind="stable")[:f["num_experts_per_tok"]]
            weight = np.exp(logit - logit.max())
            weight /= weight[chosen].sum() if f["renormalise"] else weight.sum()
            for e in chosen:
                gate = linear(h[t], names[e][0], False)
                up = linear(h[t], names[e][1], False)
                out[t] += weight[e] * linear(gate / (1 + np.exp(-gate)) * up, names[e][2], False)
        return out

    freq, factor = rope_frequencies(f)
    angle = np.arange(n)[:, None] * freq
    cos, sin = np.cos(angle)[:, None] * factor, np.sin(angle)[:, None] * factor

    def rope(x):  # [T, H, d], half-split pairs
        lo, hi = x[..., :d // 2], x[..., d // 2:]
        return np.concatenate([lo * cos - hi * sin, hi * cos + lo * sin], -1)

    age = np.arange(n)[:, None] - np.arange(n)[None, :]
    seen = (age >= 0) & (age < (f["sliding_window"] or n))
    x = w["model.embed_tokens.weight"][ids]
    for i in range(f["num_hidden_layers"]):
        p = f"model.layers.{i}."
        h = rms_norm(x, p + "input_layernorm")
        q = linear(h, p + "self_attn.q_proj", f["qkv_bias"]).reshape(n, Hq, d)
        k = linear(h, p + "self_attn.k_proj", f["qkv_bias"]).reshape(n, Hkv, d)
        v = linear(h, p + "self_attn.v_proj", f["qkv_bias"]).reshape(n, Hkv, d)
        if f["qk_norm"]:
            q, k = rms_norm(q, p + "self_attn.q_norm"), rms_norm(k, p + "self_attn.k_norm")
        q, k = rope(q), rope(k)
        k, v = np.repeat(k, Hq // Hkv, 1), np.repeat(v, Hq // Hkv, 1)
        scores = np.where(seen, np.einsum("thd,shd->hts", q, k) / math.sqrt(d), -np.inf)
        probs = np.exp(scores - scores.max(-1, keepdims=True))
        probs /= probs.sum(-1, keepdims=True)
        x = x + linear(np.einsum("hts,shd->thd", probs, v).reshape(n, Hq * d), p + "self_attn.o_proj", f["o_bias"])
        h = rms_norm(x, p + "post_attention_layernorm")
        if f["sparse"][i]:
            x = x + experts(h, p)
            continue
        bias = f.get("mlp_bias", False)
        gate = linear(h, p + "mlp.gate_proj", bias)
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(h, p + "mlp.up_proj", bias), p + "mlp.down_proj", bias)
    head = "model.embed_tokens.weight" if f["tie_word_embeddings"] else "lm_head.weight"
    return rms_norm(x, "model.norm") @ w[head].T


def distance(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def control_of(f, config, row):
    """The settings without the option under test."""
    if "qk_norm" in row["control"]:
        return f | row["control"]
    plain = facts_of(config | {"rope_theta": f["rope_theta"], "rope_scaling": f["rope_scaling"]}, row["family"])
    return facts_of({k: v for k, v in plain.items() if k != "rope_parameters"} | row["control"], row["family"])


def run_transformers(directory, ids):
    model, info = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[kind], f"{directory.name}: {kind} {info[kind]}"
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def make(row, seed):
    directory = OUT / row["name"]
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    config = make_config(row)
    f = facts_of(config, row["family"])
    weights = write_model(directory, config, make_weights(f, rng), row["dtype"], row["n_shards"])
    ids = [int(i) for i in rng.integers(0, f["vocab_size"], T)]
    logits = run_transformers(directory, ids)
    error = distance(logits, forward(f, weights, ids))
    effect = distance(forward(control_of(f, config, row), weights, ids), logits)
    assert error < AGREE, f"{row['name']}: transformers and numpy differ by {error:.2e}"
    assert effect > MATTERS, f"{row['name']}: without the option the logits differ by only {effect:.2e}"
    logits.astype("<f4").tofile(directory / "logits.f32")
    (directory / "expected.json").write_text(json.dumps(
        {"input_ids": ids, "n_positions": T, "vocab_size": f["vocab_size"], "logits": "logits.f32"}) + "\n")
    n_bytes = sum(p.stat().st_size for p in directory.iterdir())
    print(f"{row['name']:24} {row['dtype']:8} {n_bytes:7} bytes  |logit| {np.abs(logits).max():5.2f}  "
          f"numpy {error:.1e}  control {effect:.2f}")
    return n_bytes


def main():
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    total = sum(make(row, seed) for seed, row in enumerate(FIXTURES))
    print(f"{len(FIXTURES)} fixtures, {total} bytes")


if __name__ == "__main__":
    main()
