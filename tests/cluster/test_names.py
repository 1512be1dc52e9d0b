"""Names from outside that would forge lines, colour a terminal or turn its text around: through each door, nothing of them
reaches standard error, standard output or a log file as it is.  And traffic that is no traffic writes few lines."""
import json
import os
import pathlib
import struct
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1]),
                str(pathlib.Path(__file__).resolve().parents[1] / "gateway")]
import ingot_client as ic  # noqa: E402
import tap  # noqa: E402
import zmq  # noqa: E402
from cluster import BIN, DEMO, Parts  # noqa: E402

os.environ.setdefault("INGOT_BIN", str(BIN))
from gateway_process import Gateway  # noqa: E402

FORGED = "12:00:00.000 error coordinator all is lost"
EVIL = f"a\x1b[31m\x07\n{FORGED}\n\r\x7f\u009b2J\u0085\u2028\u202e\u2066\u200f\ufeffz"
WORKER, WORKER_TYPES = ic.load("worker")
HELLO = dict(wire_version=3, model="demo-model", world=1, backend="cpu", coll="local", vocab=1024, max_ctx=512, block_len=16,
             n_blocks=64, max_step_tokens=64, max_seqs=8, launch=1, pid=1, numerics="x")


def check(shown, *wanted):
    """shown: bytes that a terminal would get; each of wanted is in them."""
    text = shown.decode()
    bad = [c for c in text if (ord(c) < 0x20 and c != "\n") or 0x7f <= ord(c) < 0xa0 or c in "\u061c\ufeff" or
           0x200b <= ord(c) <= 0x200f or 0x2028 <= ord(c) <= 0x202e or 0x2060 <= ord(c) <= 0x2069]
    assert not bad, (bad, text)
    assert not any(line.startswith(FORGED) for line in text.splitlines()), text
    for w in wanted:
        assert w in text, (w, text)


def run(*args, **env):
    p = subprocess.run([str(a) for a in args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=tap.LIMIT, env={**os.environ, **env})
    return p.stdout


class Fake:
    """A program that speaks as a worker group."""

    def __init__(self, endpoint):
        self.sock = zmq.Context.instance().socket(zmq.DEALER)
        self.sock.setsockopt(zmq.LINGER, 1000)
        self.sock.connect(endpoint)

    def say(self, name, **fields):
        cls = WORKER["".join(w.capitalize() for w in name.split("_"))]
        self.sock.send(ic.HEADER.pack(b"INGT", 1, 1, WORKER_TYPES[name], 0) + cls(**fields).SerializeToString())


def logged(c, text):
    tap.wait_for(lambda: text in c.log(), text)


@tap.case
def names_of_clients():
    with Parts(DEMO, coordinator=("--log-level", "debug", "--client-grace-ms", "0")) as c:
        client = c.client(hello=False)
        client.send("Hello", major_min=1, major_max=1, client=EVIL, tenant=b"x" * 16, token=client.token)
        assert client.recv()[0] == "Welcome"
        name, m = client.call("Tokenize", model=EVIL, text=b"x")
        assert name == "Error" and m.field == "model", m
        rid = EVIL[:40]
        with c.held():
            client.send("Generate", request_id=rid, text=b"Once", max_tokens=400)
            tap.wait_for(lambda: client.recv()[1].request_id == rid, "it is taken")
            client.close()
            logged(c, "its client is gone")
        logged(c, "client")
        check(c.log_path.read_bytes(), "is a\\x1b[31m\\x07\\n12:00", "request a\\x1b[31m")


@tap.case
def names_of_workers():
    with Parts(DEMO) as c:
        stats = c.clients[0].call("Stats")[1]
        hello = {**HELLO, "vocab": 2048, "max_ctx": 1024, "max_step_tokens": 512, "max_seqs": 64,
                 "n_blocks": 4096, "numerics": stats.group[0].numerics, "weights_digest": stats.group[0].weights_digest}
        fake = Fake(c.workers)
        fake.say("HELLO", **{**hello, "backend": EVIL, "coll": EVIL, "model": EVIL})  # it stands by
        tap.wait_for(lambda: len(c.clients[0].call("Stats")[1].group) == 2, "it is one of two groups")
        check(run(BIN / "ingot", "status", "--connect", c.endpoint), "\\x1b[31m")
        fake.say("FAULT", epoch=1, rank=0, detail=EVIL, status=1)
        logged(c, "is lost: rank 0")
        Fake(c.workers).say("HELLO", **{**hello, "numerics": EVIL})
        logged(c, "the numerics id differs")
        check(c.log_path.read_bytes(), "rank 0: a\\x1b[31m", "the group has a\\x1b[31m")
        assert c.clients[0].generate(text=b"Once", max_tokens=2).finish


def safetensors(path, name):
    head = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + bytes(4))


def gguf(path, key):
    raw = key.encode()
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(raw)) + raw + struct.pack("<I", 99))


@tap.case
def names_in_files():
    with Parts(DEMO, groups=0) as c:
        folder = pathlib.Path(c.dir) / ("m" + EVIL.replace("/", ""))
        folder.mkdir()
        config = json.loads((DEMO / "config.json").read_text())
        for name in ("tokenizer.json", "tokenizer_config.json"):
            if (DEMO / name).exists():
                (folder / name).write_bytes((DEMO / name).read_bytes())
        (folder / "config.json").write_text(json.dumps(config))
        safetensors(folder / "model.safetensors", EVIL)
        check(run(BIN / "ingot-worker", "--model", folder, "--connect", c.workers), "tensor")
        check(run(BIN / "ingot", "inspect", folder), "tensor")
        (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-2])
        check(run(BIN / "ingot", "inspect", folder), "\\x1b[31m")
        (folder / "config.json").write_text(json.dumps({**config, "architectures": [EVIL], "model_type": EVIL}))
        check(run(BIN / "ingot", "inspect", folder), "\\x1b[31m")
        file = pathlib.Path(c.dir) / "x.gguf"
        gguf(file, EVIL)
        check(run(BIN / "ingot", "inspect", file), "x.gguf")
        check(run(BIN / "ingot-coordinator", "--model", folder / "nowhere"), "\\x1b[31m")
        check(run(BIN / "ingot-coordinator", "--" + EVIL), "\\x1b[31m")
        check(run(BIN / "ingot-gateway", "--http", EVIL), "\\x1b[31m")
        check(run(BIN / "ingot", "generate", "--connect", "ipc:///nowhere/" + EVIL, "--prompt", "x", "--timeout-ms", "200"))


@tap.case
def names_over_http():
    with Parts(DEMO) as c:
        log = pathlib.Path(c.dir) / "access"
        with Gateway("--connect", c.endpoint, "--access-log", log) as g:
            g.wait_ready()
            raw = EVIL.encode().replace(b"\n", b"").replace(b"\r", b"")
            body = json.dumps({"model": EVIL, "messages": [{"role": "user", "content": "x"}], "user": EVIL}).encode()
            for head in (b"POST /v1/chat/completions HTTP/1.1\r\nX-Request-Id: " + raw, b"POST /" + raw + b" HTTP/1.1",
                         b"POST /v1/chat/completions HTTP/1.1\r\nUser-Agent: x"):
                with g.connect() as s:
                    s.sock.sendall(head + b"\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                                   % len(body) + body)
                    s.sock.recv(65536)
            tap.wait_for(lambda: log.exists() and log.read_bytes().count(b"\n") >= 1, "the access log")
        check(log.read_bytes())
        check(c.log_path.read_bytes())


@tap.case
def noise_writes_few_lines():
    """30,000 messages that are none to each socket, and 3,000 groups that come and go."""
    with Parts(DEMO) as c:
        before = c.log().count("\n")
        client, fake = c.client(), Fake(c.workers)
        for i in range(30000):
            fake.sock.send(b"INGT" + bytes([i % 256]) * (i % 40))
        for i in range(300):
            for _ in range(100):
                client.send_raw(b"INGT" + bytes([i % 256]) * (i % 40))
            for _ in range(100):
                assert client.recv()[0] == "Error"
        digest = c.clients[0].call("Models")[1].model[0].weights_digest
        for i in range(3000):
            fake.say("HELLO", **{**HELLO, "weights_digest": digest, "vocab": i})
        assert c.clients[0].generate(text=b"Once", max_tokens=2).finish
        fake.say("HELLO", **{**HELLO, "vocab": 7})
        lines = c.log().count("\n") - before
        assert lines < 120, lines  # ten at once, then one a second


tap.main()
