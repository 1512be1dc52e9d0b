"""Hosts as sets of namespaces (network, mount, UTS, IPC, PID) on one machine: own addresses, host names, /dev/shm and /tmp,
joined by a bridge in a network of its own.  Needs root.

    with Network(["head", "w1", "w2"]) as net:
        p = net.host["head"].spawn("mpirun", "--hostfile", ...)
        net.host["w1"].link("down")
        net.host["head"].firewall("46000-46049")
        net.cut_one_way("w1", "from")  # what it sends is lost, it receives all; net.mend("w1") undoes it
        net.host["w2"].kill()          # the host and all its processes are gone
        net.restore("w2")              # it comes back, with empty memory and temporary folders

Every process of a host ends with it, and every host with its Network, however the test ends."""
import contextlib
import os
import pathlib
import shlex
import subprocess
import sys

import tap

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SUBNET = "10.77.0"
SHELL_PORT = 7722
ABSENT = "02:00:00:00:00:99"  # a hardware address that no device has
# Runs as pid 1 of the host: it reaps orphans, and the host's processes end with it.  /tmp is the host's own, but for the
# test's folder and, if they are there, this repository and the shared data.
INIT = """
set -e
hostname {name}
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
i=0
for kept in {kept}; do
  i=$((i + 1))
  mkdir /mnt/$i
  mount --bind "$kept" /mnt/$i
done
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
i=0
for kept in {kept}; do
  i=$((i + 1))
  mkdir -p "$kept"
  mount --move /mnt/$i "$kept"
done
umount /mnt
read line
exec {python} {here}/remote_shell.py serve {address} {port}
"""


def missing():
    """Why there can be no hosts here, or None."""
    if os.getuid() != 0:
        return "namespaces of hosts need root"
    p = subprocess.run(["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "sh", "-c",
                        "ip link add br0 type bridge && ip link add name va type veth peer name vb && mount -t proc proc /proc"],
                       capture_output=True, text=True)
    return None if p.returncode == 0 else f"no namespaces of hosts here: {p.stderr.strip()}"


def run(*argv):
    p = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
    assert p.returncode == 0, (argv, p.stderr)


def _first_child(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(text[0]) if text else None


class Host:
    def __init__(self, net, name, number):
        self.net, self.name, self.address = net, name, f"{SUBNET}.{number}"
        kept = [p for p in (net.folder, ROOT, ROOT.parent / "shared") if str(p).startswith("/tmp/") and os.path.exists(p)]
        init = INIT.format(name=name, kept=" ".join(shlex.quote(str(p)) for p in kept), python=sys.executable, here=HERE, address=self.address,
                           port=SHELL_PORT)
        self.log = open(pathlib.Path(net.folder) / f"{name}.shell", "wb")
        self.process = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation", "private",
             "sh", "-c", init], stdin=subprocess.PIPE, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        self.pid = tap.wait_for(lambda: _first_child(self.process.pid), f"host {name}")
        self.forwarder = None
        if name in net.slow:
            self._slow_link(*net.slow[name])
        else:
            run("ip", "link", "add", f"t-{name}", "netns", net.switch.pid, "type", "veth", "peer", "name", "eth0", "netns", self.pid)
        net.command("ip", "link", "set", f"t-{name}", "master", "br0", "up")
        hardware = f"02:00:00:00:00:{number:02x}"  # the same after a restore
        for argv in (("link", "set", "lo", "up"), ("link", "set", "eth0", "address", hardware), ("addr", "add", f"{self.address}/24", "dev", "eth0"), ("link", "set", "eth0", "up")):
            run("nsenter", "-t", self.pid, "--net", "ip", *argv)
        self.process.stdin.write(b"go\n")
        self.process.stdin.close()
        tap.wait_for(lambda: self.process.poll() is not None or "python" in self._program(), f"host {name}")
        assert self.process.poll() is None, pathlib.Path(self.log.name).read_text()

    def _slow_link(self, delay_ms, loss_percent):
        argv = ["nsenter", "-t", self.net.switch.pid, "--net", sys.executable, HERE / "slow_link.py", self.pid, "eth0",
                f"t-{self.name}", delay_ms, loss_percent, 1]
        self.forwarder = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                          stderr=self.log, start_new_session=True)
        assert self.forwarder.stdout.readline() == b"ready\n", pathlib.Path(self.log.name).read_text()

    def _program(self):
        try:
            return os.path.basename(os.readlink(f"/proc/{self.pid}/exe"))
        except OSError:  # it has ended
            return ""

    def enter(self, argv):
        """The command that runs argv on this host."""
        return ["nsenter", "-t", str(self.pid), "-a", f"--wd={os.getcwd()}", *(str(a) for a in argv)]

    def spawn(self, *argv, env=None, **kw):
        return subprocess.Popen(self.enter(argv), start_new_session=True, stdin=subprocess.DEVNULL,
                                env={**os.environ, **(env or {})}, **kw)

    @staticmethod
    def tell(process, sig):
        """Signals what spawn() has started: nsenter, whose pid Popen has, passes no signals on."""
        child = _first_child(process.pid)
        if child:
            os.kill(child, sig)

    def link(self, state):
        self.net.command("ip", "link", "set", f"t-{self.name}", state)

    def firewall(self, ports):
        """Drops what comes to these TCP ports ("46000-46049") from other hosts, without an answer."""
        for rule in (("add", "priority", "1", "iif", "eth0", "ipproto", "tcp", "dport", ports, "blackhole"),
                     ("add", "priority", "10", "lookup", "local"), ("del", "priority", "0")):
            run("nsenter", "-t", self.pid, "--net", "ip", "rule", *rule)

    def processes(self):
        """{pid, as this machine counts: name of the program} of the host; a launcher's watch is no ingot-worker."""
        found = {}
        try:
            mine = os.readlink(f"/proc/{self.pid}/ns/pid")
        except OSError:  # the host is lost
            return found
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns/pid") == mine:
                    watch = (entry / "cmdline").read_bytes().startswith(b"ingot-watch\0")
                    found[int(entry.name)] = "ingot-watch" if watch else os.path.basename(os.readlink(entry / "exe"))
            except OSError:
                pass
        return found

    def pids(self, program):
        """Pids, as this machine counts them, of the host's processes whose program has that name."""
        return sorted(pid for pid, name in self.processes().items() if name == program)

    def kill(self):
        self.process.kill()
        self.process.wait()
        if self.forwarder:
            self.forwarder.kill()
            self.forwarder.communicate()


class Network:
    """slow: {name: (delay in ms, loss in percent)} of hosts whose link has these, in both directions."""

    def __init__(self, names, folder, slow=None):
        self.names, self.folder, self.slow = names, folder, slow or {}
        self.host = {}

    def command(self, *argv):
        run("nsenter", "-t", self.switch.pid, "--net", *argv)

    def _neighbours(self, name, side, *verb):
        """Of all pairs (host that sends, host that it sends to) with frames from or to the named one."""
        for other in self.living():
            if other != name:
                at, of = (name, other) if side == "from" else (other, name)
                argv = [self.host[of].address if word == "ADDRESS" else word for word in verb]
                run("nsenter", "-t", self.host[at].pid, "--net", "ip", "neigh", *argv, "dev", "eth0")

    def living(self):
        return [n for n in self.names if self.host[n].process.poll() is None]

    def cut_one_way(self, name, side):
        """side: "from" the host, or "to" it: these frames go to a hardware address that no host has."""
        self._neighbours(name, side, "replace", "ADDRESS", "lladdr", ABSENT, "nud", "permanent")

    def mend(self, name):
        """The link is up and goes both ways."""
        self.host[name].link("up")
        for side in "from", "to":
            self._neighbours(name, side, "replace", "ADDRESS", "lladdr", ABSENT, "nud", "stale")
            self._neighbours(name, side, "del", "ADDRESS")

    def restore(self, name):
        """A host that was killed starts again, with a link that is up and goes both ways: the others may still have what cut
        it off."""
        self.host[name].log.close()
        with contextlib.suppress(AssertionError):  # else it went with the host's network
            self.command("ip", "link", "del", f"t-{name}")
        self.host[name] = Host(self, name, 1 + self.names.index(name))
        self.mend(name)

    def __enter__(self):
        self.switch = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], start_new_session=True)
        try:
            tap.wait_for(lambda: os.path.basename(os.readlink(f"/proc/{self.switch.pid}/exe")) == "sleep", "the switch")
            self.command("ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0")
            self.command("ip", "link", "set", "br0", "up")
            for i, name in enumerate(self.names):
                self.host[name] = Host(self, name, i + 1)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        for host in self.host.values():
            host.kill()
            host.log.close()
        self.switch.kill()
        self.switch.wait()
