"""Ways into the cluster.  Each runs streams in a thread of its own and gathers, for each, the facts that must be the same as
in an undisturbed run.  What breaks the protocol is an AssertionError."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster"), str(HERE.parents[1] / "client/python")]
import ingot  # noqa: E402
from cluster import BIN  # noqa: E402
from feed import Arrivals  # noqa: E402
from ingot import _request, _session  # noqa: E402
from ingot._proto import ENUMS  # noqa: E402

LIMIT_S = 120  # for a stream, faults included: what is slower hangs


class Outcome:
    """Of one stream: its facts, or why there are none."""

    def __init__(self, spec):
        self.spec, self.arrivals = spec, Arrivals()
        self.facts = self.error = None
        self.left = False  # its client was killed: no answer is expected
        self.retries = 0


class Door(threading.Thread):
    """Runs its outcomes' streams; thread-safe for others only through kill() and pause()."""

    def __init__(self, cluster, feed, specs):
        super().__init__(daemon=True)
        self.cluster, self.feed = cluster, feed
        self.outcomes = [Outcome(s) for s in specs]

    def run(self):
        try:
            self.ask()
        except Exception as e:  # told by the checks, with the seed
            for o in self.outcomes:
                if o.facts is None and not o.left:
                    o.error = o.error or f"{type(e).__name__}: {e}"
        for o in self.outcomes:
            if o.arrivals.ended is None:
                self.over(o)

    def over(self, outcome):
        outcome.arrivals.ended = time.monotonic()
        self.feed.note("ended")


class Watched(ingot.Client):
    """Sees each message before the client does: order, gaps, doubles, terminal messages."""

    def __init__(self, endpoint, feed, **more):
        self.feed, self.seen, self.arrivals, self.terminals = feed, {}, {}, {}
        super().__init__(endpoint, **more)

    def _try(self, end):
        self.seen = {}  # of each request over this connection: the next number of each sample's Deltas
        return super()._try(end)

    def _take(self, frame):
        m = _session.unpack(frame)
        if m is not None and getattr(m, "request_id", None) in self.arrivals:
            self.look(_session.kind_of(m), m)
        super()._take(frame)

    def look(self, kind, m):
        rid = m.request_id
        if kind == "CancelReply":
            return
        assert self.terminals[rid] == 0, f"{kind} behind the terminal message"
        if kind == "Accepted":
            assert rid not in self.seen or m.attached, "accepted twice"
            self.seen[rid] = {}
            self.feed.note("accepted")
        elif kind == "Delta":
            assert rid in self.seen, "a Delta before Accepted"
            expected = self.seen[rid].get(m.sample, 0)
            assert m.seq == expected, f"Delta {m.seq} of sample {m.sample} instead of {expected}"
            self.seen[rid][m.sample] = expected + 1
            self.arrivals[rid].part()
            self.feed.note("delta")
        elif kind == "Finish":
            self.terminals[rid] += 1
        elif kind == "Error" and rid in self.seen and m.retryable and ENUMS["Code"][m.code] == "OUT_OF_MEMORY":
            del self.seen[rid]  # the client goes on with what it has
        elif kind == "Error" and rid in self.seen:
            self.terminals[rid] += 1


def message_of(ask, rid):
    """The Generate of a package stream."""
    options = dict(ask)
    more = options.pop("message", {})
    if "tools" in more:
        question = [{"role": "user", "content": options.pop("prompt")}]
        m = _request.generate(None, question, {**options, "tools": more["tools"], "clock_s": 0, "zone_s": 0, "request_id": rid})
        m.chat.tool_choice = next(n for n, name in ENUMS["ToolChoice"].items() if name == "TOOL_CHOICE_REQUIRED")
        return m
    m = _request.generate(options.pop("prompt"), None, {**options, "request_id": rid})
    if "grammar" in more:
        m.grammar.kind, m.grammar.source = more["grammar"][0], more["grammar"][1].encode()
    return m


class PackageDoor(Door):
    """Streams of one client, which is one tenant."""

    def begin(self, client, o, rid):
        request = client._session.start(message_of(o.spec.ask, rid))
        stream = client._streams[rid] = ingot.Stream(client, request)
        client.arrivals[rid], client.terminals[rid] = o.arrivals, 0
        client._send(request.frame)
        self.feed.note("sent")
        return stream

    def ask(self):
        with Watched(self.cluster.client_endpoint(), self.feed, timeout=LIMIT_S) as client:
            begun = [(o, self.begin(client, o, uuid.uuid4().hex)) for o in self.outcomes]
            for o, stream in begun:
                self.finish(client, o, stream)

    def finish(self, client, o, stream):
        """A refusal that passes is answered by sending it again, as the protocol says."""
        end = time.monotonic() + LIMIT_S
        while o.facts is None:
            try:
                r = stream.result()
                assert client.terminals[stream.request_id] == 1, client.terminals[stream.request_id]
                o.facts = [[s.ids, s.text, s.reason, s.matched_stop, s.stop_id, s.logprobs] for s in r.samples] + \
                    [r.prompt_tokens, r.completion_tokens]
            except ingot.Rejected as e:
                if not e.retryable or time.monotonic() > end:
                    raise
                o.retries += 1
                time.sleep(min(e.retry_after_s or 0.05, 0.5))
                stream = self.begin(client, o, stream.request_id)
            except ingot.IngotError as e:
                o.error = f"{type(e).__name__}: {e}"
                break
        self.over(o)


class CliDoor(Door):
    """One stream, of a process that can be killed or paused."""

    def __init__(self, cluster, feed, specs):
        super().__init__(cluster, feed, specs)
        self.process = subprocess.Popen(
            [BIN / "ingot", "generate", "--json", "--connect", cluster.client_endpoint(), "--wait-ms", str(1000 * LIMIT_S),
             *specs[0].ask["args"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **cluster.environment})
        feed.note("sent")

    def signal(self, how):
        """False: it had ended."""
        if self.process.poll() is not None:
            return False
        self.outcomes[0].left = self.outcomes[0].left or how == signal.SIGKILL
        self.process.send_signal(how)
        return True

    def ask(self):
        o, samples, accepted, finish = self.outcomes[0], {}, 0, None
        for line in self.process.stdout:
            m = json.loads(line)
            assert finish is None, f"{m['type']} behind the terminal message"
            if m["type"] == "accepted":
                accepted += 1
                self.feed.note("accepted")
            elif m["type"] == "delta":
                o.arrivals.part()
                self.feed.note("delta")
                s = samples.setdefault(str(m.get("sample", 0)), [[], "", [], []])
                s[0] += m["ids"]
                s[1] += m["text"]
                s[2] += m.get("logprobs", [])
                s[3] += m.get("top_logprobs", [])
            else:
                finish = m
        words = self.process.stderr.read()
        rc = self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        if o.left:
            return
        if rc or finish is None or finish["type"] != "finish":
            o.error = f"ingot generate ended with {rc}: {finish} {words[-500:]}"
            return
        assert accepted == 1, f"{accepted} times accepted"
        o.facts = [samples, finish["samples"], finish["prompt_tokens"], finish["completion_tokens"]]


class HttpDoor(Door):
    """One stream through the gateway.  When the connection breaks, the same POST with the same Idempotency-Key is sent again,
    and the answer must begin with the part that had come."""

    def ask(self):
        o, end, before, key = self.outcomes[0], time.monotonic() + LIMIT_S, {}, uuid.uuid4().hex
        self.feed.note("sent")
        while o.facts is None and o.error is None:
            assert time.monotonic() < end, "no whole answer over HTTP"
            choices, done = {}, False
            try:
                done = self.post(o, key, choices)
            except (OSError, http.client.HTTPException):
                pass
            for index, c in before.items():
                now = choices.get(index, ["", "", [], None])
                n = min(len(c[0]), len(now[0]))
                assert c[0][:n] == now[0][:n], f"choice {index} began otherwise before the connection broke"
            if done:
                assert all(len(choices[i][0]) >= len(c[0]) for i, c in before.items()), "the answer is shorter than before"
                o.facts = [choices]
            elif o.error is None:
                before = max(before, choices, key=lambda t: sum(len(c[0]) for c in t.values()))
                o.retries += 1
                time.sleep(0.05)

    def post(self, o, key, choices):
        """Has the whole answer come?  choices: index -> text, calls, log probabilities, reason."""
        address = self.cluster.http_address()
        if address is None:
            return False
        c = http.client.HTTPConnection(address, timeout=LIMIT_S)
        try:
            c.request("POST", o.spec.ask["path"], json.dumps(o.spec.ask["body"]),
                      {"Content-Type": "application/json", "Idempotency-Key": key})
            r = c.getresponse()
            if r.status != 200:
                words = r.read()
                if r.status not in (429, 503):
                    o.error = f"HTTP {r.status}: {words[:300]}"
                return False
            self.feed.note("accepted")
            for line in r:
                if line.startswith(b"data: [DONE]"):
                    return True
                if line.startswith(b"data: "):
                    self.take(o, json.loads(line[6:]), choices)
            return False
        finally:
            c.close()

    def take(self, o, event, choices):
        if "error" in event:
            o.error = f"an error in the stream: {event['error']}"
            return
        o.arrivals.part()
        self.feed.note("delta")
        for c in event["choices"]:
            at = choices.setdefault(c["index"], ["", "", [], None])
            delta = c.get("delta") or {}
            at[0] += c.get("text") or delta.get("content") or ""
            for call in delta.get("tool_calls") or ():
                at[1] += call["function"].get("name", "") + call["function"].get("arguments", "")
            at[2] += (c.get("logprobs") or {}).get("content") or []
            at[3] = c.get("finish_reason") or at[3]


def open_doors(cluster, feed, specs):
    """The threads, not started yet: package streams in clients of up to four, each a tenant of its own."""
    package = [s for s in specs if s.door == "package"]
    doors = [PackageDoor(cluster, feed, package[i:i + 4]) for i in range(0, len(package), 4)]
    doors += [CliDoor(cluster, feed, [s]) for s in specs if s.door == "cli"]
    return doors + [HttpDoor(cluster, feed, [s]) for s in specs if s.door == "http"]
