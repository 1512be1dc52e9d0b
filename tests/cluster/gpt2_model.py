"""Makes a model of the class GPT2LMHeadModel with the vocabulary and the embedding of another model; all other weights are
drawn from a seed."""
import json
import random
from array import array

from experts_model import read_safetensors, write_model
from latent_model import drawn, norm

LAYERS, HEADS, POSITIONS = 3, 8, 400


def bias(rng, n):
    return "F32", [n], array("f", (rng.uniform(-0.3, 0.3) for _ in range(n))).tobytes()


def linear(rng, name, rows, cols):
    """As OpenAI's Conv1D has it: from rows to columns."""
    return {name + ".weight": drawn(rng, rows, cols), name + ".bias": bias(rng, cols)}


def layer(rng, i, hidden):
    at, out = f"transformer.h.{i}.", {}
    for name in ("ln_1", "ln_2"):
        out |= {f"{at}{name}.weight": norm(rng, hidden), f"{at}{name}.bias": bias(rng, hidden)}
    return (out | linear(rng, at + "attn.c_attn", hidden, 3 * hidden) | linear(rng, at + "attn.c_proj", hidden, hidden) |
            linear(rng, at + "mlp.c_fc", hidden, 4 * hidden) | linear(rng, at + "mlp.c_proj", 4 * hidden, hidden))


def make_gpt2(source, directory):
    """A model in `directory`, which exists."""
    rng = random.Random(19)
    config = json.loads((source / "config.json").read_text())
    tensors, hidden = {}, config["hidden_size"]
    for path in sorted(source.glob("model*.safetensors")):
        tensors |= read_safetensors(path)
    out = {"transformer.wte.weight": tensors["model.embed_tokens.weight"], "transformer.wpe.weight": drawn(rng, POSITIONS, hidden),
           "transformer.ln_f.weight": norm(rng, hidden), "transformer.ln_f.bias": bias(rng, hidden)}
    for i in range(LAYERS):
        out |= layer(rng, i, hidden)
    own = {k: config[k] for k in ("vocab_size", "bos_token_id", "eos_token_id") if k in config}
    return write_model(source, directory, own | {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": hidden, "n_layer": LAYERS, "n_head": HEADS,
        "n_positions": POSITIONS, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}, out)
