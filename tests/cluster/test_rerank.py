"""Rerankers: the scores of sentence-transformers' CrossEncoder, the same bits in any batch and world, after a rank was
killed and again from the journal; what is refused."""
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import encoder_model  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, Cluster, Parts  # noqa: E402
from embed_model import refused  # noqa: E402
from ingot_client import Answer  # noqa: E402

TOLERANCE = 1e-5  # of a score, or of 1 where it is smaller


def request(row):
    return {"text": row["query"].encode(), "embed": {"document": row["document"].encode()}}


def scores(client, requests, together=True):
    answers = client.answers(requests, together)
    for a in answers:
        assert a.finish and len(a.finish.embedding) == 1, (a.finish, a.error)
    return [a.finish.embedding[0] for a in answers]


def close(got, want):
    return abs(got - want) < TOLERANCE * max(1, abs(want))


@tap.case
def cross_encoder():
    for name, rows in encoder_model.SCORES.items():
        with Parts(encoder_model.HERE / name, worker=["--isa", "plain"]) as c:
            info = c.clients[0].call("Models")[1].model[0]
            assert info.rerank and not info.HasField("embedding"), info
            got = scores(c.clients[0], [request(r) for r in rows])
            assert all(close(g, r["score"]) for g, r in zip(got, rows)), (name, got, rows)
            a = c.clients[0].generate(**request(rows[0]), want_prompt_ids=True)
            assert list(a.accepted.prompt_id) == rows[0]["tokens"], a.accepted


def many(name):
    rows = encoder_model.SCORES[name]
    return [request(a | {"document": b["document"]}) for a in rows for b in rows] * 2


@tap.case
def the_same_bits():
    for name in encoder_model.SCORES:
        ask = many(name)
        with Parts(encoder_model.HERE / name, worker=["--isa", "plain"], coordinator=["--no-overlap"]) as c:
            want = scores(c.clients[0], ask, together=False)
        assert len(set(want)) > len(encoder_model.SCORES[name])
        for how in ({}, {"tp": 2, "threads": 2}, {"tp": 4}):
            with Parts(encoder_model.HERE / name, **how) as c:
                assert scores(c.clients[0], ask) == want, (name, how)


@tap.case
def kills_and_journal():
    """Ranks are killed while pairs wait and run; the journal gives the same scores again."""
    model, ask = encoder_model.HERE / "bert-reranker", many("bert-reranker") * 4
    with Parts(model) as c:
        want = scores(c.clients[0], ask)

    def lost_in_the_middle():
        with temp_dir.folder() as d:
            with Cluster(model, tp=2, extra=["--max-seqs", "2", "--journal", f"{d}/journal"]) as c:
                client = c.clients[0]
                answers = {client.start(**r): Answer() for r in ask}
                n_ended = 0
                while n_ended < len(ask):
                    name, m = client.recv()
                    if m.request_id in answers:
                        n_ended += answers[m.request_id].take(name, m)
                    if name == "Finish" and n_ended == 1:
                        os.kill(c.worker_pids()[-1], signal.SIGKILL)
                assert [a.finish.embedding[0] if a.finish else a.error for a in answers.values()] == want
                recovered = client.call("Stats")[1].recoveries >= 1
                client.send("Drain", request_id="d")
                c.serve.wait(tap.LIMIT)
            again = subprocess.run([BIN / "ingot", "replay", "recompute", d + "/journal", model], capture_output=True,
                                   text=True, timeout=tap.LIMIT)
            assert again.returncode == 0 and f", {len(ask)} embeddings" in again.stdout, again
            return recovered

    tap.race(lost_in_the_middle)


@tap.case
def refusals():
    with Parts(encoder_model.HERE / "bert-reranker") as c:
        client = c.clients[0]
        refused(client, "embed.document", "needs a document", text=b"a", embed={})
        refused(client, "embed.document", "goes with text", tokens={"id": [5]}, embed={"document": b"b"})
        refused(client, "", "gives scores", text=b"a", max_tokens=1)
        refused(client, "embed.dimensions", "have 1", text=b"a", embed={"document": b"b", "dimensions": 2})
        refused(client, "embed.document", "takes at most 48", text=b"a " * 30, embed={"document": b"b " * 30})
    with Parts(encoder_model.HERE / "bert") as c:
        refused(c.clients[0], "embed.document", "no reranker", text=b"a", embed={"document": b"b"})


def run(*args):
    return subprocess.run([BIN / "ingot", *map(str, args)], capture_output=True, text=True, timeout=tap.LIMIT)


BAD = [
    ({"id2label": {"0": "a", "1": "b"}}, "a head for 2 labels"),
    ({"id2label": []}, "id2label must be an object"),
    ({"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}, "activation.Tanh of a reranker"),
    ({"sentence_transformers": 3}, "sentence_transformers must be an object"),
    ({"architectures": ["BertModel"]}, "classifier."),
]


@tap.case
def bad_folders():
    for config, why in BAD:
        with encoder_model.changed("bert-reranker", config) as model:
            p = run("rerank", model, "--query", "a", "--document", "b")
            assert p.returncode == 1 and why in p.stderr, (config, p)


@tap.case
def command_line():
    rows = encoder_model.SCORES["xlm-roberta-reranker"]
    model = encoder_model.HERE / "xlm-roberta-reranker"
    documents = [r["document"] for r in rows]
    with Parts(model) as c:
        want = scores(c.clients[0], [request(rows[0] | {"document": d}) for d in documents])
    args = ["rerank", model, "--query", rows[0]["query"], *(x for d in documents for x in ("--document", d))]
    p = run(*args, "--json", "--tp", 2, "--threads", 1)
    got = [json.loads(x) for x in p.stdout.splitlines()]
    assert p.returncode == 0 and [g["score"] for g in got] == sorted((g["score"] for g in got), reverse=True), p
    assert all(abs(g["score"] - want[g["index"]]) < 1e-7 for g in got), (got, want)
    p = run(*args, "--top", 1)
    best = max(range(len(want)), key=want.__getitem__)
    assert p.returncode == 0 and p.stdout.strip().endswith(documents[best]) and len(p.stdout.splitlines()) == 1, p
    assert run("rerank", model, "--query", "a").returncode == 2
    assert run("rerank", model, "--document", "a").returncode == 2
    p = run("inspect", model)
    assert p.returncode == 0 and "scores (rerank)" in p.stdout, p.stdout


tap.main()
