"""A model with gated delta-net layers, whose prompts share blocks up to snapshots of the states: the cases of
kind_cases.py; conversations that go on; samples of one request; and without snapshots, where nothing is shared."""
import json
import pathlib
import re
import subprocess
import sys
import urllib.request

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Cluster, Parts  # noqa: E402
from delta_model import make_delta  # noqa: E402
from kind_cases import register  # noqa: E402

MODEL = make_delta(DEMO, pathlib.Path(temp_dir.make()))
SAMPLING = {"temperature": 0.8, "seed": 5, "top_k": 30, "ignore_eos": True}


def ingot(*args):
    return subprocess.run([BIN / "ingot", *args], capture_output=True, text=True, check=True, timeout=tap.LIMIT).stdout


def ask(client, ids, **more):
    return client.generate(tokens={"id": ids}, sampling=SAMPLING, max_tokens=40, **more)


def turns(client):
    """A conversation whose prompts go on from the answers, and two others that begin with its first 100 tokens: the
    answers and the cached tokens of each prompt."""
    ids, out = list(range(100, 420)), []
    for turn in range(4):
        a = ask(client, ids)
        out.append((a.key(), a.finish.cached_tokens))
        ids = ids + list(a.ids[0]) + list(range(700 + turn, 740 + turn))
    for other in range(2):
        a = ask(client, list(range(100, 200)) + list(range(900 + other, 990 + other)))
        out.append((a.key(), a.finish.cached_tokens))
    a = ask(client, list(range(500, 540)), n=4)
    return out, (a.key(), a.finish.cached_tokens)


@tap.case
def conversations_go_on_from_snapshots():
    with Parts(MODEL, worker=["--isa", "plain"], coordinator=["--no-prefix-cache"]) as c:
        alone = ask(c.clients[0], list(range(500, 540)), n=4).key()
    with Parts(MODEL, worker=["--state-snapshots", "0"]) as c:
        whole, samples = turns(c.clients[0])
        s = c.clients[0].call("Stats")[1]
        assert all(cached == 0 for _, cached in whole) and s.prefix_hits == s.snapshots_total == 0, whole
        assert "no prefix cache: layers of the model keep a state" in c.log()
    assert samples[0] == alone, "samples differ"
    for tp, snapshots in (1, "-1"), (2, "3"), (1, "1"):
        with Parts(MODEL, tp=tp, worker=["--state-snapshots", snapshots]) as c:
            shared, again = turns(c.clients[0])
            s = c.clients[0].call("Stats")[1]
        assert [k for k, _ in shared] == [k for k, _ in whole] and again[0] == alone, f"{snapshots} snapshots: other bytes"
        cached = [n for _, n in shared]
        if snapshots == "-1":
            # behind the first prompt's 19 full blocks, then within the third answer: the second prompt had too few more; the
            # first 100 tokens have six
            assert cached == [0, 304, 304, 512, 0, 96], cached
            assert s.snapshots_total == 64 and 4 <= s.snapshots_known <= 64, s
            assert s.prefix_hits >= sum(cached) + 3 * 32, "the samples share their prompt"
        else:
            assert s.snapshots_total == int(snapshots) >= s.snapshots_known > 0 and sum(cached) > 0, (s, cached)


@tap.case
def what_is_kept_is_shown():
    """By `ingot status`, whole and as JSON, and by /metrics."""
    with Cluster(MODEL, extra=["--state-snapshots", "5"], http="127.0.0.1:0") as c:
        turns(c.clients[0])
        known = c.clients[0].call("Stats")[1].snapshots_known
        assert 0 < known <= 5
        told = ingot("status", "--connect", c.endpoint)
        assert f"snapshots  {known} of 5 states are kept" in told, told
        told = json.loads(ingot("status", "--connect", c.endpoint, "--json"))
        assert (told["snapshots_known"], told["snapshots_total"]) == (known, 5), told
        port = tap.wait_for(lambda: re.search(r"HTTP at http://127.0.0.1:(\d+)", c.log()), "the gateway's port")[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=tap.LIMIT) as answer:
            figures = dict(re.findall(r'^ingot_state_snapshots\{.*state="(\w+)".*\} (\d+)$', answer.read().decode(), re.M))
    assert figures == {"known": str(known), "free": str(5 - known)}, figures


register(MODEL, 24)
tap.main()
