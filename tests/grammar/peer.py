"""Masks of the grammars here beside those of llguidance's wheel (MIT), on the vocabulary of a tokenizer of the shared data:
the same schemas, compact JSON on both sides, the same text in both matchers."""
import bisect
import json
import lzma
import os
import pathlib
import time

import packages
import tap
from probe import Probe, Refused

DATA = pathlib.Path(os.environ.get("INGOT_DATA") or pathlib.Path(__file__).resolve().parents[3] / "shared" / "data")
TOKENIZERS = ("llama-3.1-8b-instruct", "qwen3")


class Pair:
    """Both matchers on one tokenizer; masks are numbers with a bit for each token, special ones apart."""

    def __init__(self, name):
        path = DATA / "tokenizers" / "hf" / name / "tokenizer.json.xz"
        if not path.exists():
            raise tap.Skip("no %s" % path.name)
        self.other = packages.llguidance()
        self.tokenizer = self.other.LLTokenizer(lzma.open(path, "rt").read())
        self.n = self.tokenizer.vocab_size
        special = self.tokenizer.is_special_token
        self.tokens = [b"" if special(i) else self.tokenizer.decode_bytes([i]) for i in range(self.n)]
        self.usual = sum(1 << i for i, t in enumerate(self.tokens) if t)
        self.sorted = sorted((t, i) for i, t in enumerate(self.tokens) if t)
        self.ids_of = {}
        for t, i in self.sorted:
            self.ids_of.setdefault(t, []).append(i)
        self.probe = Probe()
        self.probe.vocabulary(self.tokens)
        self.compile_s, self.mask_s = ([], []), ([], [])  # ours, llguidance's; CPU time of one thread

    def close(self):
        self.probe.__exit__()

    def compile(self, schema):
        """Did both take it?  Then both are at the beginning of a text.  Both times include the first mask."""
        text = json.dumps(schema)
        begin = time.thread_time()
        self.matcher = self.other.LLMatcher(self.tokenizer, self.other.LLMatcher.grammar_from_json_schema(
            text, defaults={"whitespace_flexible": False}), log_level=0)
        if self.matcher.is_error():
            return False
        self.matcher.compute_bitmask()
        theirs = time.thread_time() - begin
        try:
            ns = self.probe.compile("schema", text)[0] + self.probe.mask()[1]
        except Refused:
            return False
        self.compile_s[0].append(ns / 1e9)
        self.compile_s[1].append(theirs)
        return True

    def ids_from(self, text):
        """Tokens that begin with text."""
        for t, i in self.sorted[bisect.bisect_left(self.sorted, (text, 0)):]:
            if not t.startswith(text):
                return
            yield i

    def reset(self):
        self.matcher.reset()
        self.probe.reset()

    def masks(self):
        begin = time.thread_time()
        words = self.matcher.compute_bitmask()
        theirs = time.thread_time() - begin
        ours, ns = self.probe.mask()
        self.mask_s[0].append(ns / 1e9)
        self.mask_s[1].append(theirs)
        return ours & self.usual, int.from_bytes(words, "little") & self.usual

    def consume(self, token):
        self.matcher.consume_token(token)
        assert self.probe.consume(self.tokens[token])[0], (token, self.tokens[token])


def pick(rng, allowed, n):
    """One of the tokens of a mask: mostly a random one, of small masks any."""
    for _ in range(200):
        token = rng.randrange(n)
        if allowed >> token & 1:
            return token
    tokens = []
    while allowed and len(tokens) < 50:
        low = allowed & -allowed
        tokens.append(low.bit_length() - 1)
        allowed ^= low
    return rng.choice(tokens)


def walk(pair, rng, steps=60):
    """Yields (text so far, our mask, llguidance's) along a random text that both take."""
    text = b""
    pair.reset()
    for _ in range(steps):
        ours, theirs = pair.masks()
        yield text, ours, theirs
        both = ours & theirs
        if not both:
            return
        token = pick(rng, both, pair.n)
        pair.consume(token)
        text += pair.tokens[token]
