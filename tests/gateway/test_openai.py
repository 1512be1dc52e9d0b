"""OpenAI's API of the gateway before a coordinator and a worker: every field and event as clients enforce them."""
import contextlib
import json
import os
import pathlib
import select
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, PATIENT, Parts, full_disk  # noqa: E402
from gateway_process import Gateway  # noqa: E402
from http_client import PATIENCE  # noqa: E402
import openai_http  # noqa: E402
from scripted_worker import ScriptedCluster  # noqa: E402
from openai_http import CHAT, COMPLETIONS, STORY, ask, chat, complete, joined, refused, send, stream  # noqa: E402

stack = contextlib.ExitStack()
cluster = gateway = None


# ---- answers ----

@tap.case
def a_whole_chat_answer():
    a = chat(max_tokens=12, temperature=0, model="demo-model")
    assert a["object"] == "chat.completion" and a["id"].startswith("chatcmpl-") and isinstance(a["created"], int)
    assert a["model"] == "demo-model"
    (choice,) = a["choices"]
    assert choice["index"] == 0 and choice["finish_reason"] == "length"
    assert choice["message"]["role"] == "assistant" and choice["message"]["content"]
    u = a["usage"]
    assert u["completion_tokens"] == 12 and u["prompt_tokens"] > 8
    assert u["total_tokens"] == u["prompt_tokens"] + 12
    assert 0 <= u["prompt_tokens_details"]["cached_tokens"] < u["prompt_tokens"]


@tap.case
def the_answer_is_that_of_the_protocol():
    """The same request over ZeroMQ gives the same text and counts."""
    turns = [{"role": m["role"], "content": m["content"].encode()} for m in STORY]
    want = cluster.clients[0].generate(chat={"turn": turns}, max_tokens=40, sampling={"seed": 7, "top_p": 0.9})
    a = chat(max_tokens=40, seed=7, top_p=0.9)
    assert a["choices"][0]["message"]["content"].encode() == want.text[0], (a, want.text)
    assert a["usage"]["prompt_tokens"] == want.finish.prompt_tokens


@tap.case
def an_answer_ends_by_itself():
    a = chat(messages=[{"role": "user", "content": "Hello"}], temperature=0)
    assert a["choices"][0]["finish_reason"] == "stop", a
    assert "<|im_end|>" not in a["choices"][0]["message"]["content"]


@tap.case
def streamed_is_whole():
    for seed in range(3):
        whole = chat(max_tokens=30, seed=seed)
        chunks = stream(CHAT, messages=STORY, max_tokens=30, seed=seed)
        message = whole["choices"][0]["message"]["content"]
        assert joined(chunks) == (message, whole["choices"][0]["finish_reason"])
        assert all("usage" not in c for c in chunks) and all(len(c["choices"]) == 1 for c in chunks)
        whole = complete(max_tokens=30, seed=seed)
        chunks = stream(COMPLETIONS, prompt="Once upon a time", max_tokens=30, seed=seed)
        assert joined(chunks) == (whole["choices"][0]["text"], "length")
        assert whole["object"] == "text_completion" == chunks[0]["object"] and whole["id"].startswith("cmpl-")


@tap.case
def chunks_of_a_chat():
    chunks = stream(CHAT, messages=STORY, max_tokens=5, seed=1)
    assert chunks[0]["choices"] == [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None,
                                     "finish_reason": None}]
    assert all("role" not in c["choices"][0]["delta"] for c in chunks[1:])
    assert chunks[-1]["choices"][0]["delta"] == {} and chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert all(c["object"] == "chat.completion.chunk" and c["choices"][0]["finish_reason"] is None for c in chunks[:-1])


@tap.case
def usage_only_when_asked():
    chunks = stream(CHAT, messages=STORY, max_tokens=5, stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 5
    assert all(c["usage"] is None for c in chunks[:-1]) and chunks[-2]["choices"][0]["finish_reason"]
    chunks = stream(COMPLETIONS, prompt="a", max_tokens=3, stream_options={"include_usage": True}, ignore_eos=True)
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 3
    refused(CHAT, "stream_options", messages=STORY, stream_options={"include_usage": True})


@tap.case
def several_samples():
    whole = chat(n=3, max_tokens=8, seed=5)
    assert [c["index"] for c in whole["choices"]] == [0, 1, 2] and whole["usage"]["completion_tokens"] == 24
    texts = [c["message"]["content"] for c in whole["choices"]]
    assert len(set(texts)) > 1
    chunks = stream(CHAT, messages=STORY, n=3, max_tokens=8, seed=5)
    assert [joined(chunks, i)[0] for i in range(3)] == texts
    assert complete(n=2, best_of=2, max_tokens=2, seed=5)["choices"] == complete(n=2, max_tokens=2, seed=5)["choices"]
    refused(COMPLETIONS, "best_of", prompt="a", n=2, best_of=1)
    order = [c["choices"][0]["index"] for c in chunks]
    assert sorted(set(order), key=order.index) == [0, 1, 2]


@tap.case
def several_prompts():
    alone = [complete(prompt=p, max_tokens=6, temperature=0)["choices"][0]["text"] for p in ("One day", "The fox")]
    a = complete(prompt=["One day", "The fox"], n=2, max_tokens=6, temperature=0)
    assert [(c["index"], c["text"]) for c in a["choices"]] == list(enumerate([alone[0]] * 2 + [alone[1]] * 2))
    chunks = stream(COMPLETIONS, prompt=["One day", "The fox"], max_tokens=6, temperature=0)
    assert [joined(chunks, i)[0] for i in range(2)] == alone
    assert a["usage"]["completion_tokens"] == 24


@tap.case
def prompts_of_ids():
    ids = list(cluster.clients[0].call("Tokenize", text=b"One day")[1].id)
    want = complete(prompt="One day", max_tokens=6, temperature=0)
    assert complete(prompt=ids, max_tokens=6, temperature=0)["choices"] == want["choices"]
    assert complete(prompt=[ids], max_tokens=6, temperature=0)["choices"] == want["choices"]
    assert want["usage"]["prompt_tokens"] == len(ids)
    assert complete(prompt="One day", ignore_eos=True)["usage"]["completion_tokens"] == 16, "the default"
    refused(COMPLETIONS, "prompt", prompt=[1 << 30])


# ---- fields ----

@tap.case
def a_seed_gives_the_same_text():
    texts = {chat(max_tokens=20, seed=s)["choices"][0]["message"]["content"] for s in (1, 1, 1)}
    assert len(texts) == 1
    assert {chat(max_tokens=20, seed=s)["choices"][0]["message"]["content"] for s in (2, 3, 4)} != texts
    for seed in (-1, -(1 << 63), (1 << 63) - 1):
        assert chat(max_tokens=1, seed=seed)
    refused(CHAT, "seed", messages=STORY, seed=1 << 63)


@tap.case
def stop_strings():
    text = complete(temperature=0, max_tokens=30, ignore_eos=True)["choices"][0]["text"]
    word = text.split()[2]
    for stop in (word, [word], ["no such text", word]):
        c = complete(temperature=0, max_tokens=30, stop=stop)["choices"][0]
        assert c["text"] == text[:text.index(word)] and c["finish_reason"] == "stop", (stop, c)
        chunks = stream(COMPLETIONS, prompt="Once upon a time", temperature=0, max_tokens=30, stop=stop)
        assert joined(chunks) == (c["text"], "stop")
    c = complete(temperature=0, max_tokens=30, stop=word, include_stop_str_in_output=True)["choices"][0]
    assert c["text"].endswith(word)
    refused(COMPLETIONS, "stop[16]", prompt="a", stop=[str(i) for i in range(17)])
    refused(COMPLETIONS, "stop", prompt="a", stop="")
    refused(COMPLETIONS, "stop", prompt="a", stop=5)


@tap.case
def sampling_fields():
    (token,) = cluster.clients[0].call("Tokenize", text=b"!", add_special=False)[1].id
    a = chat(temperature=0, max_tokens=4, logit_bias={str(token): 100}, ignore_eos=True)
    assert a["choices"][0]["message"]["content"] == "!!!!", a
    assert chat(temperature=1, top_k=1, seed=1, max_tokens=8)["choices"] == chat(temperature=0, max_tokens=8)["choices"]
    every = chat(temperature=1, seed=1, max_tokens=8)["choices"]
    assert all(chat(temperature=1, seed=1, max_tokens=8, top_k=k)["choices"] == every for k in (0, -1))
    assert chat(max_tokens=9, max_completion_tokens=4, ignore_eos=True)["usage"]["completion_tokens"] == 4
    hello = [{"role": "user", "content": "Hello"}]
    assert chat(messages=hello, temperature=0, min_tokens=60, max_tokens=60)["usage"]["completion_tokens"] == 60
    c = chat(temperature=0, max_tokens=4, stop_token_ids=[token], logit_bias={str(token): 100})["choices"][0]
    assert c["finish_reason"] == "stop", c
    for field, value in {"temperature": 101, "top_p": 0, "presence_penalty": 2.5, "frequency_penalty": -3, "min_p": 2,
                         "repetition_penalty": 0, "n": 0, "max_tokens": 0, "top_k": -2, "priority": 101,
                         "max_completion_tokens": "1", "stream": 1, "logit_bias": []}.items():
        refused(CHAT, field, messages=STORY, **{field: value})
    for top_p in (0, -1, 1e-50, 1.5, 2):
        assert "above 0 and at most 1" in refused(CHAT, "top_p", messages=STORY, top_p=top_p)["message"]
    assert refused(CHAT, 'logit_bias.x', messages=STORY, logit_bias={"x": 1})
    refused(CHAT, "logit_bias.5", messages=STORY, logit_bias={"5": 101})
    refused(CHAT, "logit_bias", messages=STORY, logit_bias={"99999999": 1})
    refused(CHAT, "max_tokens", messages=STORY, max_tokens=100000)
    refused(CHAT, "priority", 403, messages=STORY, priority=1)
    assert chat(max_tokens=1, priority=-1)


@tap.case
def fields_without_effect_and_null():
    plain = chat(max_tokens=5, seed=1)["choices"]
    assert chat(max_tokens=5, seed=1, user="u", metadata={"a": "b"}, service_tier="auto", store=False, verbosity="low",
                prompt_cache_key="k", safety_identifier="s", parallel_tool_calls=True, logprobs=False, n=1,
                response_format={"type": "text"}, modalities=["text"])["choices"] == plain
    names = ["model", "temperature", "top_p", "n", "stop", "stream", "stream_options", "logit_bias", "tools",
             "tool_choice", "response_format", "logprobs", "top_logprobs", "audio", "function_call"]
    assert chat(max_tokens=5, seed=1, **dict.fromkeys(names))["choices"] == plain


@tap.case
def refused_fields():
    for field, value in {"logprobs": 1, "top_logprobs": 2, "tool_choice": "required", "store": True,
                         "audio": {}, "web_search_options": {}, "return_token_ids": 1,
                         "functions": [], "parallel_tool_calls": 1, "prediction": {}, "unheard_of": 1,
                         "tools": []}.items():
        refused(CHAT, field, messages=STORY, **{field: value})
    refused(CHAT, "tool_choice", messages=STORY, tool_choice={"type": "function", "function": {"name": "f"}})
    refused(CHAT, "response_format.type", messages=STORY, response_format={"type": "xml"})
    refused(CHAT, "modalities[1]", messages=STORY, modalities=["text", "audio"])
    refused(CHAT, "stream_options.chunk_size", messages=STORY, stream=True, stream_options={"chunk_size": 1})
    refused(CHAT, "top_logprobs", messages=STORY, logprobs=True, top_logprobs=21)
    refused(CHAT, "tool_choice", messages=STORY, tool_choice="auto")
    for field, value in {"echo": 1, "suffix": "x", "logprobs": 21, "best_of": 2, "messages": STORY}.items():
        refused(COMPLETIONS, field, prompt="a", **{field: value})
    assert complete(suffix="", echo=False, logprobs=None, max_tokens=1)
    assert chat(tool_choice="none", max_tokens=1) and chat(top_logprobs=0, max_tokens=1)
    refused(CHAT, "messages", messages=[])
    refused(CHAT, "messages")
    refused(COMPLETIONS, "prompt")
    refused(COMPLETIONS, "prompt", prompt=[])


@tap.case
def messages():
    def text(*parts):
        return [{"role": "user", "content": [{"type": "text", "text": p} for p in parts]}]
    question = STORY[0]["content"]
    plain = chat(max_tokens=10, temperature=0)
    for m in (text(question), text(question[:9], question[9:]), [{**STORY[0], "name": "x", "unknown": [1]}]):
        a = chat(messages=m, max_tokens=10, temperature=0)
        assert a["choices"] == plain["choices"] and a["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]
    system, developer = (chat(messages=[{"role": r, "content": "Be kind."}, *STORY], max_tokens=10, temperature=0)
                         for r in ("system", "developer"))
    assert system["choices"] == developer["choices"]
    assert system["usage"]["prompt_tokens"] == developer["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"]
    awkward = 'quote " slash \\ line \n tab \t null \0 \U0001f98a'
    a = chat(messages=[{"role": "user", "content": awkward}], max_tokens=1)
    assert a["usage"] == {**chat(messages=text(awkward), max_tokens=1)["usage"],
                          "prompt_tokens_details": a["usage"]["prompt_tokens_details"]}
    refused(CHAT, "messages[1].content[0].type", messages=[*STORY, {"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:"}}]}])
    refused(CHAT, "messages[0].content", messages=[{"role": "user", "content": 5}])
    refused(CHAT, "messages[0]", messages=["hello"])
    assert refused(CHAT, "messages[0]", messages=[{"content": "x"}])["message"].endswith("has no role")


@tap.case
def tools_are_told_and_text_stays_text():
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    want = chat(temperature=0, max_tokens=10)["choices"]
    for choice in ("auto", "none", None):
        assert chat(temperature=0, max_tokens=10, tools=[tool], tool_choice=choice)["choices"] == want
    assert joined(stream(CHAT, messages=STORY, temperature=0, max_tokens=10, tools=[tool]))[0] == \
        want[0]["message"]["content"]
    refused(CHAT, "tools[0]", messages=STORY, tools=[{"type": "function"}])
    refused(CHAT, "tools[0].function", messages=STORY, tools=[{"type": "function", "function": {}}])
    refused(CHAT, "tools[0].function.name", messages=STORY, tools=[{"type": "function", "function": {"name": ""}}])
    refused(CHAT, "tools[0].type", messages=STORY, tools=[{"type": "web_search"}])
    call = {"id": "call_123456", "type": "function", "function": {"name": "weather", "arguments": "{nonsense"}}
    turns = [*STORY, {"role": "assistant", "content": "", "tool_calls": [call]}]
    refused(CHAT, "messages[1].tool_calls[0].function.arguments", messages=turns)
    call["function"]["arguments"] = '{"city": "Rome"}'
    assert chat(messages=[*turns, {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}], max_tokens=1)


# ---- bodies and models ----

@tap.case
def bodies_that_are_not_json():
    for body, said in {'{"messages": [': "(byte 14)", "": "byte 0", "{} x": "byte 3", '{"n": 1, "n": 2}': "n",
                       "\ufeff{}": "byte 0", '{"a": NaN}': "a"}.items():
        status, _, a = send(CHAT, body.encode())
        assert status == 400 and said in a["error"]["message"], (body, a)
    status, _, a = send(CHAT, b'{"messages": "\xff"}')
    assert status == 400 and "UTF-8" in a["error"]["message"], a
    assert send(CHAT, b"[]")[0] == 400
    assert send(CHAT, b"[" * 100000)[0] == 400


@tap.case
def models():
    status, _, a = send("/v1/models", None, method="GET")
    assert status == 200 and a["object"] == "list"
    (m,) = a["data"]
    assert m["id"] == "demo-model" and m["object"] == "model" and m["max_model_len"] == 1024 and m["owned_by"]
    for name in ("demo-model", "demo-model:latest", "acme/demo-model"):
        assert send(f"/v1/models/{name}", None, method="GET")[::2] == (200, m)
        assert chat(model=name, max_tokens=1)["model"] == name
    for name in ("other", "demo-model:7b", "demo", "demo-model/x"):
        status, _, a = send(f"/v1/models/{name}", None, method="GET")
        assert status == 404 and a["error"]["type"] == "not_found_error", a
        refused(CHAT, "model", 404, messages=STORY, model=name)


@tap.case
def served_model_names():
    with Gateway("--connect", cluster.endpoint, "--served-model-name", "gpt-4o,acme/fox",
                 "--served-model-name", "third") as g:
        g.wait_ready()
        listed = send("/v1/models", None, port=g.port, method="GET")[2]["data"]
        assert [m["id"] for m in listed] == ["gpt-4o", "acme/fox", "third"]
        for name in ("gpt-4o", "fox", "acme/fox", "x/third:latest", None):
            assert ask(CHAT, port=g.port, model=name, messages=STORY, max_tokens=1)[0] == 200, name
        for name in ("demo-model", "other/fox"):
            assert ask(CHAT, port=g.port, model=name, messages=STORY, max_tokens=1)[0] == 404, name


@tap.case
def keys():
    with Gateway("--connect", cluster.endpoint, "--api-key", "secret") as g:
        g.wait_ready()
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            status, _, a = ask(CHAT, headers, g.port, messages=STORY, max_tokens=1)
            assert status == 401 and a["error"]["type"] == "authentication_error", a
        good = {"Authorization": "Bearer secret"}
        assert ask(CHAT, good, g.port, messages=STORY, max_tokens=1, priority=1)[0] == 200
        assert g.get("/v1/models").status == 401 and g.get("/v1/models", "X-Api-Key: secret").status == 200


# ---- clients and coordinators that go away ----

@contextlib.contextmanager
def scripted(*coordinator):
    """A cluster whose worker can be held for as long as a busy machine takes, and its gateway."""
    with ScriptedCluster({}, coordinator=coordinator) as c, Gateway("--connect", c.endpoint) as g:
        yield c, g.wait_ready()


def abandoned(body):
    """The client leaves while no token can be computed; the coordinator hears of it."""
    with scripted() as (cluster, gateway):
        leave(cluster, gateway, body)


def leave(cluster, gateway, body):
    def stats():
        return cluster.clients[0].call("Stats")[1]
    before = stats().requests_cancelled
    with cluster.held():
        with gateway.connect() as c:
            c.request(CHAT, method="POST", body=json.dumps({"messages": STORY, "ignore_eos": True, **body}).encode())
            if body.get("stream"):
                assert c.head().status == 200
            else:
                tap.wait_for(lambda: stats().running + stats().waiting, "the request has come")
        tap.wait_for(lambda: stats().requests_cancelled == before + 1, "it is cancelled")
    tap.wait_for(lambda: stats().running + stats().waiting == 0, "nothing runs")
    assert ask(CHAT, port=gateway.port, messages=STORY, max_tokens=1)[0] == 200


@tap.case
def an_abandoned_stream_is_cancelled():
    abandoned({"stream": True, "n": 2})


@tap.case
def an_abandoned_wait_is_cancelled():
    abandoned({})


@tap.case
def many_at_once():
    want = joined(stream(CHAT, messages=STORY, seed=3, max_tokens=24))
    clients = [gateway.connect() for _ in range(24)]
    body = json.dumps({"messages": STORY, "seed": 3, "max_tokens": 24, "stream": True}).encode()
    for c in clients:
        c.request(CHAT, method="POST", body=body)
    for c in clients:
        events = c.answer().body.decode()[:-2].split("\n\n")
        assert joined([json.loads(e[6:]) for e in events[:-1]]) == want
        c.close()


@tap.case
def a_deadline_is_a_timeout():
    with scripted() as (c, g), c.held():
        status, _, a = ask(CHAT, port=g.port, messages=STORY, deadline_ms=50)
    assert status == 504 and "deadline" in a["error"]["message"], (status, a)


@tap.case
def a_full_queue_says_when_to_come_again():
    with scripted("--max-queued", "1") as (c, g):
        with c.held():
            clients = [g.connect() for _ in range(40)]
            for client in clients:
                client.request(CHAT, method="POST", body=json.dumps({"messages": STORY, "max_tokens": 1}).encode())
            answers = tap.wait_for(lambda: [client for client in clients if readable(client)], "one is refused")
            a = answers[0].answer()
            assert a.status == 429 and json.loads(a.body)["error"]["type"] == "rate_limit_error", a
            assert float(a.headers["retry-after"]) > 0 and int(a.headers["retry-after-ms"]) > 0
        for client in clients:
            client.close()


@tap.case
def one_tenant_that_has_too_many_is_told():
    with scripted("--tenant-requests", "2") as (c, g):
        with c.held():
            busy = [g.connect() for _ in range(2)]
            for client in busy:
                client.request(CHAT, method="POST", body=json.dumps({"messages": STORY, "max_tokens": 1}).encode())

            def number():
                stats = c.clients[0].call("Stats")[1]
                return stats.running + stats.waiting

            tap.wait_for(lambda: number() == 2, "both are there")
            status, headers, a = ask(CHAT, port=g.port, messages=STORY)
            assert status == 429 and "--tenant-requests" in a["error"]["message"], (status, a)
            assert float(headers["retry-after"]) > 0
        for client in busy:
            assert client.answer().status == 200
            client.close()


@tap.case
def a_journal_that_cannot_be_written_is_503():
    """No overload, which 429 would say: the one that finds it out, and those after it, on every path."""
    with temp_dir.folder() as d, scripted("--journal", d) as (c, g):
        full_disk(c.coordinator.pid, True)
        for path, body in ((CHAT, {"messages": STORY}), (CHAT, {"messages": STORY, "stream": True}), (COMPLETIONS, {"prompt": "a"})):
            status, headers, a = ask(path, port=g.port, max_tokens=1, **body)
            assert status == 503 and "the journal cannot be written" in a["error"]["message"], (status, a)
            assert a["error"]["type"] != "rate_limit_error" and float(headers["retry-after"]) > 0, (headers, a)
        full_disk(c.coordinator.pid, False)
        tap.wait_for(lambda: ask(CHAT, port=g.port, messages=STORY, max_tokens=1)[0] == 200, "the journal")


def readable(client):
    return select.select([client.sock], [], [], 0)[0]


@tap.case
def the_coordinator_may_come_later_and_go():
    with Parts(DEMO) as c:
        endpoint = c.endpoint
        with Gateway("--connect", "ipc:///nonexistent/clients", "--connect", endpoint, "--resume-grace-ms", "200") as g:
            g.wait_ready()
            with c.held(), g.connect() as waiting:
                waiting.request(CHAT, method="POST", body=json.dumps({"messages": STORY, "stream": True}).encode())
                assert waiting.head().status == 200
                c.coordinator.kill()
                c.coordinator.wait()
                body = b""
                while chunk := waiting.chunk():
                    body += chunk
                assert body.endswith(b"data: [DONE]\n\n") and b'"error":{"message":' in body, body
            g.wait_ready(503)
            status, headers, a = ask(CHAT, port=g.port, messages=STORY)
            assert status == 503 and a["error"]["type"] == "unavailable_error" and int(headers["retry-after"]) >= 1
            assert g.get("/health").status == 200
            c.coordinator = c.spawn(BIN / "ingot-coordinator", "--model", DEMO, "--listen", endpoint, "--workers",
                                    c.workers, *PATIENT)
            c.group()
            g.wait_ready()
            assert ask(CHAT, port=g.port, messages=STORY, max_tokens=1)[0] == 200
            # it connected before the worker group, from which the coordinator has the model's sizes
            tap.wait_for(lambda: json.loads(g.get("/v1/models").body)["data"][0]["max_model_len"] == 1024, "the context's size")
            g.process.send_signal(signal.SIGTERM)
            assert g.process.wait(PATIENCE) == 0


@tap.case
def a_drain_lets_answers_end():
    with scripted() as (cluster, g):
        with g.connect() as c:
            with cluster.held():
                body = {"messages": STORY, "stream": True, "max_tokens": 5, "ignore_eos": True}
                c.request(CHAT, method="POST", body=json.dumps(body).encode())
                a = c.head()
                assert a.status == 200
                os.kill(g.process.pid, signal.SIGTERM)
            data = b""
            while chunk := c.chunk():
                data += chunk
            assert data.endswith(b"data: [DONE]\n\n") and b'"finish_reason":"length"' in data
        assert g.process.wait(PATIENCE) == 0


if __name__ == "__main__":
    with stack:
        cluster = stack.enter_context(Parts(DEMO))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint)).wait_ready()
        openai_http.gateway = gateway
        tap.main()
