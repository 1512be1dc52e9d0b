"""Instructions of 64-bit Arm that products with quantised weights execute, for 16 bytes of 8-bit weights and one row of x:
unpacking, integer sums and scales, without the rounding of x.  qemu runs the program of tests/ops/neon_digests.sh one
instruction at a time and logs each.  Counts are no speed: a machine executes several at a time, and waits for memory.
    neon_counts.py BUILD-FOLDER [TYPE...]"""
import bisect
import collections
import re
import subprocess
import sys

ISAS = ["neon", "neondot", "neoni8mm"]
ROWS = [1, 2, 4, 6, 16, 24]
COLS, OUTPUTS = 512, 32
PRODUCT = re.compile(r"(direct|unpack)_QK_\w+|groups_[\d_]+|fast_quant_panel|climb_rows|store_rows")


def functions(program):
    """(address, length, name) of all functions, ascending."""
    lines = subprocess.run(["aarch64-linux-gnu-nm", "-S", "--defined-only", program], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    fields = [line.split() for line in lines]
    return sorted((int(f[0], 16), int(f[1], 16), f[3]) for f in fields if len(f) == 4 and f[2] in "tT")


def one_by_one():
    """The option of this qemu that makes each of its translations one instruction."""
    text = subprocess.run(["qemu-aarch64", "-help"], check=True, capture_output=True, text=True).stdout
    return "-one-insn-per-tb" if "one-insn-per-tb" in text else "-singlestep"


def count(program, known, option, *args):
    starts, counts = [f[0] for f in known], collections.Counter()
    command = ["qemu-aarch64", option, "-d", "exec,nochain", "-D", "/dev/stdout", program, *map(str, args)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as run:
        for line in run.stdout:
            if trace := re.match(r"Trace \d+: \w+ \[\w+/(\w+)/", line):
                at = int(trace[1], 16)
                i = bisect.bisect(starts, at) - 1
                if i >= 0 and at < starts[i] + known[i][1]:
                    counts[known[i][2].split(".")[0]] += 1
    assert run.returncode == 0, command
    total = sum(n for name, n in counts.items() if PRODUCT.fullmatch(name))
    assert total > 0, "no instruction of a product: other names, or another log"
    return total


def main():
    program = f"{sys.argv[1]}/bin/quant_rows"
    known, option = functions(program), one_by_one()
    print("| type | instructions | " + " | ".join(f"{r} row{'s' * (r > 1)}" for r in ROWS) + " |")
    print("|---|---|" + "---|" * len(ROWS))
    for dtype in sys.argv[2:] or ["q8_0", "q4_0", "q4_k", "q6_k"]:
        for isa in ISAS:
            cells = [count(program, known, option, isa, dtype, r, COLS) / (COLS * OUTPUTS / 16 * r) for r in ROWS]
            print(f"| {dtype} | {isa} | " + " | ".join(f"{c:.2f}" for c in cells) + " |", flush=True)


main()
