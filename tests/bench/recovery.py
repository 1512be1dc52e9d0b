"""How long streams are silent when a rank or the coordinator is lost: 8 streams on `ingot serve --tp 2`; a rank is killed
(SIGKILL) or stopped (SIGSTOP), or the coordinator is killed, at a random token; the longest silence of all streams together
from then on.

    python3 tests/bench/recovery.py --rounds 20                        # all faults, one group
    python3 tests/bench/recovery.py --rounds 20 --groups 2 --faults 1:KILL
    INGOT_BIN=OTHER/bin python3 tests/bench/recovery.py                # another build

One row a fault: rounds, median and worst silence in seconds, launches of worker groups for the losses, answers that
differ from the undisturbed ones (must be 0).  A round whose fault came after the last token is repeated.
"""
import argparse
import asyncio
import os
import pathlib
import random
import signal
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster"), str(HERE.parents[1] / "client/python")]
import ingot  # noqa: E402
import tap  # noqa: E402
from cluster import DEMO, Cluster, children, command_of, model  # noqa: E402
from ingot_client import Answer  # noqa: E402

MODEL = model("stories260K") or DEMO
STREAMS = 8


def variable(pid, name):
    for entry in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
        key, _, value = entry.partition(b"=")
        if key.decode(errors="replace") == name:
            return value.decode()
    return None


def groups(c):
    """{pid of the job: {rank: pid}} of the groups of `ingot serve`."""
    found = {}
    for job in [p for p in children(c.serve.pid) if command_of(p) == "mpirun"]:
        ranks = [p for p in children(job) if command_of(p).endswith("ingot-worker")]
        try:
            found[job] = {int(variable(p, "OMPI_COMM_WORLD_RANK")): p for p in ranks}
        except (OSError, TypeError):
            continue  # one of them is starting or ending
    return found


class Bench:
    def __init__(self, args):
        self.args = args
        self.rng = random.Random(args.seed)

    def start(self, client):
        return [client.start(text=b"Once upon a time" if i % 2 else b"The little dog", max_tokens=self.args.tokens,
                             sampling={"temperature": 0.0 if i < 4 else 0.9, "seed": i + 1, "top_k": 40,
                                       "ignore_eos": True, "logprobs": True})
                for i in range(STREAMS)]

    def busiest(self, c):
        """The group that computes: its ranks have used most processor time since the last look."""
        def used(pid):
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                return int(fields[11]) + int(fields[12])
            except OSError:
                return 0
        now = {job: (ranks, sum(map(used, ranks.values()))) for job, ranks in groups(c).items() if len(ranks) == 2}
        best = max(now, key=lambda j: now[j][1] - self.before.get(j, 0), default=None)
        self.before = {j: t for j, (_, t) in now.items()}
        return now[best][0] if best else None

    def all_groups(self, c):
        def there():
            stats = c.clients[0].call("Stats")[1]
            whole = [ranks for ranks in groups(c).values() if len(ranks) == 2]
            return stats.ready and len(stats.group) == len(whole) == self.args.groups
        tap.wait_for(there, "all groups")

    def round(self, c, oracle, rank, sig):
        """Seconds of silence, or None when the fault met nothing."""
        client = c.clients[0]
        self.all_groups(c)
        self.before = {}
        self.busiest(c)
        before = client.call("Stats")[1].recoveries
        rids = self.start(client)
        answers = {rid: Answer() for rid in rids}
        n, seen = self.rng.randrange(1, STREAMS * self.args.tokens // 8), 0
        while seen < n:
            name, m = client.recv()
            answers[m.request_id].take(name, m)
            seen += name == "Delta"
        ranks = self.busiest(c) if self.args.groups > 1 else next(iter(groups(c).values()), None)
        if not ranks or rank not in ranks:
            client.collect(rids, answers=answers)
            return None
        open_ids = {r for r in rids if not answers[r].terminals}
        last = time.monotonic()
        longest = 0.0
        os.kill(ranks[rank], sig)
        while open_ids:
            name, m = client.recv(tap.LIMIT)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            if m.request_id in answers and answers[m.request_id].take(name, m):
                open_ids.discard(m.request_id)
        for rid, o in zip(rids, oracle):
            assert answers[rid].finish, answers[rid].error
            self.wrong += answers[rid].key() != o
        if client.call("Stats")[1].recoveries == before:
            return None
        return longest

    def fault(self, rank, sig):
        a = self.args
        extra = ["--groups", a.groups, *a.extra]
        self.wrong, times = 0, []
        with Cluster(MODEL, tp=2, extra=["--step-deadline-ms", a.step_deadline_ms, *extra]) as c:
            client = c.clients[0]
            rids = self.start(client)
            got = client.collect(rids)
            oracle = [got[r].key() for r in rids]
            begun = c.log().count("starting it again")
            for _ in range(4 * a.rounds):
                if len(times) == a.rounds:
                    break
                seconds = self.round(c, oracle, rank, sig)
                if seconds is not None:
                    times.append(seconds)
                    if a.verbose:
                        print(f"  {seconds:.3f}", flush=True)
            self.all_groups(c)
            launches = c.log().count("starting it again") - begun
            losses = client.call("Stats")[1].recoveries
        times.sort()
        print(f"rank {rank} {sig.name[3:]:4} groups {a.groups}: {len(times)} rounds, silence median "
              f"{statistics.median(times):.2f} s, worst {times[-1]:.2f} s; {losses} losses, {launches} launches, "
              f"{self.wrong} wrong answers", flush=True)


class CoordinatorBench:
    """The streams of the Python package, which connects again by itself."""

    def __init__(self, args):
        self.args = args
        self.rng = random.Random(args.seed)

    def tick(self):
        now = time.monotonic()
        if self.killed:
            self.longest = max(self.longest, now - self.last)
        self.last = now

    def note(self):
        self.tick()
        self.seen += 1
        if self.seen == self.kill_at:
            self.killed = True
            os.kill(next(p for p in children(self.c.serve.pid) if command_of(p).endswith("ingot-coordinator")),
                    signal.SIGKILL)

    async def follow(self, stream):
        async for _ in stream:
            self.note()
        self.tick()
        return [(s.ids, s.text, s.logprobs) for s in (await stream.result()).samples]

    async def answers(self, kill_at):
        self.kill_at, self.seen, self.killed, self.longest, self.last = kill_at, 0, False, 0.0, 0.0
        async with ingot.AsyncClient(self.c.endpoint, timeout=tap.LIMIT) as client:
            await client.wait_ready()
            streams = [await client.generate("Once upon a time" if i % 2 else "The little dog", seed=i + 1, top_k=40,
                                             max_tokens=self.args.tokens, temperature=0.0 if i < 4 else 0.9,
                                             ignore_eos=True, logprobs=True) for i in range(STREAMS)]
            got = await asyncio.gather(*[self.follow(s) for s in streams])
            self.met = any(s._request.resends for s in streams)  # else every token had come before
            return got

    def run(self):
        times, wrong = [], 0
        with Cluster(MODEL, tp=2, extra=self.args.extra) as self.c:
            oracle = asyncio.run(self.answers(0))
            while len(times) < self.args.rounds:
                got = asyncio.run(self.answers(self.rng.randrange(1, self.seen // 2)))
                wrong += sum(a != b for a, b in zip(got, oracle))
                if not self.met:
                    continue
                times.append(self.longest)
                if self.args.verbose:
                    print(f"  {self.longest:.3f}", flush=True)
            launches = self.c.log().count("worker group ended")
        times.sort()
        print(f"coordinator KILL: {len(times)} rounds, silence median {statistics.median(times):.2f} s, worst "
              f"{times[-1]:.2f} s; {launches} launches of groups, {wrong} wrong answers", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--groups", type=int, default=1)
    p.add_argument("--tokens", type=int, default=440)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--step-deadline-ms", type=int, default=1000)
    p.add_argument("--faults", nargs="*", default=["0:KILL", "1:KILL", "0:STOP", "1:STOP", "coordinator"],
                   metavar="RANK:SIGNAL|coordinator")
    p.add_argument("--extra", nargs="*", default=[], help="further options of ingot serve")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    bench = Bench(args)
    for f in args.faults:
        if f == "coordinator":
            CoordinatorBench(args).run()
            continue
        rank, name = f.split(":")
        bench.fault(int(rank), signal.Signals["SIG" + name])


main()
