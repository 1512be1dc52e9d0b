"""Makes a mixture of experts of a dense Llama model: every expert is the dense feed-forward block with its
columns turned, which computes the same but for rounding, and the router is rows of the embedding. So the
answers are those of the dense model, and the bits tell which experts were added in which order."""
import json
import shutil
import struct

N_EXPERTS, TOP_K = 6, 2
COPIED = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json")


def read_safetensors(path):
    """name -> (type, shape, bytes)"""
    data = path.read_bytes()
    n, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in header.items()}


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def write_model(source, directory, config, tensors):
    """A model in `directory` with the tokenizer of `source`."""
    (directory / "config.json").write_text(json.dumps(config))
    write_safetensors(directory / "model.safetensors", tensors)
    for name in COPIED:
        if (source / name).exists():
            shutil.copyfile(source / name, directory / name)
    return directory


def turned(data, n_bytes):
    """The last n_bytes first."""
    return data[len(data) - n_bytes:] + data[:len(data) - n_bytes]


def experts_of(tensors, prefix):
    """The mixture in place of the dense block."""
    out = {}
    gate, up, down = (tensors[f"{prefix}mlp.{part}_proj.weight"] for part in ("gate", "up", "down"))
    (F, D), element = gate[1], len(gate[2]) // (gate[1][0] * gate[1][1])
    for e in range(N_EXPERTS):
        by = e * F // N_EXPERTS
        rows = [turned(down[2][r * F * element:(r + 1) * F * element], by * element) for r in range(D)]
        name = f"{prefix}block_sparse_moe.experts.{e}."
        out[name + "w1.weight"] = (gate[0], gate[1], turned(gate[2], by * D * element))
        out[name + "w3.weight"] = (up[0], up[1], turned(up[2], by * D * element))
        out[name + "w2.weight"] = (down[0], down[1], b"".join(rows))
    embed = tensors["model.embed_tokens.weight"]
    first = 300 * D * element
    out[prefix + "block_sparse_moe.gate.weight"] = (embed[0], [N_EXPERTS, D],
                                                    embed[2][first:first + N_EXPERTS * D * element])
    return out


def make_mixture(source, directory):
    """A Mixtral model in `directory`, which exists."""
    config = json.loads((source / "config.json").read_text())
    tensors = {}
    for path in sorted(source.glob("model*.safetensors")):
        tensors |= read_safetensors(path)
    out = {name: t for name, t in tensors.items() if ".mlp." not in name}
    for i in range(config["num_hidden_layers"]):
        out |= experts_of(tensors, f"model.layers.{i}.")
    config |= {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "sliding_window": None,
               "num_local_experts": N_EXPERTS, "num_experts_per_tok": TOP_K}
    return write_model(source, directory, config, out)
