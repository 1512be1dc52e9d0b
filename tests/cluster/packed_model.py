"""Makes a mixture of experts (experts_model.py) whose matrices are packed as HuggingFace's folders have them: GPTQ, or e4m3
with a scale for each block of 128 x 128."""
import json

import numpy as np

from experts_model import make_mixture, read_safetensors, write_model

BLOCK, GROUP = 128, 32


def floats(tensor):
    dtype, shape, data = tensor
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[dtype]).astype(np.float32).reshape(shape)


def words(u):
    """Eight neighbours of the last axis in a word, the first in the lowest bits."""
    u = u.astype(np.uint32).reshape(*u.shape[:-1], -1, 8) << (4 * np.arange(8, dtype=np.uint32))
    return np.bitwise_or.reduce(u, -1)


def gptq(name, w):
    """Groups of 32 columns with zero points, which are stored less one."""
    n, k = w.shape
    g = w.reshape(n, k // GROUP, GROUP)
    low, high = np.minimum(g.min(-1), 0), np.maximum(g.max(-1), 1e-6)
    scale = ((high - low) / 15).astype(np.float16)
    zero = np.rint(-low / scale.astype(np.float32))
    u = np.clip(np.rint(g / scale.astype(np.float32)[..., None] + zero[..., None]), 0, 15).reshape(n, k)
    parts = {"qweight": ("I32", np.ascontiguousarray(words(u).T)), "scales": ("F16", np.ascontiguousarray(scale.T)),
             "qzeros": ("I32", words(zero.T) - np.uint32(0x11111111)),
             "g_idx": ("I32", (np.arange(k) // GROUP).astype(np.int32))}
    return {f"{name}.{end}": (dtype, list(x.shape), x.tobytes()) for end, (dtype, x) in parts.items()}


def e4m3_values():
    """Of the codes 0 to 126, ascending."""
    code = np.arange(127)
    exponent, fraction = code >> 3, code & 7
    return np.where(exponent == 0, fraction * 2.0 ** -9, (8 + fraction) * 2.0 ** (exponent - 10.0))


def fp8(name, w):
    n, k = w.shape
    padded = np.zeros((-(-n // BLOCK) * BLOCK, -(-k // BLOCK) * BLOCK), np.float32)
    padded[:n, :k] = np.abs(w)
    scale = (padded.reshape(-(-n // BLOCK), BLOCK, -1, BLOCK).max((1, 3)) / 448 + 1e-9).astype(np.float32)
    q = w / np.repeat(np.repeat(scale, BLOCK, 0)[:n], BLOCK, 1)[:, :k]
    values = e4m3_values()
    code = np.searchsorted((values[1:] + values[:-1]) / 2, np.abs(q)).astype(np.uint8) | (q < 0).astype(np.uint8) << 7
    return {name + ".weight": ("F8_E4M3", [n, k], code.tobytes()),
            name + ".weight_scale_inv": ("F32", list(scale.shape), scale.tobytes())}


METHODS = {"gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": False, "desc_act": False}),
           "fp8": (fp8, {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK]})}


def make_packed(source, directory, method):
    """A model in `directory`, which exists."""
    pack, said = METHODS[method]
    make_mixture(source, directory)
    out = {}
    for name, tensor in read_safetensors(directory / "model.safetensors").items():
        matrix = len(tensor[1]) == 2 and "layers" in name and "gate.weight" not in name
        out |= pack(name.removesuffix(".weight"), floats(tensor)) if matrix else {name: tensor}
    config = json.loads((directory / "config.json").read_text()) | {"quantization_config": said}
    return write_model(source, directory, config, out)
