"""The faults, each a function of a name (its kind), of the cluster, the doors of the round and a random generator.  It returns
False if there was nothing to do it to.  What a fault changes for a while is undone by what it registers in `later`."""
import contextlib
import os
import pathlib
import resource
import signal
import socket
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cluster")]
import ingot_client as ic  # noqa: E402
import mutation  # noqa: E402
from doors import CliDoor  # noqa: E402

FAULTS = {}


class Scene:
    """What a fault may touch: the cluster, the doors of the round, random numbers, and what must be undone, with its time."""

    def __init__(self, cluster, doors, rng):
        self.cluster, self.doors, self.rng, self.undo = cluster, doors, rng, []
        self.limits = {}  # of (pid, resource): what it was before the first fault

    def later(self, seconds, action):
        self.undo.append((time.monotonic() + seconds, action))

    def undo_due(self, all_of_it=False):
        now = time.monotonic()
        due = [u for u in self.undo if all_of_it or u[0] <= now]
        self.undo = [u for u in self.undo if u not in due]
        for _, action in sorted(due, key=lambda u: u[0]):
            with contextlib.suppress(OSError):
                action()

    def one(self, program):
        pids = self.cluster.pids(program)
        return self.rng.choice(pids) if pids else None


def fault(worlds_of_it, weight=1):
    """worlds_of_it: the clusters in which it is possible."""
    def add(f):
        FAULTS[f.__name__] = (f, worlds_of_it, weight)
        return f
    return add


EACH, SERVED, FLEET, NETWORK = ("Served", "Fleet", "Network"), ("Served",), ("Fleet",), ("Network",)


def send(pid, how):
    try:
        os.kill(pid, how)
    except (ProcessLookupError, TypeError):
        return False
    return True


def pause(scene, pid, longest):
    if not send(pid, signal.SIGSTOP):
        return False
    scene.later(scene.rng.uniform(0.05, longest), lambda: scene.cluster.resume(pid))
    return True


# ---- processes ----

@fault(EACH, 6)
def kill_rank(scene):
    return send(scene.one("ingot-worker"), signal.SIGKILL)


@fault(EACH, 5)
def kill_coordinator(scene):
    return send(scene.one("ingot-coordinator"), signal.SIGKILL)


@fault(EACH, 3)
def kill_gateway(scene):
    return send(scene.one("ingot-gateway"), signal.SIGKILL)


@fault(EACH, 2)
def kill_client(scene):
    clis = [d for d in scene.doors if isinstance(d, CliDoor)]
    return bool(clis) and scene.rng.choice(clis).signal(signal.SIGKILL)


@fault(EACH, 3)
def kill_group(scene):
    """All of its ranks and mpirun, at once."""
    groups = scene.cluster.groups_of_processes()
    return bool(groups) and any([send(pid, signal.SIGKILL) for pid in scene.rng.choice(groups)])


@fault(SERVED + NETWORK, 2)
def kill_launcher(scene):
    return send(scene.one("mpirun"), signal.SIGKILL)


@fault(SERVED + NETWORK, 2)
def stop_rank(scene):
    """For ever: the supervisor, or mpirun, must end it."""
    return send(scene.one("ingot-worker"), signal.SIGSTOP)


@fault(FLEET)
def stop_coordinator(scene):
    """Clients and groups give it up; then it is killed, and another one is started."""
    pid = scene.one("ingot-coordinator")
    if not send(pid, signal.SIGSTOP):
        return False
    scene.later(6, lambda: os.kill(pid, signal.SIGKILL))
    return True


@fault(EACH, 2)
def pause_rank(scene):
    return pause(scene, scene.one("ingot-worker"), 1.5)


@fault(EACH, 2)
def pause_coordinator(scene):
    return pause(scene, scene.one("ingot-coordinator"), 1.5)


@fault(EACH)
def pause_gateway(scene):
    return pause(scene, scene.one("ingot-gateway"), 1.0)


@fault(EACH)
def pause_client(scene):
    clis = [d for d in scene.doors if isinstance(d, CliDoor) and d.process.poll() is None]
    return bool(clis) and pause(scene, scene.rng.choice(clis).process.pid, 1.0)


# ---- connections ----

@fault(FLEET, 3)
def cut_clients(scene):
    scene.cluster.ways["clients"].tell("cut")
    return True


@fault(FLEET, 3)
def cut_workers(scene):
    scene.cluster.ways["workers"].tell("cut")
    return True


def silence(scene, side, longest):
    """Nothing comes through for a while; then the connections go on, or are cut."""
    way, end = scene.cluster.ways[side], scene.rng.choice(["on", "cut"])

    def over():
        way.tell("on")
        if end == "cut":
            way.tell("cut")
    way.tell("silence")
    scene.later(scene.rng.uniform(0.05, longest), over)
    return True


@fault(FLEET, 2)
def silence_clients(scene):
    return silence(scene, "clients", 2.0)


@fault(FLEET, 2)
def silence_workers(scene):
    return silence(scene, "workers", 3.0)


# ---- resources ----

def limit(scene, pid, what, value, seconds):
    """A soft limit for a while."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        before = scene.limits.setdefault((pid, what), resource.prlimit(pid, what))
        resource.prlimit(pid, what, (value, before[1]))
        scene.later(seconds, lambda: resource.prlimit(pid, what, before))
        return True
    return False


@fault(EACH, 2)
def full_disk(scene):
    """No file of the coordinator can grow: its journal cannot be written."""
    pid = scene.one("ingot-coordinator")
    return pid is not None and limit(scene, pid, resource.RLIMIT_FSIZE, 4096, scene.rng.uniform(0.2, 1))


@fault(EACH, 2)
def no_descriptors(scene):
    """The coordinator, a rank or the gateway can open hardly anything, while connections come."""
    pid = scene.one(scene.rng.choice(["ingot-coordinator", "ingot-worker", "ingot-gateway"]))
    try:
        used = max(int(n) for n in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False
    done = limit(scene, pid, resource.RLIMIT_NOFILE, used + scene.rng.randrange(1, 4), scene.rng.uniform(0.2, 1))
    for endpoint in scene.cluster.coordinators():
        rubbish(scene, endpoint.removeprefix("ipc://"), 30)
    return done


@fault(EACH)
def no_memory(scene):
    """A process cannot have more address space.  It may end because of that: then it is started again."""
    pid = scene.one(scene.rng.choice(["ingot-coordinator", "ingot-worker"]))
    try:
        pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[0])
    except OSError:
        return False
    return limit(scene, pid, resource.RLIMIT_AS, pages * 4096 + scene.rng.choice([0, 1 << 16, 1 << 20]), scene.rng.uniform(0.2, 1))


# ---- clients that break the protocol ----

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16) + b"\x00" + bytes(31)
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"


def rubbish(scene, path, n):
    """Connections that bring nothing, half of a greeting, a whole one and half a frame, and leave; some stay a while."""
    stay = []
    for _ in range(n):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(0.2)
        try:
            s.connect(path)
            whole = GREETING + READY + b"\x00\x40" + mutation.mutate(scene.rng, scene.rng.choice(mutation.client_seeds()))[:64]
            s.sendall(whole[:scene.rng.randrange(len(whole) + 1)])
        except OSError:
            s.close()
            continue
        stay.append(s)
    scene.later(scene.rng.uniform(0, 0.5), lambda: [s.close() for s in stay])


@fault(EACH, 2)
def half_frames(scene):
    for endpoint in scene.cluster.coordinators():
        rubbish(scene, endpoint.removeprefix("ipc://"), 10)
    return True


@fault(EACH, 2)
def mutated_frames(scene):
    """Over a connection that speaks the protocol, and leaves without reading the replies."""
    client = ic.Client(scene.rng.choice(scene.cluster.coordinators()), hello=False)
    seeds = mutation.client_seeds()
    client.send_raw(seeds[0])
    for _ in range(200):
        client.send_raw(mutation.mutate(scene.rng, scene.rng.choice(seeds)))
    scene.later(0.2, client.close)
    return True


@fault(EACH)
def half_http(scene):
    """Requests to the gateway that end in the middle."""
    address = scene.cluster.http_address()
    if address is None:
        return False
    host, port = address.split(":")
    body = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n\r\n{\"prompt\": \"x\", \"stream\": true"
    for _ in range(10):
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1) as s:
            s.sendall(body[:scene.rng.randrange(len(body))])
    return True


# ---- groups come and go ----

@fault(FLEET + NETWORK, 2)
def add_group(scene):
    c = scene.cluster
    if len(c.groups()) >= c.most_groups:
        return False
    c.add_group(f"group{time.monotonic_ns()}")
    return True


@fault(FLEET + NETWORK, 2)
def remove_group(scene):
    """The operator ends one of several groups, or replaces the only one."""
    c = scene.cluster
    if len(c.groups()) < 2:
        c.add_group(f"group{time.monotonic_ns()}")
    c.remove(scene.rng.choice(c.groups()))
    return True


# ---- hosts and links ----

def mend_later(scene, name, longest):
    """The link is mended after a while, unless the host is lost meanwhile."""
    scene.later(scene.rng.uniform(0.2, longest), lambda: name in scene.cluster.net.living() and scene.cluster.net.mend(name))


def any_host(scene):
    return scene.rng.choice([n for n in scene.cluster.net.living() if n != "head"] or [None])


@fault(NETWORK, 4)
def cut_link(scene):
    """Of a host with ranks."""
    name = any_host(scene)
    if name is None:
        return False
    scene.cluster.net.host[name].link("down")
    mend_later(scene, name, 6)
    return True


@fault(NETWORK, 4)
def cut_one_way(scene):
    """A host receives nothing, or what it sends is lost."""
    name = any_host(scene)
    if name is None:
        return False
    scene.cluster.net.cut_one_way(name, scene.rng.choice(["from", "to"]))
    mend_later(scene, name, 6)
    return True


@fault(NETWORK, 2)
def cut_head(scene):
    """The coordinator loses all groups together, and the launchers their hosts."""
    scene.cluster.net.host["head"].link("down")
    mend_later(scene, "head", 4)
    return True


@fault(NETWORK, 4)
def lose_host(scene):
    """With all its processes: its link is cut before (as when the power fails), or the kernel still closes the connections.
    Later the host is there again, with nothing on it."""
    name, net = any_host(scene), scene.cluster.net
    if name is None:
        return False
    if scene.rng.random() < 0.5:
        net.host[name].link("down")
    net.host[name].kill()
    scene.later(scene.rng.uniform(0.2, 4), lambda: net.restore(name))
    return True


def possible(world):
    """Kinds and their weights."""
    return {name: weight for name, (_, where, weight) in FAULTS.items() if world in where}


def do(kind, scene):
    return FAULTS[kind][0](scene)
