"""Makes a model of the class DeepseekV3ForCausalLM with the vocabulary and the embedding of another model; all other
weights are drawn from a seed."""
import json
import math
import random
from array import array

from experts_model import read_safetensors, write_model

LAYERS, HEADS, Q_RANK, KV_RANK, NOPE, ROPE, VALUE = 3, 8, 48, 64, 16, 8, 20
N_EXPERTS, GROUPS, FFN, EXPERT_FFN, SHARED = 8, 4, 192, 32, 1


def drawn(rng, *shape):
    n = math.prod(shape)
    size = 1.5 / math.sqrt(shape[-1])
    return "F32", list(shape), array("f", (rng.gauss(0, size) for _ in range(n))).tobytes()


def norm(rng, n):
    return "F32", [n], array("f", (rng.uniform(0.5, 1.5) for _ in range(n))).tobytes()


def ffn(rng, prefix, hidden, width):
    return {prefix + "gate_proj.weight": drawn(rng, width, hidden), prefix + "up_proj.weight": drawn(rng, width, hidden),
            prefix + "down_proj.weight": drawn(rng, hidden, width)}


def layer(rng, i, hidden):
    at = f"model.layers.{i}."
    out = {at + "input_layernorm.weight": norm(rng, hidden), at + "post_attention_layernorm.weight": norm(rng, hidden),
           at + "self_attn.q_a_proj.weight": drawn(rng, Q_RANK, hidden),
           at + "self_attn.q_a_layernorm.weight": norm(rng, Q_RANK),
           at + "self_attn.q_b_proj.weight": drawn(rng, HEADS * (NOPE + ROPE), Q_RANK),
           at + "self_attn.kv_a_proj_with_mqa.weight": drawn(rng, KV_RANK + ROPE, hidden),
           at + "self_attn.kv_a_layernorm.weight": norm(rng, KV_RANK),
           at + "self_attn.kv_b_proj.weight": drawn(rng, HEADS * (NOPE + VALUE), KV_RANK),
           at + "self_attn.o_proj.weight": drawn(rng, hidden, HEADS * VALUE)}
    if i == 0:
        return out | ffn(rng, at + "mlp.", hidden, FFN)
    for e in range(N_EXPERTS):
        out |= ffn(rng, f"{at}mlp.experts.{e}.", hidden, EXPERT_FFN)
    return out | ffn(rng, at + "mlp.shared_experts.", hidden, SHARED * EXPERT_FFN) | {
        at + "mlp.gate.weight": drawn(rng, N_EXPERTS, hidden),
        at + "mlp.gate.e_score_correction_bias": drawn(rng, N_EXPERTS)}


def make_latent(source, directory):
    """A model in `directory`, which exists."""
    rng = random.Random(9)
    config = json.loads((source / "config.json").read_text())
    tensors, hidden = {}, config["hidden_size"]
    for path in sorted(source.glob("model*.safetensors")):
        tensors |= read_safetensors(path)
    out = {name: tensors[name] for name in ("model.embed_tokens.weight", "model.norm.weight")}
    for i in range(LAYERS):
        out |= layer(rng, i, hidden)
    for key in ("mlp_bias", "head_dim"):
        config.pop(key)
    config |= {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": LAYERS,
               "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "q_lora_rank": Q_RANK,
               "kv_lora_rank": KV_RANK, "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": VALUE,
               "intermediate_size": FFN, "moe_intermediate_size": EXPERT_FFN, "n_routed_experts": N_EXPERTS,
               "n_shared_experts": SHARED, "num_experts_per_tok": 3, "n_group": GROUPS, "topk_group": 2,
               "first_k_dense_replace": 1, "routed_scaling_factor": 1.5, "norm_topk_prob": True,
               "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256, "mscale": 1.0,
                                "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1}}
    return write_model(source, directory, config, out)
