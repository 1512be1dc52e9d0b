"""Ollama's API of the gateway before a coordinator and a worker."""
import contextlib
import datetime
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from api import Api  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

CHAT, GENERATE = "/api/chat", "/api/generate"
QUESTION = "Tell me a short story about a fox."
STORY = [{"role": "user", "content": QUESTION}]
GREEDY = {"temperature": 0, "num_predict": 12}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather.",
                                         "parameters": {"type": "object"}}}
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
cluster = gateway = api = None


def chat(**body):
    return api.ok(CHAT, **{"model": "demo-model", "messages": STORY, "stream": False, "options": GREEDY, **body})


def generate(**body):
    return api.ok(GENERATE, **{"model": "demo-model", "prompt": QUESTION, "stream": False, "options": GREEDY, **body})


def openai(**body):
    return api.ok("/v1/chat/completions", **{"messages": STORY, "temperature": 0, "max_tokens": 12, **body})


def refused(path, said, status=400, **body):
    got, a = api.post(path, **body)
    assert got == status and list(a) == ["error"] and said in a["error"], (path, body, got, a)


def bad(said, **body):
    refused(CHAT, said, **{"messages": STORY, "stream": False, **body})


def check_end(a, reason, tokens):
    assert a["done"] is True and a["done_reason"] == reason and a["eval_count"] == tokens, a
    assert all(isinstance(a[d], int) for d in DURATIONS) and a["load_duration"] == 0
    assert a["total_duration"] == a["prompt_eval_duration"] + a["eval_duration"] > 0
    assert a["prompt_eval_duration"] % 1000 == 0, "nanoseconds"


@tap.case
def a_whole_chat():
    a = chat()
    want = openai()
    assert a["message"] == {"role": "assistant", "content": want["choices"][0]["message"]["content"]}
    assert a["model"] == "demo-model" and a["prompt_eval_count"] == want["usage"]["prompt_tokens"]
    assert datetime.datetime.fromisoformat(a["created_at"].replace("Z", "+00:00")).year >= 2025
    check_end(a, "length", 12)
    hello = chat(messages=[{"role": "user", "content": "Hello"}], options={"temperature": 0})
    assert hello["done_reason"] == "stop"


@tap.case
def streamed_is_whole():
    """The stream is the default."""
    for seed in range(3):
        options = {"seed": seed, "num_predict": 24}
        for path, ask, key in ((CHAT, {"messages": STORY}, "message"), (GENERATE, {"prompt": QUESTION}, "response")):
            whole = api.ok(path, stream=False, options=options, **ask)
            with gateway.connect() as c:
                a = c.post(path, json.dumps({"options": options, **ask}).encode())
            assert a.headers["content-type"] == "application/x-ndjson" and len(a.chunks) > 1
            lines = [json.loads(line) for line in a.body.decode().splitlines()]
            text = "".join(x[key]["content"] if key == "message" else x[key] for x in lines)
            assert text == (whole[key]["content"] if key == "message" else whole[key])
            assert all(x["done"] is False and "eval_count" not in x for x in lines[:-1]) and len(lines) > 2
            check_end(lines[-1], whole["done_reason"], whole["eval_count"])
            assert len({x["model"] for x in lines}) == 1


@tap.case
def generated_text():
    a = generate()
    assert a["response"] == chat()["message"]["content"], "the prompt is a user's turn"
    check_end(a, "length", 12)
    raw = generate(raw=True, prompt="Once upon a time")
    want = api.ok("/v1/completions", prompt="Once upon a time", temperature=0, max_tokens=12)
    assert raw["response"] == want["choices"][0]["text"]
    assert raw["prompt_eval_count"] == want["usage"]["prompt_tokens"]
    system = generate(system="Be kind.")
    want = openai(messages=[{"role": "system", "content": "Be kind."}, *STORY])
    assert system["response"] == want["choices"][0]["message"]["content"]
    assert system["prompt_eval_count"] == want["usage"]["prompt_tokens"]
    refused(GENERATE, "system", prompt="x", raw=True, system="Be kind.")


@tap.case
def nothing_to_answer_loads_the_model():
    for path, ask in ((CHAT, {"messages": []}), (CHAT, {}), (GENERATE, {"prompt": ""}), (GENERATE, {})):
        a = api.ok(path, model="demo-model", **ask)
        assert a["done"] is True and a["done_reason"] == "load", a
        assert ("message" in a) == (path == CHAT)
    for keep_alive in (0, "0", "0s"):
        assert api.ok(GENERATE, model="demo-model", keep_alive=keep_alive)["done_reason"] == "unload"
    assert api.ok(CHAT, model="demo-model", keep_alive="10m")["done_reason"] == "load"


@tap.case
def options():
    text = generate(options={"temperature": 0, "num_predict": 30})["response"]
    word = text.split()[3]
    for stop in (word, [word, "no such text"]):
        a = generate(options={"temperature": 0, "num_predict": 30, "stop": stop})
        assert a["response"] == text[:text.index(word)] and a["done_reason"] == "stop"
    assert chat(options={"temperature": 1, "top_k": 1, "num_predict": 12})["message"] == chat()["message"]
    seeded = [chat(options={"seed": s, "num_predict": 12})["message"]["content"] for s in (1, 1, 2)]
    assert seeded[0] == seeded[1] != seeded[2]
    plain = openai(seed=5, top_p=0.9, min_p=0.02, presence_penalty=0.5, frequency_penalty=0.5, repetition_penalty=1.2,
                   temperature=1)
    a = chat(options={"seed": 5, "top_p": 0.9, "min_p": 0.02, "presence_penalty": 0.5, "frequency_penalty": 0.5,
                      "repeat_penalty": 1.2, "temperature": 1, "num_predict": 12})
    assert a["message"]["content"] == plain["choices"][0]["message"]["content"]
    assert chat(options={**GREEDY, "num_ctx": 1024, "num_keep": 4, "num_batch": 512, "num_gpu": 99, "num_thread": 8,
                         "use_mmap": True, "typical_p": 1.0, "mirostat": 0, "repeat_last_n": -1})["message"] == chat()["message"]
    hello = [{"role": "user", "content": "Hello"}]
    assert chat(messages=hello, options={"temperature": 0, "num_predict": -1})["done_reason"] == "stop"
    assert chat(options={"num_predict": 3, "ignore_eos": True})["eval_count"] == 3
    for name, value in {"temperature": -1, "top_p": 2, "num_predict": 0, "num_ctx": 4096, "repeat_penalty": 0, "mirostat": 2,
                        "repeat_last_n": 64, "typical_p": 0.5, "seed": "x", "max_tokens": 5, "unheard_of": 1}.items():
        bad(f"options.{name}", options={name: value})
    bad("options", options=[])


@tap.case
def fields():
    plain = chat()["message"]
    assert chat(keep_alive="5m", format=None, think=None, tools=[], truncate=True)["message"] == plain
    assert chat(format="", keep_alive=-1, think=False)["message"] == plain
    assert chat(think="low")["message"] == plain
    for field, value in {"format": "xml", "think": "much", "stream": "no", "keep_alive": [], "logprobs": True,
                         "unheard_of": 1, "messages": 5, "options": 5}.items():
        bad(field, **{field: value})
    bad("#/not", format={"not": {}})
    for field, value in {"suffix": "x", "template": "{{ .Prompt }}", "context": [1], "images": ["aGk="], "format": 5,
                         "prompt": 5, "raw": 1}.items():
        refused(GENERATE, field, **{"prompt": "x", field: value})
    assert generate(suffix="", template="", images=[], context=[])["done"]
    refused(CHAT, "model 'other'", 404, model="other", messages=STORY)
    refused(CHAT, "priority", 403, messages=STORY, options={"priority": 1})
    refused(CHAT, "max_tokens", messages=STORY, options={"num_predict": 100000})
    status, _, data = api.send(CHAT, b"[")
    assert status == 400 and list(json.loads(data)) == ["error"]


@tap.case
def messages():
    use = {"function": {"name": "weather", "arguments": {"city": "Rome"}}}
    talk = [*STORY, {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [use]},
            {"role": "tool", "tool_name": "weather", "content": "sunny"}]
    assert chat(messages=talk, tools=[TOOL])["done"]
    whole = chat()["message"]["content"]
    begin = " ".join(whole.split(" ")[:3])
    a = chat(messages=[*STORY, {"role": "assistant", "content": begin}])
    assert whole.startswith(begin + a["message"]["content"][:8]), "a last message of the assistant is continued"
    bad("messages[0]", messages=["x"])
    bad("messages[0]", messages=[{"content": "x"}])
    bad("messages[0].content", messages=[{"role": "user", "content": [{"type": "text", "text": "x"}]}])
    bad("messages[0].images", messages=[{"role": "user", "content": "x", "images": ["aGk="]}])
    bad("messages[1].tool_calls[0]", messages=[*STORY, {"role": "assistant", "tool_calls": [{}]}])
    bad("tools[0]", tools=[{}])


@tap.case
def models():
    status, a = api.get("/api/tags")
    (m,) = a["models"]
    assert status == 200 and m["name"] == m["model"] == "demo-model:latest" and len(m["digest"]) == 64
    assert m["details"]["families"] == [] and m["modified_at"].endswith("Z") and m["size"] == 0
    for name in ("demo-model", "demo-model:latest"):
        show = api.ok("/api/show", model=name)
        info = show["model_info"]
        assert info[info["general.architecture"] + ".context_length"] == 1024
        assert show["capabilities"] == ["completion", "tools"] and show["details"]["parameter_size"] == ""
        assert chat(model=name)["model"] == name
    assert api.ok("/api/show", name="demo-model", verbose=True)["model_info"]
    refused("/api/show", "model 'other'", 404, model="other")
    refused("/api/show", "model")
    (running,) = api.get("/api/ps")[1]["models"]
    assert running["model"] == "demo-model:latest" and running["context_length"] == 1024
    datetime.datetime.fromisoformat(running["expires_at"].replace("Z", "+00:00"))
    assert api.get("/api/version")[1] == api.get("/version")[1]


@tap.case
def no_group_no_running_model():
    with Parts(DEMO) as c, Gateway("--connect", c.endpoint, "--served-model-name", "acme/fox,fox:7b") as g:
        other = Api(g)
        g.wait_ready()
        assert [m["name"] for m in other.get("/api/tags")[1]["models"]] == ["acme/fox:latest", "fox:7b"]
        assert len(other.get("/api/ps")[1]["models"]) == 2
        c.procs[1].terminate()
        g.wait_ready(503)
        assert other.get("/api/ps") == (200, {"models": []}) and other.get("/api/tags")[1]["models"]


@tap.case
def not_served():
    for path in ("/api/pull", "/api/push", "/api/create", "/api/copy"):
        refused(path, "not managed over HTTP", 501, model="x")
    status, _, data = api.send("/api/delete", b'{"model": "x"}', "DELETE")
    assert status == 501 and "not managed" in json.loads(data)["error"]
    refused("/api/nothing", "nothing at this path", 404)
    status, _, data = api.send("/api/chat", method="GET")
    assert status == 405 and list(json.loads(data)) == ["error"]


@tap.case
def keys():
    with Gateway("--connect", cluster.endpoint, "--api-key", "secret") as g:
        g.wait_ready()
        status, a = Api(g).post(CHAT, messages=STORY)
        assert status == 401 and list(a) == ["error"], a
        assert Api(g, {"Authorization": "Bearer secret"}).ok(CHAT, messages=STORY, stream=False, options=GREEDY)


@tap.case
def errors_in_a_stream():
    def attempt():
        last = api.lines(CHAT, messages=STORY, options={"ignore_eos": True, "deadline_ms": 1})[-1]
        if "done" in last:  # the answer was quicker
            return False
        assert list(last) == ["error"] and "deadline" in last["error"], last
        return True

    tap.race(attempt)


@tap.case
def an_abandoned_stream_is_cancelled():
    before = cluster.clients[0].call("Stats")[1].requests_cancelled
    with cluster.held():
        with gateway.connect() as c:
            c.request(CHAT, method="POST", body=json.dumps({"messages": STORY, "options": {"ignore_eos": True}}).encode())
            assert c.head().status == 200
        tap.wait_for(lambda: cluster.clients[0].call("Stats")[1].requests_cancelled == before + 1, "it is cancelled")
    assert chat()


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Parts(DEMO))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint)).wait_ready()
        api = Api(gateway)
        tap.main()
