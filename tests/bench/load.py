"""Open-loop load on builds of Ingot in turns, from scenario files: times to the first token and between tokens.

    tests/bench/load.py tests/bench/scenarios/long_beside_decodes.json --bin OLD/bin --bin build/release/bin --rounds 3

Each round starts each build's coordinator and worker anew, sends the same requests at the same times and prints one
table; at the end the medians over the rounds, side by side.  A server that is slow is sent no fewer requests.

A scenario is a JSON object:
    about      one line
    seed       of prompts, lengths and arrivals
    model      a folder, beside tests/.. (default deploy/demo-model); max_ctx: its context, instead of its own
    threads    of the worker (default 1)
    options    {"worker": [...], "coordinator": [...]}
    goal       {"ttft_ms": x, "itl_ms": y}: a request is good when its first token and 99 % of the others keep it
    classes    a list of
      name, at (seconds), prompt and max_tokens (numbers, or lists to draw from), priority, tenants (default 1)
      count        that many at once, or
      rate, for    Poisson arrivals a second, for so many seconds; burst: so many at each arrival
      beside       name of another class: its time between tokens is reported for the while in which a request
                   of that one waits for its first token, and for the rest
"""
import argparse
import gc
import json
import pathlib
import random
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cluster"), str(HERE.parent)]
import cluster  # noqa: E402
import ingot_client  # noqa: E402
import temp_dir  # noqa: E402
import zmq  # noqa: E402

FINISH, ERROR, REJECTED, DELTA = (ingot_client.TYPES[n] for n in ("FINISH", "ERROR", "REJECTED", "DELTA"))
WARM_UP_S = 1.0


def with_context(folder, max_ctx, into):
    """The model with another longest context: links to its files and an edited config.json."""
    into = pathlib.Path(into) / "model"
    into.mkdir()
    for f in pathlib.Path(folder).iterdir():
        if f.name != "config.json":
            (into / f.name).symlink_to(f.resolve())
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    config["max_position_embeddings"] = max_ctx
    (into / "config.json").write_text(json.dumps(config))
    return into


def arrivals_of(scenario, vocab):
    """[(seconds, class of the scenario, number in the class, prompt's ids, max_tokens)] in order of time; the same
    for every build and server."""
    out = []
    for c in scenario["classes"]:
        rng = random.Random(f"{scenario.get('seed', 0)} {c['name']}")
        times = [c.get("at", 0.0)] * c.get("count", 0)
        at = c.get("at", 0.0)
        while "rate" in c and (at := at + rng.expovariate(c["rate"])) < c.get("at", 0.0) + c["for"]:
            times += [at] * c.get("burst", 1)

        def draw(v):
            return rng.choice(v) if isinstance(v, list) else v
        for i, t in enumerate(times):
            ids = [rng.randrange(5, vocab) for _ in range(draw(c["prompt"]))]
            out.append((t, c, i, ids, draw(c["max_tokens"])))
    return sorted(out, key=lambda r: r[0])


def requests_of(scenario, vocab):
    """[(seconds, class, tenant, id, message)] in order of time."""
    out = []
    for t, c, i, ids, max_tokens in arrivals_of(scenario, vocab):
        rid = f"{c['name']}-{i}"
        body = ingot_client.pack("Generate", request_id=rid, tokens={"id": ids}, max_tokens=max_tokens,
                                 priority=c.get("priority", 0), sampling={"temperature": 0.0, "ignore_eos": True})
        out.append((t, c["name"], f"{c['name']} {i % c.get('tenants', 1)}", rid, body))
    return out


def send_and_receive(endpoint, requests):
    """{request id: time sent}, [(time, frame)].  Nothing is decoded while it runs."""
    clients = {t: ingot_client.Client(endpoint, tenant=t.encode()) for t in sorted({r[2] for r in requests})}
    poller, sent, frames, left, i = zmq.Poller(), {}, [], len(requests), 0
    for c in clients.values():
        poller.register(c.sock, zmq.POLLIN)
    ends = tuple(n.to_bytes(2, "little") for n in (FINISH, ERROR, REJECTED))
    gc.disable()
    begin = time.perf_counter()
    while left:
        now = time.perf_counter() - begin
        while i < len(requests) and requests[i][0] <= now:
            sent[requests[i][3]] = time.perf_counter() - begin
            clients[requests[i][2]].sock.send(requests[i][4])
            i += 1
        wait = 1000 * (requests[i][0] - now) if i < len(requests) else 60000
        for sock, _ in poller.poll(max(0.0, wait)):
            try:
                while True:
                    frame = sock.recv(zmq.NOBLOCK)
                    frames.append((time.perf_counter() - begin, frame))
                    left -= frame[6:8] in ends
            except zmq.Again:
                pass
    gc.enable()
    for c in clients.values():
        c.close()
    return sent, frames


class Request:
    def __init__(self, name, sent):
        self.name, self.sent, self.times, self.n_tokens, self.failed = name, sent, [], 0, False

    def ttft(self):
        return 1000 * (self.times[0] - self.sent)

    def gaps(self):
        return [(b, 1000 * (b - a)) for a, b in zip(self.times, self.times[1:])]


def read_frames(requests, sent, frames):
    out = {r[3]: Request(r[1], sent[r[3]]) for r in requests}
    for at, frame in frames:
        name, m = ingot_client.unpack(frame)
        if name == "Delta" and len(m.id):
            out[m.request_id].times.append(at)
            out[m.request_id].n_tokens += len(m.id)
        elif name in ("Error", "Rejected"):
            out[m.request_id].failed = True
    return list(out.values())


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p / 100 * len(values)))] if values else float("nan")


def is_good(r, goal):
    gaps = [g for _, g in r.gaps()]
    return (not r.failed and r.times and r.ttft() <= goal["ttft_ms"]
            and (not gaps or percentile(gaps, 99) <= goal["itl_ms"]))


def measures(scenario, rs):
    """{name of a measure: value}"""
    out = {}
    for c in scenario["classes"]:
        mine = [r for r in rs if r.name == c["name"] and r.times]
        first, last = min(r.sent for r in mine), max(r.times[-1] for r in mine)
        out[f"{c['name']}: failed"] = sum(r.failed for r in rs if r.name == c["name"])
        for p in (50, 99):
            out[f"{c['name']}: first token p{p} ms"] = percentile([r.ttft() for r in mine], p)
        waits = [(r.sent, r.times[0]) for r in rs if r.name == c.get("beside") and r.times]
        gaps = [g for r in mine for g in r.gaps()]
        parts = {"": gaps}
        if waits:
            beside = [g for g in gaps if any(a <= g[0] <= b for a, b in waits)]
            quiet = [g for g in gaps if g[0] < min(a for a, _ in waits) and g[0] > first + WARM_UP_S / 4]
            parts = {f" beside {c['beside']}": beside, " before": quiet}
        for label, part in parts.items():
            for p in (50, 99):
                if part:
                    out[f"{c['name']}: between tokens{label} p{p} ms"] = percentile([g for _, g in part], p)
        out[f"{c['name']}: tokens/s"] = sum(r.n_tokens for r in mine) / max(1e-9, last - first)
    if "goal" in scenario:
        out["requests/s within the goal"] = (sum(bool(is_good(r, scenario["goal"])) for r in rs) /
                                             max(1e-9, max(r.times[-1] for r in rs if r.times)))
    return out


def cpu_seconds(pids):
    """Of all their threads so far: other processes on the machine disturb it less than the wall clock."""
    return sum(int(t.read_text().split()[0]) for p in pids for t in pathlib.Path(f"/proc/{p}/task").glob("*/schedstat")
               ) / 1e9


def run(scenario, binaries, model, vocab, extra):
    cluster.BIN = binaries
    o = scenario.get("options", {})
    with cluster.Parts(model, threads=scenario.get("threads", 1), worker=o.get("worker", ()),
                       coordinator=[*o.get("coordinator", ()), *extra]) as c:
        warm = {"seed": 1, "classes": [{"name": "warm", "rate": 8, "for": WARM_UP_S, "prompt": [16, 200, 600],
                                        "max_tokens": 24}]}
        send_and_receive(c.endpoint, requests_of(warm, vocab))
        requests = requests_of(scenario, vocab)
        before = cpu_seconds(c.worker_pids())
        sent, frames = send_and_receive(c.endpoint, requests)
        used = cpu_seconds(c.worker_pids()) - before
    return {**measures(scenario, read_frames(requests, sent, frames)), "worker: CPU seconds": used}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("scenario", type=pathlib.Path)
    ap.add_argument("--bin", type=pathlib.Path, action="append", required=True,
                    help="folder of a build's programs; several are run in turns.  DIR,OPTION,... adds options of the "
                         "coordinator")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--json", action="store_true")
    args = ap.parse_args()
    scenario = json.loads(args.scenario.read_text())
    folder = cluster.ROOT / scenario.get("model", "deploy/demo-model")
    vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
    results = [[] for _ in args.bin]
    with temp_dir.folder() as tmp:
        model = with_context(folder, scenario["max_ctx"], tmp) if "max_ctx" in scenario else folder
        for k in range(args.rounds):
            for i, spec in enumerate(args.bin):
                binaries, *extra = str(spec).split(",")
                results[i].append(run(scenario, pathlib.Path(binaries).resolve(), model, vocab, extra))
                print(f"round {k + 1}, build {i + 1}: done", file=sys.stderr)
    if args.json:
        json.dump([[dict(r) for r in rs] for rs in results], sys.stdout)
    else:
        print_table(scenario, args.rounds, results)


def print_table(scenario, rounds, results):
    """results[build or server][round]: measures"""
    print(f"{scenario['about']}\nmedians of {rounds} rounds in turns; in parentheses least and greatest")
    for name in results[0][0]:
        row = []
        for rs in results:
            v = [r[name] for r in rs if name in r]
            row.append(f"{statistics.median(v):10.2f} ({min(v):.2f} to {max(v):.2f})" if v else f"{'-':>10}")
        print(f"{name:46} " + "   ".join(f"{x:34}" for x in row))


if __name__ == "__main__":
    main()
