#!/usr/bin/env python3
"""Patterns with minLength and maxLength against a search over characters: at each place of random texts a character is
taken exactly when a whole text begins so, and the text may end exactly when it is whole."""
import collections
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from probe import Probe, Refused  # noqa: E402

CHARS = ["a", "b", "é", "\n", "z"]  # z: stands for all that no pattern names; é: its first byte is that of others
SHOWN = {"\n": "\\n"}


# ---- patterns: ("set", chars), ("seq", p...), ("or", p...), ("times", p, min, max or None) ----

def draw(rng, depth=3):
    kind = rng.choice(["set", "set", "seq", "or", "times", "times"]) if depth else "set"
    if kind == "set":
        if rng.random() < 0.15:
            return "set", frozenset(CHARS)
        some = rng.sample(CHARS[:4], rng.choice((1, 1, 2)))
        return "set", frozenset(CHARS) - frozenset(some) if rng.random() < 0.25 else frozenset(some)
    if kind == "times":
        least = rng.choice((0, 0, 1, 2, 3))
        return "times", draw(rng, depth - 1), least, rng.choice((None, None, least + rng.randrange(1, 4)))
    return kind, *(draw(rng, depth - 1) for _ in range(rng.choice((2, 2, 3))))


def text_of(p):
    if p[0] == "set" and len(p[1]) == len(CHARS):
        return "[\\s\\S]"
    if p[0] == "set":
        negated = "z" in p[1]
        listed = "".join(SHOWN.get(c, c) for c in CHARS[:4] if (c in p[1]) != negated)
        return f"[{'^' if negated else ''}{listed}]"
    if p[0] == "times":
        return f"(?:{text_of(p[1])}){{{p[2]},{'' if p[3] is None else p[3]}}}"
    return "(?:" + ("|" if p[0] == "or" else "").join(map(text_of, p[1:])) + ")"


ANY = ("times", ("set", frozenset(CHARS)), 0, None)


class Machine:
    """A nondeterministic automaton over characters."""

    def __init__(self, pattern):
        self.free, self.by_char = [], []
        self.start = self.new()
        self.end = self.add(pattern, self.start)

    def new(self):
        self.free.append([])
        self.by_char.append([])
        return len(self.free) - 1

    def add(self, p, at):
        if p[0] == "set":
            to = self.new()
            self.by_char[at].append((p[1], to))
            return to
        if p[0] == "seq":
            for part in p[1:]:
                at = self.add(part, at)
            return at
        if p[0] == "or":
            to = self.new()
            for part in p[1:]:
                begin = self.new()
                self.free[at].append(begin)
                self.free[self.add(part, begin)].append(to)
            return to
        for _ in range(p[2]):
            at = self.add(p[1], at)
        to = self.new()
        self.free[at].append(to)
        if p[3] is None:
            loop = self.new()
            self.free[at].append(loop)
            back = self.add(p[1], loop)
            self.free[back] += [loop, to]
            return to
        for _ in range(p[3] - p[2]):
            at = self.add(p[1], at)
            self.free[at].append(to)
        return to

    def closure(self, states):
        found, todo = set(states), list(states)
        while todo:
            for s in self.free[todo.pop()]:
                if s not in found:
                    found.add(s)
                    todo.append(s)
        return frozenset(found)

    def step(self, states, c):
        return self.closure({to for s in states for chars, to in self.by_char[s] if c in chars})


class Oracle:
    def __init__(self, patterns, least, most):
        self.machines = [Machine(p) for p in patterns]
        self.least, self.most, self.known, self.steps = least, most, {}, {}
        self.start = tuple(m.closure({m.start}) for m in self.machines)

    def step(self, states, c):
        if (states, c) not in self.steps:
            self.steps[states, c] = tuple(m.step(s, c) for m, s in zip(self.machines, states))
        return self.steps[states, c]

    def whole(self, states, n):
        return n >= self.least and (self.most is None or n <= self.most) and all(m.end in s for m, s in zip(self.machines, states))

    def possible(self, states, n):
        """Is n characters that led to these states the begin of a whole text?"""
        layer, seen = {states}, set()
        while layer and (self.most is None or n <= self.most):
            if any(self.whole(s, n) for s in layer):
                return True
            if n >= self.least and self.most is None:
                layer -= seen
                seen |= layer
            layer = {self.step(s, c) for s in layer for c in CHARS}
            layer = {s for s in layer if all(s)}
            n += 1
        return False


def in_json(c):
    return json.dumps(c, ensure_ascii=False)[1:-1].encode()


def check(probe, rng, schema, oracle):
    """"taken", "empty": no text is whole, and it was refused for that, or "dear": refused for its work."""
    possible = oracle.possible(oracle.start, 0)
    try:
        probe.compile("schema", json.dumps(schema))
    except Refused as e:
        if "compiling this takes more than" in str(e):
            return "dear"
        assert not possible and "no text can satisfy" in str(e), f"{schema}: {e}"
        return "empty"
    assert possible, f"{schema} compiles, but no text satisfies it"
    for _ in range(3):
        states, n, text = oracle.start, 0, b'"'
        probe.reset()
        assert probe.consume(b'"')[0]
        while n < 40:
            where = f"{schema} behind {text}"
            next_of = {c: oracle.step(states, c) for c in CHARS}
            allowed = [c for c in CHARS if all(next_of[c]) and oracle.possible(next_of[c], n + 1)]
            for c in CHARS:
                taken = probe.consume(in_json(c))[0]
                assert taken == (c in allowed), f"{where}: {c!r} is {'' if taken else 'not '}taken"
                if taken:
                    probe.rollback(len(in_json(c)))
            taken = probe.consume(b"\xc3")[0]
            assert taken == ("é" in allowed or "z" in allowed), f"{where}: the first byte of é is {'' if taken else 'not '}taken"
            if taken:
                probe.rollback(1)
            ok, ends = probe.consume(b'"')
            assert (ok and ends) == oracle.whole(states, n), f"{where}: may it end? {ok} {ends}"
            if ok:
                probe.rollback(1)
            if not allowed:
                break
            c = rng.choice(allowed)
            assert probe.consume(in_json(c))[0]
            states, n, text = next_of[c], n + 1, text + in_json(c)
    return "taken"


def draw_bounds(rng):
    least = rng.choice((0, 0, 1, 3, rng.randrange(12)))
    most = rng.choice((None, least, least + 1, least + rng.randrange(12)))
    return least, most


@tap.case
def random_patterns_with_bounds():
    rng, probe, count = random.Random(11), Probe(), collections.Counter()
    for i in range(1000):
        patterns = [draw(rng) for _ in range(rng.choice((1, 1, 1, 2)))]
        least, most = draw_bounds(rng)
        parts = []
        for p in patterns:
            whole = rng.random() < 0.7
            parts.append((("seq", p) if whole else ("seq", ANY, p, ANY), {"pattern": f"^{text_of(p)}$" if whole else text_of(p)}))
        bounds = {"minLength": least} if least else {}
        bounds |= {} if most is None else {"maxLength": most}
        schema = {"type": "string", **parts[0][1], **bounds} if len(parts) == 1 else {"type": "string", "allOf": [q for _, q in parts], **bounds}
        count[check(probe, rng, schema, Oracle([p for p, _ in parts], least, most))] += 1
    assert count["empty"] > 30 and count["taken"] > 300 and count["dear"] < 10, count


TOKENS = [bytes([b]) for b in range(256)] + [t.encode() for t in ("aa", "ab", "ba", "aaab", "bbbbbbb", "éé", "aé", "\\n", "\\n\\n", '"', 'a"',
                                                                    'bb"', 'é"', "zz", "azbz")] + [b"a\xc3", b"\xa9b", b"\xa9\""]


def walk_masks(probe, rng, tokens, schema):
    """Along a random text: a mask has a token exactly when its bytes are taken.  How many masks."""
    try:
        probe.compile("schema", json.dumps(schema))
    except Refused:
        return 0
    probe.reset()
    assert probe.consume(b'"')[0]
    for n in range(40):
        mask, _ = probe.mask()
        allowed = []
        for t, token in enumerate(tokens):
            taken = probe.consume(token)[0]
            assert taken == bool(mask >> t & 1), (schema, n, token, taken)
            if taken:
                probe.rollback(len(token))
                allowed.append(token)
        inside = [t for t in allowed if not t.endswith(b'"') or t.endswith(b'\\"')]
        if not inside:
            break
        assert probe.consume(rng.choice(inside))[0]
    return n


@tap.case
def masks_of_patterns_with_bounds():
    """Far from the bounds and near them."""
    rng, probe, n = random.Random(5), Probe(), 0
    probe.vocabulary(TOKENS)
    bounds_of = (0, 40), (20, None), (20, 20), (15, 60), (0, 12), (33, 37), (7, None)
    cases = [(p, b) for p in ("^(?:aaaaa)*$", "^(?:aab)*$", "^(?:(?:aaaaa)*|b(?:aaaaa)*)$")
             for b in ((40, 40), (41, 41), (42, 43), (36, 36), (40, None), (41, 50))]
    cases += [(f"^{text_of(('times', draw(rng, 2), 0, None))}$", rng.choice(bounds_of)) for _ in range(50)]
    for pattern, (least, most) in cases:
        bounds = {"minLength": least} | ({} if most is None else {"maxLength": most})
        n += walk_masks(probe, rng, TOKENS, {"type": "string", "pattern": pattern, **bounds})
    assert n > 400, n


PARTS = [part.encode() for part in ("a", "aa", "é", "zé" * 3, "a" * 31, "a" * 32, "a" * 33, "b" * 70)]
RESTS = [b'"', b'\\"', b"\\n", b'\\"a', b'\\"\\"a"', b"\\u00", b"\\", b"\xc3", b"\xf0\x9f", b'\\n' * 16, b'\\n' * 17, b"\\n" * 9 + b'"']


@tap.case
def masks_of_strings_with_bounds():
    """Tokens of plain characters and others, in strings whose characters are all alike, or nearly so."""
    rng, probe, n = random.Random(6), Probe(), 0
    tokens = [*TOKENS, *PARTS, *RESTS[1:], *(p + r for p in PARTS for r in RESTS)]
    tokens = list(dict.fromkeys(tokens))
    probe.vocabulary(tokens)
    units = None, "[^x]", '(a"|[^"])', "(ab|[^z])", "(az|a|é|[^a])", '(é"|[^"])', "(zz|[^b])"
    for unit in units:
        for least, most in (0, 5), (1, 40), (3, 3), (0, 33), (0, 70), (65, 100), (40, None), (2, 200):
            if unit is None:
                schema = {"type": "string", "minLength": least} | ({} if most is None else {"maxLength": most})
            else:
                schema = {"type": "string", "pattern": f"^{unit}{{{least},{'' if most is None else most}}}$"}
            n += walk_masks(probe, rng, tokens, schema)
    assert n > 800, n


@tap.case
def gaps_between_the_lengths():
    """Lengths that are multiples of 3 and 5: no text of 31, 44 and so on."""
    probe = Probe()
    for n in range(1, 200):
        schema = {"type": "string", "pattern": "^((?:aaa)*|(?:bbbbb)*)$", "minLength": n, "maxLength": n}
        try:
            probe.compile("schema", json.dumps(schema))
            assert n % 3 == 0 or n % 5 == 0, n
            assert probe.matches(b'"%s"' % (b"a" * n)) == (n % 3 == 0) and probe.matches(b'"%s"' % (b"b" * n)) == (n % 5 == 0), n
        except Refused as e:
            assert n % 3 and n % 5 and "no text can satisfy" in str(e), (n, e)


@tap.case
def a_pattern_that_counts_too():
    """Behind "ab" both bounds are three characters, and become one."""
    probe = Probe()
    for bounds in {"maxLength": 5}, {"minLength": 1, "maxLength": 5}, {"minLength": 5, "maxLength": 5}:
        probe.compile("schema", json.dumps({"type": "string", "allOf": [{"pattern": "^ab[\\s\\S]{0,3}$"}, {"pattern": "^ab(z{5}|qqq)$"}],
                                            **bounds}))
        assert probe.matches(b'"abqqq"')
        probe.reset()
        assert probe.consume(b'"ab')[0] and not probe.consume(b"z")[0], bounds


@tap.case
def many_characters():
    """Each bound compiles with a small part of the work that is allowed."""
    probe = Probe()
    for pattern in ("^https?://", "\\S", "^\\S+( \\S+)*$", "^.*foo.*$", "^[a-z0-9_.-]{1,64}(/[a-z0-9_.-]{1,64})*$", "^[^\\n]*$"):
        for least, most in ((0, 2048), (0, 100000), (5000, None), (3000, 3000), (100, 65536)):
            bounds = {"minLength": least} | ({} if most is None else {"maxLength": most})
            _, work = probe.compile("schema", json.dumps({"type": "string", "pattern": pattern, **bounds}))
            assert work < 1 << 20, (pattern, least, most, work)


@tap.case
def a_long_text_ends_in_time():
    probe = Probe()
    probe.compile("schema", json.dumps({"type": "string", "pattern": "^(ab)*$", "minLength": 5001, "maxLength": 6001}))
    for n, whole in ((2500, False), (2501, True), (3000, True), (3001, False)):
        assert probe.matches(b'"%s"' % (b"ab" * n)) == whole, n
    probe.reset()
    assert probe.consume(b'"' + b"ab" * 3000)[0] and not probe.consume(b"a")[0], "a 6,001st character would be the last one"


tap.main()
