"""A client whose connection breaks, that is stopped, or whose output blocks goes on afterwards: nothing is shown twice or
left out."""
import json
import os
import signal
import subprocess
import time

from cli_tools import INGOT, lines, ok, rest
from cutting_proxy import Proxy
import tap
from cluster import DEMO, Cluster, Parts

SILENCE = 7  # seconds; a server that is silent for 5 is gone
ASK = ["generate", "--prompt", "Once upon a time", "--seed", "5", "--max-tokens", "300", "--ignore-eos"]
DETAILS = ["--json", "--n", "3", "--top-logprobs", "2"]


def content(out):
    """The ids, texts and logprobs of each sample, however the deltas were cut, and the end."""
    assert [m["type"] for m in out].count("accepted") == 1 and out[0]["type"] == "accepted", out[:2]
    assert out[-1]["type"] == "finish" and all(m["type"] == "delta" for m in out[1:-1]), out[-1]
    samples = {}
    for m in out[1:-1]:
        s = samples.setdefault(m.get("sample", 0), {"ids": [], "text": "", "logprobs": [], "top_logprobs": []})
        s["ids"] += m["ids"]
        s["text"] += m["text"]
        for key in "logprobs", "top_logprobs":
            s[key] += m.get(key, [])
    return samples, out[-1]["samples"]


@tap.case
def a_cut_connection_is_continued():
    with Cluster(DEMO) as c:
        whole = content(lines(ok(*ASK, *DETAILS, "--connect", c.endpoint)))
        assert all(len(s["ids"]) == len(s["logprobs"]) == len(s["top_logprobs"]) == 300 for s in whole[0].values())
        for cuts in [1000], [3000], [7000, 20000], [9001, 9002, 9003]:
            with Proxy(c.endpoint, *cuts) as way:
                name = f"cut at {cuts}"
                out = lines(ok(*ASK, *DETAILS, "--request-id", name, "--connect", way.endpoint))
                assert content(out) == whole and out[0]["request_id"] == name, cuts
                assert way.made > len(cuts), (way.made, cuts)


@tap.case
def a_cut_text_is_whole():
    with Cluster(DEMO) as c:
        whole = ok(*ASK, "--connect", c.endpoint)
        with Proxy(c.endpoint, 1500, 4000) as way:
            assert ok(*ASK, "--connect", way.endpoint) == whole
            assert way.made >= 2


@tap.case
def a_cut_conversation_goes_on():
    with Cluster(DEMO) as c:
        chat = ["chat", "--seed", "5", "--max-tokens", "60", "--ignore-eos"]
        talk = "Hello\nAnd then?\nGo on\n"
        whole = ok(*chat, "--connect", c.endpoint, stdin=talk)
        with Proxy(c.endpoint, 1200, 2500) as way:
            assert ok(*chat, "--connect", way.endpoint, stdin=talk) == whole
            assert way.made >= 2


def begin(c, *args):
    return subprocess.Popen([INGOT, *ASK, *args, "--connect", c.endpoint], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


@tap.case
def a_stopped_client_goes_on():
    with Cluster(DEMO) as c:
        whole = content(lines(ok(*ASK, *DETAILS, "--connect", c.endpoint)))
        with c.held():
            p = begin(c, *DETAILS)
            first = p.stdout.readline()
            assert json.loads(first)["type"] == "accepted"
            os.kill(p.pid, signal.SIGSTOP)
        time.sleep(SILENCE)
        os.kill(p.pid, signal.SIGCONT)
        out, err = rest(p)
        assert p.returncode == 0, err
        assert content(lines(first + out)) == whole


@tap.case
def a_client_whose_output_blocks_goes_on():
    with Cluster(DEMO) as c:
        args = ["--json", "--n", "4", "--top-logprobs", "20"]
        text = ok(*ASK, *args, "--connect", c.endpoint)
        assert len(text) > 4 * 65536, "more than a pipe holds"
        p = begin(c, *args)
        first = p.stdout.readline()
        time.sleep(SILENCE)
        out, err = rest(p)
        assert p.returncode == 0, err
        assert content(lines(first + out)) == content(lines(text))


LOST = [["--n", "4", "--stop", "the", "--stop", "ing"], ["--n", "2", "--temperature", "1.1", "--top-k", "30"],
        ["--repetition-penalty", "1.2", "--min-tokens", "50"], ["--temperature", "0", "--top-logprobs", "3"]]


@tap.case
def a_killed_coordinator_is_replaced_by_the_next_of_the_list():
    with Parts(DEMO) as first, Parts(DEMO) as second:
        both = f"{first.endpoint},{second.endpoint}"
        whole = [content(lines(ok(*ASK, "--json", *more, "--connect", both))) for more in LOST]
        begun = []
        for more in LOST:
            p = subprocess.Popen([INGOT, *ASK, "--json", *more, "--connect", both], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
            begun.append((p, p.stdout.readline() + p.stdout.readline()))
        first.coordinator.kill()
        for (p, start), wanted in zip(begun, whole):
            out, err = rest(p)
            assert p.returncode == 0, err
            assert content(lines(start + out)) == wanted


@tap.case
def without_a_coordinator_the_client_gives_up():
    with Parts(DEMO) as c:
        c.clients[0].wait_ready()
        with c.held():
            p = begin(c, "--json")
            p.stdout.readline()
            c.coordinator.kill()
            _, err = p.communicate(timeout=tap.LIMIT)
        assert p.returncode == 3 and "seems to be gone" in err, (p.returncode, err)


tap.main()
