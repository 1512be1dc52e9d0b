#!/usr/bin/env python3
"""Time of masks and of compiling on one thread beside llguidance's wheel, on the schemas of tests/grammar/schemas.py that both
compile: the same random texts, CPU time.  llguidance's figures include its call from Python, ours begin in the probe.

    INGOT_BIN=build/release/bin build/venv/bin/python tests/bench/grammar_peer.py [WALKS] [DIR [EVERY]]

DIR: the files of MaskBench (maskbench.py) in place of those schemas, every EVERY-th."""
import json
import pathlib
import random
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "grammar"), str(pathlib.Path(__file__).resolve().parents[1])]
import peer  # noqa: E402
from schemas import SCHEMAS  # noqa: E402


def row(name, seconds):
    s = sorted(seconds)
    at = [s[min(len(s) - 1, int(len(s) * q))] * 1e6 for q in (0.5, 0.9, 0.99)]
    print("  %-27s %7d %9.1f %9.1f %9.1f %9.1f %9.0f" % (name, len(s), sum(s) / len(s) * 1e6, *at, s[-1] * 1e6))


def schemas_of(directory, every):
    for path in sorted(pathlib.Path(directory).glob("*.json"))[::every]:
        case = json.loads(path.read_text())
        if "schema" in case:
            yield case["schema"]


def measure(name, walks, schemas):
    pair, rng = peer.Pair(name), random.Random(1)
    for schema in schemas:
        if pair.compile(schema):
            for _ in range(walks):
                for _ in peer.walk(pair, rng):
                    pass
    print("%s, %d tokens; microseconds:\n  %-27s %7s %9s %9s %9s %9s %9s" % (name, pair.n, "", "n", "mean", "p50", "p90", "p99", "max"))
    for i, who in enumerate(("ours", "llguidance")):
        row("mask, " + who, pair.mask_s[i])
        row("compile + mask, " + who, pair.compile_s[i])
    pair.close()


walks, directory, every = [*sys.argv[1:], *("3", "", "1")[len(sys.argv) - 1:]]
for tokenizer in peer.TOKENIZERS:
    measure(tokenizer, int(walks), schemas_of(directory, int(every)) if directory else SCHEMAS)
