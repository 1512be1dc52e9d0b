"""A worker group over two hosts, started by deploy/run-group.sh on a third one: the same bytes as on one host, also after
every fault of a host, a link or a rank.  Silences are printed, not judged: three hosts share this machine's cores."""
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import namespaces  # noqa: E402
import tap  # noqa: E402
from cluster import BIN  # noqa: E402
from several_hosts import ONE_NETWORK, SHELL, Hosts, hurt_in_the_middle, undisturbed  # noqa: E402
from streams import finish, start  # noqa: E402


@tap.case
def the_same_bytes_and_the_end():
    with undisturbed() as (c, want):
        assert finish(c.clients[0], start(c.clients[0])) == want
        assert "collective mpi" in c.log() and "worker.1@w2" in c.log(), c.log()
        (group,) = c.clients[0].call("Stats")[1].group
        assert (group.hosts, group.address) == ("w1 0, w2 1", c.net.host["w1"].address), group
        assert f"is active (cpu, mpi, epoch {group.epoch}" in c.log() and "hosts w1 0, w2 1, connected from" in c.log(), c.log()
        shown = subprocess.run([BIN / "ingot", "status", "--connect", c.endpoint], capture_output=True, text=True).stdout
        assert f"hosts w1 0, w2 1; connected from {group.address}" in shown, shown
        launcher = c.procs[1]
        c.net.host["head"].tell(launcher, signal.SIGTERM)
        assert launcher.wait(tap.LIMIT) == 0, c.log()[-4000:]
        for name in c.net.names:
            tap.wait_for(lambda name=name: not c.net.host[name].pids("ingot-worker") + c.net.host[name].pids("orted"),
                         f"nothing is left on {name}")


@tap.case
def a_link_with_delay_and_loss():
    """Both directions of rank 1's link: 1 ms later, and one frame of a hundred is lost."""
    with undisturbed(slow={"w2": (1, 1)}, patient=True) as (c, want):
        t0 = time.monotonic()
        assert finish(c.clients[0], start(c.clients[0])) == want, "other bytes"
        print(f"    1 ms and 1 % of loss: {time.monotonic() - t0:.1f} s for the streams")
        assert c.clients[0].call("Stats")[1].recoveries == 0
        assert c.net.host["w2"].forwarder.poll() is None, "the frames went through the forwarder"


def fault(name, hurt, heal=lambda c: None, **kw):
    def run():
        with undisturbed(**kw) as (c, want):
            silence = hurt_in_the_middle(c, want, lambda: hurt(c), lambda: heal(c))
            assert not kw or c.log().count("the coordinator has given the group up (no answer to a step") == 1, c.log()
            print(f"    {name.replace('_', ' ')}: the longest silence was {silence:.1f} s")
    run.__name__ = name
    tap.case(run)


fault("rank_1_is_killed", lambda c: os.kill(c.rank("w2"), signal.SIGKILL))
fault("rank_1_is_stopped", lambda c: os.kill(c.rank("w2"), signal.SIGSTOP))
fault("rank_0_is_stopped", lambda c: os.kill(c.rank("w1"), signal.SIGSTOP), deaf=True)
fault("the_link_of_rank_1_is_cut", lambda c: c.net.host["w2"].link("down"), lambda c: c.net.host["w2"].link("up"))
fault("the_link_of_rank_0_is_cut", lambda c: c.net.host["w1"].link("down"), lambda c: c.net.host["w1"].link("up"), deaf=True)


@tap.case
def the_head_is_cut_off_for_a_while():
    """With deadlines that are longer than the cut the group keeps its weights and its sequences."""
    if not os.environ.get("INGOT_ALL"):
        raise tap.Skip("only with --all")
    with undisturbed(patient=True, deaf=True) as (c, want):
        client, head = c.clients[0], c.net.host["head"]
        rids = start(client)
        client.backlog.append(client.recv())
        head.link("down")
        time.sleep(4.5)
        head.link("up")
        assert finish(client, rids) == want, "other bytes"
        assert client.call("Stats")[1].recoveries == 0 and c.log().count("welcomed by") == 1, c.log()


@tap.case
def a_link_is_cut_for_good():
    """The spare takes the host's place; the launcher can be ended while the link is down."""
    if not os.environ.get("INGOT_ALL"):
        raise tap.Skip("only with --all")
    with undisturbed(spare=True) as (c, want):
        client, w2 = c.clients[0], c.net.host["w2"]
        silence = hurt_in_the_middle(c, want, lambda: w2.link("down"))
        print(f"    a link is cut for good, a spare takes its place: the longest silence was {silence:.1f} s")
        assert client.call("Stats")[1].group[0].hosts == "w1 0, w3 1", c.log()
        tap.wait_for(lambda: not w2.pids("ingot-worker"), "the rank that is cut off ends")
        c.net.host["head"].tell(c.procs[1], signal.SIGTERM)
        assert c.procs[1].wait(tap.LIMIT) == 0, c.log()[-4000:]


@tap.case
def a_host_joins_under_load():
    if not os.environ.get("INGOT_ALL"):
        raise tap.Skip("only with --all")
    with undisturbed(spare=True, patient=True) as (c, want):
        client, w3 = c.clients[0], c.net.host["w3"]
        rids = [rid for _ in range(4) for rid in start(client)]
        client.backlog.append(client.recv())
        t0 = time.monotonic()
        c.launch(c.model, "--threads", 1, ranks=1, hosts=[w3])
        tap.wait_for(lambda: any(g.hosts == "w3 0" and g.tokens_generated for g in client.call("Stats")[1].group), "tokens of the new host")
        print(f"    a host's first tokens came {time.monotonic() - t0:.1f} s after its launcher began")
        assert finish(client, rids) == 4 * want, "other bytes"


@tap.case
def a_host_is_lost_while_idle():
    with undisturbed() as (c, want):
        assert finish(c.clients[0], start(c.clients[0])) == want
        t0 = time.monotonic()
        c.net.host["w2"].link("down")
        tap.wait_for(lambda: "is lost" in c.log(), "the coordinator knows of it")
        print(f"    an idle group with a lost host was given up after {time.monotonic() - t0:.1f} s")
        c.net.host["w2"].link("up")
        assert finish(c.clients[0], start(c.clients[0])) == want


@tap.case
def a_small_dev_shm_is_named():
    """As in a container without --shm-size: the line comes before Open MPI's own."""
    if why := namespaces.missing():
        raise tap.Skip(f"not shown: {why}")
    with Hosts(groups=0) as c:
        host = c.net.host["w1"]
        host.spawn("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/dev/shm").wait(tap.LIMIT)
        p = host.spawn("mpirun", "--allow-run-as-root", "--oversubscribe", "--timeout", tap.LIMIT, "-np", 2, BIN / "ingot-worker",
                       "--hello", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = p.communicate(timeout=2 * tap.LIMIT)[0].decode()
        assert said.count("/dev/shm has 0.1 MiB free, 2 ranks of a host need 12 MiB") == 1, said


@tap.case
def a_network_that_does_not_connect_the_hosts():
    """Bridges with equal addresses, as of docker: Open MPI tries them and waits for ever."""
    if why := namespaces.missing():
        raise tap.Skip(f"not shown: {why}")
    with Hosts(groups=0) as c:
        for host in c.net.host.values():
            host.spawn("sh", "-c", "ip link add docker0 type bridge && ip link add d0 type veth peer name d1 && ip link set d0 "
                       "master docker0 up && ip link set d1 up && ip link set docker0 up && "
                       "ip addr add 172.17.0.1/16 dev docker0").wait(tap.LIMIT)
        argv = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent", SHELL, "-np", 2, "--host",
                ",".join(f"{c.net.host[n].address}:1" for n in ("w1", "w2")), "--timeout", tap.LIMIT]
        p = c.spawn(*argv, BIN / "ingot-worker", "--hello", "--contact-ms", 3000)
        assert p.wait(2 * tap.LIMIT) != 0
        assert "have not reached each other" in c.log() and "host w1" in c.log() and "btl_tcp_if_include" in c.log(), c.log()
        p = c.spawn(*argv, *ONE_NETWORK, BIN / "ingot-worker", "--hello")
        assert p.wait(2 * tap.LIMIT) == 0 and "2 ranks: hello" in c.log(), c.log()


DAEMONS, RANKS = "46000-46049", "46050-46099"
PORTS = ["--mca", "oob_tcp_dynamic_ipv4_ports", DAEMONS, "--mca", "btl_tcp_port_min_v4", "46050", "--mca", "btl_tcp_port_range_v4", "50"]


def nothing_is_left(c):
    for host in c.net.host.values():
        tap.wait_for(lambda host=host: not host.pids("ingot-worker") + host.pids("orted") + host.pids("mpirun"), "nothing is left")


@tap.case
def a_firewall_before_the_head():
    """mpirun's daemons cannot connect to it: the launcher says so in a bounded time, and heeds signals meanwhile."""
    if why := namespaces.missing():
        raise tap.Skip(f"not shown: {why}")
    with Hosts(groups=0) as c:
        c.mpirun = PORTS
        c.net.host["head"].firewall(DAEMONS)
        c.patience = {"INGOT_TRIES": "1", "INGOT_START_S": "2"}
        assert c.group().wait(tap.LIMIT) == 1, c.log()[-4000:]
        (said,) = [line for line in c.log().splitlines() if "mpirun has started no rank within 2 s: not all hosts reach port 460" in line]
        w1, w2 = (c.net.host[n].address for n in ("w1", "w2"))
        assert f"of this host (head, {c.net.host['head'].address}): {w1} (no connection), {w2} (no connection): a firewall?" in said, said
        print(f"    {said}")
        nothing_is_left(c)
        c.patience["INGOT_START_S"] = str(tap.LIMIT)
        launcher = c.group()  # mpirun heeds no SIGTERM
        tap.wait_for(lambda: all(c.net.host[n].pids("orted") for n in ("w1", "w2")), "the daemons")
        c.net.host["head"].tell(launcher, signal.SIGTERM)
        assert launcher.wait(tap.LIMIT) == 0, c.log()[-4000:]
        nothing_is_left(c)


@tap.case
def a_firewall_between_ranks():
    """MPI waits for ever; the ranks end themselves, and show signs of life until then."""
    if why := namespaces.missing():
        raise tap.Skip(f"not shown: {why}")
    with Hosts(groups=0) as c:
        c.mpirun = PORTS
        for name in ("w1", "w2"):
            c.net.host[name].firewall(RANKS)
        p = c.spawn("mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", 2, *c.hosts(), BIN / "ingot-worker", "--model", c.model,
                    "--connect", c.endpoint, "--signs-of-life", "--contact-ms", 2000)
        assert p.wait(tap.LIMIT) != 0
        assert "the ranks have not reached each other within 2000 ms (this is host w" in c.log() and "a firewall must let" in c.log(), c.log()
        assert all(f"ingot-worker rank {rank} lives" in c.log() for rank in (0, 1)), c.log()
        nothing_is_left(c)


tap.main()
