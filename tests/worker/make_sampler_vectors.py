#!/usr/bin/env python3
"""Writes tests/data/worker/warpers.txt: distributions of HuggingFace's logits warpers on random logits.

One case is three lines: "V temperature top_k top_p min_p", V logits (exact, hexadecimal floats), and V
probabilities after the warpers in the order temperature, top_k, top_p, min_p.  Logits have no ties: at a
tie on the border HuggingFace's top_k keeps more than k tokens and Ingot keeps the lower ids.

Needs torch and transformers.  usage: make_sampler_vectors.py > tests/data/worker/warpers.txt
"""
import itertools

import torch
from transformers import (MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper,
                          TopPLogitsWarper)


def warp(logits, temperature, top_k, top_p, min_p):
    scores = logits.clone().unsqueeze(0)
    steps = []
    if temperature != 1.0:
        steps.append(TemperatureLogitsWarper(temperature))
    if top_k:
        steps.append(TopKLogitsWarper(top_k))
    if top_p < 1.0:
        steps.append(TopPLogitsWarper(top_p))
    if min_p:
        steps.append(MinPLogitsWarper(min_p))
    for step in steps:
        scores = step(None, scores)
    return torch.softmax(scores.double(), dim=-1)[0]


def main():
    torch.manual_seed(20)
    grid = itertools.product([0.3, 1.0, 1.7], [0, 1, 7, 40], [1.0, 0.9, 0.35], [0.0, 0.05, 0.4])
    for n, (temperature, top_k, top_p, min_p) in enumerate(grid):
        vocab = [11, 64, 65, 90][n % 4]
        logits = torch.randn(vocab) * [1.0, 3.0][n % 2]
        assert len(set(logits.tolist())) == vocab
        probs = warp(logits, temperature, min(top_k, vocab), top_p, min_p)
        print(vocab, temperature, top_k, top_p, min_p)
        print(" ".join(x.hex() for x in logits.tolist()))
        print(" ".join("%.9g" % p for p in probs.tolist()))


if __name__ == "__main__":
    main()
