"""Starts Ingot for a test, on endpoints of its own in a private folder, and always takes it down again.

    with Cluster(model, tp=2, coll="shm") as c:      # through `ingot serve`, supervised
        client = c.client()
    with Parts(model, tp=2) as c:                    # coordinator and mpirun by hand, no supervisor
        ...
"""
import contextlib
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1])]
import ingot_client  # noqa: E402
import temp_dir  # noqa: E402
from tap import LIMIT, wait_for  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("INGOT_BIN", ROOT / "build" / "release" / "bin"))
DATA = pathlib.Path(os.environ.get("INGOT_DATA", ROOT.parent / "shared" / "data"))
DEMO = ROOT / "deploy" / "demo-model"
# On a busy machine a healthy group must not be given up; tests of the deadlines have their own.
PATIENT = ["--silence-ms", 1000 * LIMIT, "--step-deadline-ms", 1000 * LIMIT]


def model(name):
    """A model of the shared data, or None."""
    path = DATA / "models" / name
    return path if (path / "config.json").exists() else None


def children(pid):
    """All living descendants of a process."""
    parent = {}
    for p in pathlib.Path("/proc").iterdir():
        if p.name.isdigit():
            try:
                fields = (p / "stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            if fields[0] != "Z":
                parent[int(p.name)] = int(fields[1])
    found, todo = [], [pid]
    while todo:
        at = todo.pop()
        for child, its_parent in parent.items():
            if its_parent == at:
                found.append(child)
                todo.append(child)
    return found


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


def full_disk(pid, is_full):
    """No file of the process may grow: as when the disk is full."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 if is_full else resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def mpirun_command(n):
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", str(n)]


class _Base:
    groups = 1  # that are started at once

    def __init__(self):
        self.dir = temp_dir.make()
        self.cache = f"{self.dir}/cache"  # where digests of models are kept
        self.endpoint = f"ipc://{self.dir}/clients"
        self.workers = f"ipc://{self.dir}/workers"
        self.procs = []
        self.clients = []
        self.log_path = pathlib.Path(self.dir) / "log"

    def spawn(self, *cmd, env=None):
        with open(self.log_path, "ab") as out:
            p = subprocess.Popen([str(c) for c in cmd], stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, start_new_session=True,
                                 env={**os.environ, "XDG_CACHE_HOME": self.cache, **(env or {})})
        self.procs.append(p)
        return p

    def client(self, **kw):
        c = ingot_client.Client(self.endpoint, **{"timeout": LIMIT, **kw})
        self.clients.append(c)
        return c

    def log(self):
        return self.log_path.read_text(errors="replace")

    def worker_pids(self):
        """Pids of the ranks."""
        return sorted(pid for p in self.procs if p.poll() is None for pid in children(p.pid) + [p.pid]
                      if command_of(pid).endswith("ingot-worker"))

    def killed_in_the_middle(self, client, requests, want, again, hurt_it=None):
        """Kills a rank, or calls hurt_it, behind the first delta: the answers have the keys wanted.  For tap.race: did it come
        in time?  If not, again() waits for a whole group."""
        rids = [client.start(**r) for r in requests]
        hurt, answers, pending = False, {rid: ingot_client.Answer() for rid in rids}, set(rids)
        while pending:
            name, m = client.recv()
            if m.request_id in answers and answers[m.request_id].take(name, m):
                pending.discard(m.request_id)
            if name == "Delta" and not hurt:
                hurt = True
                if hurt_it:
                    hurt_it()
                else:
                    os.kill(self.worker_pids()[-1], signal.SIGKILL)
        for rid, key in zip(rids, want, strict=True):
            a = answers[rid]
            assert a.finish and a.key() == key, (a.error, a.key(), key)
        if sum(answers[r].finish.recoveries for r in rids) > 0:
            return True
        again()
        return False

    @contextlib.contextmanager
    def held(self):
        """The ranks are stopped: no token is computed inside the block, however long it takes."""
        ranks = self.worker_pids()
        for pid in ranks:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def answers_at_once(self, requests):
        """Answers to requests that all wait before the first token: how many sequences meet does not depend on the speed.
        A request with a grammar is accepted when the ranks have it: one token each brings them the grammars before."""
        client = self.clients[0]
        client.answers([{**r, "max_tokens": 1} for r in requests if {"grammar", "chat", "thinking_budget"} & set(r)])
        with self.held():
            rids = [client.start(**r) for r in requests]
            accepted = client.replies(rids)
        got = client.collect(rids, answers=accepted)
        for a in got.values():
            assert a.finish, a.error
        return [got[rid] for rid in rids]

    def __enter__(self):
        try:
            self.start()
            self.client()
            if self.groups:
                self.clients[0].wait_ready()
        except BaseException:
            print(self.log()[-4000:])
            self.__exit__()
            raise
        return self

    def wait_for_ends(self, seconds):
        end = time.monotonic() + (seconds or LIMIT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            for p in self.procs:
                p.wait(max(0.1, end - time.monotonic()))

    def __exit__(self, *exc):
        for c in self.clients:
            c.close()
        everything = [pid for p in self.procs for pid in children(p.pid)]
        # the first one ends the groups, at once; mpirun takes two seconds over a SIGTERM
        for told, how, seconds in ((self.procs[:1], signal.SIGTERM, 3), (self.procs, signal.SIGTERM, 15),
                                   (self.procs, signal.SIGKILL, None)):
            for p in told:
                if p.poll() is None:
                    p.send_signal(how)
            self.wait_for_ends(seconds)
        for pid in everything:
            if command_of(pid).rsplit("/", 1)[-1].startswith("ingot"):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
        if exc and exc[0]:
            print(self.log()[-4000:])
        shutil.rmtree(self.dir, ignore_errors=True)


class Parts(_Base):
    """The coordinator and one or more worker groups, started apart."""

    def __init__(self, model, tp=1, coll="auto", threads=1, worker=(), coordinator=(), mpi=None,
                 groups=1):
        super().__init__()
        self.groups = groups
        self.model, self.tp, self.coll, self.threads = model, tp, coll, threads
        self.worker_args, self.coordinator_args = list(worker), list(coordinator)
        self.mpi = tp > 1 if mpi is None else mpi

    def start(self):
        self.coordinator = self.spawn(BIN / "ingot-coordinator", "--model", self.model, "--listen",
                                      self.endpoint, "--workers", self.workers,
                                      *PATIENT, *self.coordinator_args)
        for _ in range(self.groups):
            self.group()

    def worker(self, model, *args):
        """The command of a rank."""
        return [BIN / "ingot-worker", "--model", model, "--connect", self.workers, "--coll", self.coll,
                "--threads", self.threads, *self.worker_args, *args]

    def group(self, model=None, args=()):
        """Starts one (more) worker group."""
        launcher = mpirun_command(self.tp) if self.mpi else []
        return self.spawn(*launcher, *self.worker(model or self.model, *args))


class Cluster(_Base):
    """`ingot serve`."""

    def __init__(self, model, tp=1, coll="auto", threads=1, extra=(), http="off", env=None,
                 program=None):
        super().__init__()
        self.http, self.env, self.program = http, env, program  # None: the one of BIN
        self.model, self.tp, self.coll, self.threads = model, tp, coll, threads
        self.extra = list(extra)

    def start(self):
        self.serve = self.spawn(self.program or BIN / "ingot", "serve", self.model, "--tp", self.tp, "--coll",
                                self.coll, "--threads", self.threads, "--listen", self.endpoint,
                                "--step-deadline-ms", 1000 * LIMIT, "--http", self.http, *self.extra, env=self.env)

    def whole_group(self, client, ranks):
        """Waits for a group that was killed too late."""
        wait_for(lambda: len(self.worker_pids()) == ranks, "the group that was killed too late")
        client.wait_ready()
