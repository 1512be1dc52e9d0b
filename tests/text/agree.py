#!/usr/bin/env python3
"""Compares Ingot's tokenizers with the HuggingFace tokenizers library on random texts.

usage: agree.py PROBE TOKENIZER.json [--texts N] [--seed S] [--newest]

PROBE is the program tokenizer_probe.  Ids, ids with special tokens and both decodings must be equal.  Texts are made of
words, blanks, marks, emoji, digits, added tokens and any assigned character; --newest takes characters that this
Python's Unicode version does not know, too, where libraries of different age may differ.
"""
import argparse
import os
import random
import subprocess
import sys
import unicodedata

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

WORDS = ("the of and Ingot tensor it's don't we'll I'd they've you're THE It'S 2024 3.14 1234567 x86_64 foo_bar() "
         "naïve café Straße über ﬁne Zoë Ελλάδα привет мир שלום مرحبا हिन्दी ไทย 日本語 中文 한국어 えーっと "
         "http://a.b/c?d=e&f=%20 <html> {\"a\": [1, 2]} #include <stdio.h> \\n\\t ... --- === !!! ?! $5 €9 ½ ² Ⅷ ①"
         ).split(" ")
BLANKS = [" ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "\u2003", "\u200b", "\x85",
          "        ", "\u2028", "\u180e", "\x0b"]
EMOJI = "😀🦙👩‍👩‍👧🏳️‍🌈👍🏽🇩🇪❤️✨🫠"


def scalar(rng, newest):
    while True:
        cp = rng.choice((rng.randrange(0x20, 0x7F), rng.randrange(0x80, 0x800), rng.randrange(0x800, 0x3100),
                         rng.randrange(0x3100, 0xFFFE), rng.randrange(0x10000, 0x20000), rng.randrange(0x110000)))
        if 0xD800 <= cp < 0xE000:
            continue
        if newest or unicodedata.category(chr(cp)) not in ("Cn",):
            return chr(cp)


def text(rng, specials, newest):
    parts = []
    for _ in range(rng.randrange(1, 12)):
        kind = rng.random()
        if kind < 0.45:
            parts.append(rng.choice(WORDS))
        elif kind < 0.7:
            parts.append(rng.choice(BLANKS))
        elif kind < 0.75:
            parts.append(rng.choice(EMOJI) * rng.randrange(1, 3))
        elif kind < 0.8 and specials:
            parts.append(rng.choice(specials))
        elif kind < 0.85:
            parts.append(rng.choice("aeouAnç가か") + "".join(chr(rng.randrange(0x300, 0x36F)) for _ in range(rng.randrange(1, 4))))
        elif kind < 0.9:
            parts.append(rng.choice("a .=-\n0_'\u2581é語") * rng.randrange(1, 40))
        else:
            parts.append("".join(scalar(rng, newest) for _ in range(rng.randrange(1, 6))))
        if rng.random() < 0.5:
            parts.append(" ")
    return "".join(parts)


def probe(program, path, texts):
    """[(ids, ids with special tokens, decoded, decoded without special tokens)]"""
    data = b"".join(b"%d\n" % len(t) + t for t in (t.encode() for t in texts))
    run = subprocess.run([program, path], input=data, capture_output=True, check=False)
    if run.returncode:
        raise SystemExit(f"{path}: {run.stderr.decode()}")
    out, at, answers = run.stdout, 0, []
    while at < len(out):
        end = out.index(b"\n", at)
        plain, special = (list(map(int, part.split())) for part in out[at:end].decode().split("|"))
        at, end = end + 1, out.index(b"\n", end + 1)
        n, k = map(int, out[at:end].split())
        at = end + 1
        answers.append((plain, special, out[at:at + n].decode(), out[at + n:at + n + k].decode()))
        at += n + k + 1
    return answers


def oracle(tok, texts):
    answers = []
    plain = tok.encode_batch_fast(texts, add_special_tokens=False)
    special = tok.encode_batch_fast(texts, add_special_tokens=True)
    for p, s in zip(plain, special):
        answers.append((p.ids, s.ids, tok.decode(p.ids, skip_special_tokens=False),
                        tok.decode(p.ids, skip_special_tokens=True)))
    return answers


def main():
    from tokenizers import Tokenizer
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("probe")
    parser.add_argument("tokenizer")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--newest", action="store_true")
    args = parser.parse_args()
    tok = Tokenizer.from_file(args.tokenizer)
    tok.no_truncation()
    tok.no_padding()
    specials = [t.content for t in tok.get_added_tokens_decoder().values()]
    rng = random.Random(args.seed)
    wrong = done = 0
    while done < args.texts:
        texts = [text(rng, specials, args.newest) for _ in range(min(5000, args.texts - done))]
        for t, ours, theirs in zip(texts, probe(args.probe, args.tokenizer, texts), oracle(tok, texts)):
            if ours != theirs:
                wrong += 1
                if wrong <= 5:
                    print(f"{t!r}\n  ours   {ours}\n  theirs {theirs}")
        done += len(texts)
    print(f"{args.tokenizer}: {done} texts, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
