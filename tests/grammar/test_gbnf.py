#!/usr/bin/env python3
"""Context-free grammars in GBNF against a recogniser of another kind (Earley's, over characters): the same texts and the same
beginnings of texts, of random grammars; what is refused; masks, splits and rollback; ambiguous and hostile grammars."""
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap  # noqa: E402
from probe import Probe, Refused  # noqa: E402

ALL = bool(os.environ.get("INGOT_ALL"))

# ---- a second implementation: trees of grammars, their notation, and Earley's recogniser ----
#
# Trees: ("lit", text), ("set", negated, [(lo, hi)]), ("any",), ("ref", name), ("seq", [trees]), ("alt", [trees]),
# ("rep", tree, min, max or None).


class Bnf:
    """Rules without repetition: {name: [[symbol]]}; a symbol is a name, or a function of a character."""

    def __init__(self, trees):
        self.rules, self.n = {}, 0
        for name, tree in trees.items():
            self.rules[name] = [self.symbols(t) for t in (tree[1] if tree[0] == "alt" else [tree])]
        self.nullable = self.least(lambda alt, known: all(s in known for s in alt if not callable(s)) and not any(map(callable, alt)))
        self.productive = self.least(lambda alt, known: all(callable(s) or s in known for s in alt))

    def least(self, has):
        known = set()
        while True:
            more = {n for n, alts in self.rules.items() if n not in known and any(has(a, known) for a in alts)}
            if not more:
                return known
            known |= more

    def new(self, alts):
        self.n += 1
        name = "%%%d" % self.n
        self.rules[name] = alts
        return name

    def symbols(self, tree):
        kind = tree[0]
        if kind == "lit":
            return [lambda c, want=c: c == want for c in tree[1]]
        if kind == "set":
            return [lambda c: any(lo <= c <= hi for lo, hi in tree[2]) != tree[1]]
        if kind == "any":
            return [lambda c: True]
        if kind == "ref":
            return [tree[1]]
        if kind == "seq":
            return [s for t in tree[1] for s in self.symbols(t)]
        if kind == "alt":
            return [self.new([self.symbols(t) for t in tree[1]])]
        one, low, high = self.symbols(tree[1]), tree[2], tree[3]
        if high is None:
            again = self.new([])
            self.rules[again] = [[], one + [again]]
            return one * low + [again]
        rest = []
        for _ in range(high - low):
            rest = [self.new([[], one + rest])]
        return one * low + rest

    def left_recursive(self):
        """Can a productive rule begin with itself?"""
        begins = {n: set() for n in self.rules}
        for name, alts in self.rules.items():
            for alt in alts:
                if not all(callable(s) or s in self.productive for s in alt):
                    continue
                for s in alt:
                    if callable(s):
                        break
                    begins[name].add(s)
                    if s not in self.nullable:
                        break
        for name in self.rules:
            seen, todo = set(), list(begins[name])
            while todo:
                s = todo.pop()
                if s not in seen:
                    seen.add(s)
                    todo += begins[s]
            if name in seen:
                return True
        return False

    def read(self, text):
        """(is the text one of root's, is it the beginning of one) for each beginning of the text"""
        def close(chart, i):
            todo = list(chart[i])
            while todo:
                name, alt, dot, begin = todo.pop()
                symbols = self.rules[name][alt]
                new = []
                if dot < len(symbols) and not callable(symbols[dot]):
                    s = symbols[dot]
                    if s in self.productive:
                        new += [(s, k, 0, i) for k, a in enumerate(self.rules[s]) if all(callable(x) or x in self.productive for x in a)]
                    if s in self.nullable:
                        new.append((name, alt, dot + 1, begin))
                elif dot == len(symbols):
                    for n2, a2, d2, b2 in list(chart[begin]):
                        r2 = self.rules[n2][a2]
                        if d2 < len(r2) and r2[d2] == name:
                            new.append((n2, a2, d2 + 1, b2))
                for item in new:
                    if item not in chart[i]:
                        chart[i].add(item)
                        todo.append(item)

        chart = [{("%", 0, 0, 0)}]
        self.rules["%"] = [["root"]]
        out = []
        for i in range(len(text) + 1):
            close(chart, i)
            out.append((("%", 0, 1, 0) in chart[i], any(d < len(self.rules[n][a]) and callable(self.rules[n][a][d])
                                                       for n, a, d, _ in chart[i])))
            if i < len(text):
                chart.append({(n, a, d + 1, b) for n, a, d, b in chart[i]
                              if d < len(self.rules[n][a]) and callable(self.rules[n][a][d]) and self.rules[n][a][d](text[i])})
        del self.rules["%"]
        return [(ends, ends or goes_on) for ends, goes_on in out]


ALPHABET = "ab(é\n"


def random_tree(rng, names, depth=0):
    kind = rng.randrange(12 if depth < 4 else 5)
    if kind < 2:
        return ("lit", "".join(rng.choice(ALPHABET) for _ in range(rng.randrange(3))))
    if kind == 2:
        ranges = [tuple(sorted((rng.choice(ALPHABET), rng.choice(ALPHABET)))) for _ in range(rng.randrange(1, 3))]
        return ("set", rng.random() < 0.3, ranges)
    if kind < 5:
        return ("ref", rng.choice(names)) if kind == 3 or rng.random() < 0.8 else ("any",)
    if kind < 9:
        return ("seq", [random_tree(rng, names, depth + 1) for _ in range(rng.randrange(1, 4))])
    if kind < 10:
        low = rng.randrange(3)
        return ("rep", random_tree(rng, names, depth + 1), low, rng.choice([None, low, low + rng.randrange(3)]))
    return ("alt", [random_tree(rng, names, depth + 1) for _ in range(rng.randrange(1, 4))])


def write_char(rng, c, specials):
    n = ord(c)
    forms = ["\\x%02x" % n] if n < 256 else []
    forms += ["\\u%04X" % n, "\\U%08x" % n]
    plain = {"\n": "\\n"}.get(c, "\\" + c if c in specials else c)
    return rng.choice(forms) if rng.random() < 0.2 else plain


def blank(rng, lines):
    return rng.choice([" ", "  ", "\t", "\n", " # (comment \" [\n", "\r\n"] if lines else [" ", "  ", "\t"])


def write_tree(rng, tree, nested, outer=0):
    """A tree in GBNF.  outer 0: alternatives may be here, 1: sequences, 2: one item"""
    kind = tree[0]
    if kind == "lit":
        return '"%s"' % "".join(write_char(rng, c, '"\\') for c in tree[1])
    if kind == "set":
        parts = []
        for lo, hi in tree[2]:
            a, b = write_char(rng, lo, "[]\\"), write_char(rng, hi, "[]\\")
            parts.append(a if lo == hi and rng.random() < 0.5 else a + "-" + b)
        return "[%s%s]" % ("^" if tree[1] else "", "".join(parts))
    if kind == "any":
        return "."
    if kind == "ref":
        return tree[1]
    inside = nested or (kind == "alt" and outer > 0) or (kind == "seq" and outer > 1)
    if kind == "rep":
        low, high = tree[2], tree[3]
        words = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
        if not words or rng.random() < 0.3:
            words = "{%d}" % low if low == high else "{ %d , %s}" % (low, "" if high is None else high)
        item = write_tree(rng, tree[1], nested, 2)
        if tree[1][0] == "rep":
            item = "(%s)" % item
        return item + rng.choice(["", " "]) + words
    if kind == "seq":
        text = blank(rng, inside).join(write_tree(rng, t, inside, 1 if len(tree[1]) > 1 else max(outer, 1)) for t in tree[1])
        return "(%s)" % text if outer > 1 else text
    bar = rng.choice([" | ", "|", " |\n ", "\n  | "])
    text = bar.join(write_tree(rng, t, inside, 1) for t in tree[1])
    return "( %s )" % text if outer > 0 else text


def write_grammar(rng, trees):
    names = list(trees)
    rng.shuffle(names)
    return "# random\n" + rng.choice(["\n", "\r\n", "\n\n#\n"]).join(
        "%s%s::=%s%s" % (n, blank(rng, False), blank(rng, True), write_tree(rng, trees[n], False)) for n in names) + "\n"


def some_text(rng, trees, tree, depth=0):
    """A text of the tree, or nearly one; short."""
    kind = tree[0]
    if kind == "lit":
        return tree[1]
    if kind in ("set", "any"):
        good = [c for c in ALPHABET if kind == "any" or any(lo <= c <= hi for lo, hi in tree[2]) != tree[1]]
        return rng.choice(good or ALPHABET)
    if depth > 12:
        return ""
    if kind == "ref":
        return some_text(rng, trees, trees[tree[1]], depth + 1)
    if kind == "seq":
        return "".join(some_text(rng, trees, t, depth + 1) for t in tree[1])
    if kind == "alt":
        return some_text(rng, trees, rng.choice(tree[1]), depth + 1)
    high = tree[2] + 2 if tree[3] is None else tree[3]
    return "".join(some_text(rng, trees, tree[1], depth + 1) for _ in range(rng.randint(tree[2], high)))


def changed(rng, text):
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(["", rng.choice(ALPHABET), "x"]) + text[at + rng.randrange(2):]


def verdicts(probe, text):
    """As Bnf.read, of the grammar that was compiled; after a character that is refused all is false."""
    probe.reset()
    ok, ends = probe.consume(b"")
    out = [(ends, True)]
    for c in text:
        ok, now = probe.consume(c.encode()) if ok else (False, False)
        out.append((ok and now, ok))
    return out


@tap.case
def random_grammars_and_earley():
    rng = random.Random(6)
    compiled = recursive = texts = good = 0
    with Probe() as probe:
        for i in range(6000 if ALL else 500):
            names = ["root", "x", "a_1", "T-t"][:rng.randrange(1, 5)]
            trees = {n: random_tree(rng, names) for n in names}
            source, bnf = write_grammar(rng, trees), Bnf(trees)
            try:
                probe.compile("gbnf", source)
            except Refused as e:
                if "no text can satisfy" in str(e):
                    assert "root" not in bnf.productive, (source, e)
                else:
                    assert "left recursion" in str(e) or "may be empty" in str(e), (source, e)
                    assert bnf.left_recursive(), (source, e)
                continue
            assert "root" in bnf.productive, source
            compiled += 1
            recursive += any("ref" in str(trees[n]) for n in names)
            for _ in range(12):
                text = some_text(rng, trees, trees["root"])[:14]
                if rng.random() < 0.6:
                    text = changed(rng, text)[:14]
                theirs, ours = bnf.read(text), verdicts(probe, text)
                assert ours == theirs, "%s\n%r: %s, Earley's says %s" % (source, text, ours, theirs)
                texts += 1
                good += ours[-1][0]
    assert compiled > i // 4 and recursive > i // 8, (compiled, recursive)
    assert texts // 10 < good < texts * 9 // 10, (texts, good)


# ---- familiar shapes ----

SUM = r"""
# sums over lines
root  ::= (sum "=" ws term "\n")+
sum   ::= term ([-+*/] term)*
term  ::= name | number | "(" ws sum ")" ws
name  ::= [a-z] [a-z0-9_]* ws
number ::= [0-9]+ ws
ws    ::= [ \t]*
"""
MOVES = r"""root ::= (
  # a first pair of moves
  "1. " move " " move "\n"
  ([1-9] [0-9]? ". " move " " move "\n")* )
move ::= (piece | pawn | castle) [+#]?   # check, mate
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?
piece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
castle ::= "O-O" "-O"?
"""
JSON = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
LIST = r"""root ::= item+
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
"""
KANA = "root ::= w ([ \\t\\n] w)*\nw ::= [ぁ-ゟ]+ | [\\u30A1-\\u30FF]{2,3} | \"\\U0001F600\""
QUERY = r"""
root ::= select
select ::= "SELECT " column (", " column)* " FROM " table where?
column ::= "col_1"
  | "col_2"   # bars at the beginning of lines
  | "COUNT(" column ")"
table ::= "t1" | "t2" | "(" select ")"
where ::= " WHERE " column ("=" | "<") [0-9]+
"""
SPACES = 'root ::= "a" ws "b" list\nws ::= " " ws | "\\t" ws | ""\nlist ::= [0-9] | [0-9] "," list'
NESTED = 'root ::= "(" root ")" root | ""'
TEXTS = [  # source, texts of it, texts that are none
    (SUM, ["1+2=3\n", "(a_1*(b -3))/2= x\nz=1\n"], ["", "1+=3\n", "(1=2\n", "1=2"]),
    (MOVES, ["1. e4 e5\n", "1. e4 Nf6+\n2. O-O-O exd8=Q#\n"], ["1. e9 e5\n", "1. e4\n", "e4 e5", "01. e4 e5\n"]),
    (JSON, ['{}', '{"a": [1, {"b": null}] }', '{"\\u00e9é\\n":-1.5e+3}', '{\n  "a":"x"}'],
     ['[]', '{"a"}', '{"a":01x}', '{"a":"\n"}', '{"a":tru}', ' {}', '{"a":1,}']),
    (LIST, ["- a\n", "- é…\n- b\n"], ["", "- \n", "- a", "- a\u2028b\n", "a\n"]),
    (KANA, ["ひらがな", "カナ 😀", "😀\nぁ"], ["a", "カ", "カカカカ", "ひ  ら", "😁"]),
    (QUERY, ["SELECT col_1 FROM t1", "SELECT COUNT(COUNT(col_2)), col_1 FROM (SELECT col_1 FROM t2) WHERE col_2=10"],
     ["SELECT FROM t1", "SELECT col_1 FROM t1 WHERE", "SELECT col_3 FROM t1"]),
    (SPACES, ["ab1", "a \t b1,2,3"], ["ab", "ab1,", "a\nb1"]),
    (NESTED, ["", "()", "(()())()", "(" * 200 + ")" * 200], ["(", ")(", "())"]),
    ('root ::= "\\\\" "\\"" "\\x41\\u00e9\\U0001F600" [\\]\\[\\\\^-] "\\r\\n\\t"', ['\\"Aé😀]\r\n\t', '\\"Aé😀-\r\n\t', '\\"Aé😀^\r\n\t'],
     ['\\"Aé😀a\r\n\t']),
    ('root ::= [^^a-] . | "" | [a-] "x"{2,} "y"{3} ("z" | ){1,2}', ["", "b\n", "zé", "-xxyyy", "axxxyyyzz"], ["a", "^b", "axyyy", "axxyyyzzz"]),
    ('root ::= (("a"{2,3}){2} | ("b"{2}){0,2} | ("c"{3,})? | (("d"?)*)* | ("e"{0,2}){3,4})',
     ["aaaa", "aaaaaa", "", "bb", "bbbb", "ccc", "cccc", "ddd", "e" * 8], ["aaa", "aaaaaaa", "b", "bbb", "cc", "e" * 9]),
]


@tap.case
def familiar_grammars():
    with Probe() as probe:
        for source, yes, no in TEXTS:
            for end in ("\n", "\r\n"):
                probe.compile("gbnf", source.replace("\n", end))
                for text in yes:
                    assert probe.matches(text.encode()), (source, text)
                for text in no:
                    assert not probe.matches(text.encode()), (source, text)


@tap.case
def bytes_of_characters_are_beginnings():
    with Probe() as probe:
        probe.compile("gbnf", 'root ::= [à-ÿ€😀-😂]')
        for text in ("é", "€", "😁"):
            whole = text.encode()
            for n in range(len(whole)):
                probe.reset()
                assert probe.consume(whole[:n]) == (True, False), (text, n)
            assert probe.matches(whole)
        for bad in (b"\xc3\x28", b"\xc2", b"\xf0\x9f\x98\x83", b"\xed\xa0\x80", b"\xff"):
            assert not probe.matches(bad), bad


# ---- refusals ----

REFUSED = [
    ("", "there is no rule root"), ("# nothing\n", "there is no rule root"), ('a ::= "x"', "there is no rule root"),
    ('root ::= "a"\n  b x', "line 2, column 5: ::= is expected"), ("root ::= x y", "line 1, column 10: there is no rule x"),
    ('root ::= "a" \nx ::= "é" [z-a]', "line 2, column 12: a range of a set runs backwards"),
    ('root ::= "ab', "line 1, column 10: \" without its end"), ("root ::= [ab", "column 10: [ without its ]"),
    ('root ::= ("a"', "column 10: ( without its )"), ('root ::= "a")', "column 13: this is no part of a rule"),
    ('root ::= ("a" ]', "column 15: this is no part of a group"), ("root ::= []", "a set without a character"),
    ("root ::= [^]", "a set without a character"), ("root ::= [^\\x00-\\U0010FFFF]", "a set without a character"),
    ("root ::= [\\uD800-\\uDFFF]", "a set without a character"), ('root ::= "\\uD83D"', "half of a surrogate pair"),
    ('root ::= "\\x4"', "hexadecimal"), ('root ::= "\\U00110000"', "no such character"), ('root ::= "\\q"', "unknown escape"),
    ("root ::= *", "nothing to repeat"), ('root ::= "a" | ?', "nothing to repeat"), ('root ::= "a"{2', "{ without its }"),
    ('root ::= "a"{,2}', "a number is expected"), ('root ::= "a"{3,2}', "m > n"), ('root ::= "a"{100001}', "too many repetitions"),
    ('root ::= "a"{99999999999999999999}', "too many repetitions"), ('root ::= "a"+*?+*', "repetitions of repetitions"),
    ("root ::= <think>", "tokens (<...>) are not supported"), ("root ::= !<[12]>", "tokens"), ("root ::= " + "(" * 200, "too deeply"),
    ('root ::= "a"\nroot ::= "b"', "line 2, column 1: there is a rule of this name already"), ("x" * 200 + " ::= ", "too long"),
    ('root ::= root "+" t | t\nt ::= "1"', "line 1, rule root: left recursion"),
    ('root ::= "x" a\na ::= b\nb ::= c "." | "x"\nc ::= a', "left recursion"), ('root ::= ws root "x" | "y"\nws ::= " "*', "left recursion"),
    ('root ::= ("(" root ")" | "")*', "rule root: a repetition of something that may be empty"),
    ('root ::= "a" root', "line 1, rule root: no text can satisfy this"), ('root ::= a\na ::= b "x"\nb ::= "(" a ")"', "no text can satisfy"),
    ('root ::= "a"\x00', "this is no part of a rule"), ("root := \"a\"", "::= is expected"), (b'root ::= "\xff"', "UTF-8"),
]


@tap.case
def refusals_name_the_place():
    with Probe() as probe:
        for source, words in REFUSED:
            try:
                probe.compile("gbnf", source)
            except Refused as e:
                assert words in str(e), (source, words, str(e))
            else:
                raise AssertionError("compiled: %s" % source)


# ---- masks ----

PIECES = ['{"', '": ', '", "', '"}', "]", "1. ", "e4 ", "Nf6", "O-O", "\n", "\n\n", "  ", "- ", "col_", "SELECT ", " FROM ", "t1", "((", "()", "))",
          "ab", "true", "12", "é", "が", "カナ", "😀", "x y", "a\"b", "1,2"]
TOKENS = [bytes([b]) for b in range(256)] + [p.encode() for p in PIECES] + ["が".encode()[1:] + b"a", b""]


@tap.case
def masks_splits_and_rollback():
    """A mask has a token exactly when the matcher takes it, bytes split otherwise end in the same state, and what is taken
    back was never there."""
    rng = random.Random(8)
    with Probe() as probe, Probe() as split:
        for each in (probe, split):
            each.vocabulary(TOKENS)
        for source, _, _ in TEXTS:
            for each in (probe, split):
                each.compile("gbnf", source)
            for walk in range(2):
                probe.reset()
                split.reset()
                text = b""
                for step in range(25):
                    mask, ends = probe.mask()[0], probe.consume(b"")[1]
                    for t in rng.sample(range(len(TOKENS)), 25):
                        ok, _ = probe.consume(TOKENS[t])
                        assert (ok and bool(TOKENS[t])) == bool(mask >> t & 1), (source, text, TOKENS[t])
                        probe.rollback(len(TOKENS[t]) if ok else 0)
                    assert probe.mask()[0] == mask and split.mask()[0] == mask and split.consume(b"")[1] == ends, (source, text)
                    allowed = [t for t in range(len(TOKENS)) if mask >> t & 1]
                    assert allowed or ends, "a dead end of %s after %r" % (source, text)
                    if not allowed:
                        break
                    piece = TOKENS[rng.choice([t for t in allowed if len(TOKENS[t]) > 1] or allowed)]
                    assert probe.consume(piece)[0]
                    for b in piece:
                        assert split.consume(bytes([b]))[0]
                    text += piece


# ---- ambiguous and hostile grammars ----

LEVELS = "".join("r%d ::= r%d{1,9}\n" % (i, i + 1) for i in range(12))
AMBIGUOUS = [  # source, text, how much of it is taken at least (MACHINE_MAX_DEPTH), may it end there
    ('root ::= "a" root root | "a"', "a" * 599, 599, True),
    ('root ::= "a" root? root?', "a" * 600, 600, True),
    ("root ::= r0\n" + LEVELS + 'r12 ::= "a" | "(" r0 ")"', "a" * 40, 40, True),
    ('root ::= s s s s\ns ::= "a" s | t\nt ::= "a" | "(" root ")"', "a" * 200, 200, True),
    ('root ::= x{0,50} y{0,50}\nx ::= "a" | "a" x "b"\ny ::= "a" | "a" y', "a" * 100, 100, True),
    ('root ::= (("a"{0,9} "b"?){0,9} "c"?){0,9}', "a" * 40, 40, True),
    ('root ::= e ("+" e)*\ne ::= "a" | "a" e | "(" root ")" | "a" "(" root ")" e?', "aa+a(a+aa)aa", 12, True),
]


@tap.case
def many_parses_at_once():
    with Probe() as probe:
        probe.vocabulary(TOKENS)
        for source, text, least, ends in AMBIGUOUS:
            probe.compile("gbnf", source)
            ok, end = probe.consume(text[:least].encode())
            assert ok and end == ends, (source, ok, end)
            assert probe.mask()[0]


@tap.case
def too_deep_is_refused_at_the_byte():
    """A text that would need more than the bound is not among the allowed ones; the place is named."""
    with Probe() as probe:
        probe.vocabulary(TOKENS)
        probe.compile("gbnf", 'root ::= "a"\n  | inner\ninner ::= "(" root ")"')
        n = 0
        while probe.consume(b"(")[0]:
            n += 1
        assert 500 <= n <= 1100, n
        assert probe.mask()[0] >> ord("a") & 1 and not probe.mask()[0] >> ord("(") & 1
        assert "rule" in probe.place() and "line" in probe.place(), probe.place()
        assert probe.consume(b"a" + b")" * n) == (True, True)


STEPS = "compiling this takes more than 16777216 steps"
DOUBLED = "root ::= r0\n" + "".join("r%d ::= r%d r%d\n" % (i, i + 1, i + 1) for i in range(30)) + 'r30 ::= "a"\n'
CHAIN = "root ::= r0\n" + "".join('r%d ::= "a" r%d\n' % (i, i + 1) for i in range(30000)) + 'r30000 ::= "a" | "(" root ")"\n'
HOSTILE = [  # source, words of the refusal; None: it compiles
    (DOUBLED, None), (DOUBLED.replace('"a"', '"a" | "(" root ")"'), None), (CHAIN, None), (CHAIN.replace(' | "(" root ")"', ""), None),
    ("root ::= " + "|".join('"value %d"' % i for i in range(50000)), None), ("root ::= " + '"a"?' * 100000, None),
    ("root ::= " + " ".join("r%d" % i for i in range(20000)) + "".join('\nr%d ::= "x" | "(" r%d ")"' % (i, i) for i in range(20000)), None),
    ('root ::= "' + "x" * 1000000 + '"', None), ('root ::= ("' + "x" * 100000 + '" root?)*', None),
    ("root ::= [" + "".join(chr(0x100 + 2 * i) for i in range(600)) + "]", "too many ranges"),
    ("root ::= " + "[a-zé-ÿ]" * 100000, None), ("root ::= " + "(" * 99 + '"a"' + "){0,9}" * 99, "too many together"),
    ("root ::= " + "(" * 4 + '"a"' + '{0,9} "b"?)' * 4, None),
    ("root ::= " + "(" * 99 + '"a" root?' + "){1,9}" * 99, "too many together"), ("root ::= x" + "\n" * 1000000, "there is no rule x"),
    ("".join("r%d ::= .\n" % i for i in range(70000)), "more than 65536"), ("root ::= " + "|" * 1000000, None),
    ("root ::= (" + "x|" * 300000 + ')\nx ::= "a" root?', "the grammar is too large"), ("# " + "é" * 500000, "no rule root"),
]


@tap.case
def hostile_grammars_end_within_the_bound():
    """Each compiles or is refused, with the same steps of work and words in another process."""
    for i, (source, words) in enumerate(HOSTILE):
        outcomes = []
        for _ in range(2 if ALL or i % 4 == 0 else 1):
            with Probe() as probe:
                probe.vocabulary(TOKENS)
                try:
                    work = probe.compile("gbnf", source)[1]
                    assert work <= 1 << 24
                    probe.mask()
                    probe.consume(b"a" * 20)
                    outcomes.append((work, None))
                except Refused as e:
                    outcomes.append((None, str(e)))
        assert outcomes[0] == outcomes[-1], outcomes
        refusal = outcomes[0][1]
        assert (refusal is None) == (words is None) and (words is None or words in refusal), (source[:80], words, outcomes[0])


@tap.case
def random_bytes_of_grammars():
    rng = random.Random(9)
    bits = ["root", " ::= ", "x", "\n", '"a"', '"', "[", "]", "^", "a-z", "(", ")", "|", "*", "+", "?", "{1,3}", "{", "}", "#", ".", "\\", "\\n",
            "\\x41", "<", "é", " ", "\r\n", "root ::= ", "x ::= ", "\t", "0", ",", "-", "_"]
    compiled, n = 0, 100000 if ALL else 5000
    with Probe() as probe:
        probe.vocabulary(TOKENS)
        for _ in range(n):
            source = "root ::= " * (rng.random() < 0.8) + "".join(rng.choice(bits) for _ in range(rng.randrange(12)))
            try:
                probe.compile("gbnf", source)
                compiled += 1
                probe.mask()
            except Refused as e:
                assert str(e)
    assert 0 < compiled < n, compiled


@tap.case
def as_a_part_of_tags():
    with Probe() as probe:
        probe.compile("tags", '{"seq":[{"text":"<"},{"grammar":"root ::= \\"(\\" root \\")\\" | [ab]"},{"text":">"}]}')
        assert probe.matches(b"<((a))>") and probe.matches(b"<b>") and not probe.matches(b"<((a)>")
        try:
            probe.compile("tags", '{"seq":[{"grammar":"root ::=\\n  x"}]}')
        except Refused as e:
            assert "#/seq/0/grammar: grammar, line 2, column 3: there is no rule x" in str(e), e
        else:
            raise AssertionError("compiled")


if __name__ == "__main__":
    tap.main()
