"""Limits: one client's excess is refused, and does not hold up the others."""
import contextlib
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

import zmq

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import ingot_client as ic  # noqa: E402
import tap  # noqa: E402
from cluster import BIN, DEMO, Cluster, Parts  # noqa: E402


@tap.case
def large_texts_of_one_do_not_hold_up_another():
    with Parts(DEMO, coordinator=("--max-message", "1M")) as c:
        greedy, other = c.client(token=os.urandom(32)), c.clients[0]
        text = b"once upon a time " * 61000  # just under 1 MiB
        c.coordinator.send_signal(signal.SIGSTOP)  # all of them wait, however fast the coordinator is
        for i in range(60):
            greedy.send("Tokenize", request_id=f"t{i}", text=text)
        c.coordinator.send_signal(signal.SIGCONT)
        answer = other.generate(text=b"Once", max_tokens=2)
        assert answer.finish
        names = [greedy.recv() for _ in range(60)]  # each is answered: Tokens, or an Error that may be tried again
        refused = [m for name, m in names if name == "Error"]
        assert refused and all(m.retryable and "of this tenant" in m.detail for m in refused), refused[:1]
        assert len(refused) >= 60 - 4 - 1 - len([n for n, _ in names if n == "Tokens"]), len(refused)
        rss = int(next(line for line in pathlib.Path(f"/proc/{c.coordinator.pid}/status").read_text().splitlines()
                       if line.startswith("VmHWM")).split()[1])
        assert rss < 600 * 1024, rss


@tap.case
def a_client_beyond_the_limit_is_told():
    with Parts(DEMO, coordinator=("--max-clients", "2")) as c:
        second = c.client()
        assert second.call("Ping")[0] == "Pong"
        third = c.client(hello=False)
        third.send("Hello", major_min=1, major_max=1)
        name, m = third.recv()
        assert name == "Error" and m.retryable and "too many clients" in m.detail, m
        for _ in range(200):
            third.send("Ping", request_id="x")
            assert third.recv()[0] == "Error"
        assert c.log().count("too many clients") < 60


@tap.case
def connections_of_one_user_are_bounded():
    with Parts(DEMO, coordinator=("--tenant-clients", "3")) as c:
        for _ in range(2):
            assert c.client().call("Ping")[0] == "Pong"
        fourth = c.client(hello=False)
        fourth.send("Hello", major_min=1, major_max=1)
        name, m = fourth.recv()
        assert name == "Error" and m.retryable and "--tenant-clients" in m.detail, m


@tap.case
def one_tenant_leaves_places_for_others():
    """Half a dozen requests of one tenant, then the seventh; another tenant's runs.  As serve passes the bounds on."""
    with Cluster(DEMO, extra=("--tenant-requests", "6", "--tenant-queued-tokens", "400")) as c:
        greedy, other = c.client(token=os.urandom(32)), c.client(token=os.urandom(32))
        with c.held():
            rids = [greedy.start(text=b"Once", max_tokens=2) for _ in range(7)]
            got = greedy.replies(rids)
            (rid, refused), = [(rid, a.error[1]) for rid, a in got.items() if a.error]
            assert refused.retryable and refused.retry_after_ms > 0 and "--tenant-requests" in refused.detail, refused
            refused = other.generate(text=b"Once upon a time " * 150, max_tokens=2).error[1]
            assert not refused.retryable and "--tenant-queued-tokens" in refused.detail, refused
            mine = other.start(text=b"Once", max_tokens=2)
        assert other.collect([mine])[mine].finish
        greedy.collect(rids, answers=got)
        greedy.start(request_id=rid, text=b"Once", max_tokens=2)  # there is room again
        assert greedy.collect([rid])[rid].finish


@tap.case
def idle_connections_leave_descriptors_for_others():
    c = Parts(DEMO, groups=0)
    told, tell = os.pipe()
    os.set_inheritable(tell, True)
    with open(c.log_path, "ab") as out:
        c.coordinator = subprocess.Popen(
            [BIN / "ingot-coordinator", "--model", DEMO, "--listen", f"tcp://127.0.0.1:*,{c.endpoint}", "--workers", c.workers,
             "--notify-fd", str(tell)], stdout=out, stderr=out, pass_fds=[tell],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512)))
    c.procs.append(c.coordinator)
    os.close(tell)
    idle = []
    try:
        with os.fdopen(told) as f:
            port = int(f.readline().split()[1].rsplit(":", 1)[1])
        c.client().call("Ping")
        for _ in range(700):
            idle.append(socket.create_connection(("127.0.0.1", port)))
        tap.wait_for(lambda: "connections were closed" in c.log(), "the log tells it")
        c.group()
        c.clients[0].wait_ready()  # the group and this client, over ipc, had a place
        assert c.clients[0].generate(text=b"Once", max_tokens=2).finish
    finally:
        for s in idle:
            s.close()
        c.__exit__(*sys.exc_info())


@tap.case
def an_ipc_connection_without_a_descriptor_waits():
    """More connections at once than descriptors, over ipc: libzmq alone would end the process."""
    c = Parts(DEMO, groups=0)
    p = c.spawn("bash", "-c", f"ulimit -n 256; exec {BIN}/ingot-coordinator --model {DEMO} --listen {c.endpoint} "
                              f"--workers {c.workers}")
    idle = []
    try:
        c.client().call("Ping")

        def told():
            while len(idle) < 600:
                s = socket.socket(socket.AF_UNIX)
                s.setblocking(False)
                try:
                    s.connect(c.endpoint.removeprefix("ipc://"))
                except BlockingIOError:  # the listener's backlog is full until the coordinator accepts
                    s.close()
                    break
                idle.append(s)
            return "connections were closed" in c.log()
        tap.wait_for(told, "the log tells it")
        assert c.clients[0].call("Ping")[0] == "Pong"
    finally:
        for s in idle:
            s.close()
        c.__exit__(*sys.exc_info())
    assert p.returncode == 0, p.returncode


@tap.case
def soft_limits_are_raised():
    c = Parts(DEMO, groups=0)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    p = c.spawn("bash", "-c", f"ulimit -Sn 200; exec {BIN}/ingot-coordinator --model {DEMO} --listen {c.endpoint} "
                              f"--workers {c.workers}")
    try:
        c.client().call("Ping")
        limits = pathlib.Path(f"/proc/{p.pid}/limits").read_text()
        soft = next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3]
        assert int(soft) == hard, (soft, hard)
    finally:
        c.__exit__(*sys.exc_info())


@tap.case
def a_file_that_is_no_socket_is_not_replaced():
    c = Parts(DEMO, groups=0)
    try:
        path = pathlib.Path(c.dir) / "letter"
        path.write_text("keep me")
        for option, other in (("--listen", "--workers"), ("--workers", "--listen")):
            p = subprocess.run([BIN / "ingot-coordinator", "--model", DEMO, option, f"ipc://{path}", other,
                                f"ipc://{c.dir}/other"], capture_output=True, text=True, timeout=tap.LIMIT)
            assert p.returncode == 3 and "no socket" in p.stderr, p
            assert path.read_text() == "keep me"
    finally:
        c.__exit__(*sys.exc_info())


@tap.case
def a_flood_whose_senders_go_while_the_output_blocks():
    """Connections that end with more on them than is read; libzmq would end the process if it had a heartbeat to send then."""
    with tempfile.TemporaryDirectory() as d:
        clients, workers = f"ipc://{d}/clients", f"ipc://{d}/workers"
        p = subprocess.Popen([BIN / "ingot-coordinator", "--model", DEMO, "--listen", clients, "--workers", workers],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        tap.wait_for(lambda: os.path.exists(clients[6:]) and os.path.exists(workers[6:]), "the coordinator listens")
        try:
            for endpoint in [clients, workers] * 6:  # the lines about it fill the pipe, and it waits
                context = zmq.Context()
                sock = context.socket(zmq.DEALER)
                sock.setsockopt(zmq.SNDHWM, 0)
                sock.connect(endpoint)
                for _ in range(100000):
                    sock.send(b"rubbish")
                time.sleep(0.3)
                sock.close(0)
                context.term()
            time.sleep(11)  # a heartbeat of 10 s was due
            alive = p.poll() is None
            p.terminate()
            said = p.communicate(timeout=tap.LIMIT)[1].decode()
            assert alive and p.returncode == 0 and "dropped" in said, (p.returncode, said[-300:])
        finally:
            p.kill()


tap.main()
