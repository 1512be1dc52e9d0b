"""Frames that are nearly right, over each socket of the coordinator: clients', workers', and the handshakes that ask for
a key (ZAP).  A client beside them gets the answers of a quiet server.  mutation.py says how many."""
import contextlib
import pathlib
import random
import socket
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import ingot_client as ic  # noqa: E402
import tap  # noqa: E402
import zmq  # noqa: E402
from cluster import BIN, DEMO, Parts  # noqa: E402
from mutation import Beside, Relay, choose, client_seeds, count, mutate, record_client, worker_seeds  # noqa: E402

N = count(20000, 3000)
BATCH = 200


def alive(c):
    assert c.coordinator.poll() is None, c.log()[-3000:]
    assert c.clients[0].generate(text=b"Once", max_tokens=2).finish


def flood(c, endpoint, seeds, first=None):
    """N mutated frames from connections that are replaced now and then; what comes back is read."""
    frames = choose(seeds, endpoint.rsplit("/", 1)[1])
    sock = None
    with Beside(c.endpoint):
        for i in range(N // BATCH):
            if i % 10 == 0:
                if sock:
                    sock.close(5000)
                sock = zmq.Context.instance().socket(zmq.DEALER)
                sock.setsockopt(zmq.RCVHWM, 0)
                sock.setsockopt(zmq.SNDHWM, 100)
                sock.setsockopt(zmq.SNDTIMEO, 1000 * tap.LIMIT)
                sock.connect(endpoint)
                if first:
                    sock.send(first)
            for _ in range(BATCH):
                sock.send(next(frames))
            while sock.poll(0):
                sock.recv()
        sock.close(0)
    alive(c)


@tap.case
def frames_of_clients():
    with Parts(DEMO, coordinator=("--client-grace-ms", "0")) as c:
        seeds, relay = client_seeds(), record_client(c)
        assert {"Hello", "Generate", "Tokenize", "Stats"} <= {ic.unpack(f)[0] for f in relay.up}
        flood(c, c.endpoint, seeds + relay.up, first=seeds[0])


@tap.case
def frames_of_workers():
    with Parts(DEMO, groups=0) as c:
        with Relay(f"ipc://{c.dir}/relay", c.workers) as relay:
            group = c.spawn(BIN / "ingot-worker", "--model", DEMO, "--connect", relay.endpoint, "--threads", 1)
            c.clients[0].wait_ready()
            assert c.clients[0].generate(**Beside.ASK).finish
            group.terminate()
            assert group.wait(tap.LIMIT) == 0
        c.group()
        c.clients[0].wait_ready()
        group = c.clients[0].call("Stats")[1].group[0]
        hello = dict(wire_version=3, model="demo-model", world=1, backend="cpu", coll="local", vocab=2048, max_ctx=1024,
                     block_len=16, n_blocks=4096, max_step_tokens=512, max_seqs=64, launch=1, pid=1, numerics=group.numerics,
                     weights_digest=group.weights_digest)
        flood(c, c.workers, worker_seeds(hello) + relay.up)


def handshake(port, data):
    with socket.create_connection(("127.0.0.1", port)) as s:
        with contextlib.suppress(OSError):  # the other side may have ended it
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)


@tap.case
def handshakes_that_ask_for_a_key():
    """The greeting of ZMTP 3.1 with CURVE and what may follow it, mutated."""
    with Parts(DEMO, groups=0) as c:
        for args in (("key", "new", f"{c.dir}/s.key"), ("key", "new", f"{c.dir}/w.key"),
                     ("key", "add", f"{c.dir}/list", f"{c.dir}/w.key.pub", "--for", "w", "--roles", "ask")):
            subprocess.run([BIN / "ingot", *args], check=True, capture_output=True, timeout=tap.LIMIT)
        c.procs[0].terminate()
        c.procs[0].wait(tap.LIMIT)
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        c.coordinator = c.spawn(BIN / "ingot-coordinator", "--model", DEMO, "--listen", f"{c.endpoint},tcp://127.0.0.1:{port}",
                                "--workers", c.workers, "--key", f"{c.dir}/s.key", "--allowed-keys", f"{c.dir}/list")
        tap.wait_for(lambda: c.log().count("serving demo-model") == 2, "it listens")
        c.group()
        c.client().wait_ready()
        rng = random.Random(2)
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15) + b"\x00" + bytes(31)
        seeds = [greeting, greeting + b"\x04\xc8\x05HELLO\x01\x00" + bytes(72 + 32 + 8 + 80),
                 greeting + b"\x04\x40\x08INITIATE" + bytes(300), greeting.replace(b"CURVE", b"NULL\0") + b"\x04\x19\x05READY"]
        for _ in range(N // 20):
            handshake(port, mutate(rng, rng.choice(seeds)))
        assert c.coordinator.poll() is None, c.log()[-3000:]
        assert c.clients[-1].generate(text=b"Once", max_tokens=2).finish
        p = subprocess.run([BIN / "ingot", "generate", "--connect", f"tcp://127.0.0.1:{port}", "--key", f"{c.dir}/w.key",
                            "--server-key", f"{c.dir}/s.key.pub", "--prompt", "Once", "--max-tokens", "2"],
                           capture_output=True, timeout=tap.LIMIT)
        assert p.returncode == 0, p


tap.main()
