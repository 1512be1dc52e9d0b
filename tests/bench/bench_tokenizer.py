#!/usr/bin/env python3
"""Times Ingot's tokenizer and the HuggingFace tokenizers library in one run, each on one thread, by CPU time.

usage: bench_tokenizer.py BENCH_TOKENIZER TOKENIZER.json...

The text is 1 MiB of a mixture: this repository's documents and sources, and other scripts and emoji.  Small pieces of
it in random order, the same for both."""
import glob
import os
import random
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
OTHER = ("Die Größe der Straße, ein Café à la carte; año, naïve. Привет, мир! Это простой текст о погоде и людях. "
         "Καλημέρα κόσμε. 今日は天気がいいから散歩しましょう。我们今天去公园散步。안녕하세요 세계. हिन्दी में पाठ। "
         "שלום עולם. مرحبا بالعالم. 😀🦙👩‍👩‍👧 ½ ² — “quotes” … 3.14159 2024-01-31 12:30 ")


def mixture(size):
    rng = random.Random(1)
    prose = "".join(open(f, encoding="utf-8").read() for f in sorted(glob.glob(ROOT + "/*.md")))
    code = "".join(open(f, encoding="utf-8").read() for f in sorted(glob.glob(ROOT + "/co*/**/*.c", recursive=True)))
    prose = prose if len(prose) > 5000 else code
    out, n = [], 0
    while n < size:
        source, length = rng.choices(((prose, 1500), (code, 800), (OTHER * 2, 150)), (6, 3, 1))[0]
        at = rng.randrange(len(source) - length)
        out.append(source[at:at + length])
        n += len(out[-1].encode())
    return "".join(out).encode()[:size].decode("utf-8", "ignore")


def best_ms(call, rounds):
    best = None
    for _ in range(rounds):
        start = time.process_time()
        result = call()
        ms = (time.process_time() - start) * 1e3
        best = ms if best is None else min(best, ms)
    return best, result


def main():
    from tokenizers import Tokenizer
    program, paths = sys.argv[1], sys.argv[2:]
    text = mixture(1 << 20)
    with tempfile.NamedTemporaryFile("wb", suffix=".txt") as f:
        f.write(text.encode())
        f.flush()
        for path in paths:
            lines = subprocess.run([program, path, f.name], capture_output=True, text=True, check=True).stdout.split("\n")
            load, tok = best_ms(lambda: Tokenizer.from_file(path), 2)
            tok.no_truncation()
            print(f"{path}\n  load: {lines[0].split()[1]} ms, HuggingFace {load:.0f} ms")
            for line in lines[1:3]:
                _, size, ours, n_ours = line.split()
                part = text.encode()[:int(size)].decode("utf-8", "ignore")
                theirs, n = best_ms(lambda: len(tok.encode_batch_fast([part], add_special_tokens=False)[0].ids), 8 if int(size) < 1e5 else 3)
                if n != int(n_ours):
                    raise SystemExit(f"{path}: {n_ours} tokens, HuggingFace {n}")
                print(f"  {size} bytes, {n} tokens: {float(ours):.2f} ms ({int(size) / float(ours) / 1e3:.1f} MB/s), "
                      f"HuggingFace {theirs:.2f} ms: {theirs / float(ours):.1f}x")


if __name__ == "__main__":
    main()
