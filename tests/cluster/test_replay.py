"""The third claim: the journal of a run with kills, cancels and preemptions repeats offline, step by step."""
import copy
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Cluster, model  # noqa: E402

MODEL = model("stories260K") or DEMO
SUMS = b'root ::= (sum "; "){4,9}\nsum ::= term ([-+*] term)*\nterm ::= [1-9] [0-9]{0,3} | "(" sum ")"\n'
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}
CALL = {"turn": [{"role": "user", "content": b"A fox."}], "tools_json": json.dumps([TOOL]).encode(), "tool_choice": 1, "one_call": True}


def journal_tool(*args):
    return subprocess.run([BIN / "ingot-journal", *map(str, args)], capture_output=True, text=True)


@tap.case
def a_run_with_a_kill_replays():
    with temp_dir.folder() as tmp, \
            Cluster(MODEL, tp=2, extra=["--kv-blocks", "40", "--journal", f"{tmp}/journal"]) as c:
        folder = pathlib.Path(tmp) / "journal"
        client = c.clients[0]
        rids = []

        def lost_in_the_middle():
            with c.held():
                rids[:] = [client.start(text=f"Tale {i}".encode(), max_tokens=120, n=1 + i % 3,
                                        sampling={"temperature": 0.9, "top_k": 40, "seed": i, "ignore_eos": True})
                           for i in range(12)]
                client.replies(rids)
            while client.recv()[0] != "Delta":
                pass
            client.send("Cancel", request_id=rids[3])
            os.kill(c.worker_pids()[-1], signal.SIGKILL)
            finished = set()
            while len(finished) < len(rids):
                name, m = client.recv()
                if name in ("Finish", "Error", "Rejected"):
                    finished.add(m.request_id)
            stats = client.call("Stats")[1]
            assert stats.preemptions > 0 and stats.steps_overlapped > 0, stats
            return stats.recoveries >= 1

        tap.race(lost_in_the_middle)
        again = client.generate(text=b"Tale 5", max_tokens=120, n=3,
                                sampling={"temperature": 0.9, "top_k": 40, "seed": 5, "ignore_eos": True})
        stranger = c.client()
        stranger.start(request_id="stranger", text=b"Tale", max_tokens=3)
        assert stranger.collect(["stranger"], 60)["stranger"].finish
        client.send("Drain", request_id="d")
        c.serve.wait(tap.LIMIT)
        files = sorted(folder.glob("*.journal"))
        assert files, "no journal was written"
        assert all(f.stat().st_mode & 0o077 == 0 for f in files), "prompts are readable by others"
        r = journal_tool("verify", *files)
        assert r.returncode == 0 and "the same" in r.stdout, r
        print("    " + r.stdout.strip().splitlines()[-1])
        shown = journal_tool("show", *files, rids[5])
        assert shown.returncode == 0, shown
        assert ", ".join(map(str, again.ids[0][:8])) in shown.stdout or \
            ",".join(map(str, again.ids[0][:8])) in shown.stdout, shown.stdout[:600]
        # requests of one tenant have one digest of it, not 0; of another one another
        def tenant_of(rid):
            return json.loads(journal_tool("show", *files, rid).stdout.splitlines()[0])["tenant"]
        assert tenant_of(rids[5]) == tenant_of(rids[6]) != "0" * 16
        assert tenant_of("stranger") not in (tenant_of(rids[5]), "0" * 16)
        # a flipped byte inside a record is found and named
        data = bytearray(files[0].read_bytes())
        data[data.index(rids[5].encode())] ^= 0x10
        bad = pathlib.Path(c.dir) / "bad.journal"
        bad.write_bytes(data)
        r = journal_tool("verify", bad)
        assert r.returncode != 0 and r.stderr, r


def recompute(*args):
    return subprocess.run([BIN / "ingot", "replay", "recompute", *map(str, args)], capture_output=True, text=True,
                          timeout=tap.LIMIT)


def shows_what_clients_had(folder, requests, answers):
    """Samples in order, the stop strings, and with the model the text as it was sent."""
    r = journal_tool("show", folder, "--model", DEMO)
    assert r.returncode == 0, r
    shown = {}
    for m in map(json.loads, r.stdout.splitlines()):
        shown.setdefault(m["request_id"], []).append(m)
    for request, answer in zip(requests, answers, strict=True):
        samples = shown.pop(answer.accepted.request_id)
        assert [m["sample"] for m in samples] == list(range(request.get("n", 1))), samples
        for m in samples:
            assert m["stop"] == [s.decode() for s in request.get("stop", [])] and m["include_stop"] is False, m
            assert m["text"].encode() == answer.text[m["sample"]] and m["text"], (m, answer.text)
            assert m["tokens"] == answer.ids[m["sample"]], m
    assert not shown, shown
    r = journal_tool("show", folder, "--model", MODEL)
    assert MODEL == DEMO or r.returncode == 1 and "another tokenizer" in r.stderr, r


def changed(target, lines):
    """A copy of a journal's samples is not possible: the file is sealed.  So the tool that reads it is replaced."""
    program = pathlib.Path(target) / "ingot-journal"
    program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(lines) + "\nEND\n")
    program.chmod(0o755)
    if not (pathlib.Path(target) / "ingot").exists():
        shutil.copy(BIN / "ingot", target)  # it looks for the others beside itself
    for name in "ingot-coordinator", "ingot-worker":
        if not (link := pathlib.Path(target) / name).exists():
            link.symlink_to(BIN / name)


@tap.case
def recomputed_on_other_rank_counts():
    with temp_dir.folder() as tmp:
        folder = f"{tmp}/journal"
        with Cluster(DEMO, tp=2, extra=["--journal", folder]) as c:
            client = c.clients[0]
            schema = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
            requests = [dict(sampling=dict(temperature=0, ignore_eos=True)),
                        dict(n=3, stop=[b"the", b"ing"], sampling=dict(seed=1)),
                        dict(sampling=dict(seed=2, repetition_penalty=1.2, presence_penalty=0.4, min_tokens=30)),
                        dict(sampling=dict(seed=2**63 + 5, temperature=1.3, top_k=40, min_p=0.01, logit_bias=[dict(id=5, bias=-1.5)])),
                        dict(sampling=dict(seed=4, top_logprobs=2)), dict(sampling=dict(seed=5, stop_token_id=[300, 301])),
                        dict(sampling=dict(seed=6), grammar=dict(kind=1, source=schema.encode())),
                        dict(sampling=dict(seed=7, temperature=1.4), grammar=dict(kind=6, source=SUMS)),
                        dict(sampling=dict(seed=8, temperature=1.4), chat=CALL)]
            answers = client.answers([dict(max_tokens=60, **({} if "chat" in r else {"text": b"Once upon a time"}), **r) for r in requests])
            n_tokens = sum(len(ids) for a in answers for ids in a.ids.values())
            client.send("Drain", request_id="d")
            c.serve.wait(tap.LIMIT)
        for tp in 1, 4:
            r = recompute(folder, DEMO, "--tp", tp)
            assert r.returncode == 0, r
            assert f"the same: 11 samples, {n_tokens} tokens (0 of them came by resume), {n_tokens} log probabilities" in r.stdout, r
            assert "not checked: 1 samples' alternatives" in r.stdout and r.stdout.count("not checked") == 1, r
        r = subprocess.run([BIN / "ingot", "replay", "verify", folder], capture_output=True, text=True, timeout=tap.LIMIT)
        assert r.returncode == 0 and "the same" in r.stdout, r
        shows_what_clients_had(folder, requests, answers)
        lines = journal_tool("show", folder).stdout.splitlines()
        assert not any("text" in json.loads(line) for line in lines)
        one = max(map(json.loads, lines), key=lambda m: len(m["tokens"]))
        r = recompute(folder, DEMO, one["request_id"])
        assert r.returncode == 0 and "the same: " in r.stdout, r
        assert recompute(folder, DEMO, "no such request").returncode == 3
        # a token, a log probability, other weights, other numerics
        os.mkdir(f"{tmp}/bin")
        token, logprob, weights, numerics = (copy.deepcopy(one) for _ in range(4))
        token["tokens"][4] ^= 1
        logprob["logprobs"][5] -= 1e-6
        weights["weights"] = "0" * 64
        numerics["numerics"] += "x"
        tool = pathlib.Path(tmp) / "bin"
        for sample, says in ((token, "token 4: "), (logprob, "token 5: the log probability"), (weights, "weights"), (numerics, "numerics")):
            changed(tool, [json.dumps(sample)])
            r = subprocess.run([tool / "ingot", "replay", "recompute", folder, DEMO], capture_output=True, text=True,
                               env={**os.environ, "PATH": f"{tool}:{os.environ['PATH']}"}, timeout=tap.LIMIT)
            assert r.returncode == 1 and says in r.stdout + r.stderr, (says, r)


@tap.case
def ids_that_came_by_resume_are_checked():
    """A server takes a client's word for the ids that it resumes with; recompute does not."""
    request = dict(text=b"Once upon a time", max_tokens=40, n=2, stop=[b"the end of it"], sampling=dict(seed=7, ignore_eos=True))
    with temp_dir.folder() as tmp:
        with Cluster(DEMO, tp=1, extra=["--journal", f"{tmp}/journal"]) as c:
            client = c.clients[0]
            tap.wait_for(lambda: client.call("Models")[1].model[0].weights_from != "pending", "the weights digest")
            first = client.generate(**request)
            assert first.finish, first.error

            def resumed(rid, forged=None):
                ids = [first.ids[0][:25], list(first.ids[1][:3])]
                if forged is not None:
                    ids[1][forged] ^= 1
                samples = [dict(id=i, text_bytes=0) for i in ids]
                return client.generate(request_id=rid, resume=dict(accepted=first.accepted, sample=samples), **request)

            honest = resumed("honest")
            assert honest.finish and all(honest.ids[i] == first.ids[i][n:] for i, n in ((0, 25), (1, 3))), honest.ids
            forged = resumed("forged", forged=2)
            assert forged.finish, forged.error
            client.send("Drain", request_id="d")
            c.serve.wait(tap.LIMIT)
        shown = [json.loads(line) for line in journal_tool("show", f"{tmp}/journal", "honest", "--model", DEMO).stdout.splitlines()]
        assert [(m["sample"], m["resumed"], m["text"].encode()) for m in shown] == \
            [(0, 25, first.text[0]), (1, 3, first.text[1])], shown
        r = recompute(f"{tmp}/journal", DEMO, "honest", "--tp", 2)
        assert r.returncode == 0 and "the same: 2 samples, 80 tokens (28 of them came by resume), 52 log probabilities" in r.stdout, r
        assert "not checked: 28 log probabilities" in r.stdout, r
        r = recompute(f"{tmp}/journal", DEMO, "forged")
        recorded = first.ids[1][2] ^ 1
        assert r.returncode == 1 and f"token 2 (it came by resume): {recorded} is recorded, {first.ids[1][2]} comes out" in r.stdout, r
        assert "1 samples differ" in r.stdout, r


tap.main()
