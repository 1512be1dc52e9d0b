"""A client whose connection breaks, that is stopped, or whose output blocks goes on afterwards: nothing is shown twice or
left out."""
import json
import os
import signal
import subprocess
import time

from cli_tools import INGOT, lines, ok
from cutting_proxy import Proxy
import tap
from cluster import DEMO, Cluster

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
        for cuts in [1000], [3000], [7000, 20000], [15001, 15002, 15003]:
            with Proxy(c.endpoint, *cuts) as way:
                got = content(lines(ok(*ASK, *DETAILS, "--connect", way.endpoint)))
                assert got == whole, cuts
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
        out, err = p.communicate(timeout=tap.LIMIT)
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
        out, err = p.communicate(timeout=tap.LIMIT)
        assert p.returncode == 0, err
        assert content(lines(first + out)) == content(lines(text))


tap.main()
