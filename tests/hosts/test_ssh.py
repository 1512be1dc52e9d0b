"""A group over two hosts launched as README has it: OpenSSH with keys and known hosts, names, a hostfile, and keys (CURVE) between
the ranks and the coordinator; `status --watch` meanwhile.  sshd listens on the hosts' own addresses."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import tap  # noqa: E402
from cluster import BIN  # noqa: E402
from several_hosts import Hosts, undisturbed  # noqa: E402
from streams import finish, start  # noqa: E402

PORT = 7723
SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
# /etc/hosts and OpenSSH's files are the host's own; what the user keeps for OpenSSH is hidden.
PREPARE = """
mount --bind {dir}/hosts /etc/hosts
mount --bind {dir}/ssh_config /etc/ssh/ssh_config
[ ! -d ~/.ssh ] || mount -t tmpfs tmpfs ~/.ssh
mount -t tmpfs tmpfs /run
mkdir /run/sshd
"""
CLIENT = """
Host *
  Port {port}
  IdentityFile {dir}/id
  IdentitiesOnly yes
  UserKnownHostsFile {dir}/known_hosts
  StrictHostKeyChecking yes
"""
SERVER = """
ListenAddress {address}
Port {port}
HostKey {dir}/host_key.{name}
AuthorizedKeysFile {dir}/id.pub
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
"""


class Locked(Hosts):
    """The hosts have names, an sshd each, and keys; nothing else of theirs is trusted."""

    @property
    def remote(self):
        return ["--key", self.path("server.key"), "--allowed-keys", self.path("allowed")]

    def path(self, name):
        return f"{self.dir}/{name}"

    def write(self, name, text):
        pathlib.Path(self.path(name)).write_text(text)

    def prepare(self):
        for name in ("id", *(f"host_key.{n}" for n in self.net.names)):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)], check=True)
        for name in ("server", "worker", "other"):
            subprocess.run([BIN / "ingot", "key", "new", self.path(f"{name}.key")], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([BIN / "ingot", "key", "add", self.path("allowed"), self.path("worker.key.pub"), "--for", "workers", "--roles",
                        "serve"], check=True, stdout=subprocess.DEVNULL)
        self.write("hosts", "127.0.0.1 localhost\n" + "".join(f"{h.address} {n}\n" for n, h in self.net.host.items()))
        self.write("hostfile", "# the workers\nw1 slots=1\nw2 slots=1\n")
        self.write("ssh_config", CLIENT.format(dir=self.dir, port=PORT))
        self.write("known_hosts", "".join(f"[{n}]:{PORT} " + pathlib.Path(self.path(f"host_key.{n}.pub")).read_text()
                                          for n in self.net.names))
        for name, host in self.net.host.items():
            self.write(f"sshd.{name}", SERVER.format(dir=self.dir, name=name, address=host.address, port=PORT))
            assert host.spawn("sh", "-ec", PREPARE.format(dir=self.dir)).wait(tap.LIMIT) == 0, name
            with open(self.path(f"sshd.{name}.log"), "wb") as out:
                host.spawn(SSHD, "-D", "-e", "-f", self.path(f"sshd.{name}"), stdout=out, stderr=out)
            tap.wait_for(lambda name=name: "listening" in pathlib.Path(self.path(f"sshd.{name}.log")).read_text(), f"sshd of {name}")

    def start(self):
        self.prepare()
        super().start()

    def hosts(self):
        return ["--hostfile", self.path("hostfile")]

    def launch(self, model, *args, key="worker"):
        return super().launch(model, "--key", self.path(f"{key}.key"), "--server-key", self.path("server.key.pub"), *args)


@contextlib.contextmanager
def watching(c):
    """`ingot status --watch` until it is interrupted; yields a function: what it has shown since the last call."""
    shown, seen = pathlib.Path(c.path("status")), 0

    def more():
        nonlocal seen
        text = shown.read_text()
        seen, text = len(text), text[seen:]
        return text

    with open(shown, "wb") as out:
        p = subprocess.Popen([BIN / "ingot", "status", "--watch", "--connect", c.endpoint], stdout=out, stderr=out)
    try:
        yield more
    finally:
        p.send_signal(signal.SIGINT)
        code = p.wait(tap.LIMIT)
    assert code in (0, 130), (code, shown.read_text()[-500:])


@tap.case
def the_launch_of_the_readme():
    if not SSHD:
        raise tap.Skip("not shown: there is no sshd (of Debian's openssh-server)")
    with undisturbed(Locked, deaf=True) as (c, want), watching(c) as status:
        client = c.clients[0]
        assert finish(client, start(client)) == want, "other bytes"
        assert "run-group.sh: hosts: w1 w2" in c.log() and "worker.1@w2" in c.log(), c.log()
        tap.wait_for(lambda: "hosts w1 0, w2 1; connected from" in status(), "the hosts in status --watch")
        (before,) = client.call("Stats")[1].group
        os.kill(c.rank("w1"), signal.SIGSTOP)
        tap.wait_for(lambda: "the coordinator has given the group up (silent for too long)" in c.log(), "the launcher learns of it, with its key")
        tap.wait_for(lambda: any(g.epoch > before.epoch for g in client.call("Stats")[1].group), "the group is back")
        status()
        tap.wait_for(lambda: "hosts w1 0, w2 1; connected from" in status(), "the hosts again")
        assert finish(client, start(client)) == want, "other bytes"
        other = c.launch(c.model, "--lease-ms", 1000, key="other")
        assert other.wait(tap.LIMIT) == 5 and "the coordinator refuses the connection" in c.log(), c.log()
        c.net.host["head"].tell(c.procs[1], signal.SIGTERM)
        assert c.procs[1].wait(tap.LIMIT) == 0
        for name in ("w1", "w2"):
            tap.wait_for(lambda name=name: not c.net.host[name].pids("ingot-worker") + c.net.host[name].pids("orted"),
                         f"nothing is left on {name}")


tap.main()
