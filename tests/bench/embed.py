#!/usr/bin/env python3
"""Texts a second of an encoder through Embed, beside sentence-transformers, and what they do to streams of a decoder.

    build/venv/bin/python tests/bench/embed.py --shape minilm --tokens 128 [--texts 400] [--peer PYTHON]
    build/venv/bin/python tests/bench/embed.py --shape minilm --tokens 8 --texts 100000
    build/venv/bin/python tests/bench/embed.py --decoder DIR --streams 16 --texts 2000 [--rate 100]

The weights of a shape are random.  --peer: a Python with sentence-transformers, which computes the same folder with the
same number of threads, 32 texts at a time.  --decoder: a folder of a decoder that gives embeddings (or any, --embed is
passed); its streams run alone, then beside texts at that rate; the times between their tokens are printed.
"""
import argparse
import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

import numpy as np

HERE = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(HERE / "cluster"), str(HERE)]
import ingot_client  # noqa: E402
from cluster import Parts  # noqa: E402

SHAPES = {"minilm": (384, 6, 12, 1536), "bert-base": (768, 12, 12, 3072)}  # all-MiniLM-L6, BERT base
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCAB = 30522
FINISH, ERROR, DELTA = (next(n for n, c in ingot_client.CLASS_OF.items() if c == name) for name in ("Finish", "Error", "Delta"))

PEER = """
import json, sys, time, torch
from sentence_transformers import SentenceTransformer
folder, texts, threads = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
torch.set_num_threads(threads)
m = SentenceTransformer(folder, device="cpu")
m.encode(texts[:32], batch_size=32)
best = 0
for _ in range(int(sys.argv[4])):
    t = time.perf_counter(); v = m.encode(texts, batch_size=32); best = max(best, len(texts) / (time.perf_counter() - t))
print(json.dumps({"rate": best, "tokens": len(m.tokenizer(texts[0])["input_ids"]), "first": v[0].tolist()}))
"""


def words():
    """30,522 entries as a WordPiece vocabulary has them: special ones, letters, words."""
    named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + c for c in LETTERS)]
    rnd = random.Random(1)
    more = set()
    while len(more) < VOCAB - len(named):
        more.add("".join(rnd.choice(LETTERS) for _ in range(rnd.randint(3, 8))))
    return named + sorted(more)


def safetensors(path, tensors):
    at, head = 0, {}
    for name, x in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for x in tensors.values():
            f.write(x.tobytes())


def make(folder, shape, vocab):
    """A BERT with mean pooling and Normalize."""
    d, n_layers, heads, ffn = SHAPES[shape]
    rnd = np.random.default_rng(0)
    t = {}

    def matrix(name, rows, cols):
        t[name + ".weight"] = rnd.standard_normal((rows, cols), dtype=np.float32) * np.float32(0.04)

    def linear(name, rows, cols):
        matrix(name, rows, cols)
        t[name + ".bias"] = np.zeros(rows, np.float32)

    def norm(name):
        t[name + ".weight"], t[name + ".bias"] = np.ones(d, np.float32), np.zeros(d, np.float32)

    for name, rows in (("word", VOCAB), ("position", 512), ("token_type", 2)):
        matrix(f"embeddings.{name}_embeddings", rows, d)
    norm("embeddings.LayerNorm")
    for i in range(n_layers):
        at = f"encoder.layer.{i}."
        for part in ("query", "key", "value"):
            linear(at + "attention.self." + part, d, d)
        linear(at + "attention.output.dense", d, d)
        linear(at + "intermediate.dense", ffn, d)
        linear(at + "output.dense", d, ffn)
        norm(at + "attention.output.LayerNorm")
        norm(at + "output.LayerNorm")
    linear("pooler.dense", d, d)
    safetensors(folder / "model.safetensors", t)
    ids = {w: i for i, w in enumerate(vocab)}
    files = {
        "config.json": {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": d, "num_hidden_layers": n_layers,
                        "num_attention_heads": heads, "intermediate_size": ffn, "vocab_size": VOCAB,
                        "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12},
        "modules.json": [{"idx": i, "name": str(i), "path": p, "type": "sentence_transformers.models." + k} for i, (k, p) in
                         enumerate((("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")))],
        "1_Pooling/config.json": {"word_embedding_dimension": d, "pooling_mode_mean_tokens": True},
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizer", "model_max_length": 512, "pad_token": "[PAD]",
                                  "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "mask_token": "[MASK]"},
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "added_tokens": [{"id": i, "content": vocab[i], "special": True, "single_word": False, "lstrip": False,
                              "rstrip": False, "normalized": False} for i in range(5)],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                           "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100, "vocab": ids}}}
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value))


def texts_of(vocab, n, tokens):
    rnd = random.Random(2)
    return [" ".join(rnd.choice(vocab[100:]) for _ in range(tokens - 2)) for _ in range(n)]


def embed_all(client, texts, window):
    """Seconds for all texts, at most `window` on their way."""
    sent = done = 0
    run = uuid.uuid4().hex  # a request_id that is used again attaches to the request before
    begin = time.monotonic()
    while done < len(texts):
        while sent < len(texts) and sent - done < window:
            client.send_raw(ingot_client.pack("Generate", request_id=f"{run}-{sent}", text=texts[sent].encode(), add_special=True,
                                              embed={}))
            sent += 1
        frame = client.sock.recv()
        kind = ingot_client.HEADER.unpack_from(frame)[3]
        if kind == ERROR:
            raise SystemExit(ingot_client.unpack(frame))
        done += kind == FINISH
    return time.monotonic() - begin


def encoder(a, folder):
    vocab = words()
    make(folder, a.shape, vocab)
    texts = texts_of(vocab, a.texts, a.tokens)
    with Parts(folder, threads=a.threads, worker=a.worker, coordinator=["--max-queued", 4096]) as c:
        client = c.clients[0]
        first = client.generate(text=texts[0].encode(), embed={}, add_special=True).finish
        embed_all(client, texts[:a.window], a.window)
        rate = max(len(texts) / embed_all(client, texts, a.window) for _ in range(a.rounds))
    print(f"{a.shape}, {first.prompt_tokens} tokens, {a.threads} threads: Ingot {rate:.1f} texts/s")
    if a.peer:
        (folder / "texts").write_text(json.dumps(texts))
        p = subprocess.run([a.peer, "-c", PEER, folder, folder / "texts", str(a.threads), str(a.rounds)], check=True,
                           stdout=subprocess.PIPE, text=True)
        peer = json.loads(p.stdout.splitlines()[-1])
        off = float(np.abs(np.array(peer["first"]) - np.array(first.embedding)).max() / np.abs(peer["first"]).max())
        assert peer["tokens"] == first.prompt_tokens and off < 1e-4, (peer["tokens"], off)
        print(f"    sentence-transformers {peer['rate']:.1f} texts/s; Ingot / it = {rate / peer['rate']:.2f}; "
              f"vectors differ by {off:.1e}")


def gaps_of(client, a, texts):
    """Milliseconds between the tokens of the streams, with texts sent at the rate."""
    streams = {uuid.uuid4().hex: None for _ in range(a.streams)}
    for i, rid in enumerate(streams):
        client.start(request_id=rid, tokens={"id": [3 + (7 * i + k) % 200 for k in range(32)]}, max_tokens=a.answer,
                     sampling={"temperature": 0, "ignore_eos": True})
    gaps, begin, sent, done, ended = [], time.monotonic(), 0, 0, 0
    while ended < a.streams:
        now = time.monotonic()
        while sent < len(texts) and now - begin > sent / a.rate:
            client.send_raw(ingot_client.pack("Generate", request_id=uuid.uuid4().hex, text=texts[sent].encode(), embed={}))
            sent += 1
        if not client.sock.poll(1):
            continue
        name, m = ingot_client.unpack(client.sock.recv())
        if name == "Error":
            raise SystemExit(m)
        if m.request_id not in streams:
            done += name == "Finish"
            continue
        if name == "Delta":
            if streams[m.request_id]:
                gaps.append((time.monotonic() - streams[m.request_id]) * 1e3)
            streams[m.request_id] = time.monotonic()
        ended += name == "Finish"
    seconds = time.monotonic() - begin
    gaps.sort()
    print(f"    {a.streams * a.answer / seconds:.1f} tokens/s; between tokens p50 {statistics.median(gaps):.1f} ms, "
          f"p99 {gaps[len(gaps) * 99 // 100]:.1f} ms; {done / seconds:.1f} texts/s of {sent} sent")


def decoder(a):
    rnd = random.Random(3)
    texts = [" ".join("".join(rnd.choice(LETTERS) for _ in range(4)) for _ in range(a.tokens // 2)) for _ in range(a.texts)]
    with Parts(a.decoder, threads=a.threads, worker=["--embed", *a.worker], coordinator=["--embed", "--max-queued", 4096]) as c:
        embed_all(c.clients[0], texts[:64], 16)
        print(f"{a.streams} streams of {a.answer} tokens alone:")
        gaps_of(c.clients[0], a, [])
        print(f"beside texts at {a.rate:g} a second:")
        gaps_of(c.clients[0], a, texts)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--shape", choices=SHAPES, default="minilm")
    ap.add_argument("--tokens", type=int, default=128, help="of a text, with [CLS] and [SEP]")
    ap.add_argument("--texts", type=int, default=256)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=2, help="the best one counts")
    ap.add_argument("--window", type=int, default=256, help="texts on their way at once")
    ap.add_argument("--peer", metavar="PYTHON")
    ap.add_argument("--decoder", metavar="DIR")
    ap.add_argument("--streams", type=int, default=16)
    ap.add_argument("--answer", type=int, default=64, help="tokens of a stream's answer")
    ap.add_argument("--rate", type=float, default=50, help="texts a second beside the streams")
    ap.add_argument("worker", nargs="*", help="options of ingot-worker, behind --")
    a = ap.parse_args()
    with contextlib.ExitStack() as stack:
        if a.decoder:
            decoder(a)
        else:
            encoder(a, pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())))


if __name__ == "__main__":
    main()
