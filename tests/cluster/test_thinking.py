"""A budget of thinking: the closing mark comes when it is used up, in the same bytes however the answer is computed, and
through every door."""
import json
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.request

import jsonschema

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
import thinking_model  # noqa: E402
from cluster import BIN, DEMO, Cluster, Parts  # noqa: E402

SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": ["red", 5, None]}}, "required": ["a", "b"],
          "additionalProperties": False}
GRAMMAR = {"kind": 1, "source": json.dumps(SCHEMA).encode()}
THINKING, THINKING_TAGS = 7, 8
FOLDER = temp_dir.make()
MODELS = {kind: thinking_model.make(kind, FOLDER) for kind in thinking_model.MARKS}


def chat(text="A fox.", **variables):
    return {"turn": [{"role": "user", "content": text.encode()}], "variables_json": json.dumps(variables).encode()}


def requests():
    """Greedy, drawn on the device and on the host; some with edits, stops and forms of the text behind."""
    out = []
    for i, budget in enumerate([0, 1, 7, 30, 7, 30]):
        out.append({"chat": chat(f"A fox and {i}.", opens=True), "max_tokens": 60, "thinking_budget": budget, "keep_marks": True,
                    "sampling": {"temperature": [0.0, 1.2, 1.5][i % 3], "top_k": [0, 40, 0][i % 3], "seed": 70 + i, "logprobs": True,
                                 "top_logprobs": i % 2, "ignore_eos": True}})
    out[2]["n"] = 2
    out[3]["sampling"].update(repetition_penalty=1.3, min_tokens=50)
    out[4]["stop"] = [b"."]
    for i, budget in enumerate([3, 12]):
        out.append({"chat": chat(f"A dog and {i}.", opens=True), "max_tokens": 80, "thinking_budget": budget, "keep_marks": True,
                    "grammar": GRAMMAR, "sampling": {"temperature": [0.0, 1.5][i], "seed": 80 + i, "logprobs": True}})
    out.append({"chat": chat(opens=True), "max_tokens": 40, "keep_marks": True,  # without a budget, among them
                "sampling": {"temperature": 1.0, "top_k": 20, "seed": 90, "ignore_eos": True, "logprobs": True}})
    out.append({"chat": chat(enable_thinking=False), "max_tokens": 20, "thinking_budget": 0, "keep_marks": True,  # it is over
                "sampling": {"temperature": 1.0, "top_k": 20, "seed": 91, "ignore_eos": True, "logprobs": True}})
    return out


REQUESTS = requests()
close_ids = {}
oracles = {}


def check(kind, request, answer):
    """Where the closing mark is, of each sample."""
    close = close_ids[kind]
    budget = request.get("thinking_budget")
    over = b"enable_thinking" in request["chat"]["variables_json"]
    for s, ids in answer.ids.items():
        at = next((i for i in range(len(ids)) if ids[i:i + len(close)] == close), None)
        if over or budget is None:
            assert at is None, ids  # the demo model knows no thinking
            continue
        if answer.reason(s) == "stop" and at is None:
            assert len(ids) <= budget, ids
            continue
        assert at == budget, (kind, budget, at, ids)
        assert answer.logprobs[s][at:at + len(close)] == [0.0] * len(close)
        if answer.top.get(s) and request["sampling"]["top_logprobs"]:
            assert all(len(t) <= 1 for t in answer.top[s][at:at + len(close)]), answer.top[s]
        end = MODELS[kind][2].encode()
        text = answer.text[s]
        assert text.count(end) >= 1, text
        if "grammar" in request and answer.reason(s) != "length":
            jsonschema.validate(json.loads(text[text.index(end) + len(end):]), SCHEMA)


def ask(client, together=True):
    return client.answers(REQUESTS, together)


def alone(kind):
    if kind not in oracles:
        plain = ["--isa", "plain"] if kind == "special" else []  # slow
        with Parts(MODELS[kind][0], worker=plain, coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
            client = c.clients[0]
            close_ids[kind] = list(client.call("Tokenize", text=MODELS[kind][2].encode(), add_special=False)[1].id)
            oracles[kind] = ask(client, together=False)
    return oracles[kind]


@tap.case
def the_mark_comes_when_the_budget_is_used_up():
    for kind in MODELS:
        answers = alone(kind)
        assert len(close_ids[kind]) == 1 if kind == "special" else len(close_ids[kind]) > 1, close_ids
        for r, a in zip(REQUESTS, answers, strict=True):
            check(kind, r, a)


@tap.case
def thinking_that_the_answer_opens():
    """With a bias the first token is the opening mark: what follows counts, and behind the closing mark nothing does."""
    mark, end = thinking_model.OPEN_ID, thinking_model.CLOSE_ID
    bias = {"logit_bias": [{"id": mark, "bias": 100.0}], "temperature": 0.0, "ignore_eos": True}
    with Parts(MODELS["special"][0]) as c:
        client = c.clients[0]
        for budget in 0, 1, 5:
            a = client.generate(chat=chat(), max_tokens=12, thinking_budget=budget, sampling=bias, keep_marks=True)
            want = [mark] * (budget + 1) + [end] + [mark] * 12
            assert a.ids[0] == want[:12], (budget, a.ids, a.error)
        free = client.generate(chat=chat(), max_tokens=12, sampling=bias)
        assert free.ids[0] == [mark] * 12
        ends_itself = {**bias, "logit_bias": [{"id": end, "bias": 100.0}]}
        a = client.generate(chat=chat(opens=True), max_tokens=6, thinking_budget=4, sampling=ends_itself)
        assert a.ids[0] == [end] * 6


def variant(kind, name, together=True, check_stats=None, **how):
    def run():
        want = alone(kind)
        with Parts(MODELS[kind][0], **how) as c:
            answers = c.answers_at_once(REQUESTS) if check_stats is preempted else ask(c.clients[0], together)
            for a, o in zip(answers, want, strict=True):
                assert a.key() == o.key() and a.top == o.top, f"{name}: {a.key()}\n{o.key()}"
            if check_stats:
                check_stats(c.clients[0].call("Stats")[1])
    run.__name__ = f"{kind}_{name}"
    tap.case(run)


def preempted(stats):
    assert stats.preemptions > 0


def overlapped(stats):
    assert stats.steps_overlapped > 0


variant("special", "all_at_once")
variant("special", "tp2", tp=2, coll="shm")
variant("special", "threads_2_small_steps", threads=2, coordinator=["--max-step-tokens", "8"])
variant("spelled", "alone_fast_path", together=False, check_stats=overlapped)
variant("spelled", "tp2_mpi", tp=2, coll="mpi")
variant("spelled", "preempted", worker=["--kv-blocks", "32", "--block-len", "8"], coordinator=["--target-itl-ms", "0"],
        check_stats=preempted)
variant("spelled", "turns", worker=["--max-seqs", "3"], coordinator=["--turn-tokens", "2"])


@tap.case
def a_kill_changes_nothing():
    want = alone("spelled")
    with Cluster(MODELS["spelled"][0], tp=2) as c:
        client = c.client()
        client.wait_ready()
        keys = [a.key() for a in want]
        tap.race(lambda: c.killed_in_the_middle(client, REQUESTS, keys, lambda: c.whole_group(client, 2)))


@tap.case
def resumed_within_the_mark():
    """An answer goes on with the same bytes behind each of its first tokens."""
    r = {**REQUESTS[2], "n": 1, "max_tokens": 20}
    with Parts(MODELS["spelled"][0]) as c:
        client = c.clients[0]
        whole = client.generate(**r)
        ids = whole.ids[0]
        texts = [len(client.call("Detokenize", id=ids[:n])[1].text) for n in range(len(ids))]
        for n in range(1, len(ids)):
            resume = {"accepted": whole.accepted, "sample": [{"id": ids[:n], "text_bytes": texts[n]}]}
            a = client.generate(**r, resume=resume)
            assert a.finish and a.ids[0] == ids[n:], (n, a.error, a.ids, ids)
            assert a.text[0] == whole.text[0][texts[n]:], (n, a.text, whole.text)


@tap.case
def replayed():
    """The journal's inputs give the same tokens again, on other rank counts too."""
    with Parts(MODELS["special"][0], coordinator=["--journal", f"{FOLDER}/journal"]) as c:
        c.clients[0].answers(REQUESTS)
    for tp in 1, 2:
        r = subprocess.run([BIN / "ingot", "replay", "recompute", f"{FOLDER}/journal", MODELS["special"][0], "--tp", str(tp)],
                           capture_output=True, text=True, timeout=tap.LIMIT)
        assert r.returncode == 0, r.stdout + r.stderr
    r = subprocess.run([BIN / "ingot", "replay", "verify", f"{FOLDER}/journal"], capture_output=True, text=True, timeout=tap.LIMIT)
    assert r.returncode == 0, r.stdout + r.stderr


@tap.case
def what_a_chat_becomes():
    """The same prompt as ids, with the grammar that its budget is: the same bytes."""
    r = {**REQUESTS[2], "n": 1}
    source = {"budget": r["thinking_budget"], "open": "<think>", "close": "</think>", "close_ids": [thinking_model.CLOSE_ID],
              "inside": True}
    with Parts(MODELS["special"][0]) as c:
        client = c.clients[0]
        want = client.generate(**r, want_prompt_ids=True)
        same = {k: v for k, v in r.items() if k not in ("chat", "thinking_budget")}
        ids = {"id": list(want.accepted.prompt_id)}
        got = client.generate(**same, tokens=ids, grammar={"kind": THINKING, "source": json.dumps(source).encode()})
        assert got.key() == want.key(), (got.error, got.key(), want.key())
        for kind, change, words in ((THINKING, {"close_ids": [2048]}, "close_ids[0] is 2048"), (THINKING, {"open": ""}, "open has 0"),
                                    (THINKING_TAGS, {}, "needs an answer"), (THINKING, {"answer": {"text": "a"}}, "alone has no answer"),
                                    (THINKING_TAGS, {"answer": {"txt": "a"}}, "#"), (THINKING, {"more": 1}, "more")):
            a = client.generate(**same, tokens=ids, grammar={"kind": kind, "source": json.dumps({**source, **change}).encode()})
            assert not a.finish and "grammar" in a.error[1].field and words in a.error[1].detail, (change, a.error)
        assert client.generate(**r).finish


@tap.case
def where_it_cannot_be_it_is_refused():
    with Parts(MODELS["special"][0]) as c:
        client = c.clients[0]
        a = client.generate(text=b"x", max_tokens=4, thinking_budget=3)
        assert a.error[1].field == "thinking_budget" and "goes with a chat" in a.error[1].detail, a.error
        own = {"kind": THINKING, "source": b"{}"}
        for more in {"thinking_budget": 3}, {}:
            a = client.generate(chat=chat(enable_thinking=False), max_tokens=4, grammar=own, **more)
            assert a.error[1].field == "grammar.kind" and "a chat has thinking_budget" in a.error[1].detail, a.error
    with Parts(DEMO) as c:
        a = c.clients[0].generate(chat=chat(), max_tokens=4, thinking_budget=3)
        assert a.error[1].field == "thinking_budget" and "no marks of thinking" in a.error[1].detail, a.error


# ---- HTTP and the command line ----

def port_of(c):
    return tap.wait_for(lambda: re.search(r"HTTP at http://127.0.0.1:(\d+)", c.log()), "the gateway's port")[1]


def post(port, path, **body):
    r = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(r, timeout=tap.LIMIT) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


BODY = {"messages": [{"role": "user", "content": "A fox."}], "temperature": 0, "max_tokens": 30, "ignore_eos": True,
        "chat_template_kwargs": {"opens": True}}


@tap.case
def over_http():
    with Cluster(MODELS["special"][0], http="127.0.0.1:0") as c:
        port, client = port_of(c), c.clients[0]
        sampling = {"temperature": 0.0, "ignore_eos": True}
        for budget in 0, 6:
            want = client.generate(chat=chat(opens=True), max_tokens=30, thinking_budget=budget, sampling=sampling, keep_marks=True)
            thought, said = want.text[0].decode().split("</think>", 1)
            for name in "thinking_token_budget", "thinking_budget_tokens", "thinking_budget":
                status, got = post(port, "/v1/chat/completions", **BODY, **{name: budget})
                message = got["choices"][0]["message"]
                assert status == 200 and (message.get("reasoning_content") or "") == thought, (got, want.text)
                assert message["content"].strip() == said.strip(), (got, want.text)
            if budget:
                status, got = post(port, "/v1/messages", **BODY, thinking={"type": "enabled", "budget_tokens": budget})
                blocks = {b["type"]: b for b in got["content"]}
                assert blocks["thinking"]["thinking"] == thought and blocks["text"]["text"].strip() == said.strip(), (got, want.text)
        whole = client.generate(chat=chat(opens=True), max_tokens=30, sampling=sampling, keep_marks=True)
        for more in {}, {"thinking_token_budget": -1}, {"thinking_token_budget": None}:
            status, got = post(port, "/v1/chat/completions", **BODY, **more)
            assert got["choices"][0]["message"]["reasoning_content"] == whole.text[0].decode(), got
        for more, param in (({"thinking_token_budget": -2}, "thinking_token_budget"), ({"thinking_budget": "x"}, "thinking_budget"),
                            ({"thinking_budget": 1, "thinking_token_budget": 2}, "thinking_token_budget")):
            status, got = post(port, "/v1/chat/completions", **BODY, **more)
            assert status == 400 and got["error"]["param"] == param, got
        status, got = post(port, "/v1/completions", prompt="x", max_tokens=3, thinking_token_budget=1)
        assert status == 400, got
        r = subprocess.run([BIN / "ingot", "generate", "--connect", c.endpoint, "--message", "A fox.", "--variables", '{"opens": true}',
                            "--temperature", "0", "--max-tokens", "30", "--ignore-eos", "--thinking-budget", "6", "--json"],
                           capture_output=True, text=True, timeout=tap.LIMIT)
        assert r.returncode == 0, r.stderr
        ids = [i for line in r.stdout.splitlines() for i in json.loads(line).get("ids", [])]
        assert ids == list(want.ids[0]), (ids, want.ids)


@tap.case
def over_http_of_a_model_that_does_not_think():
    with Cluster(DEMO, http="127.0.0.1:0") as c:
        port = port_of(c)
        status, got = post(port, "/v1/chat/completions", **BODY, thinking_token_budget=3)
        assert status == 400 and got["error"]["param"] == "thinking_budget", got
        # every client of Anthropic's form sends one
        status, got = post(port, "/v1/messages", **BODY, thinking={"type": "enabled", "budget_tokens": 2000})
        assert status == 200 and got["content"][0]["type"] == "text", got


tap.main()
