"""Answers that follow a grammar: they parse, they are the same bytes however they are computed, a kill does not change
them, and a bad grammar is refused with its place."""
import json
import pathlib
import re
import sys

import jsonschema

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
from cluster import DEMO, Cluster, Parts  # noqa: E402

SCHEMA, OBJECT, REGEX, CHOICE, TAGS, GBNF = 1, 2, 3, 4, 5, 6
SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0},
                                      "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 4}},
     "required": ["name", "age", "tags"], "additionalProperties": False},
    {"$defs": {"list": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {
        "value": {"type": "number", "minimum": -5, "maximum": 5}, "next": {"$ref": "#/$defs/list"}},
        "required": ["value", "next"], "additionalProperties": False}]}}, "$ref": "#/$defs/list"},
    {"type": "array", "items": {"type": "string", "pattern": "^[A-Z][a-z]+$", "maxLength": 8}, "minItems": 2, "maxItems": 3},
    {"type": "object", "additionalProperties": {"type": "boolean"}, "maxProperties": 3},
]
SUMS = 'root ::= (sum "; "){2,9}\nsum ::= term ([-+*] term)*\nterm ::= [1-9] [0-9]{0,3} | "(" sum ")"\n'
TOOL = {"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"at": {"type": "string", "maxLength": 20}}, "required": ["at"], "additionalProperties": False}}}
CALL = {"turn": [{"role": "user", "content": b"A fox."}], "tools_json": json.dumps([TOOL]).encode(), "tool_choice": 1, "one_call": True}
PATTERN = "(yes|no), [a-z ]{3,20}[.!]"
ARROWS = "(→{12}|€{7}) (yes|no)[.!]"


def grammar(kind, source):
    return {"kind": kind, "source": source.encode()}


def requests():
    """Greedy, sampled on the device (top_k) and on the host, with logprobs; some with stops and penalties."""
    out = []
    for i, schema in enumerate(SCHEMAS * 3):
        sampling = {"temperature": [0.0, 1.5, 1.5][i // 4], "top_k": [0, 40, 0][i // 4], "seed": 100 + i, "logprobs": True,
                    "top_logprobs": i % 3}
        if i % 5 == 1:
            sampling.update(repetition_penalty=1.3, min_tokens=4, ignore_eos=True)
        out.append({"text": b"Once upon a time", "max_tokens": 120, "sampling": sampling,
                    "grammar": grammar(SCHEMA, json.dumps(schema)), "n": 2 if i == 5 else 1})
    out.append({"text": b"The dog", "max_tokens": 60, "sampling": {"temperature": 1.5, "seed": 5}, "grammar": grammar(REGEX, PATTERN)})
    out.append({"text": b"The dog", "max_tokens": 60, "sampling": {"temperature": 1.5, "seed": 6, "top_k": 9, "min_tokens": 30},
                "grammar": grammar(CHOICE, json.dumps(["red", "green", "reddish"]))})
    out.append({"text": b"A cat", "sampling": {"temperature": 1.5, "seed": 8}, "max_tokens": 90, "grammar": grammar(OBJECT, "")})
    for i in range(3):
        out.append({"text": b"One and", "max_tokens": 70, "sampling": {"temperature": [0.0, 1.3, 1.5][i], "top_k": [0, 30, 0][i], "seed": 30 + i},
                    "grammar": grammar(GBNF, SUMS)})
        out.append({"chat": CALL, "max_tokens": 90, "sampling": {"temperature": [0.0, 1.3, 1.5][i], "top_k": [0, 30, 0][i], "seed": 40 + i,
                                                                 "logprobs": True}})
    for i in range(3):  # most of their tokens are each the only one
        out.append({"text": b"Arrows", "max_tokens": [60, 7, 60][i], "n": 1 + i % 2, "grammar": grammar(REGEX, ARROWS),
                    "sampling": {"temperature": [0.0, 1.3, 1.5][i], "top_k": [0, 30, 0][i], "seed": 50 + i, "logprobs": True,
                                 "top_logprobs": i, "repetition_penalty": [1.0, 1.0, 1.2][i]},
                    "stop": [["€€ y".encode()], [], []][i]})
    out += [{"text": b"Without", "max_tokens": 30, "sampling": {"temperature": 0.9, "seed": 7, "top_k": 20}}]
    return out


REQUESTS = requests()
oracle = None


def check(request, text, reason):
    """Is a text that ended by itself one of the grammar?"""
    g = request.get("grammar")
    if reason == "length":
        return 0
    if "chat" in request:
        call = json.loads(text)
        assert call["name"] == "look", text
        jsonschema.validate(call["arguments"], TOOL["function"]["parameters"])
        return 1
    if not g:
        return 0
    text, source = text.decode(), g["source"].decode()
    if g["kind"] == SCHEMA:
        jsonschema.Draft202012Validator(json.loads(source)).validate(json.loads(text))
        assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) or "\\" in text or "." in text, text
    elif g["kind"] == OBJECT:
        assert isinstance(json.loads(text), dict)
    elif g["kind"] == REGEX:
        assert re.fullmatch(source, text), text
    elif g["kind"] == GBNF:
        assert re.fullmatch(r"([-+*0-9()]+; ){2,9}", text), text
        for one in text.split("; ")[:-1]:
            int(eval(one))
    else:
        assert text in json.loads(source), text
    return 1


@tap.case
def answers_follow_their_grammars():
    global oracle
    with Parts(DEMO, worker=["--isa", "plain", "--no-forced-tokens"], coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
        oracle = c.clients[0].answers(REQUESTS, together=False)
        request = next(r for r in REQUESTS if r.get("text") == b"Arrows")
        before = c.clients[0].call("Stats")[1].steps
        n = len(c.clients[0].generate(**request).ids[0])
        assert c.clients[0].call("Stats")[1].steps - before >= n, "the oracle computes its tokens one at a time"
    complete = 0
    for request, a in zip(REQUESTS, oracle):
        for sample, text in a.text.items():
            complete += check(request, text, a.reason(sample))
        for tops in a.top.values():
            assert all(p > float("-inf") for top in tops for _, p in top), tops
    assert complete >= 8, f"only {complete} answers were complete"


@tap.case
def forced_tokens_are_computed_together():
    """A mask of one token leaves nothing to draw: such tokens take fewer steps than one each."""
    with Parts(DEMO) as c:
        client = c.clients[0]
        for i in (0, 2):
            request = next(r for r in REQUESTS if r.get("text") == b"Arrows" and r["sampling"]["seed"] == 50 + i)
            before = client.call("Stats")[1].steps
            a = client.generate(**request)
            steps, n = client.call("Stats")[1].steps - before, len(a.ids[0])
            assert n >= 20 and steps <= n // 2, (n, steps)
            forced = [(p, top) for p, top in zip(a.logprobs[0], a.top[0] or [[]] * n) if p == 0.0]
            assert len(forced) >= n // 2 and all(len(top) == min(i, 1) for _, top in forced), a.top


def variant(name, together=True, check_stats=None, **how):
    def run():
        assert oracle, "the oracle did not run"
        with Parts(DEMO, **how) as c:
            answers = c.answers_at_once(REQUESTS) if check_stats is preempted else c.clients[0].answers(REQUESTS, together)
            for a, o in zip(answers, oracle):
                assert a.key() == o.key() and a.top == o.top, f"{name}: {a.key()}\n{o.key()}"
            if check_stats:
                check_stats(c.clients[0].call("Stats")[1])
    run.__name__ = name
    tap.case(run)


def preempted(stats):
    assert stats.preemptions > 0


def overlapped(stats):
    assert stats.steps_overlapped > 0


variant("all_at_once")
variant("alone_fast_path", together=False, check_stats=overlapped)
variant("tp2", tp=2, coll="shm")
variant("tp4_mpi", tp=4, coll="mpi")
variant("threads_2_small_steps", threads=2, coordinator=["--max-step-tokens", "8"])
variant("one_token_a_step", coordinator=["--max-step-tokens", "1", "--target-itl-ms", "0"])
variant("preempted", worker=["--kv-blocks", "32", "--block-len", "8"], coordinator=["--target-itl-ms", "0"],
        check_stats=preempted)
variant("turns", worker=["--max-seqs", "3"], coordinator=["--turn-tokens", "2"])


@tap.case
def a_kill_changes_nothing():
    with Cluster(DEMO, tp=2) as c:
        client = c.client()
        client.wait_ready()
        keys = [a.key() for a in oracle]
        tap.race(lambda: c.killed_in_the_middle(client, REQUESTS, keys, lambda: c.whole_group(client, 2)))


@tap.case
def bad_grammars_are_refused():
    with Parts(DEMO) as c:
        client = c.clients[0]
        for g, words in ((grammar(SCHEMA, '{"properties":{"a":{"not":{}}}}'), "#/properties/a/not"),
                         (grammar(SCHEMA, "{"), "byte 1"), (grammar(REGEX, "(?=x)"), "look-around"),
                         (grammar(CHOICE, "[]"), "at least one"), (grammar(GBNF, 'root ::= a\na ::= a "y" | "x"'), "line 2, rule a"),
                         (grammar(GBNF, 'root ::= "a'), "line 1, column 10"), ({"kind": REGEX, "source": b"\xff"}, "UTF-8")):
            a = client.generate(text=b"x", max_tokens=4, grammar=g)
            assert not a.finish and "grammar" in a.error[1].field and words in a.error[1].detail, (g, a.error)
        a = client.generate(text=b"x", max_tokens=4)
        assert a.finish


@tap.case
def a_dead_end_names_its_place():
    """No token is spelled so: the sample ends with the place in the source, others go on."""
    source = {"seq": [{"text": "ab"}, {"seq": [{"special": "<no such token>"}]}]}
    for how in ({}, {"tp": 2, "coll": "shm"}):
        with Parts(DEMO, **how) as c:
            client = c.clients[0]
            a = client.generate(text=b"x", max_tokens=9, grammar=grammar(TAGS, json.dumps(source)))
            assert not a.finish and "can follow the grammar at #/seq/1/seq/0" in a.error[1].detail, a.error
            assert client.generate(text=b"x", max_tokens=4).finish


def slow_schema(i):
    """It is refused at the end of the greatest compile."""
    tags = ("v%d_%d" % (i, j) for j in range(9000))
    return json.dumps({"oneOf": [{"type": "object", "properties": {"t": {"const": t}}, "required": ["t"]} for t in tags]})


@tap.case
def plain_requests_do_not_wait_for_compiles():
    with Parts(DEMO) as c:
        client, order = c.clients[0], []
        slow = [client.start(text=b"x", max_tokens=4, grammar=grammar(SCHEMA, slow_schema(700 + i))) for i in range(5)]
        plain = client.start(text=b"x", max_tokens=4)
        while len(order) < len(slow) + 1:
            name, m = client.recv()
            if name in ("Rejected", "Finish"):
                order.append(m.request_id)
        assert order.index(plain) < len(slow), "it came behind five compiles"


@tap.case
def hostile_grammars_beside_streams():
    """Some are refused with their place, the clients of others leave meanwhile: other answers are the same bytes."""
    assert oracle, "the oracle did not run"
    with Parts(DEMO) as c:
        client, other = c.clients[0], c.client()
        rids = [client.start(**r) for r in REQUESTS]
        a = other.generate(text=b"x", max_tokens=4, grammar=grammar(SCHEMA, slow_schema(0)))
        assert "grammar" in a.error[1].field and re.search("#.*: compiling this takes more than", a.error[1].detail), a.error

        def a_compile_is_given_up(i=iter(range(1, 1000))):
            name = next(i)
            rid = other.start(text=b"x", max_tokens=4, grammar=grammar(SCHEMA, slow_schema(name)))
            other.call("Stats")
            other.send("Cancel", request_id=rid)
            leaving = c.client()  # this one's ends by itself, and no client reads the answer
            leaving.start(text=b"x", max_tokens=4, grammar=grammar(SCHEMA, slow_schema(-name)))
            leaving.call("Ping")
            leaving.close()
            a = other.generate(text=b"x", max_tokens=9, grammar=grammar(CHOICE, '["%d"]' % name))  # compiled behind these
            assert a.text[0].decode() == str(name), a.error
            return other.call("Stats")[1].grammars_dropped > 0

        tap.race(a_compile_is_given_up)
        got = client.collect(rids)
        for rid, o in zip(rids, oracle):
            assert got[rid].finish and got[rid].key() == o.key(), f"{got[rid].key()}\n{o.key()}"
        again = other.generate(text=b"x", max_tokens=4, grammar=grammar(SCHEMA, slow_schema(0)))
        assert again.error[1].detail == a.error[1].detail
        stats = client.call("Stats")[1]
        assert stats.grammars_refused >= 2 and stats.grammars_known >= 1 and stats.grammars_compiled >= 8, stats
        assert stats.masks > 100 and 0 < stats.masks_cached < stats.masks and stats.mask_us > 0, stats
        assert sum(stats.grammar_compile_us.count) == stats.grammars_compiled, stats


if __name__ == "__main__":
    tap.main()
