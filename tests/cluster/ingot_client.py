"""Ingot's public API message by message, for tests that look at the protocol itself: what comes in which order, what a
wrong message does.  The messages are those of the Python package (client/python), which programs and all other tests use.
"""
import os
import pathlib
import struct
import sys
import time
import uuid

import zmq

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "client/python"))
from ingot import _proto  # noqa: E402

PROTO = ROOT / "proto"
HEADER = struct.Struct("<4sBBHI")


def load(name="ingot"):
    """All messages of proto/NAME.proto by name, and the numbers of their types."""
    file = _proto.parse((PROTO / f"{name}.proto").read_text(), f"{name}.proto")
    types = {v.name: v.number for e in file.enum_type if e.name == "Type" for v in e.value}
    return _proto.classes(file), types


CLASSES, TYPES = load()
# HELLO -> Hello, STATS_REPLY -> StatsReply
CLASS_OF = {number: "".join(w.capitalize() for w in name.split("_"))
            for name, number in TYPES.items()}
REASONS = ["none", "eos", "length", "stop", "cancelled", "deadline", "failed"]


def pack(name, **fields):
    number = next(n for n, c in CLASS_OF.items() if c == name)
    return HEADER.pack(b"INGT", 1, 1, number, 0) + CLASSES[name](**fields).SerializeToString()


def unpack(frame):
    magic, major, _, number, flags = HEADER.unpack_from(frame)
    assert (magic, major, flags) == (b"INGT", 1, 0), frame[:12]
    name = CLASS_OF[number]
    return name, CLASSES[name].FromString(frame[HEADER.size:])


OWN_TOKEN = os.urandom(32)


class Client:
    def __init__(self, endpoint, hello=True, timeout=30.0, tenant=None, token=None):
        self.ctx = zmq.Context.instance()
        self.sock = self.ctx.socket(zmq.DEALER)
        self.sock.setsockopt(zmq.LINGER, 0)
        self.sock.connect(endpoint)
        self.timeout = timeout
        self.tenant = tenant or os.urandom(16)
        self.token = token or OWN_TOKEN  # the clients of one test program are one owner
        self.backlog = []  # came while call() waited for its answer
        if hello:
            self.send("Hello", major_min=1, major_max=1, client="python", tenant=self.tenant, token=self.token)
            name, self.welcome = self.recv()
            assert name == "Welcome" and self.welcome.tenant == self.tenant, (name, self.welcome)

    def close(self):
        self.sock.close(0)

    def send(self, name, **fields):
        self.sock.send(pack(name, **fields))

    def send_raw(self, data):
        self.sock.send(data)

    def recv(self, timeout=None):
        """Next message, without the server's probes."""
        return self.backlog.pop(0) if self.backlog else self._next(timeout)

    def _next(self, timeout=None):
        end = time.monotonic() + (timeout or self.timeout)
        while True:
            left = end - time.monotonic()
            if left <= 0 or not self.sock.poll(left * 1000):
                raise TimeoutError("no message")
            name, m = unpack(self.sock.recv())
            if not (name == "Pong" and not m.request_id):
                return name, m

    def call(self, name, **fields):
        rid = uuid.uuid4().hex
        self.send(name, request_id=rid, **fields)
        while True:
            got, m = self._next()
            if m.request_id == rid:
                return got, m
            self.backlog.append((got, m))

    def wait_ready(self, timeout=None):
        end = time.monotonic() + (timeout or self.timeout)
        while time.monotonic() < end:
            _, m = self.call("Ping")
            if m.ready:
                return
            time.sleep(0.05)
        raise TimeoutError("no worker group")

    def start(self, request_id=None, **fields):
        rid = request_id or uuid.uuid4().hex
        self.send("Generate", request_id=rid, **fields)
        return rid

    def answers(self, requests, together=True):
        """The whole answers, in the order of the requests, which run together or one after the other."""
        if together:
            rids = [self.start(**r) for r in requests]
            got = self.collect(rids)
            answers = [got[rid] for rid in rids]
        else:
            answers = [self.generate(**r) for r in requests]
        for a in answers:
            assert a.finish, a.error
        return answers

    def replies(self, rids):
        """{request id: Answer} with one message for each of the requests: Accepted or Rejected."""
        answers = {rid: Answer() for rid in rids}
        for _ in rids:
            name, m = self.recv()
            answers[m.request_id].take(name, m)
        return answers

    def collect(self, rids, timeout=None, answers=None):
        """{request id: Answer} of requests that were started.  answers: what was read before."""
        answers = answers or {rid: Answer() for rid in rids}
        open_ids = {rid for rid in rids if not answers[rid].terminals}
        while open_ids:
            name, m = self.recv(timeout)
            if m.request_id not in answers:
                continue
            if answers[m.request_id].take(name, m):
                open_ids.discard(m.request_id)
        return answers

    def generate(self, timeout=None, **fields):
        rid = self.start(**fields)
        return self.collect([rid], timeout)[rid]


class Answer:
    """What came back for one request; checks the protocol's order on the way."""

    def __init__(self):
        self.accepted = self.finish = self.error = None
        self.ids, self.text, self.logprobs, self.top = {}, {}, {}, {}
        self.prompt = []  # of each token of the prompt: log probability, rank, alternatives
        self.next_seq = {}
        self.terminals = 0
        self.cancel = None  # what a Cancel came to

    def take(self, name, m):
        if name == "CancelReply":
            self.cancel = m.result
            return self.terminals > 0
        assert self.terminals == 0, f"{name} after the terminal message"
        if name == "Accepted":
            assert self.accepted is None or m.attached
            self.accepted = m
            if m.attached:
                self.ids, self.text, self.logprobs, self.top, self.next_seq = {}, {}, {}, {}, {}
                self.prompt = []
        elif name == "Delta":
            assert self.accepted is not None, "Delta before Accepted"
            s = m.sample
            assert m.seq == self.next_seq.get(s, 0), "a delta is missing or doubled"
            self.next_seq[s] = m.seq + 1
            self.ids.setdefault(s, []).extend(m.id)
            self.text[s] = self.text.get(s, b"") + m.text
            m.text.decode()  # whole UTF-8
            self.logprobs.setdefault(s, []).extend(m.logprob)
            self.top.setdefault(s, []).extend(
                [[(e.id, e.logprob) for e in t.entry] for t in m.top])
            if m.prompt_logprob:
                assert s == 0 and len(self.ids[0]) == len(m.id), "log probabilities of the prompt behind an id"
                tops = [[(e.id, e.logprob) for e in t.entry] for t in m.prompt_top] or [[]] * len(m.prompt_logprob)
                self.prompt += zip(m.prompt_logprob, m.prompt_rank, tops, strict=True)
        elif name == "Finish":
            self.terminals += 1
            self.finish = m
        else:
            assert name in ("Error", "Rejected"), name
            self.terminals += 1
            self.error = (name, m)
        return self.terminals > 0

    def reason(self, sample=0):
        return REASONS[self.finish.sample[sample].reason] if self.finish else None

    def key(self):
        """Everything that must be the same bytes in any batch, cache state and world."""
        return (tuple((s, tuple(self.ids[s]), self.text[s], tuple(self.logprobs[s]))
                      for s in sorted(self.ids)),
                tuple((e.sample, e.reason, e.matched_stop) for e in self.finish.sample)
                if self.finish else None, tuple(map(str, self.prompt)))
