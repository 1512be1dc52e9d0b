"""The Python package (client/python): sync and asyncio, streams, cancel, errors, broken connections; and that pip
installs it with all that it needs."""
import asyncio
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster"), str(ROOT / "client/python")]
import encoder_model  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO, PATIENT, Cluster, Parts  # noqa: E402
from embed_model import off  # noqa: E402
from mutation import Relay  # noqa: E402
from proxy import Proxy  # noqa: E402
import ingot  # noqa: E402
import ingot_client  # noqa: E402
from ingot import _proto  # noqa: E402

FOX = "Once upon a time there was a fox."
GREEDY = {"temperature": 0, "ignore_eos": True}
CLUSTER = None


def client(endpoint=None, **kw):
    return ingot.Client(endpoint or CLUSTER.endpoint, timeout=tap.LIMIT, **kw)


@contextlib.contextmanager
def proxied(**kw):
    """A client behind a network that can be cut."""
    p = Proxy(CLUSTER.endpoint)
    try:
        with client(p.endpoint, **kw) as c:
            yield p, c
    finally:
        p.close()


def running(c):
    s = c.stats()
    return s["running"] + s["waiting"]


@tap.case
def the_messages_are_those_of_protoc():
    """Those of the package, and those of worker.proto, which tests read with it."""
    from google.protobuf import descriptor_pb2
    for name in ("ingot.proto", "worker.proto"):
        with tempfile.TemporaryDirectory() as tmp:
            subprocess.run(["protoc", f"--proto_path={ROOT / 'proto'}", f"--descriptor_set_out={tmp}/set", name], check=True)
            theirs = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(tmp, "set").read_bytes()).file[0]
        ours = _proto.parse((ROOT / "proto" / name).read_text(), name)
        for f in (theirs, ours):
            for m in f.message_type:
                for field in m.field:
                    field.ClearField("json_name")
        assert ours.message_type == theirs.message_type and ours.enum_type == theirs.enum_type, name
        assert ours.package == theirs.package
    for text in ("message A { required int32 a = 1; }", "message A { optional int32 a = 1 [deprecated = true]; }",
                 'syntax = "proto3";', "service S {}", "message A { optional int32 a = 1 }", "enum E { A = 0; ?"):
        try:
            _proto.parse(text)
        except (ValueError, KeyError, IndexError):
            continue
        raise AssertionError(f"{text} was read")


@tap.case
def streams_and_results():
    with client() as c:
        assert c.server.models[0].name == "demo-model" and c.models()[0].chat and len(c.models()[0].text_digest) == 64
        stream = c.generate(FOX, max_tokens=24, **GREEDY)
        deltas = list(stream)
        whole = stream.result()
        assert len(deltas) > 1 and "".join(d.text for d in deltas) == whole.text, deltas
        assert [i for d in deltas for i in d.ids] == whole.ids and len(whole.ids) == 24
        assert whole.reason == "length" and whole.completion_tokens == 24 and whole.prompt_tokens == len(c.tokenize(FOX))
        raw = CLUSTER.client().generate(text=FOX.encode(), max_tokens=24, sampling={"temperature": 0, "ignore_eos": True})
        assert (whole.text, whole.ids) == (raw.text[0].decode(), raw.ids[0]), "not the tokens of the tests' own client"
        assert c.generate(c.tokenize(FOX), max_tokens=24, **GREEDY).result().text == whole.text
        assert c.generate(FOX.encode(), max_tokens=24, **GREEDY).result().text == whole.text
        assert not c._streams and not c._session.requests, "ended requests are kept"
        several = c.generate(FOX, n=3, max_tokens=8, seed=5, logprobs=True, top_logprobs=2).result()
        assert len(several.samples) == 3 and all(len(s.logprobs) == len(s.ids) for s in several.samples)
        stopped = c.generate(FOX, max_tokens=24, stop=whole.text[5:9], **GREEDY).result()
        assert stopped.reason == "stop" and stopped.samples[0].matched_stop == whole.text[5:9], stopped
        assert c.detokenize(c.tokenize("Hällo"), skip_special=True) == "Hällo"
        messages = [{"role": "user", "content": FOX}]
        assert c.tokenize_chat(messages) == c.tokenize(c.apply_template(messages), add_special=False)
        assert c.stats()["requests_finished"] >= 5 and isinstance(c.stats()["group"][0]["world"], int)
        assert c.ping().ready and not c.ping().draining


@tap.case
def conversations():
    with client() as c:
        told = [{"role": "user", "content": "What is Ingot?"}]
        answer = "".join(c.chat("What is Ingot?", temperature=0).text())
        assert "language models" in answer, answer
        assert c.chat(told, temperature=0).result().text == answer
        assert c.chat([{**told[0], "name": "x"}], temperature=0).result().text == answer  # sent as JSON
        assert "What is Ingot?" in c.apply_template(told)
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        assert c.chat(told, tools=tools, variables={"a": 1}, max_tokens=2).result().prompt_tokens > 0


@tap.case
def forms_of_an_answer():
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}, "required": ["name"],
              "additionalProperties": False}
    with client() as c:
        for given in (schema, json.dumps(schema)):
            assert set(json.loads(c.chat("A pet", json_schema=given).result().text)) == {"name"}
        assert re.fullmatch("[ab]{3}", c.generate(FOX, regex="[ab]{3}").result().text)
        assert c.generate(FOX, choices=["caf\u00e9", "tea"]).result().text in ("caf\u00e9", "tea")
        assert c.generate(FOX, grammar='root ::= "x" [0-9]').result().text[0] == "x"
        assert c.generate(FOX, json_object=True, max_tokens=20).result().text[0] == "{"
        tools = [{"type": "function", "function": {"name": n, "parameters": {"type": "object", "additionalProperties": False}}}
                 for n in "fg"]
        for choice, names in (("required", "fg"), ("g", "g")):
            said = c.chat("A pet", tools=tools, tool_choice=choice, one_call=True).result().text
            assert any(f'"name": "{n}"' in said for n in names), said
        with raises(ingot.Rejected):
            c.chat("A pet", tools=tools, tool_choice="h").result()
        for bad, word in (({"regex": "a", "choices": ["a"]}, "one form"), ({"json_object": False}, "only True"),
                          ({"max_tokens": -1}, "max_tokens"), ({"temperature": "x"}, "temperature")):
            try:
                c.generate(FOX, **bad)
            except (TypeError, ValueError) as e:
                assert word in str(e), (bad, e)
            else:
                raise AssertionError(bad)


@tap.case
def several_streams_at_once():
    with client() as c:
        alone = [c.generate(f"{FOX} {i}", max_tokens=16, **GREEDY).result().text for i in range(4)]
        streams = [c.generate(f"{FOX} {i}", max_tokens=16, **GREEDY) for i in range(4)]
        pieces = [next(iter(s)).text for s in streams]  # each has begun
        rest = [s.result().text for s in reversed(streams)][::-1]
        assert rest == alone and all(a.startswith(p) for a, p in zip(alone, pieces))


@tap.case
def cancelled():
    with client() as c:
        with CLUSTER.held():
            stream = c.generate(FOX, max_tokens=400, **GREEDY)
            stream.cancel()
        r = stream.result()
        assert r.reason == "cancelled" and len(r.ids) < 400, (r.reason, len(r.ids))
        with CLUSTER.held(), client(tenant=c.tenant, token=c.token) as other:  # by another connection of the tenant
            stream = c.generate(FOX, max_tokens=400, request_id="mine", **GREEDY)
            tap.wait_for(lambda: running(c) >= 1)
            told = other.cancel("mine")
            assert told == "stopped", told
        r = stream.result()
        assert r.reason == "cancelled", (r.reason, len(r.ids))
        told = c.cancel("mine"), c.cancel("none")
        assert told == ("ended_before", "unknown"), told
        with CLUSTER.held():
            abandoned = client()
            abandoned.generate(FOX, max_tokens=400, **GREEDY)
            abandoned.close()
        tap.wait_for(lambda: running(c) == 0, "an abandoned request ends")


@tap.case
def errors_are_exceptions():
    def fails(kind, code, field, call):
        try:
            call()
        except kind as e:
            assert (e.code, e.field) == (code, field) and e.detail, (e.code, e.field)
            return e
        raise AssertionError("no exception")

    with client() as c:
        fails(ingot.Rejected, "range", "sampling.top_p", lambda: c.generate(FOX, top_p=7).result())
        fails(ingot.Rejected, "not_found", "model", lambda: list(c.generate(FOX, model="none")))
        fails(ingot.ServerError, "range", "id", lambda: c.detokenize([10 ** 9]))
        e = fails(ingot.Rejected, "range", "max_tokens", lambda: c.generate(FOX, max_tokens=10 ** 6).result())
        assert not e.retryable and isinstance(e, ingot.IngotError)
        for bad in ({"temprature": 1}, {"tools": []}):
            try:
                c.generate(FOX, **bad)
            except TypeError as e:
                assert next(iter(bad)) in str(e)
            else:
                raise AssertionError(bad)
        with CLUSTER.held():
            stream = c.generate(FOX, request_id="twice", max_tokens=50, **GREEDY)
            try:
                c.generate(FOX, request_id="twice")
            except ValueError:
                stream.cancel()
        stream.result()
        assert c.generate(FOX, max_tokens=4, **GREEDY).result().completion_tokens == 4  # all goes on
    try:
        ingot.Client("ipc:///nowhere/at/all", timeout=0.2)
        raise AssertionError("no server answers there")
    except ingot.ConnectionLost:
        pass
    for call in (lambda: c.tokenize("a"), lambda: stream._client.generate(FOX)):
        try:
            call()
            raise AssertionError("the client is closed")
        except ingot.IngotError:
            pass


@tap.case
def streams_survive_a_cut_connection():
    with client() as c:
        wanted = c.generate(FOX, n=2, max_tokens=200, seed=3, ignore_eos=True).result()

    with proxied() as (p, c):
        p.n_short, p.n_bytes = 4, 1000  # the first is there already; three more end in the middle of the answer
        p.cut()
        stream = c.generate(FOX, n=2, max_tokens=200, seed=3, ignore_eos=True, grace_ms=600000)
        text = ["", ""]
        for d in stream:
            text[d.sample] += d.text
        r = stream.result()
        for i in (0, 1):
            assert r.samples[i].ids == wanted.samples[i].ids
            assert text[i] == r.samples[i].text == wanted.samples[i].text
        assert p.n >= 5, p.n
    with proxied() as (p, c):  # nothing has come yet, and a query is open
        with CLUSTER.held():
            stream = c.generate(FOX, max_tokens=12, grace_ms=600000, **GREEDY)
            tap.wait_for(lambda: running(c) >= 1)
            p.cut()
            p.open = False
            c.timeout = 0.5
            try:
                c.tokenize("a")
                raise AssertionError("a query on a lost connection")
            except ingot.ConnectionLost:
                pass
        try:
            stream.result()
            raise AssertionError("a stream on a lost connection")
        except ingot.ConnectionLost:
            pass
    with proxied() as (p, c):
        with CLUSTER.held():
            stream = c.generate(FOX, max_tokens=12, grace_ms=600000, **GREEDY)
            tap.wait_for(lambda: running(c) >= 1)
            p.cut()
            c.reconnect()  # by hand
        assert stream.result().completion_tokens == 12


LOSS_S = 0.2


@tap.case
def calls_survive_a_cut_connection():
    with client() as c:
        wanted = c.tokenize(FOX)
    with proxied() as (p, c):
        for _ in range(20):  # ZeroMQ may be faster with a connection of its own, which has had no Hello
            p.cut()
            assert c.tokenize(FOX) == wanted
        p.lose_and_cut(LOSS_S)  # the call is open
        before = p.n
        assert c.tokenize(FOX) == wanted and p.n > before
        p.lose_and_cut(LOSS_S)
        assert c.cancel("none") == "unknown"
        with CLUSTER.held():
            stream = c.generate(FOX, request_id="cut", max_tokens=400, grace_ms=600000, **GREEDY)
            tap.wait_for(lambda: running(c) >= 1)
            p.lose_and_cut(LOSS_S)
            assert c.cancel("cut") in ("stopped", "ended_before")  # it may be sent twice
        assert stream.result().reason == "cancelled"
        p.lose_and_cut(LOSS_S)
        try:
            c.drain()
            raise AssertionError("the next server may be another one")
        except ingot.ConnectionLost:
            pass
        assert not c.ping().draining and not c._session.queries

    async def run():
        p = Proxy(CLUSTER.endpoint)
        try:
            async with ingot.AsyncClient(p.endpoint, timeout=tap.LIMIT) as c:
                for _ in range(20):
                    p.cut()
                    assert await asyncio.gather(c.tokenize(FOX), c.tokenize(FOX)) == [wanted, wanted]
                p.lose_and_cut(LOSS_S)
                assert await asyncio.gather(c.tokenize(FOX), c.cancel("none")) == [wanted, "unknown"]
                p.lose_and_cut(LOSS_S)
                try:
                    await c.drain()
                    raise AssertionError("the next server may be another one")
                except ingot.ConnectionLost:
                    pass
                assert not (await c.ping()).draining and not c._session.queries
        finally:
            p.close()
    asyncio.run(run())


@tap.case
def an_attempt_that_fails_is_one():
    """The first connection of a new socket ends before Hello has left; ZeroMQ makes the next, which gets it."""
    with client() as c:
        wanted = c.tokenize(FOX)
    with proxied() as (p, c):
        for _ in range(3):
            before, p.n_refused = p.n, 1
            c.reconnect()
            for _ in range(3):
                assert c.tokenize(FOX) == wanted
            assert (p.n, p.n_refused) == (before + 1, 0)

    async def run():
        p = Proxy(CLUSTER.endpoint)
        try:
            p.n_refused = 1
            async with ingot.AsyncClient(p.endpoint, timeout=tap.LIMIT) as c:
                for _ in range(3):
                    assert await c.tokenize(FOX) == wanted
                assert (p.n, p.n_refused) == (1, 0)
        finally:
            p.close()
    asyncio.run(run())


class Passing(Relay):
    """The first replies to questions, of each kind, are an Error that passes."""

    def __init__(self, *args):
        super().__init__(*args)
        self.n = 0  # of further replies that are one
        self.refused = 0

    def passes(self, frame):
        name, m = ingot_client.unpack(frame)
        if name not in ("Tokens", "StatsReply") or not self.n:
            return [frame]
        self.n -= 1
        self.refused += 1
        return [ingot_client.pack("Error", request_id=m.request_id, code=6, detail="not now", retryable=True,
                                  request=ingot_client.TYPES["TOKENIZE"])]


def finds_it_busy(call):
    try:
        call()
    except ingot.ServerError as e:
        assert (e.code, e.retryable) == ("busy", True), e
        return
    raise AssertionError("no ServerError")


@tap.case
def calls_over_a_new_connection_wait_for_what_passes():
    """A refusal that passes is the caller's to answer, but for calls that a lost connection had begun."""
    with client() as c:
        wanted = c.tokenize(FOX)
    with temp_dir.folder() as dir, Passing(f"ipc://{dir}/relay", CLUSTER.endpoint) as relay:
        p = Proxy(relay.endpoint)
        with client(p.endpoint) as c:
            relay.n = 1
            finds_it_busy(lambda: c.tokenize(FOX))
            for call in lambda: c.tokenize(FOX) == wanted, lambda: c.stats()["draining"] is False:
                relay.n, relay.refused = 3, 0
                p.lose_and_cut(LOSS_S)
                assert call() and relay.refused == 3
            relay.n = 10 ** 9
            p.lose_and_cut(LOSS_S)
            c.timeout = 1
            finds_it_busy(lambda: c.tokenize(FOX))  # its time is over
            assert not c._session.queries

        async def run():
            async with ingot.AsyncClient(p.endpoint, timeout=tap.LIMIT) as c:
                relay.n = 3
                p.lose_and_cut(LOSS_S)
                assert await asyncio.gather(c.tokenize(FOX), c.tokenize(FOX)) == [wanted, wanted] and not relay.n
        asyncio.run(run())
        p.close()


@tap.case
def a_server_that_is_gone():
    with proxied() as (p, c), CLUSTER.held():
        stream = c.generate(FOX, max_tokens=300, grace_ms=0, **GREEDY)
        c.timeout = 0.5
        p.close()
        try:
            stream.result()
            raise AssertionError("there is no server")
        except ingot.ConnectionLost:
            pass


@tap.case
def asyncio_streams():
    async def story(c, i):
        return (await (await c.generate(f"{FOX} {i}", max_tokens=16, **GREEDY)).result()).text

    async def run():
        async with ingot.AsyncClient(CLUSTER.endpoint, timeout=tap.LIMIT) as c:
            texts = await asyncio.gather(*[story(c, i) for i in range(6)])
            with client() as sync:
                assert texts == [sync.generate(f"{FOX} {i}", max_tokens=16, **GREEDY).result().text for i in range(6)]
            said = "".join([piece async for piece in (await c.chat("What is Ingot?", temperature=0)).text()])
            assert "language models" in said, said
            with CLUSTER.held():
                stream = await c.generate(FOX, max_tokens=400, **GREEDY)
                await stream.cancel()
            assert (await stream.result()).reason == "cancelled"
            assert await c.detokenize(await c.tokenize("Hello"), skip_special=True) == "Hello"
            assert (await c.models())[0].name == "demo-model" and (await c.ping()).ready
            assert (await c.stats())["running"] == 0 and "fox" in await c.apply_template([{"role": "user", "content": "fox"}])
            assert await c.cancel("none") == "unknown"
            for call, kind in (((await c.generate(FOX, top_p=7)).result(), ingot.Rejected),
                               (c.detokenize([10 ** 9]), ingot.ServerError)):
                try:
                    await call
                    raise AssertionError("no exception")
                except kind as e:
                    assert e.code == "range", e
            task = asyncio.create_task(story(c, 0))  # a task that is cancelled disturbs no other
            await asyncio.sleep(0)
            task.cancel()
            assert await story(c, 1) == texts[1]
        try:
            await c.ping()
            raise AssertionError("it is closed")
        except ingot.IngotError:
            pass
    asyncio.run(run())


@tap.case
def asyncio_survives_a_cut_connection():
    async def run():
        p = Proxy(CLUSTER.endpoint)
        with client() as sync:
            wanted = sync.generate(FOX, max_tokens=200, **GREEDY).result()
        async with ingot.AsyncClient(p.endpoint, timeout=tap.LIMIT) as c:
            p.n_short, p.n_bytes = 4, 2000  # the first is there already; three more end in the middle of the answers
            p.cut()
            streams = [await c.generate(FOX, max_tokens=200, grace_ms=600000, **GREEDY) for _ in range(3)]
            async for _ in streams[0]:
                pass
            for s in streams:
                assert (await s.result()).ids == wanted.ids
            assert p.n >= 5, p.n
            with CLUSTER.held():
                late = await c.generate(FOX, max_tokens=300, grace_ms=0, **GREEDY)
                c.timeout = 0.5
                p.close()
                try:
                    await late.result()
                    raise AssertionError("there is no server")
                except ingot.ConnectionLost:
                    pass
    asyncio.run(run())


LOST = [dict(n=4, temperature=0.8, stop=["the", "ing"]), dict(n=2, repetition_penalty=1.2, min_tokens=50),
        dict(temperature=0, top_logprobs=3)]


def same(a, b):
    return [(s.ids, s.text, s.reason, s.matched_stop, s.logprobs) for s in a.samples] == \
        [(s.ids, s.text, s.reason, s.matched_stop, s.logprobs) for s in b.samples] and \
        (a.prompt_tokens, a.completion_tokens) == (b.prompt_tokens, b.completion_tokens)


@tap.case
def streams_survive_a_killed_coordinator():
    options = [dict(max_tokens=300, seed=i, **o) for i, o in enumerate(LOST)]
    with client() as c:
        wanted = [c.generate(FOX, **o).result() for o in options]
    for kind in "sync", "asyncio":
        with Parts(DEMO) as first:
            both = f"{first.endpoint},{CLUSTER.endpoint}"
            if kind == "sync":
                with ingot.Client(both, timeout=tap.LIMIT) as c:
                    streams = [c.generate(FOX, **o) for o in options]
                    next(iter(streams[2]))
                    first.coordinator.kill()
                    assert all(same(s.result(), w) for s, w in zip(streams, wanted))
                continue

            async def run():
                async with ingot.AsyncClient(both, timeout=tap.LIMIT) as c:
                    streams = [await c.generate(FOX, **o) for o in options]
                    async for _ in streams[2]:
                        first.coordinator.kill()
                        break
                    assert all([same(await s.result(), w) for s, w in zip(streams, wanted)])
            asyncio.run(run())


@tap.case
def a_full_queue_of_a_lost_connection():
    p = subprocess.run([sys.executable, HERE / "full_queue.py"], capture_output=True, text=True, timeout=tap.LIMIT)
    assert p.returncode == 0, (p.returncode, p.stderr[-2000:])


@contextlib.contextmanager
def raises(kind):
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


@tap.case
def embeddings():
    rows = [r for r in encoder_model.EXPECTED["bert-cls"] if "text" in r]
    typed = [r for r in encoder_model.EXPECTED["bert-cls"] if "token_types" in r]
    with Parts(encoder_model.HERE / "bert-cls") as own, client(own.endpoint) as c:
        assert (c.models()[0].embedding, c.models()[0].rerank) == (32, False)
        got = c.embed([r["text"] for r in rows]) + c.embed([r["tokens"] for r in typed],
                                                           token_types=[r["token_types"] for r in typed])
        assert all(off(v, r["embedding"]) < 1e-5 for v, r in zip(got, rows + typed))
        many = [f"text {i}" for i in range(150)]
        vectors = c.embed(many)
        assert len(vectors) == 150 and vectors[7] == c.embed([many[7]])[0] and not running(c)
        with raises(ingot.Rejected):
            c.embed(["a", "word " * 60, "b"])
        assert c.embed([many[7]]) == [vectors[7]]
        with raises(TypeError):
            c.embed(["a"], temperature=1)

        async def run():
            async with ingot.AsyncClient(own.endpoint, timeout=tap.LIMIT) as a:
                assert await a.embed(many) == vectors
        asyncio.run(run())


@tap.case
def scores():
    rows = encoder_model.SCORES["bert-reranker"]
    documents = [r["document"] for r in rows]
    with Parts(encoder_model.HERE / "bert-reranker") as own, client(own.endpoint) as c:
        assert (c.models()[0].embedding, c.models()[0].rerank) == (0, True)
        for r in rows:
            assert abs(c.rerank(r["query"], [r["document"]])[0].score - r["score"]) < 1e-5 * max(1, abs(r["score"]))
        best = c.rerank(rows[0]["query"], documents)
        assert sorted(b.index for b in best) == list(range(len(rows)))
        assert [b.score for b in best] == sorted((b.score for b in best), reverse=True)
        assert c.rerank(rows[0]["query"], documents, top_n=2) == best[:2]

        async def run():
            async with ingot.AsyncClient(own.endpoint, timeout=tap.LIMIT) as a:
                assert await a.rerank(rows[0]["query"], documents) == best
        asyncio.run(run())


@tap.case
def pip_installs_it():
    with temp_dir.folder() as dir:
        shutil.copytree(ROOT / "client/python", f"{dir}/source", symlinks=False,
                        ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps",
                        "--no-build-isolation", "--target", f"{dir}/site", f"{dir}/source"], check=True,
                       env={**os.environ, "TMPDIR": dir})
        code = ("import sys, ingot; c = ingot.Client(sys.argv[1]); print(ingot.__file__, "
                "c.generate('Once', max_tokens=5, temperature=0).result().text)")
        out = subprocess.run([sys.executable, "-c", code, CLUSTER.endpoint], capture_output=True, text=True, cwd=dir,
                             timeout=tap.LIMIT, check=True, env={**os.environ, "PYTHONPATH": f"{dir}/site", "PATH": "/nowhere"})
        assert out.stdout.startswith(f"{dir}/site/ingot/__init__.py"), out.stdout
        assert pathlib.Path(dir, "site/ingot/ingot.proto").read_bytes() == (ROOT / "proto/ingot.proto").read_bytes()
        assert pathlib.Path(dir, "site/ingot/py.typed").exists()


with Cluster(DEMO, tp=1, extra=PATIENT) as CLUSTER:
    tap.main()
