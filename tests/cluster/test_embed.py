"""Embeddings: those of the sentence-transformers library, and the same bits in any batch, chunk and world, after a
preemption, after a rank was killed, and again from the journal."""
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import embed_model  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Cluster, Parts  # noqa: E402
from ingot_client import Answer  # noqa: E402

TOLERANCE = 1e-5  # of the greatest component, f32


def request(row, **embed):
    if "prompt_name" in row:
        embed["prompt_name"] = row["prompt_name"].encode()
    return {"text": row["text"].encode(), "embed": embed}


def vectors(client, requests, together=True):
    """The embedding of each request, as a tuple of floats."""
    answers = client.answers(requests, together)
    for a in answers:
        assert a.finish.embedding and not any(a.ids.values()) and a.reason() == "length", a.finish
        assert a.finish.completion_tokens == 0 and len(a.finish.sample) == 1
    return [tuple(a.finish.embedding) for a in answers]


@tap.case
def sentence_transformers():
    worst = 0.0
    for name in embed_model.EXPECTED:
        want = embed_model.rows(name)
        with embed_model.folder(name) as model, Parts(model, worker=["--isa", "plain"]) as c:
            info = c.clients[0].call("Models")[1].model[0]
            assert info.embedding == len(want[0]["embedding"]), info
            got = vectors(c.clients[0], [request(r) for r in want])
            for row, v in zip(want, got):
                d = embed_model.off(v, row["embedding"])
                assert d < TOLERANCE, (name, row["text"], d)
                worst = max(worst, d)
            ids = vectors(c.clients[0], [{"tokens": {"id": r["tokens"]}, "embed": {}} for r in want])
            assert ids == got, name
    print(f"    worst difference {worst:.1e} of the greatest component")


REQUESTS = [request(r) for r in embed_model.rows("dense")] + [
    {"text": f"text {i} {'word ' * (i * 7 % 35)}".encode(), "embed": {}} for i in range(24)]


ALL = [{}, {"tp": 2, "coll": "shm"}, {"tp": 2, "coll": "mpi", "threads": 2}, {"coordinator": ["--max-step-tokens", "5"]},
       {"tp": 4}, {"worker": ["--kv-blocks", "20", "--block-len", "8"]},
       {"coordinator": ["--target-itl-ms", "0", "--max-step-tokens", "16"]}]


def same(name, requests, ways):
    """The vectors are those of the plain path: one rank, one request at a time, no cache."""
    with embed_model.folder(name) as model:
        with Parts(model, worker=["--isa", "plain"], coordinator=["--no-prefix-cache", "--no-overlap"]) as c:
            want = vectors(c.clients[0], requests, together=False)
        for how in ways:
            with Parts(model, **how) as c:
                got = vectors(c.clients[0], requests)
                assert got == want, (name, how)
                assert vectors(c.clients[0], requests[::-1]) == want[::-1], (name, how, "again")
    return want


@tap.case
def the_same_bits():
    """A mean over all tokens, whose sums go over the chunks; and the last token, which may come behind cached ones."""
    want = same("dense", REQUESTS, ALL)
    assert len(set(want)) == len(want), "different texts have different embeddings"
    same("last", REQUESTS, ALL if "INGOT_ALL" in os.environ else ALL[1:6:2])
    if "INGOT_ALL" in os.environ:
        same("bare", REQUESTS, ALL)


@tap.case
def beside_generation():
    """Answers and embeddings of one server, in one batch, are those that each has alone; blocks are short."""
    texts = [{"text": f"Tale {i} of a fox".encode(), "max_tokens": 24, "sampling": {"seed": i, "ignore_eos": True,
              "temperature": 0.8 * (i % 2), "logprobs": True}} for i in range(6)]
    with embed_model.folder("mean") as model, \
            Parts(model, worker=["--kv-blocks", "48", "--block-len", "8"]) as c:
        client = c.clients[0]
        alone, embedded = client.answers(texts, False), vectors(client, REQUESTS, False)
        rids = [client.start(**r) for pair in zip(texts, REQUESTS) for r in pair] + [
            client.start(**r) for r in REQUESTS[len(texts):]]
        got = client.collect(rids)
        both = [got[r] for r in rids]
        for a, b in zip(alone, both[0:2 * len(texts):2]):
            assert a.key() == b.key()
        mixed = both[1:2 * len(texts):2] + both[2 * len(texts):]
        assert [tuple(a.finish.embedding) for a in mixed] == embedded
        stats = client.call("Stats")[1]
        assert stats.blocks_free + stats.blocks_cached == stats.blocks_total and not stats.running


@tap.case
def kills():
    """Ranks are killed while texts wait and run."""
    many = [{"text": f"{i} {'lorem ipsum ' * 30}".encode(), "embed": {}} for i in range(40)]
    with embed_model.folder("dense") as model:
        with Parts(model) as c:
            want = vectors(c.clients[0], many)
        with Cluster(model, tp=2, extra=["--max-step-tokens", "8"]) as c:
            client = c.clients[0]

            def lost_in_the_middle():
                answers = {client.start(**r): Answer() for r in many}
                n_ended = 0
                while n_ended < len(many):
                    name, m = client.recv()
                    if m.request_id in answers:
                        n_ended += answers[m.request_id].take(name, m)
                    if name == "Finish" and n_ended == 1:
                        os.kill(c.worker_pids()[-1], signal.SIGKILL)
                assert [tuple(a.finish.embedding) if a.finish else a.error for a in answers.values()] == want
                return client.call("Stats")[1].recoveries >= 1

            tap.race(lost_in_the_middle)


def tool(*args):
    return subprocess.run([BIN / "ingot-journal", *map(str, args)], capture_output=True, text=True)


@tap.case
def journal():
    """verify repeats the schedule, and recompute the vectors; a changed vector is found."""
    with temp_dir.folder() as d, embed_model.folder("mean") as model:
        with Cluster(model, extra=["--journal", f"{d}/journal", "--max-step-tokens", "16"]) as c:
            vectors(c.clients[0], REQUESTS)
            c.clients[0].send("Drain", request_id="d")
            c.serve.wait(tap.LIMIT)
        files = sorted(pathlib.Path(d, "journal").glob("*.journal"))
        r = tool("verify", *files)
        assert r.returncode == 0 and "the same" in r.stdout, r
        again = subprocess.run([BIN / "ingot", "replay", "recompute", d + "/journal", model, "--tp", "2", "--threads", "1"],
                               capture_output=True, text=True, timeout=tap.LIMIT)
        assert again.returncode == 0 and f", {len(REQUESTS)} embeddings" in again.stdout, again
        other = model / "1_Pooling" / "config.json"
        other.write_text(other.read_text().replace('"pooling_mode_mean_tokens": true', '"pooling_mode_max_tokens": true')
                         .replace('"pooling_mode_max_tokens": false,', ""))
        changed = subprocess.run([BIN / "ingot", "replay", "recompute", d + "/journal", model], capture_output=True,
                                 text=True, timeout=tap.LIMIT)
        assert changed.returncode == 1 and "the journal's weights are" in changed.stderr, changed


@tap.case
def refusals():
    with embed_model.folder("mean") as model, Parts(model) as c:
        client, text = c.clients[0], b"a"
        for field, more in (("sampling", {"sampling": {"temperature": 0.5}}), ("max_tokens", {"max_tokens": 3}),
                            ("stop", {"stop": [b"x"]}), ("n", {"n": 2}), ("keep_marks", {"keep_marks": True}),
                            ("want_token_text", {"want_token_text": True}),
                            ("grammar", {"grammar": {"kind": 2}})):
            embed_model.refused(client, field, "no meaning", text=text, embed={}, **more)
        embed_model.refused(client, "embed.prompt_name", "no prompt", text=text, embed={"prompt_name": b"other"})
        embed_model.refused(client, "embed.prompt_name", "goes with text", tokens={"id": [1]}, embed={"prompt_name": b"query"})
        embed_model.refused(client, "embed.dimensions", "at least 1", text=text, embed={"dimensions": 0})
        embed_model.refused(client, "embed.dimensions", "have 32", text=text, embed={"dimensions": 33})
        embed_model.refused(client, "embed.dimensions", "was not made for that", text=text, embed={"dimensions": 9})
        embed_model.refused(client, "text", "at most 250", text=b"word " * 60, embed={})
        embed_model.refused(client, "tokens.id", "this model takes at most", tokens={"id": [5] * 5000}, embed={})
    with Parts(DEMO) as c:
        embed_model.refused(c.clients[0], "embed", "no modules.json", text=b"a", embed={})
        assert not c.clients[0].call("Models")[1].model[0].HasField("embedding")
    with embed_model.folder("bare") as model, Parts(model) as c:
        embed_model.refused(c.clients[0], "", "no head", text=b"a", max_tokens=2)


@tap.case
def dimensions():
    """The first components, normalised again where the model's embeddings are."""
    for name, unit in (("last", True), ("mean", False)):
        with embed_model.folder(name) as model, Parts(model) as c:
            ask = {"text": b"What is Ingot?"}
            whole, cut = vectors(c.clients[0], [{**ask, "embed": {}}, {**ask, "embed": {"dimensions": 8}}])
            assert len(cut) == 8
            norm = sum(x * x for x in whole[:8]) ** 0.5 if unit else 1.0
            assert all(abs(a * norm - b) < 1e-6 for a, b in zip(cut, whole)), (cut, whole)


@tap.case
def without_modules():
    """--embed: the last token's state, normalised; a worker without it does not fit."""
    with Parts(DEMO, worker=["--embed"], coordinator=["--embed"]) as c:
        a, b = vectors(c.clients[0], [{"text": t, "embed": {}} for t in (b"a fox", b"a dog")])
        assert a != b and all(abs(sum(x * x for x in v) - 1) < 1e-5 for v in (a, b))
    with Parts(DEMO, coordinator=["--embed"]) as c:
        embed_model.refused(c.clients[0], "embed", "--embed", text=b"a", embed={})
        assert c.clients[0].generate(text=b"a", max_tokens=1).finish


@tap.case
def command_line():
    def lines(*args):
        p = subprocess.run([BIN / "ingot", "embed", *map(str, args)], capture_output=True, text=True, timeout=tap.LIMIT)
        return p.returncode, [json.loads(x) for x in p.stdout.splitlines()], p.stderr
    with embed_model.folder("last") as model:
        want = [r for r in embed_model.rows("last") if r.get("prompt_name") in (None, "query")]
        plain = [r for r in want if "prompt_name" not in r][:2]
        named = next(r for r in want if "prompt_name" in r)
        rc, got, err = lines(model, "--json", *(x for r in plain for x in ("--prompt", r["text"])), "--tokens",
                             " ".join(map(str, plain[0]["tokens"])), "--tp", 2, "--threads", 1)
        assert rc == 0 and [x["index"] for x in got] == [0, 1, 2], (rc, got, err)
        assert got[2]["embedding"] == got[0]["embedding"] and got[0]["prompt_tokens"] == len(plain[0]["tokens"])
        for x, r in zip(got, plain):
            assert embed_model.off(x["embedding"], r["embedding"]) < TOLERANCE
        rc, got, _ = lines(model, "--json", "--prompt", named["text"], "--prompt-name", "query")
        assert rc == 0 and embed_model.off(got[0]["embedding"], named["embedding"]) < TOLERANCE
        rc, got, err = lines(model, "--json", "--prompt", "a", "--prompt-name", "none")
        assert rc == 4 and got[0]["type"] == "error" and "no prompt" in err, (rc, got, err)
        assert lines(model)[0] == 2
        p = subprocess.run([BIN / "ingot", "embed", model, "--prompt", "a"], capture_output=True, text=True)
        assert p.returncode == 0 and len(p.stdout.split()) == 32


BAD = {
    "modules.json": [("{}", "not an array"), ("[]", "Transformer and Pooling"),
                     ('[{"path": "", "type": "sentence_transformers.models.Transformer"},'
                      '{"path": "../x", "type": "sentence_transformers.models.Pooling"}]', "not a folder"),
                     ('[{"path": "", "type": "sentence_transformers.models.Transformer"},'
                      '{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},'
                      '{"path": "2", "type": "sentence_transformers.models.LSTM"}]', "LSTM is not supported"),
                     ('[{"path": "", "type": "custom.Transformer"}]', "custom.Transformer is not supported")],
    "1_Pooling/config.json": [('{"pooling_mode_mean_tokens": false}', "no pooling mode"),
                              ('{"pooling_mode": "median"}', "median is not supported"),
                              ('{"word_embedding_dimension": 8, "pooling_mode_cls_token": true}', "32 components"),
                              ('{"pooling_mode_cls_token": true, "include_prompt": false}', "include_prompt"),
                              ('{"pooling_mode": ["cls", "cls"]}', "twice")],
    "2_Dense/config.json": [('{"in_features": 32, "out_features": 12, "bias": true, "activation_function": "torch.Softmax"}',
                             "torch.Softmax is not supported"),
                            ('{"in_features": 31, "out_features": 12, "bias": true, '
                             '"activation_function": "torch.nn.modules.activation.Tanh"}', "its input has 32"),
                            ('{"in_features": 32}', "out_features is missing"),
                            ('{"in_features": 32, "out_features": 13, "bias": true, '
                             '"activation_function": "torch.nn.modules.activation.Tanh"}', "in_features is 12")],
    "config_sentence_transformers.json": [('{"default_prompt_name": "q"}', "none of the prompts"),
                                          ('{"model_type": "SparseEncoder"}', "SparseEncoder"),
                                          ('{"prompts": {"a": 1}}', "prompts.a must be a string")],
    "sentence_bert_config.json": [('{"do_lower_case": true}', "do_lower_case")],
    "2_Dense/model.safetensors": [("", "2_Dense/model.safetensors")],
}


@tap.case
def bad_folders():
    for file, cases in BAD.items():
        for text, why in cases:
            with embed_model.folder("dense", **{file: text}) as model:
                p = subprocess.run([BIN / "ingot", "embed", model, "--prompt", "a"], capture_output=True, text=True,
                                   timeout=tap.LIMIT)
                assert p.returncode == 1 and why in p.stderr, (file, text, p)


tap.main()
