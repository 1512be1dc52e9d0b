"""Open-loop load over HTTP on running servers in turns, from the scenario files of load.py: times to the first piece of
an answer and between pieces (streams of /v1/completions, prompts as ids, greedy, 'ignore_eos').

    ingot serve M.gguf --threads 2 --http 127.0.0.1:8081 ...    # each server in a terminal of its own, idle meanwhile
    llama-server -m M.gguf -t 2 -np 16 --port 8082 ...
    tests/bench/load_http.py SCENARIO --server ingot=127.0.0.1:8081 --server peer=127.0.0.1:8082 --vocab 32000

Priorities and tenants of the scenario are not sent.  A server that is slow is sent no fewer requests.
"""
import argparse
import asyncio
import json
import pathlib
import sys
import time

import load


async def one(address, model, begin, arrival):
    """Sends one request at its time and follows its stream."""
    at, c, i, ids, max_tokens = arrival
    await asyncio.sleep(max(0.0, begin + at - time.perf_counter()))
    r = load.Request(c["name"], time.perf_counter() - begin)
    host, port = address.rsplit(":", 1)
    body = json.dumps({"model": model, "prompt": ids, "max_tokens": max_tokens, "temperature": 0, "stream": True,
                       "ignore_eos": True}).encode()
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n"
                 f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    status = (await reader.readline()).split()
    done = False
    async for line in reader:
        if line.startswith(b"data:") and b"[DONE]" not in line:
            r.times.append(time.perf_counter() - begin)
        done |= b"[DONE]" in line
    writer.close()
    r.failed = status[1:2] != [b"200"] or not r.times or not done
    r.n_tokens = max_tokens
    return r


async def run(address, model, arrivals):
    begin = time.perf_counter()
    return await asyncio.gather(*(one(address, model, begin, a) for a in arrivals))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("scenario", type=pathlib.Path)
    ap.add_argument("--server", action="append", required=True, metavar="NAME=HOST:PORT")
    ap.add_argument("--model-name", default="", help="that requests name")
    ap.add_argument("--vocab", type=int, required=True, help="ids of the prompts are below it")
    ap.add_argument("--rounds", type=int, default=3)
    args = ap.parse_args()
    scenario = json.loads(args.scenario.read_text())
    arrivals = load.arrivals_of(scenario, args.vocab)
    warm = load.arrivals_of({"classes": [{"name": "warm", "count": 2, "prompt": 32, "max_tokens": 8}]}, args.vocab)
    results = [[] for _ in args.server]
    for k in range(args.rounds):
        for n, spec in enumerate(args.server):
            address = spec.split("=", 1)[1]
            asyncio.run(run(address, args.model_name, warm))
            rs = asyncio.run(run(address, args.model_name, arrivals))
            if not any(r.times for r in rs):
                sys.exit(f"{spec}: no request was answered")
            results[n].append(load.measures(scenario, rs))
            print(f"round {k + 1}, {spec}: done", file=sys.stderr)
    print("   ".join(args.server))
    load.print_table(scenario, args.rounds, results)


main()
