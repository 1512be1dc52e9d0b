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
    found = [getattr(layer, "mamba", getattr(layer, "mixer", None)) for layer in model.model.layers]
    return [m for m in found if hasattr(m, "A_log")]


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


def without_route_bias(model):
    for name, p in model.named_buffers():
        if "correction" in name:
            p.fill_(0.0)
    for name, p in model.named_parameters():
        if "correction" in name:
            p.fill_(0.0)


PATCHES = {f.__name__: f for f in (without_skip, without_conv_bias, one_norm, one_norm_h1, without_gate, without_route_bias)}

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
BAMBA = mf.BASE | MAMBA | {
    "architectures": ["BambaForCausalLM"], "model_type": "bamba", "hidden_act": "silu", "rope_theta": 500.0, "rope_scaling": None,
    "attention_bias": False, "mlp_bias": False, "attention_dropout": 0.0, "attn_layer_indices": [1, 3], "attn_rotary_emb": 4,
    "num_logits_to_keep": 1, "z_loss_coefficient": 0.0, "pad_token_id": 0, "tie_word_embeddings": False}
NEMOTRON = {k: v for k, v in mf.BASE.items() if k != "rms_norm_eps"} | {
    "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "hybrid_override_pattern": "M-M*-M",
    "num_hidden_layers": 6, "head_dim": 16, "attention_bias": False, "attention_dropout": 0.0, "hidden_dropout": 0.0,
    "mlp_bias": False, "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu", "mamba_num_heads": 8, "mamba_head_dim": 8,
    "mamba_proj_bias": False, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4, "use_conv_bias": True, "chunk_size": 16,
    "expand": 2, "time_step_min": 0.001, "time_step_max": 0.1, "time_step_floor": 1e-4, "time_step_limit": [0.0, float("inf")],
    "layer_norm_epsilon": 1e-5, "residual_in_fp32": False, "rescale_prenorm_residual": True, "use_bias": False,
    "use_mamba_kernels": True, "num_logits_to_keep": 1, "sliding_window": None, "pad_token_id": 0, "tie_word_embeddings": False,
    "auto_map": {"AutoConfig": "configuration_nemotron_h.NemotronHConfig"}}
MOE = {"hybrid_override_pattern": "MEM*E", "num_hidden_layers": 5, "n_routed_experts": 6, "num_experts_per_tok": 2,
       "n_shared_experts": 1, "moe_intermediate_size": 20, "moe_shared_expert_intermediate_size": 28, "n_group": 1,
       "topk_group": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "moe_shared_expert_overlap": True}

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
    # a rotated half of each head, attention in two layers
    mf.row("bamba", BAMBA, [{"rope_theta": 10000.0}, {"time_step_limit": [0.0, 0.3]},
                            "without_skip", "without_conv_bias", "without_gate", {"rms_norm_eps": 0.1}], seed=2310),
    # 6 heads in 3 groups, which 4 ranks share; biases of attention and feed-forward
    mf.row("bamba-groups-bf16", BAMBA | {
        "mamba_n_heads": 6, "mamba_d_head": 16, "mamba_n_groups": 3, "mamba_d_state": 20, "mamba_d_conv": 3, "mamba_expand": 3,
        "mamba_conv_bias": False, "attention_bias": True, "mlp_bias": True, "attn_layer_indices": [1],
        "tie_word_embeddings": True}, ["one_norm", "without_skip", {"rope_theta": 10000.0}], dtype="bfloat16", seed=2311),
    mf.row("nemotron-h", NEMOTRON, ["without_skip", "without_conv_bias", "without_gate", "one_norm", {"mlp_hidden_act": "relu"},
                                    {"layer_norm_epsilon": 0.1}], seed=2312),
    mf.row("nemotron-h-moe", NEMOTRON | MOE, [
        {"num_experts_per_tok": 1}, {"norm_topk_prob": False}, {"routed_scaling_factor": 1.0}, {"mlp_hidden_act": "relu"},
        "without_route_bias"], seed=2313),
    # all kinds of layers by their names, as transformers 5 saves them; 6 heads in 3 groups, which 4 ranks share
    mf.row("nemotron-h-groups-bf16", {k: v for k, v in (NEMOTRON | MOE).items() if k not in (
        "hybrid_override_pattern", "num_hidden_layers")} | {
        "layers_block_type": ["moe", "linear_attention", "mlp", "full_attention", "linear_attention"], "n_group": 4,
        "topk_group": 2, "n_routed_experts": 8, "num_experts_per_tok": 3, "mamba_num_heads": 6, "mamba_head_dim": 12,
        "n_groups": 3, "ssm_state_size": 20, "conv_kernel": 3, "use_conv_bias": False, "time_step_min": 0.3,
        "mlp_hidden_act": "silu", "norm_topk_prob": False}, [
        {"topk_group": 4}, {"n_group": 2}, {"time_step_min": 0.001}, {"norm_topk_prob": True}, {"mlp_hidden_act": "relu2"},
        "one_norm", "without_route_bias"], dtype="bfloat16", seed=2314),
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
