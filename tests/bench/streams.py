#!/usr/bin/env python3
"""Tokens a second against the number of streams: `ingot bench` on builds in turns, each with its own bench.

    build/venv/bin/python tests/bench/streams.py --bin OLD/bin --bin build/release/bin [--model DIR] [--streams 8,16,32,64]
        [--threads 1,2,0] [--rounds 3] [--tokens 96] [--prompt 32]

A server (coordinator and one worker) is started anew for each build, round and number of threads; 0: the worker's default.
Beside the rate: the CPU time for each token of the worker, the coordinator and the load generator.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / "cluster"), str(HERE)]
import cluster  # noqa: E402


def cpu_us(pid):
    """Of all threads of a process; pid None: of the load generators that have ended."""
    if pid is None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (used.ru_utime + used.ru_stime) * 1e6
    return sum(int(t.read_text().split()[0]) for t in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e3


def numbers(text):
    return [int(x) for x in text.split(",")]


def bench(binaries, endpoint, streams, requests, tokens, prompt):
    p = subprocess.run([binaries / "ingot", "bench", "--connect", endpoint, "--json", "--concurrency", str(streams),
                        "--requests", str(requests), "--prompt-tokens", str(prompt), "--max-tokens", str(tokens)],
                       capture_output=True, text=True)
    if p.returncode:
        raise SystemExit(f"{binaries}/ingot bench: {p.stdout}{p.stderr}")
    return json.loads(p.stdout)


def run(binaries, args, threads):
    """{streams: (tokens/s, worker, coordinator and driver us of CPU time a token)}"""
    cluster.BIN, out = binaries, {}
    with cluster.Parts(args.model, threads=threads) as c:
        bench(binaries, c.endpoint, 8, 16, args.tokens, args.prompt)
        for n in args.streams:
            pids = [*c.worker_pids(), c.coordinator.pid, None]
            before = [cpu_us(p) for p in pids]
            r = bench(binaries, c.endpoint, n, max(4 * n, args.requests), args.tokens, args.prompt)
            used = [(cpu_us(p) - b) / r["completion_tokens"] for p, b in zip(pids, before)]
            out[n] = (r["tokens_per_s"], *used)
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bin", type=pathlib.Path, action="append", required=True, help="folder of a build's programs")
    ap.add_argument("--model", default=str(cluster.DEMO))
    ap.add_argument("--streams", type=numbers, default=[1, 4, 8, 16, 32, 64])
    ap.add_argument("--threads", type=numbers, default=[1])
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--requests", type=int, default=64, help="least number of a run; otherwise 4 for each stream")
    ap.add_argument("--tokens", type=int, default=96)
    ap.add_argument("--prompt", type=int, default=32)
    args = ap.parse_args()
    results = {}
    for k in range(args.rounds):
        for t in args.threads:
            for b in args.bin:
                for n, r in run(b.resolve(), args, t).items():
                    results.setdefault((t, str(b), n), []).append(r)
    print(f"{os.path.basename(args.model)}: medians of {args.rounds} rounds in turns")
    print("threads streams   tokens/s (least to most)        us of CPU time a token: worker, coordinator, driver  build")
    for (t, b, n), rs in results.items():
        v = [statistics.median(x) for x in zip(*rs)]
        span = f"({min(r[0] for r in rs):.0f} to {max(r[0] for r in rs):.0f})"
        print(f"{t or 'auto':>7} {n:7} {v[0]:10.0f} {span:20} {v[1]:34.1f} {v[2]:8.1f} {v[3]:8.1f}  {b}")


if __name__ == "__main__":
    main()
