"""Makes models/llama-fp8-mild: a Llama in e4m3 blocks whose layers add little to the residual stream, so that roundings of
activations are not amplified. README.md beside this file says what the files are.

    python3 make_mild.py

numpy alone, in float64: the weights are what their codes and scales stand for. logits.f32 has the logits of inputs as they
are; logits-f16.f32 those of a backend whose products with e4m3 round their inputs to the 11 significant bits of f16,
whatever power of two they are scaled by (the CUDA backend's default: ARCHITECTURE.md, the numeric contract). Attention,
norms, sums and the product with the embedding, which is in f32, are exact in both.

`limit_f16` of expected.json is the distance (root of the mean square of all differences over that of all logits) that a
backend may be off the second: SHARE of the distance D of the two. So a backend that rounds nothing fails. The script
asserts that one fails, too, that leaves out any of a layer's roundings, or has one bit more or less. What a backend in f32
differs by is measured: the same pass with every sum in float32 and columns in other orders, whose inputs now and then fall
on the other side of a rounding's middle. It must be below half of the limit.
"""

import json
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).parent / "models" / "llama-fp8-mild"
V, D, F, L, HQ, HKV, DH, T, BLOCK, EPS, THETA = 64, 136, 72, 2, 4, 2, 8, 24, 128, 1e-5, 500.0
MILD = 0.1  # of what a layer's products give to the residual stream
SHARE = 0.3  # of the distance of the two: the limit
SEED = 4107


def e4m3_values():
    """What the codes 0 .. 255 are: 1, 4 and 3 bits, bias 7; 127 and 255 are no numbers."""
    code = np.arange(256)
    e, m = code >> 3 & 15, (code & 7) / 8
    value = np.where(e > 0, (1 + m) * 2.0 ** (e - 7), m * 2.0**-6)
    value = np.where(code & 128, -value, value)
    value[[127, 255]] = np.nan
    return value


E4M3 = e4m3_values()


def quantised(w):
    """Codes, and a scale for each block in f32."""
    n, k = w.shape
    scale = np.zeros((-(-n // BLOCK), -(-k // BLOCK)), np.float32)
    codes = np.zeros((n, k), np.uint8)
    order = np.argsort(np.where(np.isnan(E4M3), np.inf, E4M3))[:254]
    levels = E4M3[order]
    for i in range(scale.shape[0]):
        for j in range(scale.shape[1]):
            at = np.s_[i * BLOCK:(i + 1) * BLOCK, j * BLOCK:(j + 1) * BLOCK]
            scale[i, j] = np.abs(w[at]).max() / 448
            x = w[at] / scale[i, j]
            right = np.clip(np.searchsorted(levels, x), 1, 253)
            nearer = np.where(x - levels[right - 1] < levels[right] - x, right - 1, right)
            codes[at] = order[nearer]
    return codes, scale


def dequantised(codes, scale):
    wide = scale.repeat(BLOCK, 0)[:codes.shape[0]].repeat(BLOCK, 1)[:, :codes.shape[1]]
    return E4M3[codes] * wide.astype(np.float64)


def rounded_to(bits, x):
    """x to so many significant bits, to nearest even."""
    m, e = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(m, bits)), e - bits)


class Pass:
    """A forward pass in `kind` (float64, or float32 with the columns of products in an order of `order`), with inputs of
    e4m3 matrices in so many bits; 0: as they are.  kept: the matrices whose inputs are not rounded."""

    def __init__(self, weights, bits, kind=np.float64, order=None, kept="none"):
        self.w = {name: w.astype(kind) for name, w in weights.items()}
        self.bits, self.kind, self.order, self.kept = bits, kind, order, kept

    def product(self, x, name):
        w = self.w[name]
        if self.bits and "proj" in name and self.kept not in name:
            x = rounded_to(self.bits, x)
        if self.order is not None:
            p = self.order.permutation(w.shape[1])
            x, w = x[:, p], w[:, p]
        return (x.astype(self.kind) @ w.T).astype(self.kind)

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(1, keepdims=True) + self.kind(EPS)) * self.w[name]

    def rope(self, x):
        """[T, heads, DH]: element i turns with element i + DH / 2."""
        angle = np.arange(len(x))[:, None] * THETA ** (-np.arange(DH // 2) * 2 / DH)
        cos, sin = (f(angle)[:, None].astype(self.kind) for f in (np.cos, np.sin))
        a, b = x[..., :DH // 2], x[..., DH // 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def attention(self, x, at):
        q, k, v = (self.product(x, at + f"{p}_proj").reshape(len(x), -1, DH) for p in "qkv")
        q, k = self.rope(q), self.rope(k)
        k, v = (m.repeat(HQ // HKV, 1) for m in (k, v))
        score = np.einsum("thd,shd->hts", q, k) / np.sqrt(self.kind(DH))
        score = np.where(np.tril(np.ones((len(x), len(x)), bool)), score, -np.inf)
        p = np.exp(score - score.max(-1, keepdims=True))
        out = np.einsum("hts,shd->thd", p / p.sum(-1, keepdims=True), v)
        return self.product(out.reshape(len(x), -1).astype(self.kind), at + "o_proj")

    def logits(self, ids):
        x = self.w["model.embed_tokens"][ids]
        for i in range(L):
            at = f"model.layers.{i}."
            x = x + self.attention(self.norm(x, at + "input_layernorm"), at + "self_attn.")
            h = self.norm(x, at + "post_attention_layernorm")
            gate, up = (self.product(h, f"{at}mlp.{p}_proj") for p in ("gate", "up"))
            x = x + self.product(gate / (1 + np.exp(-gate)) * up, at + "mlp.down_proj")
        return self.product(self.norm(x, "model.norm"), "model.embed_tokens")


def distance(a, b):
    return float(np.sqrt(((a - b) ** 2).mean() / (b ** 2).mean()))


def safetensors(path, tensors):
    """name: (type, shape, bytes)"""
    head, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in tensors.values()))


def draw(random):
    """(stored, values)"""
    stored, values = {}, {}
    def keep(name, w):
        w = w.astype("<f4")
        stored[name + ".weight"] = ("F32", list(w.shape), w.tobytes())
        values[name] = w.astype(np.float64)
    keep("model.embed_tokens", random.standard_normal((V, D)))
    for i in range(L):
        at = f"model.layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            keep(at + name, 1 + 0.2 * random.standard_normal(D))
        for name, n, k in (("self_attn.q_proj", HQ * DH, D), ("self_attn.k_proj", HKV * DH, D),
                           ("self_attn.v_proj", HKV * DH, D), ("self_attn.o_proj", D, HQ * DH),
                           ("mlp.gate_proj", F, D), ("mlp.up_proj", F, D), ("mlp.down_proj", D, F)):
            mild = MILD if n == D else 1
            w = random.standard_normal((n, k)) / np.sqrt(k) * mild
            codes, scale = quantised(w)
            stored[f"{at}{name}.weight"] = ("F8_E4M3", [n, k], codes.tobytes())
            stored[f"{at}{name}.weight_scale_inv"] = ("F32", list(scale.shape), scale.astype("<f4").tobytes())
            values[at + name] = dequantised(codes, scale)
    keep("model.norm", 1 + 0.2 * random.standard_normal(D))
    return stored, values


def main():
    random = np.random.default_rng(SEED)
    stored, values = draw(random)
    ids = random.integers(0, V, T)
    exact, halves = (Pass(values, bits).logits(ids) for bits in (0, 11))
    limit = distance(exact, halves) * SHARE
    others = {f"{b} bits": Pass(values, b).logits(ids) for b in (10, 12)}
    others |= {f"{k} as it is": Pass(values, 11, kept=k).logits(ids)
               for k in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")}
    for what, logits in others.items():
        print(f"{what}: {distance(logits, halves) / limit:.2f} limits")
    noise = max(distance(Pass(values, 11, np.float32, np.random.default_rng(i)).logits(ids), halves) for i in range(20))
    print(f"limit {limit:.2e}, float32 in 20 orders {noise / limit:.2f} of it")
    assert all(distance(logits, halves) > 1.25 * limit for logits in others.values()) and noise < limit / 2
    OUT.mkdir(exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": D,
              "intermediate_size": F, "num_hidden_layers": L, "num_attention_heads": HQ, "num_key_value_heads": HKV,
              "head_dim": DH, "vocab_size": V, "max_position_embeddings": 256, "rms_norm_eps": EPS, "rope_theta": THETA,
              "tie_word_embeddings": True, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
              "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
                                      "modules_to_not_convert": [], "weight_block_size": [BLOCK, BLOCK]}}
    expected = {"input_ids": ids.tolist(), "n_positions": T, "vocab_size": V, "logits": "logits.f32",
                "logits_f16": "logits-f16.f32", "limit_f16": float(f"{limit:.3g}")}
    (OUT / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (OUT / "expected.json").write_text(json.dumps(expected) + "\n")
    exact.astype("<f4").tofile(OUT / "logits.f32")
    halves.astype("<f4").tofile(OUT / "logits-f16.f32")
    safetensors(OUT / "model.safetensors", stored)


if __name__ == "__main__":
    main()
