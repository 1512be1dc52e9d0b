"""deploy/slurm/ingot.sbatch under a real Slurm: a controller and two nodes, each a host made of namespaces.  Behind --all:
Debian's slurmctld, slurmd and munge are no packages of the default suite."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import ingot_client  # noqa: E402
import namespaces  # noqa: E402
import tap  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, DEMO, ROOT, Parts, model  # noqa: E402
from streams import STREAMS, finish, start  # noqa: E402

MODEL = model("stories260K") or DEMO
NODES = ["w1", "w2"]
CANCELLED = 7  # ErrorCode: the server ended before the answer was complete
CONF = """
ClusterName=test
SlurmctldHost=head
SlurmUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=/run/slurmctld
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdTimeout=10
KillWait=8
ReturnToService=2
JobRequeue=1
{nodes}
PartitionName=main Nodes={names} Default=YES State=UP
"""


def missing():
    if not os.environ.get("INGOT_ALL"):
        return "only with --all"
    for name in ("slurmctld", "slurmd", "sbatch", "munged"):
        if not shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin"):
            return f"there is no {name} (apt install slurmctld slurmd slurm-client munge)"
    return namespaces.missing()


class Slurm:
    """A network of hosts with munge and Slurm's daemons; jobs run as root."""

    def __init__(self, folder):
        self.folder = folder
        self.net = namespaces.Network(["head", *NODES], folder)

    def __enter__(self):
        self.net.__enter__()
        (pathlib.Path(self.folder) / "munge.key").write_bytes(os.urandom(128))
        cpus = len(os.sched_getaffinity(0))
        addresses = "".join(f"{h.address} {n}\n" for n, h in self.net.host.items())
        conf = CONF.format(names=",".join(NODES),
                           nodes="\n".join(f"NodeName={n} NodeAddr={self.net.host[n].address} CPUs={cpus} State=UNKNOWN" for n in NODES))
        (pathlib.Path(self.folder) / "slurm.conf").write_text(conf)
        (pathlib.Path(self.folder) / "hosts").write_text(f"127.0.0.1 localhost\n{addresses}")
        self.munge("head")
        self.daemon("head", "slurmctld")
        for name in NODES:
            self.start(name)
        try:
            tap.wait_for(lambda: self.output("head", "sinfo", "-h", "-o", "%D %t").split() == ["2", "idle"], "two idle nodes")
        except AssertionError:
            for name in ("slurmctld", *(f"slurmd-{n}" for n in NODES)):
                print((pathlib.Path(self.folder) / f"{name}.log").read_text()[-1500:])
            raise
        return self

    def munge(self, name):
        self.run(name, "sh", "-ec", f"""
            mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /etc/munge
            mkdir -p /run/munge /run/slurmctld /run/slurmd
            mount --bind {self.folder}/hosts /etc/hosts
            cp {self.folder}/munge.key /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
            chown -R munge:munge /run/munge /etc/munge
            setpriv --reuid=munge --regid=munge --clear-groups munged --force --seed-file=/run/munge/seed \\
                --log-file=/run/munge/log --pid-file=/run/munge/pid""")

    def start(self, node):
        """A host becomes a node."""
        self.munge(node)
        self.daemon(node, "slurmd", "-N", node)

    def __exit__(self, *exc):
        self.net.__exit__()

    def env(self, **more):
        return {"SLURM_CONF": f"{self.folder}/slurm.conf", "PATH": f"{BIN}:{os.environ['PATH']}:/usr/sbin",
                "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}

    def daemon(self, host, program, *args):
        log = program if host == "head" else f"{program}-{host}"
        self.net.host[host].spawn(program, "-D", "-f", f"{self.folder}/slurm.conf", "-L", f"{self.folder}/{log}.log", *args,
                                  env=self.env(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def run(self, host, *argv):
        assert self.net.host[host].spawn(*argv, env=self.env()).wait(tap.LIMIT) == 0, argv

    def output(self, host, *argv):
        p = self.net.host[host].spawn(*argv, env=self.env(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return p.communicate(timeout=tap.LIMIT)[0].decode()

    def submit(self, *args):
        text = self.output("head", "env", f"INGOT_LISTEN=ipc://{self.folder}/clients", "sbatch", "--parsable", "--nodes", "2",
                           "--ntasks-per-node", "1", "--output", f"{self.folder}/job.log", "--open-mode=append",
                           "--chdir", ROOT, ROOT / "deploy/slurm/ingot.sbatch", MODEL, "--threads", "1", *args)
        return text.strip()

    def log(self):
        path = pathlib.Path(self.folder) / "job.log"
        return path.read_text() if path.exists() else ""


@contextlib.contextmanager
def job():
    if why := missing():
        raise tap.Skip(why)
    with Parts(MODEL, tp=2) as c:
        want = finish(c.clients[0], start(c.clients[0]))
    with temp_dir.folder() as folder, Slurm(folder) as s:
        number = s.submit()
        assert number.isdigit(), number
        try:
            tap.wait_for(lambda: "is active" in s.log(), "a group in the job")
            client = ingot_client.Client(f"ipc://{folder}/clients", timeout=tap.LIMIT)
            client.wait_ready()
            yield s, number, client, want
            client.close()
        except BaseException:
            print(s.log()[-5000:])
            raise


def state(s, number):
    return s.output("head", "scontrol", "show", "job", number).split("JobState=")[1].split()[0]


@tap.case
def serves_and_drains():
    with job() as (s, number, client, want):
        assert finish(client, start(client)) == want
        rids = start(client)
        s.run("head", "scancel", "-b", "-s", "TERM", number)
        assert finish(client, rids) == want, "running requests finish"
        tap.wait_for(lambda: state(s, number) == "COMPLETED", "the job's end")
        for name in NODES:
            assert not s.net.host[name].pids("ingot-worker"), name


@tap.case
def a_killed_rank():
    with job() as (s, number, client, want):
        rids = start(client)
        client.backlog.append(client.recv())
        os.kill(s.net.host["w2"].pids("ingot-worker")[0], signal.SIGKILL)
        assert finish(client, rids) == want
        assert "starting it again" in s.log() and state(s, number) == "RUNNING"


@tap.case
def scancel_tells_the_clients():
    with job() as (s, number, client, want):
        rids = [client.start(text=b"Once", max_tokens=100000 if MODEL == DEMO else 400, sampling={"ignore_eos": True})
                for _ in range(STREAMS)]
        client.backlog.append(client.recv())
        t0 = time.monotonic()
        s.run("head", "scancel", number)
        got = client.collect(rids)
        print(f"    every stream had its end after {time.monotonic() - t0:.1f} s: "
              f"{sum(bool(a.finish) for a in got.values())} finished, {sum(bool(a.error) for a in got.values())} with an Error")
        assert all(a.terminals == 1 for a in got.values()), got
        tap.wait_for(lambda: state(s, number) in ("CANCELLED", "COMPLETED", "FAILED"), "the job's end")
        for name in NODES:
            tap.wait_for(lambda name=name: not s.net.host[name].pids("ingot-worker"), name)


@tap.case
def a_lost_node_requeues_the_job():
    """The second node is lost: Slurm ends the job, of which its clients are told, and starts it again when the node is
    back (not before two minutes have passed)."""
    with job() as (s, number, client, want):
        rids = start(client)
        client.backlog.append(client.recv())
        s.net.host["w2"].kill()
        got = client.collect(rids)
        assert all(a.finish or a.error[1].code == CANCELLED for a in got.values()), got
        tap.wait_for(lambda: state(s, number) == "PENDING", "the job in the queue again")
        s.net.restore("w2")
        s.start("w2")
        tap.wait_for(lambda: s.log().count("is active") == 2, "a group in the job")
        again = ingot_client.Client(f"ipc://{s.folder}/clients", timeout=tap.LIMIT)
        again.wait_ready()
        assert finish(again, start(again)) == want
        again.close()


@tap.case
def srun_starts_the_ranks():
    """`srun --mpi=pmix` instead of mpirun, as docs/hosts.md has it; a coordinator on the head."""
    if why := missing():
        raise tap.Skip(why)
    with Parts(MODEL, tp=2) as c:
        want = finish(c.clients[0], start(c.clients[0]))
    with temp_dir.folder() as folder, Slurm(folder) as s, open(f"{folder}/job.log", "wb") as out:
        def begin(*argv):
            return s.net.host["head"].spawn(*argv, env=s.env(), stdout=out, stderr=out)
        head = s.net.host["head"].address
        begin("ingot-coordinator", "--model", MODEL, "--listen", f"ipc://{folder}/clients", "--workers", "tcp://0.0.0.0:5556",
              "--allow-remote")
        step = begin("srun", "--mpi=pmix", "--nodes", 2, "--ntasks-per-node", 1, "ingot-worker", "--model", MODEL, "--connect",
                     f"tcp://{head}:5556", "--threads", 1)
        try:
            client = ingot_client.Client(f"ipc://{folder}/clients", timeout=tap.LIMIT)
            client.wait_ready()
            (group,) = client.call("Stats")[1].group
            assert group.world == 2 and group.hosts == "w1 0, w2 1", group
            assert finish(client, start(client)) == want
            client.close()
            s.net.host["head"].tell(step, signal.SIGTERM)
            step.wait(tap.LIMIT)
            for name in NODES:
                tap.wait_for(lambda name=name: not s.net.host[name].pids("ingot-worker"), name)
        except BaseException:
            print(s.log()[-5000:])
            raise


tap.main()
