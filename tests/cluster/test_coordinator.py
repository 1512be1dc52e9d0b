"""Coordinators that are killed: streams go on with the same bytes, through one that is started again or another one of the
list; worker groups keep their weights."""
import asyncio
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "gateway"), str(HERE.parent / "python"), str(HERE.parents[1] / "client/python")]
import ingot_client as ic  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, PATIENT, Cluster, Parts, children, command_of  # noqa: E402
from gateway_process import Gateway  # noqa: E402
from proxy import Proxy  # noqa: E402
from mutation import Relay  # noqa: E402
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
    """By the second coordinator of both lists; False if the first answer was over before.  comes_back: the first one is
    there again at once, but where no worker looks for it."""
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
        r = subprocess.run([*tool, "show", files[0], streams[0].request_id], capture_output=True, text=True,
                           timeout=tap.LIMIT)
        if r.returncode == 3 and "no request" in r.stderr:
            return False
        shown = [json.loads(line) for line in r.stdout.splitlines()]
        assert [m["tokens"] for m in shown] == [wanted[0][0][0][0]] and 0 < shown[0]["resumed"] < 200, shown
        return True


@tap.case
def a_second_coordinator_takes_over_clients_and_workers():
    tap.race(lambda: taken_over(False))


@tap.case
def a_coordinator_without_workers_is_left():
    tap.race(lambda: taken_over(True))


async def asked_of(endpoints):
    async with ingot.AsyncClient(endpoints, timeout=tap.LIMIT) as client:
        return facts(await (await client.generate(PROMPT, max_tokens=200, **STREAMS[1])).result())


def finished(c):
    return c.clients[0].call("Stats")[1].requests_finished


def is_left(a, b):
    """The coordinator a has no group: clients with both in their list are answered by b, in time."""
    with ingot.Client(b.endpoint) as client:
        want = facts(client.generate(PROMPT, max_tokens=200, **STREAMS[1]).result())
    text = answer(ask(b.endpoint, CLI[0]))
    before, both = (finished(a), finished(b)), f"{a.endpoint},{b.endpoint}"
    with ingot.Client(both, timeout=tap.LIMIT) as client:
        assert facts(client.generate(PROMPT, max_tokens=200, **STREAMS[1]).result()) == want
        assert client.tokenize("a")
    assert asyncio.run(asked_of(both)) == want
    assert answer(ask(both, [*CLI[0], "--wait-ms", "0"])) == text
    assert (finished(a), finished(b)) == (before[0], before[1] + 3)


@tap.case
def a_coordinator_that_never_had_a_group_is_left():
    with Parts(DEMO, groups=0) as a, Parts(DEMO) as b:
        b.clients[0].wait_ready()
        assert not a.clients[0].call("Ping")[1].ready
        is_left(a, b)


@tap.case
def a_coordinator_that_lost_its_groups_is_left():
    wait = ["--group-wait-ms", 1000 * tap.LIMIT]
    with Parts(DEMO, coordinator=wait) as a, Parts(DEMO, coordinator=wait) as b:
        b.clients[0].wait_ready()

        def attempt():
            """Streams that run go on at the next coordinator, with the same bytes."""
            a.clients[0].wait_ready()
            with ingot.Client(f"{a.endpoint},{b.endpoint}", timeout=tap.LIMIT) as client:
                wanted = [facts(s.result()) for s in begin(client)]
                before, streams = finished(b), begin(client)
                next(iter(streams[0]))
                a.procs[-1].kill()
                assert [facts(s.result()) for s in streams] == wanted
            if finished(b) > before:
                return True
            a.group()
            return False

        tap.race(attempt)
        tap.wait_for(lambda: not a.clients[0].call("Ping")[1].ready, "the end of the group")
        is_left(a, b)


@tap.case
def the_first_group_of_a_list_is_found():
    with Parts(DEMO, groups=0) as a, Parts(DEMO, groups=0) as b:
        p = ask(f"{a.endpoint},{b.endpoint}", [*CLI[0], "--wait-ms", str(1000 * tap.LIMIT)])
        assert "waiting" in p.stderr.readline()
        b.group()
        got = answer(p)
        assert got == answer(ask(b.endpoint, CLI[0])) and finished(a) == 0


@tap.case
def what_is_accepted_while_no_group_serves():
    """Accepted tells what computes the answer, so that the answer can go on behind the coordinator's end."""
    with Parts(DEMO, coordinator=["--group-wait-ms", 1000 * tap.LIMIT]) as c:
        raw = c.clients[0]
        raw.wait_ready()
        c.procs[-1].kill()
        tap.wait_for(lambda: not raw.call("Ping")[1].ready, "the end of the group")
        rid = raw.start(text=PROMPT.encode(), max_tokens=300, sampling={"ignore_eos": True})
        gone = raw.start(text=PROMPT.encode(), max_tokens=300)
        tap.wait_for(lambda: raw.call("Stats")[1].waiting >= 2, "the requests wait")
        raw.send("Cancel", request_id=gone)
        told = {rid: [], gone: []}
        while len(told[gone]) < 2:
            name, m = raw.recv()
            if name != "CancelReply":
                told[m.request_id].append(name)
        assert told == {rid: [], gone: ["Accepted", "Finish"]}, told
        c.group()
        name, m = raw.recv()
        assert name == "Accepted" and m.request_id == rid and m.numerics and m.weights_digest, (name, m)


class ShortOfMemory(Relay):
    """Each answer ends for lack of memory behind its second Delta, twice."""

    def __init__(self, *args):
        super().__init__(*args)
        self.deltas, self.errors, self.over_for, self.again = {}, {}, set(), set()  # by request id

    def sent(self, frame):
        name, m = ic.unpack(frame)
        if name == "Generate":
            assert self.errors.get(m.request_id, 0) == 0 or m.HasField("resume") or m.request_id.startswith("g")
            self.deltas[m.request_id] = 0
            self.again.add(m.request_id)

    def passes(self, frame):
        name, m = ic.unpack(frame)
        rid = getattr(m, "request_id", None)
        if rid in self.over_for:
            if name != "Accepted" or rid not in self.again:
                return []
            self.over_for.discard(rid)
        if name == "Delta":
            self.deltas[rid] += 1
            if self.deltas[rid] == 2 and self.errors.get(rid, 0) < 2:
                self.errors[rid] = self.errors.get(rid, 0) + 1
                self.over_for.add(rid)
                self.again.discard(rid)
                return [frame, ic.pack("Error", request_id=rid, code=1, detail="no memory for 508 logprobs", retryable=True,
                                       request=ic.TYPES["GENERATE"])]
        return [frame]


@tap.case
def an_answer_that_ends_for_lack_of_memory_goes_on():
    with Parts(DEMO) as c:
        c.clients[0].wait_ready()
        with ingot.Client(c.endpoint) as client:
            wanted = [facts(s.result()) for s in begin(client)]
        told = [answer(ask(c.endpoint, more)) for more in CLI]
        with ShortOfMemory(f"ipc://{c.dir}/relay", c.endpoint) as relay:
            with ingot.Client(relay.endpoint) as client:
                assert [facts(s.result()) for s in begin(client)] == wanted
            assert asyncio.run(asked_of(relay.endpoint)) == wanted[1]
            assert [answer(ask(relay.endpoint, more)) for more in CLI] == told
            assert len(relay.errors) == len(STREAMS) + 1 + len(CLI) and set(relay.errors.values()) <= {1, 2}, relay.errors
            relay.errors.clear()
            with Gateway("--connect", relay.endpoint) as g:
                through = http_text(f"127.0.0.1:{g.wait_ready().port}")
            assert set(relay.errors.values()) <= {1, 2} and relay.errors, relay.errors
        with Gateway("--connect", c.endpoint) as g:
            assert http_text(f"127.0.0.1:{g.wait_ready().port}") == through


def full(c, stream_of):
    """A stream whose connection is lost meets a coordinator with as many clients as it takes, until one goes."""
    p = Proxy(c.endpoint)
    try:
        with c.held():
            end = stream_of(p.endpoint)
            tap.wait_for(lambda: c.clients[0].call("Stats")[1].running + c.clients[0].call("Stats")[1].waiting, "it runs")
            p.open = False
            p.cut()
            other = tap.wait_for(lambda: enters(c.endpoint), "the place is free")
            seen = c.log().count("a client is refused")
            p.open = True
            tap.wait_for(lambda: c.log().count("a client is refused") > seen, "it is refused")
            other.close()
        return end()
    finally:
        p.close()


def enters(endpoint):
    try:
        return ingot.Client(endpoint)
    except ingot.ServerError as e:
        assert e.code == "busy" and e.retryable, e
        return None


@tap.case
def a_coordinator_full_of_clients_is_tried_again():
    options = dict(max_tokens=200, grace_ms=1000 * tap.LIMIT, **STREAMS[1])
    with Parts(DEMO) as c:
        with ingot.Client(c.endpoint) as client:
            want = facts(client.generate(PROMPT, **options).result())
        told = answer(ask(c.endpoint, CLI[0]))

    def of_package(endpoint):
        client = ingot.Client(endpoint, timeout=tap.LIMIT)
        stream, got = client.generate(PROMPT, **options), []
        thread = threading.Thread(target=lambda: got.append(facts(stream.result())))
        thread.start()

        def end():
            thread.join()
            client.close()
            return got == [want]
        return end

    def of_cli(endpoint):
        p = ask(endpoint, CLI[0])
        return lambda: answer(p) == told

    for stream_of in of_package, of_cli:
        with Parts(DEMO, coordinator=["--max-clients", "2", "--client-grace-ms", 1000 * tap.LIMIT]) as c:
            assert full(c, stream_of), stream_of


@tap.case
def workers_without_a_coordinator_end():
    with Parts(DEMO, tp=2, coll="shm", worker=["--rejoin-ms", "500"]) as c:
        c.coordinator.kill()
        assert c.procs[1].wait(tap.LIMIT) == 4, c.log()[-2000:]


tap.main()
