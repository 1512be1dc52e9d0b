"""Several worker groups share the load: one queue, the same bytes whichever group serves, and nothing is lost when a group
is killed, drains or joins."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Parts  # noqa: E402

STREAMS, TOKENS = 16, 120
COLOURS = ["red", "green", "reddish", "dark green"]
CHOICE = 4  # of the kinds of grammars


def start(client, n=STREAMS, tokens=TOKENS, **kw):
    return [client.start(text=b"Once upon a time" if i % 2 else b"The little dog", max_tokens=tokens,
                         sampling={"temperature": 0.0 if i < 2 else 0.9, "seed": i + 1, "ignore_eos": True, "logprobs": True}, **kw)
            for i in range(n)]


def finish(client, rids):
    got = client.collect(rids)
    for rid in rids:
        assert got[rid].finish, got[rid].error
    return [got[rid].key() for rid in rids]


def until_a_token(client, rids):
    """Nothing that is read is lost."""
    read = []
    while not (read and read[-1][0] == "Delta" and read[-1][1].request_id in rids):
        read.append(client.recv())
    client.backlog[:0] = read


def groups(client):
    return sorted(client.call("Stats")[1].group, key=lambda g: g.epoch)


def all_active(c, n):
    return tap.wait_for(lambda: (g := groups(c.clients[0])) and len(g) == n and all(x.active for x in g) and g, f"{n} active groups")


def oracle():
    with Parts(DEMO) as c:
        return finish(c.clients[0], start(c.clients[0]))


def end_of_group(c, i):
    """The process that was started as group i: the launcher of several ranks, or the only rank."""
    return c.procs[1 + i]


@tap.case
def both_serve_and_the_bytes_are_the_same():
    want = oracle()
    with Parts(DEMO, groups=2) as c:
        client = c.clients[0]
        all_active(c, 2)
        with c.held():  # all are there before the first token
            rids = start(client)
            tap.wait_for(lambda: client.call("Stats")[1].running + client.call("Stats")[1].waiting == STREAMS, "all requests")
        assert finish(client, rids) == want
        both = groups(client)
        tokens = [g.tokens_generated for g in both]
        assert sum(tokens) == STREAMS * TOKENS and min(tokens) >= sum(tokens) / 4, tokens
        assert [g.slot for g in both] == [0, 1] and all(g.running == g.waiting == 0 for g in both)


@tap.case
def a_killed_group_loses_nothing():
    want = oracle()
    with Parts(DEMO, groups=3) as c:
        client = c.clients[0]
        all_active(c, 3)
        for round in range(3):
            rids = start(client)
            until_a_token(client, rids)
            victim = c.worker_pids()[round % 3]
            os.kill(victim, signal.SIGKILL)
            assert finish(client, rids) == want, f"round {round}"
            c.group()
            tap.wait_for(lambda: len(c.worker_pids()) == 3, "three groups")
            all_active(c, 3)
        assert client.call("Stats")[1].recoveries == 3


def one_more_for_each_end(client, rids, tokens):
    """Generator of messages; each stream that ends is replaced, so that the load stays."""
    live = set(rids)
    while True:
        name, m = client.recv()
        if m.request_id not in live:
            continue
        if name in ("Finish", "Error", "Rejected"):
            assert name == "Finish", m
            live.remove(m.request_id)
            live.update(start(client, 1, tokens))
        yield name, m


@tap.case
def a_group_that_joins_has_a_quarter_of_the_tokens():
    """Under load, with nothing in the queue: running sequences move to it."""
    with Parts(DEMO) as c:
        client, watcher = c.clients[0], c.client()
        load = one_more_for_each_end(client, start(client, tokens=400), 400)
        for _ in range(50):
            next(load)
        c.group()
        while not (len(g := groups(watcher)) == 2 and g[1].active):
            next(load)
        began = time.monotonic()

        def tokens_of(n):
            """The tokens of both groups, of the next n."""
            before = groups(watcher)
            while True:
                next(load)
                new = [a.tokens_generated - b.tokens_generated for a, b in zip(groups(watcher), before)]
                if sum(new) > n:
                    return new
        first, then = tokens_of(3000), tokens_of(3000)
        print(f"    the group that joined gave {first[1]} of the next {sum(first)} tokens, {then[1]} of {sum(then)} after these; "
              f"{time.monotonic() - began:.2f} s")
        assert then[1] >= sum(then) / 4, (first, then)


@tap.case
def a_rolling_restart():
    """Each group is ended in order and replaced while the others serve: no stream ends early or has other bytes."""
    want = oracle()
    with Parts(DEMO, groups=2) as c:
        client = c.clients[0]
        all_active(c, 2)
        rids = []
        for i in range(2):
            rids += start(client)
            until_a_token(client, rids[-STREAMS:])
            old = end_of_group(c, i)
            old.send_signal(signal.SIGTERM)
            assert old.wait(tap.LIMIT) == 0, "it ends as asked"
            assert client.call("Stats")[1].ready, "the other one serves"
            c.group()
            all_active(c, 2)
        assert finish(client, rids) == want + want
        assert c.log().count("it said goodbye") == 2


@tap.case
def urgent_requests_pass_over_all_groups():
    """Two groups of one sequence each, and a queue of twenty: an urgent request runs before those that wait."""
    with Parts(DEMO, groups=2, coordinator=["--max-seqs", "1", "--turn-tokens", "0"]) as c:
        client = c.clients[0]
        all_active(c, 2)

        def in_time():
            """Some of the twenty may end before it comes, fewer than eight."""
            rids = start(client, 20, 60)
            until_a_token(client, rids)
            urgent = client.start(text=b"Now", max_tokens=5, priority=9, sampling={"ignore_eos": True})
            ended = []
            while len(ended) < 1 + len(rids):
                name, m = client.recv()
                assert name not in ("Error", "Rejected"), m
                if name == "Finish":
                    ended.append(m.request_id)
            return ended.index(urgent) <= 8
        tap.race(in_time, 5)


@tap.case
def cached_prefixes_draw_their_requests():
    with Parts(DEMO, groups=2) as c:
        client = c.clients[0]
        all_active(c, 2)
        prompt = list(range(40, 40 + 300))
        first = client.generate(tokens={"id": prompt}, max_tokens=2)
        assert first.finish and first.finish.cached_tokens == 0
        for i in range(6):
            again = client.generate(tokens={"id": prompt + [100 + i]}, max_tokens=2)
            assert again.finish.cached_tokens >= 288, (i, again.finish.cached_tokens)


@tap.case
def grammars_reach_every_group():
    with Parts(DEMO, groups=2) as c:
        client = c.clients[0]
        all_active(c, 2)
        for round in range(2):
            rids = [client.start(text=b"Who", max_tokens=60, sampling={"temperature": 1.0, "seed": i},
                                 grammar={"kind": CHOICE, "source": json.dumps(COLOURS).encode()}) for i in range(8)]
            for a in client.collect(rids).values():
                assert a.finish, a.error
                assert a.text[0].decode() in COLOURS, a.text
            assert all(g.tokens_generated > 0 for g in groups(client))
            if round == 0:  # a new group has none of them
                os.kill(c.worker_pids()[0], signal.SIGKILL)
                c.group()
                tap.wait_for(lambda: len(c.worker_pids()) == 2, "two groups")
                all_active(c, 2)


@tap.case
def fast_groups_do_not_share():
    """Equal ids that are fast do not promise equal bits."""
    with Parts(DEMO, groups=2, worker=["--numerics", "fast"]) as c:
        client = c.clients[0]
        tap.wait_for(lambda: len(groups(client)) == 2, "two groups")
        assert client.generate(text=b"Once", max_tokens=5).finish
        assert [g.active for g in groups(client)].count(True) == 1


@tap.case
def the_journal_of_groups_that_come_and_go_replays():
    with temp_dir.folder() as folder, Parts(DEMO, groups=2, coordinator=["--journal", folder]) as c:
        client = c.clients[0]
        all_active(c, 2)
        rids = start(client)
        client.send("Cancel", request_id=rids[3])
        while client.recv()[0] != "Delta":
            pass
        os.kill(c.worker_pids()[0], signal.SIGKILL)
        c.group()
        tap.wait_for(lambda: len(c.worker_pids()) == 2, "two groups")
        all_active(c, 2)
        assert client.generate(text=b"Once", max_tokens=30, n=3).finish
        client.send("Drain", request_id="d")
        assert c.procs[0].wait(tap.LIMIT) == 0
        files = sorted(pathlib.Path(folder).glob("*.journal"))
        said = subprocess.run([BIN / "ingot", "replay", "verify", *files], capture_output=True, text=True)
        assert said.returncode == 0 and "the same" in said.stdout and "0 live" in said.stdout, said
        print("    " + said.stdout.strip().split(": ")[1])


tap.main()
