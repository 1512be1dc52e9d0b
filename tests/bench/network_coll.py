"""All-reduce by sizes over the network path of one machine: two ranks that share memory, over loopback (Open MPI's btl tcp on
lo), and on two hosts made of namespaces that a bridge joins (needs root).  Each way in turns; a table of medians of all rounds.

    python3 tests/bench/network_coll.py [--rounds 3] [--ranks 2]"""
import argparse
import collections
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster"), str(HERE.parent / "hosts")]
import namespaces  # noqa: E402
import temp_dir  # noqa: E402
from cluster import BIN, mpirun_command  # noqa: E402

SUBNET = f"{namespaces.SUBNET}.0/24"


def table(text):
    """{bytes: [columns of us]}"""
    rows = [line.split() for line in text.splitlines()]
    return {int(r[0]): [float(x) for x in r[1:]] for r in rows if len(r) > 2 and r[0].isdigit()}


def one_host(ranks, *options):
    p = subprocess.run([*mpirun_command(ranks), *options, BIN / "bench_coll", "all_reduce"], capture_output=True, text=True)
    assert p.returncode == 0, p.stdout + p.stderr
    return table(p.stdout)


def two_hosts(ranks):
    with temp_dir.folder() as folder, namespaces.Network(["w1", "w2"], folder) as net:
        where = ",".join(f"{h.address}:{ranks // 2}" for h in net.host.values())
        p = net.host["w1"].spawn(
            *mpirun_command(ranks), "--mca", "plm_rsh_agent", f"{sys.executable} {namespaces.HERE}/remote_shell.py", "--mca",
            "btl_tcp_if_include", SUBNET, "--mca", "oob_tcp_if_include", SUBNET, "--host", where, BIN / "bench_coll", "all_reduce",
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ))
        out, err = p.communicate()
        assert p.returncode == 0, (out + err).decode()
        return table(out.decode())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--ranks", type=int, default=2)
    a = p.parse_args()
    if why := namespaces.missing():
        raise SystemExit(why)
    got = collections.defaultdict(list)  # (bytes, way): medians of the rounds
    for _ in range(a.rounds):
        local = one_host(a.ranks)
        for way, rows, column in (("shm", local, 3), ("mpi, shared memory", local, 1),
                                  ("mpi, loopback", one_host(a.ranks, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"), 1),
                                  ("mpi, two hosts", two_hosts(a.ranks), 1)):
            for size, columns in rows.items():
                got[size, way].append(columns[column])
    ways = list(dict.fromkeys(way for _, way in got))
    print("| bytes | " + " | ".join(ways) + " |\n|" + "---|" * (1 + len(ways)))
    for size in sorted({size for size, _ in got}):
        print(f"| {size} | " + " | ".join(f"{statistics.median(got[size, way]):.1f}" for way in ways) + " |")


main()
