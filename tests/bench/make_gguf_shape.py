#!/usr/bin/env python3
"""Writes a GGUF file with random weights in the sizes of a well-known model: something that every
engine opens and that needs no download.  The vocabulary is made up.  Other types than f32, f16 and
bf16 come from a quantising program.  Format: github.com/ggml-org/ggml, docs/gguf.md.

    make_gguf_shape.py llama-3.2-1b bf16 OUT.gguf
"""
import argparse
import struct

import numpy as np

SHAPES = {  # architecture, layers, D, F, V, query heads, key/value heads, d, context, theta, eps
    "llama-3.2-1b": ("llama", 16, 2048, 8192, 128256, 32, 8, 64, 131072, 500000.0, 1e-5),
    "qwen3-0.6b": ("qwen3", 28, 1024, 3072, 151936, 16, 8, 128, 40960, 1000000.0, 1e-6),
}
TYPES = {"f32": (0, 4), "f16": (1, 2), "bf16": (30, 2)}  # number in the file, bytes
U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9
ALIGN, UNIT = 32, 1 << 20


def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(b)) + b


def value(kind, v):
    if kind == STRING:
        return text(v)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f"}[kind], v)


def pair(key, kind, v):
    return text(key) + struct.pack("<I", kind) + value(kind, v)


def array(key, kind, values):
    head = struct.pack("<IIQ", ARRAY, kind, len(values))
    return text(key) + head + b"".join(value(kind, v) for v in values)


def byte_letters():
    """The printable stand-ins of byte-level BPE for the 256 bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(len(others))]


def metadata(name, shape):
    arch, n_layers, hidden, ffn, vocab, n_q, n_kv, d, ctx, theta, eps = shape
    letters = byte_letters()
    tokens = letters + [letters[0] + letters[1]] + [f"<{i}>" for i in range(257, vocab)]
    pairs = [
        pair("general.architecture", STRING, arch),
        pair("general.name", STRING, f"random {name}"),
        pair(f"{arch}.block_count", U32, n_layers),
        pair(f"{arch}.context_length", U32, ctx),
        pair(f"{arch}.embedding_length", U32, hidden),
        pair(f"{arch}.feed_forward_length", U32, ffn),
        pair(f"{arch}.attention.head_count", U32, n_q),
        pair(f"{arch}.attention.head_count_kv", U32, n_kv),
        pair(f"{arch}.attention.key_length", U32, d),
        pair(f"{arch}.attention.value_length", U32, d),
        pair(f"{arch}.attention.layer_norm_rms_epsilon", F32, eps),
        pair(f"{arch}.rope.freq_base", F32, theta),
        pair(f"{arch}.rope.dimension_count", U32, d),
        pair(f"{arch}.vocab_size", U32, vocab),
        pair("tokenizer.ggml.model", STRING, "gpt2"),
        pair("tokenizer.ggml.pre", STRING, "llama-bpe" if arch == "llama" else "qwen2"),
        array("tokenizer.ggml.tokens", STRING, tokens),
        array("tokenizer.ggml.token_type", I32, [1] * vocab),
        array("tokenizer.ggml.merges", STRING, [f"{letters[0]} {letters[1]}"]),
        pair("tokenizer.ggml.bos_token_id", U32, vocab - 1),
        pair("tokenizer.ggml.eos_token_id", U32, vocab - 2),
    ]
    return pairs


def tensors(shape):
    """(name, dimensions with the fastest first)"""
    arch, n_layers, hidden, ffn, vocab, n_q, n_kv, d = shape[:8]
    out = [("token_embd.weight", (hidden, vocab)), ("output_norm.weight", (hidden,))]
    for i in range(n_layers):
        layer = {
            "attn_norm": (hidden,), "ffn_norm": (hidden,),
            "attn_q": (hidden, n_q * d), "attn_k": (hidden, n_kv * d), "attn_v": (hidden, n_kv * d),
            "attn_output": (n_q * d, hidden),
            "ffn_gate": (hidden, ffn), "ffn_up": (hidden, ffn), "ffn_down": (ffn, hidden),
        }
        if arch == "qwen3":
            layer |= {"attn_q_norm": (d,), "attn_k_norm": (d,)}
        out += [(f"blk.{i}.{name}.weight", dims) for name, dims in layer.items()]
    return out


def random_unit(kind):
    values = np.random.default_rng(1).normal(0, 0.02, UNIT).astype(np.float32)
    if kind == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return values.astype({"f32": np.float32, "f16": np.float16}[kind]).tobytes()


def data_of(dims, kind, unit):
    if len(dims) == 1:
        return np.ones(dims, np.float32).tobytes()
    n = dims[0] * dims[1] * TYPES[kind][1]
    return (unit * (n // len(unit) + 1))[:n]


def write(path, name, kind):
    shape, unit = SHAPES[name], random_unit(kind)
    pairs, infos, at = metadata(name, shape), [], 0
    listed = tensors(shape)
    for tensor, dims in listed:
        number, size = TYPES["f32" if len(dims) == 1 else kind]
        infos.append(text(tensor) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, at))
        at += -(-int(np.prod(dims)) * size // ALIGN) * ALIGN
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(pairs)) + b"".join(pairs + infos)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % ALIGN))
        for tensor, dims in listed:
            data = data_of(dims, kind, unit)
            f.write(data + bytes(-len(data) % ALIGN))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", choices=TYPES)
    parser.add_argument("out")
    args = parser.parse_args()
    write(args.out, args.shape, args.type)


if __name__ == "__main__":
    main()
