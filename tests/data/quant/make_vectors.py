"""Writes NAME.blocks (random blocks) and NAME.f32 (their values) for every quantised type, from the public
description of the formats (int*: of common/quant.h), one element at a time in numpy float32.  Run here: python3 make_vectors.py
Where the Python package gguf is installed, its own dequantisation of the same blocks must give the same bits
(version 0.19 does, for every type that it has)."""
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


def q2_k(b):
    out, group = [], 0
    for half_at in (16, 48):  # 128 elements in 32 bytes
        for shift in (0, 2, 4, 6):
            for start in (0, 16):
                scale, low = int(b[group]) & 15, int(b[group]) >> 4
                group += 1
                for i in range(start, start + 16):
                    out.append(half(b, 80) * F(scale) * F(int(b[half_at + i]) >> shift & 3) - half(b, 82) * F(low))
    return out


def q3_k(b):
    s = [int(x) for x in b[96:108]]
    scales = []
    for j in range(16):
        low = s[j] & 15 if j < 8 else s[j - 8] >> 4
        scales.append((low | (s[8 + j % 4] >> (2 * (j // 4)) & 3) << 4) - 32)
    out, group, mask = [], 0, 1
    for half_at in (32, 64):
        for shift in (0, 2, 4, 6):
            for start in (0, 16):
                for i in range(start, start + 16):
                    q = (int(b[half_at + i]) >> shift & 3) - (0 if int(b[i]) & mask else 4)
                    out.append(half(b, 108) * F(scales[group]) * F(q))
                group += 1
            mask *= 2
    return out


CODEBOOK = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]


def iq4_nl(b):
    return [half(b, 0) * F(CODEBOOK[nibble(b, 2, i)]) for i in range(32)]


def iq4_xs(b):
    high = int(b[2]) + 256 * int(b[3])
    out = []
    for j in range(8):
        low = int(b[4 + j // 2]) & 15 if j % 2 == 0 else int(b[4 + j // 2]) >> 4
        scale = (low | (high >> 2 * j & 3) << 4) - 32
        out += [half(b, 0) * F(scale) * F(CODEBOOK[nibble(b, 8 + 16 * j, i)]) for i in range(32)]
    return out


def mxfp4(b):
    doubled = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]
    return [F(np.ldexp(float(doubled[nibble(b, 1, i)]), int(b[0]) - 128)) for i in range(32)]


def brain(b):
    return F(np.frombuffer(bytes([0, 0, int(b[0]), int(b[1])]), "<f4")[0])


def integers(bits, scale_of, zero):
    """32 of that many bits behind a scale and, with zero, a zero point; signed ones have 4 bits with 8 taken off, or
    8 bits."""
    def values(b):
        at, d, z = 3 if zero else 2, scale_of(b), F(np.int8(b[2].astype(np.int8))) if zero else F(0)
        if bits == 8:
            q = [F(b[at + i].astype(np.int8)) for i in range(32)]
        else:
            q = [F(nibble(b, at, i) - (0 if zero else 8)) for i in range(32)]
        return [d * x - d * z if zero else d * x for x in q]
    return values


def first_half(b):
    return half(b, 0)


# name: (values of a block, its bytes, where its half floats are)
TYPES = {"q4_0": (q4_0, 18, [0]), "q4_1": (q4_1, 20, [0, 2]), "q5_0": (q5_0, 22, [0]), "q5_1": (q5_1, 24, [0, 2]),
         "q8_0": (q8_0, 34, [0]), "q4_k": (q4_k, 144, [0, 2]), "q5_k": (q5_k, 176, [0, 2]),
         "q6_k": (q6_k, 210, [208]), "q2_k": (q2_k, 84, [80, 82]), "q3_k": (q3_k, 110, [108]),
         "iq4_nl": (iq4_nl, 18, [0]), "iq4_xs": (iq4_xs, 136, [0]),
         "mxfp4": (mxfp4, 17, []),
         "int4-bf16": (integers(4, brain, False), 18, []), "int8-bf16": (integers(8, brain, False), 34, []),
         "int4-zero-f16": (integers(4, first_half, True), 19, [0]),
         "int8-zero-f16": (integers(8, first_half, True), 35, [0]),
         "int4-zero-bf16": (integers(4, brain, True), 19, []), "int8-zero-bf16": (integers(8, brain, True), 35, [])}

try:
    import gguf
except ImportError:
    gguf = None
    print("no package gguf: its values are not compared")

rng = np.random.default_rng(7)
for name, (values, size, halves) in TYPES.items():
    blocks = rng.integers(0, 256, (N_BLOCKS, size), dtype=np.uint8)
    for i, block in enumerate(blocks):
        for at in halves:
            scale = np.float16(rng.normal() * 10.0 ** rng.integers(-7, 4))  # subnormal ones too
            block[at:at + 2] = np.frombuffer(np.float16(0 if i == 3 else scale).tobytes(), np.uint8)
        if name.endswith("bf16"):
            scale = 0 if i == 3 else np.frombuffer(F(rng.normal() * 10.0 ** rng.integers(-7, 4)).tobytes(), np.uint8)[2:]
            block[0:2] = scale
        if name == "mxfp4":
            block[0] = i if i < 3 else block[0] % 251  # 2^-128 and 2^-127 too; beyond 250 a value may be infinite
    out = np.array([v for block in blocks for v in values(block)], F)
    assert np.isfinite(out).all()
    if gguf and not name.startswith("int"):
        theirs = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name.upper()]).ravel()
        assert (theirs.astype(F).view(np.uint32) == out.view(np.uint32)).all(), name
    (HERE / f"{name}.blocks").write_bytes(blocks.tobytes())
    (HERE / f"{name}.f32").write_bytes(out.astype("<f4").tobytes())
