"""The clusters that faults happen to.

Served: `ingot serve` supervises coordinator, groups and gateway.
Fleet: a coordinator, groups, and a gateway, each started apart; ways between the parts can be cut; this program starts
again what has ended, as an init system does.
Network (network.py): a Fleet over several hosts."""
import contextlib
import os
import pathlib
import signal
import sys
import threading
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import ingot_client  # noqa: E402
import tap  # noqa: E402
from cluster import BIN, DEMO, ROOT, _Base, children, command_of  # noqa: E402
from relay import Way  # noqa: E402

MARK = "INGOT_CHAOS"  # in the environment of every process of a cluster
DEADLINES = ["--step-deadline-ms", 2000, "--first-step-ms", 20000]


def marked(value, name=MARK):
    """Living processes with the mark, whoever their parent is."""
    wanted, out = f"{name}={value}".encode(), []
    for p in pathlib.Path("/proc").iterdir():
        if p.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (p / "environ").read_bytes().split(b"\0") and "\nState:\tZ" not in (p / "status").read_text():
                    out.append((int(p.name), command_of(int(p.name))))
    return out


def threads_stopped(pid):
    with contextlib.suppress(OSError, IndexError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    return False


class World(_Base):
    def __init__(self, shape):
        super().__init__()
        self.shape, self.mark = shape, uuid.uuid4().hex
        for name in "tmp", "journal", "home":
            os.mkdir(f"{self.dir}/{name}", 0o700)
        self.own_files = {"log", "cache", "journal", "tmp", "home"}
        self.environment = {MARK: self.mark, "TMPDIR": f"{self.dir}/tmp", "XDG_STATE_HOME": f"{self.dir}/home",
                            "PATH": f"{BIN}:{os.environ['PATH']}"}

    def spawn(self, *cmd, env=None):
        return super().spawn(*cmd, env={**self.environment, **(env or {})})

    def pids(self, program):
        """Of a program: ingot-worker, ingot-coordinator, ingot-gateway, mpirun."""
        everything = [pid for p in list(self.procs) if p.poll() is None for pid in [p.pid, *children(p.pid)]]
        return sorted({pid for pid in everything if command_of(pid).rsplit("/", 1)[-1] == program})

    def resume(self, pid):
        """A process that was stopped goes on."""
        os.kill(pid, signal.SIGCONT)

    def groups_of_processes(self):
        """The pids of each group: of its ranks and of what has started them."""
        launchers = self.pids("mpirun")
        return [[pid, *children(pid)] for pid in launchers] or [[pid] for pid in self.pids("ingot-worker")]

    def http_address(self):
        """The gateway's, the last one that listened; None: none has."""
        found = [line for line in self.log().splitlines() if "listening at http://" in line]
        return found[-1].rsplit("http://", 1)[1].strip("/ ") if found else None

    def coordinator_args(self):
        journal = ["--journal", f"{self.dir}/journal"] if self.shape["journal"] else []
        return [*DEADLINES, *journal]

    def worker_args(self):
        """A cache that is too small for all streams has sequences preempted."""
        return ["--threads", 1, "--coll", self.shape["coll"], "--kv-blocks", self.shape["kv_blocks"]]

    def running(self, endpoint):
        """Stats of a coordinator; None: it does not answer within a second."""
        try:
            client = ingot_client.Client(endpoint, timeout=1)
        except TimeoutError:
            return None
        try:
            return client.call("Stats")[1]
        except TimeoutError:
            return None
        finally:
            client.close()

    def is_idle(self):
        """No request is left in any coordinator, and one of them has a whole group with all blocks free."""
        stats = [self.running(e) for e in self.coordinators()]
        if not all(s is not None and s.running == s.waiting == 0 for s in stats):
            return False
        return any(s.ready and s.blocks_free + s.blocks_cached == s.blocks_total for s in stats)

    def is_whole(self):
        """Every part is there, and no rank too many."""
        return all(len(self.pids(name)) == n for name, n in self.parts().items()) and \
            not any(threads_stopped(p) for name in self.parts() for p in self.pids(name))

    def settle(self):
        tap.wait_for(self.is_whole, f"all parts of the cluster are there: {self.parts()}")
        tap.wait_for(self.is_idle, "no request is left, all blocks are free")

    def left(self):
        """What a cluster that has ended must not have left: (kind, name) of each thing."""
        out = [("process", f"{pid} {name}") for pid, name in marked(self.mark)]
        out += [("file", str(p)) for p in pathlib.Path(self.dir, "tmp").rglob("*")]
        if os.environ.get("INGOT_CHAOS_SHM") == "own":
            out += [("segment", name) for name in os.listdir("/dev/shm")]
        return out + [("file", p.name) for p in pathlib.Path(self.dir).iterdir() if p.name not in self.own_files]

    def __exit__(self, *exc):
        super().__exit__(*exc)
        end = time.monotonic() + tap.LIMIT
        while (rest := marked(self.mark)) and time.monotonic() < end:  # clients, and what was started while a signal came
            for pid, _ in rest:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)


class Served(World):
    def start(self):
        s = self.shape
        self.serve = self.spawn(BIN / "ingot", "serve", DEMO, "--tp", s["tp"], "--groups", s["groups"], "--listen", self.endpoint,
                                "--http", "127.0.0.1:0", *self.worker_args(), *self.coordinator_args())

    def client_endpoint(self):
        return self.endpoint

    def coordinators(self):
        return [self.endpoint]

    def is_whole(self):
        assert self.serve.poll() is None, f"ingot serve ended with {self.serve.returncode}"
        return super().is_whole()

    def parts(self):
        return {"ingot-coordinator": 1, "ingot-gateway": 1, "ingot-worker": self.shape["groups"] * self.shape["tp"]}

    def private_folder(self):
        """Of the supervisor, with its sockets and MPI's segments."""
        for pid in self.pids("ingot-coordinator"):
            for arg in pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                if arg.startswith("--workers=ipc://"):
                    return arg.removeprefix("--workers=ipc://").rsplit("/", 1)[0]
        return None

    def end(self):
        """Drains; what is left."""
        folder = tap.wait_for(self.private_folder, "the coordinator")
        self.serve.send_signal(signal.SIGTERM)
        rc = self.serve.wait(tap.LIMIT)
        bad = [] if rc == 0 else [("exit code", f"ingot serve ended with {rc}")]
        if os.path.exists(folder):
            bad.append(("folder", folder))
        return bad + self.left()


class Fleet(World):
    """The parts, started apart; ways to the coordinator's sockets."""
    most_groups = 3

    def begin(self):
        self.ways, self.kept, self.stopping, self.keeper = {}, {}, False, None
        self.lock = threading.RLock()

    def start(self):
        self.begin()
        for side in "clients", "workers":
            self.ways[side] = Way(f"{self.dir}/way-{side}", f"{self.dir}/{side}")
        self.keep("coordinator", BIN / "ingot-coordinator", "--model", DEMO, "--listen", self.endpoint, "--workers", self.workers,
                  *self.coordinator_args())
        for i in range(self.shape["groups"]):
            self.add_group(f"group{i}")
        self.keep_gateway()

    def coordinator_args(self):
        return ["--silence-ms", 2000, *super().coordinator_args()]

    def keep_gateway(self):
        self.keep("gateway", BIN / "ingot-gateway", "--http", "127.0.0.1:0", "--connect", self.client_endpoint())
        self.keeper = threading.Thread(target=self.keep_all, daemon=True)
        self.keeper.start()

    def add_group(self, name):
        worker = ["--model", DEMO, "--connect", self.ways["workers"].endpoint, *self.worker_args()]
        if self.shape["tp"] == 1:
            self.keep(name, BIN / "ingot-worker", *worker)
        else:
            self.keep(name, ROOT / "deploy/run-group.sh", "--oversubscribe", "-np", self.shape["tp"], "--", *worker)

    def keep(self, name, *cmd):
        with self.lock:
            self.kept[name] = [cmd, self.spawn(*cmd)]

    def tell(self, process, how):
        process.send_signal(how)

    def remove(self, name):
        """Takes a part away for good; it ends by itself."""
        with self.lock:
            self.tell(self.kept.pop(name)[1], signal.SIGTERM)

    def keep_all(self):
        while not self.stopping:
            with self.lock:
                for part in self.kept.values():
                    if part[1].poll() is not None and not self.stopping:
                        part[1] = self.spawn(*part[0])
            time.sleep(0.05)

    def groups(self):
        with self.lock:
            return [name for name in self.kept if name.startswith("group")]

    def coordinators(self):
        return [self.endpoint]

    def client_endpoint(self):
        return self.ways["clients"].endpoint

    def parts(self):
        return {"ingot-coordinator": 1, "ingot-gateway": 1, "ingot-worker": len(self.groups()) * self.shape["tp"]}

    def end(self):
        with self.lock:
            self.stopping = True
        self.keeper.join()
        bad = []
        for name in sorted(self.kept, key=lambda n: not n.startswith("gateway")):  # then the coordinator, which ends the groups
            p = self.kept[name][1]
            if not name.startswith("group"):
                self.tell(p, signal.SIGTERM)
                rc = p.wait(tap.LIMIT)
                bad += [("exit code", f"{name} ended with {rc}")] if rc else []
        for name in self.groups():  # one that was started again meanwhile waits for a coordinator
            p = self.kept[name][1]
            if p.poll() is None:
                self.tell(p, signal.SIGTERM)
            p.wait(tap.LIMIT)
        for way in self.ways.values():
            way.close()
        for side in self.ways:
            os.unlink(f"{self.dir}/way-{side}")
        return bad + self.left()

    def __exit__(self, *exc):
        if not self.stopping:
            with self.lock:
                self.stopping = True
            if self.keeper:
                self.keeper.join()
            for way in self.ways.values():
                way.close()
        super().__exit__(*exc)
