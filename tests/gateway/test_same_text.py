"""One request, one text: through every API over HTTP, whole and streamed, and over ZeroMQ; also when a rank is killed while
all of them run.  All sampling is explicit: APIs differ in their defaults (README.md)."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from api import Api, checked, joined  # noqa: E402
from cluster import DEMO, Cluster  # noqa: E402
from gateway_process import Gateway  # noqa: E402

STORY = [{"role": "user", "content": "Tell me a long story about a fox."}]
TOKENS = 200
SAMPLING = [{"temperature": 0.0, "seed": 1},
            {"temperature": 0.9, "seed": 7, "top_p": 0.95, "top_k": 40},
            {"temperature": 1.2, "seed": 2 ** 53 + 1, "min_p": 0.02, "repetition_penalty": 1.1, "presence_penalty": 0.3,
             "frequency_penalty": 0.2}]
cluster = gateway = api = None


def chunks(path, **body):
    events = api.stream(path, **body)[:-2].split("\n\n")
    assert events[-1] == "data: [DONE]"
    return [c for e in events[:-1] for c in json.loads(e[len("data: "):])["choices"]]


def chat_stream(**body):
    return "".join(c["delta"].get("content") or "" for c in chunks("/v1/chat/completions", **body))


def one(items, key="text"):
    (item,) = items
    return item[key]


def ollama(sampling):
    return {**{k: v for k, v in sampling.items() if k != "repetition_penalty"}, "num_predict": TOKENS, "ignore_eos": True,
            **({"repeat_penalty": sampling["repetition_penalty"]} if "repetition_penalty" in sampling else {})}


def ways(sampling, ids):
    """{name: a function that asks that way and gives the text}."""
    rest = {**sampling, "ignore_eos": True}
    chat = {"messages": STORY, "max_tokens": TOKENS, **rest}
    completion = {"prompt": ids, "max_tokens": TOKENS, **rest}
    response = {"input": STORY[0]["content"], "max_output_tokens": TOKENS, **rest}
    lines = {"messages": STORY, "options": ollama(sampling)}
    return {
        "chat": lambda: api.ok("/v1/chat/completions", **chat)["choices"][0]["message"]["content"],
        "chat, streamed": lambda: chat_stream(**chat),
        "completions": lambda: api.ok("/v1/completions", **completion)["choices"][0]["text"],
        "completions, streamed": lambda: "".join(c["text"] for c in chunks("/v1/completions", **completion)),
        "messages": lambda: one(api.ok("/v1/messages", **chat)["content"]),
        "messages, streamed": lambda: one(joined(api.events("/v1/messages", **chat))["content"]),
        "responses": lambda: one(one(api.ok("/v1/responses", **response)["output"], "content")),
        "responses, streamed": lambda: one(one(checked(api.events("/v1/responses", **response))["output"], "content")),
        "ollama": lambda: api.ok("/api/chat", stream=False, **lines)["message"]["content"],
        "ollama, streamed": lambda: "".join(x["message"]["content"] for x in api.lines("/api/chat", **lines)),
        "ollama, generate": lambda: api.ok("/api/generate", stream=False, prompt=STORY[0]["content"],
                                           options=ollama(sampling))["response"],
    }


def over_zmq(client, sampling, ids):
    turns = [{"role": m["role"], "content": m["content"].encode()} for m in STORY]
    ask = {"max_tokens": TOKENS, "sampling": {**sampling, "ignore_eos": True}}
    return [client.start(chat={"turn": turns}, **ask), client.start(tokens={"id": ids}, **ask)]


def texts_of(client, rids):
    got = client.collect(rids)
    return [got[rid].text[0].decode() for rid in rids]


def prompt_ids():
    return api.ok("/tokenize", messages=STORY)["tokens"]


@tap.case
def one_text_through_every_api():
    ids, client, seen = prompt_ids(), cluster.clients[0], set()
    for sampling in SAMPLING:
        want = texts_of(client, over_zmq(client, sampling, ids))
        assert want[0] == want[1] and len(want[0]) > TOKENS // 2
        for name, way in ways(sampling, ids).items():
            assert way() == want[0], (sampling, name)
        seen.add(want[0])
    assert len(seen) == len(SAMPLING)


@tap.case
def one_text_when_a_rank_is_killed():
    rng, ids, client = random.Random(5), prompt_ids(), cluster.clients[0]
    want = [texts_of(client, over_zmq(client, s, ids))[0] for s in SAMPLING]

    def ranks():
        client.wait_ready()
        pids = cluster.worker_pids()
        return pids if len(pids) == 2 else None

    def attempt():
        pids = tap.wait_for(ranks, "a whole group")
        before = client.call("Stats")[1].recoveries
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            rids = [over_zmq(client, s, ids) for s in SAMPLING]
            asked = [{name: pool.submit(way) for name, way in ways(s, ids).items()} for s in SAMPLING]
            tap.wait_for(lambda: client.call("Stats")[1].running >= 8 or all(f.done() for a in asked for f in a.values()),
                         "the answers are under way, or over")
            os.kill(rng.choice(pids), signal.SIGKILL)
            got = client.collect([r for pair in rids for r in pair])
            for i, answers in enumerate(asked):
                for name, answer in answers.items():
                    assert answer.result(tap.LIMIT) == want[i], (SAMPLING[i], name)
        for i, pair in enumerate(rids):
            assert [got[r].text[0].decode() for r in pair] == [want[i]] * 2, SAMPLING[i]
        return client.call("Stats")[1].recoveries > before

    tap.race(attempt)


if __name__ == "__main__":
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(DEMO, tp=2))
        gateway = stack.enter_context(Gateway("--connect", cluster.endpoint)).wait_ready()
        api = Api(gateway)
        tap.main()
