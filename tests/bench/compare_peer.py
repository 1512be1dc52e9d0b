#!/usr/bin/env python3
"""Ours against a peer engine on the same files, alternately in one run, so that a neighbour of the
machine disturbs both.  Every row is the median over ROUNDS turns of REPS repetitions of each engine.

    compare_peer.py --ours build/release/bin/bench_step --bench PATH/llama-bench \\
        [--batched PATH/llama-batched-bench] [--threads 2] [--rounds 3] [--reps 2] [--json FILE] \\
        Q8_0=model-q8_0.gguf ... [--nodes PATH/dllama MODEL TOKENIZER OURS.gguf]

The peer's programs are those of the llama.cpp family (llama-bench; for --batched its
llama-batched-bench) and distributed-llama's dllama (--nodes: a root and a worker over loopback, a
thread each, against two ranks of ours; its tokenizer must take one byte for a token, so that the
prompt has the length asked for).  A peer is built and named by whoever runs this.
"""
import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile

PEER_ENV = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def run(command, env=None, timeout=600):
    with tempfile.TemporaryDirectory() as folder:  # a peer leaves its log where it runs
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout,
                              cwd=folder if env is PEER_ENV else None)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


class Table:
    """Medians of what was seen, by row and engine."""

    def __init__(self):
        self.seen, self.limit = {}, {}

    def add(self, row, engine, value):
        self.seen.setdefault(row, {}).setdefault(engine, []).append(value)

    def figures(self):
        for row, seen in self.seen.items():
            ours, peer = (statistics.median(seen.get(e, [0])) for e in ("ours", "peer"))
            yield {"row": row, "ours": ours, "peer": peer, "ratio": ours / peer if peer else None,
                   "limit": self.limit.get(row), "all": seen}

    def print(self):
        print(f"\n{'row':34} {'ours':>9} {'peer':>9} {'ratio':>6} {'limit':>9}   tokens/s, medians")
        for f in self.figures():
            ratio = f"{f['ratio']:.2f}" if f["ratio"] else "-"
            limit = f"{f['limit']:.1f}" if f["limit"] else "-"
            print(f"{f['row']:34} {f['ours']:9.2f} {f['peer']:9.2f} {ratio:>6} {limit:>9}")


def ours(args, table, label, model, extra, rename):
    """One turn of bench_step; rename: its test -> our row."""
    command = [args.ours, "--model", model, "--reps", str(args.reps), "--json", "-", *extra]
    report = json.loads(run(command))
    for row in report["rows"]:
        name = f"{label} {rename(row)}"
        for seconds in row["seconds"]:
            table.add(name, "ours", row["n"] * row["seqs"] / seconds)
        if "limit_tokens_per_s" in row:
            best = max(table.limit.get(name, 0), row["limit_tokens_per_s"])
            table.limit[name] = best


def plain_name(row):
    return f"prefill {row['n']}" if row["kind"] == "prefill" else f"decode x{row['seqs']}"


def turn_ours(args, table, label, model):
    batch = f"1,{args.batch}" if args.batched else "1"
    ours(args, table, label, model,
         ["--threads", str(args.threads), "--pp", str(args.pp), "--tg", str(args.tg), "--batch",
          batch, *args.our_options.split()], plain_name)


def turn_peer(args, table, label, model):
    bench, batched, model = (p and os.path.abspath(p) for p in (args.bench, args.batched, model))
    command = [bench, "-m", model, "-t", str(args.threads), "-p", str(args.pp), "-n", str(args.tg),
               "-r", str(args.reps), "-o", "json", *args.peer_options.split()]
    text = run(command, PEER_ENV)
    for row in json.loads(text[text.index("[\n"):text.rindex("]") + 1]):
        name = f"prefill {row['n_prompt']}" if row["n_prompt"] else "decode x1"
        for speed in row["samples_ts"]:
            table.add(f"{label} {name}", "peer", speed)
    if not args.batched:
        return
    need = args.batch * (1 + args.tg)
    command = [batched, "-m", model, "-t", str(args.threads), "-tb", str(args.threads), "-c",
               str(need), "-npp", "1", "-ntg", str(args.tg), "-npl", str(args.batch),
               *args.batched_options.split()]
    for line in run(command, PEER_ENV).splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) >= 8 and cells[0] == "1" and cells[2] == str(args.batch):
            table.add(f"{label} decode x{args.batch}", "peer", float(cells[7]))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def turn_nodes(args, table):
    """Two ranks of a thread each; beside them the peer's two nodes, and one rank of two threads."""
    dllama, model, tokenizer, gguf = args.nodes
    for label, options in (("two ranks", ["--ranks", "2", "--threads", "1"]),
                           ("one rank", ["--ranks", "1", "--threads", "2"])):
        ours(args, table, label, gguf,
             [*options, "--pp", str(args.pp), "--tg", str(args.tg)], plain_name)
    port = str(free_port())
    worker = subprocess.Popen([dllama, "worker", "--port", port, "--nthreads", "1"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        text = run([dllama, "inference", "--model", model, "--tokenizer", tokenizer,
                    "--buffer-float-type", "q80", "--nthreads", "1", "--max-seq-len",
                    str(args.pp + args.tg + 1), "--prompt", "a" * (args.pp - 1), "--steps",
                    str(args.pp + args.tg), "--workers", f"127.0.0.1:{port}"])
    finally:
        worker.kill()
        worker.wait()
    for row, part in ((f"prefill {args.pp}", "Evaluation"), ("decode x1", "Prediction")):
        speed = re.search(part + r"\s+(?:nBatches: \d+\s+)?nTokens: \d+\s+tokens/s: ([0-9.]+)", text)
        table.add(f"two ranks {row}", "peer", float(speed.group(1)))


def save(args, table):
    """After every turn, so that a run which is ended early leaves what it has."""
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"threads": args.threads, "rounds": args.rounds, "reps": args.reps,
                       "rows": list(table.figures())}, f, indent=1)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="*", metavar="NAME=FILE.gguf")
    p.add_argument("--ours", required=True, help="our bench_step")
    p.add_argument("--bench", help="the peer's llama-bench")
    p.add_argument("--batched", help="the peer's llama-batched-bench")
    p.add_argument("--nodes", nargs=4, metavar=("DLLAMA", "MODEL", "TOKENIZER", "OURS.gguf"))
    p.add_argument("--our-options", default="", help="more of bench_step's options")
    p.add_argument("--peer-options", default="-rtr 1 -fa 1", help="more of llama-bench's options")
    p.add_argument("--batched-options", default="-rtr -fa on -ub 512",
                   help="more of llama-batched-bench's options")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--pp", type=int, default=512)
    p.add_argument("--tg", type=int, default=64)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--reps", type=int, default=2)
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    if args.models and not args.bench:
        p.error("--bench is needed to compare models")
    table = Table()
    for item in args.models:
        label, model = item.split("=", 1)
        for _ in range(args.rounds):
            turn_ours(args, table, label, model)
            turn_peer(args, table, label, model)
            save(args, table)
    for _ in range(args.rounds if args.nodes else 0):
        turn_nodes(args, table)
        save(args, table)
    table.print()


if __name__ == "__main__":
    main()
