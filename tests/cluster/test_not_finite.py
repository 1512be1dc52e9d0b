"""A model whose values exceed the range of an f16 KV cache for one token: the request with that token fails, with
the reason and the advice; the other streams and the worker group go on; --kv-dtype bf16 serves it."""
import pathlib
import shutil
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import numpy as np  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO, Parts  # noqa: E402
from experts_model import read_safetensors, write_safetensors  # noqa: E402

DIR = pathlib.Path(temp_dir.make())
LOUD, QUIET = 700, 701  # tokens
GREEDY = {"temperature": 0.0, "ignore_eos": True}


def bf16(values):
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2")


def make():
    """The demo model, where one dimension of the embedding belongs to one token alone, and the first layer's
    values answer to it with 1e6."""
    folder = DIR / "loud"
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


MODEL = make()


def prompt(token):
    return {"id": [1, *range(300, 340), token, 310]}


def alone(client, **sampling):
    return client.generate(tokens=prompt(QUIET), max_tokens=40, sampling={**GREEDY, **sampling})


def one_fails_the_others_go_on(tp):
    with Parts(MODEL, tp=tp) as c:
        client = c.clients[0]
        want = alone(client).ids
        for sampling in ({}, {"repetition_penalty": 1.1}, {"temperature": 1.0, "seed": 5}):
            expected = alone(client, **sampling).ids
            good = [client.start(tokens=prompt(QUIET), max_tokens=40, sampling={**GREEDY, **sampling})
                    for _ in range(3)]
            bad = [client.start(tokens=prompt(LOUD), max_tokens=40, sampling={**GREEDY, **sampling}) for _ in range(2)]
            got = client.collect(good + bad)
            assert all(got[r].finish and got[r].ids == expected for r in good), (sampling, [got[r].error for r in good])
            for r in bad:
                name, e = got[r].error
                assert name == "Error" and "not finite" in e.detail and "--kv-dtype bf16" in e.detail and not e.retryable, e
        assert client.call("Stats")[1].recoveries == 0
        assert alone(client).ids == want


@tap.case
def on_one_rank():
    one_fails_the_others_go_on(1)


@tap.case
def on_two_ranks():
    one_fails_the_others_go_on(2)


@tap.case
def the_advice_helps():
    with Parts(MODEL, worker=["--kv-dtype", "bf16"]) as c:
        got = c.clients[0].generate(tokens=prompt(LOUD), max_tokens=8, sampling=GREEDY)
        assert got.finish and len(got.ids[0]) == 8, got.error


try:
    tap.main()
finally:
    shutil.rmtree(DIR, ignore_errors=True)
