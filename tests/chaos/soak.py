"""Hours of streams on one `ingot serve`, without faults: bytes, memory, descriptors, threads and latency, from start to end.

    soak.py --minutes 60 [--streams 16] [--tp 2] [--rest 1] [--window 5]

Rounds of the catalogue's streams (streams.py) by all ways in, with a rest after each; every answer must have the bytes of a
quiet cluster.  Behind each window of minutes, when no request is left, a line tells for each program the private memory, the
descriptors and the threads of its processes, and for all streams of the window the times to the first part of an answer and
between parts.  At the end each program must have the descriptors (within 2: a connection may be ending) and threads that it had
behind the first window, and the memory that it had in the middle, within --growth percent and a MiB."""
import argparse
import os
import pathlib
import random
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "cluster")]
import main as campaign  # noqa: E402
import rounds  # noqa: E402
import streams  # noqa: E402
import worlds  # noqa: E402

PROGRAMS = ["ingot", "ingot-coordinator", "ingot-gateway", "ingot-worker"]


def status_of(pid, field):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/status has no {field}")


class Usage:
    """Of all processes of a program."""

    def __init__(self, pids):
        self.mib = sum(status_of(p, "RssAnon") for p in pids) / 1024
        self.descriptors = sum(len(os.listdir(f"/proc/{p}/fd")) for p in pids)
        self.threads = sum(status_of(p, "Threads") for p in pids)

    def __str__(self):
        return f"{self.mib:.1f} MiB, {self.descriptors} descriptors, {self.threads} threads"


def usage(cluster):
    return {name: Usage([cluster.serve.pid] if name == "ingot" else cluster.pids(name)) for name in PROGRAMS}


def quantiles(seconds):
    s = sorted(seconds)
    return "p50 {:.0f}, p99 {:.0f} ms".format(*(1000 * s[int(q * (len(s) - 1))] for q in (0.5, 0.99)))


class Window:
    def __init__(self):
        self.begin, self.streams, self.first, self.between = time.monotonic(), 0, [], []

    def add(self, sent, outcomes):
        self.streams += len(outcomes)
        for times in (o.arrivals.times for o in outcomes):
            self.first += [t - sent for t in times[:1]]
            self.between += [b - a for a, b in zip(times, times[1:])]

    def __str__(self):
        return f"{self.streams} streams; first part {quantiles(self.first)}; between parts {quantiles(self.between)}"


def grown(before, middle, now, percent):
    """What is not as it was, as words."""
    out = []
    for name in PROGRAMS:
        a, m, n = before[name], middle[name], now[name]
        if n.descriptors > a.descriptors + 2 or n.threads > a.threads:
            out.append(f"{name}: {a} became {n}")
        if n.mib > m.mib * (1 + percent / 100) + 1:
            out.append(f"{name}: memory grew from {m.mib:.1f} to {n.mib:.1f} MiB in the second half")
    return out


def soak(cluster, o, wanted):
    """What was wrong."""
    rng, end, lines = random.Random(o.seed), time.monotonic() + 60 * o.minutes, []
    while time.monotonic() < end:
        window = Window()
        while time.monotonic() < min(end, window.begin + 60 * o.window):
            sent = time.monotonic()
            outcomes, _ = rounds.ask(cluster, streams.choose(rng, o.streams))
            window.add(sent, outcomes)
            if bad := rounds.compare(outcomes, wanted):
                return bad
            time.sleep(o.rest)
        cluster.settle()
        lines.append(usage(cluster))
        print(f"{len(lines) * o.window:g} min: {window}", flush=True)
        for name, u in lines[-1].items():
            print(f"  {name}: {u}", flush=True)
    return grown(lines[0], lines[len(lines) // 2], lines[-1], o.growth)


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--minutes", type=float, default=60, help="how long (default 60)")
    p.add_argument("--streams", type=int, default=16, help="of a round (default 16)")
    p.add_argument("--tp", type=int, default=2, help="ranks (default 2)")
    p.add_argument("--rest", type=float, default=1, help="seconds between rounds (default 1)")
    p.add_argument("--window", type=float, default=5, help="minutes of a line (default 5)")
    p.add_argument("--growth", type=float, default=3, help="of memory in the second half, in percent (default 3)")
    p.add_argument("--seed", type=int, default=1, help="of the choice of streams (default 1)")
    o = p.parse_args()
    if o.window <= 0 or o.minutes < 2 * o.window:
        p.error("--minutes is at least two times --window, which is more than 0")
    return o


def main():
    o = options()
    campaign.own_shared_memory()
    signal.signal(signal.SIGTERM, campaign.end)
    wanted = campaign.undisturbed()
    with worlds.Served({**campaign.CALM, "tp": o.tp, "journal": True}) as cluster:
        cluster.settle()
        bad = soak(cluster, o, wanted)
        bad = bad or [f"left behind: {kind} {name}" for kind, name in cluster.end()]
        if bad:
            print(cluster.log()[-12000:])
    if bad:
        raise SystemExit("\n".join(bad[:10]))
    print("no byte differs, nothing has grown, nothing is left")


if __name__ == "__main__":
    main()
