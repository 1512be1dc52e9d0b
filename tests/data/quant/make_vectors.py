"""Writes NAME.blocks (random blocks) and NAME.f32 (their values) for every quantised type, from the public
description of the formats, one element at a time in numpy float32.  Run here: python3 make_vectors.py"""
import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
F = np.float32
N_BLOCKS = 6


def half(b, at):
    return F(np.frombuffer(b[at:at + 2].tobytes(), np.float16)[0])


def nibble(b, at, i):
    """Element i of 32 in 16 bytes: the low halves first."""
    return int(b[at + i]) % 16 if i < 16 else int(b[at + i - 16]) // 16


def bit(b, at, i):
    return int(b[at + i // 8]) >> (i % 8) & 1


def q4_0(b):
    return [half(b, 0) * F(nibble(b, 2, i) - 8) for i in range(32)]


def q4_1(b):
    return [half(b, 0) * F(nibble(b, 4, i)) + half(b, 2) for i in range(32)]


def q5_0(b):
    return [half(b, 0) * F(nibble(b, 6, i) + 16 * bit(b, 2, i) - 16) for i in range(32)]


def q5_1(b):
    return [half(b, 0) * F(nibble(b, 8, i) + 16 * bit(b, 4, i)) + half(b, 2) for i in range(32)]


def q8_0(b):
    return [half(b, 0) * F(np.int8(b[2 + i].astype(np.int8))) for i in range(32)]


def six_bits(s, j):
    """Scale and minimum j of 8 in the 12 bytes s."""
    s = [int(x) for x in s]
    if j < 4:
        return s[j] & 63, s[j + 4] & 63
    return (s[j + 4] & 15) + ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) + ((s[j] >> 6) << 4)


def q4_k(b):
    out = []
    for chunk in range(4):
        for high in (0, 1):
            scale, low = six_bits(b[4:16], 2 * chunk + high)
            for i in range(32):
                q = int(b[16 + 32 * chunk + i]) >> (4 * high) & 15
                out.append(half(b, 0) * F(scale) * F(q) - half(b, 2) * F(low))
    return out


def q5_k(b):
    out = []
    for chunk in range(4):
        for high in (0, 1):
            scale, low = six_bits(b[4:16], 2 * chunk + high)
            for i in range(32):
                q = (int(b[48 + 32 * chunk + i]) >> (4 * high) & 15) + 16 * (int(b[16 + i]) >> (2 * chunk + high) & 1)
                out.append(half(b, 0) * F(scale) * F(q) - half(b, 2) * F(low))
    return out


def q6_k(b):
    out = np.zeros(256, F)
    d = half(b, 208)
    for n in (0, 1):
        low, high, scale = b[64 * n:], b[128 + 32 * n:], b[192 + 8 * n:].astype(np.int8)
        for i in range(32):
            h = int(high[i])
            parts = (int(low[i]) & 15 | (h & 3) << 4, int(low[i + 32]) & 15 | (h >> 2 & 3) << 4,
                     int(low[i]) >> 4 | (h >> 4 & 3) << 4, int(low[i + 32]) >> 4 | (h >> 6) << 4)
            for k, q in enumerate(parts):
                out[128 * n + 32 * k + i] = d * F(scale[2 * k + i // 16]) * F(q - 32)
    return list(out)


# name: (values of a block, its bytes, where its half floats are)
TYPES = {"q4_0": (q4_0, 18, [0]), "q4_1": (q4_1, 20, [0, 2]), "q5_0": (q5_0, 22, [0]), "q5_1": (q5_1, 24, [0, 2]),
         "q8_0": (q8_0, 34, [0]), "q4_k": (q4_k, 144, [0, 2]), "q5_k": (q5_k, 176, [0, 2]),
         "q6_k": (q6_k, 210, [208])}

rng = np.random.default_rng(7)
for name, (values, size, halves) in TYPES.items():
    blocks = rng.integers(0, 256, (N_BLOCKS, size), dtype=np.uint8)
    for i, block in enumerate(blocks):
        for at in halves:
            scale = np.float16(rng.normal() * 10.0 ** rng.integers(-7, 4))  # subnormal ones too
            block[at:at + 2] = np.frombuffer(np.float16(0 if i == 3 else scale).tobytes(), np.uint8)
    out = np.array([v for block in blocks for v in values(block)], F)
    assert np.isfinite(out).all()
    (HERE / f"{name}.blocks").write_bytes(blocks.tobytes())
    (HERE / f"{name}.f32").write_bytes(out.astype("<f4").tobytes())
