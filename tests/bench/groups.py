"""Throughput of one worker group and of several, which share the load, in turns on one machine: `ingot bench` against
`ingot serve --groups N`, one rank and one thread a group.  A model whose step takes 5 ms or more: shape 1b of
make_gguf_shape.py.

    python3 tests/bench/groups.py MODEL.gguf [--groups 1,2] [--rounds 3] [--streams 16]

--apart runs N servers of one group each beside each other, with the streams divided among them: what the machine can give.

Tokens of answers and prompts per second, time to the first token (p50, p99) in ms; a row each, then medians and ratios."""
import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import BIN, Cluster  # noqa: E402


def groups_of(c):
    return c.clients[0].call("Stats")[1].group


def run(a, n):
    """n groups: of one server, or each of a server of its own."""
    servers, each = (n, 1) if a.apart else (1, n)
    with contextlib.ExitStack() as stack:
        all_ = [stack.enter_context(Cluster(a.model, threads=1, extra=["--groups", each, "--kv-memory", "256M", *a.extra]))
                for _ in range(servers)]
        for c in all_:
            tap.wait_for(lambda c=c: len(g := groups_of(c)) == each and all(x.active for x in g), "all groups")
        loads = [subprocess.Popen([str(x) for x in (
            BIN / "ingot", "bench", "--json", "--connect", c.endpoint, "--concurrency", a.streams // servers, "--requests",
            a.requests // servers, "--prompt-tokens", a.prompt, "--max-tokens", a.tokens)], stdout=subprocess.PIPE, text=True)
            for c in all_]
        results = [json.loads(p.communicate()[0]) for p in loads]
        share = [g.tokens_generated for c in all_ for g in groups_of(c)]
    for r in results:
        assert r["finished"] == a.requests // servers and not r["lost"] + r["doubled"] + r["failed"], r
    seconds = max(r["seconds"] for r in results)
    done, asked = (sum(r[k] for r in results) for k in ("completion_tokens", "prompt_tokens"))
    return done / seconds, (done + asked) / seconds, *(max(r["ttft_ms"][k] for r in results) for k in ("p50", "p99")), share


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--groups", default="1,2")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--streams", type=int, default=16)
    p.add_argument("--requests", type=int, default=32)
    p.add_argument("--prompt", type=int, default=16)
    p.add_argument("--tokens", type=int, default=24)
    p.add_argument("--apart", action="store_true")
    p.add_argument("extra", nargs="*", help="further options of ingot serve, after --")
    a = p.parse_args()
    counts = [int(x) for x in a.groups.split(",")]
    got = {n: [] for n in counts}
    for _ in range(a.rounds):
        for n in counts:
            r = run(a, n)
            got[n].append(r)
            print(f"{n} group{'s' * (n > 1)}: {r[0]:7.1f} tokens/s, {r[1]:7.1f} with prompts; first token {r[2]:.0f} ms p50, "
                  f"{r[3]:.0f} ms p99; tokens of each group {r[4]}", flush=True)
    middle = {n: statistics.median(r[0] for r in rows) for n, rows in got.items()}
    for n in counts:
        print(f"{n} group{'s' * (n > 1)}: median {middle[n]:.1f} tokens/s, {middle[n] / middle[counts[0]]:.2f} of the first")


main()
