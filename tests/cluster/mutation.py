"""Frames that are nearly right: recorded messages and messages of every kind, what changes them, and what runs undisturbed
beside them.

INGOT_ALL=1: a million of each (of messages to ranks with a sanitizer a tenth, some minutes: each needs a connection); INGOT_FRAMES=N: so many; INGOT_SEED=N: other ones."""
import os
import random
import subprocess
import threading

import ingot_client as ic
import tap
import zmq
from cluster import BIN

WORKER, WORKER_TYPES = ic.load("worker")
SEED = int(os.environ.get("INGOT_SEED", "1"))


def count(few, fewer, all_sanitized=1000000):
    """few in a plain build, fewer with a sanitizer, which makes each several times as slow."""
    sanitized = b"__asan_init" in (BIN / "ingot-coordinator").read_bytes()
    if "INGOT_FRAMES" in os.environ:
        return int(os.environ["INGOT_FRAMES"])
    if os.environ.get("INGOT_ALL"):
        return all_sanitized if sanitized else 1000000
    return fewer if sanitized else few


def client_seeds():
    turn = {"role": "user", "content": b"x"}
    fields = [("Hello", dict(major_min=1, major_max=1, client="c", tenant=b"t" * 16, token=b"k" * 32)),
              ("Generate", dict(request_id="r", text=b"Once", max_tokens=2)),
              ("Generate", dict(request_id="s", chat={"turn": [turn]}, max_tokens=2, n=2, stop=[b"a", b"b"])),
              ("Generate", dict(request_id="t", tokens={"id": [1, 2, 3]}, max_tokens=1,
                                sampling={"temperature": 0.5, "logit_bias": [{"id": 1, "bias": 1}]})),
              ("Generate", dict(request_id="u", text=b"Once", max_tokens=2, grammar={"kind": 1, "source": b"{}"})),
              ("Cancel", dict(request_id="r")), ("Tokenize", dict(request_id="k", text=b"Once upon")),
              ("Detokenize", dict(request_id="d", id=[1, 2])), ("ApplyTemplate", dict(request_id="a", chat={"turn": [turn]})),
              ("Models", dict(request_id="m")), ("Stats", dict(request_id="z")), ("Ping", dict(request_id="p"))]
    return [ic.pack(name, **f) for name, f in fields]


def worker_frame(name, message):
    return ic.HEADER.pack(b"INGT", 1, 1, WORKER_TYPES[name], 0) + message.SerializePartialToString()


def worker_class(name):
    return WORKER["".join(w.capitalize() for w in name.split("_"))]


def worker_seeds(hello):
    fields = [("HELLO", hello), ("HEARTBEAT", dict(epoch=1)), ("FAULT", dict(epoch=1, rank=0, detail="x")),
              ("GOODBYE", dict(epoch=1)), ("STEP_RESULT", dict(epoch=1)), ("WEIGHTS", dict(epoch=1)),
              ("FIGURES", dict(epoch=1, steps=[1], step_us=[2], collective_us=[3], kv_bytes=[4]))]
    out = []
    for name, f in fields:
        cls = worker_class(name)
        known = {k: v for k, v in f.items() if k in cls.DESCRIPTOR.fields_by_name}
        out.append(worker_frame(name, cls(**known)))
    return out


def mutate(rng, seed):
    """Bytes that are changed, taken out, doubled or appended, mostly behind the header."""
    b = bytearray(seed)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(b)) if not b or rng.random() < 0.1 else rng.randrange(min(12, len(b) - 1), len(b))
        kind = rng.randrange(5)
        if kind == 0:
            b[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            b[at] = rng.choice((0, 1, 0x7f, 0x80, 0xff))
        elif kind == 2 and len(b) > 13:
            del b[at:at + rng.randint(1, 8)]
        elif kind == 3:
            b[at:at] = b[at:at + rng.randint(1, 8)]
        else:
            b += rng.randbytes(rng.randint(1, 16))
        if len(b) < 2:
            return bytes(seed[:1])
    return bytes(b)


class Relay(threading.Thread):
    """Passes the messages between those who connect to `endpoint` and the ROUTER at `target`, and records them."""

    def __init__(self, endpoint, target):
        super().__init__(daemon=True)
        self.endpoint, self.target = endpoint, target
        self.up, self.down = [], []  # what was sent to the target, and what it sent
        self.over = threading.Event()
        self.router = zmq.Context.instance().socket(zmq.ROUTER)
        self.router.setsockopt(zmq.LINGER, 0)
        self.router.bind(endpoint)

    def sent(self, frame):
        """Of one who connected."""

    def passes(self, frame):
        """What comes instead of a frame of the target."""
        return [frame]

    def run(self):
        dealers, poller = {}, zmq.Poller()
        poller.register(self.router, zmq.POLLIN)
        while not self.over.is_set():
            ready = dict(poller.poll(50))
            if self.router in ready:
                name, frame = self.router.recv_multipart()
                if name not in dealers:
                    dealers[name] = zmq.Context.instance().socket(zmq.DEALER)
                    dealers[name].setsockopt(zmq.LINGER, 0)
                    dealers[name].connect(self.target)
                    poller.register(dealers[name], zmq.POLLIN)
                self.up.append(frame)
                self.sent(frame)
                dealers[name].send(frame)
            for name, dealer in dealers.items():
                if dealer in ready:
                    frame = dealer.recv()
                    self.down.append(frame)
                    for passed in self.passes(frame):
                        self.router.send_multipart([name, passed])
        for s in self.router, *dealers.values():
            s.close(0)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.join()


def record_client(c):
    """The relay, with the messages of one session of tests/frames/frames_client.c."""
    with Relay(f"ipc://{c.dir}/relay", c.endpoint) as relay:
        p = subprocess.Popen([BIN / "frames_client", relay.endpoint, "1"], stdout=subprocess.DEVNULL)
        tap.wait_for(lambda: any(ic.unpack(f)[0] == "Finish" for f in list(relay.down)), "the answer")
        p.kill()
        p.wait()
    return relay


class Beside(threading.Thread):
    """A client whose answers must be those of a quiet server, as long as others send what they like."""

    ASK = dict(text=b"Once upon a time", max_tokens=24, n=2, sampling={"seed": 5, "temperature": 0.8, "logprobs": True})

    def __init__(self, endpoint):
        super().__init__(daemon=True)
        self.endpoint, self.over, self.n, self.wrong = endpoint, threading.Event(), 0, None
        self.want = self.answer()

    def answer(self):
        client = ic.Client(self.endpoint, timeout=300, token=os.urandom(32))
        answer = client.generate(**self.ASK)
        client.close()
        return answer.key()

    def run(self):
        try:
            while not self.over.is_set():
                got = self.answer()
                if got != self.want:
                    self.wrong = f"answer {self.n} is {got}, not {self.want}"
                    return
                self.n += 1
        except Exception as e:
            self.wrong = f"{type(e).__name__}: {e}"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *exc):
        self.over.set()
        self.join()
        if kind is None:
            assert not self.wrong, self.wrong
            assert self.n, "no answer came beside the frames"


def choose(seeds, stream):
    """Mutated ones of seeds, without an end.  None is a Drain: the server would end, as an operator may ask it to."""
    rng = random.Random(f"{SEED} {stream}")
    while True:
        frame = mutate(rng, rng.choice(seeds))
        if frame[6:8] != ic.TYPES["DRAIN"].to_bytes(2, "little"):
            yield frame
