"""What the journal promises: a request that was accepted is finished by the next coordinator, whether or not its client is
there, and a journal that cannot be written takes none."""
import json
import os
import pathlib
import struct
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import ingot_client  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, Cluster, Parts, full_disk  # noqa: E402

PROMPT = b"Once upon a time"
IO = 2  # enum Code
# greedy; several samples, of which stop strings end some; penalties; log probabilities, with others beside them, of
# the prompt; a bias; a context-free grammar; a call that must be made; no seed given
SUMS = b'root ::= (sum "; "){4,9}\nsum ::= term ([-+*] term)*\nterm ::= [1-9] [0-9]{0,3} | "(" sum ")"\n'
TOOL = dict(type="function", function=dict(name="look", parameters=dict(type="object", required=["at"], properties=dict(
    at=dict(type="array", items=dict(type="string", maxLength=9), minItems=2, maxItems=4)), additionalProperties=False)))
CALL = dict(turn=[dict(role="user", content=PROMPT)], tools_json=json.dumps([TOOL]).encode(), tool_choice=1, one_call=True)
REQUESTS = [dict(max_tokens=120, sampling=dict(temperature=0, ignore_eos=True)),
            dict(max_tokens=100, n=4, stop=[b"the", b"ing"], sampling=dict(seed=1)),
            dict(max_tokens=110, sampling=dict(seed=2, repetition_penalty=1.2, min_tokens=60)),
            dict(max_tokens=90, n=2, sampling=dict(seed=3, logprobs=True)),
            dict(max_tokens=60, sampling=dict(seed=4, logprobs=True, top_logprobs=2)),
            dict(max_tokens=50, sampling=dict(seed=5, prompt_logprobs=1)),
            dict(max_tokens=60, sampling=dict(seed=6, temperature=1.2, logit_bias=[dict(id=5, bias=-1)])),
            dict(max_tokens=70, sampling=dict(seed=7, temperature=1.3), grammar=dict(kind=6, source=SUMS)),
            dict(max_tokens=90, sampling=dict(seed=8, temperature=1.3), chat=CALL),
            dict(max_tokens=80, sampling=dict(temperature=1.5, ignore_eos=True))]
TENANT = b"the tenant of all"


def asked(request, text=PROMPT):
    return request if "chat" in request else dict(text=text, **request)


class Restarted(Parts):
    """Coordinator and ranks by hand, with a journal; kill() and again() are the test's decision."""

    def __init__(self, journal, *more, **kw):
        super().__init__(DEMO, coordinator=["--journal", journal, *more], **kw)

    def client(self, **kw):
        return super().client(**{"tenant": TENANT, **kw})

    def kill(self):
        self.coordinator.kill()
        self.coordinator.wait()

    def again(self):
        self.coordinator = self.spawn(*self.coordinator.args)

    def rerun(self):
        """A client of the next coordinator, once that one serves."""
        c = self.client()
        c.wait_ready()
        return c


def ask(client, prefix):
    return [client.start(request_id=f"{prefix}-{i}", **asked(r)) for i, r in enumerate(REQUESTS)]


def patient(client, rids, prefix):
    """The whole answers of the same requests again; what is refused for now is repeated."""
    answers = {rid: ingot_client.Answer() for rid in rids}
    client.collect(rids, answers=answers)
    while again := [rid for rid in rids if answers[rid].error]:
        for rid in again:
            name, m = answers[rid].error
            assert name == "Rejected" and m.retryable, m
            answers[rid] = ingot_client.Answer()
            i = int(rid.rsplit("-", 1)[1])
            client.start(request_id=rid, **asked(REQUESTS[i]))
        client.collect(again, answers=answers)
    return answers


def killed_after(c, wanted, n_messages, name, twice=False):
    """The coordinator dies after so many messages; its clients are gone, and come back to the next one."""
    client = c.rerun()
    rids = ask(client, name)
    had = {rid: ingot_client.Answer() for rid in rids}
    for _ in range(n_messages):
        kind, m = client.recv()
        had[m.request_id].take(kind, m)
    c.kill()
    client.close()
    for _ in range(1 + twice):
        c.again()
        client = c.rerun()
        if twice and _ == 0:
            c.kill()
            client.close()
    ask(client, name)
    got = patient(client, rids, name)
    for i, rid in enumerate(rids):
        a, b = had[rid], got[rid]
        assert b.finish, (rid, b.error)
        if i + 1 < len(rids):
            assert b.key() == wanted[i].key(), (n_messages, rid, b.key(), wanted[i].key())
        if a.accepted:
            assert b.accepted.attached, f"{rid}: a new request, not that of the journal"
            assert b.accepted.seed == a.accepted.seed
        for s in a.ids:
            assert b.ids[s][:len(a.ids[s])] == a.ids[s] and b.text[s].startswith(a.text[s])
            assert b.logprobs[s][:len(a.logprobs[s])] == a.logprobs[s]
    client.close()


@tap.case
def accepted_requests_outlive_the_coordinator():
    points = [0, 1, 5, 8, 9, 12, 20, 33, 50, 80, 120, 200] if "INGOT_ALL" not in os.environ else range(0, 300, 3)
    with temp_dir.folder() as tmp, Restarted(f"{tmp}/j") as c:
        client = c.rerun()
        wanted = client.answers([asked(r) for r in REQUESTS])
        client.close()
        for n in points:
            killed_after(c, wanted, n, f"after {n} ")
        for n in points[1::4]:
            killed_after(c, wanted, n, f"twice after {n} ", twice=True)
        c.kill()
        r = subprocess.run([BIN / "ingot-journal", "verify", f"{tmp}/j"], capture_output=True, text=True)
        assert r.returncode in (0, 4) and r.stdout.count("the same") > 3, r


def state(client):
    return client.call("Stats")[1].journal


def unwritable(sync):
    with temp_dir.folder() as tmp, Restarted(f"{tmp}/j", "--journal-sync", sync) as c:
        client = c.rerun()
        durable = sync != "none"
        assert state(client) == (sync if durable else "not durable: --journal-sync none"), state(client)
        wanted = client.generate(text=PROMPT, **REQUESTS[0])
        running = client.start(text=PROMPT, max_tokens=200, sampling=dict(seed=8, ignore_eos=True))
        answers = {running: ingot_client.Answer()}
        answers[running].take(*client.recv())
        assert answers[running].accepted

        def ask_again():
            rid = client.start(text=PROMPT, **REQUESTS[0])
            return client.collect([rid], answers=answers | {rid: ingot_client.Answer()})[rid]

        full_disk(c.coordinator.pid, True)
        refused = ask_again()
        if durable:
            name, m = refused.error
            assert name == "Rejected" and m.retryable and m.retry_after_ms and "journal cannot be written" in m.detail, m
            assert m.code == IO, m
            refused = ask_again()
            assert refused.error and refused.error[1].retryable and refused.error[1].code == IO, "the second one is taken"
        else:
            assert refused.key() == wanted.key()
        assert "not durable" in state(client) and "cannot be written" in state(client), state(client)
        assert client.collect([running], answers=answers)[running].finish, "a running request ends well"
        full_disk(c.coordinator.pid, False)
        tap.wait_for(lambda: "cannot be written" not in state(client), "the journal")
        again = patient(client, [client.start(request_id="again-0", text=PROMPT, **REQUESTS[0])], "again")["again-0"]
        assert again.key() == wanted.key()
        c.kill()
        c.again()
        client = c.rerun()
        client.start(request_id="again-0", text=PROMPT, **REQUESTS[0])
        got = patient(client, ["again-0"], "again")["again-0"]
        assert got.key() == wanted.key() and got.accepted.attached


@tap.case
def a_full_disk_refuses_requests_with_batch():
    unwritable("batch")


@tap.case
def a_full_disk_refuses_requests_with_each():
    unwritable("each")


@tap.case
def a_full_disk_stops_nothing_with_none():
    unwritable("none")


@tap.case
def without_a_journal_the_status_says_so():
    with Parts(DEMO) as c:
        assert state(c.clients[0]) == "not durable: there is no journal"


def journal_folders(c):
    return list(pathlib.Path(c.dir, "state", "ingot", "journal").glob("*"))


@tap.case
def serve_keeps_a_journal_by_default():
    with Cluster(DEMO, env={"XDG_STATE_HOME": "/proc/nowhere"}) as c:
        assert "no journal: cannot make the folder of /proc/nowhere" in c.log() and "no journal" in state(c.clients[0]), c.log()
    for more, kept in ([], True), (["--journal", "off"], False):
        c = Cluster(DEMO, extra=more)
        c.env = {"XDG_STATE_HOME": f"{c.dir}/state"}
        with c:
            assert c.clients[0].generate(text=PROMPT, max_tokens=5).finish
            assert state(c.clients[0]) == ("batch" if kept else "not durable: there is no journal")
            assert len(journal_folders(c)) == kept
            assert ("prompts and answers are kept in" in c.log()) == kept, c.log()
            if kept:
                folder, = journal_folders(c)
                assert folder.stat().st_mode & 0o777 == 0o700 and str(folder) in c.log()
                assert [f.stat().st_mode & 0o777 for f in folder.glob("*.journal")] == [0o600]


SECRET = b"An exceedingly secret tale"


def has_ids(data, ids):
    """Any three of them in a row, as the journal writes ids; six if they are as small as other numbers in the files are."""
    n = 3 if max(ids, default=0) > 99 else 6
    return any(struct.pack("<%di" % n, *ids[i:i + n]) in data for i in range(len(ids) - n + 1))


@tap.case
def without_content():
    """No prompt and no answer is in the files; verify replays them; what needs content is refused by name; after a
    restart the request is a new one."""
    with temp_dir.folder() as tmp, Restarted(f"{tmp}/journal", "--journal-content", "none") as c:
        client = c.clients[0]
        tap.wait_for(lambda: client.call("Models")[1].model[0].weights_from != "pending", "the weights digest")
        requests = [dict(want_prompt_ids=True, **asked(r, SECRET)) for r in REQUESTS if "chat" not in r]
        answers = client.answers(requests)
        stop = client.generate(text=SECRET, max_tokens=4, stop=[b"a secret stop string"])
        assert stop.finish and state(client) == "not durable: --journal-content none", state(client)
        c.kill()
        c.again()
        client = c.rerun()
        again = client.generate(request_id=answers[0].accepted.request_id, **requests[0])
        assert again.finish and not again.accepted.attached and again.ids == answers[0].ids, again
        client.send("Drain", request_id="d")
        c.coordinator.wait(tap.LIMIT)
        files = sorted(pathlib.Path(tmp, "journal").glob("*.journal"))
        data = b"".join(f.read_bytes() for f in files)
        assert len(files) == 2 and SECRET not in data and b"secret" not in data
        assert answers[0].accepted.prompt_digest not in data
        for a in answers:
            assert not has_ids(data, list(a.accepted.prompt_id)), "a prompt's ids are in the journal"
            assert not any(has_ids(data, ids) for ids in a.ids.values()), "an answer's ids are in the journal"
        tool = BIN / "ingot-journal"
        r = subprocess.run([tool, "verify", f"{tmp}/journal"], capture_output=True, text=True, timeout=tap.LIMIT)
        assert r.returncode in (0, 4) and r.stdout.count("the same") == 2, r  # the first was killed
        r = subprocess.run([tool, "show", files[0], answers[0].accepted.request_id], capture_output=True, text=True)
        shown = json.loads(r.stdout)
        assert shown["content"] == "none" and shown["n_tokens"] == 120 and shown["reason"] == "length", r
        assert not {"prompt", "tokens", "logprobs", "text", "stop"} & shown.keys(), r
        r = subprocess.run([tool, "show", files[0], "--model", DEMO], capture_output=True, text=True)
        assert r.returncode == 1 and "--journal-content none" in r.stderr, r
        r = subprocess.run([BIN / "ingot", "replay", "recompute", f"{tmp}/journal", DEMO], capture_output=True, text=True,
                           timeout=tap.LIMIT)
        assert r.returncode == 1 and "--journal-content none" in r.stderr, r


@tap.case
def content_is_not_taken_over_without_content():
    """Requests of a journal with content do not come into one without."""
    with temp_dir.folder() as tmp, Restarted(f"{tmp}/journal") as c:
        client = c.clients[0]
        rid = client.start(text=SECRET, max_tokens=200, sampling=dict(ignore_eos=True))
        while client.recv()[0] != "Delta":
            pass
        c.kill()
        first = set(pathlib.Path(tmp, "journal").glob("*.journal"))
        c.coordinator = c.spawn(*c.coordinator.args, "--journal-content", "none")
        client = c.rerun()
        assert client.generate(request_id=rid, text=SECRET, max_tokens=3).finish
        client.send("Drain", request_id="d")
        c.coordinator.wait(tap.LIMIT)
        assert all(SECRET in f.read_bytes() for f in first), "the files of before are as they were"
        later = set(pathlib.Path(tmp, "journal").glob("*.journal")) - first
        assert later and not any(SECRET in f.read_bytes() for f in later)


@tap.case
def a_folder_has_one_server():
    with temp_dir.folder() as tmp, Restarted(f"{tmp}/j") as c:
        r = subprocess.run([BIN / "ingot-coordinator", "--model", DEMO, "--listen", f"ipc://{c.dir}/other", "--workers",
                            f"ipc://{c.dir}/others", "--journal", f"{tmp}/j"], capture_output=True, text=True, timeout=tap.LIMIT)
        assert r.returncode == 2 and "another server writes its journal there" in r.stderr, r


tap.main()
