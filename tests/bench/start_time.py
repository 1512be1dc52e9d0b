#!/usr/bin/env python3
"""Seconds from the start of a program to its end behind one token, with and without the file in the page cache.

    start_time.py MODEL.gguf [--peer PATH/llama-cli] [--threads 2] [--rounds 3] [--drop]

Ours: `ingot run`, which packs the weights, and the same with --pack-cache, whose files the first start has written.
The peer: a program of the llama.cpp family as it is (the file is mapped), and with -rtr (weights are repacked, as its
fastest products want them).  --drop, as root: each also behind `echo 3 > /proc/sys/vm/drop_caches`, so that the file comes
from the disk.  Programs take turns; printed are medians, and the least and the most.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("INGOT_BIN", ROOT / "build/release/bin")).resolve()


def seconds(command, folder):
    """folder: where a program may leave a log, as the peer does."""
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL, cwd=folder)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return time.monotonic() - begin


def drop_page_cache():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")


def commands(args, cache):
    ours = [BIN / "ingot", "run", args.model, "--prompt", "The", "--max-tokens", "1", "--ignore-eos", "--threads",
            str(args.threads), "--max-ctx", "512"]
    yield "ingot run", ours
    yield "ingot run --pack-cache", [*ours, "--pack-cache", cache]
    if args.peer:
        peer = [args.peer, "-m", args.model, "-p", "The", "-n", "1", "--ignore-eos", "-t", str(args.threads), "-c", "512"]
        yield "peer", peer
        yield "peer -rtr", [*peer, "-rtr"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--peer")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--drop", action="store_true")
    args = parser.parse_args()
    args.model = str(pathlib.Path(args.model).resolve())
    args.peer = args.peer and str(pathlib.Path(args.peer).resolve())
    seen = {}
    with tempfile.TemporaryDirectory(dir=pathlib.Path(args.model).resolve().parent) as cache:
        for name, command in commands(args, cache):  # writes the pack cache, and reads the file once
            print(f"{name}, first: {seconds(command, cache):.2f} s", file=sys.stderr)
        for _ in range(args.rounds):
            for drop in [False, True] if args.drop else [False]:
                for name, command in commands(args, cache):
                    if drop:
                        drop_page_cache()
                    seen.setdefault((name, drop), []).append(seconds(command, cache))
    for (name, drop), all_of in seen.items():
        print(f"{name:24} {'from the disk' if drop else 'file in memory':15} {statistics.median(all_of):7.2f} s"
              f"  ({min(all_of):.2f} to {max(all_of):.2f})")


if __name__ == "__main__":
    main()
