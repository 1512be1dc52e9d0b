"""Makes a model of the class Qwen3NextForCausalLM with the vocabulary and the embedding of another model; all other
weights are drawn from a seed."""
import json
import random
from array import array

from experts_model import read_safetensors, write_model
from latent_model import drawn, ffn

TYPES = ["linear_attention", "linear_attention", "full_attention", "linear_attention"]
HEADS, KV_HEADS, D = 8, 2, 24
KEY_HEADS, VALUE_HEADS, D_KEY, D_VALUE, TAPS = 4, 12, 16, 20, 4  # on 4 ranks one key head is shared by two
N_EXPERTS, EXPERT_FFN, SHARED = 8, 32, 48


def vector(rng, n, low, high):
    return "F32", [n], array("f", (rng.uniform(low, high) for _ in range(n))).tobytes()


def norm(rng, n):
    """Stored less 1."""
    return vector(rng, n, -0.5, 0.5)


def attention(rng, at, hidden):
    return {at + "q_proj.weight": drawn(rng, 2 * HEADS * D, hidden), at + "k_proj.weight": drawn(rng, KV_HEADS * D, hidden),
            at + "v_proj.weight": drawn(rng, KV_HEADS * D, hidden), at + "o_proj.weight": drawn(rng, hidden, HEADS * D),
            at + "q_norm.weight": norm(rng, D), at + "k_norm.weight": norm(rng, D)}


def delta_net(rng, at, hidden):
    keys, values = KEY_HEADS * D_KEY, VALUE_HEADS * D_VALUE
    return {at + "in_proj_qkvz.weight": drawn(rng, 2 * (keys + values), hidden),
            at + "in_proj_ba.weight": drawn(rng, 2 * VALUE_HEADS, hidden),
            at + "conv1d.weight": drawn(rng, 2 * keys + values, 1, TAPS), at + "A_log": vector(rng, VALUE_HEADS, -4, 0.5),
            at + "dt_bias": vector(rng, VALUE_HEADS, -0.5, 0.5), at + "norm.weight": vector(rng, D_VALUE, 0.5, 1.5),
            at + "out_proj.weight": drawn(rng, hidden, values)}


def layer(rng, i, hidden):
    at = f"model.layers.{i}."
    out = {at + "input_layernorm.weight": norm(rng, hidden), at + "post_attention_layernorm.weight": norm(rng, hidden)}
    out |= (attention(rng, at + "self_attn.", hidden) if TYPES[i] == "full_attention" else
            delta_net(rng, at + "linear_attn.", hidden))
    for e in range(N_EXPERTS):
        out |= ffn(rng, f"{at}mlp.experts.{e}.", hidden, EXPERT_FFN)
    return out | ffn(rng, at + "mlp.shared_expert.", hidden, SHARED) | {
        at + "mlp.gate.weight": drawn(rng, N_EXPERTS, hidden), at + "mlp.shared_expert_gate.weight": drawn(rng, 1, hidden)}


def make_delta(source, directory):
    """A model in `directory`, which exists."""
    rng = random.Random(15)
    config = json.loads((source / "config.json").read_text())
    tensors, hidden = {}, config["hidden_size"]
    for path in sorted(source.glob("model*.safetensors")):
        tensors |= read_safetensors(path)
    out = {"model.embed_tokens.weight": tensors["model.embed_tokens.weight"], "model.norm.weight": norm(rng, hidden)}
    for i in range(len(TYPES)):
        out |= layer(rng, i, hidden)
    config.pop("mlp_bias")
    config |= {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": len(TYPES),
               "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": D, "layer_types": TYPES,
               "partial_rotary_factor": 0.5, "linear_num_key_heads": KEY_HEADS, "linear_num_value_heads": VALUE_HEADS,
               "linear_key_head_dim": D_KEY, "linear_value_head_dim": D_VALUE, "linear_conv_kernel_dim": TAPS,
               "num_experts": N_EXPERTS, "num_experts_per_tok": 3, "moe_intermediate_size": EXPERT_FFN,
               "shared_expert_intermediate_size": SHARED, "norm_topk_prob": True}
    return write_model(source, directory, config, out)
