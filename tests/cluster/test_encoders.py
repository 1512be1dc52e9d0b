"""Encoders: the embeddings that sentence-transformers computes, the same bits in any batch and world, after a rank was
killed and again from the journal; what an encoder refuses."""
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
from embed_model import off, refused  # noqa: E402
from ingot_client import Answer  # noqa: E402

TOLERANCE = 1e-5  # of the greatest component, f32
EXACT = ["--isa", "plain"]


def request(row):
    if "text" in row:
        return {"text": row["text"].encode(), "embed": {}}
    types = {"token_types": row["token_types"]} if "token_types" in row else {}
    return {"tokens": {"id": row["tokens"]}, "embed": types}


def vectors(client, requests, together=True):
    answers = client.answers(requests, together)
    for a in answers:
        assert a.finish and a.finish.embedding and not any(a.ids.values()), (a.finish, a.error)
    return [tuple(a.finish.embedding) for a in answers]


@tap.case
def sentence_transformers():
    worst = 0.0
    for name, rows in encoder_model.EXPECTED.items():
        with Parts(encoder_model.HERE / name, worker=EXACT) as c:
            client = c.clients[0]
            info = client.call("Models")[1].model[0]
            assert info.embedding == len(rows[0]["embedding"]), info
            assert info.max_ctx == max(len(r["tokens"]) for r in rows), info
            for row, v in zip(rows, vectors(client, [request(r) for r in rows])):
                d = off(v, row["embedding"])
                assert d < TOLERANCE, (name, row, d)
                worst = max(worst, d)
            a = client.generate(text=rows[0]["text"].encode(), embed={}, want_prompt_ids=True)
            assert list(a.accepted.prompt_id) == rows[0]["tokens"], a.accepted
    print(f"    worst difference {worst:.1e} of the greatest component")


def many(name):
    """Texts of 1 to as many tokens as there are positions."""
    rows = encoder_model.EXPECTED[name]
    longest = max((r["tokens"] for r in rows), key=len)
    typed = [r for r in rows if "token_types" in r]
    return [request(r) for r in rows + typed] + [
        {"tokens": {"id": longest[:1 + i * 7 % len(longest)]}, "embed": {}} for i in range(40)]


WAYS = [{}, {"tp": 2, "coll": "shm"}, {"tp": 2, "coll": "mpi", "threads": 2}, {"tp": 4},
        {"worker": ["--kv-blocks", "5", "--max-seqs", "3"]}, {"coordinator": ["--max-step-tokens", "60"]},
        {"coordinator": ["--target-itl-ms", "0"]}]


@tap.case
def the_same_bits():
    """The vectors are those of the plain path: one rank, one text at a time."""
    for name in encoder_model.EXPECTED:
        ask = many(name)
        with Parts(encoder_model.HERE / name, worker=["--isa", "plain"], coordinator=["--no-overlap"]) as c:
            want = vectors(c.clients[0], ask, together=False)
        for how in WAYS if name == "bert-cls" or "INGOT_ALL" in os.environ else WAYS[1:4:2]:
            with Parts(encoder_model.HERE / name, **how) as c:
                assert vectors(c.clients[0], ask) == want, (name, how)
                assert vectors(c.clients[0], ask[::-1]) == want[::-1], (name, how, "again")
                stats = c.clients[0].call("Stats")[1]
                assert stats.blocks_free == stats.blocks_total and not stats.running, stats


@tap.case
def kills():
    """Ranks are killed while texts wait and run."""
    ask = many("bert-cls") * 3
    with Parts(encoder_model.HERE / "bert-cls") as c:
        want = vectors(c.clients[0], ask)
    with Cluster(encoder_model.HERE / "bert-cls", tp=2, extra=["--max-seqs", "2"]) as c:
        client = c.clients[0]

        def lost_in_the_middle():
            answers = {client.start(**r): Answer() for r in ask}
            n_ended = 0
            while n_ended < len(ask):
                name, m = client.recv()
                if m.request_id in answers:
                    n_ended += answers[m.request_id].take(name, m)
                if name == "Finish" and n_ended == 1:
                    os.kill(c.worker_pids()[-1], signal.SIGKILL)
            assert [tuple(a.finish.embedding) if a.finish else a.error for a in answers.values()] == want
            return client.call("Stats")[1].recoveries >= 1

        tap.race(lost_in_the_middle)


@tap.case
def journal():
    """verify repeats the schedule; recompute computes the vectors again, types included."""
    ask = many("bert-cls")
    model = encoder_model.HERE / "bert-cls"
    with temp_dir.folder() as d:
        with Cluster(model, extra=["--journal", f"{d}/journal"]) as c:
            vectors(c.clients[0], ask)
            c.clients[0].send("Drain", request_id="d")
            c.serve.wait(tap.LIMIT)
        files = sorted(pathlib.Path(d, "journal").glob("*.journal"))
        r = subprocess.run([BIN / "ingot-journal", "verify", *files], capture_output=True, text=True)
        assert r.returncode == 0 and "the same" in r.stdout, r
        again = subprocess.run([BIN / "ingot", "replay", "recompute", d + "/journal", model, "--tp", "2", "--threads",
                                "1"], capture_output=True, text=True, timeout=tap.LIMIT)
        assert again.returncode == 0 and f", {len(ask)} embeddings" in again.stdout, again


@tap.case
def refusals():
    with Parts(encoder_model.HERE / "bert-cls") as c:
        client = c.clients[0]
        refused(client, "", "is an encoder", text=b"a", max_tokens=2)
        ids = [5, 6, 7]
        refused(client, "embed.token_types", "2 token_types for 3 tokens", tokens={"id": ids},
                embed={"token_types": [0, 1]})
        refused(client, "embed.token_types", "token_types[2] is 3", tokens={"id": ids}, embed={"token_types": [0, 1, 3]})
        refused(client, "embed.token_types", "for 0 tokens", text=b"a", embed={"token_types": [0]})
        refused(client, "tokens.id", "takes at most 48", tokens={"id": [5] * 49}, embed={})
        refused(client, "tokens.id", "vocabulary ends at", tokens={"id": [100]}, embed={})
    with Parts(encoder_model.HERE / "roberta") as c:
        refused(c.clients[0], "tokens.id", "no padding tokens", tokens={"id": [0, 1, 2]}, embed={})
        refused(c.clients[0], "text", "no padding tokens", text=b"a <pad> b", embed={})
    with Parts(encoder_model.HERE / "bert", coordinator=["--max-step-tokens", "8"]) as c:
        refused(c.clients[0], "", "one step", tokens={"id": [5] * 9}, embed={})
        assert len(vectors(c.clients[0], [{"tokens": {"id": [5] * 8}, "embed": {}}])[0]) == 32


BAD = [
    ({"position_embedding_type": "relative_key"}, "position_embedding_type = \"relative_key\""),
    ({"hidden_act": "relu"}, "hidden_act \"relu\""),
    ({"is_decoder": True}, "is_decoder = true"),
    ({"num_attention_heads": 5}, "no multiple of num_attention_heads"),
    ({"max_position_embeddings": 64}, "embeddings.position_embeddings.weight"),
    ({"type_vocab_size": 4}, "embeddings.token_type_embeddings.weight"),
    ({"intermediate_size": None}, "intermediate_size is missing"),
    ({"some_option": 3}, "some_option = 3"),
    ({"vocab_size": 2 ** 24, "type_vocab_size": 64}, "embeddings.word_embeddings.weight"),
]


def run(*args):
    return subprocess.run([BIN / "ingot", *map(str, args)], capture_output=True, text=True, timeout=tap.LIMIT)


@tap.case
def bad_folders():
    for config, why in BAD:
        with encoder_model.changed("bert", config) as model:
            p = run("embed", model, "--prompt", "a")
            assert p.returncode == 1 and why in p.stderr, (config, p)


@tap.case
def without_modules():
    """An encoder's folder without modules.json gives the mean of its states, as the library does."""
    with encoder_model.changed("bert") as model:
        (model / "modules.json").unlink()
        p = run("embed", model, "--json", "--prompt", "What is Ingot?")
        v = json.loads(p.stdout)["embedding"]
        norm = sum(x * x for x in v) ** 0.5
        want = encoder_model.EXPECTED["bert"][0]["embedding"]
        assert norm > 1.5 and off([x / norm for x in v], want) < TOLERANCE


@tap.case
def command_line():
    typed = [r for r in encoder_model.EXPECTED["bert-cls"] if "token_types" in r]
    args = [x for r in typed for x in ("--tokens", " ".join(map(str, r["tokens"])), "--token-types",
                                      " ".join(map(str, r["token_types"])))]
    p = run("embed", encoder_model.HERE / "bert-cls", "--json", *args, "--tp", 2, "--threads", 1)
    got = [json.loads(x) for x in p.stdout.splitlines()]
    assert p.returncode == 0 and len(got) == len(typed), p
    for x, r in zip(got, typed):
        assert off(x["embedding"], r["embedding"]) < TOLERANCE
    for types, why in (("0 0", "2 types for 3"), ("0 0 x", "'x' is not a type"), ("0 0 256", "'256' is not a type"),
                       ("0 0 9", "token_types[2] is 9")):
        p = run("embed", encoder_model.HERE / "bert-cls", "--tokens", "5 6 7", "--token-types", types)
        assert p.returncode in (2, 4) and why in p.stderr, (types, p)
    assert run("embed", encoder_model.HERE / "bert-cls", "--prompt", "a", "--token-types", "0").returncode == 2
    p = run("run", encoder_model.HERE / "bert-cls", "--prompt", "a")
    assert p.returncode and "is an encoder" in p.stderr, p
    p = run("inspect", encoder_model.HERE / "bert-cls")
    assert p.returncode == 0 and "encoder" in p.stdout, p.stdout


tap.main()
