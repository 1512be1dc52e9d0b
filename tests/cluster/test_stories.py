"""stories260K through real processes: greedy ids equal to what run.c printed."""
import json
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
from cluster import Parts, model  # noqa: E402


def check(name, **how):
    path = model(name)
    if not path:
        raise tap.Skip(f"needs {name} of the shared data")
    compare(path, json.loads((path / "expected.json").read_text())["cases"], **how)


def check_gguf(file, **how):
    path = model("stories260K")
    if not path:
        raise tap.Skip("needs stories260K of the shared data")
    files = json.loads((path / "gguf_expected.json").read_text())["files"]
    (cases,) = [f["cases"] for f in files if f["file"] == file]
    compare(path / file, cases, **how)


def compare(path, cases, **how):
    with Parts(path, **how) as c:
        client = c.clients[0]
        for case in cases:
            a = client.generate(tokens={"id": case["prompt_ids"]}, max_tokens=len(case["ids"]),
                                sampling={"temperature": 0, "logprobs": True})
            assert a.finish, a.error
            assert a.ids[0] == case["ids"], (a.ids[0], case["ids"])
            t = client.generate(text=case["prompt"].encode(), max_tokens=len(case["ids"]),
                                sampling={"temperature": 0})
            assert t.ids[0] == case["ids"] and t.accepted.prompt_tokens == len(case["prompt_ids"])
            for text in (a.text[0], t.text[0]):  # with the blank between prompt and answer
                assert text.decode() == case["new_text"], (text, case["new_text"])
            want = case.get("logprobs") or []
            worst = max((abs(x - y) for x, y in zip(a.logprobs[0], want)), default=0)
            assert worst < 1e-4, worst


for world in (1, 2, 4):
    for coll in ("shm", "mpi") if world > 1 else ("local",):
        def run(world=world, coll=coll):
            check("stories260K", tp=world, coll=coll)
        run.__name__ = f"tp{world}_{coll}"
        tap.case(run)


# what a comparison at 1e-4 needs: neither the cache nor activations are rounded
EXACT = ["--kv-dtype", "f32", "--activations", "f32"]


@tap.case
def bf16_shards():
    check("stories260K-bf16", tp=1, coll="local", worker=EXACT)


@tap.case
def bf16_shards_tp2():
    check("stories260K-bf16", tp=2, worker=EXACT)


@tap.case
def rounded_activations_stay_near_exact_ones():
    """Log probabilities up to the first other id; 8 bits of significance give a relative error of 2^-9 a product."""
    exact, cases = answers("model-bf16.gguf", worker=EXACT)
    worst, common = 0, 0
    for order in ("bf16", "bf16-tiles"):
        got, _ = answers("model-bf16.gguf", worker=["--kv-dtype", "f32", "--activations", order])
        assert got != exact, "as if activations were f32"
        for (ids, logprobs), (want_ids, want) in zip(got, exact):
            assert ids[0] == want_ids[0], order
            for i, j, x, y in zip(ids, want_ids, logprobs, want):
                if i != j:
                    break
                worst, common = max(worst, abs(x - y)), common + 1
    assert worst < 0.05 and common > 32 * len(cases), (worst, common)


for file in ("model.gguf", "model-f16.gguf", "model-bf16.gguf"):
    for world in (1, 2, 4):
        def run(file=file, world=world):
            check_gguf(file, tp=world, worker=EXACT)
        run.__name__ = f"gguf_{file.removesuffix('.gguf').replace('-', '_')}_tp{world}"
        tap.case(run)


def answers(file, **how):
    """Ids and log probabilities of every case."""
    path = model("stories260K")
    if not path:
        raise tap.Skip("needs stories260K of the shared data")
    files = json.loads((path / "gguf_expected.json").read_text())["files"]
    (cases,) = [f["cases"] for f in files if f["file"] == file]
    with Parts(path / file, **how) as c:
        got = [c.clients[0].generate(tokens={"id": case["prompt_ids"]}, max_tokens=64,
                                     sampling={"temperature": 0, "logprobs": True}) for case in cases]
    assert all(a.finish for a in got), [a.error for a in got]
    return [(a.ids[0], a.logprobs[0]) for a in got], cases


# Quantised weights meet activations in 8 bits, so that ids may leave those of the dequantised weights (which
# gguf_expected.json has) after some tokens: the first one is held against them, all are the same on any ranks.
for file in ("model-q8_0.gguf", "model-q4_0.gguf"):
    def run(file=file):
        want, cases = answers(file, worker=["--kv-dtype", "f32", "--isa", "plain"])
        for (ids, _), case in zip(want, cases):
            assert ids[0] == case["ids"][0]
        for world in (1, 2, 4):
            got, _ = answers(file, tp=world, worker=["--kv-dtype", "f32"])
            assert got == want, f"other bytes on {world} ranks"
    run.__name__ = f"gguf_{file.removesuffix('.gguf').replace('-', '_')}_same_on_1_2_4_ranks"
    tap.case(run)


tap.main()
