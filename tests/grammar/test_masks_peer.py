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
from schemas import SCHEMAS  # noqa: E402


def tokens_of(pair, mask):
    while mask:
        low = mask & -mask
        yield pair.tokens[low.bit_length() - 1]
        mask ^= low


def class_of(pair, text, ours, theirs):
    if ours == theirs:
        return "equal"
    more, fewer = ours & ~theirs, theirs & ~ours
    if not fewer and theirs.bit_count() == 1 and pair.matcher.compute_ff_bytes():
        return "forced"  # llguidance names the one token that it would write for bytes without a choice
    if not fewer and all(b"\\/" in t or b"\\u" in t for t in tokens_of(pair, more)):
        return "escape that JSON allows"
    if not fewer and re.search(rb"[0-9]\.[0-9]*$", text):
        return "end of a bounded decimal"
    if not more and all(b"\\u" in text[-1:] + t or t.endswith(b"\\") for t in tokens_of(pair, fewer)):
        return "escape of a constant"
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
    assert classes.total() > 10000 and classes["equal"] > classes.total() // 2
    assert classes["other"] <= 0.001 * classes.total(), classes


for name in peer.TOKENIZERS:
    def run(name=name):
        compare(name)
    run.__name__ = "masks_on_" + name.replace("-", "_").replace(".", "_")
    tap.case(run)


@tap.case
def who_is_right_in_each_class():
    """JSON allows \\/ and every \\uXXXX, and bounded numbers may end with zeros: llguidance's masks lack these.  A
    constant has one writing here: our masks lack others."""
    with Probe() as probe:
        probe.compile("schema", '{"type":"string"}')
        for text in ('"a\\/b"', '"\\uff41"'):
            jsonschema.validate(json.loads(text), {"type": "string"})
            assert probe.matches(text.encode())
        schema = {"type": "number", "minimum": -1.25, "maximum": 3.75}
        probe.compile("schema", json.dumps(schema))
        for text in ("0.30", "-1.2", "3.750"):
            jsonschema.validate(json.loads(text), schema)
            assert probe.matches(text.encode())
        schema = {"const": "a\n"}
        probe.compile("schema", json.dumps(schema))
        for text, taken in ((b'"a\\n"', True), (b'"a\\u000a"', False)):
            jsonschema.validate(json.loads(text), schema)
            assert probe.matches(text) == taken


if __name__ == "__main__":
    tap.main()
