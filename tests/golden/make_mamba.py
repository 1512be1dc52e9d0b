"""Makes the fixtures of tests/golden/models with Mamba-2 layers. README.md beside this file says what the files are.

    python3 make_mamba.py [NAME ...]

transformers is the oracle, as in make_families.py, whose functions this file uses: float32, eager attention, its scan in
chunks of `chunk` tokens, a control for each option. A control is a changed configuration, or the name of a function of
PATCHES, which takes one part of the model away that no key of config.json stands for.
"""

import shutil

import numpy as np
import torch

import make_families as mf

MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
         "mamba_chunk_size": 16, "mamba_conv_bias": True, "mamba_proj_bias": False}
GRANITE = mf.BASE | MAMBA | {
    "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "hidden_act": "silu",
    "rope_theta": 10000.0, "rope_scaling": None, "attention_bias": False, "attention_dropout": 0.0, "init_method": "mup",
    "normalization_function": "rmsnorm", "attention_multiplier": 0.2, "embedding_multiplier": 3.0,
    "residual_multiplier": 0.4, "logits_scaling": 0.5, "intermediate_size": 24, "shared_intermediate_size": 40,
    "num_local_experts": 5, "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.01,
    "position_embedding_type": "nope", "layer_types": ["mamba", "attention", "mamba", "mamba"], "pad_token_id": 0,
    "tie_word_embeddings": True}
FACTORS = [{"attention_multiplier": 0.4}, {"embedding_multiplier": 1.0}, {"residual_multiplier": 1.0}, {"logits_scaling": 1.0}]


def mixers(model):
    return [layer.mamba for layer in model.model.layers if getattr(layer, "mamba", None) is not None]


def without_skip(model):
    for m in mixers(model):
        m.D.fill_(0.0)


def without_conv_bias(model):
    for m in mixers(model):
        m.conv1d.bias.fill_(0.0)


def one_norm(model):
    """Over all heads instead of groups of them."""
    for m in mixers(model):
        m.norm.group_size = m.intermediate_size


def one_norm_h1(model):
    for m in mixers(model):
        m.norm.n_groups = 1


def without_gate(model):
    for m in mixers(model):
        norm = m.norm
        m.norm.forward = lambda x, gate=None, norm=norm: type(norm).forward(norm, x)


PATCHES = {f.__name__: f for f in (without_skip, without_conv_bias, one_norm, one_norm_h1, without_gate)}

FALCON = mf.BASE | MAMBA | {
    "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "hidden_act": "silu", "head_dim": 16,
    "rope_theta": 500.0, "rope_scaling": None, "attention_bias": False, "mlp_bias": False, "projectors_bias": False,
    "attention_dropout": 0.0, "mamba_d_ssm": 48, "mamba_n_heads": 6, "mamba_d_head": 8, "mamba_n_groups": 2,
    "mamba_norm_before_gate": True, "mamba_rms_norm": False, "mamba_use_mlp": True, "mlp_expansion_factor": 8,
    "num_logits_to_keep": 1, "pad_token_id": 0, "lm_head_multiplier": 0.7, "embedding_multiplier": 3.0,
    "key_multiplier": 0.6, "attention_in_multiplier": 1.4, "attention_out_multiplier": 0.8, "ssm_in_multiplier": 1.3,
    "ssm_out_multiplier": 0.7, "mlp_multipliers": [0.7, 1.3], "ssm_multipliers": [0.6, 1.4, 0.7, 1.5, 0.8],
    "num_hidden_layers": 3, "tie_word_embeddings": False}
ONES = [{k: 1.0} for k in ("lm_head_multiplier", "embedding_multiplier", "key_multiplier", "attention_in_multiplier",
                           "attention_out_multiplier", "ssm_in_multiplier", "ssm_out_multiplier")]
LISTS = [{"mlp_multipliers": [1.0, 1.3]}, {"mlp_multipliers": [0.7, 1.0]}] + [
    {"ssm_multipliers": [1.0 if i == k else x for i, x in enumerate(FALCON["ssm_multipliers"])]} for k in range(5)]

ROWS = [
    mf.row("granite-hybrid", GRANITE, FACTORS + [
        "without_skip", "without_conv_bias", "without_gate", {"num_experts_per_tok": 1}, {"position_embedding_type": "rope"},
        {"time_step_limit": [0.0, 0.3]}], seed=2300),
    # 6 heads in 3 groups, which 4 ranks share; no experts, whose shared one is the feed-forward
    mf.row("granite-hybrid-groups-bf16", GRANITE | {
        "mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 3, "mamba_d_state": 20, "mamba_d_conv": 3, "mamba_expand": 3,
        "mamba_conv_bias": False, "time_step_limit": [0.4, 0.9], "num_local_experts": 0, "num_experts_per_tok": 0,
        "position_embedding_type": "rope", "layer_types": ["full_attention", "linear_attention"] * 2,
        "tie_word_embeddings": False},
        FACTORS + ["without_skip", "one_norm", "without_gate", {"position_embedding_type": None},
                   {"time_step_limit": [0.0, 0.9]}, {"time_step_limit": [0.4, 9.0]}, {"rope_theta": 100.0}],
        dtype="bfloat16", seed=2301),
    mf.row("granite-hybrid-dense", GRANITE | {
        "num_local_experts": 0, "num_experts_per_tok": 0, "position_embedding_type": "rope", "layer_types": ["attention"] * 4},
        FACTORS + [{"position_embedding_type": None}], seed=2302),
    mf.row("falcon-h1", FALCON, ONES + LISTS + ["without_skip", "without_conv_bias", {"rope_theta": 10000.0}], seed=2303),
    mf.row("falcon-h1-norm-bf16", FALCON | {"mamba_rms_norm": True, "mamba_d_ssm": None, "mamba_n_heads": 8, "mamba_d_head": 8,
                                            "mamba_conv_bias": False, "tie_word_embeddings": True},
           ["one_norm_h1", {"mamba_norm_before_gate": False}], dtype="bfloat16", seed=2304),
    mf.row("falcon-h1-gate", FALCON | {"mamba_rms_norm": True, "mamba_norm_before_gate": False, "num_hidden_layers": 2},
           ["one_norm_h1", {"mamba_norm_before_gate": True}], seed=2305),
]


def effect(directory, r, change, ids, logits):
    if not isinstance(change, str):
        return mf.effect(directory, r["config"], change, ids, logits)
    model = mf.open_model(directory)
    with torch.no_grad():
        PATCHES[change](model)
    return float(np.abs(mf.forward(model, ids) - logits).max() / np.abs(logits).max())


def make(r, seed):
    directory = mf.OUT / r["name"]
    for attempt in range(40):
        shutil.rmtree(directory, ignore_errors=True)
        rng = np.random.default_rng([seed, attempt])
        mf.write(directory, r, rng)
        model = mf.open_model(directory)
        ids = [int(i) for i in rng.integers(3, 100, mf.T)]
        logits = mf.forward(model, ids)
        new, gap = mf.greedy(model, ids[:r["n_prompt"]])
        if gap > mf.GAP and len(set(new)) > 3:
            break
    assert gap > mf.GAP, f"{r['name']}: no seed keeps its greedy ids apart"
    for change in r["controls"]:
        e = effect(directory, r, change, ids, logits)
        assert e > mf.MATTERS, f"{r['name']}: with {change} the logits differ by only {e:.2e}"
        print(f"    {str(change)[:90]:90} {e:.2f}")
    mf.record(directory, r, ids, logits, new, gap, attempt)


if __name__ == "__main__":
    mf.run(ROWS, make)
