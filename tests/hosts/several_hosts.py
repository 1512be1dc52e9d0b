"""A cluster over hosts that are namespaces, its group started by deploy/run-group.sh."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import namespaces  # noqa: E402
import tap  # noqa: E402
from cluster import BIN, DEMO, ROOT, Parts, model  # noqa: E402
from ingot_client import Answer  # noqa: E402
from streams import finish, start  # noqa: E402

MODEL = model("stories260K") or DEMO
LAUNCHER = ROOT / "deploy/run-group.sh"
SHELL = f"{sys.executable} {namespaces.HERE}/remote_shell.py"
ONE_NETWORK = ["--mca", "btl_tcp_if_include", f"{namespaces.SUBNET}.0/24", "--mca", "oob_tcp_if_include", f"{namespaces.SUBNET}.0/24"]


class Hosts(Parts):
    """Coordinator and launcher on host head, a rank on each of two of the others: w1 and w2, and w3, if there is one, as a
    spare."""

    remote = ("--allow-remote",)  # the coordinator's options for connections from other hosts

    def __init__(self, slow=None, patient=False, spare=False, deaf=False, **kw):
        """deaf: the launcher learns of a loss from the coordinator alone."""
        deadlines = [] if patient else ["--step-deadline-ms", "1000", "--silence-ms", "1000"]
        super().__init__(MODEL, tp=2, **kw)
        self.coordinator_args = [*deadlines, *self.remote]
        self.net = namespaces.Network(["head", "w1", "w2", *(["w3"] if spare else [])], self.dir, slow)
        self.patience = {"INGOT_PROBE_S": str(tap.LIMIT)} if spare else {}  # a slow host is none that is left out
        if deaf:
            self.patience["INGOT_SILENCE_S"] = str(tap.LIMIT)
        self.mpirun = [arg for name in ("time", "intvl") for arg in ("--mca", f"oob_tcp_keepalive_{name}", str(tap.LIMIT))] if deaf else []
        self.workers = "tcp://0.0.0.0:5556"

    def __enter__(self):
        self.net.__enter__()
        return super().__enter__()

    def __exit__(self, *exc):
        for c in self.clients:
            c.close()
        self.net.__exit__()
        for p in self.procs:
            p.wait(tap.LIMIT)
        if exc and exc[0]:
            print(self.log()[-6000:])
        shutil.rmtree(self.dir, ignore_errors=True)

    def spawn(self, *argv, env=None):
        with open(self.log_path, "ab") as out:
            p = self.net.host["head"].spawn(*argv, stdout=out, stderr=subprocess.STDOUT,
                                            env={"XDG_CACHE_HOME": self.cache, **(env or {})})
        self.procs.append(p)
        return p

    def group(self, model=None, args=()):
        return self.launch(model or self.model, "--threads", 1, *args)

    def hosts(self, hosts=None):
        """The options of mpirun."""
        hosts = hosts or [self.net.host[n] for n in self.net.names if n != "head"]
        return [*ONE_NETWORK, *self.mpirun, "--mca", "plm_rsh_agent", SHELL, "--host",
                ",".join(f"{h.address}:1" for h in hosts)]

    def launch(self, model, *args, ranks=2, hosts=None):
        """Starts a launcher on the head."""
        head = self.net.host["head"].address
        return self.spawn(LAUNCHER, "-np", ranks, *(self.hosts(hosts) if hosts else self.hosts()), "--", "--model", model, "--connect", f"tcp://{head}:5556", *args,
                          env={"PATH": f"{BIN}:{os.environ['PATH']}", **self.patience})

    def rank(self, name):
        (pid,) = tap.wait_for(lambda: self.net.host[name].pids("ingot-worker"), f"a rank on {name}")
        return pid


@contextlib.contextmanager
def undisturbed(kind=Hosts, **kw):
    if why := namespaces.missing():
        raise tap.Skip(f"not shown: {why}")
    with Parts(MODEL, tp=2) as c:
        want = finish(c.clients[0], start(c.clients[0]))
    with kind(**kw) as c:
        yield c, want


def hurt_in_the_middle(c, want, hurt, heal=lambda: None):
    """The streams go on with the bytes that they would have had.  Returns the longest silence in seconds."""
    client = c.clients[0]
    rids = start(client)
    answers = {rid: Answer() for rid in rids}
    deltas, last, silence, recoveries = 0, None, 0.0, client.call("Stats")[1].recoveries
    healed = False
    while any(not a.terminals for a in answers.values()):
        if deltas == 40 and last is None:
            hurt()
            last = time.monotonic()
        if not healed and last and "starting it again" in c.log():
            heal()
            healed = True
        try:
            name, m = client.recv(timeout=0.1)
        except TimeoutError:
            continue
        if last:
            silence, last = max(silence, time.monotonic() - last), time.monotonic()
        if m.request_id in answers:
            answers[m.request_id].take(name, m)
            deltas += name == "Delta"
    for a in answers.values():
        assert a.finish, a.error
    assert [answers[r].key() for r in rids] == want, "other bytes"
    assert client.call("Stats")[1].recoveries == recoveries + 1
    return silence
