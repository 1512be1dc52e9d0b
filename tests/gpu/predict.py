"""Times of the CUDA kernels that no GPU has run, from their machine code and the bytes that they move: an H200 (132
multiprocessors at 1.755 GHz, 4.3 TB/s copied).

    predict.py                what this tree's kernels need, and what they needed (predicted.txt)
    predict.py --root DIR     another tree's kernels
    predict.py --write NAME   the row NAME of predicted.txt anew

The costs, and where they are from (none was measured):
  lone warp     a scheduler with one warp waits for each instruction of a chain of addresses: 3.2 cycles an instruction
                (a review of the first attention kernel: 78 instructions, 250 cycles); 2.2 where the instructions are
                scores, exponentials and products, of which several are under way
  pipes         of a tile kernel: each step needs so many cycles of the tensor cores, of shared memory and of issue;
                the longest, and 0.6 of issue that does not overlap
  reading       loads that go to L2, with what leads to them: 0.6 us
  launch        1 us until a dependent kernel has begun
The first row of predicted.txt is that review's own estimate, which the next one must reproduce within 15 %."""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import sass  # noqa: E402
from nvcc import ROOT  # noqa: E402

CLOCK, N_SM, LANES = 1755.0, 132, 32  # MHz: cycles of a microsecond
LONE_WARP, COMPUTING, UNHIDDEN_ISSUE, READ_US, LAUNCH_US = 3.2, 2.2, 0.6, 0.6, 1.0
TILE, SPLIT = 32, 128  # keys
TABLE = ROOT / "tests/gpu/predicted.txt"


def attention_cycles(kernel, d):
    """(copying, computing) of one warp and one tile of keys, with the fewest instructions that reach the products."""
    def has(b, op):
        return kernel.count(b, op) > 0
    copies = 2 * TILE * d * 2 / 16 / LANES
    loops = kernel.loops()
    head, tile = min(((h, body) for h, body in loops if any(has(b, "HMMA") for b in body) and
                      any(has(b, "LDGSTS") for b in body)), key=lambda loop: len(loop[1]))
    values = max((b for b in tile), key=lambda b: kernel.count(b, "HMMA"))
    rest = kernel.turn(head, tile, values)
    scores = [b for b in tile if has(b, "HMMA") and b in kernel.follow[b]]  # a loop over 16 dims
    rest += sum(len(kernel.blocks[b]) * (d // 16 - 1) for b in scores)
    rest -= len(kernel.blocks[values]) if has(values, "LDGSTS") else 0
    return kernel.per_copy() * copies * LONE_WARP, rest * COMPUTING


def attention(kernels, d):
    """Microseconds of a layer at 128 tokens, batch 1."""
    copy, rest = attention_cycles(kernels[f"attention_decode<false, {d}, 3>"], d)
    return LAUNCH_US + SPLIT / TILE * (copy + rest) / CLOCK


def merge(tokens, at_once, lanes):
    """Microseconds: at_once: splits that a thread loads together; lanes: groups that a block merges at a time, one after the
    other from shared memory: 100 cycles each."""
    splits = tokens // SPLIT
    rounds = -(-splits // (at_once * lanes))
    groups = -(-splits // at_once) if lanes > 1 else 0
    return rounds * READ_US + groups * 100 / CLOCK


def tiles(kernels):
    """TFLOP/s of the strict product of many bf16 rows: 128 x 128 x 64 a step and block."""
    kernel = kernels["tiles_kernel<elem_bf16, 4, 4>"]
    body = min((b for _, b in kernel.loops() if any(kernel.count(i, "HMMA") for i in b)), key=len)
    instructions = sum(len(kernel.blocks[i]) for i in body)
    hmma = sum(kernel.count(i, "HMMA") for i in body)
    steps = hmma / 64  # of 64 columns, for a warp's 64 x 32
    issue = 8 / 4 * instructions / steps
    shared = (8 * (64 + 32) * 64 * 2 + 2 * 128 * 64 * 2) / 128
    tensor = 813  # mma.sync reaches 62 % of the tensor cores' rate
    cycles = max(shared, tensor) + UNHIDDEN_ISSUE * issue
    return 2 * 128 * 128 * 64 / cycles * N_SM * CLOCK * 1e-6, instructions / steps


HEAD = ("row", "copy 128", "copy 64", "layer 8B", "layer 1B", "merge 4k", "merge 8k", "merge 128k", "tiles")
UNITS = ("", "instructions", "instructions", "us", "us", "us", "us", "us", "TFLOP/s")


def row(name, root):
    attention_sass, tiles_sass = sass.kernels("attention.cu", root=root), sass.kernels("linear_tiles.cu", root=root)
    decode = [attention_sass[f"attention_decode<false, {d}, 3>"] for d in (128, 64)]
    merge_files = [root / "backends/cuda" / f for f in ("attention.cu", "attention_merge.h")]
    text = "".join(f.read_text() for f in merge_files if f.exists())
    lanes, at_once = (16, 8) if "MERGE_LANES" in text else (1, 4)
    merges = [merge(tokens, at_once, lanes) for tokens in (4096, 8192, 131072)]
    return [name, *(f"{k.per_copy():.1f}" for k in decode), f"{attention(attention_sass, 128):.1f}",
            f"{attention(attention_sass, 64):.1f}", *(f"{m:.1f}" for m in merges), f"{tiles(tiles_sass)[0]:.0f}"]


def rows():
    """{name: figures}"""
    lines = TABLE.read_text().splitlines()[2:]
    return {line.split("\t")[0]: line.split("\t")[1:] for line in lines}


def show(table):
    for line in (HEAD, UNITS, *([name, *figures] for name, figures in table.items())):
        print("\t".join(line))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--root", type=pathlib.Path, default=ROOT)
    p.add_argument("--write", metavar="NAME")
    o = p.parse_args()
    name, *figures = row(o.write or "this tree", o.root.resolve())
    table = {**(rows() if TABLE.exists() else {}), name: figures}
    show(table)
    if o.write:
        lines = ["\t".join(HEAD), "\t".join(UNITS)] + ["\t".join([n, *f]) for n, f in table.items()]
        TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
