"""Makes the fixtures of tests/golden/models of GPT-2, GPT-NeoX and OPT. README.md beside this file says what the files
are.

    python3 make_classic.py [NAME ...]

transformers is the oracle, as in make_families.py, whose functions this file uses: float32, eager attention, a control
for each option. A control is a changed configuration, or "shift": every position is one further. The two forms of GELU
differ by little, so their controls need only differ by more than ALIKE, ten times the limit of the tests. The tensors
have the names, and the files the masks, that published repositories have.
"""

import json
import shutil

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

import make_families as mf

ALIKE = 1e-3
COMMON = {"vocab_size": 104, "initializer_range": 0.02, "use_cache": True, "bos_token_id": 1, "eos_token_id": 2,
          "torch_dtype": "float32"}
NEOX = COMMON | {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_size": 48,
                 "intermediate_size": 72, "num_hidden_layers": 2, "num_attention_heads": 4, "hidden_act": "gelu",
                 "max_position_embeddings": 256, "rotary_pct": 0.5, "rotary_emb_base": 10000, "layer_norm_eps": 1e-5,
                 "use_parallel_residual": True, "attention_dropout": 0.0, "hidden_dropout": 0.0,
                 "classifier_dropout": 0.1, "tie_word_embeddings": False}
GPT2 = COMMON | {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4,
                 "n_positions": 68, "n_ctx": 68, "n_inner": None, "activation_function": "gelu_new",
                 "layer_norm_epsilon": 1e-5, "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1,
                 "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
                 "summary_type": "cls_index", "summary_use_proj": True,
                 "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}}
OPT = {k: v for k, v in COMMON.items() if k != "initializer_range"} | {
    "architectures": ["OPTForCausalLM"], "model_type": "opt", "hidden_size": 48, "ffn_dim": 72, "num_hidden_layers": 2,
    "num_attention_heads": 4, "activation_function": "relu", "max_position_embeddings": 68, "word_embed_proj_dim": 48,
    "do_layer_norm_before": True, "_remove_final_layer_norm": False, "activation_dropout": 0.0, "dropout": 0.1,
    "attention_dropout": 0.0, "layerdrop": 0.0, "init_std": 0.02, "pad_token_id": 1, "prefix": "</s>"}


def row(name, config, controls, dtype="float32", bare=False, masks=None):
    """bare: names without the prefix of the class."""
    return {"name": name, "config": config | {"torch_dtype": dtype}, "controls": controls, "dtype": dtype, "bare": bare,
            "masks": masks, "n_prompt": 20}


ROWS = [
    row("neox", NEOX, [{"rotary_pct": 1.0}, {"rotary_emb_base": 500}, {"use_parallel_residual": False},
                       {"layer_norm_eps": 0.1}, {"hidden_act": "gelu_new"}], masks="attention"),
    # 6 heads of 10: 4 ranks have 1 or 2 each
    row("neox-sequential-bf16", NEOX | {"hidden_size": 60, "num_attention_heads": 6, "rotary_pct": 0.4,
                                        "use_parallel_residual": False},
        [{"use_parallel_residual": True}, {"rotary_pct": 0.8}, {"hidden_act": "gelu_new"}], dtype="bfloat16"),
    row("neox-v5", {k: v for k, v in NEOX.items() if k not in ("rotary_pct", "rotary_emb_base")} |
        {"hidden_size": 64, "attention_bias": False, "tie_word_embeddings": True, "hidden_act": "gelu_fast",
         "rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}},
        [{"rope_parameters.partial_rotary_factor": 1.0}, {"rope_parameters.rope_theta": 10000.0},
         {"rope_parameters.factor": 1.0}, {"hidden_act": "gelu"}]),
    row("gpt2", GPT2, ["shift", {"layer_norm_epsilon": 0.1}, {"activation_function": "gelu"}], masks="attn"),
    row("gpt2-bare-bf16", GPT2 | {"n_embd": 60, "n_head": 6, "tie_word_embeddings": False},
        ["shift", {"activation_function": "gelu"}], dtype="bfloat16", bare=True, masks="attn"),
    row("gpt2-inner", GPT2 | {"n_inner": 40}, ["shift", {"activation_function": "gelu"}]),
    row("opt", OPT, ["shift", {"activation_function": "gelu"}]),
    row("opt-bare-bf16", OPT | {"hidden_size": 60, "num_attention_heads": 6, "word_embed_proj_dim": None,
                                "tie_word_embeddings": False, "activation_function": "gelu"},
        ["shift", {"activation_function": "relu"}, {"activation_function": "gelu_new"}], dtype="bfloat16", bare=True),
]
UP = ("dense_h_to_4h.bias", "c_fc.bias", "fc1.bias")
DOWN = ("dense_4h_to_h.weight", "mlp.c_proj.weight", "fc2.weight")
PREFIX = {"gpt2": "transformer.", "gpt_neox": "gpt_neox.", "opt": "model."}


def draw(name, shape, rng):
    if name.endswith(UP):  # where the two forms of GELU differ most, compared with their values
        return rng.normal(-2.0, 0.5, shape)
    if name.endswith("bias"):
        return rng.normal(0, 0.4, shape)
    if len(shape) == 1:
        return rng.uniform(0.5, 1.5, shape)
    if any(part in name for part in ("embed_in", "embed_tokens", "embed_positions", "wte", "wpe")):
        return rng.normal(0, 0.5, shape)
    inputs = shape[0] if ".c_" in name else shape[-1]  # GPT-2's matrices map rows to columns
    return rng.normal(0, (12.0 if name.endswith(DOWN) else 1.5) / np.sqrt(inputs), shape)


def write(directory, r, rng):
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(json.dumps(r["config"], indent=2) + "\n")
    config = AutoConfig.from_pretrained(directory)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    tensors, prefix = {}, PREFIX[config.model_type]
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        value = torch.from_numpy(draw(name, tuple(p.shape), rng)).to(mf.DTYPES[r["dtype"]]).contiguous()
        if name == "lm_head.weight" and config.model_type == "gpt_neox":
            name = "embed_out.weight"
        tensors[name.removeprefix(prefix) if r["bare"] else name] = value
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def with_masks(directory, r):
    """Of causal attention, and of RoPE the frequencies, as old versions saved them."""
    tensors = load_file(directory / "model.safetensors")
    config = AutoConfig.from_pretrained(directory)
    n, stem = 12, ("" if r["bare"] else PREFIX[config.model_type]) + ("h." if r["masks"] == "attn" else "layers.")
    for i in range(config.num_hidden_layers):
        at = f"{stem}{i}.{r['masks']}."
        tensors[at + "bias"] = torch.tril(torch.ones(n, n, dtype=torch.bool if i else torch.uint8))[None, None]
        tensors[at + "masked_bias"] = torch.tensor(-1e9)
        if r["masks"] == "attention":
            tensors[at + "rotary_emb.inv_freq"] = torch.ones(3)
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def shifted(directory, ids):
    """The logits when position 0 is the one behind it."""
    model = mf.open_model(directory)
    with torch.no_grad():
        position = torch.arange(1, len(ids))[None]
        return model(torch.tensor([ids[:-1]]), position_ids=position, use_cache=False).logits[0].numpy()


def check_controls(directory, r, ids, logits):
    for change in r["controls"]:
        if change == "shift":
            e = float(np.abs(shifted(directory, ids) - logits[:-1]).max() / np.abs(logits).max())
        else:
            e = mf.effect(directory, r["config"], change, ids, logits)
        forms = {r["config"].get(key, "").replace("fast", "new") for key in ("hidden_act", "activation_function")}
        forms |= {str(v).replace("fast", "new") for v in change.values()} if change != "shift" else set()
        least = ALIKE if {"gelu", "gelu_new"} <= forms else mf.MATTERS
        assert e > least, f"{r['name']}: with {change} the logits differ by only {e:.2e}"
        print(f"    {str(change)[:90]:90} {e:.2g}")


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
        if gap > mf.GAP and len(set(new)) > 3:
            break
    assert gap > mf.GAP, f"{r['name']}: no seed keeps its greedy ids apart"
    check_controls(directory, r, ids, logits)
    if r["masks"]:
        with_masks(directory, r)
        again = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
        assert np.array_equal(mf.forward(again, ids), logits), "transformers reads the masks"
    (directory / "model.safetensors").chmod(0o644)
    mf.record(directory, r, ids, logits, new, gap, attempt)


if __name__ == "__main__":
    mf.run(ROWS, make, 1300)
