"""The second claim: kill any rank and the stream goes on with the bytes it would have had; and a client that
dies gives its blocks back."""
import contextlib
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
from cluster import BIN, DEMO, Cluster, Parts, children, command_of, model, mpirun_command  # noqa: E402

MODEL = model("stories260K") or DEMO
ROUNDS = 20 if "INGOT_ALL" in os.environ else 8
STREAMS = 8
TOKENS = 320


def start(client, top_k):
    return [client.start(text=b"Once upon a time" if i % 2 else b"The little dog",
                         max_tokens=TOKENS,
                         sampling={"temperature": 0.0 if i < 4 else 0.9, "seed": i + 1, "top_k": top_k,
                                   "ignore_eos": True, "logprobs": True})
            for i in range(STREAMS)]


def finish(client, rids):
    got = client.collect(rids)
    for rid in rids:
        assert got[rid].finish, got[rid].error
    return [got[rid] for rid in rids]


def read_some(client, rids, n):
    """Reads messages until n deltas came; what was read stays with the answers."""
    from ingot_client import Answer
    answers = {rid: Answer() for rid in rids}
    seen = 0
    while seen < n:
        name, m = client.recv()
        if m.request_id in answers:
            answers[m.request_id].take(name, m)
            seen += name == "Delta"
    return answers


def recover(c, client, rids, answers, hurt):
    """Hurts the group, reads to the end; seconds until the next delta after that."""
    pending = {r for r in rids if not answers[r].terminals}
    t0 = time.monotonic()
    hurt()
    # what was already under way does not count: recovery is the longest silence from now on
    last, longest = t0, 0.0
    while pending:
        name, m = client.recv()
        now = time.monotonic()
        longest = max(longest, now - last)
        last = now
        if m.request_id in answers and answers[m.request_id].take(name, m):
            pending.discard(m.request_id)
    for r in rids:
        assert answers[r].finish, answers[r].error
    return longest, [answers[r] for r in rids]


def whole_group(c):
    """The ranks, when there is a group of two: a kill after the last token is noticed late."""
    def ranks():
        c.client().wait_ready()
        pids = c.worker_pids()
        return pids if len(pids) >= 2 else None
    return tap.wait_for(ranks, "a whole group")


def mpi_rank(pid):
    environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(int(v.split(b"=")[1]) for v in environ if v.startswith(b"OMPI_COMM_WORLD_RANK="))


def assert_one_launch_for_each_loss(c, faults):
    """A group that was hit before the coordinator knew it is launched again too, and is no loss."""
    log = c.log()
    assert log.count("is lost:") <= log.count("starting it again") <= faults, (faults, log[-4000:])


def kill_rounds(sig, rounds, extra=(), top_k=40):
    """top_k 40: devices draw all tokens, so two steps are in flight; 0: the host draws."""
    rng = random.Random(7)
    times = []
    with Cluster(MODEL, tp=2, extra=["--step-deadline-ms", "1000", *extra]) as c:
        client = c.clients[0]
        oracle = [a.key() for a in finish(client, start(client, top_k))]
        assert len(set(oracle)) == STREAMS - 2, "greedy answers to two prompts, four seeds"
        for i in range(20 * rounds):
            # a victim after the last token costs nothing: go on until enough were hit
            if i >= rounds and client.call("Stats")[1].recoveries >= (1 if extra else rounds // 2):
                break
            ranks = whole_group(c)
            rids = start(client, top_k)
            answers = read_some(client, rids, rng.randrange(1, STREAMS * TOKENS // 4))
            victim = rng.choice(ranks)

            def hurt():
                with contextlib.suppress(ProcessLookupError):  # it may have ended by itself: a step took too long
                    os.kill(victim, sig)
            seconds, got = recover(c, client, rids, answers, hurt)
            times.append(seconds)
            for k, (a, o) in enumerate(zip(got, oracle)):
                assert a.key() == o, f"round {i}: stream {k} has other bytes"
        stats = client.call("Stats")[1]
        assert stats.recoveries >= (1 if extra else rounds // 2), stats.recoveries
        whole_group(c)
        assert_one_launch_for_each_loss(c, len(times))
        assert (stats.steps_overlapped > stats.steps // 2) == (top_k > 0), stats
    print(f"    {len(times)} rounds, {stats.recoveries} recoveries; longest silence of a stream: median "
          f"{statistics.median(times):.2f} s, greatest {max(times):.2f} s")


def shared_segments(pid):
    """Open MPI's shared memory in a rank: a path for each file."""
    lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line[line.index("/"):] for line in lines if "vader_segment." in line or "/sm_segment." in line}


@tap.case
def killed_at_once_leaves_no_segment():
    """mpirun and all of its ranks: Open MPI's files of shared memory have lost their names before."""
    with Parts(MODEL, tp=2) as c:
        launcher, ranks = c.procs[-1], whole_group(c)
        segments = [shared_segments(pid) for pid in ranks]
        if not all(segments):
            raise tap.Skip("this Open MPI shares memory in another way")
        assert segments[0] == segments[1] and len(segments[0]) == 2, segments
        names = [name.removesuffix(" (deleted)") for name in segments[0]]
        assert not any(os.path.exists(name) for name in names), segments
        for pid in [launcher.pid, *ranks]:
            os.kill(pid, signal.SIGKILL)
        launcher.wait(tap.LIMIT)
        assert not any(os.path.exists(name) for name in names), names


@tap.case
def ended_as_asked_says_nothing_of_segments():
    """The names are there again when Open MPI removes its files."""
    with Parts(MODEL, tp=2) as c:
        launcher, ranks = c.procs[-1], whole_group(c)
        names = [name.removesuffix(" (deleted)") for name in shared_segments(ranks[0])]
        c.coordinator.send_signal(signal.SIGTERM)
        assert launcher.wait(tap.LIMIT) == 0
        assert not any(os.path.exists(name) for name in names), names
        log = c.log()
        assert "shared memory" not in log and "segment" not in log, log[-2000:]


@tap.case
def sigkill():
    kill_rounds(signal.SIGKILL, ROUNDS)


@tap.case
def sigstop():
    kill_rounds(signal.SIGSTOP, max(3, ROUNDS // 4))


@tap.case
def sigkill_of_one_of_two_groups():
    kill_rounds(signal.SIGKILL, max(3, ROUNDS // 4), ["--groups", "2"], top_k=0)


@tap.case
def a_rank_in_a_container_is_not_watched():
    """Rank 1 has a process table of its own, so its number there names another process or none on rank 0's side: the group
    works, and the launcher finds the loss."""
    if subprocess.run(["unshare", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL).returncode:
        raise tap.Skip("no new PID namespaces here")
    with Parts(MODEL, groups=0, tp=2) as c:
        mpirun = [*mpirun_command(1)[:1], "--mca", "odls_base_sigkill_timeout", "0", *mpirun_command(1)[1:]]
        c.spawn(*mpirun, *c.worker(MODEL), ":", "-np", "1", "unshare", "--pid", "--fork", "--kill-child", *c.worker(MODEL))
        client = c.clients[0]
        client.wait_ready()
        finish(client, start(client, 40))
        assert "has ended" not in c.log() and client.call("Stats")[1].recoveries == 0, c.log()[-4000:]
        ranks = c.worker_pids()
        outside = [p for p in ranks if len(pathlib.Path(f"/proc/{p}/status").read_text().split("NSpid:")[1]
                                           .splitlines()[0].split()) == 1]
        (inside,) = set(ranks) - set(outside)
        rids = start(client, 40)
        os.kill(inside, signal.SIGKILL)
        tap.wait_for(lambda: "is lost" in c.log(), "the loss")
        c.group()
        finish(client, rids)


@tap.case
def a_fenced_group_ends_with_5():
    """A group that is given up while a rank is stopped does not take that for the end of the server, and rank 0 does not
    wait in its collective until --peer-ms (here an hour): its launcher can start it again at once."""
    with Parts(MODEL, tp=2, groups=0, worker=["--peer-ms", "3600000"],
               coordinator=["--step-deadline-ms", "1000", "--silence-ms", "1000"]) as c:
        client = c.clients[0]
        for rank in (0, 1):
            group = c.group()
            pid = next(p for p in whole_group(c) if mpi_rank(p) == rank)
            rids = start(client, 40)
            answers = read_some(client, rids, 20)
            seen = len(c.log())
            os.kill(pid, signal.SIGSTOP)
            tap.wait_for(lambda: "no answer to a step" in c.log()[seen:], "the group is given up")
            if rank == 0:
                os.kill(pid, signal.SIGCONT)
            assert group.wait(tap.LIMIT) == 5, c.log()[-4000:]
            c.group()
            recover(c, client, rids, answers, lambda: None)
            os.kill(c.procs[-1].pid, signal.SIGTERM)
            c.procs[-1].wait(tap.LIMIT)


@tap.case
def the_wait_for_a_group_counts_from_the_arrival():
    """Each request that arrives while no group is there has the whole of --group-wait-ms."""
    wait_s = 1.5
    with Parts(MODEL, coordinator=["--group-wait-ms", str(int(1000 * wait_s))]) as c:
        client = c.clients[0]
        with c.held():
            first = client.start(text=b"Once", max_tokens=TOKENS, sampling={"ignore_eos": True})
            client.backlog.append(client.recv())
            os.kill(c.worker_pids()[0], signal.SIGKILL)
            lost = time.monotonic()
        got = client.collect([first])[first]
        assert got.error and "none has come within 1500 ms" in got.error[1].detail, got
        assert time.monotonic() - lost >= wait_s
        for _ in range(2):
            began = time.monotonic()
            got = client.collect([later := client.start(text=b"Once", max_tokens=3)])[later]
            assert got.error and got.error[1].code == 9, got
            assert time.monotonic() - began >= wait_s, "it had less than its own wait"
        c.group()
        client.wait_ready()
        assert client.collect([r := client.start(text=b"Once", max_tokens=3)])[r].finish


@tap.case
def a_paused_coordinator_keeps_its_group():
    """Longer than ZeroMQ's usual three heartbeats of a second, with a step in flight and idle."""
    with Cluster(MODEL, tp=2, extra=["--silence-ms", 1000 * tap.LIMIT, "--lease-ms", 1000 * tap.LIMIT]) as c:
        client = c.clients[0]
        coordinator = next(p for p in children(c.serve.pid) if command_of(p).endswith("ingot-coordinator"))
        for rids in start(client, 40), []:
            os.kill(coordinator, signal.SIGSTOP)
            time.sleep(4)
            os.kill(coordinator, signal.SIGCONT)
            finish(client, rids)
        assert client.call("Stats")[1].recoveries == 0 and "is lost" not in c.log(), c.log()[-4000:]


@tap.case
def client_gone_gives_its_blocks_back():
    script = ("import sys; sys.path.insert(0, sys.argv[1]); import ingot_client as ic\n"
              "c = ic.Client(sys.argv[2])\n"
              "[c.start(text=b'Once', max_tokens=500, sampling={'ignore_eos': True}, request_id='r%d' % i)"
              " for i in range(100)]\n"
              "while c.recv()[0] != 'Delta': pass\n"
              "print('running', flush=True)\n"
              "while True: c.recv()\n")
    with Cluster(MODEL, tp=1) as c:
        client = c.clients[0]
        p = subprocess.Popen([sys.executable, "-c", script, str(pathlib.Path(__file__).parent),
                              c.endpoint], stdout=subprocess.PIPE, text=True)
        try:
            assert p.stdout.readline().strip() == "running"
            with c.held():
                def held_back():
                    s = client.call("Stats")[1]
                    return s.running + s.waiting >= 8 and s.blocks_free < s.blocks_total
                tap.wait_for(held_back, "requests are there")
            p.kill()
            p.wait()
            t0 = time.monotonic()
        finally:
            p.kill()
            p.wait()

        def free():
            s = client.call("Stats")[1]
            return s.running == s.waiting == 0 and s.blocks_free + s.blocks_cached == s.blocks_total
        tap.wait_for(free, "the blocks of a dead client are free")
        print(f"    free again after {time.monotonic() - t0:.2f} s")


def left_over(c):
    """Our processes that are still there once `ingot serve` has ended."""
    return [p for p in c.everything if command_of(p).rsplit("/", 1)[-1].startswith(("ingot", "mpirun"))]


def ends_clean(sig):
    with Cluster(MODEL, tp=2) as c:
        rid = c.clients[0].start(text=b"Once upon a time", max_tokens=100)
        c.everything = children(c.serve.pid)
        assert len(c.everything) >= 4, c.everything
        c.serve.send_signal(sig)
        c.serve.wait(tap.LIMIT)
        tap.wait_for(lambda: not left_over(c), "every process has ended")
        return c.serve.returncode, c.clients[0], rid


@tap.case
def sigterm_drains_and_leaves_nothing():
    with Cluster(MODEL, tp=2) as c:
        client = c.clients[0]
        rid = client.start(text=b"Once upon a time", max_tokens=100,
                           sampling={"ignore_eos": True})
        assert client.recv()[0] == "Accepted"
        c.everything = children(c.serve.pid)
        c.serve.send_signal(signal.SIGTERM)
        from ingot_client import Answer
        a = Answer()
        a.accepted = True
        while not a.terminals:
            name, m = client.recv()
            if m.request_id == rid:
                a.take(name, m)
        assert a.finish and len(a.ids[0]) == 100, "the running request was not finished"
        assert c.serve.wait(tap.LIMIT) == 0
        tap.wait_for(lambda: not left_over(c), "every process has ended")


@tap.case
def sigkill_of_serve_leaves_nothing():
    assert ends_clean(signal.SIGKILL)[0] == -signal.SIGKILL


tap.main()
