"""What users meet: overload, cancel, deadlines, attaching again, samples, stop strings, rubbish, idling."""
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Cluster, Parts, children, model  # noqa: E402
from ingot_client import HEADER, TYPES, Answer, pack  # noqa: E402

MODEL = model("stories260K") or DEMO
STOPPED, ENDED_BEFORE, UNKNOWN = 1, 2, 3  # CancelResult
GREEDY = {"temperature": 0.0}


@tap.case
def many_streams_at_once():
    """64 streams over one connection: none lost, none doubled (Answer checks the order)."""
    with Parts(MODEL) as c:
        client = c.clients[0]
        rids = [client.start(text=f"Story {i}".encode(), max_tokens=40,
                             sampling={"temperature": 1.0, "seed": i, "ignore_eos": True})
                for i in range(64)]
        got = client.collect(rids)
        assert all(len(got[r].ids[0]) == 40 and got[r].reason() == "length" for r in rids)
        s = client.call("Stats")[1]
        assert s.requests_finished == 64 and s.tokens_generated == 64 * 40, s
        assert s.running == 0 and s.waiting == 0


@tap.case
def queue_full_is_a_typed_refusal():
    with Parts(MODEL, worker=["--max-seqs", "2"], coordinator=["--max-queued", "4"]) as c:
        client = c.clients[0]
        with c.held():
            rids = [client.start(text=b"Once upon", max_tokens=200, sampling={"ignore_eos": True})
                    for _ in range(40)]
            got = client.replies(rids)
        client.collect(rids, answers=got)
        refused = [a.error for a in got.values() if a.error]
        assert refused and len(refused) < 40
        for name, m in refused:
            assert name == "Rejected" and m.retryable and m.retry_after_ms > 0 and m.code == 6, m
        assert sum(a.finish is not None for a in got.values()) + len(refused) == 40
        again = refused[0][1].request_id  # a refusal is not an answer: the same id may try again
        client.start(request_id=again, text=b"Once upon", max_tokens=200, sampling={"ignore_eos": True})
        assert client.collect([again])[again].finish


@tap.case
def cancel_ends_with_one_terminal():
    with Parts(MODEL) as c:
        client = c.clients[0]

        def cancelled():
            rid = client.start(text=b"Once upon", max_tokens=480, sampling={"ignore_eos": True})
            a = Answer()
            while not a.ids.get(0):
                a.take(*client.recv())
            client.send("Cancel", request_id=rid)
            while not a.terminals:
                a.take(*client.recv())
            if a.reason() == "length":
                return False
            assert a.reason() == "cancelled" and len(a.ids[0]) < 480 and a.cancel == STOPPED
            client.send("Cancel", request_id=rid)
            name, m = client.recv()
            assert (name, m.request_id, m.result) == ("CancelReply", rid, ENDED_BEFORE), (name, m)
            return True
        tap.race(cancelled)
        name, m = client.call("Ping")
        assert name == "Pong" and m.running == 0
        client.send("Cancel", request_id="no request")
        while m.request_id != "no request":
            name, m = client.recv()
        assert name == "CancelReply" and m.result == UNKNOWN, (name, m)


@tap.case
def deadline():
    with Parts(MODEL) as c:
        client = c.clients[0]
        with c.held():
            first = client.start(text=b"Once", max_tokens=5, sampling={"ignore_eos": True})
            late = client.start(text=b"Once", max_tokens=500, deadline_ms=30, sampling={"ignore_eos": True})
            got = client.replies([first, late])
            time.sleep(0.05)
        client.collect([first, late], answers=got)
        assert got[late].reason() == "deadline", got[late].finish
        assert got[first].reason() == "length"


@tap.case
def attach_again_gives_everything():
    with Parts(MODEL, coordinator=["--client-grace-ms", str(1000 * tap.LIMIT)]) as c:
        client = c.clients[0]
        whole = client.generate(text=b"Once upon a time", max_tokens=200, sampling=GREEDY)
        mine = b"a tenant"
        other = c.client(tenant=mine)
        request = dict(request_id="mine", text=b"Once upon a time", max_tokens=200, sampling=GREEDY)
        other.start(**request)
        a = Answer()
        while len(a.ids.get(0, [])) < 10:
            a.take(*other.recv())
        other.close()  # the connection breaks in the middle
        again = c.client(tenant=mine)
        again.start(**request)
        b = again.collect(["mine"])["mine"]
        assert b.accepted.attached and b.ids[0] == whole.ids[0] and b.text[0] == whole.text[0]
        # once more, after its end
        again.start(**request)
        assert again.collect(["mine"])["mine"].ids[0] == whole.ids[0]
        # an attachment elsewhere is told to the one that had it
        first, second = c.client(tenant=mine), c.client(tenant=mine)
        long = dict(request_id="two", text=b"Once upon a time", max_tokens=400,
                    sampling={"temperature": 0.0, "ignore_eos": True})
        with c.held():
            first.start(**long)
            assert first.recv()[0] == "Accepted"
            second.start(**long)
            got = second.replies(["two"])
        assert second.collect(["two"], answers=got)["two"].finish
        name, m = first.recv()
        while name == "Delta":
            name, m = first.recv()
        assert name == "Error" and "attached" in m.detail, (name, m)
        # the same id for something else is refused
        again.start(request_id="mine", text=b"Another", max_tokens=5)
        e = again.collect(["mine"])["mine"].error
        assert e[0] == "Rejected" and e[1].field == "request_id"


@tap.case
def accepted_is_enough_to_repeat_a_request():
    """What a request came to, sent as a request of its own, gives the same answer."""
    with Parts(DEMO) as c:
        client = c.clients[0]
        one = client.generate(chat={"turn": [{"role": "user", "content": b"Tell me a story."}]}, n=2,
                              want_prompt_ids=True, sampling={"top_k": 20, "stop_token_id": [9]}, max_tokens=40)
        got = one.accepted
        ids = list(got.prompt_id)
        assert hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).digest() == got.prompt_digest
        assert len(ids) == got.prompt_tokens and got.max_tokens == 40 and got.sampling.seed == got.seed
        assert got.HasField("clock_s") and got.HasField("zone_s") and got.sampling.top_p == 1
        assert set(got.stop_token_id) > {9}, got.stop_token_id
        again = client.generate(tokens={"id": ids}, n=2, sampling=got.sampling, max_tokens=got.max_tokens)
        assert again.key() == one.key() and len(one.ids) == 2
        assert again.accepted.prompt_digest == got.prompt_digest and not again.accepted.prompt_id
        assert again.accepted.stop_token_id == got.stop_token_id
        for chat, word in (({"clock_s": -1}, "clock_s"), ({"clock_s": 253402300800}, "clock_s"),
                           ({"zone_s": 86400}, "zone_s"), ({"zone_s": -86400}, "zone_s")):
            e = client.generate(chat={"turn": [{"role": "user"}], **chat}).error
            assert e[0] == "Rejected" and e[1].field == f"chat.{word}" and word in e[1].detail, e


@tap.case
def tenants_share_nothing():
    prompt = {"id": [1] + list(range(3, 103))}
    request = dict(request_id="r", tokens=prompt, max_tokens=30,
                   sampling={"temperature": 0.0, "ignore_eos": True})
    with Parts(MODEL) as c:
        a, b = c.client(tenant=b"a"), c.client(tenant=b"b")
        assert a.generate(tokens=prompt, max_tokens=2).finish.cached_tokens == 0
        assert a.generate(tokens=prompt, max_tokens=2).finish.cached_tokens >= 96
        assert b.generate(tokens=prompt, max_tokens=2).finish.cached_tokens == 0
        assert b.generate(tokens=prompt, max_tokens=2).finish.cached_tokens >= 96
        assert c.client(tenant=b"a").generate(tokens=prompt, max_tokens=2).finish.cached_tokens >= 96
        # the same id twice, and neither reaches the other's
        a.start(**request)
        b.start(**request)
        ours, theirs = a.collect(["r"])["r"], b.collect(["r"])["r"]
        assert not ours.accepted.attached and not theirs.accepted.attached
        assert ours.key() == theirs.key() and ours.reason() == "length"
        b.start(**request)  # the tenant's own one, which has ended
        assert b.collect(["r"])["r"].accepted.attached
        e = a.generate(text=b"x", max_tokens=2, tenant=b"b").error
        assert e[0] == "Rejected" and e[1].field == "tenant" and "own tenant" in e[1].detail, e
        name, m = a.call("Tokenize", text=b"x", tenant=b"b")
        assert name == "Error" and m.field == "tenant", (name, m)
        e = a.generate(text=b"x", max_tokens=2, tenant=bytes(65)).error
        assert e[0] == "Rejected" and e[1].field == "tenant" and "65 bytes" in e[1].detail, e
    with Parts(MODEL, coordinator=["--tenants", "any"]) as c:
        gateway, b = c.client(tenant=b"gateway"), c.client(tenant=b"b")
        assert gateway.generate(tokens=prompt, max_tokens=2, tenant=b"b").finish
        assert gateway.generate(tokens=prompt, max_tokens=2).finish.cached_tokens == 0
        assert b.generate(tokens=prompt, max_tokens=2).finish.cached_tokens >= 96


@tap.case
def samples_share_the_prompt():
    with Parts(MODEL) as c:
        client = c.clients[0]
        ids = [1] + list(range(3, 103))
        s = {"temperature": 1.0, "seed": 5, "ignore_eos": True}
        many = client.generate(tokens={"id": ids}, n=16, max_tokens=12, sampling=s)
        assert len(many.ids) == 16 and len(many.finish.sample) == 16
        assert len({tuple(v) for v in many.ids.values()}) > 8, "samples must differ"
        one = client.generate(tokens={"id": ids}, n=1, max_tokens=12, sampling=s)
        assert one.ids[0] == many.ids[0], "sample 0 is the request with n = 1"
        stats = client.call("Stats")[1]
        assert stats.prompt_tokens == 2 * len(ids)


@tap.case
def defaults_of_the_model():
    """generation_config.json holds for requests that leave a field open, and no other."""
    with temp_dir.folder() as folder:
        m = pathlib.Path(folder) / "m"
        shutil.copytree(DEMO, m)
        said = {"temperature": 0.5, "top_p": 0.75, "top_k": 7, "min_p": 0.125, "repetition_penalty": 1.25,
                "max_new_tokens": 9, "eos_token_id": [4, 2]}
        (m / "generation_config.json").write_text(json.dumps(said))
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        plain = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
        for option, want, n in (("auto", said, 9), ("none", plain, 200)):
            with Parts(m, coordinator=["--generation-config", option]) as c:
                client = c.clients[0]
                a = client.generate(text=b"Once", sampling={"seed": 3, "ignore_eos": True})
                assert all(getattr(a.accepted.sampling, k) == want[k] for k in names), a.accepted.sampling
                assert (a.accepted.max_tokens == 9) == (option == "auto") and len(a.ids[0]) >= 9
                own = {"temperature": 0.0, "top_p": 0.5, "top_k": 3, "min_p": 0.25, "repetition_penalty": 1.5}
                b = client.generate(text=b"Once", max_tokens=5, sampling=own)
                assert all(getattr(b.accepted.sampling, k) == own[k] for k in names), b.accepted.sampling
                assert len(b.ids[0]) == 5
        (m / "generation_config.json").write_text(json.dumps({"top_p": 2}))
        p = subprocess.run([BIN / "ingot-coordinator", "--model", m], capture_output=True, text=True, timeout=tap.LIMIT)
        assert p.returncode == 2 and "generation_config.json: top_p is 2" in p.stderr, p
        report = subprocess.run([BIN / "ingot-worker", "--inspect", "--json", "--model", DEMO], capture_output=True,
                                text=True, timeout=tap.LIMIT)
        assert abs(json.loads(report.stdout)["sampling"]["temperature"] - 0.7) < 1e-6, report


@tap.case
def stop_strings_and_limits():
    with Parts(MODEL) as c:
        client = c.clients[0]
        full = client.generate(text=b"Once upon a time", max_tokens=60, sampling=GREEDY)
        text = full.text[0]
        stop = text[20:27]
        cut = client.generate(text=b"Once upon a time", max_tokens=60, sampling=GREEDY, stop=[stop, b"zzz"])
        assert cut.reason() == "stop" and cut.text[0] == text[:text.index(stop)]
        assert cut.finish.sample[0].matched_stop == stop
        # ids are all that were generated: also those of the stop string, which the text lacks
        assert cut.ids[0] == full.ids[0][:len(cut.ids[0])]
        assert stop in client.call("Detokenize", id=cut.ids[0])[1].text
        kept = client.generate(text=b"Once upon a time", max_tokens=60, sampling=GREEDY, stop=[stop],
                               include_stop=True)
        assert kept.text[0] == text[:text.index(stop)] + stop
        by_id = client.generate(text=b"Once upon a time", max_tokens=60,
                                sampling={**GREEDY, "stop_token_id": [full.ids[0][7]]})
        first = full.ids[0].index(full.ids[0][7])
        assert by_id.reason() == "stop" and by_id.ids[0] == full.ids[0][:first + 1]
        assert by_id.finish.sample[0].stop_id == full.ids[0][7]
        assert not by_id.finish.sample[0].matched_stop
        held = client.generate(text=b"Once upon a time", max_tokens=60,
                               sampling={**GREEDY, "stop_token_id": [full.ids[0][7]], "min_tokens": 20})
        assert len(held.ids[0]) >= 20 and full.ids[0][7] not in held.ids[0][:20]
        # a stop string counts where it ends behind the first min_tokens tokens
        n = len(cut.ids[0])
        for min_tokens, ends in ((n - 1, True), (n, False)):
            late = client.generate(text=b"Once upon a time", max_tokens=n + 3, stop=[stop],
                                   sampling={**GREEDY, "min_tokens": min_tokens})
            assert (late.reason() == "stop") == ends, (min_tokens, late.reason())
            assert late.text[0] == (text[:text.index(stop)] if ends else text[:len(late.text[0])])
            assert len(late.ids[0]) == (n if ends else n + 3)


@tap.case
def refusals_name_what_is_wrong():
    with Parts(MODEL, coordinator=["--max-queued", "8"]) as c:
        client = c.clients[0]
        vocab = client.welcome.models[0].vocab or client.call("Models")[1].model[0].vocab
        ctx = client.call("Models")[1].model[0].max_ctx
        turn = {"role": "user", "content": b"x"}
        for fields, word, field in [
            (dict(text=b"x", sampling={"temperature": -1}), "temperature", "sampling.temperature"),
            (dict(text=b"x", sampling={"top_p": 1.5}), "top_p", "sampling.top_p"),
            (dict(text=b"x", sampling={"top_logprobs": 21}), "top_logprobs", "sampling.top_logprobs"),
            (dict(text=b"x", sampling={"repetition_penalty": 0}), "repetition_penalty", "sampling.repetition_penalty"),
            (dict(text=b"x", n=17), "n is 17", "n"),
            (dict(text=b"x", max_tokens=0), "max_tokens", "max_tokens"),
            (dict(text=b"x", priority=1000), "priority", "priority"),
            (dict(text=b"\xff\xfe"), "UTF-8", "text"),
            (dict(tokens={"id": [1, vocab]}), "vocabulary", "tokens.id"),
            (dict(tokens={"id": [1, -5]}), "vocabulary", "tokens.id"),
            (dict(tokens={"id": []}), "no tokens", "tokens.id"),
            (dict(tokens={"id": [1] * ctx}), "context", "tokens.id"),
            (dict(text=b"x", max_tokens=ctx), "context", "max_tokens"),
            (dict(text=b"x", model="other"), "no model of that name", "model"),
            (dict(text=b"x", n=16), "queues at most 8", "n"),
            (dict(text=b"x", sampling={"logit_bias": [{"id": vocab, "bias": 1}]}), "logit_bias", "sampling.logit_bias.id"),
            (dict(text=b"x", sampling={"logit_bias": [{"bias": 1}]}), "has no id", "sampling.logit_bias.id"),
            (dict(text=b"x", sampling={"logit_bias": [{"id": 1, "bias": 101}]}), "logit_bias", "sampling.logit_bias.bias"),
            (dict(text=b"x", sampling={"stop_token_id": [vocab + 7]}), "stop token", "sampling.stop_token_id"),
            (dict(text=b"x", stop=[b""]), "stop[0]", "stop"),
            (dict(text=b"x", stop=[b"x" * 4000, b"y" * 4000]), "more than 4096 bytes", "stop"),
            (dict(chat={"turn": [{"role": ""}]}), "no role", "chat.turn.role"),
            (dict(chat={"turn": [{"json": b'{"role":"user"},{"role":"system"}'}]}), "chat.turn.json", "chat.turn.json"),
            (dict(chat={"turn": [{"json": b"[1]"}]}), "not a JSON object", "chat.turn.json"),
            (dict(chat={"turn": [turn], "tools_json": b"{}"}), "not a JSON array", "chat.tools_json"),
            (dict(chat={"turn": [turn], "tools_json": b"[1"}), "chat.tools_json", "chat.tools_json"),
            (dict(chat={"turn": [turn], "variables_json": b"[1]"}), "not a JSON object", "chat.variables_json"),
            (dict(chat={"turn": [turn], "continue_final_message": True}), "exclude", "chat.continue_final_message"),
            (dict(), "exactly one", "text"),
            (dict(text=b"x", tokens={"id": [1]}), "exactly one", "text"),
        ]:
            a = client.generate(max_tokens=fields.pop("max_tokens", 3), **fields)
            assert a.error and a.error[0] == "Rejected", (fields, a.finish)
            assert word in a.error[1].detail and not a.error[1].retryable, a.error[1]
            assert a.error[1].field == field, a.error[1]
            assert a.error[1].code == (3 if field.endswith("json") or "UTF-8" in word else
                                       12 if field == "model" else 4), a.error[1]
        assert client.generate(text=b"x", max_tokens=2).finish


@tap.case
def rubbish_is_survived():
    """Any bytes get an error or silence; the server goes on serving."""
    import random
    rng = random.Random(3)
    with Parts(MODEL) as c:
        bad = c.client(hello=False)
        good = pack("Generate", request_id="x", text=b"hi", max_tokens=1)
        bad.send_raw(pack("Ping", request_id="p"))
        name, m = bad.recv()
        assert name == "Error" and "Hello" in m.detail and m.request == TYPES["PING"]
        bad.send("Hello", major_min=7, major_max=9)
        name, m = bad.recv()
        assert name == "Error" and "protocol" in m.detail
        for data in (b"", b"x", b"INGT", good[:11], HEADER.pack(b"INGT", 2, 0, 2, 0),
                     HEADER.pack(b"INGT", 1, 0, 999, 0), HEADER.pack(b"INGT", 1, 0, 2, 1),
                     HEADER.pack(b"INGT", 1, 0, 64, 0)):
            bad.send_raw(data)
            name, m = bad.recv()
            assert name == "Error" and m.detail and not m.HasField("request"), (data, name)
        bad.send("Hello", major_min=1, major_max=1)
        assert bad.recv()[0] == "Welcome"
        for _ in range(500):
            data = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            bad.send_raw(bytes(data[:rng.randrange(len(data) + 1)]))
        bad.send_raw(bytes(5 << 20))
        bad.sock.send_multipart([b"a", b"b", b"c"])
        assert c.clients[0].generate(text=b"Once", max_tokens=3).finish


@tap.case
def tokenize_detokenize_template():
    with Parts(DEMO) as c:
        client = c.clients[0]
        text = "Na\u00efve caf\u00e9 \u2603 \U0001F600 \0 end".encode()
        name, m = client.call("Tokenize", text=text, add_special=False)
        assert name == "Tokens" and len(m.id) > 5
        name, back = client.call("Detokenize", id=list(m.id))
        assert name == "Text" and back.text == text
        turns = [{"role": "user", "content": b"What is Ingot?"}]
        name, m = client.call("ApplyTemplate", chat={"turn": turns})
        assert name == "Text" and b"What is Ingot?" in m.text
        a = client.generate(chat={"turn": turns}, max_tokens=60, sampling=GREEDY)
        b = client.generate(text=m.text, add_special=False, max_tokens=60, sampling=GREEDY, want_prompt_text=True)
        assert a.finish and a.ids == b.ids and a.reason() == "eos", a.reason()
        name, m = client.call("Tokenize", chat={"turn": turns}, want_token_text=True)
        assert name == "Tokens" and len(m.id) == a.accepted.prompt_tokens == len(m.token_text), (name, m)
        assert m.id == client.call("Tokenize", text=b.accepted.prompt_text, add_special=False)[1].id
        name, m = client.call("Tokenize", chat={"turn": turns}, text=b"a")
        assert name == "Error" and m.field == "chat" and "not both" in m.detail, (name, m)
        name, m = client.call("Tokenize", chat={"turn": [{"json": b"{bad json"}]})
        assert name == "Error" and m.field == "chat.turn.json" and m.request == 4, (name, m)
        name, m = client.call("Detokenize", id=[10 ** 6])
        assert name == "Error" and m.field == "id", (name, m)
        a = client.generate(chat={"turn": [{"role": "user"}, {"json": b"{bad json"}]}, max_tokens=3)
        assert a.error and a.error[1].code == 3, a.error


@tap.case
def errors_name_the_request_that_they_answer():
    """A refused Cancel and a refused Tokenize with the id of a running Generate do not end it."""
    with Parts(MODEL) as c:
        client = c.clients[0]
        client.send("Generate", request_id="r", text=b"Once", max_tokens=64, sampling=GREEDY)
        client.send("Cancel", request_id="r", tenant=b"another one")
        client.send("Tokenize", request_id="r", text=b"\xff")
        client.send("Generate", text=b"without an id")
        refused, end = [], None
        while end is None or len(refused) < 3:
            name, m = client.recv()
            if name == "Error":
                refused.append((m.request, m.request_id, m.field))
            elif name == "Finish":
                end = m
        assert sorted(refused) == sorted([(TYPES["CANCEL"], "r", "tenant"), (TYPES["TOKENIZE"], "r", "text"),
                                          (TYPES["GENERATE"], "", "request_id")]), refused
        assert end.completion_tokens == 64, end


@tap.case
def long_prompts_do_not_stall_others():
    """A megabyte of text is tokenized beside the loop: pings are answered meanwhile."""
    with Parts(DEMO) as c:
        client = c.clients[0]

        def answered():
            t0 = time.monotonic()
            client.send("Tokenize", request_id="big", text=b"word " * 1000000, add_special=False)
            n_before = 0
            while True:
                client.send("Ping", request_id="p")
                if client.recv()[0] == "Tokens":
                    break
                n_before += 1
            assert client.recv()[0] == "Pong"
            print(f"    {n_before} pings answered while 5 MB were tokenized in {time.monotonic() - t0:.2f} s")
            return n_before > 0  # never, if the loop itself tokenized
        tap.race(answered)


@tap.case
def an_address_in_use_is_said():
    with Parts(MODEL) as c:
        for where in (c.endpoint, "tcp://127.0.0.1:*"):
            p = c.spawn(BIN / "ingot-coordinator", "--model", MODEL, "--listen", where, "--workers", c.workers)
            assert p.wait(tap.LIMIT) == 3, p.returncode
        assert "in use by another program" in c.log()
        assert c.clients[0].generate(text=b"Once", max_tokens=3).finish, "the first server was hurt"


@tap.case
def drain():
    with Parts(MODEL) as c:
        client = c.clients[0]
        with c.held():
            rid = client.start(text=b"Once upon", max_tokens=300, sampling={"ignore_eos": True})
            a = Answer()
            a.take(*client.recv())
            client.send("Drain", request_id="d")
            late = client.start(text=b"late", max_tokens=3)
            seen, late_answer = set(), Answer()
            while not late_answer.terminals:
                name, m = client.recv()
                seen.add(name)
                if m.request_id == late:
                    late_answer.take(name, m)
        while not a.terminals:
            name, m = client.recv()
            seen.add(name)
            if m.request_id == rid:
                a.take(name, m)
        assert "Draining" in seen and a.finish and len(a.ids[0]) == 300
        assert late_answer.error[0] == "Rejected" and "drain" in late_answer.error[1].detail
        assert c.coordinator.wait(tap.LIMIT) == 0
        left = [e for e in (c.endpoint, c.workers) if os.path.exists(e.removeprefix("ipc://"))]
        assert not left, f"socket files are left: {left}"
        assert c.procs[1].wait(tap.LIMIT) == 0, "the worker was not told to end"


@tap.case
def a_cluster_that_idles_uses_no_cpu():
    """No thread of any process spins, at --tp 2; prints how much of a core all of them use."""
    tick = os.sysconf("SC_CLK_TCK")

    def fields(stat):
        return stat.read_text().rsplit(")", 1)[1].split()

    def used(pids):
        return sum(int(f) for pid in pids for f in fields(pathlib.Path(f"/proc/{pid}/stat"))[11:13]) / tick

    with Cluster(MODEL, tp=2) as c:
        c.clients[0].generate(text=b"Once", max_tokens=20)
        time.sleep(1.0)
        pids = [c.serve.pid] + children(c.serve.pid)
        assert len(pids) >= 5, pids
        began, before, looks = time.monotonic(), used(pids), {}
        for _ in range(100):
            time.sleep(0.03)
            for pid in pids:
                for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
                    looks.setdefault(stat.parts[-2], []).append(fields(stat)[0] == "S")
        share = (used(pids) - before) / (time.monotonic() - began)
        print(f"    {100 * share:.2f} % of one core in {len(pids)} processes, {len(looks)} threads")
        # one that spins is never asleep, however busy the machine is
        spins = [thread for thread, asleep in looks.items() if len(asleep) == 100 and sum(asleep) < 25]
        assert not spins, {thread: sum(looks[thread]) for thread in spins}


tap.main()
