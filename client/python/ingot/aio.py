"""The client for asyncio."""
import asyncio
import time
from types import TracebackType
from typing import Any, AsyncIterator, Dict, Iterable, List, Mapping, Optional, Sequence, Type, Union

import zmq
import zmq.asyncio

from . import _request
from ._keys import EVENTS, forget_events, load_keys, raise_refusal
from ._request import Message, Prompt
from ._session import CANCEL_RESULTS, DEFAULT_ENDPOINT, TRY_S, Query, Request, Session, model_of
from .client import AT_ONCE, no_server, open_socket, pong_of, stats_of
from .errors import IngotError, NoAnswer
from .types import Delta, Model, Pong, Ranked, Result, Server

_STEP_S = 0.2  # how often silence is looked at while nothing comes


class AsyncStream:
    """An answer that is being made: iterate over it for its Deltas, or await its result()."""

    def __init__(self, client: "AsyncClient", request: Request) -> None:
        self._client, self._request = client, request
        self._deltas: List[Delta] = []
        self._news = asyncio.Event()

    @property
    def request_id(self) -> str:
        return self._request.id

    async def __aiter__(self) -> AsyncIterator[Delta]:
        while True:
            while self._deltas:
                yield self._deltas.pop(0)
            if self._request.ended:
                break
            self._news.clear()
            await self._news.wait()
        self._client._end(self._request)
        if self._request.error:
            raise self._request.error

    async def text(self) -> AsyncIterator[str]:
        """The pieces of the first sample's text."""
        async for d in self:
            if d.sample == 0 and d.text:
                yield d.text

    async def result(self) -> Result:
        """The whole answer, after its end.  May be called again, and after iterating."""
        async for _ in self:
            pass
        assert self._request.result is not None
        return self._request.result

    async def cancel(self) -> None:
        """Ends it: its last Deltas and its result, with the reason "cancelled", follow."""
        await self._client._send(self._client._session.cancel(self.request_id))


class AsyncClient:
    """As ingot.Client, for the tasks of one event loop:

        async with AsyncClient("tcp://127.0.0.1:5555") as client:
            async for piece in (await client.chat("Hello")).text():
                print(piece, end="")
    """

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT, *, timeout: float = 30.0, tenant: Optional[bytes] = None,
                 tenants_secret: Optional[bytes] = None, token: Optional[bytes] = None,
                 key: Optional[str] = None, server_key: Optional[str] = None) -> None:
        self.endpoint, self.timeout = endpoint, timeout
        self._keys = load_keys(key, server_key)
        self._session = Session(endpoint.split(","), tenant, tenants_secret, token, timeout)
        self._streams: Dict[str, AsyncStream] = {}
        self._context: Any = None
        self._sock: Any = None
        self._monitor: Any = None
        self._reader: Optional["asyncio.Task[None]"] = None
        self._news = asyncio.Condition()
        self._heard = self._connected = 0.0

    # ---- the connection ----

    @property
    def _endpoint(self) -> str:
        return self._session.servers.endpoints[0]

    async def connect(self) -> "AsyncClient":
        self._context = zmq.asyncio.Context()
        try:
            await self._connect()
        except BaseException:
            await self.close()
            raise
        self._reader = asyncio.create_task(self._read())
        return self

    async def _try(self, end: float) -> bool:
        """Does the server of the first endpoint answer Hello in time?"""
        self._close_sockets()
        self._sock = open_socket(self._context, self._endpoint, self._keys)
        self._monitor = self._sock.get_monitor_socket(EVENTS)
        self._sock.connect(self._endpoint)
        await self._sock.send(self._session.hello())
        while not self._session.answered():
            left = end - time.monotonic()
            if left <= 0:
                return False
            if await self._sock.poll(max(1, int(min(left, _STEP_S) * 1000))):
                self._take(await self._sock.recv())
            else:
                raise_refusal(self._monitor, self._endpoint)
        forget_events(self._monitor)
        return True

    async def _connect(self, again: bool = False) -> None:
        """As Client._connect."""
        end = time.monotonic() + self.timeout
        self._session.again = again
        while not await self._try(min(end, time.monotonic() + TRY_S)):
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

    async def _reconnect(self) -> None:
        await self._connect(again=True)
        for frame in self._session.resent():
            await self._sock.send(frame)

    def _take(self, frame: bytes) -> None:
        self._heard = time.monotonic()
        got = self._session.take(frame)
        stream = self._streams.get(got[0].id) if got else None
        if stream and got:
            if got[1] is not None:
                stream._deltas.append(got[1])
            stream._news.set()

    async def _tell_all(self) -> None:
        for stream in self._streams.values():
            stream._news.set()
        async with self._news:
            self._news.notify_all()

    async def _read(self) -> None:
        """Receives for all tasks, until the client is closed or the server is lost for good."""
        error = IngotError("the client is closed")
        try:
            while True:
                poller = zmq.asyncio.Poller()
                poller.register(self._sock, zmq.POLLIN)
                poller.register(self._monitor, zmq.POLLIN)
                ready = dict(await poller.poll(int(_STEP_S * 1000)))
                if self._sock in ready:
                    self._take(await self._sock.recv())
                elif self._monitor in ready or self._session.astray or (self._session.waits() and
                                                time.monotonic() - self._heard > self._session.silence_s()):
                    await self._reconnect()
                elif self._session.is_empty(time.monotonic() - self._connected):
                    self._session.servers.next()
                    await self._reconnect()
                for frame in self._session.due():
                    await self._sock.send(frame)
                if not ready:
                    continue
                await self._tell_all()
        except IngotError as e:
            error = e
        finally:
            self._close_sockets()
            self._session.lose(error)
            for stream in self._streams.values():
                stream._news.set()
            async with self._news:
                self._news.notify_all()

    async def _send(self, frame: bytes) -> None:
        if self._sock is None:
            raise IngotError("the client is not connected")
        await self._sock.send(frame)

    def _end(self, request: Request) -> None:
        self._session.end(request)
        self._streams.pop(request.id, None)

    async def _call(self, kind: str, **fields: Any) -> Any:
        rid, frame = self._session.query(kind, **fields)
        return await self._reply(self._session.queries, rid, frame)

    async def _reply(self, waiting: Dict[str, Query], rid: str, frame: bytes) -> Any:
        try:
            await self._send(frame)
            async with self._news:
                await asyncio.wait_for(self._news.wait_for(lambda: waiting[rid].reply is not None), self.timeout)
        except asyncio.TimeoutError:
            self._session.give_up(waiting, rid)
            raise NoAnswer(f"no reply within {self.timeout:g} s") from None
        except BaseException:
            waiting.pop(rid, None)
            raise
        return self._session.reply(waiting, rid)

    # ---- requests ----

    async def generate(self, prompt: Optional[Prompt] = None, *, messages: Optional[Sequence[Message]] = None,
                       **options: Any) -> AsyncStream:
        """As Client.generate."""
        request = self._session.start(_request.generate(prompt, messages, options))
        stream = self._streams[request.id] = AsyncStream(self, request)
        await self._send(request.frame)
        return stream

    async def chat(self, messages: Union[str, Sequence[Message]], **options: Any) -> AsyncStream:
        """The answer to messages, or to one message of a user."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return await self.generate(messages=messages, **options)

    async def _embed(self, asks: Iterable[Any]) -> List[List[float]]:
        async def one(message: Any) -> List[float]:
            async with places:
                request = self._session.start(message)
                stream = self._streams[request.id] = AsyncStream(self, request)
                await self._send(request.frame)
                return list((await stream.result()).embedding)

        places = asyncio.Semaphore(AT_ONCE)
        return list(await asyncio.gather(*[one(m) for m in asks]))

    async def embed(self, texts: Sequence[Prompt], *, prompt_name: Optional[str] = None,
                    dimensions: Optional[int] = None, token_types: Optional[Sequence[Sequence[int]]] = None,
                    **options: Any) -> List[List[float]]:
        """As Client.embed."""
        return await self._embed(_request.embed(t, None, prompt_name, dimensions,
                                                token_types[i] if token_types else None, options)
                                 for i, t in enumerate(texts))

    async def rerank(self, query: Union[str, bytes], documents: Sequence[Union[str, bytes]], *,
                     top_n: Optional[int] = None, **options: Any) -> List[Ranked]:
        """As Client.rerank."""
        vectors = await self._embed(_request.embed(query, d, None, None, None, options) for d in documents)
        return _request.ranked([v[0] for v in vectors], top_n)

    async def cancel(self, request_id: str) -> str:
        """As Client.cancel."""
        frame = self._session.cancel(request_id)
        return CANCEL_RESULTS[(await self._reply(self._session.cancels, request_id, frame)).result]

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

    async def tokenize(self, text: Union[str, bytes], *, add_special: bool = True) -> List[int]:
        data = text.encode() if isinstance(text, str) else text
        return list((await self._call("Tokenize", text=data, add_special=add_special)).id)

    async def tokenize_chat(self, messages: Sequence[Message], tools: Optional[Sequence[Any]] = None,
                            variables: Optional[Mapping[str, Any]] = None, *, add_special: bool = False,
                            **options: Any) -> List[int]:
        """The tokens of the prompt that the model gets for messages."""
        chat = _request.chat(messages, tools, variables, **options)
        return list((await self._call("Tokenize", chat=chat, add_special=add_special)).id)

    async def detokenize(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        return (await self._call("Detokenize", id=list(ids), skip_special=skip_special)).text.decode()

    async def apply_template(self, messages: Sequence[Message], tools: Optional[Sequence[Any]] = None,
                             variables: Optional[Mapping[str, Any]] = None, **options: Any) -> str:
        """The text of the prompt that the model gets for messages."""
        chat = _request.chat(messages, tools, variables, **options)
        return (await self._call("ApplyTemplate", chat=chat)).text.decode()

    async def models(self) -> List[Model]:
        return [model_of(m) for m in (await self._call("Models")).model]

    async def stats(self) -> Dict[str, Any]:
        """The fields of StatsReply in ingot.proto."""
        return stats_of(await self._call("Stats"))

    async def ping(self) -> Pong:
        return pong_of(await self._call("Ping"))

    async def wait_ready(self, timeout: float = 120.0) -> None:
        """Until a worker group is there."""
        end = time.monotonic() + timeout
        while not (await self.ping()).ready:
            if time.monotonic() >= end:
                raise NoAnswer(f"no worker group within {timeout:g} s")
            await asyncio.sleep(0.05)

    async def drain(self, timeout_ms: int = 0) -> int:
        """As Client.drain."""
        return (await self._call("Drain", timeout_ms=timeout_ms)).running

    # ---- end ----

    async def close(self) -> None:
        """Running requests are abandoned: the server cancels them after their grace_ms."""
        if self._reader:
            self._reader.cancel()
            try:
                await self._reader
            except asyncio.CancelledError:
                pass
            self._reader = None
        self._close_sockets()
        if self._context is not None:
            self._context.destroy(0)

    async def __aenter__(self) -> "AsyncClient":
        return await self.connect()

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()
