"""A cluster over several hosts, which are namespaces (tests/hosts): the coordinator and the launchers of the groups on the
head, the ranks of each group on two hosts of its own.  Links can be cut and hosts can be lost.  The gateway and the clients
are processes of this machine; they reach the coordinator through a socket in the shared folder."""
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
sys.path.append(str(HERE.parent / "hosts"))  # last: it has a streams.py too
import namespaces  # noqa: E402
import tap  # noqa: E402
from cluster import BIN, DEMO, ROOT, command_of  # noqa: E402
from worlds import Fleet  # noqa: E402

PAIRS = ("w1", "w2"), ("w3", "w4")
SHELL = f"{sys.executable} {namespaces.HERE}/remote_shell.py"
SUBNET = f"{namespaces.SUBNET}.0/24"
OURS = "orterun", "orted", "bash"


class Network(Fleet):
    most_groups = len(PAIRS)

    def __init__(self, shape):
        super().__init__(shape)
        slow = {shape["slow"]: (1, 1)} if shape["slow"] else {}
        self.net = namespaces.Network(["head", *(name for pair in PAIRS for name in pair)], self.dir, slow)
        self.own_files |= {f"{name}.shell" for name in self.net.names}
        self.hosts_of = {}  # of each group

    def start(self):
        self.begin()
        head = self.net.host["head"]
        self.keep("coordinator", *head.enter([BIN / "ingot-coordinator", "--model", DEMO, "--listen", self.endpoint, "--workers",
                                              "tcp://0.0.0.0:5556", "--allow-remote", *self.coordinator_args()]))
        for i in range(self.shape["groups"]):
            self.add_group(f"group{i}")
        self.keep_gateway()

    def add_group(self, name):
        pair = next(p for p in PAIRS if p not in [self.hosts_of[g] for g in self.groups()])
        each = max(1, self.shape["tp"] // len(pair))
        where = ",".join(f"{self.net.host[n].address}:{each}" for n in pair[:self.shape["tp"]])
        head = self.net.host["head"]
        self.hosts_of[name] = pair
        self.keep(name, *head.enter([
            ROOT / "deploy/run-group.sh", "--mca", "plm_rsh_agent", SHELL, "--mca", "btl_tcp_if_include", SUBNET, "--mca",
            "oob_tcp_if_include", SUBNET, "-np", self.shape["tp"], "--host", where, "--", "--model", DEMO, "--connect",
            f"tcp://{head.address}:5556", *self.worker_args()]))

    def client_endpoint(self):
        return self.endpoint

    def pids(self, program):
        """mpirun's program is called orterun."""
        name = {"mpirun": "orterun"}.get(program, program)
        return sorted({*super().pids(program), *(pid for host in self.net.host.values() for pid in host.pids(name))})

    def groups_of_processes(self):
        """Of each group the ranks; mpirun ends with the first of them."""
        return [ranks for pair in PAIRS if (ranks := [pid for n in pair for pid in self.net.host[n].pids("ingot-worker")])]

    def resume(self, pid):
        """nsenter has stopped itself when it saw its child stopped; it would not see the child's end."""
        with self.lock:
            for _, process in self.kept.values():
                process.send_signal(signal.SIGCONT)
        super().resume(pid)

    def tell(self, process, how):
        if command_of(process.pid) == "nsenter":
            namespaces.Host.tell(process, how)
        else:
            process.send_signal(how)

    def left(self):
        """Also on the hosts: processes, segments, files but for the folder that a daemon of Open MPI leaves when mpirun was
        killed."""
        out, known = [], {pathlib.Path(self.dir).name, *ROOT.parts}  # a checkout below /tmp is bound there, too
        for name, host in self.net.host.items():
            def rest(host=host):
                return {pid: p for pid, p in host.processes().items() if p.startswith("ingot") or p in OURS}
            tap.wait_for(lambda: not rest(), f"nothing runs on {name}")
            root = pathlib.Path(f"/proc/{host.pid}/root")
            out += [("segment", f"{name}:{p.name}") for p in (root / "dev/shm").iterdir()]
            out += [("file", f"{name}:{p.name}") for p in (root / "tmp").iterdir()
                    if p.name not in known and not p.name.startswith("ompi.")]
        return out + super().left()

    def __enter__(self):
        self.net.__enter__()
        return super().__enter__()

    def __exit__(self, *exc):
        try:
            super().__exit__(*exc)
        finally:
            self.net.__exit__()
