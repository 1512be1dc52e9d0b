"""What OpenAI's API says of single tokens: log probabilities, token ids, usage while it streams; echo; slow readers."""
import contextlib
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from gateway_process import Gateway  # noqa: E402
import openai_http  # noqa: E402
from openai_http import CHAT, COMPLETIONS, STORY, chat, complete, joined, stream  # noqa: E402

PROMPT = "Once upon a time"
cluster = gateway = None


def bytes_of(entries):
    return b"".join(bytes(e["bytes"]) for e in entries)


def check_entries(entries, text, n_top):
    """The tokens' bytes are the text; each has its most probable others in order."""
    assert bytes_of(entries) == text.encode(), (entries, text)
    assert "".join(e["token"] for e in entries) == text
    for e in entries:
        tops = e["top_logprobs"]
        assert len(tops) == n_top and -9999.0 <= e["logprob"] <= 0
        assert [t["logprob"] for t in tops] == sorted((t["logprob"] for t in tops), reverse=True)
        assert all(bytes(t["bytes"]).decode(errors="replace") == t["token"] for t in tops)


@tap.case
def chat_logprobs():
    for n_top in (None, 0, 5, 20):
        body = {"logprobs": True, "top_logprobs": n_top, "max_tokens": 12, "temperature": 0}
        c = chat(**body)["choices"][0]
        entries = c["logprobs"]["content"]
        check_entries(entries, c["message"]["content"], n_top or 0)
        assert len(entries) == 12 and c["logprobs"]["refusal"] is None
        if n_top:
            assert all(e["top_logprobs"][0]["token"] == e["token"] for e in entries), "temperature 0 draws the first"
        streamed = [x for chunk in stream(CHAT, messages=STORY, **body) for x in chunk["choices"]]
        assert sum(((x["logprobs"] or {"content": []})["content"] for x in streamed), []) == entries
    assert chat(max_tokens=2)["choices"][0]["logprobs"] is None


@tap.case
def the_protocol_says_the_same():
    want = cluster.clients[0].generate(text=PROMPT.encode(), max_tokens=8,
                                       sampling={"temperature": 0, "logprobs": True, "top_logprobs": 2})
    got = complete(max_tokens=8, temperature=0, logprobs=2)["choices"][0]["logprobs"]
    assert [round(x, 5) for x in got["token_logprobs"]] == [round(x, 5) for x in want.logprobs[0]]


@tap.case
def completion_logprobs():
    for n in (0, 1, 5):
        body = {"logprobs": n, "max_tokens": 12, "seed": 3, "prompt": PROMPT}
        c = complete(**body)["choices"][0]
        lp, text = c["logprobs"], c["text"]
        assert "".join(lp["tokens"]) == text and len(lp["tokens"]) == 12
        at = 0
        for token, offset, logprob, tops in zip(lp["tokens"], lp["text_offset"], lp["token_logprobs"],
                                                lp["top_logprobs"], strict=True):
            assert offset == at and text[at:at + len(token)] == token
            assert tops[token] == logprob and max(1, n) <= len(tops) <= n + 1, tops
            at += len(token)
        chunks = [x["choices"][0]["logprobs"] for x in stream(COMPLETIONS, **body)]
        for name in lp:
            assert sum((x[name] for x in chunks if x), []) == lp[name], name


@tap.case
def logprobs_end_with_the_text():
    """Tokens of a stop string and a stop token are no part of the text; of one that is cut the rest counts."""
    whole = complete(temperature=0, max_tokens=30)["choices"][0]["text"]
    for stop in (whole.split()[2], whole[7:9]):
        c = complete(temperature=0, max_tokens=30, stop=stop, logprobs=1)["choices"][0]
        assert c["finish_reason"] == "stop" and "".join(c["logprobs"]["tokens"]) == c["text"]
        chunks = stream(COMPLETIONS, prompt=PROMPT, temperature=0, max_tokens=30, stop=stop, logprobs=1)
        assert "".join(t for x in chunks for t in (x["choices"][0]["logprobs"] or {"tokens": []})["tokens"]) == c["text"]
        assert c["stop_reason"] == stop
    hello = [{"role": "user", "content": "Hello"}]
    c = chat(messages=hello, temperature=0, logprobs=True, return_token_ids=True)["choices"][0]
    assert c["finish_reason"] == "stop" and c["stop_reason"] is None
    check_entries(c["logprobs"]["content"], c["message"]["content"], 0)
    assert len(c["token_ids"]) == len(c["logprobs"]["content"]) + 1, "the ids have the stop token"


@tap.case
def parts_of_characters():
    """An emoji of several byte tokens: the bytes are the truth, and together they are the text."""
    ids = list(cluster.clients[0].call("Tokenize", text="\U0001f98a".encode(), add_special=False)[1].id)
    assert len(ids) > 1, "the demo tokenizer spells it in pieces"
    bias = {str(i): 100 for i in ids}
    for seed in range(8):
        c = complete(max_tokens=24, logit_bias=bias, logprobs=1, seed=seed, ignore_eos=True)["choices"][0]
        raw = chat(max_tokens=24, logit_bias=bias, logprobs=True, seed=seed, ignore_eos=True)["choices"][0]
        entries = raw["logprobs"]["content"]
        assert len(entries) == 24
        assert bytes_of(entries).decode(errors="replace") == raw["message"]["content"], (entries, raw["message"])
        assert len(c["logprobs"]["tokens"]) == 24 and c["logprobs"]["text_offset"] == sorted(c["logprobs"]["text_offset"])


@tap.case
def token_ids():
    ids = list(cluster.clients[0].call("Tokenize", text=PROMPT.encode())[1].id)
    body = {"return_token_ids": True, "max_tokens": 6, "temperature": 0}
    c = complete(**body)["choices"][0]
    assert c["prompt_token_ids"] == ids and len(c["token_ids"]) == 6 and c["logprobs"] is None
    want = cluster.clients[0].generate(text=PROMPT.encode(), max_tokens=6, sampling={"temperature": 0})
    assert c["token_ids"] == list(want.ids[0])
    chunks = stream(COMPLETIONS, prompt=PROMPT, **body)
    assert chunks[0]["choices"][0]["prompt_token_ids"] == ids
    assert sum((x["choices"][0].get("token_ids", []) for x in chunks), []) == c["token_ids"]
    a = chat(**body)
    chunks = stream(CHAT, messages=STORY, **body)
    assert a["prompt_token_ids"] == chunks[0]["choices"][0]["prompt_token_ids"]
    assert len(a["prompt_token_ids"]) == a["usage"]["prompt_tokens"]
    assert sum((x["choices"][0].get("token_ids", []) for x in chunks), []) == a["choices"][0]["token_ids"]
    (token,) = cluster.clients[0].call("Tokenize", text=b"!", add_special=False)[1].id
    c = chat(temperature=0, max_tokens=4, stop_token_ids=[token], logit_bias={str(token): 100})["choices"][0]
    assert c["stop_reason"] == token and c["finish_reason"] == "stop"


@tap.case
def echo():
    plain = complete(max_tokens=6, temperature=0)["choices"][0]["text"]
    ids = list(cluster.clients[0].call("Tokenize", text=PROMPT.encode())[1].id)
    for prompt in (PROMPT, ids):
        c = complete(prompt=prompt, max_tokens=6, temperature=0, echo=True)["choices"][0]
        assert c["text"] == PROMPT + plain, c
        assert joined(stream(COMPLETIONS, prompt=prompt, max_tokens=6, temperature=0, echo=True))[0] == c["text"]
    both = complete(prompt=["One day", "The fox"], n=2, max_tokens=1, echo=True)["choices"]
    assert [c["text"][:7] for c in both] == ["One day", "One day", "The fox", "The fox"]
    awkward = 'quote " null \0 \U0001f98a'
    assert complete(prompt=awkward, max_tokens=1, echo=True)["choices"][0]["text"].startswith(awkward)


@tap.case
def echo_with_logprobs():
    ids = list(cluster.clients[0].call("Tokenize", text=PROMPT.encode())[1].id)
    want = cluster.clients[0].generate(tokens={"id": ids}, max_tokens=4,
                                       sampling={"temperature": 0, "logprobs": True, "prompt_top": 2})
    values = [p for p, _, _ in want.prompt[1:]] + want.logprobs[0]
    body = {"max_tokens": 4, "temperature": 0, "echo": True, "logprobs": 2}
    c = complete(prompt=ids, **body)["choices"][0]
    lp = c["logprobs"]
    assert "".join(lp["tokens"]) == c["text"] and c["text"].startswith(PROMPT), c
    assert lp["token_logprobs"][0] is None and lp["top_logprobs"][0] is None
    assert [round(v, 5) for v in lp["token_logprobs"][1:]] == [round(v, 5) for v in values]
    assert all(2 <= len(t) <= 3 for t in lp["top_logprobs"][1:])
    at = 0
    for token, offset in zip(lp["tokens"], lp["text_offset"], strict=True):
        assert offset == at
        at += len(token)
    chunks = [x for chunk in stream(COMPLETIONS, prompt=ids, **body) for x in chunk["choices"]]
    for key in "tokens", "text_offset", "token_logprobs", "top_logprobs":
        assert sum(((x["logprobs"] or {key: []})[key] for x in chunks), []) == lp[key], key
    assert "".join(x["text"] for x in chunks) == c["text"]
    none = complete(prompt=ids, **{**body, "logprobs": 0})["choices"][0]["logprobs"]
    assert all(len(t) == 1 for t in none["top_logprobs"][1:])
    several = complete(prompt=["One day", "The fox ran"], n=2, **body)["choices"]
    assert [x["logprobs"]["token_logprobs"][0] for x in several] == [None] * 4
    assert several[0]["logprobs"] == several[1]["logprobs"] != several[2]["logprobs"] == several[3]["logprobs"]


def check_prompt_logprobs(got, ids, entries):
    assert got[0] is None and len(got) == len(ids) == len(entries)
    for one, token, (logprob, rank, top) in zip(got[1:], ids[1:], entries[1:], strict=True):
        assert set(one) == {str(token)} | {str(k) for k, _ in top}
        assert math.isclose(one[str(token)]["logprob"], logprob, rel_tol=1e-6), one
        assert one[str(token)]["rank"] == (rank or None)
        for i, (k, p) in enumerate(top):
            assert one[str(k)]["rank"] == i + 1 and math.isclose(one[str(k)]["logprob"], p, rel_tol=1e-6), one


@tap.case
def echo_alone():
    """max_tokens 0: the prompt, and nothing of an answer."""
    whole = complete(max_tokens=1, temperature=0, echo=True, logprobs=2, ignore_eos=True)["choices"][0]["logprobs"]
    body = {"max_tokens": 0, "echo": True, "temperature": 0}
    a = complete(**body)
    (c,) = a["choices"]
    assert c["text"] == PROMPT and c["finish_reason"] == "length" and c["logprobs"] is None, c
    assert a["usage"]["completion_tokens"] == 0 and a["usage"]["prompt_tokens"] == a["usage"]["total_tokens"] > 0
    c = complete(**body, logprobs=2, return_token_ids=True)["choices"][0]
    n = len(c["prompt_token_ids"])
    assert c["text"] == PROMPT and c["token_ids"] == [] and n == len(whole["tokens"]) - 1, c
    assert c["logprobs"] == {key: value[:n] for key, value in whole.items()}
    chunks = stream(COMPLETIONS, prompt=PROMPT, **body, logprobs=2, stream_options={"include_usage": True})
    choices = [x for chunk in chunks for x in chunk["choices"]]
    assert "".join(x["text"] for x in choices) == PROMPT and choices[-1]["finish_reason"] == "length"
    for key, value in c["logprobs"].items():
        assert sum(((x["logprobs"] or {key: []})[key] for x in choices), []) == value, key
    assert chunks[-1]["usage"]["completion_tokens"] == 0
    (eos,) = cluster.clients[0].call("Tokenize", text=b"!", add_special=False)[1].id  # a first token that would stop it
    stopped = complete(**body, stop_token_ids=[eos], logit_bias={str(eos): 100})["choices"][0]
    assert (stopped["text"], stopped["finish_reason"], stopped["stop_reason"]) == (PROMPT, "length", None), stopped
    several = complete(prompt=["One day", "The fox ran"], n=2, **body)["choices"]
    assert [x["text"] for x in several] == ["One day", "One day", "The fox ran", "The fox ran"]
    for path, rest in ((COMPLETIONS, {"prompt": PROMPT}), (COMPLETIONS, {"prompt": PROMPT, "echo": False}),
                       (CHAT, {"messages": STORY})):
        openai_http.refused(path, "max_tokens", max_tokens=0, **rest)


@tap.case
def prompt_logprobs():
    body = {"prompt_logprobs": 3, "max_tokens": 2, "temperature": 0, "return_token_ids": True}
    sampling = {"temperature": 0, "prompt_top": 3}
    c = complete(**body)["choices"][0]
    ids = c["prompt_token_ids"]
    want = cluster.clients[0].generate(tokens={"id": ids}, max_tokens=2, sampling=sampling)
    check_prompt_logprobs(c["prompt_logprobs"], ids, want.prompt)
    text = "".join(one[str(k)]["decoded_token"] for one, k in zip(c["prompt_logprobs"][1:], ids[1:]))
    assert PROMPT.endswith(text) and len(text) > len(PROMPT) // 2, text
    a = chat(**body)
    want = cluster.clients[0].generate(tokens={"id": a["prompt_token_ids"]}, max_tokens=2, sampling=sampling)
    check_prompt_logprobs(a["prompt_logprobs"], a["prompt_token_ids"], want.prompt)
    zero = complete(**{**body, "prompt_logprobs": 0})["choices"][0]["prompt_logprobs"]
    assert all(len(one) == 1 for one in zero[1:])
    assert "prompt_logprobs" not in chat(max_tokens=1) and "prompt_logprobs" not in complete(max_tokens=1)["choices"][0]
    for path, rest in (CHAT, {"messages": STORY}), (COMPLETIONS, {"prompt": PROMPT}):
        for value in 21, -1, True, "1":
            openai_http.refused(path, "prompt_logprobs", prompt_logprobs=value, **rest)
        openai_http.refused(path, "prompt_logprobs", prompt_logprobs=1, stream=True, **rest)


@tap.case
def usage_in_all_chunks():
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = stream(CHAT, messages=STORY, max_tokens=8, n=2, ignore_eos=True, stream_options=options)
    counts = [c["usage"]["completion_tokens"] for c in chunks]
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] == 16
    assert {c["usage"]["prompt_tokens"] for c in chunks} == {chunks[-1]["usage"]["prompt_tokens"]}
    assert all(u["total_tokens"] == u["prompt_tokens"] + u["completion_tokens"] for u in (c["usage"] for c in chunks))


def memory(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


@tap.case
def a_slow_reader():
    """Clients that read nothing hold back their own answers in bounded memory; the stream beside them is whole."""
    body = {"messages": STORY, "max_tokens": 700, "ignore_eos": True, "logprobs": True, "top_logprobs": 20,
            "stream": True, "seed": 1}
    want = chat(max_tokens=60, seed=5)["choices"][0]["message"]["content"]
    with contextlib.ExitStack() as clients:
        before = memory(gateway.process)
        slow = [clients.enter_context(gateway.connect()) for _ in range(2)]
        for c in slow:
            c.request(CHAT, method="POST", body=json.dumps(body).encode())
        assert joined(stream(CHAT, messages=STORY, max_tokens=60, seed=5))[0] == want
        tap.wait_for(lambda: cluster.clients[0].call("Stats")[1].running == 0, "the slow ones have run")
        assert memory(gateway.process) - before < 64 << 20
        texts = set()
        for c in slow:
            events = c.answer().body.decode()[:-2].split("\n\n")
            assert events[-1] == "data: [DONE]"
            chunks = [json.loads(e[6:]) for e in events[:-1]]
            texts.add(joined(chunks))
            entries = sum(((x["logprobs"] or {"content": []})["content"] for k in chunks for x in k["choices"]), [])
            assert len(entries) == 700 and bytes_of(entries).decode(errors="replace") == joined(chunks)[0]
        assert len(texts) == 1


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Parts(DEMO))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint)).wait_ready()
        openai_http.gateway = gateway
        tap.main()
