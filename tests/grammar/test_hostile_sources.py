#!/usr/bin/env python3
"""Sources made to take long: each is refused with its place, or compiles within the bound on work, and the steps of work
are the same in another process."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from probe import Probe, Refused  # noqa: E402

MAX_BYTES, MAX_WORK = 1 << 20, 1 << 24  # common/grammar/grammar_source.h, grammar.h


def named(n, value=True):
    return {"k%d" % i: value for i in range(n)}


def chain(n, link):
    """n schemas, each with a reference to the next."""
    defs = {"d%d" % i: link("#/$defs/d%d" % (i + 1)) for i in range(n)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, "d%d" % n: {"type": "null"}}}


def nested(n, schema, wrap):
    for i in range(n):
        schema = wrap(i, schema)
    return schema


def joined(texts, most):
    out = []
    for t in texts:
        if sum(map(len, out)) + len(out) + len(t) > most:
            break
        out.append(t)
    return "|".join(out)


# name: (schema, words of the refusal; None: it compiles)
STEPS = "compiling this takes more than 16777216 steps"
SCHEMAS = {
    "anyOf of 10^4 constants": ({"anyOf": [{"const": "v%d" % i} for i in range(10000)]}, None),
    "anyOf of 10^4 objects": ({"anyOf": [{"type": "object", "properties": {"k%d" % i: {"type": "integer"}}} for i in range(10000)]},
                             "where an answer begins"),
    "nested anyOf": (nested(60, {"const": "x"}, lambda i, s: {"anyOf": [s] + [{"const": "a%d_%d" % (i, j)} for j in range(160)]}), None),
    "product of anyOf": ({"allOf": [{"anyOf": [{"properties": {"p%d_%d" % (i, j): {"type": "integer"}}} for j in range(10)]}
                                    for i in range(20)]}, STEPS),
    "product of anyOf without a value": ({"type": "integer", "allOf": [{"anyOf": [{"type": "string"}] * 50} for _ in range(50)]},
                                         "no text can satisfy this"),
    "oneOf of 10^4 constants": ({"oneOf": [{"const": "v%d" % i} for i in range(10000)]}, STEPS),
    "oneOf of 9000 tags": ({"oneOf": [{"type": "object", "properties": {"t": {"const": "v%d" % i}}, "required": ["t"]}
                                      for i in range(9000)]}, STEPS),
    "60000 properties": ({"type": "object", "properties": named(60000)}, "where an answer begins"),
    "50000 properties and no others": ({"type": "object", "additionalProperties": False, "properties": named(50000)}, "where an answer begins"),
    "30000 required properties": ({"type": "object", "additionalProperties": False, "properties": named(30000),
                                   "required": list(named(30000))}, None),
    "90000 required names": ({"type": "object", "required": list(named(90000))}, "the properties of an object"),
    "properties and patterns": ({"type": "object", "properties": named(60000), "patternProperties": {
        "(a|b|k).*%d(x|y)?" % i: {} for i in range(6)}}, STEPS),
    "enum of 80000 strings": ({"enum": ["value%d" % i for i in range(80000)]}, None),
    "enum of 10^5 numbers": ({"enum": list(range(100000))}, None),
    "enum of 40000 objects": ({"enum": [{"a": i, "b": [i]} for i in range(40000)]}, None),
    "two enums": ({"allOf": [{"enum": ["value%d" % i for i in range(30000)]}, {"enum": ["value%d" % i for i in range(30000)][::-1]}]},
                  "enums of too many values"),
    "enum and pattern": ({"enum": ["value%d" % i for i in range(60000)], "pattern": "^(a|b|v).*[0-9]+$"}, None),
    "counted pattern": ({"type": "string", "pattern": "^(?:(?:a|b|ab){1,1000}c){1,1000}$"}, None),
    "patterns together": ({"type": "string", "allOf": [{"pattern": "^(a|b)*a(a|b){%d}$" % i} for i in range(12, 20)]}, STEPS),
    "pattern and length": ({"type": "string", "pattern": "(a|b)*a(a|b){15}", "minLength": 5000, "maxLength": 10000}, "too large"),
    "1000 patterns and lengths": ({"type": "object", "properties": {
        "p%d" % i: {"type": "string", "pattern": "a%d(a|b)*c" % i, "maxLength": 20000 + i} for i in range(1000)}}, STEPS),
    "5000 patterns": ({"type": "object", "properties": {
        "p%d" % i: {"type": "string", "pattern": "x%d(a|b)*a(a|b){12}$" % i} for i in range(5000)}}, None),
    "a pattern of 8000 bytes": ({"type": "string", "minLength": 3, "pattern": "^(%s)$" % joined(("a%d.*b" % i for i in range(2000)), 8000)},
                                None),
    "9000 references": (chain(9000, lambda ref: {"type": "array", "items": {"$ref": ref}}), "nested too deeply"),
    "9000 allOf": (chain(9000, lambda ref: {"allOf": [{"$ref": ref}]}), "hold together"),
    "a mesh of references": ({"$ref": "#/$defs/d0", "$defs": {"d%d" % i: {"type": "object", "properties": {
        "p%d" % j: {"$ref": "#/$defs/d%d" % j} for j in range(120)}} for i in range(120)}}, None),
    "anchors": ({"$ref": "#a0", "$defs": {"d%d" % i: {"$anchor": "a%d" % i, "type": "array", "items": {"$ref": "#a%d" % (i + 1)}}
                                          for i in range(8000)}}, "nested too deeply"),
    "long titles, nested": (nested(60, {"type": "integer"}, lambda i, s: {"type": "object", "properties": {"p": s}, "title": "x" * 8000}),
                            None),
    "counted properties": ({"type": "object", "properties": named(250), "minProperties": 200, "maxProperties": 220}, None),
    "a constant of 10^6 bytes": ({"const": "x" * 1000000}, None),
    "a name of 300000 bytes": ({"type": "object", "properties": {"x" * 300000: {"type": "integer"}}}, None),
    "names of 10^6 bytes": ({"type": "object", "properties": {"x" * 500000: {}, "x" * 499999 + "y": {}}}, "the expressions of a grammar"),
    "40000 items": ({"type": "array", "prefixItems": [{"type": "integer"}] * 40000}, None),
    "four billion items": ({"type": "array", "minItems": 4000000000, "items": {"type": "array", "maxItems": 4000000000}}, None),
}
OTHERS = [
    ("choice", json.dumps(["choice number %d" % i for i in range(40000)]), None),
    ("regex", "(?:(?:(?:a{1,100}){1,100}){1,100}){1,100}", None),
    ("regex", "(%s)*" % joined(("a*b%dc*" % i for i in range(2000)), 8000), None),
    ("regex", "(.*a){1,50}" * 20, None),
    ("regex", "(a|b)*a(a|b){30}(a|b)*b(a|b){30}", None),
    ("tags", json.dumps({"free": {"without": ["mark%d" % i for i in range(300)]}}), None),
    ("tags", json.dumps({"free": {"without": ["m" * i + str(i) for i in range(1, 600)]}}), STEPS),
    ("tags", json.dumps({"any_of": [{"seq": [{"text": "<t%d>" % i}, {"schema": {"type": "object", "properties": {
        "k%d" % j: {"type": "string", "pattern": "a*b%d" % i} for j in range(20)}}}]} for i in range(700)]}), None),
]
CASES = [(name, "schema", json.dumps(s, separators=(",", ":")), words) for name, (s, words) in SCHEMAS.items()]
CASES += [("%s %d" % (kind, i), kind, source, words) for i, (kind, source, words) in enumerate(OTHERS)]


def outcome(probe, kind, source):
    """(steps of work, None) or (None, the refusal)"""
    try:
        return probe.compile(kind, source)[1], None
    except Refused as e:
        return None, str(e)


@tap.case
def hostile_sources_end_within_the_bound():
    for i, (name, kind, source, words) in enumerate(CASES):
        assert len(source) <= MAX_BYTES, name
        with Probe() as probe:
            work, refusal = outcome(probe, kind, source)
        assert (refusal is None and words is None) or (refusal and words and words in refusal), (name, work, refusal)
        assert refusal is not None or 0 < work <= MAX_WORK, (name, work)
        assert words != STEPS or refusal.startswith("#"), "no place: " + refusal
        if i % 4 == 0:
            with Probe() as probe:
                assert outcome(probe, kind, source) == (work, refusal), name


@tap.case
def a_probe_serves_on_after_refusals():
    with Probe() as probe:
        for name, kind, source, words in CASES:
            if words is not None and words != STEPS:
                assert outcome(probe, kind, source)[0] is None, name
        assert outcome(probe, "schema", json.dumps(SCHEMAS["patterns together"][0]))[0] is None
        probe.compile("schema", '{"type":"integer"}')
        assert probe.matches(b"12") and not probe.matches(b"x")


if __name__ == "__main__":
    tap.main()
