"""/tokenize, /detokenize and /apply-template before a coordinator, in the shapes of vLLM and llama.cpp; HEAD and OPTIONS."""
import contextlib
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from api import Api  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402

STORY = [{"role": "user", "content": "Tell me a short story about a fox."}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
AWKWARD = 'One day, "the fox" said: caf\u00e9 \U0001f98a \0 \\ end.'
cluster = gateway = api = None


def protocol(text, add_special=True):
    return list(cluster.clients[0].call("Tokenize", text=text.encode(), add_special=add_special)[1].id)


def rendered(messages=STORY, **chat):
    turns = [{"role": m["role"], "content": m["content"].encode()} for m in messages]
    return cluster.clients[0].call("ApplyTemplate", chat={"turn": turns, **chat})[1].text.decode()


@tap.case
def a_prompt():
    a = api.ok("/tokenize", model="demo-model", prompt="Once upon a time")
    assert a == {"count": len(a["tokens"]), "max_model_len": 1024, "tokens": protocol("Once upon a time"),
                 "token_strs": None}
    for special in (True, False):
        assert api.ok("/tokenize", prompt=AWKWARD, add_special_tokens=special)["tokens"] == protocol(AWKWARD, special)
    assert api.ok("/tokenize", prompt="")["tokens"] == protocol("")
    long = "word " * 100000
    assert api.ok("/tokenize", prompt=long)["count"] == len(protocol(long)) > 100000


@tap.case
def content():
    """llama.cpp's shape."""
    assert api.ok("/tokenize", content="Once upon a time") == {"tokens": protocol("Once upon a time", False)}
    assert api.ok("/tokenize", content="x", add_special=True) == {"tokens": protocol("x", True)}


def bytes_of(piece):
    return bytes(piece) if isinstance(piece, list) else piece.encode()


@tap.case
def texts_of_tokens():
    """vLLM's return_token_strs: as the vocabulary spells them; llama.cpp's with_pieces: what they stand for."""
    for text in ("Once upon a time", AWKWARD):
        for special in (True, False):
            a = api.ok("/tokenize", prompt=text, add_special_tokens=special, return_token_strs=True)
            assert a["tokens"] == protocol(text, special) and len(a["token_strs"]) == a["count"], a
            b = api.ok("/tokenize", content=text, add_special=special, with_pieces=True)["tokens"]
            assert [t["id"] for t in b] == a["tokens"] and all(set(t) == {"id", "piece"} for t in b), b
            whole = b"".join(bytes_of(t["piece"]) for t in b)
            assert whole.endswith(text.encode()) and (special or len(whole) - len(text.encode()) <= 1), (whole, text)
    parts = [t["piece"] for t in api.ok("/tokenize", content="\U0001f98a", with_pieces=True)["tokens"]]
    assert [p for p in parts if isinstance(p, list)], "parts of a character are numbers"
    chat = api.ok("/tokenize", messages=STORY, return_token_strs=True)
    assert len(chat["token_strs"]) == chat["count"] and any("short" in t for t in chat["token_strs"])
    assert api.ok("/tokenize", prompt="", add_special_tokens=False, return_token_strs=True)["token_strs"] in ([], None)
    for field in ("return_token_strs", "with_pieces"):
        api.refused("/tokenize", field, content="x", **{field: "yes"})


@tap.case
def messages():
    text = rendered()
    assert "short story" in text and text != STORY[0]["content"]
    assert api.ok("/apply-template", messages=STORY) == {"prompt": text}
    a = api.ok("/tokenize", messages=STORY)
    assert a["tokens"] == protocol(text, False) and a["count"] == len(a["tokens"])
    usage = api.ok("/v1/chat/completions", messages=STORY, max_tokens=1)["usage"]
    assert usage["prompt_tokens"] == a["count"], "the count is that of a request"
    parts = [{"role": "user", "content": [{"type": "text", "text": t} for t in ("Tell me a short ", "story about a fox.")]}]
    assert api.ok("/tokenize", messages=parts) == a
    short = api.ok("/tokenize", messages=STORY, add_generation_prompt=False)
    assert short["tokens"] == protocol(rendered(add_generation_prompt=False), False) and short["count"] < a["count"]
    assert api.ok("/tokenize", messages=STORY, add_special_tokens=True)["tokens"] == protocol(text, True)


@tap.case
def tools_reach_the_template():
    json_tools = b'[{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]'
    want = rendered(tools_json=json_tools)
    assert api.ok("/apply-template", messages=STORY, tools=[TOOL])["prompt"] == want
    assert api.ok("/tokenize", messages=STORY, tools=[TOOL])["tokens"] == protocol(want, False)


@tap.case
def tokens_to_text():
    for text in ("Once upon a time", AWKWARD):
        ids = protocol(text, False)
        want = cluster.clients[0].call("Detokenize", id=ids)[1].text.decode()
        assert api.ok("/detokenize", tokens=ids, model="demo-model") == {"prompt": want, "content": want}
    assert api.ok("/detokenize", tokens=[]) == {"prompt": "", "content": ""}


@tap.case
def refused():
    api.refused("/tokenize", "", )
    api.refused("/tokenize", "prompt", prompt=5)
    api.refused("/tokenize", "content", prompt="a", content="b")
    api.refused("/tokenize", "messages", messages=[])
    api.refused("/tokenize", "messages[0]", messages=["x"])
    api.refused("/tokenize", "chat_template", messages=STORY, chat_template="x")
    api.refused("/tokenize", "model", 404, model="other", prompt="a")
    api.refused("/detokenize", "")
    api.refused("/detokenize", "tokens[1]", tokens=[1, -1])
    api.refused("/detokenize", "tokens", tokens=[1 << 30])
    api.refused("/detokenize", "prompt", prompt="a")
    api.refused("/apply-template", "tools[0]", messages=STORY, tools=[{}])


@tap.case
def many_at_once():
    want = {text: protocol(text) for text in (f"The fox number {i} ran." for i in range(32))}
    got = api.together("/tokenize", [{"prompt": t} for t in want])
    assert [a["tokens"] for a in got] == list(want.values())


@tap.case
def a_client_that_goes_away():
    for _ in range(20):
        with gateway.connect() as c:
            c.request("/tokenize", method="POST", body=b'{"prompt": "' + b"word " * 50000 + b'"}')
    assert api.ok("/tokenize", prompt="a")


@tap.case
def head_and_options():
    with gateway.connect() as c:
        for path in ("/health", "/v1/models", "/version", "/api/tags", "/api/version"):
            whole = c.get(path)
            head = c.get(path, method="HEAD")
            assert head.status == whole.status == 200, (path, whole)
            assert head.headers.get("content-length") == whole.headers["content-length"], path
        for path in ("/v1/chat/completions", "/v1/messages", "/api/chat", "/tokenize", "/v1/responses"):
            a = c.get(path, "Origin: http://localhost:3000", "Access-Control-Request-Method: POST",
                      "Access-Control-Request-Headers: authorization, x-api-key", method="OPTIONS")
            assert a.status == 200 and a.headers["access-control-allow-origin"] == "http://localhost:3000", (path, a)
            assert "POST" in a.headers["access-control-allow-methods"]
            assert a.headers["access-control-allow-headers"] == "authorization, x-api-key"
            assert c.get(path).status == 405 and c.get(path, method="HEAD").status == 405


@tap.case
def a_model_without_a_template():
    """What it lacks is told, and not where its files are; nor is a decoder asked for scores told of embeddings."""
    with temp_dir.folder() as folder:
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            (pathlib.Path(folder) / name).symlink_to(DEMO / name)
        config = json.loads((DEMO / "tokenizer_config.json").read_text())
        del config["chat_template"]
        (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(config))
        with Parts(folder, tp=1) as p, Gateway("--connect", p.endpoint) as g:
            g.wait_ready()
            bare = Api(g)
            for path, body in (("/v1/chat/completions", {"messages": STORY}), ("/apply-template", {"messages": STORY}),
                               ("/v1/rerank", {"query": "a", "documents": ["b"]})):
                status, a = bare.post(path, **body)
                said = json.dumps(a)
                assert status == 400 and folder not in said, (path, said)
                assert ("no reranker" if "rerank" in path else "no chat template") in said, (path, said)


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Parts(DEMO))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint)).wait_ready()
        api = Api(gateway)
        tap.main()
