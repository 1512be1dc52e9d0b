#!/usr/bin/env python3
"""Streams that follow grammars beside streams that do not, on one server: tokens a second, steps that were planned ahead, and
the time of masks.

    INGOT_BIN=build/release/bin build/venv/bin/python tests/bench/constrained.py [--model DIR_OR_FILE] [--streams 16]
        [--tokens 96] [--rounds 5] [--threads 0] [--worker "--backend cpu"] [--thinking]

--thinking: a budget of thinking that is not used up, in place of schemas.

In each round all streams run without grammars, then all with, in turns (even rounds: the other way round); every answer has
the same number of tokens: the schemas want more than fit, and end ids are ignored.  Times are from the first Delta of any
stream to the last token of all, so that prompts and compiles are left out.  The rate is the median over the rounds."""
import argparse
import json
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / "cluster"), str(HERE)]
import cluster  # noqa: E402
from ingot_client import Answer  # noqa: E402

ITEMS = [
    {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 24}, "age": {"type": "integer", "minimum": 0},
                                      "kind": {"enum": ["red", "green", "blue"]}, "ok": {"type": "boolean"}},
     "required": ["name", "age", "kind", "ok"], "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "number"}},
    {"type": "string"},
    {"anyOf": [{"type": "array", "items": {"type": "string", "pattern": "^[A-Z][a-z]+$"}}, {"type": "null"},
               {"type": "string", "format": "date-time"}]},
]
SCHEMAS = [json.dumps({"type": "array", "items": i, "minItems": 1000}) for i in ITEMS]


BUDGET = {"budget": 1 << 20, "open": "<think>", "close": "</think>", "close_ids": [0], "inside": True}


def grammar(i, thinking):
    if thinking:
        return {"kind": 7, "source": json.dumps(BUDGET).encode()}
    return {"kind": 1, "source": SCHEMAS[i % len(SCHEMAS)].encode()}


def request(i, tokens, constrained, thinking):
    r = {"tokens": {"id": [1] + [5 + (7 * i + 3 * k) % 200 for k in range(24)]}, "max_tokens": tokens,
         "sampling": {"temperature": 0.8, "top_k": 40, "seed": 100 + i, "ignore_eos": True}}
    if constrained:
        r["grammar"] = grammar(i, thinking)
    return r


def run(client, n, tokens, constrained, thinking):
    """(tokens a second, what Stats counted)"""
    before = client.call("Stats")[1]
    rids = [client.start(**request(i, tokens, constrained, thinking)) for i in range(n)]
    answers, pending, begin = {rid: Answer() for rid in rids}, set(rids), None
    while pending:
        name, m = client.recv()
        if name == "Delta" and begin is None:
            begin = time.perf_counter()
        if m.request_id in pending and answers[m.request_id].take(name, m):
            pending.discard(m.request_id)
    seconds = time.perf_counter() - begin
    got = sum(len(answers[r].ids[0]) for r in rids)
    assert got == n * tokens, (got, [answers[r].error or answers[r].reason(0) for r in rids])
    after = client.call("Stats")[1]
    counts = {f: getattr(after, f) - getattr(before, f) for f in
              ("steps", "steps_overlapped", "masks", "masks_cached", "mask_us", "mask_wait_us")}
    return got / seconds, counts


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--model", default=str(cluster.DEMO))
    p.add_argument("--streams", type=int, default=16)
    p.add_argument("--tokens", type=int, default=96)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--worker", default="")
    p.add_argument("--thinking", action="store_true")
    a = p.parse_args()
    rates, sums = {False: [], True: []}, {False: {}, True: {}}
    with cluster.Parts(a.model, threads=a.threads, worker=["--max-seqs", str(a.streams), "--max-ctx", "1024", *a.worker.split()]) as c:
        for constrained in (False, True):  # compiles, first masks
            run(c.clients[0], a.streams, 8, constrained, a.thinking)
        for i in range(a.rounds):
            for constrained in (False, True) if i % 2 == 0 else (True, False):
                rate, counts = run(c.clients[0], a.streams, a.tokens, constrained, a.thinking)
                rates[constrained].append(rate)
                for k, v in counts.items():
                    sums[constrained][k] = sums[constrained].get(k, 0) + v
    for constrained in (False, True):
        s, r = sums[constrained], rates[constrained]
        print("%-14s %9.1f tokens/s (%s), %d of %d steps ahead (%.1f %%)" % (
            "constrained" if constrained else "unconstrained", statistics.median(r), " ".join("%.0f" % x for x in r),
            s["steps_overlapped"], s["steps"], 100 * s["steps_overlapped"] / s["steps"]))
    s = sums[True]
    print("%d masks, %d found ready, %.1f us each; steps waited %.1f us each for theirs" % (
        s["masks"], s["masks_cached"], s["mask_us"] / max(s["masks"], 1), s["mask_wait_us"] / s["steps"]))
    print("constrained / unconstrained: %.3f" % (statistics.median(rates[True]) / statistics.median(rates[False])))


main()
