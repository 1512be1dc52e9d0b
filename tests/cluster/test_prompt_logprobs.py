"""Log probabilities of prompts: those of HuggingFace transformers, and the same bytes in any batch, cache state and
world, after a preemption, after a rank was killed, and where a client goes on at another server."""
import array
import json
import math
import os
import pathlib
import signal
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import DEMO, ROOT, Cluster, Parts  # noqa: E402
from fixture_model import with_tokenizer  # noqa: E402
from ingot_client import Answer  # noqa: E402

FIXTURE = ROOT / "tests/golden/models/llama-gqa"
TOP = 5
RANGE, BUSY = 4, 6  # enum Code


def expected():
    """ids, and of each the log_softmax of the logits before it that transformers computed."""
    e = json.loads((FIXTURE / "expected.json").read_text())
    logits = array.array("f", (FIXTURE / "logits.f32").read_bytes())
    rows = [logits[i * e["vocab_size"]:(i + 1) * e["vocab_size"]] for i in range(e["n_positions"])]
    out = []
    for row in rows:
        most = max(row)
        log_sum = most + math.log(math.fsum(math.exp(v - most) for v in row))
        out.append([v - log_sum for v in row])
    return e["input_ids"], out


def request(ids, **kw):
    sampling = {"temperature": 0.0, "prompt_logprobs": True, "prompt_top": TOP, **kw.pop("sampling", {})}
    return {"tokens": {"id": ids}, "sampling": sampling, "max_tokens": 4, **kw}


def check(prompt, ids, rows):
    assert len(prompt) == len(ids), (len(prompt), len(ids))
    assert prompt[0] == (0.0, 0, []), prompt[0]
    for i, (logprob, rank, top) in enumerate(prompt[1:], 1):
        row = rows[i - 1]
        assert abs(logprob - row[ids[i]]) < 2e-4, (i, logprob, row[ids[i]])
        better = sum(v > row[ids[i]] for v in row)
        assert rank == better + 1 or (rank == 0 and better >= 63), (i, rank, better)
        best = sorted(range(len(row)), key=lambda k: -row[k])[:TOP]
        assert len(top) == TOP and all(abs(p - row[k]) < 2e-4 for k, p in top), (i, top)
        assert [k for k, _ in top] == best or abs(row[best[-1]] - row[top[-1][0]]) < 2e-4, (i, top, best)


@tap.case
def transformers():
    ids, rows = expected()
    with temp_dir.folder() as folder:
        model = with_tokenizer(FIXTURE, folder)
        answers = []
        for how in ({}, {"tp": 2, "coll": "shm"}, {"tp": 2, "coll": "mpi"}, {"coordinator": ["--max-step-tokens", "7"]},
                    {"coordinator": ["--target-itl-ms", "0", "--max-step-tokens", "16"]}):
            with Parts(model, **how) as c:
                for edits in {}, {"logit_bias": [{"id": 5, "bias": 50.0}], "repetition_penalty": 2.0}:
                    a = c.clients[0].generate(**request(ids, sampling=edits))
                    assert a.finish, a.error
                    check(a.prompt, ids, rows)
                    answers.append(str(a.prompt))
    assert len(set(answers)) == 1, "the bits differ"


def prompts():
    """Prompts of one beginning: short with long answers, of several steps, of more than a step's scored rows."""
    base = [1] + [3 + (7 * i * i + i) % 1900 for i in range(400)]
    return [request(base[:n] + [9 + n % 50], n=2 if n == 150 else 1, max_tokens=60 if n < 100 else 4,
                    sampling={"logprobs": True, "ignore_eos": True})
            for n in (1, 16, 17, 150, 64, 65, 300, 399)]


PROMPTS = prompts()
PLAIN = [{"tokens": {"id": [1, 5, 40 + i]}, "sampling": {"temperature": 0.0, "ignore_eos": True}, "max_tokens": 60}
         for i in range(4)]
oracle = None


def scored_by_hand(ids, client):
    """The log probability of each token as the first one of an answer, where it is among the 20 that are reported."""
    out = []
    for i in range(1, len(ids)):
        a = client.generate(tokens={"id": ids[:i]}, max_tokens=1, sampling={"temperature": 0.0, "top_logprobs": 20})
        out.append(dict(a.top[0][0]).get(ids[i]))
    return out


@tap.case
def alone():
    """The oracle of the cases below, and some of its values as tokens of answers."""
    global oracle
    with Parts(DEMO, worker=["--isa", "plain"], coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
        oracle = [c.clients[0].generate(**r) for r in PROMPTS]
        for a, r in zip(oracle, PROMPTS):
            assert a.finish, a.error
            assert len(a.prompt) == len(r["tokens"]["id"]) and all(len(t) == TOP for _, _, t in a.prompt[1:])
        text = "A small engine for language models.".encode()
        a = c.clients[0].generate(text=text, max_tokens=1, want_prompt_ids=True, want_token_text=True,
                                  sampling={"temperature": 0.0, "prompt_top": 3})
        by_hand = scored_by_hand(list(a.accepted.prompt_id), c.clients[0])
        assert sum(v is not None for v in by_hand) > 3, by_hand
        for want, (got, rank, _) in zip(by_hand, a.prompt[1:]):
            assert want is None or (got == want and 1 <= rank <= 20), (got, want, rank)
        without = c.clients[0].generate(tokens={"id": [1, 5, 6]}, max_tokens=2, sampling={"temperature": 0.0})
        assert without.prompt == []


def compare(answers, what):
    for i, a in enumerate(answers):
        assert a.key() == oracle[i].key(), f"{what}: prompt {i} differs:\n{a.key()}\n{oracle[i].key()}"


def variant(name, rounds=1, check=None, **how):
    def run():
        with Parts(DEMO, **how) as c:
            for i in range(rounds):
                requests = PLAIN + PROMPTS
                answers = c.answers_at_once(requests) if check is preempted else c.clients[0].answers(requests)
                answers = answers[len(PLAIN):]
                compare(answers, f"{name}, round {i + 1}")
            if check:
                check(c.clients[0].call("Stats")[1], answers)
    run.__name__ = name
    tap.case(run)


def preempted(stats, _):
    assert stats.preemptions > 0, "the KV cache was not small enough to preempt a sequence"


def cached(_, answers):
    assert all(a.finish.cached_tokens == 0 for a in answers[:3]), "a scored row was taken from the cache"


variant("together")
variant("small_steps", coordinator=["--max-step-tokens", "11"])
variant("by_tokens", coordinator=["--target-itl-ms", "0"])
variant("tp2", tp=2, coll="shm")
variant("tp2_mpi", tp=2, coll="mpi")
variant("twice", rounds=2, check=cached)
variant("preempted", worker=["--kv-blocks", "52", "--block-len", "8"], coordinator=["--max-step-tokens", "48",
        "--target-itl-ms", "0"], check=preempted)
variant("one_place", worker=["--max-seqs", "1"])


@tap.case
def killed():
    """A rank dies while the prompts are scored, and again while they are answered."""
    with Cluster(DEMO, tp=2) as c:
        client = c.clients[0]
        for deltas in 1, 6:
            rids = [client.start(**r) for r in PROMPTS]
            answers, seen = {rid: Answer() for rid in rids}, 0
            while seen < deltas:
                name, m = client.recv()
                if m.request_id in answers:
                    answers[m.request_id].take(name, m)
                    seen += name == "Delta"
            os.kill(c.worker_pids()[deltas % 2], signal.SIGKILL)
            client.collect(rids, answers=answers)
            compare([answers[rid] for rid in rids], f"killed after {deltas} deltas")


@tap.case
def resumed():
    """At another server, with any number of entries received: the rest comes, and none twice."""
    r = PROMPTS[6]
    n_prompt = len(r["tokens"]["id"])
    with Parts(DEMO) as c:
        client = c.clients[0]
        tap.wait_for(lambda: client.call("Models")[1].model[0].weights_from != "pending", "the weights digest")
        first = client.generate(**r)
        accepted = first.accepted
        for n in 0, 1, 64, 200, n_prompt:
            sample = {"prompt_logprobs": n, "id": [], "text_bytes": 0}
            a = client.generate(**{**r, "resume": {"accepted": accepted, "sample": [sample]}})
            assert a.finish, a.error
            assert [str(e) for e in a.prompt] == [str(e) for e in first.prompt[n:]], n
            assert a.ids == first.ids
        for sample in ({"prompt_logprobs": n_prompt + 1}, {"prompt_logprobs": 5, "id": first.ids[0][:1]}):
            a = client.generate(**{**r, "resume": {"accepted": accepted, "sample": [sample]}})
            assert a.error and a.error[1].field == "resume.sample.prompt_logprobs", a.error


@tap.case
def refused():
    with Parts(DEMO) as c:
        a = c.clients[0].generate(**request([1, 5, 6], sampling={"prompt_top": 21}))
        assert a.error and a.error[1].field == "sampling.prompt_top", a.error


@tap.case
def memory():
    """64 KiB: 40 ids with their 20 most probable others take some 15 KiB, so four requests fit and the fifth waits."""
    ids = [5 + i for i in range(40)]
    sampling = {"prompt_top": 20}
    with Parts(DEMO, coordinator=["--prompt-logprob-memory", "64K"]) as c:
        client = c.clients[0]
        want = client.generate(**request(ids, sampling=sampling)).prompt
        a = client.generate(**request(ids * 8, sampling=sampling))
        assert a.error and a.error[1].field == "sampling.prompt_logprobs" and a.error[1].code == RANGE, a.error
        assert "of 320 tokens need" in a.error[1].detail and "--prompt-logprob-memory" in a.error[1].detail, a.error
        with c.held():
            several = [client.start(**request(ids, sampling=sampling)) for _ in range(4)]
            names = []
            while names.count("Accepted") < len(several):
                names.append(client.recv()[0])
                assert names[-1] in ("Accepted", "Delta"), names
            other = c.client()
            a = other.generate(**request(ids, sampling=sampling))
            assert a.error and a.error[1].code == BUSY and a.error[1].retryable, a.error
            for rid in several:
                client.send("Cancel", request_id=rid)
        tap.wait_for(lambda: other.generate(**request(ids, sampling=sampling)).prompt == want, "the memory is free again")


tap.main()
