"""Makes a model of the class GraniteMoeHybridForCausalLM with the vocabulary and the embedding of another model; all other
weights are drawn from a seed."""
import json
import random

from delta_model import vector
from experts_model import read_safetensors, write_model
from latent_model import drawn, norm

TYPES = ["mamba", "mamba", "attention", "mamba"]
HEADS, KV_HEADS = 8, 2
MAMBA_HEADS, GROUPS, STATE, TAPS, EXPAND = 16, 2, 24, 4, 2  # on 4 ranks two share a group of heads
N_EXPERTS, EXPERT_FFN, SHARED = 8, 32, 48


def attention(rng, at, hidden):
    d = hidden // HEADS
    return {at + "q_proj.weight": drawn(rng, hidden, hidden), at + "k_proj.weight": drawn(rng, KV_HEADS * d, hidden),
            at + "v_proj.weight": drawn(rng, KV_HEADS * d, hidden), at + "o_proj.weight": drawn(rng, hidden, hidden)}


def mamba(rng, at, hidden):
    inner, channels = EXPAND * hidden, EXPAND * hidden + 2 * GROUPS * STATE
    return {at + "in_proj.weight": drawn(rng, inner + channels + MAMBA_HEADS, hidden),
            at + "conv1d.weight": drawn(rng, channels, 1, TAPS), at + "conv1d.bias": vector(rng, channels, -0.5, 0.5),
            at + "A_log": vector(rng, MAMBA_HEADS, -4, 0.5), at + "dt_bias": vector(rng, MAMBA_HEADS, -0.5, 0.5),
            at + "D": vector(rng, MAMBA_HEADS, 0.5, 1.5), at + "norm.weight": norm(rng, inner),
            at + "out_proj.weight": drawn(rng, hidden, inner)}


def layer(rng, i, hidden):
    at = f"model.layers.{i}."
    out = {at + "input_layernorm.weight": norm(rng, hidden), at + "post_attention_layernorm.weight": norm(rng, hidden)}
    out |= attention(rng, at + "self_attn.", hidden) if TYPES[i] == "attention" else mamba(rng, at + "mamba.", hidden)
    sparse, shared = at + "block_sparse_moe.", at + "shared_mlp."
    return out | {sparse + "router.layer.weight": drawn(rng, N_EXPERTS, hidden),
                  sparse + "input_linear.weight": drawn(rng, N_EXPERTS, 2 * EXPERT_FFN, hidden),
                  sparse + "output_linear.weight": drawn(rng, N_EXPERTS, hidden, EXPERT_FFN),
                  shared + "input_linear.weight": drawn(rng, 2 * SHARED, hidden),
                  shared + "output_linear.weight": drawn(rng, hidden, SHARED)}


def make_mamba(source, directory):
    """A model in `directory`, which exists."""
    rng = random.Random(16)
    config = json.loads((source / "config.json").read_text())
    tensors, hidden = {}, config["hidden_size"]
    for path in sorted(source.glob("model*.safetensors")):
        tensors |= read_safetensors(path)
    out = {"model.embed_tokens.weight": tensors["model.embed_tokens.weight"], "model.norm.weight": norm(rng, hidden)}
    for i in range(len(TYPES)):
        out |= layer(rng, i, hidden)
    for key in ("mlp_bias", "head_dim"):
        config.pop(key, None)
    config |= {"architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "num_hidden_layers": len(TYPES),
               "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "layer_types": TYPES,
               "position_embedding_type": "nope", "attention_multiplier": 0.2, "embedding_multiplier": 1.5,
               "residual_multiplier": 0.6, "logits_scaling": 0.5, "intermediate_size": EXPERT_FFN,
               "shared_intermediate_size": SHARED, "num_local_experts": N_EXPERTS, "num_experts_per_tok": 3,
               "mamba_n_heads": MAMBA_HEADS, "mamba_d_head": EXPAND * hidden // MAMBA_HEADS, "mamba_n_groups": GROUPS,
               "mamba_d_state": STATE, "mamba_d_conv": TAPS, "mamba_expand": EXPAND, "mamba_conv_bias": True,
               "mamba_proj_bias": False}
    return write_model(source, directory, config, out)
