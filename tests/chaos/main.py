"""Faults from seeds, while streams run: see README.md.

    main.py --seed 7 --rounds 8          one run, as its seed says
    main.py --minutes 3 --kinds kill_rank,kill_coordinator
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "cluster")]
sys.path.append(str(HERE.parent / "hosts"))  # last: it has a streams.py too
import faults  # noqa: E402
import namespaces  # noqa: E402
import network  # noqa: E402
import plan  # noqa: E402
import rounds  # noqa: E402
import streams  # noqa: E402
import worlds  # noqa: E402

WORLDS = {"Served": worlds.Served, "Fleet": worlds.Fleet, "Network": network.Network}
CALM = {"tp": 1, "coll": "auto", "groups": 1, "journal": False, "kv_blocks": 4096}


def undisturbed():
    """The answers of all streams of the catalogue, from a cluster of one rank."""
    with worlds.Served(CALM) as c:
        c.settle()
        wanted = rounds.undisturbed(c, streams.catalogue())
        left = c.end()
        assert not left, left
    return wanted


def begin(run):
    print(f"seed {run.seed}: {run.world} {run.shape}, {len(run.rounds)} rounds", flush=True)
    return WORLDS[run.world](run.shape)


def one_round(cluster, r, wanted):
    """(line of the record, what was wrong)."""
    t0 = time.monotonic()
    outcomes, done = rounds.ask(cluster, r.specs, r.faults)
    bad = rounds.compare(outcomes, wanted)
    if not bad:
        try:
            cluster.settle()
        except AssertionError as e:
            bad.append(str(e))
    told = rounds.silences(done, outcomes)
    seconds = time.monotonic() - t0
    print(f"  round {r.number}: {len(outcomes)} streams, {seconds:.1f} s, {len(r.faults) - len(told)} faults came too late; " +
          ", ".join(f"{kind}{' at ' + repr(step) if step else ''}: silence {every} ms, of one stream {one}"
                    for kind, step, every, one in told), flush=True)
    return {"streams": len(outcomes), "faults": told}, bad


def one_run(run, wanted):
    """(Lines of the record, what was wrong): the first round that fails is the last one."""
    lines = []
    with begin(run) as cluster:
        cluster.settle()
        bad = []
        for r in run.rounds:
            line, bad = one_round(cluster, r, wanted)
            if bad:
                break
            lines.append(line)
        bad = bad or [f"left behind: {kind} {name}" for kind, name in cluster.end()]
        if bad:
            print(cluster.log()[-12000:])
    for b in bad[:10]:
        print("  " + b[:3000])
    return lines, bad


def options(argv=None):
    p = argparse.ArgumentParser(description="Faults, drawn from seeds, while streams run; each answer must have the bytes that "
                                "it has without faults, and nothing may be left behind.")
    p.add_argument("--seed", type=int, default=1, help="of the first run; the next runs have the next seeds (default 1)")
    p.add_argument("--runs", type=int, default=1, help="how many seeds (default 1)")
    p.add_argument("--minutes", type=float, help="instead of --runs: begin runs for so long")
    p.add_argument("--rounds", type=int, default=6, help="of each run, on one cluster (default 6)")
    p.add_argument("--kinds", help="only these faults, with commas: " + ", ".join(faults.FAULTS))
    p.add_argument("--most", type=int, help="faults of a round, and at least half as many (default: 1 to 4)")
    p.add_argument("--world", choices=list(WORLDS), help="only this cluster (Network: needs root)")
    p.add_argument("--record", help="append a line of JSON to this file (record.py adds them up)")
    o = p.parse_args(argv)
    o.kinds = o.kinds.split(",") if o.kinds else None
    if o.most is not None and o.most < 1:
        p.error("--most is 1 or more")
    unknown = set(o.kinds or ()) - set(faults.FAULTS)
    if unknown:
        p.error(f"no such kinds: {', '.join(sorted(unknown))}")
    if o.world == "Network" and (why := namespaces.missing()):
        p.error(why)
    return o


def options_text(o):
    """The options that a seed's plan depends on."""
    more = [f"--kinds {','.join(o.kinds)}"] if o.kinds else []
    more += [f"--most {o.most}"] if o.most else []
    more += [f"--world {o.world}"] if o.world else []
    return " ".join([f"--rounds {o.rounds}", *more])


def seeds(o):
    end = time.monotonic() + 60 * o.minutes if o.minutes else None
    seed = o.seed
    while (time.monotonic() < end) if end else seed < o.seed + o.runs:
        yield seed
        seed += 1


def commit():
    return subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


def own_shared_memory():
    """Starts the program again with a /dev/shm of its own where that is allowed, so that a segment left there is its own."""
    if sys.platform != "linux" or os.environ.get("INGOT_CHAOS_SHM"):
        return
    script = "mount -t tmpfs tmpfs /dev/shm && exec \"$@\""
    inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    os.environ["INGOT_CHAOS_SHM"] = "shared"
    if subprocess.run([*inside, "true"], capture_output=True).returncode == 0:
        os.environ["INGOT_CHAOS_SHM"] = "own"
        os.execvp(inside[0], [*inside, sys.executable, *sys.argv])


def end(*_):
    """Clusters are taken down on the way, whatever signals come meanwhile: timeout(1) sends two."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def write_record(o, before, record):
    """The line of this program, behind the bytes that were there: written again after each run, so that none is lost."""
    with open(o.record, "a") as out:
        out.truncate(before)
        out.write(json.dumps(record) + "\n")


def main():
    o = options()
    own_shared_memory()
    signal.signal(signal.SIGTERM, end)
    wanted, lines, last, bad = undisturbed(), [], o.seed, []
    before = os.path.getsize(o.record) if o.record and os.path.exists(o.record) else 0
    for seed in seeds(o):
        more, bad = one_run(plan.of_seed(seed, o.rounds, o.kinds, o.world, o.most), wanted)
        lines += more
        last = seed
        if o.record:
            write_record(o, before, {"commit": commit(), "seeds": [o.seed, last], "options": options_text(o), "rounds": lines,
                                     "failed": bad[0][:200] if bad else None})
        if bad:
            break
    if bad:
        raise SystemExit(f"seed {last} failed; again with: tests/chaos/main.py --seed {last} {options_text(o)}")
    print(f"{len(lines)} rounds, {sum(len(line['faults']) for line in lines)} faults: no byte differs, nothing is left")


if __name__ == "__main__":
    main()
