"""One kind of model through the whole system: the same bytes alone or together, on 1, 2 and 4 ranks, in small steps,
from the prefix cache, when sequences are preempted and when a rank is killed. Tests of a kind (test_sinks.py,
test_latent.py, test_delta.py, test_mamba.py) call register and then tap.main."""
import os
import pathlib
import random
import signal
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
from cluster import Cluster, Parts  # noqa: E402
from ingot_client import Answer  # noqa: E402

MODEL, REQUESTS, SHARES = None, None, None  # of register
oracle = None


def requests(border):
    """Prompts shorter and longer than border tokens, some of which begin alike."""
    rng = random.Random(31)
    common = [rng.randrange(20, 2000) for _ in range(3 * border)]
    out = []
    for i in range(10):
        ids = common[:rng.choice([10, border + 7, 3 * border])] + [rng.randrange(20, 2000) for _ in range(5)]
        s = {"temperature": 0.9 if i % 2 else 0.0, "seed": i + 1, "top_k": rng.choice([0, 20]), "logprobs": True,
             "ignore_eos": True}
        out.append({"tokens": {"id": ids}, "sampling": s, "max_tokens": rng.choice([16, 48])})
    return out


def check(answers, name):
    assert oracle, "the oracle did not run"
    for i, (a, o) in enumerate(zip(answers, oracle)):
        assert a.key() == o, f"{name}: request {i} differs:\n{a.key()}\n{o}"


def oracle_alone_plain_path():
    """One rank, one thread, one request at a time, no cache, plain code."""
    global oracle
    with Parts(MODEL, worker=["--isa", "plain", "--max-step-tokens", "512"], coordinator=["--no-prefix-cache"]) as c:
        oracle = [a.key() for a in c.clients[0].answers(REQUESTS, together=False)]
    assert len(set(oracle)) > len(REQUESTS) // 2, "the requests must differ"


def again_with_the_prefix_cache():
    """The third time also a model with states has hits: the second time it keeps them where prompts begin alike."""
    with Parts(MODEL) as c:
        for time in ("first", "second", "third"):
            check(c.clients[0].answers(REQUESTS), time)
        assert (c.clients[0].call("Stats")[1].prefix_hits > 0) == SHARES


def ranks_and_small_steps():
    for world in (2, 4):
        with Parts(MODEL, tp=world, coll="shm", coordinator=["--max-step-tokens", "24"]) as c:
            check(c.clients[0].answers(REQUESTS), f"{world} ranks")


def preempted():
    with Parts(MODEL, tp=2, worker=["--kv-blocks", "24", "--block-len", "8"],
               coordinator=["--max-step-tokens", "32", "--target-itl-ms", "0"]) as c:
        check(c.answers_at_once(REQUESTS), "preempted")
        assert c.clients[0].call("Stats")[1].preemptions > 0


def a_rank_is_killed():
    with Cluster(MODEL, tp=2) as c:
        client = c.clients[0]
        for victim in range(2):
            client.wait_ready()
            rids = [client.start(**r) for r in REQUESTS]
            answers, deltas, hurt = {r: Answer() for r in rids}, 0, False
            while any(not a.terminals for a in answers.values()):
                name, m = client.recv()
                if m.request_id in answers:
                    answers[m.request_id].take(name, m)
                    deltas += name == "Delta"
                if deltas > 20 and not hurt:
                    os.kill(c.worker_pids()[victim], signal.SIGKILL)
                    hurt = True
            assert hurt
            check([answers[r] for r in rids], f"rank {victim} killed")
        assert client.call("Stats")[1].recoveries > 0


def register(model, border, shares=True):
    """The cases with this model; shares: prompts take blocks from the prefix cache."""
    global MODEL, REQUESTS, SHARES
    MODEL, REQUESTS, SHARES = model, requests(border), shares
    for case in (oracle_alone_plain_path, again_with_the_prefix_cache, ranks_and_small_steps, preempted,
                 a_rank_is_killed):
        tap.case(case)
