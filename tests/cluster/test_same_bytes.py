"""The first claim: ids, text and logprobs of 32 requests are the same bytes alone or together, for any step
budget, thread count, world, prefix-cache state, and when sequences are preempted."""
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "quantize")]
import random_model  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Parts, model  # noqa: E402

N_REQUESTS = 32
# a model whose numbers of heads and columns do not divide evenly would be cut into unequal slices: both kinds
MODEL = model("stories260K") or DEMO


def executes(isa):
    """Can the worker's CPU backend run this instruction set on this machine?"""
    return subprocess.run([BIN / "ingot-worker", "--model", DEMO, "--isa", isa, "--inspect"], timeout=tap.LIMIT,
                          capture_output=True).returncode == 0


ISAS = [i for i in ("avx2", "avxvnni", "avx512", "avx512vnni", "amx", "neon", "neondot", "neoni8mm") if executes(i)] or ["plain"]


def requests():
    """Mixed lengths, shared beginnings, greedy and seeded sampling of every kind."""
    rng = random.Random(12345)
    vocab = range(3, 500)
    shared = [1] + [rng.choice(vocab) for _ in range(70)]
    out = []
    for i in range(N_REQUESTS):
        own = [rng.choice(vocab) for _ in range(rng.choice([1, 3, 15, 16, 17, 40]))]
        ids = shared[:rng.choice([1, 16, 33, 64, 71])] + own
        s = {"logprobs": True, "top_logprobs": i % 3, "temperature": 0.0}
        if i % 2:
            s.update(temperature=rng.choice([0.5, 0.8, 1.0, 1.7]), seed=rng.getrandbits(64),
                     top_p=rng.choice([1.0, 0.9]), top_k=rng.choice([0, 20, 40]),
                     min_p=rng.choice([0.0, 0.02]))
        if i % 5 == 0:
            s.update(repetition_penalty=1.2, presence_penalty=0.3, frequency_penalty=0.2)
        if i % 7 == 0:
            s["logit_bias"] = [{"id": 40 + i, "bias": 3.0}, {"id": 300, "bias": -100.0}]
        out.append({"tokens": {"id": ids}, "sampling": s, "max_tokens": rng.choice([5, 24, 48]),
                    "n": 3 if i % 8 == 3 else 1})
    return out


REQUESTS = requests()
oracle = None


def compare(answers, which, what, want=None):
    for i, a in zip(which, answers):
        o = (want or oracle)[i]
        assert a.key() == o.key(), f"{what}: request {i} differs:\n{a.key()}\n{o.key()}"
        assert a.top == o.top, f"{what}: request {i}: other top logprobs"


@tap.case
def oracle_alone_plain_path():
    """One rank, one thread, one request at a time, no cache, plain code."""
    global oracle
    with Parts(MODEL, worker=["--isa", "plain", "--max-step-tokens", "512"],
               coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
        oracle = c.clients[0].answers(REQUESTS, together=False)
    assert len({a.key() for a in oracle}) > N_REQUESTS // 2, "the requests must differ"
    assert any(len(a.ids[0]) > 20 for a in oracle)


def variant(name, together=True, rounds=1, check=None, only=range(N_REQUESTS), **how):
    """only: the requests that are asked, by index"""
    def run():
        assert oracle, "the oracle did not run"
        with Parts(MODEL, **how) as c:
            for i in range(rounds):
                requests = [REQUESTS[k] for k in only]
                meet = check in (preempted, paused)
                answers = c.answers_at_once(requests) if meet else c.clients[0].answers(requests, together)
                compare(answers, only, f"{name}, round {i + 1}")
            if check:
                check(c.clients[0].call("Stats")[1], answers)
    run.__name__ = name
    tap.case(run)


def preempted(stats, _):
    assert stats.preemptions > 0, "the KV cache was not small enough to preempt a sequence"


def paused(stats, answers):
    assert stats.preemptions == 0, "blocks were short"
    assert sum(a.finish.preemptions for a in answers) > 5, "no turn ended while others waited"


def overlapped(stats, _):
    assert stats.steps_overlapped > stats.steps // 4, f"{stats.steps_overlapped} of {stats.steps} steps overlapped"


def not_overlapped(stats, _):
    assert stats.steps > 0 and stats.steps_overlapped == 0, stats


def cached(_, answers):
    assert sum(a.finish.cached_tokens for a in answers) > 1000, "the second round found no cache"


BY_TOKENS = ["--target-itl-ms", "0"]  # how many sequences meet does not depend on the speed
variant("alone_fast_path", together=False)
variant("all_at_once")
for tokens in (8, 64, 512):
    variant(f"max_step_tokens_{tokens}", coordinator=["--max-step-tokens", str(tokens)])
for threads in (2, 3):
    variant(f"threads_{threads}", threads=threads)
for world in (2, 4):
    variant(f"tp{world}_shm", tp=world, coll="shm")
variant("tp2_mpi", tp=2, coll="mpi")
variant("cold_and_warm_cache", rounds=2, check=cached)
variant("no_cache", coordinator=["--no-prefix-cache"])
variant("preempted", worker=["--kv-blocks", "24", "--block-len", "8"], coordinator=BY_TOKENS, check=preempted)
variant("preempted_tp2", tp=2, worker=["--kv-blocks", "24", "--block-len", "8"],
        coordinator=["--max-step-tokens", "32", *BY_TOKENS], check=preempted)
variant("planned_by_tokens", coordinator=BY_TOKENS)
variant("shortest_steps", coordinator=["--target-itl-ms", "0.1", "--max-step-ms", "0.1"])
variant("paused", worker=["--max-seqs", "4"], coordinator=["--turn-tokens", "5"], check=paused)
variant("paused_tp2", tp=2, worker=["--max-seqs", "3"], coordinator=["--turn-tokens", "1"], check=paused)
variant("overlap_off", coordinator=["--no-overlap"], check=not_overlapped)
DEVICE = [i for i, r in enumerate(REQUESTS)
          if "repetition_penalty" not in r["sampling"]
          and (r["sampling"]["temperature"] == 0.0 or 0 < r["sampling"]["top_k"] <= 64)]
assert any(REQUESTS[i]["sampling"]["temperature"] > 0 for i in DEVICE) and len(DEVICE) > 12
variant("overlap_alone", together=False, only=DEVICE, check=overlapped)
for world in (1, 2, 4):
    variant(f"overlap_tp{world}", tp=world, only=DEVICE, check=overlapped)
variant("overlap_preempted", worker=["--kv-blocks", "20", "--block-len", "8"], coordinator=BY_TOKENS, only=DEVICE,
        check=preempted)
variant("block_len_32", worker=["--block-len", "32"])
for isa in ISAS:
    variant(f"isa_{isa}", worker=["--isa", isa])


def quantised(kind):
    """A model of rows of 256, so that every matrix is of that type."""
    few = REQUESTS[:10]

    def run():
        with temp_dir.folder() as folder:
            file = pathlib.Path(folder) / f"{kind}.gguf"
            source = random_model.make(pathlib.Path(folder) / "model")
            subprocess.run([BIN / "ingot-quantize", source, file, "--type", kind], check=True, timeout=tap.LIMIT,
                           capture_output=True)
            with Parts(file, worker=["--isa", "plain"], coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
                want = c.clients[0].answers(few, together=False)
            assert len({a.key() for a in want}) > len(few) // 2, "the requests must differ"
            isas = [{"worker": ["--isa", isa]} for isa in ISAS]
            for how in ({"threads": 2}, {"tp": 2, "coll": "shm"}, {"tp": 4, "coll": "shm"}, *isas):
                with Parts(file, **how) as c:
                    compare(c.clients[0].answers(few, together=True), range(len(few)), f"{kind} {how}", want)
    run.__name__ = f"quantised_{kind}"
    tap.case(run)


quantised("q8_0")
quantised("q4_k")


def rounded(activations):
    """BF16 weights: an order of sums has bytes of its own, the same on every path."""
    few, at, file = REQUESTS[:8], ["--activations", activations], model("stories260K-bf16") or DEMO

    def run():
        with Parts(file, worker=["--isa", "plain", "--activations", "f32"]) as c:
            exact = c.clients[0].answers(few, together=True)
        with Parts(file, worker=["--isa", "plain", *at], coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
            want = c.clients[0].answers(few, together=False)
            numerics = c.clients[0].call("Stats")[1].group[0].numerics
        assert f"/a8-{activations}/" in numerics, numerics
        assert any(a.key() != o.key() for a, o in zip(want, exact)), "as if activations were f32"
        isas = [{"worker": [*at, "--isa", isa]} for isa in ISAS]
        for how in ({"threads": 2, "worker": at}, {"tp": 2, "worker": at}, {"tp": 4, "worker": at}, *isas):
            with Parts(file, **how) as c:
                compare(c.clients[0].answers(few, together=True), range(len(few)), f"{activations} {how}", want)
    run.__name__ = f"activations_{activations.replace('-', '_')}"
    tap.case(run)


rounded("bf16")
rounded("bf16-tiles")


def kv_type(dtype):
    """A quantised cache has bytes of its own, the same on every path."""
    few = REQUESTS[:8]

    def run():
        def alone(kv):
            with Parts(MODEL, worker=["--kv-dtype", kv, "--isa", "plain"],
                       coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
                return c.clients[0].answers(few, together=False)

        want = alone(dtype)
        assert any(a.key() != o.key() for a, o in zip(want, alone("f32"))), "as if the cache were f32"
        small = ["--kv-dtype", dtype, "--kv-blocks", "24", "--block-len", "8"]
        isas = [{"worker": [*small, "--isa", isa]} for isa in ISAS]
        for how in ({"threads": 2, "worker": small[:2]}, {"tp": 2, "worker": small}, *isas):
            with Parts(MODEL, **how) as c:
                compare(c.clients[0].answers(few, together=True), range(len(few)), f"{dtype} {how}", want)
    run.__name__ = f"kv_{dtype}"
    tap.case(run)


kv_type("f16")
kv_type("bf16")
kv_type("int8")
kv_type("e4m3")

tap.main()
