"""`ingot serve` leaves nothing behind, however it or its ranks end."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from cli_tools import BIN, INGOT, ok
import encoder_model
import ingot_client
import tap
import temp_dir
from cluster import DEMO, ROOT, Cluster, children, command_of


def private_folder(c):
    for pid in c.worker_pids():
        args = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        for a in args:
            m = re.match(r"--connect=ipc://(.*)/workers", a)
            if m:
                return pathlib.Path(m.group(1))
    raise AssertionError("no worker names its endpoint")


def ours(pids):
    return [p for p in pids if command_of(p).rsplit("/", 1)[-1].startswith(("ingot", "mpirun"))]


def gone(pids):
    return tap.wait_for(lambda: not ours(pids), "the processes have ended")


def shared_segments(pid):
    """Files under /dev/shm and /tmp that a rank has mapped."""
    found = set()
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        # the tree itself may lie under /tmp
        if (path.startswith(("/dev/shm/", "/tmp/")) and not path.startswith((str(ROOT), str(BIN)))
                and not path.endswith("(deleted)")):
            found.add(path)
    return found


@tap.case
def mpi_keeps_its_files_in_the_private_folder():
    with Cluster(DEMO, tp=2, threads=1, coll="mpi") as c:
        folder = private_folder(c)
        assert folder.stat().st_mode & 0o777 == 0o700
        mapped = set().union(*(shared_segments(p) for p in c.worker_pids()))
        outside = [p for p in mapped if not p.startswith(str(folder))]
        assert not outside, outside
        assert any("segment" in p for p in mapped), mapped


@tap.case
def a_small_shared_memory():
    """MPI's own messages about it name no /dev/shm.  Its files go to /tmp; what Ingot needs itself is named."""
    def run(size):
        return subprocess.run(["unshare", "--mount", "sh", "-c", f"mount -t tmpfs -o size={size} tmpfs /dev/shm && "
                               f"exec {INGOT} run {DEMO} --tp 2 --threads 1 --message 'What is Ingot?' --max-tokens 4"],
                              capture_output=True, text=True, timeout=tap.LIMIT)
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        raise tap.Skip("no new mount namespaces here")
    p = run("8m")
    assert p.returncode == 0 and "/dev/shm has 8.0 MiB free" in p.stderr and "using /tmp" in p.stderr, p
    p = run("64k")
    assert p.returncode != 0 and "is /dev/shm too small?" in p.stderr and "PMIX" not in p.stderr, p


@tap.case
def killed_groups_do_not_pile_up():
    with Cluster(DEMO, tp=2, threads=1) as c:
        folder = private_folder(c)
        counts = []
        for _ in range(3):
            ranks = c.worker_pids()
            counts.append(sum(1 for _ in folder.rglob("*")))
            os.kill(ranks[-1], signal.SIGKILL)
            assert gone(ranks)
            # the coordinator says that it is ready until it has seen the loss
            tap.wait_for(lambda: len(set(c.worker_pids()) - set(ranks)) == 2, "another group")
            c.client().wait_ready()
        assert counts[-1] <= counts[0] + 4, counts
    assert not folder.exists()


@tap.case
def sigterm_removes_everything():
    with Cluster(DEMO, tp=2, threads=1) as c:
        folder, pids = private_folder(c), children(c.serve.pid)
        c.serve.send_signal(signal.SIGTERM)
        assert c.serve.wait(tap.LIMIT) == 0
        assert gone(pids) and not folder.exists()


@tap.case
def a_second_signal_ends_at_once():
    with Cluster(DEMO, tp=1, threads=1) as c:
        client = c.clients[0]
        client.start(text=b"a", max_tokens=900, sampling={"ignore_eos": True})
        assert client.recv()[0] == "Accepted"
        folder, pids = private_folder(c), children(c.serve.pid)
        c.serve.send_signal(signal.SIGINT)
        tap.wait_for(lambda: "Ctrl-C again" in c.log() or c.serve.poll() is not None, "the first signal is seen")
        c.serve.send_signal(signal.SIGINT)
        assert c.serve.wait(tap.LIMIT) in (0, -signal.SIGINT)
        assert gone(pids) and not folder.exists()


@tap.case
def after_sigkill_the_next_server_sweeps():
    with Cluster(DEMO, tp=2, threads=1) as c:
        folder, pids = private_folder(c), children(c.serve.pid)
        assert len(ours(pids)) >= 4, pids
        # stopped ranks end too
        os.kill(c.worker_pids()[0], signal.SIGSTOP)
        c.serve.kill()
        c.serve.wait()
        assert gone(pids), [command_of(p) for p in ours(pids)]
        assert folder.exists()
    with Cluster(DEMO, threads=1) as other:
        assert not folder.exists(), "the folder of the killed server is still there"
        mine = private_folder(other)
        ok("run", DEMO, "--prompt", "a", "--max-tokens", "1")
        assert mine.exists(), "a living server's folder was swept"


@tap.case
def a_coordinator_that_dies_again_and_again_ends_serve():
    with Cluster(DEMO, threads=1) as c:
        folder, pids = private_folder(c), children(c.serve.pid)
        while c.serve.poll() is None:
            for p in children(c.serve.pid):
                if command_of(p).endswith("ingot-coordinator"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(p, signal.SIGKILL)
        assert c.serve.returncode == 1
        assert "running requests are lost" in c.log()
        assert gone(pids) and not folder.exists()


@tap.case
def a_stopped_rank_of_two_groups_is_replaced():
    with Cluster(DEMO, tp=2, threads=1,
                 extra=["--groups", "2", "--step-deadline-ms", "2000"]) as c:
        client = c.clients[0]
        # a group that has not joined yet is not the coordinator's to lose
        tap.wait_for(lambda: c.log().count("welcomed by the coordinator") >= 2, "two groups")
        ranks = c.worker_pids()
        assert len(ranks) == 4, ranks
        group = next(g for g in (children(p) for p in children(c.serve.pid)
                                 if command_of(p).endswith("mpirun")) if ranks[0] in g)
        victims = sorted(set(group) & set(ranks))
        assert len(victims) == 2, victims
        for victim in victims:
            os.kill(victim, signal.SIGSTOP)
        answer = client.generate(text=b"Once", max_tokens=40, sampling={"ignore_eos": True})
        assert answer.finish and len(answer.ids[0]) == 40
        assert gone(victims)


@tap.case
def a_group_that_cannot_load_again_for_a_while():
    """The same model was served before, so the fault may pass: memory is short, or a file system is away."""
    with temp_dir.folder() as folder:
        model = pathlib.Path(folder, "model")
        shutil.copytree(DEMO, model)
        with Cluster(model, threads=1) as c:
            (model / "model.safetensors").rename(model / "away")
            os.kill(c.worker_pids()[0], signal.SIGKILL)
            tap.wait_for(lambda: c.log().count("worker group ended with exit code 3") >= 2 or c.serve.poll() is not None,
                         "two attempts")
            assert c.serve.poll() is None, c.log()[-2000:]
            (model / "away").rename(model / "model.safetensors")
            c.client().wait_ready()


def listening_inodes(pid):
    rows = [line.split() for proto in ("tcp", "tcp6")
            for line in pathlib.Path(f"/proc/{pid}/net/{proto}").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[3] == "0A"}


def sockets(pid):
    links = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(os.readlink(fd))
        except OSError:
            pass  # closed meanwhile
    return {link[8:-1] for link in links if link.startswith("socket:[")}


@tap.case
def ranks_of_one_host_listen_nowhere():
    with Cluster(DEMO, tp=2, threads=1) as c:
        ranks = c.worker_pids()
        assert len(ranks) == 2
        for pid in ranks:
            assert sockets(pid) and not sockets(pid) & listening_inodes(pid), pid


@tap.case
def a_group_stopped_while_it_loads_is_replaced():
    with Cluster(DEMO, tp=2, threads=1, extra=["--groups", "2", "--step-deadline-ms", "1000"]) as c:
        def whole():
            return len(c.clients[0].call("Stats")[1].group) == 2

        def stop_a_new_rank():
            """Whether it was stopped before its group had joined."""
            tap.wait_for(whole, "two groups")
            old, n = set(c.worker_pids()), c.log().count("welcomed")
            os.kill(max(old), signal.SIGKILL)
            new = tap.wait_for(lambda: set(c.worker_pids()) - old, "a new rank")
            for pid in new:
                os.kill(pid, signal.SIGSTOP)
            early = c.log().count("welcomed") == n
            tap.wait_for(lambda: not ours(new), "the stopped rank has ended")
            return early and "has been stopped for" in c.log()
        tap.race(stop_a_new_rank)
        tap.wait_for(whole, "two groups again")


@tap.case
def a_machine_sleeps_in_the_middle_of_answers():
    """Everything stands still for longer than its deadlines, as when a laptop is closed, and goes on: with the same bytes, in
    the same group or in the next one."""
    asked = [{"text": b"What is Ingot?", "max_tokens": 300,
              "sampling": {"temperature": 0.8, "seed": i + 1, "ignore_eos": True, "logprobs": True}} for i in range(3)]
    short = ["--step-deadline-ms", "1000", "--silence-ms", "1000", "--lease-ms", "1000"]
    with Cluster(DEMO, threads=1, http="127.0.0.1:0", extra=short) as c:
        client = c.clients[0]
        want = [a.key() for a in client.answers(asked, False)]

        def sleep():
            pids = [c.serve.pid, *ours(children(c.serve.pid))]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            awake = time.monotonic() + 12
            tap.wait_for(lambda: time.monotonic() > awake, "the end of all deadlines")
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

        def asleep_in_time():
            rids = [client.start(**r) for r in asked]
            answers, slept = {rid: ingot_client.Answer() for rid in rids}, 0
            while not all(a.terminals for a in answers.values()):
                name, m = client.recv()
                if m.request_id not in answers:
                    continue
                answers[m.request_id].take(name, m)
                if name == "Delta" and not slept:
                    slept = len(rids) - sum(bool(a.terminals) for a in answers.values())
                    sleep()
            for rid, key in zip(rids, want, strict=True):
                assert answers[rid].finish and answers[rid].key() == key, answers[rid].error
            return slept == len(rids)
        tap.race(asleep_in_time)
        (at,) = set(re.findall(r"HTTP at http://([^/\s]+)", c.log()))
        tap.wait_for(lambda: "no sign of life" in c.log() or ready(at), "the gateway is connected")
        assert "no sign of life" not in c.log(), "`ingot serve` slept as long as its gateway"
        assert [a.key() for a in client.answers(asked[:1], False)] == want[:1]


@tap.case
def http_is_served_and_started_again():
    with Cluster(DEMO, threads=1, http="127.0.0.1:0") as c:
        def address():
            return re.findall(r"gateway listening at http://(\S+)", c.log())

        def gateways():
            return [p for p in children(c.serve.pid) if command_of(p).endswith("ingot-gateway")]

        def models(at):
            with urllib.request.urlopen(f"http://{at}/v1/models", timeout=tap.LIMIT) as r:
                return [m["id"] for m in json.loads(r.read())["data"]]
        tap.wait_for(lambda: "HTTP at http://" in c.log(), "both addresses are printed")
        (at,) = address()
        assert f"HTTP at http://{at}/v1" in c.log()
        tap.wait_for(lambda: ready(at), "the gateway is connected")
        assert models(at) == ["demo-model"]
        (pid,) = gateways()
        os.kill(pid, signal.SIGKILL)
        tap.wait_for(lambda: len(address()) == 2 and ready(address()[1]), "the gateway is started again")
        tap.wait_for(lambda: f"HTTP at http://{address()[1]}/v1" in c.log(), "its new address is said")
        assert models(address()[1]) == ["demo-model"]
        (pid,) = gateways()
        os.kill(pid, signal.SIGSTOP)
        tap.wait_for(lambda: len(address()) == 3 and ready(address()[2]), "a gateway that is stopped is replaced")
        assert "no sign of life" in c.log() and gone([pid])
        tap.wait_for(lambda: f"HTTP at http://{address()[2]}/v1" in c.log(), "its new address is said")
        pids = children(c.serve.pid)
        c.serve.send_signal(signal.SIGTERM)
        assert c.serve.wait(tap.LIMIT) == 0
        assert gone(pids)


@tap.case
def http_is_said_when_it_listens():
    """A gateway that takes long to start, and one that ends before all is ready: no address at which nothing listens."""
    slow = """#!/bin/sh
while [ ! -e "$0.go" ]; do sleep 0.05; done
rm "$0.go"
exec "$0.real" "$@"
"""
    with temp_dir.folder() as folder:
        folder = pathlib.Path(folder)
        for program in ("ingot-coordinator", "ingot-worker"):
            (folder / program).symlink_to(BIN / program)
        (folder / "ingot-gateway.real").symlink_to(BIN / "ingot-gateway")
        (folder / "ingot-gateway").write_text(slow)
        (folder / "ingot-gateway").chmod(0o755)
        shutil.copy(INGOT, folder / "ingot")  # it looks beside itself
        go = folder / "ingot-gateway.go"
        with Cluster(DEMO, threads=1, http="127.0.0.1:0", program=folder / "ingot") as c:
            assert c.clients[0].generate(text=b"a", max_tokens=2).finish
            assert "Ready at" not in c.log() and "HTTP at" not in c.log()
            go.touch()
            at = tap.wait_for(lambda: re.search(r"HTTP at http://(\S+)/v1", c.log()), "the address is printed").group(1)
            with socket.create_connection(at.split(":"), timeout=tap.LIMIT):
                pass
            (gateway,) = (p for p in children(c.serve.pid) if "ingot-gateway" in command_of(p))
            os.kill(gateway, signal.SIGKILL)
            tap.wait_for(lambda: "starting it again" in c.log(), "it is missed")
            assert c.log().count("HTTP at") == 1
            go.touch()
            tap.wait_for(lambda: c.log().count("HTTP at") == 2, "its new address is said")


def ready(at):
    try:
        with urllib.request.urlopen(f"http://{at}/ready", timeout=tap.LIMIT) as r:
            return r.status == 200
    except OSError:
        return False


@tap.case
def a_taken_port_of_http_is_said():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        at = f"127.0.0.1:{s.getsockname()[1]}"
        with Cluster(DEMO, threads=1, http=at) as c:
            tap.wait_for(lambda: f"serving goes on without HTTP: {at} is in use" in c.log(), "it is said")
            tap.wait_for(lambda: "Ready at" in c.log() and f"No HTTP: {at} is in use" in c.log(), "it serves")
            assert c.clients[0].generate(text=b"a", max_tokens=2).finish
            assert "HTTP at" not in c.log()
    for address in ("nonsense", "0.0.0.0:0"):
        with temp_dir.folder() as folder:
            p = subprocess.run([INGOT, "serve", DEMO, "--listen", f"ipc://{folder}/c", "--http", address],
                               capture_output=True, text=True, timeout=tap.LIMIT,
                               env={k: v for k, v in os.environ.items() if k != "INGOT_API_KEY"})
        assert p.returncode == 2 and "gateway cannot serve" in p.stderr, p


def posted(command, key):
    """The answer to a curl command that was printed."""
    curl, url, *options = shlex.split(command.replace("$INGOT_API_KEY", key))
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert curl == "curl" and given.keys() == ({"-H", "-d"} if key else {"-d"}), command
    q = urllib.request.Request(url, given["-d"].encode(), dict([given["-H"].split(": ")]) if key else {})
    with urllib.request.urlopen(q, timeout=tap.LIMIT) as r:
        return json.loads(r.read())


def named_when_ready(model, *extra, http="127.0.0.1:0", key=""):
    """The commands that are printed, by their labels.  Those of HTTP are tried."""
    with Cluster(model, threads=1, http=http, extra=extra, env={"INGOT_API_KEY": key}) as c:
        log = tap.wait_for(lambda: "\n  end: " in c.log() and c.log(), "it is ready")
        commands = dict(re.findall(r"^  (\w+): +(.*)$", log, re.M))
        if http != "off":
            tap.wait_for(lambda: ready(re.search(r"HTTP at http://([^/]+)", log)[1]), "the gateway is connected")
            for label, member in (("embed", "data"), ("score", "results")):
                assert label not in commands or posted(commands[label], key)[member], commands
        return commands


@tap.case
def what_the_model_gives_is_named_when_it_is_ready():
    """A model of embeddings or scores alone would refuse `ingot chat`."""
    always, encoder, reranker = {"look", "end"}, encoder_model.HERE / "bert", encoder_model.HERE / "bert-reranker"
    assert named_when_ready(DEMO, http="off").keys() == always | {"ask", "talk"}
    assert named_when_ready(DEMO, "--embed").keys() == always | {"page", "ask", "talk", "embed"}
    assert named_when_ready(encoder, key="a-key").keys() == always | {"page", "embed"}
    assert named_when_ready(reranker).keys() == always | {"page", "score"}
    assert "Python" in named_when_ready(reranker, http="off")["score"]


@tap.case
def metrics_options_reach_the_gateway():
    with Cluster(DEMO, threads=1, http="127.0.0.1:0", extra=["--metrics-prefix", "vllm:", "--metrics-need-key"],
                 env={"INGOT_API_KEY": "a-key"}) as c:
        tap.wait_for(lambda: "HTTP at" in c.log(), "it serves")
        at = re.search(r"HTTP at (http://[0-9.:]+)", c.log()).group(1)
        try:
            urllib.request.urlopen(f"{at}/metrics", timeout=tap.LIMIT)
            raise AssertionError("the metrics came without the key")
        except urllib.error.HTTPError as e:
            assert e.code == 401, e
        q = urllib.request.Request(f"{at}/metrics", headers={"Authorization": "Bearer a-key"})

        def scraped():
            with urllib.request.urlopen(q, timeout=tap.LIMIT) as r:
                return r.read().decode()
        text = tap.wait_for(lambda: "num_requests_running" in (t := scraped()) and t, "the gateway knows the coordinator")
        assert "\nvllm:num_requests_running{" in text and "\ningot_num_requests_running" not in text, text[:2000]


@tap.case
def run_ends_with_its_server():
    """SIGINT while loading, SIGKILL while answering: nothing stays."""
    def ended(sig, code):
        p = subprocess.Popen([INGOT, "run", str(DEMO), "--tp", "2", "--threads", "1", "--prompt", "a",
                              "--ignore-eos"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        tap.wait_for(lambda: len(ours(children(p.pid))) >= 2, "coordinator and ranks")
        if sig == signal.SIGKILL:
            assert p.stdout.read(1)
        pids = children(p.pid)
        p.send_signal(sig)
        p.communicate(timeout=tap.LIMIT)
        assert p.returncode in (code, 0), (sig, p.returncode)
        assert gone(pids)
        return p.returncode == code  # 0: it had answered already
    for sig, code in [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)]:
        tap.race(lambda sig=sig, code=code: ended(sig, code))


@tap.case
def quickstart_from_a_finished_build():
    script = ROOT / "deploy" / "quickstart.sh"
    p = subprocess.run([script, "--nonsense"], capture_output=True, text=True, timeout=tap.LIMIT)
    assert p.returncode == 2 and "--nonsense" in p.stderr, p
    for path in [script, *(ROOT / "deploy" / name for name in ("install-packages.sh", "slurm/ingot.sbatch", "run-group.sh",
                                                               "run-group-hosts.sh"))]:
        subprocess.run(["bash", "-n", path], check=True, timeout=tap.LIMIT)
        if shutil.which("shellcheck"):
            subprocess.run(["shellcheck", path], check=True, timeout=tap.LIMIT)
    if BIN.resolve() != (ROOT / "build" / "release" / "bin").resolve():
        raise tap.Skip("quickstart builds in build/release, and these programs are from elsewhere")
    p = subprocess.run([script, "--no-packages", "What is Ingot?"], capture_output=True, text=True,
                       timeout=tap.LIMIT)
    assert p.returncode == 0, (p.stdout[-2000:], p.stderr[-2000:])
    answer = p.stdout.split("> What is Ingot?\n")[1].split("\n==")[0]
    assert len(answer) > 20 and "nothing is left running" in p.stdout, p.stdout
    if shutil.which("curl"):
        assert '"object":"chat.completion"' in p.stdout, p.stdout
    assert not list(pathlib.Path(os.environ["XDG_STATE_HOME"]).rglob("*quickstart*")), "a journal is left"


tap.main()
