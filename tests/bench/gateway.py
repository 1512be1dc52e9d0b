#!/usr/bin/env python3
"""The cost of the HTTP gateway: the same load over ZeroMQ and over HTTP in turns, demo model, one rank, one thread.

    INGOT_BIN=build/release/bin build/venv/bin/python tests/bench/gateway.py [--rounds 5] [--priority -15] [closed] [open] [idle]

closed: tokens a second at 1, 16, 64 and 256 streams.  open: time to the first token at 70 % of the capacity at 64 streams.
idle: memory and descriptors of the gateway with 10,000 idle connections, and beside them 256 active streams.
The CPU time of the gateway and of the coordinator is that of their processes during a run.
"""
import argparse
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE), str(HERE / "cluster"), str(HERE / "gateway")]
from cluster import BIN, DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

TOKENS, PROMPT, VOCAB = 128, 32, 256
CLOSED = {1: 20, 16: 48, 64: 128, 256: 256}  # streams: requests of a run
OPEN_REQUESTS = 200


def cpu_us(pid):
    """User and system time of a process; pid None: of the load generators that have ended."""
    if pid is None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (used.ru_utime + used.ru_stime) * 1e6
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def prefer(pid, priority):
    """On a busy machine: before other processes, also where the kernel groups them by session.  Needs root."""
    for task in os.listdir(f"/proc/{pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(task), priority)
    group = pathlib.Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(priority))


class Bed:
    def __init__(self, c, g):
        self.c, self.g = c, g
        self.pids = {"gateway": g.process.pid, "coordinator": c.coordinator.pid, "driver": None}
        self.where = {"zmq": ["--connect", c.endpoint], "http": ["--http", f"http://127.0.0.1:{g.port}"]}

    def run(self, how, *args):
        before = {n: cpu_us(p) for n, p in self.pids.items()}
        p = subprocess.run([BIN / "ingot", "bench", *self.where[how], "--json", "--vocab", str(VOCAB), "--max-tokens",
                            str(TOKENS), "--prompt-tokens", str(PROMPT), *map(str, args)], capture_output=True, text=True)
        if p.returncode:
            raise SystemExit(f"ingot bench: {p.stdout}{p.stderr}")
        r = json.loads(p.stdout)
        r["cpu"] = {n: (cpu_us(p) - before[n]) / r["completion_tokens"] for n, p in self.pids.items()}
        return r

    def turns(self, rounds, *args):
        """Both paths, in turns; which one is first changes."""
        runs = {"zmq": [], "http": []}
        for i in range(rounds):
            for how in ("zmq", "http") if i % 2 == 0 else ("http", "zmq"):
                runs[how].append(self.run(how, "--seed", i, *args))
        return runs


def median(runs, key):
    return statistics.median(key(r) for r in runs)


def closed(bed, a):
    print("streams  tokens/s ZeroMQ  HTTP  ratio (of each round)  us/token: gateway, coordinator ZeroMQ, HTTP, "
          "driver ZeroMQ, HTTP")
    for streams, requests in CLOSED.items():
        if a.streams and streams not in a.streams:
            continue
        runs = bed.turns(a.rounds, "--concurrency", streams, "--requests", requests)
        speed = {how: median(r, lambda r: r["tokens_per_s"]) for how, r in runs.items()}
        ratios = sorted(h["tokens_per_s"] / z["tokens_per_s"] for z, h in zip(runs["zmq"], runs["http"]))
        cpu = [median(runs[how], lambda r: r["cpu"][name])
               for how, name in (("http", "gateway"), ("zmq", "coordinator"), ("http", "coordinator"),
                                 ("zmq", "driver"), ("http", "driver"))]
        print(f"{streams:7}  {speed['zmq']:15.0f}  {speed['http']:4.0f}  {speed['http'] / speed['zmq']:.3f} "
              f"({' '.join(f'{r:.3f}' for r in ratios)})  {' '.join(f'{v:.1f}' for v in cpu)}", flush=True)


def open_loop(bed, a):
    capacity = median([bed.run("zmq", "--concurrency", 64, "--requests", 192) for _ in range(3)],
                      lambda r: r["requests_per_s"])
    rate = round(0.7 * capacity, 1)
    runs = bed.turns(a.rounds, "--concurrency", 512, "--requests", OPEN_REQUESTS, "--rate", rate)
    print(f"open loop at {rate} requests a second, 70 % of {capacity:.1f}")
    for key in ("p50", "p99"):
        t = {how: median(r, lambda r: r["ttft_ms"][key]) for how, r in runs.items()}
        pairs = sorted(h["ttft_ms"][key] - z["ttft_ms"][key] for z, h in zip(runs["zmq"], runs["http"]))
        print(f"time to first token {key}: ZeroMQ {t['zmq']:.2f} ms, HTTP {t['http']:.2f} ms, added "
              f"{t['http'] - t['zmq']:+.2f} ms (rounds {' '.join(f'{d:+.2f}' for d in pairs)})", flush=True)


def memory(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    rss = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024
    return rss, len(os.listdir(f"/proc/{pid}/fd"))


def idle(bed, _):
    n = 10000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    pid = bed.pids["gateway"]
    print("gateway alone: {:.1f} MiB, {} descriptors".format(*memory(pid)))
    sockets = [socket.create_connection(("127.0.0.1", bed.g.port)) for _ in range(n)]
    for s in sockets:  # each is served once: it is kept alive, not half open
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in s.recv(4096)
    print("{} idle connections: {:.1f} MiB, {} descriptors".format(n, *memory(pid)))
    p = subprocess.Popen([BIN / "ingot", "bench", *bed.where["http"], "--json", "--vocab", str(VOCAB), "--concurrency", "256",
                          "--requests", "512", "--max-tokens", str(TOKENS)], stdout=subprocess.PIPE, text=True)
    most = 0
    while p.poll() is None:
        used, fds = memory(pid)
        if used > most:
            most, at_most = used, fds
        time.sleep(0.1)
    r = json.load(p.stdout)
    assert p.returncode == 0 and r["finished"] == 512, r
    print(f"256 streams beside them, {r['tokens_per_s']:.0f} tokens/s: at most {most:.1f} MiB, {at_most} descriptors")
    for s in sockets:
        s.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="*", default=["closed", "open", "idle"])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--streams", type=int, nargs="+", help="of closed: these alone")
    p.add_argument("--priority", type=int, default=0, help="of all processes, -20 to 0")
    a = p.parse_args()
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        bed = Bed(c, g)
        for pid in (os.getpid(), g.process.pid, c.coordinator.pid, *c.worker_pids()) if a.priority else ():
            prefer(pid, a.priority)
        bed.run("zmq", "--requests", 16)
        for part in a.parts:
            {"closed": closed, "open": open_loop, "idle": idle}[part](bed, a)


if __name__ == "__main__":
    main()
