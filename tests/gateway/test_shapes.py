"""Requests in the shape that programs send them (Open WebUI, Continue, Zed, Ollama's command line), and behaviours of other
servers' test suites that no other test here holds (README.md)."""
import json

from client_setup import KEY, QUESTION, STORY, Setup, tap
from api import Api
from gateway_process import Gateway

setup = api = None
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def chunks(path, headers=None, **body):
    text = Api(setup.gateway, {**api.headers, **(headers or {})}).stream(path, **body)
    events = text[:-2].split("\n\n")
    assert events[-1] == "data: [DONE]"
    return [json.loads(e[len("data: "):]) for e in events[:-1]]


# ---- programs ----

@tap.case
def open_webui():
    headers = {"X-OpenWebUI-User-Name": "Ada", "X-OpenWebUI-Chat-Id": "c", "User-Agent": "Python/3.11 aiohttp/3.11",
               "Accept": "text/event-stream"}
    status, models = api.get("/v1/models")
    assert status == 200 and [m["id"] for m in models["data"]] == ["demo-model"]
    got = chunks(CHAT, headers, model="demo-model", messages=[{"role": "system", "content": "Be kind."}, *STORY],
                 stream_options={"include_usage": True}, temperature=0.8, max_tokens=12)
    assert got[-1]["usage"]["completion_tokens"] == 12
    title = api.ok(CHAT, model="demo-model", stream=False, max_completion_tokens=20,
                   messages=[{"role": "user", "content": "### Task:\nGenerate a title.\n<chat_history>\nUSER: Hi\n</chat_history>"}])
    assert title["choices"][0]["message"]["content"]
    # with the connection of Ollama's form
    assert api.get("/api/version")[0] == api.get("/api/ps")[0] == 200
    name = api.get("/api/tags")[1]["models"][0]["model"]
    assert api.ok("/api/show", name=name)["capabilities"]
    lines = api.lines("/api/chat", model=name, messages=STORY, options={"num_predict": 12}, keep_alive="5m")
    assert lines[-1]["done"] and lines[-1]["eval_count"] == 12


@tap.case
def continue_chat_and_autocomplete():
    got = chunks(CHAT, model="demo-model", messages=STORY, max_tokens=12, tools=[{"type": "function", "function": {
        "name": "read_file", "description": "d", "parameters": {"type": "object", "required": ["filepath"]}}}])
    assert all("delta" in c["choices"][0] for c in got)
    stops = ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "<|endoftext|>", "</fim_middle>", "</code>",
             "/src/", "#- coding: utf-8", "```"]
    ask = {"model": "demo-model", "prompt": "<fim_prefix>def f():\n<fim_suffix>\n<fim_middle>", "max_tokens": 16,
           "temperature": 0.01, "stop": stops, "frequency_penalty": 0, "presence_penalty": 0, "top_p": 1}
    assert chunks(COMPLETIONS, **ask)[-1]["choices"][0]["finish_reason"]
    made = api.ok("/api/generate", model="demo-model", prompt=ask["prompt"], raw=True, stream=False, keep_alive=1800,
                  options={"num_predict": 16, "stop": stops, "temperature": 0.01, "num_ctx": 1024, "num_gpu": None})
    assert made["done"] and made["eval_count"] <= 16


@tap.case
def zed():
    """Its reader fails a chunk without choices, and a usage without all three counts."""
    got = chunks(CHAT, model="demo-model", messages=[{"role": "user", "content": [{"type": "text", "text": QUESTION}]}],
                 stream_options={"include_usage": True}, max_completion_tokens=12, stop=[], temperature=1.0,
                 parallel_tool_calls=False, prompt_cache_key="thread")
    for c in got:
        assert isinstance(c["choices"], list) and {"id", "object", "created", "model"} <= set(c)
        assert c.get("usage") is None or {"prompt_tokens", "completion_tokens", "total_tokens"} <= set(c["usage"])
        for choice in c["choices"]:
            assert isinstance(choice["delta"], dict)


@tap.case
def ollama_command_line():
    with setup.gateway.connect() as c:
        assert c.get("/", method="HEAD").status == 200, "its heartbeat"
        a = c.get("/")
        assert a.status == 200 and a.headers["content-type"].startswith("text/plain") and b"running" in a.body
    assert api.ok("/api/show", model="demo-model", name="")["model_info"]
    assert api.ok("/api/generate", model="demo-model", prompt="", keep_alive=None)["done_reason"] == "load"
    lines = api.lines("/api/chat", model="demo-model", messages=STORY, format="", options={"num_predict": 8})
    assert lines[-1]["done"]


# ---- what other servers' suites ask ----

@tap.case
def chats_that_are_malformed():
    for messages in (None, "a chat", [123], [{}], [{"role": 123, "content": "x"}], [{"role": "user", "content": {"a": 1}}],
                     [None], {"role": "user"}, []):
        status, a = api.post(CHAT, messages=messages)
        assert status == 400 and a["error"]["type"] == "invalid_request_error", (messages, a)
    for form in ({"type": "sound"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"schema": 123}},
                 {"type": "json_object", "schema": {"type": "hiccup"}}, "json", {}):
        status, a = api.post(CHAT, messages=STORY, response_format=form)
        assert status == 400 and a["error"]["param"].startswith("response_format"), (form, a)
    for body in (b"[]", b'"text"', b"5", b"null", b"true"):
        assert api.send(CHAT, body)[0] == 400, body


@tap.case
def errors_tell_no_addresses():
    with Gateway("--connect", "ipc:///nonexistent/clients", "--api-key", KEY) as g:
        away = Api(g, api.headers)
        said = [away.post(path, messages=STORY, max_tokens=1) for path in (CHAT, "/v1/messages", "/api/chat")]
        assert [status for status, _ in said] == [503] * 3
    said += [api.post(CHAT, messages=STORY, max_tokens=10 ** 6), api.post(CHAT, messages=[{}]), api.post("/v1/nothing"),
             api.post("/detokenize", tokens=[1 << 30]), api.post(CHAT, model="x" * 200, messages=STORY)]
    for status, a in said:
        text = json.dumps(a)
        assert status >= 400 and not any(word in text for word in ("ipc:", "tcp:", ".c:", "/tmp", "0x", "/work")), text


@tap.case
def a_role_of_ones_own():
    a = api.ok(CHAT, messages=[{"role": "narrator", "content": "Once."}, *STORY], max_tokens=4)
    assert a["usage"]["prompt_tokens"] > api.ok("/tokenize", messages=STORY)["count"]


@tap.case
def a_prompt_beyond_the_context():
    long = "fox " * 2000
    for path, param, body in ((CHAT, "messages", {"messages": [{"role": "user", "content": long}]}),
                              (COMPLETIONS, "prompt", {"prompt": long}), ("/v1/responses", "input", {"input": long})):
        e = api.refused(path, param, **body)
        assert "1024" in e["message"] or "1023" in e["message"], e
    status, a = api.post("/v1/messages", messages=[{"role": "user", "content": long}], max_tokens=5)
    assert status == 400 and a["error"]["type"] == "invalid_request_error" and "102" in a["error"]["message"], a
    status, a = api.post("/api/chat", messages=[{"role": "user", "content": long}])
    assert status == 400 and "102" in a["error"], a


@tap.case
def a_list_of_text_and_ids():
    ids = api.ok("/tokenize", prompt="One day")["tokens"]
    a = api.ok(COMPLETIONS, prompt=["One day", ids, "One day"], max_tokens=6, temperature=0)
    assert [c["index"] for c in a["choices"]] == [0, 1, 2] and len({c["text"] for c in a["choices"]}) == 1


@tap.case
def the_beginning_of_an_answer():
    whole = api.ok(CHAT, messages=STORY, temperature=0, max_tokens=20)["choices"][0]["message"]["content"]
    begin = " ".join(whole.split(" ")[:4])
    a = api.ok(CHAT, messages=[*STORY, {"role": "assistant", "content": begin}], temperature=0, max_tokens=8,
               continue_final_message=True, add_generation_prompt=False)
    assert whole.startswith(begin + a["choices"][0]["message"]["content"][:10])


@tap.case
def seeds_and_neighbours():
    """The same text alone and beside others; another seed gives another."""
    ask = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 1.0, "ignore_eos": True}
    alone = [api.ok(COMPLETIONS, seed=s, **ask)["choices"][0]["text"] for s in (1, 2)]
    assert alone[0] != alone[1]
    beside = api.together(COMPLETIONS, [{**ask, "seed": s} for s in (1, 2, 1, 2, 1, 2)])
    assert [a["choices"][0]["text"] for a in beside] == alone * 3


@tap.case
def two_hundred_abandoned_streams():
    body = json.dumps({"messages": STORY, "stream": True, "ignore_eos": True}).encode()
    clients = [setup.gateway.connect() for _ in range(200)]
    for c in clients:
        c.request(CHAT, f"Authorization: Bearer {KEY}", method="POST", body=body)
    for c in clients[:20]:
        assert c.head().status == 200
    for i, c in enumerate(clients):
        c.reset() if i % 2 else c.close()
    def idle():
        s = setup.stats()
        return s.running + s.waiting == 0 and s.blocks_free + s.blocks_cached == s.blocks_total
    tap.wait_for(idle, "all requests have ended and their blocks are free")
    assert api.ok(CHAT, messages=STORY, max_tokens=1)


@tap.case
def keys_of_either_header_for_every_api():
    asks = {CHAT: {"messages": STORY, "max_tokens": 1}, COMPLETIONS: {"prompt": "a", "max_tokens": 1},
            "/v1/messages": {"messages": STORY, "max_tokens": 1}, "/v1/responses": {"input": "a", "max_output_tokens": 1},
            "/api/chat": {"messages": STORY, "stream": False, "options": {"num_predict": 1}}, "/tokenize": {"prompt": "a"}}
    for path, body in asks.items():
        for headers, want in (({"Authorization": f"Bearer {KEY}"}, 200), ({"x-api-key": KEY}, 200), ({}, 401),
                              ({"x-api-key": "wrong"}, 401), ({"Authorization": f"Basic {KEY}"}, 401)):
            status, a = Api(setup.gateway, headers).post(path, **body)
            assert status == want, (path, headers, a)
            assert status == 200 or "error" in a


if __name__ == "__main__":
    with Setup() as setup:
        api = Api(setup.gateway, {"Authorization": f"Bearer {KEY}"})
        tap.main()
