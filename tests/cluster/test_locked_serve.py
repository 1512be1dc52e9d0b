"""A server whose parts all have keys: `ingot serve --key`, a gateway with one, what listens where, and how a drain that
ended streams is told."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import tap  # noqa: E402
from cluster import BIN, DEMO, Cluster, Parts, children  # noqa: E402


def ingot(*args):
    return subprocess.run([BIN / "ingot", *map(str, args)], capture_output=True, text=True, timeout=tap.LIMIT)


def chat(base):
    """Status and text of a request over HTTP."""
    body = json.dumps({"messages": [{"role": "user", "content": "Once"}], "max_tokens": 3, "temperature": 0}).encode()
    try:
        with urllib.request.urlopen(base + "/v1/chat/completions", body, timeout=tap.LIMIT) as r:
            return r.status, json.load(r)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def listeners(pid):
    """Addresses at which a process listens on TCP, as /proc/PID/net has them."""
    inodes = set()
    with contextlib.suppress(OSError):
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(fd)))
    found = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    found.append(fields[1].split(":")[0])
    return found


def interfaces(pid):
    return {line.split(":")[0].strip() for line in pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]}


def network(pid):
    return os.readlink(f"/proc/{pid}/ns/net")


LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}


class Keys:
    def __init__(self, folder, **roles):
        self.folder = folder
        self.list = f"{folder}/allowed"
        for name in ("server", *roles):
            p = ingot("key", "new", self.path(name))
            assert p.returncode == 0, p
        for name, what in roles.items():
            p = ingot("key", "add", self.list, self.path(name) + ".pub", "--for", name, "--roles", what) if what else p
            assert p.returncode == 0, p

    def path(self, name):
        return f"{self.folder}/{name}.key"

    def server(self):
        return ["--key", self.path("server"), "--allowed-keys", self.list]

    def client(self, name):
        return ["--key", self.path(name), "--server-key", self.path("server") + ".pub"]


@contextlib.contextmanager
def gateway(c, *args):
    """A gateway's address; its log is the cluster's."""
    p = subprocess.Popen([BIN / "ingot-gateway", "--http", "127.0.0.1:0", *map(str, args)], stdin=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, text=True)
    try:
        line = tap.wait_for(lambda: p.stderr.readline(), "the gateway's first line")
        yield re.search(r"http://[0-9.:]+", line).group(), p
    finally:
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=tap.LIMIT)


@tap.case
def serve_with_keys():
    c = Cluster(DEMO, tp=2, http="127.0.0.1:0")
    keys = Keys(c.dir, client="ask,observe", front="ask,observe,act", stranger=None)
    c.extra += ["--listen", f"tcp://127.0.0.1:*,{c.endpoint}", *keys.server()]
    with c:
        log = tap.wait_for(lambda: "Ready at" in c.log() and c.log(), "it is ready")
        tcp = re.search(r"Ready at (tcp://127.0.0.1:[0-9]+)", log).group(1)
        http = re.search(r"HTTP at (http://127.0.0.1:[0-9]+)", log).group(1)
        assert "--server-key " + keys.path("server") + ".pub" in log  # what clients need
        status, text = chat(http)  # the gateway's connection is private to the server
        assert status == 200 and text, (status, text)
        with_key = ingot("generate", "--connect", tcp, *keys.client("client"), "--prompt", "Once", "--max-tokens", "3")
        assert with_key.returncode == 0 and with_key.stdout, with_key
        for name in (None, "stranger"):
            p = ingot("generate", "--connect", tcp, *(keys.client(name) if name else []), "--prompt", "Once")
            assert p.returncode == 3 and "key" in p.stderr, p
        with gateway(c, "--connect", tcp, *keys.client("front")) as (base, _):
            tap.wait_for(lambda: chat(base)[0] == 200, "a gateway with a key is served")
            assert chat(base) == (200, text)
        with gateway(c, "--connect", tcp, *keys.client("stranger")) as (base, p):
            assert chat(base)[0] == 503
            assert any("key" in line for line in p.stderr), "the gateway tells why"
        loopback_alone(c)


def loopback_alone(c):
    pids = [c.serve.pid, *children(c.serve.pid)]
    reachable = {pid: listeners(pid) for pid in pids if network(pid) == network(os.getpid())}
    assert sum(map(len, reachable.values())) >= 2, "the coordinator and the gateway listen"
    assert all(set(at) <= LOOPBACK for at in reachable.values()), reachable
    apart = [pid for pid in pids if pid not in reachable]
    if not apart:
        assert "mpirun listens on all interfaces" in c.log()
        raise tap.Skip("this user may not make network namespaces")
    assert len(apart) >= 3, "mpirun and two ranks"
    assert all(interfaces(pid) == {"lo"} for pid in apart)


@tap.case
def a_gateway_needs_both_keys():
    with Parts(DEMO, groups=0) as c:
        keys = Keys(c.dir, front="ask")
        p = subprocess.run([BIN / "ingot-gateway", "--connect", c.endpoint, "--http", "127.0.0.1:0", "--key",
                            keys.path("front")], capture_output=True, text=True, timeout=tap.LIMIT)
        assert p.returncode == 2 and "--server-key" in p.stderr, p


def drain_that_ends_a_stream(c, process, pid):
    client = c.clients[0]
    with c.held():
        client.start(text=b"Once", max_tokens=200, sampling={"ignore_eos": True})
        assert client.recv()[0] == "Accepted"
        os.kill(pid, signal.SIGTERM)
        name, m = client.recv()
        while name == "Delta":
            name, m = client.recv()
    assert name == "Error" and m.retryable and "ended before the answer did" in m.detail, (name, m)
    assert process.wait(tap.LIMIT) == 4
    assert "1 requests had not ended" in c.log()


@tap.case
def a_drain_that_ends_streams_is_told():
    with Parts(DEMO, coordinator=("--drain-ms", "300")) as c:
        drain_that_ends_a_stream(c, c.coordinator, c.coordinator.pid)
    with Cluster(DEMO, extra=("--drain-ms", "300")) as c:
        drain_that_ends_a_stream(c, c.serve, c.serve.pid)


@tap.case
def a_drain_without_streams_is_a_success():
    with Parts(DEMO, coordinator=("--drain-ms", "300")) as c:
        assert c.clients[0].generate(text=b"Once", max_tokens=2).finish
        c.coordinator.send_signal(signal.SIGTERM)
        assert c.coordinator.wait(tap.LIMIT) == 0


tap.main()
