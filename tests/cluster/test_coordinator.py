"""Coordinators that are killed: streams go on with the same bytes, through one that is started again or another one of the
list; worker groups keep their weights."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "client/python")]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, PATIENT, Cluster, Parts, children, command_of  # noqa: E402
import ingot  # noqa: E402

PROMPT = "Once upon a time"
# greedy, sampled, penalties, stop strings across cuts, several samples, log probabilities
STREAMS = [dict(temperature=0, ignore_eos=True), dict(seed=1, n=4, stop=["the", "ing"]),
           dict(seed=2, repetition_penalty=1.2, presence_penalty=0.5, min_tokens=60),
           dict(seed=3, n=2, temperature=1.3, top_k=40, top_logprobs=2), dict(seed=4, logit_bias={5: -1}, max_tokens=90)]
CLI = [["--seed", "5", "--ignore-eos", "--max-tokens", "250"], ["--seed", "6", "--n", "3", "--stop", "a b", "--json"]]


def facts(r):
    return [(s.ids, s.text, s.reason, s.matched_stop, s.stop_id, s.logprobs) for s in r.samples], r.prompt_tokens, \
        r.completion_tokens


def begin(c):
    return [c.generate(PROMPT, **{"max_tokens": 200, **o}) for o in STREAMS]


def ask(endpoint, more):
    return subprocess.Popen([BIN / "ingot", "generate", "--prompt", PROMPT, "--connect", endpoint, *more],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(p):
    """What the CLI has shown, however the deltas were cut."""
    out = p.stdout.read()
    assert p.wait(tap.LIMIT) == 0, p.stderr.read()
    if not out.startswith("{"):
        return out
    lines = [json.loads(line) for line in out.splitlines()]
    assert [m["type"] for m in lines].count("accepted") == 1 and lines[-1]["type"] == "finish", lines[-1]
    samples = {}
    for m in lines[1:-1]:
        s = samples.setdefault(m.get("sample", 0), [[], ""])
        s[0] += m["ids"]
        s[1] += m["text"]
    return samples, lines[-1]["samples"]


def http_stream(address):
    """Connection and response of a streamed completion; None while the gateway has no coordinator and refuses it."""
    body = {"prompt": PROMPT, "max_tokens": 250, "seed": 9, "ignore_eos": True, "stream": True}
    c = http.client.HTTPConnection(address, timeout=tap.LIMIT)
    c.request("POST", "/v1/completions", json.dumps(body))
    r = c.getresponse()
    if r.status != 503:
        return c, r
    c.close()
    return None


def http_text(address, begun=None):
    """The text of a streamed completion; begun is set when its first event has come."""
    c, r = tap.wait_for(lambda: http_stream(address), "a gateway with a coordinator")
    data = r.readline()
    if begun:
        begun.set()
    data += r.read()
    c.close()
    assert r.status == 200, data
    events = [json.loads(e[6:]) for e in data.decode()[:-2].split("\n\n")[:-1] if e.startswith("data: {")]
    assert not [e for e in events if "error" in e] and data.endswith(b"data: [DONE]\n\n"), events[-1]
    return "".join(e["choices"][0]["text"] for e in events if e["choices"])


def coordinator_of(c):
    return next((p for p in children(c.serve.pid) if command_of(p).endswith("ingot-coordinator")), None)


def killed_under_serve(tp):
    with Cluster(DEMO, tp=tp, http="127.0.0.1:0") as c, ingot.Client(c.endpoint, timeout=tap.LIMIT) as client:
        tap.wait_for(lambda: "http://" in c.log(), "the gateway")
        address = next(w for w in c.log().split() if w.startswith("http://")).removeprefix("http://").strip("/")
        wanted = [facts(s.result()) for s in begin(client)]
        told = [answer(ask(c.endpoint, more)) for more in CLI]
        page = http_text(address)
        ranks = c.worker_pids()
        for kills in 1, 2:
            streams, asked, pages = begin(client), [ask(c.endpoint, more) for more in CLI], []
            begun = threading.Event()
            thread = threading.Thread(target=lambda: pages.append(http_text(address, begun)))
            thread.start()
            assert begun.wait(tap.LIMIT), "a gateway without a coordinator refuses new requests"
            for _ in range(kills):
                for _ in zip(streams[0], range(3)):  # some of the answer has come
                    pass
                os.kill(tap.wait_for(lambda: coordinator_of(c), "a coordinator"), signal.SIGKILL)
            assert [facts(s.result()) for s in streams] == wanted
            assert [answer(p) for p in asked] == told
            thread.join(tap.LIMIT)
            assert pages == [page]
        assert c.worker_pids() == ranks, "the ranks were started again"


@tap.case
def killed_under_serve_with_one_rank():
    killed_under_serve(1)


@tap.case
def killed_under_serve_with_two_ranks():
    killed_under_serve(2)


def taken_over(comes_back):
    """By the second coordinator of both lists.  comes_back: the first one is there again at once, but where no worker
    looks for it."""
    with temp_dir.folder() as journals, Parts(DEMO, tp=2, coll="shm", groups=0,
                                              coordinator=["--journal", f"{journals}/first"]) as c:
        other = f"ipc://{c.dir}/other"
        c.spawn(BIN / "ingot-coordinator", "--model", DEMO, "--listen", f"{other}-clients", "--workers", f"{other}-workers",
                "--journal", f"{journals}/other", *PATIENT)
        first = c.workers
        c.workers += f",{other}-workers"
        c.group()
        c.clients[0].wait_ready()
        with ingot.Client(f"{c.endpoint},{other}-clients", timeout=tap.LIMIT) as client:
            wanted = [facts(s.result()) for s in begin(client)]
            streams = begin(client)
            next(iter(streams[0]))
            ranks = c.worker_pids()
            c.coordinator.kill()
            if comes_back:
                c.coordinator.wait()
                c.spawn(*[f"ipc://{c.dir}/none" if a == first else a for a in c.coordinator.args])
            assert [facts(s.result()) for s in streams] == wanted
            assert c.worker_pids() == ranks
            assert [facts(s.result()) for s in begin(client)] == wanted
            client.drain()
            c.procs[1].wait(tap.LIMIT)
        files = sorted(pathlib.Path(journals, "other").glob("*.journal"))
        tool = [BIN / "ingot-journal"]
        r = subprocess.run([*tool, "verify", *files], capture_output=True, text=True, timeout=tap.LIMIT)
        assert r.returncode == 0 and "the same" in r.stdout, r
        shown = [json.loads(line) for line in subprocess.run(
            [*tool, "show", files[0], streams[0].request_id], capture_output=True, text=True, check=True).stdout.splitlines()]
        assert [m["tokens"] for m in shown] == [wanted[0][0][0][0]] and 0 < shown[0]["resumed"] < 200, shown


@tap.case
def a_second_coordinator_takes_over_clients_and_workers():
    taken_over(False)


@tap.case
def a_coordinator_without_workers_is_left():
    taken_over(True)


@tap.case
def workers_without_a_coordinator_end():
    with Parts(DEMO, tp=2, coll="shm", worker=["--rejoin-ms", "500"]) as c:
        c.coordinator.kill()
        assert c.procs[1].wait(tap.LIMIT) == 4, c.log()[-2000:]


tap.main()
