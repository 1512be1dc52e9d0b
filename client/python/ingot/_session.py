"""One client's side of the protocol without any input and output: what to send, and what a received message means.
The synchronous and the asyncio client move the bytes."""
import os
import struct
import time
import uuid
from typing import Any, Dict, List, Optional, Tuple

from ._proto import ENUMS, MESSAGES, NUMBERS, TYPES
from .errors import ConnectionLost, IngotError, Rejected, RequestFailed, ServerError
from .types import Delta, Model, Result, Sample, Server

HEADER = struct.Struct("<4sBBHI")
MAGIC, MAJOR, MINOR = b"INGT", 1, 1
DEFAULT_ENDPOINT = "tcp://127.0.0.1:5555"
TRY_S = 1.0  # how long one endpoint of a list is waited for
ASK_S = 0.5  # how often a server of a list is asked whether it has worker groups
EMPTY_S = 1.5  # how long one without is waited for, before the next of the list
MAX_DOUBLINGS = 10


def pack(message) -> bytes:
    return HEADER.pack(MAGIC, MAJOR, MINOR, NUMBERS[message.DESCRIPTOR.name], 0) + message.SerializeToString()


def unpack(frame: bytes):
    """The message of a frame; None: of a type that this version does not know."""
    if len(frame) < HEADER.size:
        raise IngotError("the server sent a message without a header")
    magic, major, _, number, flags = HEADER.unpack_from(frame)
    if (magic, major, flags) != (MAGIC, MAJOR, 0):
        raise IngotError("this is not a server of this protocol")
    name = TYPES.get(number)
    return MESSAGES[name].FromString(frame[HEADER.size:]) if name else None


def kind_of(message) -> str:
    return message.DESCRIPTOR.name


def model_of(m) -> Model:
    return Model(m.name, m.vocab, m.max_ctx, m.chat, m.world, m.weights_digest.hex(), m.text_digest.hex(),
                 m.tool_format, m.embedding, m.rerank)


def error_of(m) -> ServerError:
    """The exception for an Error or Rejected."""
    code = ENUMS["Code"].get(m.code, str(m.code)).lower()
    if kind_of(m) == "Rejected":
        wait = m.retry_after_ms / 1000 if m.HasField("retry_after_ms") else None
        return Rejected(code, m.detail, m.field, m.retryable, wait)
    kind = RequestFailed if m.request == NUMBERS["Generate"] else ServerError
    return kind(code, m.detail, m.field, m.retryable)


def retry_s(m) -> float:
    """When what a message refuses for now is sent again."""
    return min(max(getattr(m, "retry_after_ms", 0), 20), 500) / 1000


class Request:
    """A Generate on its way: gathers its answer.  Over a new connection it goes on where it was (RESUMING in
    ingot.proto)."""

    def __init__(self, message, patience_s: float) -> None:
        self.message, self.id, self.patience_s = message, message.request_id, patience_s
        self.frame = pack(message)
        self.samples = [Sample() for _ in range(message.n)]
        self.began = time.monotonic()
        self.give_up = 0.0  # until when refusals that pass are answered by sending it again
        self.retry_at: Optional[float] = None
        self.resends, self.cancelled = 0, False
        self.n_empty = 0  # servers without worker groups that have refused it before any had accepted it
        self.taken = self.astray = False  # over this connection: it was accepted; the server knows no session
        self.accepted: Any = None
        self.n_deltas = self.n_failed = 0  # that have come, and had when the server ran out of memory last
        self.result: Optional[Result] = None
        self.error: Optional[IngotError] = None

    @property
    def ended(self) -> bool:
        return self.result is not None or self.error is not None

    def reconnected(self) -> None:
        """It is about to be sent again; without a deadline of its own it has patience_s to be taken."""
        deadline = self.message.deadline_ms
        if not self.n_empty:
            self.give_up = self.began + deadline / 1000 if deadline else time.monotonic() + self.patience_s

    def resend(self) -> bytes:
        self.resends += 1
        self.retry_at, self.taken, self.astray = None, False, False
        if self.message.HasField("embed"):  # it has no part to go on from
            return self.frame
        if self.accepted is None or not self.accepted.HasField("prompt_digest"):
            return self.frame
        m = MESSAGES["Generate"]()
        m.CopyFrom(self.message)
        m.resume.accepted.CopyFrom(self.accepted)
        for name in "request_id", "queue_position", "attached", "prompt_id", "prompt_text":
            m.resume.accepted.ClearField(name)
        for sample in self.samples:
            m.resume.sample.add(id=sample.ids, text_bytes=len(sample.text.encode()))
        m.resume.elapsed_ms = min(int((time.monotonic() - self.began) * 1000), 2**32 - 1)
        return pack(m)

    def take(self, m) -> Optional[Delta]:
        """What a message means for the caller."""
        kind = kind_of(m)
        if self.ended:
            return None
        if kind == "Accepted":
            if self.accepted is None or not self.n_deltas:  # the later one may know more of what computes
                self.accepted = m
            self.taken, self.n_empty = True, 0
        elif kind == "Delta":
            return self._take_delta(m)
        elif kind == "Finish":
            self._take_finish(m)
        elif kind == "Rejected" and self.give_up:
            self._take_refusal(m)
        elif kind == "Error" and not self.taken and ENUMS["Code"][m.code] == "PEER":
            self.astray = True  # ZeroMQ has sent it to the next server, which has had no Hello
        elif kind == "Error" and self.taken and m.retryable and ENUMS["Code"][m.code] == "OUT_OF_MEMORY":
            self._go_on_later(m)
        elif kind in ("Error", "Rejected"):
            self.error = error_of(m)
        return None

    def _take_delta(self, m) -> Delta:
        sample = self.samples[m.sample]
        self.n_deltas += 1
        text, ids = m.text.decode(), list(m.id)
        sample.text += text
        sample.ids += ids
        sample.logprobs += list(m.logprob)
        return Delta(text, tuple(ids), m.sample, tuple(m.logprob),
                     tuple(tuple((e.id, e.logprob) for e in t.entry) for t in m.top))

    def _take_refusal(self, m) -> None:
        now = time.monotonic()
        if m.retryable and now < self.give_up:
            self.retry_at = now + retry_s(m)
        else:
            self.error = ConnectionLost(f"the connection was lost, and the request cannot go on: {m.detail}")

    def _go_on_later(self, m) -> None:
        """The server has no memory for more of the answer.  That passes: the request goes on with what has come, and
        while it progresses it has the time of a lost connection again."""
        if not self.give_up or self.n_deltas > self.n_failed:
            self.reconnected()
        self.n_failed = self.n_deltas
        self._take_refusal(m)

    def _take_finish(self, m) -> None:
        reasons = ENUMS["Reason"]
        for end in m.sample:
            sample = self.samples[end.sample]
            sample.reason = reasons.get(end.reason, str(end.reason)).lower().replace("reason_", "")
            sample.matched_stop = end.matched_stop.decode() if end.HasField("matched_stop") else None
            sample.stop_id = end.stop_id if end.HasField("stop_id") else None
        if self.resends and not self.cancelled and any(s.reason == "cancelled" for s in self.samples):
            self.error = ConnectionLost("the connection was lost, and the server has cancelled the request")
            return
        self.result = Result(self.samples, m.prompt_tokens, m.cached_tokens, m.completion_tokens, m.queue_us / 1e6,
                             m.first_token_us / 1e6, m.total_us / 1e6, m.recoveries, tuple(m.embedding))


class Query:
    """A question, or a Cancel, on its way."""

    def __init__(self, frame: bytes, repeatable: bool = True) -> None:
        self.frame = frame
        self.repeatable = repeatable  # over a new connection, maybe to another server
        self.resent = False  # over one: refusals that pass are answered by sending it again
        self.retry_at: Optional[float] = None
        self.refusal: Any = None  # the last of them
        self.reply: Any = None  # or the IngotError that it came to

    def resend(self) -> bytes:
        self.resent, self.retry_at = True, None
        return self.frame

    def take(self, m) -> None:
        if self.resent and kind_of(m) == "Error" and m.retryable:
            self.refusal, self.retry_at = m, time.monotonic() + retry_s(m)
        else:
            self.reply = m


class Servers:
    """Which server of the list is used: one that has no worker group is left for the next one.  Asked by Ping, while
    requests run."""

    def __init__(self, endpoints: List[str]) -> None:
        self.endpoints = endpoints  # the first is used
        self.leave = False  # the client is to connect to the next one
        self.none = False  # the server had no group when it was heard of last
        self._id = ""  # of the last Ping
        self._since = self._ask_at = 0.0  # since when it has been known to have none, or 0
        self._n_left = 0  # servers that were left in a row

    def next(self) -> None:
        self.endpoints.append(self.endpoints.pop(0))
        self._n_left += 1
        self.leave = False

    def begin(self, has_group: bool) -> None:
        """A connection was made."""
        self._since = self._ask_at = 0.0
        self.leave = False
        self._note(has_group)

    def _note(self, has_group: bool) -> None:
        now = time.monotonic()
        # After each tour of the list the wait is twice as long: where no server has a group, one of them fails the
        # request in the end (its --group-wait-ms).
        patience = EMPTY_S * 2 ** min(self._n_left // len(self.endpoints), MAX_DOUBLINGS)
        self.none = not has_group
        if has_group:
            self._since, self._n_left = 0.0, 0
        elif not self._since:
            self._since = now
        elif len(self.endpoints) > 1 and now - self._since > patience:
            self.leave = True

    def take(self, m) -> bool:
        """Is it the Pong to its own Ping?"""
        if kind_of(m) != "Pong" or not self._id or m.request_id != self._id:
            return False
        self._note(m.ready)
        return True

    def due(self, waits: bool) -> List[bytes]:
        """The Ping that asks; waits: requests run."""
        now = time.monotonic()
        if not waits:
            self._since = 0.0
        if not waits or len(self.endpoints) == 1 or now < self._ask_at:
            return []
        self._id, self._ask_at = uuid.uuid4().hex, now + ASK_S
        return [pack(MESSAGES["Ping"](request_id=self._id))]


class Session:
    """The requests and queries of one client, over all its connections."""

    def __init__(self, endpoints: List[str], tenant: Optional[bytes], tenants_secret: Optional[bytes],
                 token: Optional[bytes], patience_s: float) -> None:
        self.servers, self.patience_s = Servers(endpoints), patience_s
        self.tenant = tenant or os.urandom(16)
        self.token = token or os.urandom(32)
        self.tenants_secret = tenants_secret
        self.requests: Dict[str, Request] = {}
        self.queries: Dict[str, Query] = {}
        self.cancels: Dict[str, Query] = {}  # their ids are those of the requests
        self.welcome: Any = None  # or the error that answered Hello
        self.again = False  # a lost connection is made again
        self.refusal: Optional[ServerError] = None  # of the last Hello, for now
        self.refused = False  # a request that goes on, over this connection
        self.astray = False  # this connection is a new one, without a session
        self.server: Server = Server("", 0, (), 0.2, 0)

    # ---- what to send ----

    def hello(self) -> bytes:
        self.welcome = self.refusal = None
        self.refused = self.astray = False
        m = MESSAGES["Hello"](major_min=MAJOR, major_max=MAJOR, client="ingot-client (Python)", tenant=self.tenant,
                              token=self.token)
        if self.tenants_secret:
            m.tenants_secret = self.tenants_secret
        return pack(m)

    def answered(self) -> bool:
        """Has the server answered Hello?  Where a lost connection is made again, a refusal that passes is none yet."""
        if self.again and isinstance(self.welcome, ServerError) and self.welcome.retryable:
            self.refusal, self.welcome = self.welcome, None
        return self.welcome is not None

    def start(self, message) -> Request:
        """The request; its frame is sent by the caller."""
        if message.request_id in self.requests:
            raise ValueError(f"request_id {message.request_id!r} is in use")
        r = self.requests[message.request_id] = Request(message, self.patience_s)
        return r

    def query(self, kind: str, **fields: Any) -> Tuple[str, bytes]:
        rid = uuid.uuid4().hex
        frame = pack(MESSAGES[kind](request_id=rid, **fields))
        self.queries[rid] = Query(frame, repeatable=kind != "Drain")  # the next server is not to end
        return rid, frame

    def cancel(self, request_id: str, tenant: Optional[bytes] = None) -> bytes:
        if request_id in self.requests:
            self.requests[request_id].cancelled = True
        m = MESSAGES["Cancel"](request_id=request_id)
        if tenant:
            m.tenant = tenant
        self.cancels[request_id] = Query(pack(m))
        return self.cancels[request_id].frame

    def resent(self) -> List[bytes]:
        """After a new connection: the requests that have not ended, to go on with them, and the open queries."""
        frames = []
        for r in self.requests.values():
            if not r.ended:
                r.reconnected()
                frames.append(r.resend())
                if r.cancelled and (r.id not in self.cancels or self.cancels[r.id].reply is not None):
                    frames.append(pack(MESSAGES["Cancel"](request_id=r.id)))
        for q in self._open_queries():
            if q.repeatable:
                frames.append(q.resend())
            else:
                q.reply = ConnectionLost("the connection was lost before the reply came")
        return frames

    def _open_queries(self) -> List[Query]:
        return [q for waiting in (self.queries, self.cancels) for q in waiting.values() if q.reply is None]

    def due(self) -> List[bytes]:
        """The requests and queries whose refusal has passed, and what asks for worker groups."""
        now = time.monotonic()
        again = [r.resend() for r in self.requests.values() if not r.ended and r.retry_at and r.retry_at <= now]
        again += [q.resend() for q in self._open_queries() if q.retry_at and q.retry_at <= now]
        return again + self.servers.due(self.waits())

    def is_empty(self, connected_s: float) -> bool:
        """The worker groups may be at another server of the list; connected_s: age of this connection."""
        return self.servers.leave or (self.refused and len(self.servers.endpoints) > 1 and connected_s > TRY_S)

    def lose(self, error: IngotError) -> None:
        """Everything that is open ends with the error."""
        for r in self.requests.values():
            r.error = r.error or (None if r.ended else error)
        for q in self._open_queries():
            q.reply = error

    # ---- what has come ----

    def silence_s(self) -> float:
        """A server that is silent for longer, while requests run, is lost."""
        return max(5.0, 20 * self.server.heartbeat_s)

    def waits(self) -> bool:
        return any(not r.ended for r in self.requests.values())

    def take(self, frame: bytes) -> Optional[Tuple[Request, Optional[Delta]]]:
        """The request that a message is for, with what it gives; None: it is for no request."""
        m = unpack(frame)
        if m is None:
            return None
        kind = kind_of(m)
        if kind == "Welcome":
            self.welcome = m
            self.server = Server(m.server, m.epoch, tuple(model_of(x) for x in m.models),
                                 m.limits.heartbeat_ms / 1000, m.limits.max_message_bytes)
            self.servers.begin(any(x.world for x in m.models))
            return None
        if self.servers.take(m):
            return None
        if kind == "Error" and (m.request == NUMBERS["Hello"] or (self.welcome is None and not m.request_id)):
            self.welcome = error_of(m)
            return None
        if kind == "Error" and not m.request_id:  # a server with too many clients does not look what they ask for
            self.astray = self.astray or m.retryable
            return None
        if kind == "CancelReply" or (kind == "Error" and m.request == NUMBERS["Cancel"]):
            self._answer(self.cancels.get(m.request_id), m)
            return None
        if m.request_id in self.queries:
            self._answer(self.queries[m.request_id], m)
            return None
        r = self.requests.get(m.request_id)
        if r is None:
            return None
        if kind == "Rejected" and self._try_elsewhere(r, m):
            return None
        delta = r.take(m)
        self.refused = self.refused or r.retry_at is not None
        self.astray = self.astray or r.astray
        return r, delta

    def _try_elsewhere(self, r: Request, m: Any) -> bool:
        """A new request, refused by a server without groups: every other one of the list is asked once."""
        n = len(self.servers.endpoints)
        if not m.retryable or r.ended or r.give_up or n == 1 or not self.servers.none:
            return False
        r.n_empty += 1
        self.servers.leave = r.n_empty < n
        return self.servers.leave

    def _answer(self, q: Optional[Query], m: Any) -> None:
        """As with requests, ZeroMQ may have sent a query to a server that has had no Hello."""
        if q is not None and kind_of(m) == "Error" and ENUMS["Code"][m.code] == "PEER":
            self.astray = True
        elif q is not None:
            q.take(m)

    def give_up(self, waiting: Dict[str, Query], rid: str) -> None:
        """No reply is waited for any more.  Raises what has kept it from coming, if that is known."""
        q = waiting.pop(rid, None)
        if q is not None and q.refusal is not None:
            raise error_of(q.refusal)

    def reply(self, waiting: Dict[str, Query], rid: str) -> Any:
        """The reply to a query or Cancel, once it has come; raises what it came to."""
        m = waiting[rid].reply
        if m is None:
            return None
        del waiting[rid]
        if isinstance(m, IngotError):
            raise m
        if kind_of(m) == "Error":
            raise error_of(m)
        return m

    def end(self, r: Request) -> None:
        """The caller has seen the request's end, or does not want it any more."""
        self.requests.pop(r.id, None)


CANCEL_RESULTS = {n: name.lower() for n, name in ENUMS["CancelResult"].items()}
