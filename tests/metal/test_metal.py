"""The Metal backend end to end without a Mac: real processes whose workers use the tests' double of Metal, which runs
the kernels on the host emulator.  Slow, so the requests are few and short."""
import json
import os
import pathlib
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "cluster"), str(pathlib.Path(__file__).resolve().parents[1])]
REAL = pathlib.Path(os.environ.get("INGOT_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
os.environ["INGOT_BIN"] = str(REAL / "emulated")
import tap  # noqa: E402
from cluster import Parts, model  # noqa: E402

METAL = ["--backend", "metal", "--max-seqs", "8", "--max-ctx", "256"]
SHARED = [1] + [(7 * i) % 490 + 3 for i in range(17)]
EXPERTS = pathlib.Path(__file__).resolve().parents[1] / "golden/models/qwen3moe"


def requests():
    """Different lengths, shared beginnings, greedy and sampled."""
    out = []
    for i in range(3):
        ids = SHARED[:[1, 9, 18][i]] + [40 + 3 * i, 9 + i]
        s = {"logprobs": True, "temperature": 0.0 if i % 2 == 0 else 0.9}
        if i % 2:
            s.update(seed=1000 + i, top_p=0.95, top_k=20)
        if i == 2:
            s.update(repetition_penalty=1.2)
        out.append({"tokens": {"id": ids}, "sampling": s, "max_tokens": 4})
    return out


REQUESTS = requests()
oracle = {}


def need(name):
    if not (REAL / "emulated" / "ingot-worker").exists():
        raise tap.Skip("ingot-worker-emulated is not built")
    said = subprocess.run([REAL / "emulated" / "ingot-worker", "--backend", "metal", "--connect", "ipc:///nonexistent/x",
                           "--model", "/nonexistent"], capture_output=True, text=True, timeout=tap.LIMIT).stderr
    if "no backend 'metal'" in said:
        raise tap.Skip("built without libobjc")
    if not model(name):
        raise tap.Skip(f"needs {name} of the shared data")
    return model(name)


def answers(name, together=True, worker=(), **how):
    with Parts(need(name), worker=[*METAL, *worker], **how) as c:
        client = c.clients[0]
        if together:
            rids = [client.start(**r) for r in REQUESTS]
            got = client.collect(rids)
            out = [got[r] for r in rids]
        else:
            out = [client.generate(**r) for r in REQUESTS]
        assert "Metal emulated GPU" in c.log(), c.log()
    for a in out:
        assert a.finish, a.error
    return [a.key() for a in out]


@tap.case
def greedy_ids_are_those_of_the_fixture():
    path = need("stories260K")
    case = json.loads((path / "expected.json").read_text())["cases"][0]
    n = min(8, len(case["ids"]))
    with Parts(path, worker=METAL) as c:
        a = c.clients[0].generate(tokens={"id": case["prompt_ids"]}, max_tokens=n,
                                  sampling={"temperature": 0, "logprobs": True})
        assert a.finish, a.error
        assert a.ids[0] == case["ids"][:n], (a.ids[0], case["ids"][:n])
        worst = max((abs(x - y) for x, y in zip(a.logprobs[0], case.get("logprobs") or [])), default=0)
        assert worst < 1e-4, worst


def same_bytes(name, what, seed="0", **how):
    """seed: of the emulator's thread order"""
    def run():
        os.environ["INGOT_EMULATE_SEED"] = "0"
        if name not in oracle:
            oracle[name] = answers(name, together=False, coordinator=["--no-prefix-cache", "--no-overlap"])
            assert len({k for k in oracle[name]}) == len(REQUESTS), "the requests must differ"
        os.environ["INGOT_EMULATE_SEED"] = seed
        got = answers(name, **how)
        for i, (a, b) in enumerate(zip(got, oracle[name])):
            assert a == b, f"request {i}: {a}, alone {b}"
    run.__name__ = f"{name.replace('-', '_')}_{what}"
    tap.case(run)


same_bytes("stories260K", "together")
same_bytes("stories260K", "in_chunks_and_another_thread_order", seed="11", coordinator=["--max-step-tokens", "8"])
if "INGOT_ALL" in os.environ:
    same_bytes("stories260K-bf16", "together")


def refused(program, *options):
    r = subprocess.run([program, "--backend", "metal", "--inspect", *options], capture_output=True, text=True,
                       timeout=tap.LIMIT)
    assert r.returncode == 3, (r.returncode, r.stderr)
    return r.stderr


@tap.case
def a_build_without_metal_names_it():
    said = refused(REAL / "ingot-worker", "--model", need("stories260K"))
    assert "no backend 'metal' in this build" in said, said


@tap.case
def lacking_parts_of_a_model_are_named():
    need("stories260K")
    said = refused(REAL / "emulated" / "ingot-worker", "--model", EXPERTS)
    assert "experts" in said, said


@tap.case
def one_rank_alone():
    path = need("stories260K")
    said = refused(REAL / "emulated" / "ingot-worker", "--model", path, "--tp", "2")
    assert "--tp 2: the backend metal runs on one rank alone" in said, said


tap.main()
