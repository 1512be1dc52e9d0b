"""Groups that are not what this server serves are refused by name; answers are continued only where the bits
are certain to be the same."""
import fcntl
import hashlib
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import ingot_client as ic  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
import zmq  # noqa: E402
from cluster import BIN, DEMO, Parts, mpirun_command  # noqa: E402
from experts_model import write_safetensors  # noqa: E402

REFUSED, MODEL = 5, 3  # exit codes of ingot-worker


def logged(c, text):
    tap.wait_for(lambda: text in c.log(), text)


def copy_of_demo(folder, name):
    to = pathlib.Path(folder) / name
    shutil.copytree(DEMO, to, ignore=shutil.ignore_patterns("*.py", "*.md"))
    return to


def change_config(model):
    c = json.loads((model / "config.json").read_text())
    c["rope_theta"] = 12345.0
    (model / "config.json").write_text(json.dumps(c))


def change_late_byte(model):
    with open(model / "model.safetensors", "r+b") as f:
        f.seek(-7, os.SEEK_END)
        byte = f.read(1)[0]
        f.seek(-7, os.SEEK_END)
        f.write(bytes([byte ^ 1]))


def change_token(model):
    t = json.loads((model / "tokenizer.json").read_text())
    vocab = t["model"]["vocab"]
    name = next(k for k, v in vocab.items() if v == 300)
    vocab[name + "x"] = vocab.pop(name)
    (model / "tokenizer.json").write_text(json.dumps(t))


def change_nothing(model):
    c = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(dict(sorted(c.items())), indent=7))


CHANGES = [(change_config, "the weights digest (configuration and weights) differs"),
           (change_late_byte, "the weights digest (configuration and weights) differs"),
           (change_token, "the text digest (tokenizer, templates, end ids, generation defaults) differs")]


def check_refused(c, group, text):
    assert group.wait(tap.LIMIT) == REFUSED, c.log()
    assert text in c.log(), text


@tap.case
def another_configuration_weight_or_token_is_refused_by_name():
    with temp_dir.folder() as folder, Parts(DEMO) as c:
        for change, text in CHANGES:
            model = copy_of_demo(folder, change.__name__)
            change(model)
            group = c.group(model)
            check_refused(c, group, text)
        assert c.clients[0].generate(text=b"Once", max_tokens=5).finish
        same = copy_of_demo(folder, "same")
        change_nothing(same)
        c.group(same)
        tap.wait_for(lambda: c.log().count("is active (") == 2, "both serve")


@tap.case
def the_first_group_is_held_against_the_server_s_own_too():
    with temp_dir.folder() as folder, Parts(DEMO, groups=0) as c:
        model = copy_of_demo(folder, "late")
        change_late_byte(model)
        check_refused(c, c.group(model), CHANGES[1][1])
        c.group()
        c.clients[0].wait_ready()
        assert c.clients[0].generate(text=b"Once", max_tokens=5).finish


def status(c, *command):
    out = subprocess.run([BIN / "ingot", *command, "--connect", c.endpoint], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return out.stdout


@tap.case
def identities_are_shown():
    with Parts(DEMO, tp=2) as c:
        model = json.loads(status(c, "models", "--json"))
        group = json.loads(status(c, "status", "--json"))["groups"][0]
        assert model["weights_from"] == "own" and len(model["weights_digest"]) == 64
        assert model["weights_digest"] == group["weights_digest"]
        assert len(model["text_digest"]) == 64 != model["weights_digest"]
        assert group["numerics"].split("/")[1:4] in [["cpu", "strict", a] for a in ("a8", "a8-bf16", "a8-bf16-tiles")], group
        assert group["numerics"].endswith("/tp1.2.4.8"), group
        text = status(c, "status")
        assert group["numerics"] in text and f"weights {model['weights_digest'][:16]} (own)" in text, text
        digest = model["weights_digest"]
    told = ("--weights-digest", digest.upper())
    with Parts(DEMO, coordinator=told) as c:
        model = json.loads(status(c, "models", "--json"))
        assert (model["weights_from"], model["weights_digest"]) == ("told", digest)
    other = "0" * 63 + "1"
    with Parts(DEMO, coordinator=("--weights-digest", other), groups=0) as c:
        check_refused(c, c.group(), f"this server {other} (told)")
    bad = subprocess.run([BIN / "ingot-coordinator", "--model", DEMO, "--weights-digest", digest[1:]],
                         capture_output=True, text=True)
    assert bad.returncode == 2 and "64 hexadecimal digits" in bad.stderr, bad


@tap.case
def a_worker_without_text_is_not_asked_for_it():
    with temp_dir.folder() as folder, Parts(DEMO, groups=0) as c:
        bare = copy_of_demo(folder, "bare")
        for f in bare.glob("tokenizer*"):
            f.unlink()
        c.group(bare)
        c.clients[0].wait_ready()


@tap.case
def other_numerics_are_refused_while_a_group_has_some():
    with Parts(DEMO) as c:
        other = c.group(args=("--kv-dtype", "int8"))
        check_refused(c, other, "the numerics id differs")
        assert "kv-i8" in c.log()
        own = json.loads(status(c, "status", "--json"))["groups"][0]["numerics"]
        order = "bf16" if "/a8-bf16-tiles/" in own else "bf16-tiles"  # not the default of this processor
        check_refused(c, c.group(args=("--activations", order)), f"/a8-{order}/")
        check_refused(c, c.group(args=("--activations", "checkpoint")), "/ac/")
        # once no group is here and no answer is half made another id may come
        os.kill(c.worker_pids()[0], signal.SIGKILL)
        tap.wait_for(lambda: not c.clients[0].call("Stats")[1].group, "the group is lost")
        c.group(args=("--kv-dtype", "int8"))
        c.clients[0].wait_ready()


# ---- answers that are continued, and those that are not ----

def signal_all(pids, sig):
    for pid in pids:
        os.kill(pid, sig)


def begin_two(c):
    """With one sequence at a time: a request that has tokens and one that waits; the ranks are stopped."""
    client = c.clients[0]
    while True:
        first, second = (client.start(text=b"Once", max_tokens=400, sampling={"ignore_eos": True, "temperature": 0.0})
                         for _ in range(2))
        answers = {first: ic.Answer(), second: ic.Answer()}
        while not answers[first].ids.get(0):
            name, m = client.recv()
            answers[m.request_id].take(name, m)
        ranks = c.worker_pids()
        signal_all(ranks, signal.SIGSTOP)
        running = client.call("Stats")[1].running  # what was computed before has arrived when this has
        take_backlog(client, answers)
        if running and not answers[first].terminals:
            return first, second, answers
        signal_all(ranks, signal.SIGCONT)  # the first was too quick
        read_to_end(client, answers, [first, second])


def take_backlog(client, answers):
    """What came while the client waited for a reply to something else."""
    for name, m in client.backlog:
        answers[m.request_id].take(name, m)
    client.backlog.clear()


def read_to_end(client, answers, rids):
    take_backlog(client, answers)
    while not all(answers[r].terminals for r in rids):
        name, m = client.recv(tap.LIMIT)
        answers[m.request_id].take(name, m)


@tap.case
def fast_answers_end_with_their_group():
    with Parts(DEMO, worker=("--numerics", "fast"), coordinator=("--max-seqs", "1", "--turn-tokens", "0")) as c:
        client = c.clients[0]
        assert "/fast/" in client.call("Stats")[1].group[0].numerics
        first, second, answers = begin_two(c)
        signal_all(c.worker_pids(), signal.SIGKILL)
        read_to_end(client, answers, [first])
        name, error = answers[first].error
        assert name == "Error" and not error.retryable and "numerics are fast" in error.detail, error
        assert not answers[second].terminals
        c.group()
        read_to_end(client, answers, [second])
        assert answers[second].finish and len(answers[second].ids[0]) == 400


# ---- digests that are not known yet ----

def large_model(folder, name, last=0):
    """A Llama of zeros, too large to be hashed at the start; its last byte is `last`."""
    to = copy_of_demo(folder, name)
    hidden, ffn, layers = 256, 4096, 2
    c = json.loads((to / "config.json").read_text())
    c |= {"hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers, "torch_dtype": "float32"}
    (to / "config.json").write_text(json.dumps(c))
    q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    shapes = {"model.embed_tokens.weight": [c["vocab_size"], hidden]}
    if not c.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = [c["vocab_size"], hidden]
    for i in range(layers):
        p = f"model.layers.{i}."
        shapes |= {p + "self_attn.q_proj.weight": [q, hidden], p + "self_attn.k_proj.weight": [kv, hidden],
                   p + "self_attn.v_proj.weight": [kv, hidden], p + "self_attn.o_proj.weight": [hidden, q],
                   p + "mlp.gate_proj.weight": [ffn, hidden], p + "mlp.up_proj.weight": [ffn, hidden],
                   p + "mlp.down_proj.weight": [hidden, ffn], p + "input_layernorm.weight": [hidden],
                   p + "post_attention_layernorm.weight": [hidden]}
    shapes["model.norm.weight"] = [hidden]
    write_safetensors(to / "model.safetensors",
                      {n: ("F32", s, bytes(4 * math.prod(s))) for n, s in shapes.items()})
    with open(to / "model.safetensors", "r+b") as f:
        f.seek(-1, os.SEEK_END)
        f.write(bytes([last]))
    long_ago = time.time() - 1000
    os.utime(to / "model.safetensors", (long_ago, long_ago))
    assert (to / "model.safetensors").stat().st_size > 16 << 20
    return to


class Locked:
    """Holds the lock of a file's digest, so that no process may hash it."""

    def __init__(self, cache, path):
        name = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:32]
        folder = pathlib.Path(cache) / "ingot" / "digests"
        folder.mkdir(parents=True, exist_ok=True)
        self.file = open(folder / (name + ".lock"), "w")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def release(self):
        self.file.close()


def group_weights(c):
    return [g.weights_digest.hex() for g in c.clients[0].call("Stats")[1].group]


@tap.case
def a_group_without_a_digest_serves_but_replaces_none():
    with temp_dir.folder() as folder:
        model = large_model(folder, "large")
        with Parts(model) as c:
            digest = tap.wait_for(lambda: all(group_weights(c)) and group_weights(c), "the group's digest")[0]
            tap.wait_for(lambda: c.clients[0].call("Models")[1].model[0].weights_from == "own", "the server's digest")
            assert c.clients[0].call("Models")[1].model[0].weights_digest.hex() == digest
        c = Parts(model, coordinator=("--weights-digest", digest, "--max-seqs", "1", "--turn-tokens", "0"))
        lock = Locked(c.cache, model / "model.safetensors")
        with c:
            client = c.clients[0]
            assert group_weights(c) == [""]
            first, second, answers = begin_two(c)
            signal_all(c.worker_pids(), signal.SIGKILL)
            read_to_end(client, answers, [first])
            name, error = answers[first].error
            assert name == "Error" and not error.retryable and "digest was known" in error.detail, error
            c.group()
            logged(c, "its weights digest is not known yet")
            stats = client.call("Stats")[1]
            assert not stats.ready and len(stats.group) == 1 and stats.waiting == 1, stats
            lock.release()
            client.wait_ready()
            assert group_weights(c) == [digest]
            read_to_end(client, answers, [second])
            assert answers[second].finish
            # a known one is replaced, and its answers go on: the digest of the next is in the cache
            first, second, answers = begin_two(c)
            n_joined = c.log().count("is active")
            signal_all(c.worker_pids(), signal.SIGKILL)
            c.group()
            read_to_end(client, answers, [first, second])
            assert answers[first].finish and answers[second].finish, answers[first].error
            assert answers[first].finish.recoveries == 1 and c.log().count("is active") == n_joined + 1


@tap.case
def a_group_whose_late_digest_differs_is_refused():
    with temp_dir.folder() as folder:
        model, other = large_model(folder, "large"), large_model(folder, "other", 1)
        c = Parts(model, groups=0)
        lock = Locked(c.cache, other / "model.safetensors")
        with c:
            group = c.group(other)
            c.clients[0].wait_ready()  # it may serve
            tap.wait_for(lambda: c.clients[0].call("Models")[1].model[0].weights_from == "own", "the server's digest")
            lock.release()
            check_refused(c, group, CHANGES[1][1])


@tap.case
def answers_of_a_group_with_other_weights_end():
    with temp_dir.folder() as folder:
        model, other = large_model(folder, "large"), large_model(folder, "other", 1)
        c = Parts(model, groups=0, coordinator=("--max-seqs", "1", "--turn-tokens", "0"))
        lock = Locked(c.cache, model / "model.safetensors")
        with c:
            client = c.clients[0]
            group = c.group(other)
            client.wait_ready()
            tap.wait_for(lambda: group_weights(c) != [""], "the group's digest")
            assert client.call("Models")[1].model[0].weights_from == "pending"
            first, second, answers = begin_two(c)
            lock.release()  # now the server learns its own
            read_to_end(client, answers, [first])
            name, error = answers[first].error
            assert name == "Error" and not error.retryable, error
            assert "had other weights than this server" in error.detail, error
            signal_all(c.worker_pids(), signal.SIGCONT)
            check_refused(c, group, CHANGES[1][1])
            c.group()
            read_to_end(client, answers, [second])
            assert answers[second].finish and len(answers[second].ids[0]) == 400


# ---- ranks of one group ----

def start_mixed(c, first, second):
    launcher = mpirun_command(1)
    return c.spawn(*launcher, *c.worker(first), ":", "-np", "1", *c.worker(second))


@tap.case
def ranks_with_other_weights_are_no_group():
    with temp_dir.folder() as folder:
        late = copy_of_demo(folder, "late")
        change_late_byte(late)
        with Parts(DEMO, groups=0) as c:
            assert start_mixed(c, DEMO, late).wait(tap.LIMIT) == MODEL, c.log()
            assert "rank 1 has other weights than rank 0" in c.log()
        # large ones are served with until the digests are known
        model, other = large_model(folder, "large"), large_model(folder, "other", 1)
        with Parts(model, groups=0) as c:
            assert start_mixed(c, model, other).wait(tap.LIMIT) != 0
            assert "rank 1 has other weights than rank 0" in c.log()
        with Parts(model, groups=0) as c:
            start_mixed(c, model, model)
            c.clients[0].wait_ready()
            tap.wait_for(lambda: all(group_weights(c)), "the group's digest")


# ---- Hellos that cannot be ----

WORKER, WORKER_TYPES = ic.load("worker")


class FakeGroup:
    """Rank 0 of a group that does not exist."""
    good = dict(wire_version=3, model="m", world=1, backend="cpu", coll="local", vocab=2048, max_ctx=512,
                block_len=16, n_blocks=100, max_step_tokens=64, max_seqs=8, launch=1, pid=1, numerics="n")

    def __init__(self, c, **changes):
        self.sock = zmq.Context.instance().socket(zmq.DEALER)
        self.sock.setsockopt(zmq.LINGER, 0)
        self.sock.connect(c.workers)
        hello = WORKER["Hello"](**{**self.good, **changes}).SerializeToString()
        self.sock.send(ic.HEADER.pack(b"INGT", 1, 0, WORKER_TYPES["HELLO"], 0) + hello)

    def reply(self):
        """Name and message of what comes next."""
        assert self.sock.poll(tap.LIMIT * 1000), "no reply"
        frame = self.sock.recv()
        number = ic.HEADER.unpack_from(frame)[3]
        name = next(k.capitalize() for k, v in WORKER_TYPES.items() if v == number)
        return name, WORKER[name].FromString(frame[ic.HEADER.size:])


@tap.case
def impossible_sizes_are_refused():
    most = 2 ** 32 - 1
    rows = {"world": [0, 1025, most], "vocab": [0, 1, 2047, 2049, most], "max_ctx": [0, 1, 100000, most],
            "block_len": [0, 4097, most], "n_blocks": [0, 10 ** 8 + 1, 2 ** 31, most],
            "max_step_tokens": [0, 65537, most], "max_seqs": [0, 4097, most]}
    with Parts(DEMO, groups=0) as c:
        for field, values in rows.items():
            for value in values:
                name, m = FakeGroup(c, **{field: value}).reply()
                assert name == "Refused" and field in m.detail and str(value) in m.detail, (field, value, m)
        name, m = FakeGroup(c, block_len=4096, n_blocks=10 ** 6).reply()
        assert name == "Refused" and "n_blocks * block_len" in m.detail, (name, m)
        name, m = FakeGroup(c, wire_version=2).reply()
        assert name == "Refused" and "protocol" in m.detail, (name, m)
        c.group()
        c.clients[0].wait_ready()
        assert c.clients[0].generate(text=b"Once", max_tokens=5).finish


class Narrow(Parts):
    """A coordinator with little memory."""

    def start(self):
        self.spawn("prlimit", f"--as={8 << 30}", BIN / "ingot-coordinator", "--model", self.model, "--listen",
                   self.endpoint, "--workers", self.workers)


@tap.case
def a_group_too_large_for_the_server_s_memory_is_refused():
    with Narrow(DEMO, groups=0) as c:
        large = FakeGroup(c, n_blocks=10 ** 8, max_seqs=4096)
        assert large.reply()[0] == "Welcome"
        name, m = large.reply()
        assert name == "Refused" and ("memory" in m.detail or "MiB" in m.detail), (name, m)
        c.group()
        c.clients[0].wait_ready()
        assert c.clients[0].generate(text=b"Once", max_tokens=5).finish


tap.main()
