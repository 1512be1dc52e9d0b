#!/usr/bin/env python3
"""Masks equal llguidance's but for known classes of difference, each of them decided by jsonschema."""
import json
import os
import random
import re
import sys
from collections import Counter

import jsonschema

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peer  # noqa: E402
import tap  # noqa: E402
from probe import Probe  # noqa: E402
from formats import FORMATS  # noqa: E402
from schemas import SCHEMAS  # noqa: E402


def tokens_of(pair, mask):
    while mask:
        low = mask & -mask
        yield pair.tokens[low.bit_length() - 1]
        mask ^= low


def whole_mask(pair, theirs):
    """llguidance's mask names one token where the bytes have no choice: the one that it would write.  Its grammar takes every
    other beginning of those bytes too, which validate_tokens says of each token that agrees with them."""
    text = pair.matcher.compute_ff_bytes() if theirs.bit_count() == 1 else b""
    if not text:
        return theirs
    for i in {i for n in range(1, len(text) + 1) for i in pair.ids_of.get(text[:n], ())} | set(pair.ids_from(text)):
        theirs |= pair.matcher.validate_tokens([i]) << i
    return theirs


def has_long_label(text):
    """Is a label of the domain that comes last 64 bytes long, or is one of 63 not over, or over with a hyphen?"""
    domain = text.rpartition(b"@")[2] if b"@" in text else b""
    return re.search(rb"[0-9A-Za-z-]{64}|[0-9A-Za-z-]{62}-", domain) is not None


def class_of(pair, text, ours, theirs):
    if ours == theirs:
        return "equal"
    theirs = whole_mask(pair, theirs)
    if ours == theirs:
        return "equal, forced"
    more, fewer = ours & ~theirs, theirs & ~ours
    if not fewer and all(b"\\/" in t or b"\\u" in t for t in tokens_of(pair, more)):
        return "escape that JSON allows"
    if not fewer and re.search(rb"[0-9]\.[0-9]*$|-0$", text):
        return "end of a bounded decimal"
    if not more and all(b"\\u" in text[-1:] + t or t.endswith(b"\\") for t in tokens_of(pair, fewer)):
        return "escape of a constant"
    if not more and re.search(rb"[0-9]:[0-5][0-9]:6?$", text) and all(re.match(rb"60?|0", t) for t in tokens_of(pair, fewer)):
        return "leap second"
    if not more and all(has_long_label(text + t) for t in tokens_of(pair, fewer)):
        return "label of an email"
    return "other"


def compare(name):
    rng, classes, others = random.Random(23), Counter(), []
    pair = peer.Pair(name)
    for schema in SCHEMAS:
        if not pair.compile(schema):
            continue
        for _ in range(3):
            for text, ours, theirs in peer.walk(pair, rng):
                kind = class_of(pair, text, ours, theirs)
                classes[kind] += 1
                if kind == "other":
                    others.append((json.dumps(schema)[:100], text[-40:], list(tokens_of(pair, ours & ~theirs))[:3],
                                   list(tokens_of(pair, theirs & ~ours))[:3]))
    pair.close()
    print(name, dict(classes))
    for line in others[:10]:
        print("  ", *line)
    assert classes.total() > 10000 and classes["equal"] > classes.total() // 2 and classes["equal, forced"] > 500
    assert classes["other"] <= 0.001 * classes.total(), classes


for name in peer.TOKENIZERS:
    def run(name=name):
        compare(name)
    run.__name__ = "masks_on_" + name.replace("-", "_").replace(".", "_")
    tap.case(run)


@tap.case
def who_is_right_in_each_class():
    """JSON allows \\/ and every \\uXXXX, and bounded numbers may end with zeros: llguidance's masks lack these.  A
    constant has one writing here: our masks lack others.  A leap second is one only at the end of a day in UTC: llguidance takes
    it in every minute, here none is taken.  The labels of an email's domain have at most 63 bytes (RFC 1035), which only ours
    keep."""
    with Probe() as probe:
        probe.compile("schema", '{"type":"string"}')
        for text in ('"a\\/b"', '"\\uff41"'):
            jsonschema.validate(json.loads(text), {"type": "string"})
            assert probe.matches(text.encode())
        schema = {"type": "number", "minimum": -1.25, "maximum": 3.75}
        probe.compile("schema", json.dumps(schema))
        for text in ("0.30", "-1.2", "3.750", "-0"):
            jsonschema.validate(json.loads(text), schema)
            assert probe.matches(text.encode())
        probe.compile("schema", '{"type":"string","format":"time"}')
        for value, valid in (("23:59:59Z", True), ("18:26:60Z", False)):
            assert jsonschema.Draft202012Validator({"format": "time"}, format_checker=FORMATS).is_valid(value) == valid
            assert probe.matches(json.dumps(value).encode()) == valid
        schema = {"type": "string", "format": "email"}
        probe.compile("schema", json.dumps(schema))
        for value, taken in (("a@b.example", True), ("a@[127.0.0.1]", True), ("a@[IPv6:::1]", True), ("a@" + 63 * "b", True),
                             ("a@" + 64 * "b", False)):
            assert jsonschema.Draft202012Validator(schema, format_checker=FORMATS).is_valid(value)
            assert probe.matches(json.dumps(value).encode()) == taken
        schema = {"const": "a\n"}
        probe.compile("schema", json.dumps(schema))
        for text, taken in ((b'"a\\n"', True), (b'"a\\u000a"', False)):
            jsonschema.validate(json.loads(text), schema)
            assert probe.matches(text) == taken


if __name__ == "__main__":
    tap.main()
