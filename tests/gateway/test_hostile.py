"""Hostile HTTP against a live gateway: whatever comes, it serves on, and the streams beside it are undisturbed.

Requests are mutated from a fixed seed; --all sends 10^5 of them."""
import contextlib
import json
import os
import pathlib
import random
import resource
import select
import socket
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

ROUNDS = 100000 if "INGOT_ALL" in os.environ else 3000
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
ASK = {"prompt": "Once upon a time", "max_tokens": 60, "ignore_eos": True, "seed": 9, "temperature": 1}
stack = contextlib.ExitStack()
cluster = gateway = None


def stats():
    return cluster.clients[0].call("Stats")[1]


class Streams:
    """Streams one after the other in threads of their own; each must be whole and the same."""

    def __init__(self, n=2):
        self.want, self.done, self.failures, self.end = self.one(), 0, [], False
        self.threads = [threading.Thread(target=self.run) for _ in range(n)]

    @staticmethod
    def one():
        with gateway.connect() as c:
            a = c.post(COMPLETIONS, json.dumps({**ASK, "stream": True}).encode())
        assert a.status == 200 and a.body.endswith(b"data: [DONE]\n\n"), a
        return "".join(json.loads(e[6:])["choices"][0]["text"] for e in a.body.decode()[:-2].split("\n\n")[:-1])

    def run(self):
        while not self.end:
            try:
                assert self.one() == self.want
                self.done += 1
            except Exception as e:  # told by __exit__
                self.failures.append(repr(e))
                return

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *exc):
        tap.wait_for(lambda: self.failures or self.done >= len(self.threads), "streams end beside it")
        self.end = True
        for t in self.threads:
            t.join()
        assert not self.failures, self.failures
        assert gateway.process.poll() is None and gateway.get("/health").status == 200


def request(path, body, *headers, method="POST"):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers,
             f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def seeds():
    small = json.dumps({**ASK, "max_tokens": 1}).encode()
    chat = json.dumps({"messages": [{"role": "user", "content": "hi \u00e9"}], "max_tokens": 1, "stop": ["x"],
                       "stream": True, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}).encode()
    chunked = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"%x;a=b\r\n%s\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(small), small))
    return [request(COMPLETIONS, small), request(CHAT, chat), chunked, request("/v1/models", b"", method="GET"),
            request(COMPLETIONS, small, "Idempotency-Key: k", "X-Request-Id: 1", "Expect: 100-continue",
                    "Authorization: Bearer x", "Origin: http://localhost", "Connection: keep-alive",
                    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            request("/v1/models/demo%2dmodel?x=%00", b"", method="GET") * 3, request("*", b"", method="OPTIONS"),
            request("/health", b"", method="HEAD") + request(COMPLETIONS, small)]


WORDS = [b"\r\n", b"\r\n\r\n", b"\n", b"\r", b"\0", b":", b" ", b"\t", b"chunked", b"Transfer-Encoding: chunked\r\n",
         b"Content-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"0\r\n\r\n",
         b"ffffffffffffffff\r\n", b"HTTP/1.1", b"HTTP/2.0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\xff\xfe", b"%", b"%00",
         b"{", b"}", b"[", b"\"", b"\\u0000", b"\\ud800", b"1e999", b"-0", b"null", b"Host: evil\r\n", b"A" * 9000,
         b"X: y\r\n" * 200, b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Upgrade: h2c\r\n", b"TRACE", b"POST"]


def mutate(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        elif kind == 1:
            data[at:at] = rng.choice(WORDS)
        elif kind == 2:
            del data[at:at + rng.choice((1, 2, 10, 1000))]
        elif kind == 3:
            data[at:at + 1] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
        elif kind == 4:
            data[at:at] = data[rng.randrange(len(data) + 1):][:rng.randrange(1, 100)]
        else:
            del data[at:]
    return bytes(data)


def drain(sock):
    """Takes what has come; False: the server has closed."""
    while select.select([sock], [], [], 0)[0]:
        try:
            if not sock.recv(65536):
                return False
        except OSError:
            return False
    return True


def resident():
    with open(f"/proc/{gateway.process.pid}/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def descriptors():
    return len(os.listdir(f"/proc/{gateway.process.pid}/fd"))


@tap.case
def mutated_requests():
    rng = random.Random(1)
    all_seeds = seeds()
    before, files = None, descriptors()
    with Streams() as streams:
        pending = []
        for i in range(ROUNDS):
            s = socket.create_connection(("127.0.0.1", gateway.port), tap.LIMIT)
            with contextlib.suppress(OSError):  # it may close before all is sent
                s.sendall(mutate(rng, rng.choice(all_seeds)))
                if rng.random() < 0.7:
                    s.shutdown(socket.SHUT_WR)
            pending.append(s)
            if len(pending) > 64:
                old = pending.pop(rng.randrange(32))
                drain(old)
                old.close()
            if i == ROUNDS // 2:
                before = resident()
        for s in pending:
            s.close()
        print(f"# {ROUNDS} mutated requests, {streams.done} streams beside them, "
              f"{(resident() - before) // 1024} KiB more resident in the second half")
        assert resident() - before < 32 << 20
    tap.wait_for(lambda: stats().running + stats().waiting == 0, "no request is left")
    tap.wait_for(lambda: descriptors() <= files + 2, "no connection is left")


@tap.case
def requests_hidden_in_others():
    """Smuggling: where lengths disagree nothing of the second request may be answered."""
    hidden = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    heads = [b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Content-Length: 5\r\nContent-Length: 6\r\n",
             b"Transfer-Encoding: chunked, identity\r\n", b"Transfer-Encoding: xchunked\r\n", b"Content-Length: +5\r\n",
             b"Transfer-Encoding : chunked\r\n", b"Content-Length: 5, 5\r\n Content-Length: 6\r\n", b"Content-Length: 0x5\r\n",
             b"Transfer-Encoding:\x0bchunked\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\nX: \0\r\n"]
    with Streams():
        for head in heads:
            with gateway.connect() as c:
                c.send(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n0\r\n\r\n" + hidden)
                a = c.answer()
                assert a.status in (400, 411, 501), (head, a)
                assert c.rest() == b"", (head, "a hidden request was answered")


@tap.case
def bad_chunks_and_huge_heads():
    begin = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
    with Streams():
        for chunk in (b"g\r\n", b"-1\r\n", b"fffffffffffffffff\r\n", b"5\rhello\r\n", b"5\r\nhelloX\r\n0\r\n\r\n", b"0x5\r\nhello\r\n",
                      b";" * 100000, b"5;" + b"x" * 100000 + b"\r\nhello", b"0\r\n" + b"A: b\r\n" * 20000 + b"\r\n"):
            with gateway.connect() as c, contextlib.suppress(ConnectionError):
                c.send(begin + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
                assert c.answer().status in (400, 413, 431), chunk[:40]
        for head, statuses in ((b"X: " + b"y" * (1 << 20) + b"\r\n", (431,)), (b"X: y\r\n" * 5000, (431,)),
                               (b"Content-Length: 99999999999\r\n", (413,))):
            with gateway.connect() as c, contextlib.suppress(ConnectionError):
                c.send(begin + head + b"\r\n")
                assert c.answer().status in statuses, head[:40]
        with gateway.connect() as c, contextlib.suppress(ConnectionError):
            c.send(b"GET /" + b"a" * (1 << 20))
            assert c.answer().status == 414


@tap.case
def slow_and_stuck_clients():
    """Half heads, half bodies, pipelines without a reader, streams that are not read: 200 of each, all at once."""
    body = json.dumps({**ASK, "max_tokens": 200, "stream": True}).encode()
    starts = [b"G", b"POST /v1/completions HTTP/1.1\r\nHost: loc", request(COMPLETIONS, body)[:-3],
              request("/v1/models", b"", method="GET") * 100, request(COMPLETIONS, body)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    stuck = []
    with Streams():
        for start in starts:
            for _ in range(20 if start is starts[-1] else 200):
                s = socket.create_connection(("127.0.0.1", gateway.port), tap.LIMIT)
                s.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    s.send(start)
                stuck.append(s)
        for i, s in enumerate(stuck):  # one byte more of each
            with contextlib.suppress(OSError):
                s.send(b"x")
            if i % 100 == 0:
                assert gateway.get("/health").status == 200
    for s in stuck:
        s.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    tap.wait_for(lambda: stats().running + stats().waiting == 0, "no request is left")


if __name__ == "__main__":
    with stack:
        cluster = stack.enter_context(Parts(DEMO))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint, "--access-log", os.devnull)).wait_ready()
        tap.main()
