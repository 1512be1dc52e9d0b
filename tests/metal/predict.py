"""Times of the Metal kernels on Macs that have not run them: the figures of tests/metal/README.md.

    predict.py            prints the tables, from the counts that README.md has
    predict.py --write    counts again (count.py: clang++) and writes README.md anew

What it stands on, of which nothing was measured here:
  bytes        read at 80 % of the published bandwidth (READ)
  ticks        a lane does one instruction a tick; the chip's rate is half its published FLOP/s, which count a fused
               multiply-add as two
  lone         attention has one simdgroup for a token and a head.  In a decode step of one sequence the GPU has nothing
               beside it, so each instruction waits for the one before it: 4 ticks (LONE)
  lone, matrices  four simdgroups for a token and the heads of a KV head, or for 8 rows of a prompt, share its keys
  matrices     a product of 8x8 matrices takes 18 ticks (count.py); a decode's row of x is padded to 8
  launches     3 us a dispatch (LAUNCH_US), 9 a layer and 6 a step (held against the double by test_predict.py)
A kernel takes the longest of its bytes and its ticks."""
import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import count  # noqa: E402

README = pathlib.Path(__file__).resolve().parent / "README.md"
READ, LONE, LAUNCH_US, LAYER_DISPATCHES, STEP_DISPATCHES, TILE, MATRIX_TILE, SIMDS = 0.8, 4, 3.0, 9, 6, 8, 32, 4
BITS = {"F32": 32, "F16": 16, "BF16": 16, "Q8_0": 8.5, "Q4_0": 4.5, "Q4_K": 4.5, "Q5_K": 5.5, "Q6_K": 6.5625,
        "IQ4_NL": 4.5, "IQ4_XS": 4.25, "E4M3": 8.25, "INT4_BF16": 4.5, "INT4_ZERO_F16": 4.75, "INT4_ZERO_BF16": 4.75,
        "INT8_BF16": 8.5, "INT8_ZERO_F16": 8.75, "INT8_ZERO_BF16": 8.75,
        "INT4_INDEX": 4.5, "INT8_INDEX": 8.5,  # groups of 128
        "LEVELS": 4.5, "SMALL": 4.25}  # nf4 and fp4 in blocks of 64; MXFP4, of NVFP4 4.5
CHIPS = {  # GB/s (Apple), TFLOP/s in f32, GPU cores
    "M1": (68.25, 2.6, 8), "M1 Pro": (200, 5.3, 16), "M1 Max": (400, 10.6, 32),
    "M2": (100, 3.6, 10), "M2 Pro": (200, 6.8, 19), "M2 Max": (400, 13.6, 38),
    "M3": (100, 4.1, 10), "M3 Pro": (150, 6.4, 18), "M3 Max": (400, 14.2, 40),
    "M4": (120, 4.6, 10), "M4 Pro": (273, 9.2, 20), "M4 Max": (546, 18.4, 40),
}
MODELS = {  # layers, D, F, columns of K and of V, d, V, tied
    "8B": (32, 4096, 14336, 1024, 128, 128256, False),
    "1B": (16, 2048, 8192, 512, 64, 128256, True),
}
HEADS = 32  # of both
KINDS = ("Q4_K_M", "Q8_0", "F16", "BF16")
SOURCES = {
    "a": "https://siliconbench.radicchio.page/compare/apple-silicon-generations (LocalScore)",
    "b": "https://github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference (Llama 3 8B, tg 512, pp 512)",
    "c": "https://github.com/AlexsJones/llmfit/pull/1031",
    "d": "https://github.com/ggml-org/llama.cpp/pull/10171 (tg128)",
    "e": "https://github.com/brand-o/normiebench/issues/3 and /40 (tg128, pp512)",
}
PEER = {  # (model, kind): {chip: (tokens a second of decode, source)}
    ("8B", "Q4_K_M"): {"M1": (14.6, "a"), "M1 Pro": (21.9, "a"), "M1 Max": (35.73, "b"), "M2": (18.3, "a"),
                       "M2 Pro": (33.0, "c"), "M2 Max": (46.4, "a"), "M3": (13.5, "a"), "M3 Pro": (22.1, "a"),
                       "M3 Max": (48.97, "b"), "M4": (20.87, "e"), "M4 Pro": (32.9, "a"), "M4 Max": (55.1, "a")},
    ("8B", "Q8_0"): {"M2 Pro": (22.0, "c")},
    ("8B", "F16"): {"M1 Max": (18.75, "b"), "M3 Max": (22.04, "b")},
    ("1B", "Q4_K_M"): {"M1": (40.4, "a"), "M1 Pro": (78.2, "a"), "M1 Max": (125.8, "a"), "M2": (56.5, "a"),
                       "M2 Pro": (100.3, "a"), "M2 Max": (153.0, "a"), "M3": (67.2, "a"), "M3 Pro": (89.8, "a"),
                       "M3 Max": (149.0, "a"), "M4": (76.2, "a"), "M4 Pro": (119.2, "a"), "M4 Max": (182.6, "a")},
    ("1B", "Q8_0"): {"M3 Max": (169.28, "d")},
}
PEER_PREFILL = {"M1": (94.48, "b"), "M1 Max": (408.23, "b"), "M3 Max": (693.32, "b"), "M4": (224.81, "e")}  # 8B Q4_K_M


def products(model, kind):
    """[(rows, columns, type)] of the layers, then the head's."""
    layers, D, F, kv, _, V, _ = MODELS[model]
    found = []
    for i in range(layers):
        more = i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2  # llama.cpp's mixture Q4_K_M
        mixed = ("Q6_K" if more else "Q4_K") if kind == "Q4_K_M" else kind
        plain = "Q4_K" if kind == "Q4_K_M" else kind
        found += [(D, D, plain), (kv, D, plain), (kv, D, mixed), (D, D, plain), (F, D, plain), (F, D, plain), (D, F, mixed)]
    return found, (V, D, "Q6_K" if kind == "Q4_K_M" else kind)


def bytes_of(n, k, t):
    return n * k * BITS[t] / 8


def rate(chip):
    """Lanes' instructions a second; seconds of a cycle of a core's 128 lanes."""
    _, tflops, cores = CHIPS[chip]
    return tflops * 1e12 / 2, 128 * cores / (tflops * 1e12 / 2)


def product_s(counts, chip, n, k, t, rows, kernels=""):
    """(reading, computing) seconds: w is read once for TILE rows; with kernels "matrices " for MATRIX_TILE."""
    few, many = (TILE, MATRIX_TILE) if kernels else (1, TILE)
    tiles = -(-rows // (many if rows > few else few))
    return (tiles * bytes_of(n, k, t) / (READ * CHIPS[chip][0] * 1e9),
            tiles * n * k * counts[kernels + t][0 if rows <= few else 1] / rate(chip)[0])


def attention_ticks(counts, d):
    """Of a lane, for 32 keys."""
    score, value = counts["attention f16"]
    return d * score + d * value


def split_ticks(counts, d):
    """Of a lane, for 32 keys and 8 rows by matrices; values are counted as those of heads of 128."""
    block, rest = counts["attention by matrices f16"]
    return d / 32 * block + rest


def decode(counts, model, kind, chip, context=512, kernels=""):
    """Milliseconds: {part: of a step of one token}."""
    layers, *_, d, _, _ = MODELS[model]
    body, head = products(model, kind)
    both = [product_s(counts, chip, *p, 1, kernels) for p in [*body, head]]
    ticks = split_ticks(counts, d) / SIMDS if kernels else attention_ticks(counts, d)
    return {"products": 1e3 * sum(max(p) for p in both), "reading": 1e3 * sum(p[0] for p in both),
            "attention": 1e3 * layers * context / 32 * ticks * LONE * rate(chip)[1],
            "launches": 1e-3 * LAUNCH_US * (layers * LAYER_DISPATCHES + STEP_DISPATCHES)}


def step_ms(parts):
    return parts["products"] + parts["attention"] + parts["launches"]


def prefill(counts, model, kind, chip, tokens=512, kernels=""):
    """Tokens a second of a prompt."""
    layers, *_, d, _, _ = MODELS[model]
    body, head = products(model, kind)
    s = sum(max(product_s(counts, chip, *p, tokens, kernels)) for p in body) + max(product_s(counts, chip, *head, 1, kernels))
    keys = tokens * (tokens + 1) / 2
    s += layers * HEADS * keys * (split_ticks(counts, d) / 8 if kernels else attention_ticks(counts, d)) / rate(chip)[0]
    return tokens / (s + 1e-6 * LAUNCH_US * (layers * LAYER_DISPATCHES + STEP_DISPATCHES))


def bound_by(parts):
    if parts["attention"] > parts["products"]:
        return "attention"
    return "bytes" if parts["reading"] > 0.99 * parts["products"] else "instructions"


def counted():
    """To a tenth, as the table has them."""
    found = {t: tuple(round(count.of_product(t, n), 1) for n in (1, 8)) for t in count.TYPES}
    by = {f"matrices {t}": tuple(round(count.of_matrices(t, n), 1) for n in count.MATRIX_TOKENS) for t in count.MATRIX_TYPES}
    by |= {f"attention by matrices {t}": count.of_matrix_attention(t) for t in ("f16", "bf16")}
    return {**found, **by, "attention f16": count.of_attention("f16"), "attention bf16": count.of_attention("bf16")}


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(r) + " |" for r in rows)])


def kernels_table(counts):
    """What bounds each kernel on M1 and M4 Max: the rate in weights a second that bytes and ticks allow."""
    rows = []
    for name, (one, eight) in counts.items():
        if name.startswith("matrices") or "by matrices" in name:
            continue
        if name.startswith("attention"):
            rows.append([name, f"{one:.1f}", f"{eight:.1f}", "", "", "waiting: one simdgroup for a head"])
            continue
        shares = []
        for chip in ("M1", "M4 Max"):
            reading, computing = product_s(counts, chip, 4096, 4096, name, 1)
            shares.append(f"{100 * min(1, reading / computing):.0f} %")
        rows.append([name, f"{one:.1f}", f"{eight:.1f}", *shares, "bytes" if shares == ["100 %"] * 2 else "instructions"])
    return table(("kernel", "ticks, 1 row", "ticks, 8 rows", "M1", "M4 Max", "a decode is bound by"), rows)


def models_table(counts):
    rows = []
    for model in MODELS:
        for kind in KINDS:
            for chip in CHIPS:
                parts = decode(counts, model, kind, chip)
                ours = 1e3 / step_ms(parts)
                peer, source = PEER.get((model, kind), {}).get(chip, (None, ""))
                late = 1e3 / step_ms(decode(counts, model, kind, chip, 8192))
                rows.append([model, kind, chip, f"{ours:.2f}", bound_by(parts), f"{late:.2f}",
                             f"{prefill(counts, model, kind, chip):.1f}", f"{peer:.1f} ({source})" if peer else "",
                             f"{peer / ours:.1f}" if peer else ""])
    return table(("model", "weights", "chip", "decode, tokens/s", "bound by", "behind 8,192 tokens", "prompt of 512, tokens/s",
                  "llama.cpp, decode", "times ours"), rows)


def prefill_table(counts):
    rows = []
    for chip, (peer, source) in PEER_PREFILL.items():
        ours = prefill(counts, "8B", "Q4_K_M", chip)
        rows.append([chip, f"{ours:.1f}", f"{peer:.1f} ({source})", f"{peer / ours:.0f}"])
    return table(("8B Q4_K_M, prompt of 512", "tokens/s", "llama.cpp", "times ours"), rows)


def matrices_kernels_table(counts):
    rows = [[name, f"{few:.1f}", f"{many:.1f}", f"{counts[name[9:]][1] / 8:.2f}", f"{many / MATRIX_TILE:.2f}"]
            for name, (few, many) in counts.items() if name.startswith("matrices")]
    return table(("kernel", "ticks, to 8 rows", "ticks, 32 rows", "of a row, by chains", "by matrices"), rows)


def matrix_attention_table(counts):
    """The last two: ticks of a row and a key, heads of 128."""
    rows = []
    for t in "f16", "bf16":
        block, rest = counts[f"attention by matrices {t}"]
        score, value = counts[f"attention {t}"]
        rows.append([f"attention by matrices {t}", f"{block:.1f}", f"{rest:.1f}", f"{128 * (score + value):.0f}",
                     f"{(4 * block + rest) / 8:.0f}"])
    return table(("kernel, 8 rows and 32 keys", "ticks, 32 dimensions of scores", "all else, d 128", "of a row, present kernel",
                  "by matrices"), rows)


def matrices_table(counts):
    rows = []
    for kind in KINDS:
        for chip in PEER_PREFILL:
            one, by = (1e3 / step_ms(decode(counts, "8B", kind, chip, kernels=k)) for k in ("", "matrices "))
            prompt, by_too = (prefill(counts, "8B", kind, chip, kernels=k) for k in ("", "matrices "))
            peer, source = PEER_PREFILL[chip]
            rows.append([kind, chip, f"{one:.2f}", f"{by:.2f}", f"{prompt:.1f}", f"{by_too:.1f}",
                         f"{peer:.1f} ({source})" if kind == "Q4_K_M" else ""])
    return table(("8B", "chip", "decode, chains", "matrices", "prompt of 512, chains", "matrices", "llama.cpp"), rows)


MARK = "<!-- predict.py: {} -->"


def text(counts):
    sources = "\n".join(f"- ({k}) {url}" for k, url in SOURCES.items())
    return "\n\n".join([MARK.format("begin"), kernels_table(counts), models_table(counts), prefill_table(counts),
                        matrices_kernels_table(counts), matrix_attention_table(counts), matrices_table(counts), sources,
                        MARK.format("end")])


def between(readme):
    return re.search(re.escape(MARK.format("begin")) + ".*" + re.escape(MARK.format("end")), readme, re.S)


def counts_of(readme):
    return {m[1]: (float(m[2]), float(m[3]))
            for m in re.finditer(r"^\| ([A-Z]\w+|matrices \w+|attention (?:by matrices )?\w+) \| ([\d.]+) \| ([\d.]+) \|", readme, re.M)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--write", action="store_true")
    o = p.parse_args()
    readme = README.read_text()
    if o.write:
        README.write_text(readme.replace(between(readme)[0], text(counted())))
    else:
        print(text(counts_of(readme)))


if __name__ == "__main__":
    main()
