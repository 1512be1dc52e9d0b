"""A small part of the campaign of main.py, with fixed seeds: answers keep their bytes whatever fails, and nothing is left."""
import contextlib
import os
import pathlib
import subprocess
import sys
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "cluster")]
sys.path.append(str(HERE.parent / "hosts"))  # last: it has a streams.py too
import namespaces  # noqa: E402
import plan  # noqa: E402
import streams  # noqa: E402
import tap  # noqa: E402
import worlds  # noqa: E402

RUN = "INGOT_CHAOS_RUN"  # in the environment of a campaign
EVERYTHING = "INGOT_ALL" in os.environ


def campaign(*args):
    p = subprocess.run([sys.executable, HERE / "main.py", *map(str, args)], capture_output=True, text=True)
    print("    " + p.stdout[-300:].strip().splitlines()[-1] if p.stdout else "")
    assert p.returncode == 0, p.stdout[-6000:] + p.stderr[-3000:]


@tap.case
def a_seed_gives_one_plan():
    runs = [plan.of_seed(seed, 4) for seed in range(40)]
    assert runs == [plan.of_seed(seed, 4) for seed in range(40)]
    assert {r.world for r in runs} == {"Served", "Fleet"}
    planned = [f for run in runs for r in run.rounds for f in r.faults]
    assert {f.kind for f in planned} >= {"kill_rank", "kill_coordinator", "stop_rank", "cut_workers", "full_disk", "half_frames"}
    assert sum(bool(f.step) for f in planned) > len(planned) / 2, "at named steps"
    for run in runs:
        for r in run.rounds:
            kinds = [s.kind for s in r.specs]
            assert all(10 * kinds.count(k) >= len(kinds) for k in streams.KINDS), kinds


@tap.case
def kinds_of_one_world_only():
    run = plan.of_seed(3, 5, ["kill_rank"], "Fleet")
    assert {f.kind for r in run.rounds for f in r.faults} == {"kill_rank"} and run.world == "Fleet"
    planned = {f.kind for seed in range(40) for r in plan.of_seed(seed, 4, None, "Network").rounds for f in r.faults}
    assert planned >= {"cut_link", "cut_one_way", "cut_head", "lose_host", "add_group", "remove_group", "kill_group"}
    assert not planned & {"cut_workers", "silence_clients"}, "there are no ways of sockets between hosts"


@tap.case
def more_faults_a_round():
    counts = {len(r.faults) for seed in range(40) for r in plan.of_seed(seed, 4, None, None, 9).rounds}
    assert counts == {5, 6, 7, 8, 9}, counts


@tap.case
def under_a_supervisor():
    campaign("--seed", 270, "--world", "Served", "--runs", 40 if EVERYTHING else 1, "--rounds", 3)


@tap.case
def parts_and_cut_ways():
    campaign("--seed", 270, "--world", "Fleet", "--runs", 20 if EVERYTHING else 1, "--rounds", 3)


@tap.case
def signals_leave_nothing_behind():
    """SIGTERM again and again, as of timeout(1), while a cluster runs."""
    mark = uuid.uuid4().hex
    command = [sys.executable, HERE / "main.py", "--seed", "270", "--world", "Fleet", "--rounds", "40"]
    with subprocess.Popen(command, env={**os.environ, RUN: mark}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
        while not p.stdout.readline().startswith("  round 0"):
            assert p.poll() is None
        assert any("ingot-gateway" in name for _, name in worlds.marked(mark, RUN))
        while p.poll() is None:
            p.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                p.wait(0.05)
        p.stdout.read()
    left = worlds.marked(mark, RUN)
    assert p.returncode == 143 and not left, (p.returncode, left)


@tap.case
def hours_without_faults():
    if not EVERYTHING:
        raise tap.Skip("only with --all")
    command = [sys.executable, HERE / "soak.py", "--minutes", "6", "--window", "1"]
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600)
    assert p.returncode == 0, p.stdout[-8000:]


@tap.case
def hosts_and_links():
    if why := namespaces.missing():
        raise tap.Skip(f"not shown: {why}")
    campaign("--seed", 284, "--world", "Network", "--runs", 10 if EVERYTHING else 1, "--rounds", 2)


tap.main()
