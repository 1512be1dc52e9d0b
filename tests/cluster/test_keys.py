"""Keys: who may connect, as a client and as a worker group, and what for."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1]),
                str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python")]
import ingot  # noqa: E402
import ingot_client as ic  # noqa: E402
import tap  # noqa: E402
import zmq  # noqa: E402
from cluster import BIN, DEMO, Parts  # noqa: E402

WORKER, WORKER_TYPES = ic.load("worker")
HELLO = dict(wire_version=3, model="demo-model", world=1, backend="cpu", coll="local", vocab=1024, max_ctx=512, block_len=16,
             n_blocks=64, max_step_tokens=64, max_seqs=8, launch=1, pid=1, numerics="x")


def run(*args):
    return subprocess.run([BIN / "ingot", *map(str, args)], capture_output=True, text=True, timeout=tap.LIMIT)


def ok(*args):
    p = run(*args)
    assert p.returncode == 0, (args, p.stderr)
    return p.stdout


class Locked(Parts):
    """Both sockets on TCP with keys; files in the cluster's folder."""

    def __init__(self, **kw):
        super().__init__(DEMO, groups=0, **kw)
        self.workers = "tcp://127.0.0.1:*"
        self.list = f"{self.dir}/allowed"
        self.local = self.endpoint
        for name in ("server", "client", "operator", "worker", "watcher", "other"):
            ok("key", "new", self.path(name))
        for name, roles in (("client", "ask"), ("operator", "operate,observe"), ("worker", "serve"), ("watcher", "observe")):
            self.allow(name, roles)

    def path(self, name):
        return f"{self.dir}/{name}.key"

    def allow(self, name, roles):
        ok("key", "add", self.list, self.path(name) + ".pub", "--for", name, "--roles", roles)

    def start(self):
        told, tell = os.pipe()
        os.set_inheritable(tell, True)
        with open(self.log_path, "ab") as out:
            self.coordinator = subprocess.Popen(
                [BIN / "ingot-coordinator", "--model", DEMO, "--listen", f"tcp://127.0.0.1:*,{self.local}", "--workers",
                 self.workers, "--key", self.path("server"), "--allowed-keys", self.list, "--notify-fd", str(tell)],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=[tell])
        self.procs.append(self.coordinator)
        os.close(tell)
        with os.fdopen(told) as f:
            _, self.tcp, self.workers = f.readline().split()

    def keys(self, name, server="server"):
        return ["--key", self.path(name), "--server-key", self.path(server) + ".pub"]

    def worker(self, model, *args):
        return super().worker(model, *self.keys("worker"), *args)

    def ask(self, command, name=None, *args):
        return run(command, "--connect", self.tcp, *(self.keys(name) if name else []), *args)


def generate(c, name=None, **kw):
    return c.ask("generate", name, "--prompt", "Once", "--max-tokens", "3", **kw)


def logged(c, text):
    tap.wait_for(lambda: text in c.log(), text)


@tap.case
def clients_without_the_right_key_are_refused():
    with Locked() as c:
        c.group()
        c.clients[0].wait_ready()  # over ipc, which needs none
        assert generate(c, "client").returncode == 0
        no_key = generate(c)
        assert no_key.returncode == 3, no_key  # either side may be the first to see it
        assert "one side has keys" in no_key.stderr or "want a key" in no_key.stderr, no_key
        other = generate(c, "other")
        assert other.returncode == 3 and "refuses this key" in other.stderr, other
        wrong_server = run("generate", "--connect", c.tcp, *c.keys("client", "other"), "--prompt", "Once")
        assert wrong_server.returncode == 3 and "another key" in wrong_server.stderr, wrong_server
        worker = generate(c, "worker")
        assert worker.returncode == 3 and "refuses this key" in worker.stderr, worker
        logged(c, "refused for clients: it is not in the list")
        secret = pathlib.Path(c.path("client")).read_text().split("secret ")[1].strip()
        assert secret not in c.log()


@tap.case
def each_role_may_do_its_part():
    with Locked() as c:
        c.group()
        c.clients[0].wait_ready()
        for name, may in (("client", {"generate"}), ("watcher", {"status"}), ("operator", {"status"})):
            for command, args in (("generate", ["--prompt", "Once", "--max-tokens", "2"]), ("status", ["--json"]),
                                  ("drain", [])):
                if command == "drain" and name == "operator":
                    continue
                p = c.ask(command, name, *args)
                assert (p.returncode == 0) == (command in may), (name, command, p)
                assert p.returncode == 0 or "role" in p.stderr, (name, command, p)
        p = c.ask("drain", "operator")
        assert p.returncode == 0, p
        assert c.coordinator.wait(tap.LIMIT) == 0
        assert "key operator asks the server to drain" in c.log()


@tap.case
def a_removed_key_ends_its_connections():
    with Locked() as c:
        c.group()
        c.clients[0].wait_ready()
        client = ingot.Client(c.tcp, key=c.path("client"), server_key=c.path("server") + ".pub", timeout=tap.LIMIT)
        stream = client.generate("Once", max_tokens=400, ignore_eos=True)
        with c.held():
            ok("key", "remove", c.list, "client")
            logged(c, "the connection of key client ends")
            try:
                stream.result()
                raise AssertionError("the stream went on")
            except ingot.ConnectionLost as e:
                assert "refuses this key" in str(e), e
        client.close()
        c.allow("client", "ask")
        logged(c, "the list of keys was read again: 4 keys")
        assert generate(c, "client").returncode == 0
        ok("key", "remove", c.list, "worker")
        logged(c, "is lost: its key may not serve any more")
        assert c.procs[1].wait(tap.LIMIT) == 5


@tap.case
def a_request_belongs_to_its_key():
    with Locked() as c:
        c.allow("other", "ask")
        c.group()
        c.clients[0].wait_ready()
        mine, thief = (ingot.Client(c.tcp, key=c.path(n), server_key=c.path("server") + ".pub", tenant=b"acme",
                                    token=b"the same token of both", timeout=tap.LIMIT) for n in ("client", "other"))
        with c.held():
            stream = mine.generate("Once", max_tokens=40, ignore_eos=True)
            assert thief.cancel(stream.request_id) == "unknown"
        assert stream.result().reason == "length"
        thief.close()
        mine.close()


class Fake:
    """A program that pretends to be a worker group."""

    def __init__(self, endpoint, keys=None):
        self.sock = zmq.Context.instance().socket(zmq.DEALER)
        self.sock.setsockopt(zmq.LINGER, 0)
        if keys:
            self.sock.curve_publickey, self.sock.curve_secretkey, self.sock.curve_serverkey = keys
        self.sock.connect(endpoint)
        self.say("HELLO", **HELLO)

    def say(self, name, **fields):
        cls = WORKER["".join(w.capitalize() for w in name.split("_"))]
        with contextlib.suppress(zmq.Again):  # a connection that was refused takes nothing
            self.sock.send(ic.HEADER.pack(b"INGT", 1, 1, WORKER_TYPES[name], 0) + cls(**fields).SerializeToString(),
                           zmq.NOBLOCK)

    def answered(self):
        return self.sock.poll(0) != 0


def pair(c, name, server):
    words = dict(line.split() for line in pathlib.Path(c.path(name)).read_text().splitlines())
    public = pathlib.Path(c.path(server) + ".pub").read_text().split()[1]
    return words["public"].encode(), words["secret"].encode(), public.encode()


@tap.case
def groups_without_the_right_key_are_refused():
    with Locked() as c:
        digest = c.clients[0].call("Models")[1].model[0].weights_digest
        fakes = [Fake(c.workers) for _ in range(8)]
        fakes += [Fake(c.workers, pair(c, name, server)) for name in ("other", "client")
                  for server in ("server", "other") for _ in range(4)]
        for f in fakes:
            f.say("HELLO", **{**HELLO, "weights_digest": digest})
        logged(c, "refused for workers: its roles do not suffice, client")
        logged(c, "refused for workers: it is not in the list")
        group = c.group()  # the real one has a place
        c.clients[0].wait_ready()
        assert c.clients[0].generate(text=b"Once", max_tokens=5).finish
        assert not any(f.answered() for f in fakes)
        assert len(c.clients[0].call("Stats")[1].group) == 1
        for f in fakes:
            f.sock.close(0)
        group.send_signal(signal.SIGTERM)
        group.wait(tap.LIMIT)
        wrong = c.spawn(*super(Locked, c).worker(DEMO, *c.keys("other"), "--lease-ms", "500"))
        assert wrong.wait(tap.LIMIT) == 4
        logged(c, "the server refuses this key")


@tap.case
def files_that_others_may_read_are_refused():
    with Locked() as c:
        os.chmod(c.path("client"), 0o644)
        p = generate(c, "client")
        assert p.returncode == 2 and "others may read" in p.stderr, p
        assert os.stat(c.path("worker")).st_mode & 0o777 == 0o600
        assert os.stat(c.list).st_mode & 0o777 == 0o600
        os.chmod(c.list, 0o666)
        p = run("key", "list", c.list)
        assert p.returncode == 2 and "others may write" in p.stderr, p


@tap.case
def tcp_beyond_loopback_wants_keys():
    with Locked() as c:
        key = ["--key", c.path("server"), "--allowed-keys", c.list]
        for args, code in ((["--listen", "tcp://0.0.0.0:1"], 2), (["--workers", "tcp://0.0.0.0:1"], 2),
                           (["--listen", f"ipc://{c.dir}/x", "--workers", f"ipc://{c.dir}/y", "--key", c.path("server")], 2)):
            p = subprocess.run([BIN / "ingot-coordinator", "--model", DEMO, *args], capture_output=True, text=True,
                               timeout=tap.LIMIT)
            assert p.returncode == code and "--allowed-keys" in p.stderr, p
        open_ = subprocess.Popen([BIN / "ingot-coordinator", "--model", DEMO, "--listen", "tcp://0.0.0.0:*", "--workers",
                                  f"ipc://{c.dir}/w", *key], stderr=subprocess.PIPE, text=True)
        assert any("serving" in line for line in open_.stderr)
        open_.send_signal(signal.SIGTERM)
        open_.communicate()
        assert open_.returncode == 0


@tap.case
def drain_over_loopback_needs_the_same_user():
    c = Parts(DEMO, groups=0)
    c.endpoint = "tcp://127.0.0.1:*"
    told, tell = os.pipe()
    os.set_inheritable(tell, True)
    try:
        c.coordinator = subprocess.Popen([BIN / "ingot-coordinator", "--model", DEMO, "--listen", c.endpoint, "--workers",
                                          c.workers, "--notify-fd", str(tell)], stderr=subprocess.PIPE, text=True,
                                         pass_fds=[tell])
        c.procs.append(c.coordinator)
        os.close(tell)
        with os.fdopen(told) as f:
            endpoint = f.readline().split()[1]
        stranger = ic.Client(endpoint, timeout=tap.LIMIT)
        name, m = stranger.call("Drain")
        assert name == "Error" and "role operate" in m.detail, m
        stranger.close()
        ok("drain", "--connect", endpoint)
        _, log = c.coordinator.communicate(timeout=tap.LIMIT)
        assert c.coordinator.returncode == 0 and f"user {os.getuid()}, process" in log, log
    finally:
        c.__exit__(*sys.exc_info())


tap.main()
