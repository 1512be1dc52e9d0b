"""Makes a model of the class GptOssForCausalLM of a dense Llama model: the same attention with sinks, biases and a
window in every second layer, and experts that are the dense feed-forward block with its columns turned, stored
transposed with gate and up in turn."""
import json
import random
from array import array

from experts_model import read_safetensors, write_model

N_EXPERTS, TOP_K, WINDOW = 4, 2, 24


def biases(rng, *shape, size=0.05):
    """Random numbers in f32."""
    n = 1
    for s in shape:
        n *= s
    return "F32", list(shape), array("f", (rng.uniform(-size, size) for _ in range(n))).tobytes()


def transposed(data, rows, cols, out, first, step):
    """Row r of [rows, cols] of 16 bits becomes column first + r step of out [cols, step rows]."""
    values = array("H", data)
    for r in range(rows):
        out[first + r * step::step * rows] = values[r * cols:(r + 1) * cols]


def experts_of(tensors, prefix, rng):
    gate, up, down = (tensors[f"{prefix}mlp.{part}_proj.weight"] for part in ("gate", "up", "down"))
    F, D = gate[1]
    gate_up, downs = bytearray(), bytearray()
    for e in range(N_EXPERTS):
        by = e * F // N_EXPERTS
        pairs, turned = array("H", bytes(4 * F * D)), array("H", bytes(2 * F * D))
        for first, part in enumerate((gate, up)):
            rows = part[2][2 * D * (F - by):] + part[2][:2 * D * (F - by)]
            transposed(rows, F, D, pairs, first, 2)
        transposed(down[2], D, F, turned, 0, 1)
        turned = turned[D * (F - by):] + turned[:D * (F - by)]
        gate_up += pairs.tobytes()
        downs += turned.tobytes()
    name = prefix + "mlp.experts."
    embed = tensors["model.embed_tokens.weight"]
    return {name + "gate_up_proj": (gate[0], [N_EXPERTS, D, 2 * F], bytes(gate_up)),
            name + "down_proj": (down[0], [N_EXPERTS, F, D], bytes(downs)),
            name + "gate_up_proj_bias": biases(rng, N_EXPERTS, 2 * F),
            name + "down_proj_bias": biases(rng, N_EXPERTS, D),
            prefix + "mlp.router.weight": (embed[0], [N_EXPERTS, D], embed[2][600 * D:(600 + 2 * N_EXPERTS) * D]),
            prefix + "mlp.router.bias": biases(rng, N_EXPERTS),
            prefix + "self_attn.sinks": biases(rng, 8, size=2.0)}


def make_sinks(source, directory):
    """A model in `directory`, which exists."""
    rng = random.Random(5)
    config = json.loads((source / "config.json").read_text())
    tensors = {}
    for path in sorted(source.glob("model*.safetensors")):
        tensors |= read_safetensors(path)
    out = {name: t for name, t in tensors.items() if ".mlp." not in name}
    assert config["num_attention_heads"] == 8
    for i in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{i}."
        out |= experts_of(tensors, prefix, rng)
        for part in "qkvo":
            name = f"{prefix}self_attn.{part}_proj."
            out[name + "bias"] = biases(rng, tensors[name + "weight"][1][0])
    config.pop("mlp_bias")
    config |= {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "sliding_window": WINDOW,
               "num_local_experts": N_EXPERTS, "num_experts_per_tok": TOP_K, "attention_bias": True,
               "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256,
                                "truncate": False}}
    return write_model(source, directory, config, out)
