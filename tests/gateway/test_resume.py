"""Connections that break: between the gateway and its coordinators, and between clients and the gateway."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import BIN, DEMO, PATIENT, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

COMPLETIONS = "/v1/completions"
LONG = {"prompt": "Once upon a time", "max_tokens": 900, "ignore_eos": True, "seed": 7, "stream": True,
        "stream_options": {"include_usage": True}}


def begin(g, **body):
    c = g.connect()
    c.request(COMPLETIONS, method="POST", body=json.dumps({**LONG, **body}).encode())
    assert c.head().status == 200
    return c


def rest(c, body=b""):
    """What still comes of a stream."""
    while piece := c.chunk():
        body += piece
    return body


def text_of(body):
    text = body.decode()
    assert text.endswith("data: [DONE]\n\n"), text[-300:]
    events = [json.loads(e[6:]) for e in text[:-2].split("\n\n")[:-1] if e.startswith("data: ")]
    assert not [e for e in events if "error" in e], events[-1]
    assert events[-1]["usage"]["completion_tokens"] == LONG["max_tokens"]
    return "".join(e["choices"][0]["text"] for e in events if e["choices"])


def stats(c):
    return c.clients[0].call("Stats")[1]


def in_the_middle(c, g, cut):
    """The bytes of a stream whose connection is cut when a part of it has come; the ranks are held meanwhile."""
    body = b""

    def attempt():
        nonlocal body
        stream = begin(g)
        body = stream.chunk()
        with c.held():
            if not stats(c).running:
                return False
            cut()
        body = rest(stream, body)
        return True

    tap.race(attempt)
    return body


@tap.case
def a_coordinator_that_is_started_again():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint, "--resume-grace-ms", "600000") as g:
        g.wait_ready()
        want = text_of(rest(begin(g)))

        def restart():
            c.coordinator.kill()
            c.coordinator.wait()
            g.wait_ready(503)
            c.coordinator = c.spawn(BIN / "ingot-coordinator", "--model", DEMO, "--listen", c.endpoint, "--workers",
                                    c.workers, *PATIENT)
            c.group()

        assert text_of(in_the_middle(c, g, restart)) == want


@tap.case
def the_next_coordinator_of_the_list():
    with Parts(DEMO) as a, Parts(DEMO) as b, \
            Gateway("--connect", a.endpoint, "--connect", b.endpoint, "--resume-grace-ms", "600000") as g:
        g.wait_ready()
        want = text_of(rest(begin(g)))
        assert stats(b).requests_finished == 0

        def kill():
            a.coordinator.kill()

        assert text_of(in_the_middle(a, g, kill)) == want
        assert stats(b).requests_finished == 1


@tap.case
def a_coordinator_without_workers_is_left():
    with Parts(DEMO, groups=0) as a, Parts(DEMO) as b, Gateway("--connect", a.endpoint, "--connect", b.endpoint) as g:
        a.clients[0].call("Ping")
        g.wait_ready()
        text_of(rest(begin(g)))
        assert stats(b).requests_finished == 1 and stats(a).requests_rejected == 0


class Wire:
    """Passes bytes between a port of this machine and a Unix socket, until it is cut."""

    def __init__(self, path):
        self.path, self.pairs, self.n = path, [], 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self.path)
                self.n += 1
                self.pairs.append((near, far))
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=self.copy, args=(a, b), daemon=True).start()

    @staticmethod
    def copy(a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
        for s in (a, b):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def cut(self):
        for pair in self.pairs:
            for s in pair:
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)
        self.pairs = []


SCORED = {"prompt": "Once upon a time there was a fox. " * 40, "max_tokens": 4, "temperature": 0, "echo": True,
          "logprobs": 2, "stream": True}


def scored(body):
    """The text and the log probabilities of a stream."""
    text = body.decode()
    assert text.endswith("data: [DONE]\n\n"), text[-300:]
    choices = sum((json.loads(e[6:])["choices"] for e in text.split("\n\n") if e.startswith("data: {")), [])
    keys = "tokens", "text_offset", "token_logprobs", "top_logprobs"
    return "".join(x["text"] for x in choices), [sum((x["logprobs"][k] for x in choices if x["logprobs"]), []) for k in keys]


@tap.case
def a_coordinator_that_dies_while_a_prompt_is_scored():
    def steps(c):
        return c.clients[0].call("Ping")[1].steps

    def ask(g):
        stream = g.connect()
        stream.request(COMPLETIONS, method="POST", body=json.dumps(SCORED).encode())
        return stream

    def attempt():
        before = steps(a)
        stream = ask(g)
        tap.wait_for(lambda: steps(a) >= before + 3)
        with a.held():
            scoring = steps(a) <= before + whole - 8
            if scoring:
                a.coordinator.kill()
        assert stream.head().status == 200
        assert scored(rest(stream)) == want
        return scoring

    small = ["--max-step-tokens", "8", "--no-prefix-cache"]
    with Parts(DEMO, coordinator=small) as a, Parts(DEMO, coordinator=small) as b, \
            Gateway("--connect", a.endpoint, "--connect", b.endpoint, "--resume-grace-ms", "600000") as g:
        g.wait_ready()
        first = ask(g)
        assert first.head().status == 200
        want = scored(rest(first))
        whole = steps(a)  # of the prompt, and four of the answer
        assert whole > 20 and len(want[1][0]) > 100, (whole, want)
        tap.race(attempt)
        assert stats(b).requests_finished == 1


@tap.case
def a_connection_that_breaks():
    """The coordinator lives: it keeps the request for the grace time, and the gateway attaches again."""
    with Parts(DEMO) as c:
        wire = Wire(c.endpoint.removeprefix("ipc://"))
        with Gateway("--connect", wire.endpoint, "--resume-grace-ms", "600000") as g:
            g.wait_ready()
            want = text_of(rest(begin(g)))
            before = stats(c)

            def cut():
                n = wire.n
                wire.cut()
                tap.wait_for(lambda: wire.n > n, "another connection")

            assert text_of(in_the_middle(c, g, cut)) == want
            after = stats(c)
            assert after.requests_finished == before.requests_finished + 1 and after.requests_cancelled == 0
            assert after.prompt_tokens - before.prompt_tokens < 10, "it was computed once"
        wire.listener.close()


@tap.case
def without_a_coordinator_streams_end_after_the_grace():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint, "--resume-grace-ms", "100") as g:
        g.wait_ready()
        body = in_the_middle(c, g, c.coordinator.kill)
        assert body.endswith(b"data: [DONE]\n\n") and b"connection to the coordinator was lost" in body, body[-300:]


@tap.case
def a_draining_coordinator():
    def attempt():
        stream = begin(g)
        with c.held():
            if not stats(c).running:
                return False
            os.kill(c.coordinator.pid, signal.SIGTERM)
            tap.wait_for(lambda: "draining" in c.log(), "the coordinator drains")
            with g.connect() as other:
                a = other.post(COMPLETIONS, b'{"prompt": "x", "max_tokens": 1}')
            assert a.status == 503, a
            assert float(a.headers["retry-after"]) > 0 and int(a.headers["retry-after-ms"]) > 0, a
            assert b"draining" in a.body and json.loads(a.body)["error"]["type"] == "unavailable_error", a
            g.wait_ready(503)
            assert g.get("/ready").headers["retry-after"] == "1" and g.get("/health").status == 200
        assert len(text_of(rest(stream))) > 100, "the running answer ends as it should"
        return True

    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        tap.race(attempt)


@tap.case
def two_hundred_streams_are_abandoned():
    """In every phase: waiting, in prefill, streaming.  All blocks are free soon; the time is told."""
    with Parts(DEMO, coordinator=["--max-queued", "512"]) as c, \
            Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        total = stats(c).blocks_total

        def is_idle():  # blocks of the prefix cache are kept, and free for whoever needs them
            now = stats(c)
            return now.blocks_free + now.blocks_cached == total and now.running + now.waiting == 0

        def attempt():
            before = stats(c).requests_cancelled
            streams = [g.connect() for _ in range(200)]
            for i, s in enumerate(streams):
                ask = {**LONG, "prompt": f"{i} once upon a time " * 8, "max_tokens": 700}
                s.request(COMPLETIONS, method="POST", body=json.dumps(ask).encode())
            time.sleep(0.5)
            busy = stats(c)
            t0 = time.monotonic()
            for s in streams:
                s.close()
            tap.wait_for(is_idle, "all blocks are free")
            print(f"# 200 abandoned streams ({busy.running} running, {busy.waiting} waiting): all blocks free after "
                  f"{time.monotonic() - t0:.3f} s")
            return stats(c).requests_cancelled > before and busy.running and busy.waiting

        tap.race(attempt)
        assert g.get("/ready").status == 200


@tap.case
def a_stopped_gateway_blames_no_server():
    """It is stopped for longer than a coordinator may be silent: its streams go on over the same connection."""
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint) as g:
        g.wait_ready()
        want = text_of(rest(begin(g)))

        def stop():
            g.process.send_signal(signal.SIGSTOP)
            time.sleep(6)  # more than LOST_US (client/gateway/upstream.c)
            g.process.send_signal(signal.SIGCONT)

        assert text_of(in_the_middle(c, g, stop)) == want
        g.process.kill()
        assert "lost the coordinator" not in g.process.stderr.read()


if __name__ == "__main__":
    tap.main()
