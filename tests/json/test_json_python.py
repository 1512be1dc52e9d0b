"""The JSON reader against Python's: generated documents, whole and mutated, are accepted by both or by neither, and
mean the same."""
import fractions
import json
import math
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import tap

PROBE = os.path.join(os.environ["INGOT_BIN"], "json_probe")
N = 4000


def probe(documents):
    data = b"".join(b"%d\n%s" % (len(d), d) for d in documents)
    out = subprocess.run([PROBE], input=data, stdout=subprocess.PIPE, check=True).stdout
    lines = out.split(b"\n")[:-1]
    assert len(lines) == len(documents), (len(lines), len(documents))
    return lines


class Refused(Exception):
    pass


def pairs(items):
    if len({k for k, _ in items}) != len(items):
        raise Refused("equal keys")
    return dict(items)


def constant(name):
    raise Refused(name)


def number(text):
    """As the probe gives it: an integer where the number, or else its nearest double, is whole and 64 bits hold it."""
    nearest = float(text)
    if math.isinf(nearest):
        raise Refused("too large")
    exact = fractions.Fraction(text if nearest else 0)  # the guard: 1e-999999999 takes Python for ever
    for value in (exact, fractions.Fraction(nearest)):
        if value.denominator == 1 and -2**63 <= value < 2**64:
            return int(value)
    return nearest


def parse(text):
    return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=number, parse_int=number)


def expected(document):
    """What the document means, or None when it must be refused."""
    try:
        text = document.decode("utf-8")
        value = parse(text)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # half surrogates
        return value, json.dumps(value)
    except (ValueError, Refused):
        return None


def compare(documents):
    accepted = 0
    for document, line in zip(documents, probe(documents)):
        want = expected(document)
        if want is None:
            assert line.startswith(b"no "), (document, line)
            continue
        assert line.startswith(b"ok "), (document, line)
        got = parse(line[3:].decode("utf-8"))
        assert got == want[0], (document, got, want)
        assert json.dumps(got) == want[1], (document, got, want)  # the order of keys, 1 or true
        accepted += 1
    return accepted


def random_string(r):
    return "".join(chr(r.choice([r.randrange(32, 127), r.randrange(32), r.randrange(0x80, 0xd800),
                                 r.randrange(0xe000, 0x110000), 34, 92, 47]))
                   for _ in range(r.choice([0, 1, 2, 5, 30])))


def random_number(r):
    kind = r.randrange(7)
    if kind == 0:
        return r.choice([0, 1, -1, 2**53 + 1, 2**63 - 1, -2**63, 2**64 - 1])
    if kind == 1:
        return r.randrange(-2**63, 2**64)
    if kind == 2:
        return r.randrange(-100, 100)
    if kind == 3:
        return r.random()
    if kind == 4:
        return r.uniform(-1, 1) * 10.0 ** r.randrange(-300, 300)
    return r.randrange(-1000, 1000) / 8


def random_value(r, depth):
    kind = r.randrange(8 if depth < 5 else 6)
    if kind < 2:
        return random_string(r)
    if kind < 4:
        return random_number(r)
    if kind == 4:
        return r.choice([True, False])
    if kind == 5:
        return None
    n = r.choice([0, 1, 2, 3, 8])
    if kind == 6:
        return [random_value(r, depth + 1) for _ in range(n)]
    return {random_string(r) + str(i): random_value(r, depth + 1) for i in range(n)}


def documents(r, n):
    out = []
    for _ in range(n):
        style = r.choice([{}, {"indent": 1}, {"separators": (",", ":")}, {"separators": (" ,\t", "\r\n: ")}])
        out.append(json.dumps(random_value(r, 0), ensure_ascii=r.random() < 0.5, **style).encode("utf-8"))
    return out


@tap.case
def generated_documents_mean_the_same():
    assert compare(documents(random.Random(1), N)) >= N * 9 // 10


@tap.case
def mutated_documents_are_refused_by_both_or_by_neither():
    r = random.Random(2)
    mutated = []
    pieces = [b",", b":", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"d83d", b"0", b"-", b".", b"e9", b"\n", b"\t",
              b"\x00", b"\xff", b"\xc3", b"\xa9", b"\xed\xa0\x80", b" ", b"null", b"NaN", b"1e400", b"/"]
    for d in documents(r, N):
        d = bytearray(d[:400])
        for _ in range(r.choice([1, 1, 2, 3])):
            at = r.randrange(len(d) + 1)
            kind = r.randrange(3)
            if kind == 0:
                d[at:at] = r.choice(pieces)
            elif kind == 1:
                d[at:at + 1] = b""
            else:
                d[at:at + 1] = r.choice(pieces)
        mutated.append(bytes(d))
    accepted = compare(mutated)
    assert 100 < accepted < N


@tap.case
def spelled_numbers_mean_the_same():
    r = random.Random(3)
    numbers = []
    for _ in range(N):
        text = r.choice(["", "-"]) + "".join(r.choice("0123456789") for _ in range(r.choice([1, 2, 19, 20, 40])))
        if r.random() < 0.5:
            text += "." + "".join(r.choice("000123456789") for _ in range(r.choice([0, 1, 3, 20])))
        if r.random() < 0.5:
            text += r.choice("eE") + r.choice(["", "+", "-"]) + str(r.choice([0, 1, 2, 5, 19, 20, 308, 400]))
        numbers.append(text.encode())
    assert compare(numbers) > N // 4


if __name__ == "__main__":
    tap.main()
