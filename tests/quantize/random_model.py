"""A random Llama with rows of 256 and the demo model's tokenizer, for what needs whole K blocks."""
import array
import json
import lzma
import math
import pathlib
import random
import shutil
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD, VOCAB = 256, 1024, 2, 8, 4, 32, 2048


def config(layers, ffn):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
            "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "vocab_size": VOCAB,
            "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "hidden_act": "silu", "tie_word_embeddings": True, "bos_token_id": 1,
            "eos_token_id": 2, "torch_dtype": "float32"}


def shapes(layers, ffn):
    q, kv = HEADS * HEAD, KV_HEADS * HEAD
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN), 0.0, 0.15
    yield "model.norm.weight", (HIDDEN,), 1.0, 0.1
    for i in range(layers):
        for name, shape in (("self_attn.q_proj", (q, HIDDEN)), ("self_attn.k_proj", (kv, HIDDEN)),
                            ("self_attn.v_proj", (kv, HIDDEN)), ("self_attn.o_proj", (HIDDEN, q)),
                            ("mlp.gate_proj", (ffn, HIDDEN)), ("mlp.up_proj", (ffn, HIDDEN)),
                            ("mlp.down_proj", (HIDDEN, ffn))):
            yield f"model.layers.{i}.{name}.weight", shape, 0.0, shape[1] ** -0.5
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"model.layers.{i}.{name}.weight", (HIDDEN,), 1.0, 0.1


def tiny(folder, tokenizer):
    """A model of zeros around the tokenizer of another folder (its files may be packed by xz)."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    for f in pathlib.Path(tokenizer).glob("tokenizer*.json*"):
        if f.suffix == ".xz":
            (folder / f.stem).write_bytes(lzma.decompress(f.read_bytes()))
        else:
            shutil.copy(f, folder)
    t = json.loads((folder / "tokenizer.json").read_text())
    vocab = max([*t["model"]["vocab"].values(), *(a["id"] for a in t["added_tokens"])]) + 9  # some are unused
    c = {**config(1, 32), "hidden_size": 8, "vocab_size": vocab, "num_attention_heads": 1,
         "num_key_value_heads": 1, "head_dim": 8}
    (folder / "config.json").write_text(json.dumps(c))
    header, at = {}, 0
    for name, shape, _, _ in shapes(1, 32):
        small = [{VOCAB: vocab, 32: 32}.get(d, 8) for d in shape]
        size = 4 * math.prod(small)
        header[name] = {"dtype": "F32", "shape": small, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
    return folder


def save(folder, settings, tensors):
    """Writes config.json, arrays of numpy in f32 and the demo model's tokenizer into a folder."""
    header, at = {}, 0
    for name, x in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(x.astype("<f4").tobytes() for x in tensors.values())
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(settings))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "deploy" / "demo-model" / name, folder / name)


def make(folder, layers=LAYERS, ffn=FFN, seed=5, spoil=None):
    """Writes the folder.  spoil: a tensor whose last value is NaN."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    rng, header, data = random.Random(seed), {}, []
    at = 0
    for name, shape, mean, deviation in shapes(layers, ffn):
        n = 1
        for d in shape:
            n *= d
        bits = array.array("i")
        bits.frombytes(rng.randbytes(4 * n))
        scale = deviation * 3 ** 0.5 / 2 ** 31  # uniform, of that deviation
        values = array.array("f", [mean + scale * b for b in bits])
        if name == spoil:
            values[-1] = float("nan")
        if sys.byteorder == "big":
            values.byteswap()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + 4 * n]}
        data.append(values.tobytes())
        at += 4 * n
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    (folder / "config.json").write_text(json.dumps(config(layers, ffn)))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "deploy" / "demo-model" / name, folder / name)
    return folder
