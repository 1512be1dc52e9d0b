"""Replies of a coordinator that are nearly right, as libingot takes them (tests/frames/frames_client.c), and its messages
to a worker group (frames_rank.c).  They are recorded from real ones; what is not mutated gives the same events and results
each time."""
import pathlib
import random
import re
import subprocess
import sys
import threading

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import ingot_client as ic  # noqa: E402
import tap  # noqa: E402
import zmq  # noqa: E402
from google.protobuf.message import DecodeError  # noqa: E402
from cluster import BIN, DEMO, Parts  # noqa: E402
from mutation import SEED, WORKER_TYPES, Beside, Relay, count, mutate, record_client, worker_class, worker_frame  # noqa: E402

# As the sizes in tests/frames/frames_rank.c.
RANK = ["--threads", "1", "--max-seqs", "8", "--max-step-tokens", "64", "--kv-blocks", "64", "--max-ctx", "256"]
END = ic.pack("Error", request_id="end", code=3, detail="the end", request=ic.TYPES["GENERATE"])
ROUNDS = 4  # of the recorded replies, in one session
WHOLE = 250


def type_of(frame):
    return ic.HEADER.unpack_from(frame)[3]


class Script(threading.Thread):
    """A ROUTER that answers each message by frames."""

    def __init__(self, endpoint):
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.sock = zmq.Context.instance().socket(zmq.ROUTER)
        self.sock.setsockopt(zmq.LINGER, 0)
        self.sock.setsockopt(zmq.SNDHWM, 0)
        self.sock.bind(endpoint)

    def run(self):
        while not self.over.is_set():
            if self.sock.poll(50):
                name, frame = self.sock.recv_multipart()
                for answer in self.answers(frame):
                    self.sock.send_multipart([name, answer])
        self.sock.close(0)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.join()


# ---- replies ----

class Server(Script):
    """Answers Hello by the recorded Welcome (mutated, one in five), and the Generate of a session by all other recorded replies, mutated or not."""

    def __init__(self, endpoint, replies, mutated):
        super().__init__(endpoint)
        self.welcome = next(f for f in replies if type_of(f) == ic.TYPES["WELCOME"])
        self.replies = [f for f in replies if type_of(f) != ic.TYPES["WELCOME"]]
        self.mutated, self.n, self.rng = mutated, 0, random.Random(f"{SEED} replies")

    def answers(self, frame):
        kind = type_of(frame)
        if kind == ic.TYPES["HELLO"]:
            broken = self.mutated and self.rng.random() < 0.2
            self.n += broken
            yield mutate(self.rng, self.welcome) if broken else self.welcome
        if kind != ic.TYPES["GENERATE"]:
            return
        for _ in range(ROUNDS if self.mutated else 1):
            for f in self.replies:
                self.n += self.mutated
                yield mutate(self.rng, f) if self.mutated else f
        yield END


def sessions(endpoint, n):
    return subprocess.Popen([BIN / "frames_client", endpoint, str(n)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


@tap.case
def replies_to_clients():
    n = count(10000, 2000)
    with Parts(DEMO) as c:
        c.clients[0].wait_ready()
        replies = record_client(c).down
        assert {ic.TYPES[t] for t in ("WELCOME", "ACCEPTED", "DELTA", "FINISH", "TOKENS", "TEXT", "STATS_REPLY", "PONG")} <= \
            set(map(type_of, replies))
        wrong, good = f"ipc://{c.dir}/wrong", f"ipc://{c.dir}/good"
        per = ROUNDS * (len(replies) - 1)
        with Server(wrong, replies, True) as bad, Server(good, replies, False):
            victim, beside = sessions(wrong, n // per * 3 // 2 + 1), sessions(good, 50)
            out, err = victim.communicate(timeout=19000)
            assert victim.returncode == 0, (victim.returncode, err[-3000:])
            lines = [[int(x) for x in line.split()[:2]] for line in out.splitlines()]
            assert bad.n >= n and sum(e for e, _ in lines) and sum(r for _, r in lines), (bad.n, n, lines[:9])
            out, err = beside.communicate(timeout=tap.LIMIT)
            assert beside.returncode == 0, err[-3000:]
            events = set(out.splitlines())
            assert len(events) == 1 and re.fullmatch(r"\d+ 0 [0-9a-f]{16}", events.pop()), events
        print(f"# {bad.n} mutated replies, {len(lines)} sessions", flush=True)


# ---- messages to workers ----

class Coordinator(Script):
    """Welcomes a rank to one session after the other: some of the recorded messages, one that is mutated (it may be the
    Welcome), and one that no rank takes.  Every WHOLE-th has all recorded ones, and a Shutdown behind their results."""

    def __init__(self, endpoint, messages, n_results):
        super().__init__(endpoint)
        self.messages, self.n_results = messages, n_results
        self.epoch, self.n, self.rng = 0, 0, random.Random(f"{SEED} messages")
        self.whole, self.tokens = [], None  # of the sessions without a mutation: their tokens

    def frame(self, m):
        name, message = m
        if "epoch" in message.DESCRIPTOR.fields_by_name:
            message.epoch = self.epoch
        return worker_frame(name, message)

    def mutated(self, m):
        """Not what a rank is to obey: that it is refused, or welcomed to an epoch to come."""
        self.n += 1
        while True:
            f = mutate(self.rng, self.frame(m))
            kind = type_of(f) if len(f) >= ic.HEADER.size else 0
            if kind != WORKER_TYPES["REFUSED"] and not (kind == WORKER_TYPES["WELCOME"] and epoch_of(f) > self.epoch):
                return f

    def session(self):
        self.epoch += 1
        welcome = "WELCOME", worker_class("WELCOME")(heartbeat_ms=100000, lease_ms=300000)
        if self.epoch % WHOLE != 1 and self.rng.random() < 0.1:
            self.tokens = None
            yield self.mutated(welcome)
            yield b"no frame"
            return
        yield self.frame(welcome)
        self.tokens = [] if self.epoch % WHOLE == 1 else None
        if self.tokens is not None:
            yield from map(self.frame, self.messages)
            return
        at = self.rng.randrange(len(self.messages))
        others_first = self.rng.random()  # mostly none: a sanitizer's build takes longer for a step than for all else
        before = at if others_first < 0.02 else self.rng.randrange(min(at, 3) + 1) if others_first < 0.2 else 0
        yield from map(self.frame, self.messages[:before])
        others = [(name, worker_class(name)()) for name in ("RESET", "HEARTBEAT", "SHUTDOWN")] + [welcome]
        yield self.mutated(self.rng.choice(others) if self.rng.random() < 0.2 else self.messages[at])
        yield b"no frame"

    def answers(self, frame):
        kind = type_of(frame)
        if kind == WORKER_TYPES["HELLO"]:
            yield from self.session()
        elif self.tokens is None:
            return
        elif kind == WORKER_TYPES["STEP_RESULT"] and self.is_of_session("STEP_RESULT", frame):
            self.tokens.append(result_of(frame))
            if len(self.tokens) == self.n_results:
                self.whole.append(self.tokens)
                yield self.frame(("SHUTDOWN", worker_class("SHUTDOWN")()))
        elif kind == WORKER_TYPES["FAULT"]:
            assert not self.is_of_session("FAULT", frame), frame

    def is_of_session(self, name, frame):
        """What was sent over the connection before this one may come later than its Hello."""
        return worker_class(name).FromString(frame[ic.HEADER.size:]).epoch == self.epoch


def epoch_of(frame):
    """0: it is no Welcome."""
    try:
        return worker_class("WELCOME").FromString(frame[ic.HEADER.size:]).epoch
    except DecodeError:
        return 0


def result_of(frame):
    """What must be the same: a StepResult without its times and epoch."""
    m = worker_class("STEP_RESULT").FromString(frame[ic.HEADER.size:])
    for name in "epoch", "compute_us", "comm_us", "mask_us", "mask_wait_us", "masks", "masks_cached":
        if name in m.DESCRIPTOR.fields_by_name:
            m.ClearField(name)
    return m.SerializeToString()


@tap.case
def messages_to_workers():
    n = count(10000, 100, 100000)
    with Parts(DEMO, groups=0) as c:
        with Relay(f"ipc://{c.dir}/relay", c.workers) as relay:
            group = c.spawn(BIN / "ingot-worker", "--model", DEMO, "--connect", relay.endpoint, *RANK)
            c.clients[0].wait_ready()
            schema = {"kind": 1, "source": b'{"type":"integer"}'}
            for ask in Beside.ASK, dict(text=b"Once", max_tokens=8, sampling={"seed": 1}, grammar=schema):
                assert c.clients[0].generate(**ask).finish
            group.terminate()
            assert group.wait(tap.LIMIT) == 0
        names = {number: name for name, number in WORKER_TYPES.items()}
        messages = [(names[type_of(f)], worker_class(names[type_of(f)]).FromString(f[ic.HEADER.size:])) for f in relay.down]
        messages = [m for m in messages if m[0] not in ("WELCOME", "HEARTBEAT", "SHUTDOWN", "REFUSED")]
        assert {"STEP_PLAN", "VOCABULARY", "GRAMMAR"} <= {name for name, _ in messages}
        n_results = [type_of(f) for f in relay.up].count(WORKER_TYPES["STEP_RESULT"])
        with Coordinator(f"ipc://{c.dir}/wrong", messages, n_results) as script:
            rank = c.spawn(BIN / "frames_rank", f"ipc://{c.dir}/wrong", DEMO)
            while script.n < n:
                assert rank.poll() is None and script.is_alive(), c.log()[-3000:]
                script.join(0.05)
            tap.wait_for(lambda: len(script.whole) > n // WHOLE, "the last whole session")
            rank.terminate()
            assert rank.wait(tap.LIMIT) == 0, c.log()[-3000:]
            assert all(w == script.whole[0] for w in script.whole), "before the first mutation it computed otherwise"
        print(f"# {script.n} mutated messages, {len(script.whole)} sessions without", flush=True)


tap.main()
