#!/usr/bin/env python3
"""The gateway beside a llama-server of the llama.cpp family on the same GGUF file: both are loaded with `ingot bench --http`
in turns, and each behind its server its engine alone (bench_step, llama-batched-bench).

    INGOT_BIN=build/release/bin build/venv/bin/python tests/bench/gateway_peer.py --peer PATH/bin MODEL.gguf \\
        [--streams 1,4,16] [--rounds 3] [--threads 2] [--tokens 96] [--json FILE]

Whoever runs this builds and names the peer.  The file is of tests/bench/make_gguf_shape.py and `ingot quantize`.  The
figure that counts: the ratio to the peer through HTTP, divided by the ratio of the engines.
"""
import argparse
import contextlib
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "cluster"), str(HERE / "gateway"), str(HERE / "bench")]
from cluster import BIN, Parts  # noqa: E402
from compare_peer import PEER_ENV  # noqa: E402
from gateway_process import Gateway  # noqa: E402

PROMPT, CONTEXT = 8, 512  # tokens
SPEEDS = {"tokens/s": lambda a: a["tokens_per_s"],
          "ttft p50": lambda a: a["ttft_ms"]["p50"], "ttft p99": lambda a: a["ttft_ms"]["p99"],
          "between p50": lambda a: a["inter_token_ms"]["p50"], "between p99": lambda a: a["inter_token_ms"]["p99"]}


@contextlib.contextmanager
def peer_server(args):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    most = max(args.streams)
    p = subprocess.Popen([pathlib.Path(args.peer) / "llama-server", "-m", args.model, "-t", str(args.threads), "-np", str(most),
                          "-c", str(most * CONTEXT), "--port", str(port)], env=PEER_ENV, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, cwd=tempfile.gettempdir())
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            if p.poll() is not None:
                sys.exit(f"llama-server ended with {p.returncode}")
            with contextlib.suppress(OSError), urllib.request.urlopen(url + "/health") as r:
                if r.status == 200:
                    break
            time.sleep(0.2)
        yield url
    finally:
        p.kill()
        p.wait()


def over_http(args, url, streams, seed):
    """seed: of the prompts; another one in each round, since both servers keep caches of prompts."""
    command = [BIN / "ingot", "bench", "--http", url, "--json", "--vocab", "256", "--prompt-tokens", PROMPT, "--max-tokens",
               args.tokens, "--concurrency", streams, "--requests", streams,  # a request each: the peer closes connections
               "--seed", seed]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ingot bench: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def engine_of_ours(args, streams):
    """Answer tokens a second without a server, the prompts included."""
    out = subprocess.run([BIN / "bench_step", "--model", args.model, "--threads", str(args.threads), "--reps", "1", "--pp",
                          str(streams * PROMPT), "--tg", str(args.tokens), "--batch", str(streams), "--no-ceilings", "--json", "-"],
                         capture_output=True, text=True, check=True)
    seconds = {r["kind"] == "prefill": r["seconds"][0] for r in json.loads(out.stdout)["rows"]}
    return streams * args.tokens / (seconds[True] + seconds[False])


def engine_of_peer(args, streams):
    """The same, in a context of the size that its server has."""
    out = subprocess.run([pathlib.Path(args.peer) / "llama-batched-bench", "-m", args.model, "-t", str(args.threads), "-tb",
                          str(args.threads), "-c", str(max(args.streams) * CONTEXT), "-npp", str(PROMPT), "-ntg",
                          str(args.tokens), "-npl", str(streams)], capture_output=True, text=True, check=True, env=PEER_ENV,
                         cwd=tempfile.gettempdir())
    for line in (out.stdout + out.stderr).splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) >= 8 and cells[0] == str(PROMPT) and cells[2] == str(streams):
            return streams * args.tokens / (float(cells[4]) + float(cells[6]))
    sys.exit(f"llama-batched-bench printed no row: {out.stdout[-500:]}")


def measure(args):
    seen = {}
    sizes = ("--max-ctx", CONTEXT, "--kv-blocks", max(args.streams) * CONTEXT // 16)
    with Parts(args.model, threads=args.threads, worker=sizes) as c, Gateway("--connect", c.endpoint) as g, peer_server(args) as peer:
        g.wait_ready()
        urls = {"ours": f"http://127.0.0.1:{g.port}", "peer": peer}
        engine = {"ours": engine_of_ours, "peer": engine_of_peer}
        for url in urls.values():
            over_http(args, url, 1, 0)
        for i in range(args.rounds):
            for streams in args.streams:
                for who in sorted(urls, reverse=i % 2 == 1):
                    a = over_http(args, urls[who], streams, 1 + i)
                    for name, read in SPEEDS.items():
                        seen.setdefault((streams, name, who), []).append(read(a))
                    seen.setdefault((streams, "engine", who), []).append(engine[who](args, streams))
    return seen


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--peer", required=True, help="the folder of llama-server and llama-batched-bench")
    p.add_argument("--streams", type=lambda s: [int(x) for x in s.split(",")], default=[1, 4, 16])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--tokens", type=int, default=96)
    p.add_argument("--json")
    args = p.parse_args()
    args.model = pathlib.Path(args.model).resolve()  # the peer writes a log into its working folder, which is another one
    seen = measure(args)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps([[*k, v] for k, v in seen.items()]))

    def median(*key):
        return statistics.median(seen[key])

    print(f"medians of {args.rounds} rounds; times in ms; kept: ratio through HTTP / ratio of the engines")
    for streams in args.streams:
        http, engine = (median(streams, name, "ours") / median(streams, name, "peer") for name in ("tokens/s", "engine"))
        print(f"{streams:3} streams: ratio {http:.3f} through HTTP, {engine:.3f} of the engines, kept {http / engine:.3f}")
        for name in ("engine", *SPEEDS):
            print(f"    {name:12} ours {median(streams, name, 'ours'):9.2f}  peer {median(streams, name, 'peer'):9.2f}  "
                  f"{[round(x, 1) for x in seen[streams, name, 'ours']]} {[round(x, 1) for x in seen[streams, name, 'peer']]}")


if __name__ == "__main__":
    main()
