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
            want = case.get("logprobs") or []
            worst = max((abs(x - y) for x, y in zip(a.logprobs[0], want)), default=0)
            assert worst < 1e-4, worst


for world in (1, 2, 4):
    for coll in ("shm", "mpi") if world > 1 else ("local",):
        def run(world=world, coll=coll):
            check("stories260K", tp=world, coll=coll)
        run.__name__ = f"tp{world}_{coll}"
        tap.case(run)


@tap.case
def bf16_shards():
    check("stories260K-bf16", tp=1, coll="local", worker=["--kv-dtype", "f32"])


@tap.case
def bf16_shards_tp2():
    check("stories260K-bf16", tp=2, worker=["--kv-dtype", "f32"])


for file in ("model.gguf", "model-f16.gguf", "model-bf16.gguf", "model-q8_0.gguf", "model-q4_0.gguf"):
    for world in (1, 2, 4):
        def run(file=file, world=world):
            check_gguf(file, tp=world, worker=["--kv-dtype", "f32"])
        run.__name__ = f"gguf_{file.removesuffix('.gguf').replace('-', '_')}_tp{world}"
        tap.case(run)


tap.main()
