"""A time for every CUDA kernel of registers.txt, at shapes of published models: what bench_gpu --rows measures, and kernels
that it leaves out.  Costs are those of predict.py, none was measured.

    predict_rows.py            this tree's rows (needs nvcc and nvdisasm)
    predict_rows.py --write    predicted_rows.txt anew

A launch takes LAUNCH_US and READ_US, and the longest of
  bytes    what it moves, at the copy's rate
  mma      its products of 16-bit or 8-bit matrices: what the matrix units or the reads of shared memory take, and the
           share of its instructions that does not overlap (predict.py's tiles)
  issue    its instructions: of a hot loop, the fewest of a turn that passes the products or loads named here, times the
           turns, and the fewest from the kernel's begin to the loop and from there to its end.  With k warps a scheduler,
           as registers and blocks allow, an instruction takes k cycles, or LONE_WARP where k is less; what does not fit
           at once comes as another wave.  A loop that uses in a turn what it loads in it takes L2_WAIT more, or L1_WAIT
           (waits)
A row of several launches is their sum: it begins when the one before has ended.

NO_ROW has the kernels without a row, and why."""
import argparse
import collections
import dataclasses
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import predict  # noqa: E402
import sass  # noqa: E402
from nvcc import ROOT, written  # noqa: E402

TABLE = ROOT / "tests/gpu/predicted_rows.txt"
COPY_GBS, L2_WAIT, L1_WAIT, SCHEDULERS = 4300.0, 270.0, 33.0, 4  # bytes read and written; cycles of a load
MMA_STEP = {4: 1024, 2: 512}  # cycles of 64 columns of a tile of 32 mt x 32 mt: shared memory at 128 bytes a cycle
# As MMA_STEP, of tiles of 32 mt rows of codes x 32 nt tokens: the tensor cores' rate, or shared memory.
SCALED_STEP = {(1, 4, 4): 813, (1, 2, 2): 352, (4, 2, 4): 474, (4, 2, 2): 282, (5, 2, 4): 453, (5, 2, 2): 272}
SCALED_LARGE = {1: 4, 4: 2, 5: 2}  # mt of large tiles, whose nt is 4
LATENT_STEP = {1: 2400, 2: 3640}  # cycles of a split of 64 latents: shared memory, read for 16 m rows by 8 warps
# A token's silu; instructions of a turn over 8 tokens beside theirs; of a batch of 16 tokens: copies, gates
CONV_MUFU, CONV_TURN, RULE_BATCH = 1, 110, 400
QUANT_STEP = 400  # of 32 columns of quant_tiles' 64 x 64: 50 words a lane and warp from shared memory
# Types of weights: kernels' family, their first argument, bits of a weight in device memory with its scales (of Q6_K as the
# file has them).
FORMS = {"bf16": ("float", "bf16", 16), "q8_0": ("quant", 8, 8.5), "q4_k": ("quant", 4, 4.5), "q6_k": ("quant", 6, 6.5625),
         "mxfp4": ("quant", 4, 4.5), "int4_zero_bf16": ("quant", 4, 5.0), "e4m3": ("mma", 1, 8 + 32 / 128),
         "int4_index": ("scaled", 3, 4 + 64 / 128), "int4_sorted": ("quant", 4 + 16, 4 + 40 / 128), "nf4": ("mma", 4, 4.5)}


@dataclasses.dataclass
class Launch:
    """hot: [(opcode, another or "", how often a warp does it)]: the innermost loop with the most of the opcode and none of the
    other; "instructions": so many; no loops: once through the kernel.  per_sm: blocks that fit, by shared memory."""
    kernel: str
    warps: float
    bytes: float = 0
    hot: tuple = ()
    mma: float = 0  # cycles of a multiprocessor, all blocks together
    waits: float = 0
    per_block: int = 8
    per_sm: int = 32


@dataclasses.dataclass
class Row:
    name: str
    launches: list
    bytes: float  # that the op has to move at least, as bench_gpu counts them
    flops: float
    bench: bool = True


def ceil(a, b):
    return -(-int(a) // int(b))


# ---- kernels' launches ----

def over(kernel, rows, cols, each=256, elements=1, moved=8, per_row=False, hot=()):
    """Elements that are independent: `each` threads a block, `elements` a thread; moved: bytes of an element."""
    blocks = rows * ceil(cols, each * elements) if not per_row else rows
    return Launch(kernel, blocks * each / 32, rows * cols * moved, hot, per_block=each // 32)


def linear(form, n, k, tokens):
    """Launches of linear with weights of FORMS' form."""
    family, number, bits = form
    if family == "float":
        return float_linear(number, n, k, tokens)
    w = n * k * bits / 8
    io = 4 * tokens * (n + k)
    if family == "mma":
        return scaled_mma(number, n, k, tokens, w)
    if family == "scaled":
        kind, panels = number, ceil(n, 32)
        if tokens > 4:
            nt = 1 if tokens <= 16 else 4
            return [Launch(f"scaled_many_kernel<{kind}, {nt}>", ceil(n, 64) * ceil(tokens, 16 * nt) * 8, w + io,
                           (("FFMA", "", 4 * nt * k),), per_sm=2)]
        tile = 1 if tokens == 1 else 4
        return [Launch(f"scaled_kernel<{kind}, {tile}>", panels, w + io, (("FFMA*", "", k * tile),), per_block=8)]
    bits, groups, panels = number, k // 32, ceil(n, 32)
    pack = Launch("quant_pack_kernel", tokens * groups, tokens * groups * (128 + 48))
    if bits > 16:  # sorted columns: a warp for each chunk that there may be, and the order
        pack = Launch("sorted_pack_kernel", tokens * (groups + k // 128), tokens * groups * (128 + 128 + 48), waits=2 * L2_WAIT)
    if tokens <= 32:
        nt = 1 if tokens == 1 else 8 if tokens <= 8 else 32
        return [pack, Launch(f"quant_rows_kernel<{bits}, {nt}>", panels, w + tokens * groups * 48 + 4 * tokens * n,
                             (("IDP", "", groups * 8 * nt),))]
    blocks = ceil(n, 64) * ceil(tokens, 64)
    halves = 2 if bits in (2, 3, 6) else 1
    return [pack, Launch(f"quant_tiles_kernel<{bits}>", blocks * 8, w + tokens * groups * 48 + 4 * tokens * n,
                         (("IMMA", "", 4 * halves * groups),), mma=blocks * groups * QUANT_STEP)]


def scaled_pack(kind, k, rows):
    return Launch(f"scaled_pack_kernel<{kind}>", rows * ceil(k, 128 if kind == 1 else 256), 6 * rows * k)


def scaled_mma(kind, n, k, tokens, w):
    """Of e4m3 (1), levels (4) and NVFP4 (5), w bytes, on matrix units."""
    pack, io = scaled_pack(kind, k, tokens), 2 * tokens * k + 4 * tokens * n
    if tokens <= 32:
        mt, nt = (1, 1) if tokens <= 8 else (2, 2 if tokens <= 16 else 4)
        return [pack, Launch(f"scaled_rows_kernel<{kind}, {mt}, {nt}, false>", ceil(n, 16 * mt) * 8, w + io,
                             (("HMMA", "", mt * nt * k / 16 / 8),), per_sm=3 if nt == 1 else 1)]
    large = ceil(n, 32 * SCALED_LARGE[kind]) * ceil(tokens, 128)
    mt, nt = (SCALED_LARGE[kind], 4) if tokens > 64 and large >= predict.N_SM else (2, 2)
    blocks = ceil(n, 32 * mt) * ceil(tokens, 32 * nt)
    return [pack, Launch(f"scaled_tiles_kernel<{kind}, {mt}, {nt}, false>", blocks * 8, w + io,
                         (("HMMA", "", mt * nt * k / 16),), mma=blocks * k / 64 * SCALED_STEP[kind, mt, nt])]


def float_linear(t, n, k, tokens, operand=False):
    """operand: of x as the kernel in front has written it."""
    elem, w, io = f"elem_{t}", 2 * n * k, 4 * tokens * (n + k)
    if operand and tokens <= 8:
        return [Launch(f"rows_kernel<{elem}, 1, 1, false>", ceil(n, 16) * 8, w + 2 * tokens * (2 * n + k),
                       (("HMMA", "", k / 16 / 8),), per_sm=2)]
    if operand:
        return float_linear(t, n, k, tokens)[1:]
    if tokens <= 8:
        return [Launch(f"rows_kernel<{elem}, 1, 1, true>", ceil(n, 16) * 8, w + io, (("HMMA", "", k / 16 / 8),), per_sm=2)]
    pack = Launch(f"pack_kernel<{elem}>", tokens * ceil(k, 256), 6 * tokens * k)
    if tokens <= 32:
        nt = 2 if tokens <= 16 else 4
        hmma = 2 * nt * k / 16 / 8
        return [pack, Launch(f"rows_kernel<{elem}, 2, {nt}, false>", ceil(n, 32) * 8, w + io, (("HMMA", "", hmma),),
                             per_sm=2 if nt == 2 else 1)]
    pack = Launch(f"fragments_kernel<{elem}>", ceil(tokens, 16) * 8 * ceil(k, 256), 6 * tokens * k)
    large = ceil(n, 128) * ceil(tokens, 128)
    mt = 4 if tokens > 64 and large >= predict.N_SM else 2
    blocks = large if mt == 4 else ceil(n, 64) * ceil(tokens, 64)
    return [pack, Launch(f"tiles_kernel<{elem}, {mt}, {mt}>", blocks * 8, w + io, (("HMMA", "", mt * mt * k / 16),),
                         mma=blocks * k / 64 * MMA_STEP[mt])]


def heads_linear(t, heads, n, k, tokens):
    """Products of a stack of matrices [n, k]."""
    elem, w, io = f"elem_{t}", 2 * heads * n * k, 4 * tokens * heads * (n + k)
    if tokens <= 8:
        return [Launch(f"heads_rows_kernel<{elem}>", heads * ceil(n, 16), w + io, (("HMMA", "", k / 16),), per_sm=2)]
    blocks = heads * ceil(n, 64) * ceil(tokens, 64)
    return [Launch(f"fragments_kernel<{elem}>", heads * ceil(tokens, 16) * 8 * ceil(k, 256), 6 * tokens * heads * k),
            Launch(f"heads_tiles_kernel<{elem}>", blocks * 8, w + io, (("HMMA", "", 4 * k / 16),),
                   mma=blocks * k / 64 * MMA_STEP[2])]


def hidden_rows(n, k, tokens):
    """The activation behind gate and up, n columns, in one kernel."""
    mt, nt = (1, 1 if tokens <= 8 else 2) if tokens <= 16 else (2, 4)
    return Launch(f"hidden_rows_kernel<elem_bf16, {mt}, {nt}>", ceil(n, 8 * mt) * 8, 4 * n * k + 2 * tokens * (n + k),
                  (("HMMA", "", mt * nt * k / 16 / 8),), per_sm=1 if nt == 4 else 2)


def norm(kernel, rows, cols, moved=16):
    return Launch(kernel, rows * 32, moved * rows * cols, waits=L2_WAIT, per_block=32)


def act_operand(t, n, rows):
    return Launch(f"act_operand_kernel<elem_{t}>", rows * ceil(n, 256), 10 * rows * n)


DENSE_PARTS = ("norm and qkv", "attention and o", "norm and ffn", "layer")


def dense_part(part, seqs, operands=True):
    """Of a layer of Llama-3.1-8B in bf16, a token of each sequence, 1,024 keys; without operands products pack their x."""
    D, F, n_q, n_kv, d, keys, t = 4096, 14336, 32, 8, 128, 1024, "bf16"
    n_qkv = (n_q + 2 * n_kv) * d

    def product(n, k):
        return float_linear(t, n, k, seqs, operands)
    if operands:
        before, hidden = norm("norm_operand_kernel<elem_bf16>", seqs, D, 14), [hidden_rows(F, D, seqs)]
    else:
        before = norm("add_rms_norm_kernel", seqs, D)
        hidden = [*product(2 * F, D), over("act_mul_kernel<(act)0>", seqs, F, moved=12)]
    q = Launch("qkv_kernel", seqs * (n_q + 2 * n_kv), 8 * seqs * n_qkv, waits=L2_WAIT)
    parts = {"norm and qkv": [before, *product(n_qkv, D)],
             "attention and o": [*attention(d, n_q, n_kv, seqs, keys), *product(D, n_q * d)],
             "norm and ffn": [before, *hidden, *product(D, F)]}
    parts["layer"] = [*parts["norm and qkv"], q, *parts["attention and o"], *parts["norm and ffn"]]
    params = {"norm and qkv": D * n_qkv, "attention and o": D * n_q * d, "norm and ffn": 3 * D * F}
    params["layer"] = sum(params.values())
    pairs = seqs * keys if part in ("attention and o", "layer") else 0
    name = f"{part} of 8B, {seqs} sequences{'' if operands else ', without operands'}"
    return Row(name, parts[part], 2 * params[part] + 4 * n_kv * d * pairs, 2 * seqs * params[part] + 4 * n_q * d * pairs, operands)


def experts(t, E, top, D, F, tokens):
    """Launches of moe_ffn; every expert has as many of the tokens."""
    pairs, used = tokens * top, min(E, tokens * top)
    w1, w2 = (used * n * D * F * FORMS[t][2] / 8 for n in (2, 1))
    group = Launch("moe_group_kernel", E * 8, 8 * pairs)
    add = Launch("moe_add_kernel", tokens * ceil(D, 128) * 8, 4 * pairs * D * 8 + 4 * tokens * D)
    if t != "bf16":
        bits, tiles, groups1, groups2 = FORMS[t][1], used * ceil(ceil(pairs, used), 16), D // 32, F // 32
        gate_up = Launch(f"quant_experts_kernel<{bits}>", tiles * ceil(2 * F, 32), w1 + 8 * pairs * F,
                         (("IDP", "", groups1 * 8 * 16),), per_sm=2)
        down = Launch(f"quant_experts_kernel<{bits}>", tiles * ceil(D, 32) * 8, w2 + 4 * 8 * pairs * D,
                      (("IDP", "", groups2 * 16),), per_sm=2)
        act = over("moe_act_kernel", pairs, F, moved=12)
        return [group, Launch("quant_pack_kernel", pairs * groups1, pairs * groups1 * 176), gate_up, act,
                Launch("quant_pack_kernel", pairs * groups2, pairs * groups2 * 176), down, add]
    mean = pairs // E
    rows = 16 if mean <= 16 else 64 if mean < 128 else 128
    tiles = used * ceil(ceil(pairs, used), rows)
    found = [group, Launch("pack_kernel<elem_bf16>", pairs * ceil(D, 256), 6 * pairs * D)]
    for hidden, n, k, w in (("true", 2 * F, D, w1), ("false", D, F, w2)):
        if hidden == "false":
            found.append(Launch("pack_kernel<elem_bf16>", pairs * ceil(F, 256), 6 * pairs * F))
        out = 4 * pairs * (F if hidden == "true" else 8 * D)
        if rows == 16:
            found.append(Launch(f"moe_rows_kernel<elem_bf16, {hidden}>", tiles * ceil(n, 16) * 8, w + out,
                                (("HMMA", "", 2 * k / 16 / 8),), per_sm=2))
        else:
            mt = rows // 32
            found.append(Launch(f"moe_tiles_kernel<elem_bf16, {mt}, {mt}, {hidden}>", tiles * ceil(n, rows) * 8, w + out,
                                (("HMMA", "", mt * mt * k / 16),),
                                mma=tiles * ceil(n, rows) * k / 64 * MMA_STEP[mt]))
    return [*found, add]


def attention(d, n_q, n_kv, seqs, keys, tokens=1, window=0, t="false"):
    """Launches with a 16-bit cache; keys of a sequence, of which a window is read."""
    seen = min(window, keys) if window else keys
    pad, kind = (64, "64, 3") if d == 64 else (128, "128, 3") if d == 128 else (128, "128, 1")
    splits = max(1, ceil(seen, predict.SPLIT) + (1 if window else 0))
    if tokens == 1:
        part = 4 * seqs * n_q * (d + 2) * splits
        return [Launch(f"attention_decode<{t}, {kind}>", seqs * n_kv * splits * ceil(d, pad),
                       4 * seqs * n_kv * d * seen + part, (("attention", "", min(seen, predict.SPLIT) / predict.TILE),),
                       per_block=1, per_sm=4 if pad == 128 else 8),
                Launch("attention_merge<128, 8>", seqs * n_kv * 8, part)]
    warps, per = 4, "4, 3" if d <= 128 else "4, 1"
    span = min(tokens / 2 + 16, window + 16) if window else tokens / 2 + 16
    hmma = span / 32 * (32 * 16 * (d + min(d, pad))) / (16 * 8 * 16)
    return [Launch(f"attention_decode<{t}, {kind}>", seqs * n_kv * splits, per_block=1),
            Launch("attention_merge<128, 8>", seqs * n_kv * 8),
            Launch(f"attention_prefill<{t}, {pad}, {per}>",
                   ceil(tokens * n_q // n_kv, warps * 16) * warps * n_kv * seqs * ceil(d, pad),
                   4 * seqs * tokens * d * (n_kv + 2 * n_q), (("HMMA", "", hmma),), per_block=warps, per_sm=2)]


def latent_splits(m, d, splits, blocks):
    """hot and mma of blocks of latent_decode and latent_prefill, each over so many splits: a turn of the loop over them, the
    loop over scores in it, and the wait for a split's keys where they are not loaded ahead."""
    values, scores = 64 * m, d // 32 * 2 * m
    hot = (("HMMA*", "", splits * values), ("HMMA", "", splits * scores),
           ("instructions", "", splits * (L2_WAIT / predict.LONE_WARP if m == 1 else 0)))
    return hot, blocks * splits * LATENT_STEP[m]


def latent_attention(n_q, d, r, seqs, keys):
    m = 1 if n_q <= 16 else 2
    items = seqs * ceil(keys, 64) * ceil(n_q, 16 * m)
    per = 1 if items <= 2 * 2 // m * predict.N_SM else 8
    parts = ceil(items, per)
    hot, mma = latent_splits(m, d, per, parts)
    part = 4 * parts * 16 * m * (r + 2)
    return [Launch(f"latent_decode<false, {m}, {per}>", parts * 8, 2 * seqs * d * keys + part, hot, mma, per_sm=2 // m),
            Launch(f"attention_merge<{64 * per}, {8 // per}>", seqs * ceil(4 * predict.N_SM, seqs) * 8, part)]


def latent_prompt(n_q, d, r, tokens, t, m):
    blocks = ceil(tokens * n_q, 16 * m)
    hot, mma = latent_splits(m, d, tokens / 128 + 0.5, blocks)
    return Launch(f"latent_prefill<{t}, {m}>", blocks * 8, tokens * (2 * d + 4 * n_q * (d + r)), hot, mma, per_sm=2 // m)


def delta(n_k, n_v, d_k, d_v, taps, seqs, tokens, mamba):
    C, each = 2 * n_k * d_k + n_v * d_v, seqs * tokens
    state = 4 * seqs * n_v * d_k * d_v
    few = 4 if taps <= 4 else 16
    conv = [Launch(f"delta_conv_kernel<{few}>", seqs * ceil(C, 128) * 4, 8 * each * C + 8 * seqs * (taps - 1) * C + 4 * taps * C,
                   (("MUFU", "", CONV_MUFU * tokens), ("instructions", "", CONV_TURN * (ceil(tokens, 8) - tokens / 8))),
                   waits=L2_WAIT, per_block=4)]
    if not mamba:
        conv.append(Launch("delta_unit_kernel", each * 2 * n_k, 8 * each * 2 * n_k * d_k, per_block=4))
    rows, skip = 128 if d_k <= 128 else 256, str(mamba).lower()
    hot = (("FFMA", "", tokens * (2 if mamba else 3) * rows / 4), ("instructions", "", ceil(tokens, 16) * RULE_BATCH))
    rule = Launch(f"delta_rule_kernel<{rows}, {skip}>", seqs * n_v * ceil(d_v, 32) * 4, 2 * state + 4 * each * (C + n_v * d_v), hot,
                  per_block=4, per_sm=3 if rows == 128 else 1)
    return conv, rule, state


# ---- rows ----

def bench_rows():
    """The rows of bench_gpu --rows, in its order."""
    out = []
    n, k = 14336, 4096
    for t in ("q8_0", "q4_k", "q6_k", "mxfp4", "int4_zero_bf16", "e4m3", "int4_index", "int4_sorted", "nf4"):
        for tokens in (1, 8, 512):
            out.append(Row(f"linear {t} {tokens}", linear(FORMS[t], n, k, tokens), n * k * FORMS[t][2] / 8 + 4 * tokens * (n + k),
                           2 * n * k * tokens))
    for name, heads, mamba in (("delta net", (16, 32, 128, 128), False), ("mamba2", (8, 128, 128, 64), True)):
        n_k, n_v, d_k, d_v = heads
        C = 2 * n_k * d_k + n_v * d_v
        for seqs, tokens in ((1, 1), (64, 1), (1, 512)):
            conv, rule, state = delta(*heads, 4, seqs, tokens, mamba)
            each = seqs * tokens
            out.append(Row(f"{name} conv {seqs} x {tokens}", conv, 8 * each * C + 8 * seqs * 3 * C + 4 * 4 * C, 8 * each * C))
            out.append(Row(f"{name} rule {seqs} x {tokens}", [rule], 2 * state + 4 * each * (C + n_v * d_v),
                           (4 if mamba else 6) * each * n_v * d_k * d_v))
    n_q, r, rot = 16, 512, 64
    d = r + rot
    for tokens in (1, 512):
        out.append(Row(f"latent to cache {tokens}", [Launch("latent_kernel", tokens * (n_q + 1), tokens * (6 * d + 8 * n_q * rot),
                                                            waits=L2_WAIT)], tokens * (6 * d + 8 * n_q * rot), 0))
    for seqs, keys in ((1, 4096), (32, 4096)):
        out.append(Row(f"latent attention {seqs} x {keys}", latent_attention(n_q, d, r, seqs, keys),
                       2 * seqs * d * keys + 4 * seqs * n_q * (d + r), 2 * seqs * n_q * keys * (d + r)))
    for tokens in (1, 64):
        out.append(Row(f"heads linear {tokens}", heads_linear("bf16", n_q, r, 128, tokens),
                       2 * n_q * r * 128 + 4 * tokens * n_q * (r + 128), 2 * tokens * n_q * r * 128))
    n_q, n_kv, d = 64, 8, 64
    for window in (0, 128):
        for seqs, keys, tokens in ((1, 4096, 1), (64, 1024, 1), (1, 2048, 2048)):
            seen = min(window, keys) if window else keys
            pairs = seqs * tokens * (seen if tokens == 1 or window else tokens / 2)
            cache = 4 * seqs * n_kv * d * (keys if tokens > 1 else seen)
            out.append(Row(f"sinks {'window ' if window else ''}{seqs} x {tokens} of {keys}",
                           attention(d, n_q, n_kv, seqs, keys, tokens, window), cache + 8 * seqs * tokens * n_q * d,
                           4 * n_q * d * pairs))
    for t, E, top, D, F, biased in (("mxfp4", 32, 4, 2880, 2880, True), ("bf16", 128, 8, 2048, 768, False)):
        for tokens in (1, 64, 512):
            used = min(E, tokens * top)
            route = Launch("moe_route_kernel", tokens, 4 * tokens * E, waits=L2_WAIT, per_block=4)
            more = [over("moe_bias_kernel", tokens, D, moved=4 * (top + 2), hot=())] if biased else []
            out.append(Row(f"experts {t} {tokens}", [route, *experts(t, E, top, D, F, tokens), *more],
                           used * 3 * D * F * FORMS[t][2] / 8 + 8 * tokens * D, 6 * tokens * top * D * F))
    D = 4096
    for grid, group in (("int8", 0), ("e4m3", 128)):
        for tokens in (1, 512):
            whole = "true" if group == 0 else "false"
            warps = tokens * 8 if group == 0 else tokens * D // group
            out.append(Row(f"round input {grid} {tokens}", [Launch(f"round_input_kernel<{whole}>", warps, 8 * tokens * D,
                                                                  waits=L2_WAIT)], 8 * tokens * D, 0))
    return out + [dense_part(part, seqs) for part in DENSE_PARTS for seqs in (1, 16, 32)]


def other_rows():
    """Kernels that bench_gpu has no row for: a decode of 64 sequences of Llama-3.1-8B's shapes where nothing else is said."""
    T, D, F, V, n_q, n_kv, d = 64, 4096, 14336, 128256, 32, 8, 128

    def one(name, launch):
        return Row(name, [launch], launch.bytes, 0, False)
    def heads(kernel, n, size, moved):
        return Launch(kernel, T * n, moved * T * n * size, waits=L2_WAIT)
    out = [one(f"{k} {i}", over(f"{k}<(act){i}>", T, F, moved=moved)) for k, moved in (("act_mul_kernel", 12), ("activate_kernel", 8))
           for i in range(5)]
    out += [one(f"embed {i}", over(f"embed_kernel<(dtype){i}>", T, D, elements=4, moved=m)) for i, m in ((0, 8), (1, 6), (2, 6))]
    out += [one(f"quant embed {b}", Launch(f"quant_embed_kernel<{b}>", T * ceil(D // 32, 256) * 8, T * D * (4 + b / 8)))
            for b in (2, 3, 4, 5, 6, 8)]
    out += [one(f"quant embed of {b} bits, sorted", Launch(f"quant_embed_kernel<{b + 16}>", T * 8, T * D * (4 + b / 8))) for b in (4, 8)]
    out += [one(f"scaled embed {i}", over(f"scaled_embed_kernel<{i}>", T, D, moved=5)) for i in range(1, 6)]
    out += [one(name, over(f"{name}_kernel", T, D, elements=e, moved=m)) for name, e, m in
            (("add_bias", 1, 8), ("add", 4, 12), ("scale", 4, 8), ("gather", 4, 8), ("sigmoid_mul", 1, 12),
             ("soft_cap", 4, 8), ("predict_streams", 1, 32), ("correct_streams", 1, 40), ("cut_gates", 1, 8))]
    out += [one(name, over(f"{name}_kernel", 1, T, each=128, moved=12)) for name in ("known_ids", "take_tokens")]
    out += [one(name, norm(f"{name}_kernel", T, D)) for name in ("add_rms_norm", "layer_norm")]
    out += [one("match_rms", Launch("match_rms_kernel", T * 8, 12 * T * D, waits=L2_WAIT)),
            one("slice_stats", Launch("slice_stats_kernel", T * 8 * 8, 4 * T * F, waits=L2_WAIT))]
    out += [one(name, heads(f"{name}_kernel", n_q, d, m)) for name, m in
            (("head_squares", 4), ("wide_norm", 8), ("gated_norm", 12))]
    out += [one(f"input peaks {w}", Launch(f"input_peaks_kernel<{w}>", T * (8 if w == "true" else D // 128), 4 * T * D, waits=L2_WAIT))
            for w in ("true", "false")]
    out += [one("qkv", heads("qkv_kernel", n_q + 2 * n_kv, d, 8)),
            one("mask", over("mask_kernel", T, V, moved=4)),
            one("edits", Launch("edit_kernel", T * 4, T * 64 * 16, waits=L2_WAIT, per_block=4)),
            one("topk chunks", Launch("topk_chunk_kernel", T * ceil(V, 4096) * 8, 4 * T * V, (("STS", "", 15 * 16 + 96),), per_sm=6)),
            one("topk join", Launch("topk_join_kernel", T * 8, T * ceil(V, 4096) * 32 * 8, (("STS", "", 5 * 96),), per_sm=6)),
            one("sums of ranks", over("reduce_tree_kernel", T, D, moved=12)),
            one("draw", Launch("sample_kernel", T, T * 600, (("DADD", "", (2 + 3 * 4) * 19),
                                                      ("instructions", "", 3 * 64 * 10)), per_block=1)),
            one("attention, head of 256", attention(256, 16, 4, 64, 1024)[0]),
            one("attention, head of 256, f16", attention(256, 16, 4, 64, 1024, t="true")[0]),
            one("latents in f32", Launch("attention_plain", 16, 2 * 576 * 4096, (("FFMA", "SHFL", 576 * 4096 / 32),
                                                                               ("SHFL", "", 3 * 4096)), waits=L1_WAIT, per_block=1))]
    for t in ("false", "true"):
        out += [one(f"attention {size} {t}", attention(size, n_q, n_kv, 64, 1024, t=t)[0]) for size in (128, 64)]
        out += [one(f"prompt attention {size} {t}", attention(size, n_q, n_kv, 1, 2048, 2048, t=t)[2]) for size in (256, 128, 64)]
        out += [one(f"prompt attention 256 {t}, few rows", dataclasses.replace(
            attention(256, n_q, n_kv, 1, 2048, 2048, t=t)[2], kernel=f"attention_prefill<{t}, 128, 1, 1>", per_block=1, per_sm=2))]
        out += [one(f"prompt attention 128 {t}, two stages", dataclasses.replace(
            attention(128, n_q, n_kv, 1, 2048, 2048, t=t)[2], kernel=f"attention_prefill<{t}, 128, 4, 2>"))]
        for m, heads in ((1, 16), (2, 128)):
            for seqs in (1, 32):
                launch = latent_attention(heads, 576, 512, seqs, 4096)[0]
                launch.kernel = launch.kernel.replace("false", t)
                out.append(one(f"latent attention {t}, {heads} heads, {seqs} x 4096", launch))
            out.append(one(f"prompt of latents {t}, {m}", latent_prompt(16, 576, 512, 512, t, m)))
    for mamba in (False, True):
        conv, rule, _ = delta(8, 32, 256, 64, 16, 1, 512, mamba)
        out.append(one(f"rule of 256 rows {mamba}", rule))
    out.append(one("conv of 16 taps", conv[0]))
    out += [dense_part("layer", seqs, operands=False) for seqs in (1, 16, 32)]
    for t in ("bf16", "f16"):
        out += [one(f"norm to operand {t}", norm(f"norm_operand_kernel<elem_{t}>", T, D, 14)),
                one(f"act_mul to operand {t}", act_operand(t, F, T)),
                one(f"linear {t} 1 of operand", float_linear(t, 28672, D, 1, True)[0])]
        for tokens in (1, 16, 32, 64, 2048):
            n = 28672
            out += [one(f"linear {t} {tokens}: {i.kernel}", i) for i in float_linear(t, n, D, tokens)]
    for tokens in (1, 64):
        out += [one(f"heads linear f16 {tokens}: {i.kernel}", i) for i in heads_linear("f16", 16, 512, 128, tokens)]
    for bits in (2, 3, 5):
        for tokens in (1, 8, 32, 512):
            out.append(one(f"linear of {bits} bits {tokens}", linear(("quant", bits, bits + 0.5), F, D, tokens)[1]))
    for bits in (4, 8):
        for tokens in (1, 8, 32, 512):
            out.append(one(f"linear of {bits} bits sorted {tokens}", linear(("quant", bits + 16, bits + 40 / 128), F, D, tokens)[1]))
    for t in ("q8_0", "q4_k", "q6_k"):
        out.append(one(f"linear {t} 32", linear(FORMS[t], F, D, 32)[1]))
    for kind, bits in ((1, 8.25), (2, 8.5), (3, 4.5), (4, 4.5), (5, 4.5)):
        for tokens in (1, 4, 16, 512):
            out.append(one(f"linear of kind {kind} {tokens}", linear(("scaled", kind, bits), F, D, tokens)[0]))
        out.append(one(f"experts of kind {kind}", Launch(f"scaled_experts_kernel<{kind}>", 32 * ceil(2 * 2880, 32),
                                                         32 * 5760 * 2880 * bits / 8, (("FFMA*", "", 2880 * 16),), per_sm=2)))
    for kind, bits in ((1, 8.25), (4, 4.5), (5, 4.5)):
        w = F * D * bits / 8
        for tokens in (1, 16, 32, 64, 512):
            out += [one(f"linear of kind {kind} on matrix units {tokens}: {i.kernel}", i) for i in scaled_mma(kind, F, D, tokens, w)]
        e, n, k = 32, 5760, 2880
        w = e * n * k * bits / 8
        out.append(one(f"experts of kind {kind} on matrix units 16", Launch(
            f"scaled_rows_kernel<{kind}, 1, 2, true>", e * ceil(n, 16) * 8, w, (("HMMA", "", 2 * k / 16 / 8),), per_sm=2)))
        for mt, nt in ((2, 2), (SCALED_LARGE[kind], 4)):
            blocks = e * ceil(n, 32 * mt)
            out.append(one(f"experts of kind {kind} on matrix units {32 * nt}", Launch(
                f"scaled_tiles_kernel<{kind}, {mt}, {nt}, true>", blocks * 8, w, (("HMMA", "", mt * nt * k / 16),),
                mma=blocks * k / 64 * SCALED_STEP[kind, mt, nt])))
    out.append(one("slices of scaled tiles", Launch("scaled_join_kernel", 512 * 8, 512 * 4096 * 4 * 9)))
    for bits in (2, 3, 4, 5, 6, 8, 20, 24):
        out.append(one(f"experts of {bits % 16} bits{', sorted' if bits > 16 else ''}", Launch(f"quant_experts_kernel<{bits}>", 32 * ceil(2 * 2880, 32),
                                                         32 * 5760 * 2880 * (bits % 16 + 0.5) / 8, (("IDP", "", 90 * 8 * 16),), per_sm=2)))
    for t in ("bf16", "f16"):
        for hidden, n, k in (("true", 1536, 2048), ("false", 2048, 768)):
            out.append(one(f"experts {t} {hidden} rows", Launch(f"moe_rows_kernel<elem_{t}, {hidden}>", 128 * n // 16 * 8, 256 * n * k,
                                                                (("HMMA", "", 2 * k / 16 / 8),), per_sm=2)))
            for mt in (2, 4):
                blocks = 128 * ceil(n, 32 * mt)
                out.append(one(f"experts {t} {hidden} tiles {mt}", Launch(
                    f"moe_tiles_kernel<elem_{t}, {mt}, {mt}, {hidden}>", blocks * 8, 256 * n * k,
                    (("HMMA", "", mt * mt * k / 16),), mma=blocks * k / 64 * MMA_STEP[mt])))
    for name, kernel, n, k, tokens in (("linear f32", "f32_kernel", 4096, 4096, 64), ("experts f32", "moe_f32_kernel", 1536, 2048, 1024)):
        out.append(one(name, Launch(kernel, ceil(n, 32) * ceil(tokens, 32) * 8, 4 * n * k + 4 * tokens * (n + k),
                                    (("FFMA", "", 4 * k),))))
    return out


NO_ROW = {
    "join_kernel": "runs where a product of row-parallel slices has fewer tiles than the device takes: 8 ranks' shapes, in L2",
    "oneshot_broadcast_kernel": "waits for another device: flags and the link between two GPUs, which no cost here describes",
    "oneshot_gather_kernel": "as oneshot_broadcast_kernel",
    "oneshot_reduce_kernel": "as oneshot_broadcast_kernel; tests/gpu/README.md: 5 to 8 us a sum",
    "oneshot_close_kernel": "runs once, at the end: waits for the other ranks",
    "oneshot_give_up_kernel": "runs once, when a rank has ended: writes a flag",
}


# ---- times ----

SOURCES = (("attention_plain", "attention_plain.cu"), ("attention_merge<64", "attention_latent.cu"),
           ("attention_merge<512", "attention_latent.cu"), ("latent_decode", "attention_latent.cu"),
           ("latent_prefill", "attention_latent.cu"), ("attention", "attention.cu"), ("delta", "delta.cu"),
           ("quant_experts", "quant_experts.cu"), ("quant_tiles", "quant_tiles.cu"), ("quant_rows", "quant_rows.cu"),
           ("quant_", "quant_pack.cu"), ("sorted_pack", "quant_pack.cu"), ("scaled_experts", "scaled_experts.cu"), ("scaled_pack", "scaled_pack.cu"),
           ("scaled_rows", "scaled_rows.cu"), ("scaled_tiles", "scaled_tiles.cu"), ("scaled_join", "scaled_tiles.cu"), ("scaled_", "scaled_linear.cu"),
           ("moe_rows", "moe_rows.cu"), ("moe_tiles", "moe_tiles.cu"), ("moe_f32", "moe_f32.cu"), ("moe_route", "moe_route.cu"), ("moe_bias", "moe_route.cu"),
           ("moe_group", "moe_group.cu"), ("moe_add", "moe_group.cu"), ("moe_", "moe_act.cu"), ("rows_kernel", "linear_rows.cu"), ("hidden_rows", "linear_rows.cu"),
           ("norm_operand", "operand.cu"), ("act_operand", "operand.cu"),
           ("tiles_kernel", "linear_tiles.cu"), ("heads_", "linear_heads.cu"), ("pack_kernel", "linear_pack.cu"), ("fragments_kernel", "linear_pack.cu"), ("f32_kernel", "linear_f32.cu"),
           ("topk", "logits.cu"), ("mask", "logits.cu"), ("edit", "logits.cu"), ("sample", "logits.cu"), ("take", "logits.cu"),
           ("qkv", "qkv.cu"), ("latent", "qkv.cu"), ("input_peaks", "inputs.cu"), ("round_input", "inputs.cu"),
           ("reduce_tree", "all_reduce.cu"),
           *((name, "gates.cu") for name in ("sigmoid_mul", "add_bias", "head_squares", "wide_norm", "gated_norm",
                                             "predict_streams", "correct_streams", "match_rms", "known_ids", "slice_stats",
                                             "cut_gates")), ("", "rows.cu"))


def source_of(name):
    return next(s for prefix, s in SOURCES if name.startswith(prefix))


def kernel_of(name):
    return sass.kernels(source_of(name))[name]


def warp_instructions(kernel, launch):
    """(instructions, turns of loops that wait) of a warp."""
    if not launch.hot:
        return kernel.through(0, range(len(kernel.blocks)), "STG")[0], 1
    total, turns = 0.0, 0.0
    outside = 0
    for op, without, n in launch.hot:
        if op == "attention":
            d = int(launch.kernel.split(",")[1])
            copying, computing = predict.attention_cycles(kernel, d)
            return n * (copying + computing) / predict.LONE_WARP, 0
        if op == "instructions":
            total += n
            continue
        head, body = kernel.hot_loop(op, without)
        a_turn, found = kernel.through(head, body, op.rstrip("*"))
        total += n / found * a_turn
        turns += max(1, n / found)
        outside = max(outside, kernel.way(0, head))
    return total + outside, turns


def cycles(kernel, launch, registers):
    """(until the last warp has ended, of a scheduler that always has an instruction)"""
    instructions, turns = warp_instructions(kernel, launch)
    fit = min(64, 65536 // (math.ceil(registers * 32 / 256) * 256), launch.per_sm * launch.per_block)
    at_once = fit * predict.N_SM
    waves = math.ceil(launch.warps / at_once)
    k = min(launch.warps, at_once) / (predict.N_SM * SCHEDULERS)
    alone = instructions * predict.LONE_WARP + turns * launch.waits
    return waves * max(alone, max(1, k) * instructions), launch.warps * instructions / (predict.N_SM * SCHEDULERS)


def microseconds(launch, registers):
    warps, busy = cycles(kernel_of(launch.kernel), launch, registers)
    bound = {"bytes": launch.bytes / COPY_GBS * 1e-3, "issue": warps / predict.CLOCK}
    if launch.mma:
        bound["mma"] = (launch.mma / predict.N_SM + predict.UNHIDDEN_ISSUE * busy) / predict.CLOCK
    which = max(bound, key=bound.get)
    return predict.LAUNCH_US + predict.READ_US + bound[which], which


def all_rows():
    return bench_rows() + other_rows()


def figures(rows):
    """{row: (us, what bounds its longest launch)}"""
    registers = {k: v["90a"][0] for k, v in written()[1].items()}
    out, known = {}, {}
    for row in rows:
        parts = []
        for launch in row.launches:
            key = repr(launch)
            if key not in known:
                known[key] = microseconds(launch, registers[launch.kernel])
            parts.append(known[key])
        assert row.name not in out, row.name
        out[row.name] = (sum(us for us, _ in parts), max(parts)[1])
    return out


def table():
    """{row: (us, bound)} of predicted_rows.txt"""
    lines = [line.split("\t") for line in TABLE.read_text().splitlines()[2:]]
    return {name: (float(us), bound) for name, us, bound, *_ in lines}


def text(found):
    lines = ["row\tus\tbound\tMB\tGFLOP\tkernels", "by predict_rows.py for an H200, from sm_90a code; nothing was measured"]
    for row in all_rows():
        us, bound = found[row.name]
        kernels = " + ".join(f"{n} {k}" if n > 1 else k for k, n in collections.Counter(i.kernel for i in row.launches).items())
        lines.append(f"{row.name}\t{us:.1f}\t{bound}\t{row.bytes / 1e6:.2f}\t{row.flops / 1e9:.2f}\t{kernels}")
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--write", action="store_true")
    o = p.parse_args()
    found = text(figures(all_rows()))
    if o.write:
        TABLE.write_text(found)
    else:
        print(found, end="")


if __name__ == "__main__":
    main()
