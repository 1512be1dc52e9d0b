"""A mixture of experts through the whole system: the answers of the dense model that it is made of, and the
same bytes alone or together, on 1, 2, 4 and 8 ranks, in small steps and when sequences are preempted."""
import json
import pathlib
import random
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Parts  # noqa: E402
from experts_model import N_EXPERTS, TOP_K, make_mixture  # noqa: E402

FOLDER = temp_dir.make()
MODEL = make_mixture(DEMO, pathlib.Path(FOLDER))
EXPECTED = json.loads((DEMO.parents[1] / "tests/golden/demo_expected.json").read_text())
oracle = None


def requests():
    rng = random.Random(77)
    out = []
    for i in range(12):
        case = EXPECTED["cases"][i % len(EXPECTED["cases"])]
        s = {"logprobs": True, "top_logprobs": i % 3, "temperature": 0.0}
        if i % 2:
            s.update(temperature=rng.choice([0.7, 1.3]), seed=rng.getrandbits(64), top_k=rng.choice([0, 20]))
        out.append({"tokens": {"id": case["prompt_ids"][:rng.choice([5, 11, 99])]}, "sampling": s,
                    "max_tokens": rng.choice([8, 24, 40]), "n": 2 if i % 5 == 3 else 1})
    return out


REQUESTS = requests()


def ingot(*args):
    p = subprocess.run([BIN / "ingot", *args], capture_output=True, text=True, timeout=tap.LIMIT)
    assert p.returncode == 0, p.stderr
    return p.stdout


@tap.case
def inspect_tells_of_the_experts():
    report = json.loads(ingot("inspect", MODEL, "--tp", "2", "--json"))
    config = report["config"]
    assert config["experts"] == N_EXPERTS and config["experts_per_token"] == TOP_K
    assert config["sparse_layers"] == config["layers"]
    assert f"{N_EXPERTS} of 384 columns in 5 of 5 layers" in ingot("inspect", MODEL)


@tap.case
def run_answers_as_the_dense_model():
    for tp in ("1", "2"):
        out = ingot("run", MODEL, "--tp", tp, "--threads", "1", "--message", "What is Ingot?", "--temperature", "0",
                    "--max-tokens", "40")
        assert out.strip() == EXPECTED["cases"][0]["text"], out


@tap.case
def oracle_alone_plain_path():
    """One rank, one thread, one request at a time, no cache, plain code."""
    global oracle
    with Parts(MODEL, worker=["--isa", "plain", "--max-step-tokens", "512"],
               coordinator=["--no-prefix-cache"]) as c:
        oracle = c.clients[0].answers(REQUESTS, together=False)
    assert len({a.key() for a in oracle}) > len(REQUESTS) // 2, "the requests must differ"
    assert any(len(a.ids[0]) > 20 for a in oracle)


def variant(name, check=None, **how):
    def run():
        assert oracle, "the oracle did not run"
        with Parts(MODEL, **how) as c:
            answers = c.answers_at_once(REQUESTS) if check is preempted else c.clients[0].answers(REQUESTS)
            for i, (a, o) in enumerate(zip(answers, oracle)):
                assert a.key() == o.key(), f"{name}: request {i} differs:\n{a.key()}\n{o.key()}"
                assert a.top == o.top, f"{name}: request {i}: other top logprobs"
            if check:
                check(c.clients[0].call("Stats")[1])
    run.__name__ = name
    tap.case(run)


def preempted(stats):
    assert stats.preemptions > 0, "the KV cache was not small enough to preempt a sequence"


variant("all_at_once")
variant("max_step_tokens_8", threads=2, coordinator=["--max-step-tokens", "8"])
for world in (2, 4, 8):
    variant(f"tp{world}_shm", tp=world, coll="shm")
variant("tp2_mpi", tp=2, coll="mpi")
variant("preempted_tp2", tp=2, worker=["--kv-blocks", "24", "--block-len", "8"],
        coordinator=["--max-step-tokens", "32", "--target-itl-ms", "0"], check=preempted)

tap.main()
