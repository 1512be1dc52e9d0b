"""Answers that follow a grammar on a backend whose device is emulated: few and short, for that is slow.  They follow their
grammars, and are the same bytes however they are computed.  test_cuda_grammar.py, test_device.py and
tests/metal/test_metal.py call it; INGOT_BIN must be set before it is imported."""
import json
import os
import re

import jsonschema

import tap
from cluster import Parts

SCHEMA, REGEX, CHOICE = 1, 3, 4
TRIES = 5
SMALL = {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": ["red", 5, None]}},
         "required": ["a", "b"], "additionalProperties": False}
LISTS = {"$defs": {"list": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/list"}, "maxItems": 2}]}},
         "$ref": "#/$defs/list"}
PATTERN = "(yes|no), [a-z]{2,4}[.!]"


def request(kind, source, max_tokens, **sampling):
    return {"text": b"Once upon a time", "max_tokens": max_tokens, "sampling": {"logprobs": True, **sampling},
            "grammar": {"kind": kind, "source": source.encode()}}


# greedy, drawn on the device, drawn on the host, with edits; and one without a grammar among them
REQUESTS = [request(SCHEMA, json.dumps(SMALL), 24, temperature=1.5, seed=3, top_k=20),
            request(REGEX, PATTERN, 12, temperature=0.0),
            request(CHOICE, '["red","green","reddish"]', 8, temperature=1.2, seed=5, top_k=9, min_tokens=3),
            request(SCHEMA, json.dumps(LISTS), 10, temperature=1.5, seed=6, repetition_penalty=1.3),
            {"text": b"Once", "max_tokens": 8, "sampling": {"temperature": 0.9, "seed": 7, "top_k": 20, "logprobs": True}}]


def follows(r, text, reason):
    """Is a text that ended by itself one of the grammar?  1: it did."""
    if "grammar" not in r or reason == "length":
        return 0
    text, source = text.decode(), r["grammar"]["source"].decode()
    if r["grammar"]["kind"] == SCHEMA:
        jsonschema.Draft202012Validator(json.loads(source)).validate(json.loads(text))
    else:
        assert re.fullmatch(source, text) if r["grammar"]["kind"] == REGEX else text in json.loads(source), text
    return 1


class Constrained:
    """need: the folder of a model by name, or a Skip; worker: the worker's options."""

    def __init__(self, need, worker):
        self.need, self.worker, self.oracle = need, worker, None

    def answers(self, together, check=None, worker=(), **how):
        with Parts(self.need("stories260K"), worker=[*self.worker, *worker], **how) as c:
            got = c.answers_at_once(REQUESTS) if check is not None else c.clients[0].answers(REQUESTS, together)
            if check:
                check(c.clients[0].call("Stats")[1])
        assert all(a.finish for a in got), [a.error for a in got]
        return got

    def alone(self):
        """The oracle, op by op and nothing ahead: complete answers are texts of their grammars."""
        if self.oracle is None:
            got = self.answers(False, worker=["--graphs", "off"], coordinator=["--no-prefix-cache", "--no-overlap"])
            assert sum(follows(r, a.text[0], a.reason(0)) for r, a in zip(REQUESTS, got)) >= 3, [a.text for a in got]
            self.oracle = [a.key() for a in got]
        return self.oracle

    def same_bytes(self, what, seed="0", together=True, check=None, **how):
        """seed: of the emulator's thread order; check: of the statistics, asserts that a run was of the kind that is asked for.
        That depends on when requests arrive, so there are more tries; the bytes must be the same in each."""
        def compare(want):
            stats = []
            for i, (a, b) in enumerate(zip(self.answers(together, stats.append if check else None, **how), want, strict=True)):
                assert a.key() == b, f"request {i}: {a.key()}, alone {b}"
            return stats

        def run():
            os.environ["INGOT_EMULATE_SEED"] = "0"
            want = self.alone()
            os.environ["INGOT_EMULATE_SEED"] = seed
            for left in range(TRIES - 1, -1, -1):
                stats = compare(want)
                try:
                    for s in stats:
                        check(s)
                    return
                except AssertionError:
                    if left == 0:
                        raise
        run.__name__ = "grammars_" + what
        tap.case(run)

    def after_a_kill(self):
        def grammars_after_a_kill():
            want = self.alone()
            with Parts(self.need("stories260K"), worker=self.worker, groups=2) as c:
                client = c.clients[0]

                def hurt():
                    tap.wait_for(lambda: sum(g.active for g in client.call("Stats")[1].group) == 2, "two groups")
                    return c.killed_in_the_middle(client, REQUESTS, want, c.group)

                tap.race(hurt)
        tap.case(grammars_after_a_kill)
