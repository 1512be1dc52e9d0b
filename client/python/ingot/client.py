"""The synchronous client."""
import time
from types import TracebackType
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Type, Union

import zmq

from . import _request
from ._keys import EVENTS, Keys, forget_events, load_keys, raise_refusal
from ._request import Message, Prompt
from ._session import CANCEL_RESULTS, DEFAULT_ENDPOINT, TRY_S, Query, Request, Session, model_of
from .errors import ConnectionLost, IngotError, NoAnswer
from .types import Delta, Model, Pong, Ranked, Result, Server

AT_ONCE = 64  # texts of one call that run at a time
_STEP_S = 0.2  # how often silence is looked at while nothing comes


def open_socket(context: Any, endpoint: str, keys: Optional[Keys] = None) -> Any:
    sock = context.socket(zmq.DEALER)
    if keys and endpoint.startswith("tcp://"):
        sock.curve_publickey, sock.curve_secretkey, sock.curve_serverkey = keys
    sock.setsockopt(zmq.LINGER, 0)
    # a queue that is full stops the reading, and libzmq 4.3 ends the process when the connection is lost and a heartbeat is due
    # (zeromq/libzmq#3937)
    sock.setsockopt(zmq.RCVHWM, 0)
    sock.setsockopt(zmq.HEARTBEAT_IVL, 2000)
    sock.setsockopt(zmq.HEARTBEAT_TIMEOUT, 10000)
    return sock


def no_server(endpoint: str, refusal: Optional[IngotError]) -> ConnectionLost:
    return ConnectionLost(f"no server answers at {endpoint}" + (f": {refusal}" if refusal else ""))


class Stream:
    """An answer that is being made: iterate over it for its Deltas, or wait for its result()."""

    def __init__(self, client: "Client", request: Request) -> None:
        self._client, self._request = client, request
        self._deltas: List[Delta] = []

    @property
    def request_id(self) -> str:
        return self._request.id

    def __iter__(self) -> Iterator[Delta]:
        while True:
            while self._deltas:
                yield self._deltas.pop(0)
            if self._request.ended:
                break
            self._client._pump(lambda: bool(self._deltas) or self._request.ended)
        self._client._end(self._request)
        if self._request.error:
            raise self._request.error

    def text(self) -> Iterator[str]:
        """The pieces of the first sample's text."""
        return (d.text for d in self if d.sample == 0 and d.text)

    def result(self) -> Result:
        """The whole answer, after its end.  May be called again, and after iterating."""
        for _ in self:
            pass
        assert self._request.result is not None
        return self._request.result

    def cancel(self) -> None:
        """Ends it: its last Deltas and its result, with the reason "cancelled", follow."""
        self._client._send(self._client._session.cancel(self.request_id))


class Client:
    """A connection to a server.  Any number of streams may run at a time; one thread at a time.

    When the connection breaks or the server dies, the client connects again, to the same or the next of its endpoints
    (with commas between them), every stream goes on where it was, and open calls are sent again (but not drain, which
    raises ConnectionLost).  A server of several that has no worker group is left for the next.  When no server answers within timeout, streams and calls raise ConnectionLost."""

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT, *, timeout: float = 30.0, tenant: Optional[bytes] = None,
                 tenants_secret: Optional[bytes] = None, token: Optional[bytes] = None,
                 key: Optional[str] = None, server_key: Optional[str] = None) -> None:
        self.endpoint, self.timeout = endpoint, timeout
        self._keys = load_keys(key, server_key)
        self._session = Session(endpoint.split(","), tenant, tenants_secret, token, timeout)
        self._streams: Dict[str, Stream] = {}
        self._context = zmq.Context()
        self._sock: Any = None
        self._monitor: Any = None
        self._heard = self._connected = 0.0
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    # ---- the connection ----

    @property
    def _endpoint(self) -> str:
        return self._session.servers.endpoints[0]

    def _try(self, end: float) -> bool:
        """Does the server of the first endpoint answer Hello in time?"""
        self._close_sockets()
        self._sock = open_socket(self._context, self._endpoint, self._keys)
        self._monitor = self._sock.get_monitor_socket(EVENTS)
        self._sock.connect(self._endpoint)
        self._sock.send(self._session.hello())
        while not self._session.answered():
            left = end - time.monotonic()
            if left <= 0:
                return False
            if self._sock.poll(max(1, int(min(left, _STEP_S) * 1000))):
                self._take(self._sock.recv())
            else:
                raise_refusal(self._monitor, self._endpoint)
        forget_events(self._monitor)
        return True

    def _connect(self, again: bool = False) -> None:
        """again: a connection was lost, so a refusal that passes is waited for."""
        end = time.monotonic() + self.timeout
        self._session.again = again
        while not self._try(min(end, time.monotonic() + TRY_S)):
            refusal = self._session.refusal
            self._session.servers.next()
            if time.monotonic() >= end:
                raise no_server(self.endpoint, refusal)
        if isinstance(self._session.welcome, IngotError):
            raise self._session.welcome
        self._heard = self._connected = time.monotonic()

    def _close_sockets(self) -> None:
        if self._sock is not None:
            self._sock.disable_monitor()
            self._monitor.close(0)
            self._sock.close(0)
            self._sock = None

    def reconnect(self) -> None:
        """A new connection; running streams go on over it.  Happens by itself where the loss is seen."""
        try:
            self._connect(again=True)
        except IngotError as e:
            self._session.lose(e)
            raise
        for frame in self._session.resent():
            self._sock.send(frame)

    def _send(self, frame: bytes) -> None:
        if self._sock is None:
            raise IngotError("the client is closed")
        self._sock.send(frame)

    def _take(self, frame: bytes) -> None:
        self._heard = time.monotonic()
        got = self._session.take(frame)
        if got and got[1] is not None and got[0].id in self._streams:
            self._streams[got[0].id]._deltas.append(got[1])

    def _pump(self, done: Any, timeout: Optional[float] = None) -> None:
        """Receives until done(); without a timeout only a server that is silent ends the wait."""
        end = time.monotonic() + timeout if timeout is not None else None
        while not done():
            sock: Any = self._sock  # another one after a new connection
            if sock is None:
                raise IngotError("the client is closed")
            poller = zmq.Poller()
            poller.register(sock, zmq.POLLIN)
            poller.register(self._monitor, zmq.POLLIN)
            now = time.monotonic()
            if end is not None and now >= end:
                raise NoAnswer(f"no reply within {timeout:g} s")
            step = _STEP_S if end is None else min(_STEP_S, end - now)
            ready = dict(poller.poll(max(1, int(step * 1000))))
            if sock in ready:
                self._take(sock.recv())
            elif self._monitor in ready or self._session.astray or (self._session.waits() and
                                            time.monotonic() - self._heard > self._session.silence_s()):
                self.reconnect()
            elif self._session.is_empty(time.monotonic() - self._connected):
                self._session.servers.next()
                self.reconnect()
            for frame in self._session.due():
                self._send(frame)

    def _end(self, request: Request) -> None:
        self._session.end(request)
        self._streams.pop(request.id, None)

    def _call(self, kind: str, timeout: Optional[float] = None, **fields: Any) -> Any:
        rid, frame = self._session.query(kind, **fields)
        self._send(frame)
        self._wait(self._session.queries, rid, timeout)
        return self._session.reply(self._session.queries, rid)

    def _wait(self, waiting: Dict[str, Query], rid: str, timeout: Optional[float]) -> None:
        try:
            self._pump(lambda: waiting[rid].reply is not None, self.timeout if timeout is None else timeout)
        except NoAnswer:
            self._session.give_up(waiting, rid)
            raise
        except BaseException:
            waiting.pop(rid, None)
            raise

    # ---- requests ----

    def generate(self, prompt: Optional[Prompt] = None, *, messages: Optional[Sequence[Message]] = None,
                 **options: Any) -> Stream:
        """Starts an answer to a prompt (text, or token ids) or to messages.  Options are the fields of Generate and
        Sampling in ingot.proto (max_tokens, temperature, top_p, seed, n, ...), stop, stop_token_ids, logit_bias, and
        with messages tools and variables."""
        request = self._session.start(_request.generate(prompt, messages, options))
        stream = self._streams[request.id] = Stream(self, request)
        self._send(request.frame)
        return stream

    def chat(self, messages: Union[str, Sequence[Message]], **options: Any) -> Stream:
        """The answer to messages, or to one message of a user."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return self.generate(messages=messages, **options)

    def _embed(self, asks: Iterable[Any]) -> List[List[float]]:
        """The vector of each message, of which AT_ONCE run at a time."""
        out: List[List[float]] = []
        running: List[Stream] = []
        try:
            for message in asks:
                if len(running) == AT_ONCE:
                    out.append(list(running[0].result().embedding))
                    running.pop(0)
                request = self._session.start(message)
                running.append(Stream(self, request))
                self._streams[request.id] = running[-1]
                self._send(request.frame)
            while running:
                out.append(list(running[0].result().embedding))
                running.pop(0)
        finally:
            for s in running:
                if not s._request.ended:
                    s.cancel()
                self._end(s._request)
        return out

    def embed(self, texts: Sequence[Prompt], *, prompt_name: Optional[str] = None, dimensions: Optional[int] = None,
              token_types: Optional[Sequence[Sequence[int]]] = None, **options: Any) -> List[List[float]]:
        """The embedding of each text, or list of token ids.  token_types: of an encoder's ids, one list for each.
        Options: model, deadline_ms, priority, add_special, tenant and grace_ms of Generate."""
        return self._embed(_request.embed(t, None, prompt_name, dimensions, token_types[i] if token_types else None,
                                          options) for i, t in enumerate(texts))

    def rerank(self, query: Union[str, bytes], documents: Sequence[Union[str, bytes]], *, top_n: Optional[int] = None,
               **options: Any) -> List[Ranked]:
        """The documents by their scores, the best first.  Options as of embed."""
        vectors = self._embed(_request.embed(query, d, None, None, None, options) for d in documents)
        return _request.ranked([v[0] for v in vectors], top_n)

    def cancel(self, request_id: str, timeout: Optional[float] = None) -> str:
        """Cancels a request of this tenant, of any of its connections: "stopped", "ended_before" or "unknown".  After a
        lost connection it is sent again, so "ended_before" may be its own doing."""
        self._send(self._session.cancel(request_id))
        self._wait(self._session.cancels, request_id, timeout)
        return CANCEL_RESULTS[self._session.reply(self._session.cancels, request_id).result]

    # ---- questions ----

    @property
    def server(self) -> Server:
        return self._session.server

    @property
    def tenant(self) -> bytes:
        return self._session.tenant

    @property
    def token(self) -> bytes:
        """What proves that the tenant's requests are this client's; random unless it was given."""
        return self._session.token

    def tokenize(self, text: Union[str, bytes], *, add_special: bool = True) -> List[int]:
        data = text.encode() if isinstance(text, str) else text
        return list(self._call("Tokenize", text=data, add_special=add_special).id)

    def tokenize_chat(self, messages: Sequence[Message], tools: Optional[Sequence[Any]] = None,
                      variables: Optional[Mapping[str, Any]] = None, *, add_special: bool = False,
                      **options: Any) -> List[int]:
        """The tokens of the prompt that the model gets for messages."""
        chat = _request.chat(messages, tools, variables, **options)
        return list(self._call("Tokenize", chat=chat, add_special=add_special).id)

    def detokenize(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        return self._call("Detokenize", id=list(ids), skip_special=skip_special).text.decode()

    def apply_template(self, messages: Sequence[Message], tools: Optional[Sequence[Any]] = None,
                       variables: Optional[Mapping[str, Any]] = None, **options: Any) -> str:
        """The text of the prompt that the model gets for messages."""
        return self._call("ApplyTemplate", chat=_request.chat(messages, tools, variables, **options)).text.decode()

    def models(self) -> List[Model]:
        return [model_of(m) for m in self._call("Models").model]

    def stats(self) -> Dict[str, Any]:
        """The fields of StatsReply in ingot.proto."""
        return stats_of(self._call("Stats"))

    def ping(self) -> Pong:
        return pong_of(self._call("Ping"))

    def wait_ready(self, timeout: float = 120.0) -> None:
        """Until a worker group is there."""
        end = time.monotonic() + timeout
        while not self.ping().ready:
            if time.monotonic() >= end:
                raise NoAnswer(f"no worker group within {timeout:g} s")
            time.sleep(0.05)

    def drain(self, timeout_ms: int = 0) -> int:
        """Lets the server finish its requests and end; the number of requests that it finishes first."""
        return self._call("Drain", timeout_ms=timeout_ms).running

    # ---- end ----

    def close(self) -> None:
        """Running requests are abandoned: the server cancels them after their grace_ms."""
        self._close_sockets()
        self._session.lose(IngotError("the client is closed"))
        self._context.destroy(0)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def stats_of(m: Any) -> Dict[str, Any]:
    """As a dict with the field's names; 64-bit numbers are numbers, bytes hexadecimal."""
    def plain(m: Any) -> Dict[str, Any]:
        out: Dict[str, Any] = {}
        for f in m.DESCRIPTOR.fields:
            v = getattr(m, f.name)
            repeated = not isinstance(v, (int, float, str, bytes, bool)) and hasattr(v, "__len__")
            if repeated:
                out[f.name] = [plain(x) if hasattr(x, "DESCRIPTOR") else x for x in v]
            elif hasattr(v, "DESCRIPTOR"):
                out[f.name] = plain(v) if m.HasField(f.name) else None
            else:
                out[f.name] = v.hex() if isinstance(v, bytes) else v
        return out

    out = plain(m)
    del out["request_id"]
    return out


def pong_of(m: Any) -> Pong:
    return Pong(m.ready, m.draining, m.running, m.waiting, m.steps)
