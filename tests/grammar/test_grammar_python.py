#!/usr/bin/env python3
"""Schemas against Python's jsonschema: texts that random walks over the masks give are valid; of hand-written
instances, those that the grammar takes are exactly the valid ones."""
import json
import os
import random
import sys

import jsonschema

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from formats import FORMATS  # noqa: E402
from probe import Probe, Refused  # noqa: E402
from schemas import SCHEMAS  # noqa: E402

INSTANCES = [None, True, 0, -7, 10, 12, 24, -8, 2044, 2045, 0.5, 3.75, 3.76, 1000.0, 1.5, "", "a", "abc", "abcd", "AB12", "xxab",
             "123-a.x", "a.x", "10:00:00Z", "24:00:00Z", "10:00:00.5-01:30", "10:00:00", "a@b.example", "2024-02-29T10:00:00Z", "127.0.0.1", "::1", "red", "v999", "v1000", [1, 2], {"k": "v"},
             [], [None], ["a"], [1, 2, 3], {"x": 1}, {"x": "y"}, {"third": "a"}, {"first": 0, "third": 0}, {"k1": "a"}, {"k": 1},
             {"value": 0, "sub": []}, {"value": "a", "sub": [{"value": "a"}]}, {"value": 0}]
PIECES = ['"', '":', '","', '"}', '"]', "{\"", "}", "]", "[", ",", "true", "null", "12", ".5", "ab", "abc\"", "é", "\\n", "a\\\"", "-"]
TOKENS = [bytes([b]) for b in range(256)] + [p.encode() for p in PIECES] + [b""]


def validator(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=FORMATS)


def random_walk(probe, rng, most=3000):
    """A text over the masks; prefers to end.  None: it was not over after `most` tokens."""
    text = b""
    probe.reset()
    for i in range(most):
        mask, _ = probe.mask()
        ends = probe.consume(b"")[1]
        allowed = [t for t in range(len(TOKENS)) if mask >> t & 1]
        assert allowed or ends, "a dead end after %r at %s" % (text, probe.place())
        if ends and (not allowed or i > 20 or rng.random() < 0.3):
            return text
        closing = [t for t in allowed if TOKENS[t] in (b'"', b"}", b"]", b'"}', b'"]')]
        pick = rng.choice(closing if closing and i > 20 else allowed)
        text += TOKENS[pick]
        assert probe.consume(TOKENS[pick])[0]
    return None


def check_schema(probe, schema, rng):
    probe.compile("schema", json.dumps(schema))
    check = validator(schema)
    for _ in range(4):
        text = random_walk(probe, rng)
        if text is not None:
            errors = list(check.iter_errors(json.loads(text)))
            assert not errors, "%s gives %r: %s" % (schema, text, errors[0].message)
    for value in INSTANCES:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        whole_float = isinstance(value, float) and value == int(value)
        if probe.matches(text.encode()) != check.is_valid(value) and not whole_float:
            raise AssertionError("%s and %s: jsonschema says %s" % (schema, text, check.is_valid(value)))


@tap.case
def random_walks_and_instances():
    assert len(SCHEMAS) >= 150
    rng = random.Random(23)
    with Probe() as probe:
        probe.vocabulary(TOKENS)
        for schema in SCHEMAS:
            check_schema(probe, schema, rng)


def refusal(probe, schema):
    try:
        probe.compile("schema", json.dumps(schema))
    except Refused as e:
        return str(e)
    raise AssertionError("compiles: %s" % json.dumps(schema)[:200])


@tap.case
def what_is_refused_and_where():
    with Probe() as probe:
        assert refusal(probe, {"type": []}).startswith("#/type: must not be empty")
        assert "oneOf" in refusal(probe, {"oneOf": [{"type": "integer"}, {"type": "number"}]})
        deep = {"not": {}}
        for i in range(25):
            deep = {"properties": {"level%d" % i: deep}}
        words = refusal(probe, deep)
        path = words.split(": ")[0]
        assert path.startswith("#/properties/level24/") and path.endswith("/properties/level0/not") and "/.../" in path, words
        assert len(path) < 160 and len(path) > 120, words
        short = refusal(probe, {"properties": {"a": {"properties": {"b": {"not": {}}}}}})
        assert short.startswith("#/properties/a/properties/b/not: "), short


@tap.case
def patterns_of_properties_that_overlap():
    """A key of both patterns must satisfy both schemas."""
    schema = {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 5}}, "additionalProperties": False}
    with Probe() as probe:
        probe.compile("schema", json.dumps(schema))
        check, taken = validator(schema), 0
        for value in ({"ab": 7}, {"ab": 3}, {"a": 1}, {"b": 6}, {"b": 4}, {"ab": "x"}, {"c": 1}, {}):
            text = json.dumps(value, separators=(",", ":")).encode()
            assert probe.matches(text) == check.is_valid(value), value
            taken += check.is_valid(value)
        assert taken == 4


@tap.case
def hostile_schemas():
    """Schemas from random pieces are refused with a text or compile; the process goes on."""
    rng = random.Random(5)
    words = ["type", "object", "string", "properties", "$ref", "#", "#/a", "anyOf", "allOf", "items", "enum", "pattern",
             "(a|b)*", "minLength", "maxLength", "required", "additionalProperties", "const", "not"]

    def value(depth):
        kind = rng.randrange(8 if depth < 6 else 5)
        if kind < 3:
            return rng.choice(words)
        if kind == 3:
            return rng.choice([0, 1, -1, 5, 1000, 1.5, True, False, None])
        if kind == 4:
            return rng.choice(["array", "integer", "number", "null"])
        if kind == 5:
            return [value(depth + 1) for _ in range(rng.randrange(4))]
        return {rng.choice(words): value(depth + 1) for _ in range(rng.randrange(4))}

    n = 100000 if os.environ.get("INGOT_ALL") else 3000
    compiled = 0
    with Probe() as probe:
        probe.vocabulary(TOKENS)
        for _ in range(n):
            try:
                probe.compile("schema", json.dumps(value(0)))
                compiled += 1
                probe.mask()
            except Refused as e:
                assert str(e)
    assert 0 < compiled < n


if __name__ == "__main__":
    tap.main()
