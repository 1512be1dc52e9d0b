"""What a lost worker group costs under load: one rank and one thread a group, a constant number of streams, and SIGKILL to the
rank of one group.  `ingot serve` starts it again.  For one group and for two: tokens/s before the kill, in each second
after it, the time until 90 % of the rate before is reached again, the longest time without any token, and the times to the
first token of requests that began in the 10 s before the kill and in the 35 s after it.

    python3 tests/bench/lost_group.py MODEL.gguf [--streams 16] [--tokens 24] [--prompt 16]"""
import argparse
import os
import pathlib
import signal
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import Cluster  # noqa: E402

WARM_S, BEFORE_S, AFTER_S, WINDOW_S = 5.0, 10.0, 35.0, 1.0


class Load:
    """As many streams as asked for, each begun when another one ends."""

    def __init__(self, client, a):
        self.client, self.a, self.number = client, a, 0
        self.begun, self.waits, self.tokens = {}, [], []  # id -> time; (time of the beginning, s to the first token); (time, n)
        for _ in range(a.streams):
            self.begin()

    def begin(self):
        self.number += 1
        prompt = [(self.number * 37 + i * 11) % 200 + 1 for i in range(self.a.prompt)]
        rid = self.client.start(tokens={"id": prompt}, max_tokens=self.a.tokens, sampling={"temperature": 1.0, "seed": self.number,
                                                                                 "ignore_eos": True})
        self.begun[rid] = time.monotonic()

    def run(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                name, m = self.client.recv(timeout=left)
            except TimeoutError:
                return
            now = time.monotonic()
            if name == "Delta" and m.id:
                if m.request_id in self.begun:
                    t0 = self.begun.pop(m.request_id)
                    self.waits.append((t0, now - t0))
                self.tokens.append((now, len(m.id)))
            elif name == "Finish":
                self.begin()
            assert name != "Error", m

    def rate(self, begin, end):
        return sum(n for t, n in self.tokens if begin <= t < end) / (end - begin)

    def first_tokens(self, begin, end):
        """Requests that begin then: p50 and p99 in ms."""
        w = sorted(1000 * s for t, s in self.waits if begin <= t < end)
        if not w:
            return "none"
        return f"{statistics.median(w):.0f} p50, {w[min(len(w) - 1, len(w) * 99 // 100)]:.0f} p99 ({len(w)} requests)"


def run(a, groups):
    with Cluster(a.model, threads=1, extra=["--groups", groups, "--kv-memory", "256M"]) as c:
        tap.wait_for(lambda: len(g := c.clients[0].call("Stats")[1].group) == groups and all(x.active for x in g), "all groups")
        load = Load(c.clients[0], a)
        load.run(WARM_S + BEFORE_S)
        killed = time.monotonic()
        os.kill(c.worker_pids()[0], signal.SIGKILL)
        load.run(AFTER_S)
        before = load.rate(killed - BEFORE_S, killed)
        windows = [load.rate(killed + i * WINDOW_S, killed + (i + 1) * WINDOW_S) for i in range(int(AFTER_S / WINDOW_S))]
        times = [killed, *(t for t, _ in load.tokens if t > killed), killed + AFTER_S]
        gap = max(b - x for x, b in zip(times, times[1:]))
        back = next((i for i in range(len(windows) - 1) if statistics.mean(windows[i:i + 2]) > 0.9 * before), None)
        print(f"{groups} group{'s' * (groups > 1)}: {before:.1f} tokens/s before; each second after the kill: "
              f"{' '.join(f'{w:.0f}' for w in windows[:20])}; 90 % again after "
              f"{'more than 35' if back is None else f'{back * WINDOW_S:.0f}'} s; no token for {gap:.2f} s; tokens that were not computed "
              f"meanwhile: {sum(before - w for w in windows) * WINDOW_S:.0f}", flush=True)
        print(f"  first token, ms: before {load.first_tokens(killed - BEFORE_S, killed)}, "
              f"after {load.first_tokens(killed, killed + AFTER_S)}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--streams", type=int, default=16)
    p.add_argument("--tokens", type=int, default=24)
    p.add_argument("--prompt", type=int, default=16)
    a = p.parse_args()
    for groups in (1, 2):
        run(a, groups)


main()
