"""A model whose values exceed the range of an f16 KV cache for one token, and what a backend must do with it: the request
with that token fails, with the reason and the advice; the other streams and the worker group go on; --kv-dtype bf16
serves it.  test_not_finite.py and test_cuda_not_finite.py call it."""
import pathlib
import shutil

import numpy as np
from cluster import DEMO, Parts
from experts_model import read_safetensors, write_safetensors

LOUD, QUIET = 700, 701  # tokens
GREEDY = {"temperature": 0.0, "ignore_eos": True}


def bf16(values):
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2")


def make(parent):
    """The demo model, where one dimension of the embedding belongs to one token alone, and the first layer's
    values answer to it with 1e6."""
    folder = pathlib.Path(parent) / "loud"
    shutil.copytree(DEMO, folder)
    for file in folder.glob("*.safetensors"):
        tensors = read_safetensors(file)
        for name, change in (("model.embed_tokens.weight", embed), ("model.layers.0.self_attn.v_proj.weight", v)):
            if name in tensors:
                kind, shape, data = tensors[name]
                assert kind == "BF16"
                w = np.frombuffer(data, "<u2").reshape(shape).copy()
                change(w)
                tensors[name] = (kind, shape, w.tobytes())
        write_safetensors(file, tensors)
    return folder


def embed(w):
    w[:, 0] = 0
    w[LOUD] = 0
    w[LOUD, 0] = bf16(np.array([1.0]))[0]


def v(w):
    w[:, 0] = bf16(np.full(len(w), 1e6))


def prompt(token):
    return {"id": [1, *range(300, 340), token, 310]}


def one_fails_the_others_go_on(model, samplings, n=40, **how):
    def ask(token, sampling):
        return {"tokens": prompt(token), "max_tokens": n, "sampling": {**GREEDY, **sampling}}

    with Parts(model, **how) as c:
        client = c.clients[0]
        want = client.generate(**ask(QUIET, {})).ids
        for sampling in samplings:
            expected = client.generate(**ask(QUIET, sampling)).ids
            good = [client.start(**ask(QUIET, sampling)) for _ in range(3)]
            bad = [client.start(**ask(LOUD, sampling)) for _ in range(2)]
            got = client.collect(good + bad)
            assert all(got[r].finish and got[r].ids == expected for r in good), (sampling, [got[r].error for r in good])
            for r in bad:
                name, e = got[r].error
                assert name == "Error" and "not finite" in e.detail and "--kv-dtype bf16" in e.detail and not e.retryable, e
        assert client.call("Stats")[1].recoveries == 0
        assert client.generate(**ask(QUIET, {})).ids == want


def the_advice_helps(model, worker=(), **how):
    with Parts(model, worker=[*worker, "--kv-dtype", "bf16"], **how) as c:
        got = c.clients[0].generate(tokens=prompt(LOUD), max_tokens=8, sampling=GREEDY)
        assert got.finish and len(got.ids[0]) == 8, got.error
