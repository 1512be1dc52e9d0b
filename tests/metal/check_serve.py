"""A server with `--backend metal`, asked over its own protocol and over HTTP; cases as lines of TAP, without pyzmq.

    check_serve.py FOLDER [--few]     FOLDER: where `ingot` and ingot-worker are"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy/demo-model"
ASK = ["--prompt", "A small engine", "--temperature", "0", "--ignore-eos", "--json"]


class Server:
    def __init__(self, folder, few):
        self.dir = tempfile.mkdtemp(prefix="ingot-check-")
        self.ingot, self.endpoint = self.programs(folder) / "ingot", f"ipc://{self.dir}/clients"
        self.n = 4 if few else 32
        small = ["--max-seqs", "4", "--max-ctx", "64"] if few else []
        self.log = open(f"{self.dir}/log", "w+")
        self.process = subprocess.Popen([self.ingot, "serve", DEMO, "--backend", "metal", "--listen", self.endpoint, "--http",
                                         "127.0.0.1:0", "--journal", "off", *small], stdout=self.log, stderr=subprocess.STDOUT)

    def programs(self, folder):
        """`ingot` looks for the others in its own folder; where it is a link to another one, as beside the worker that has the
        double, in a folder of copies."""
        if not (folder / "ingot").is_symlink():
            return folder
        copies = pathlib.Path(self.dir) / "bin"
        copies.mkdir()
        for name in "ingot", "ingot-coordinator", "ingot-gateway", "ingot-worker":
            of = folder / name
            shutil.copy(of if of.exists() else (folder / "ingot").resolve().parent / name, copies / name)
        return copies

    def said(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def generate(self):
        """(ids, text) of an answer; waits for the workers."""
        p = subprocess.run([self.ingot, "generate", "--connect", self.endpoint, "--wait-ms", "60000", *ASK, "--max-tokens",
                            str(self.n)], capture_output=True, text=True)
        lines = [json.loads(line) for line in p.stdout.splitlines()]
        assert p.returncode == 0, (p.returncode, p.stderr, self.said()[-2000:])
        deltas = [line for line in lines if line["type"] == "delta"]
        return [i for d in deltas for i in d.get("ids", [])], "".join(d.get("text", "") for d in deltas)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait()


def answers(server):
    server.alone = server.generate()
    assert server.alone[1] or server.alone[0], server.alone


def together(server):
    """Four at once have the bytes of the one alone."""
    got = [None] * 4

    def ask(i):
        got[i] = server.generate()

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(got))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [server.alone] * len(got), (server.alone, got)


def over_http(server):
    port = re.search(r"http://127\.0\.0\.1:(\d+)", server.said())[1]
    body = {"model": "demo-model", "prompt": ASK[1], "temperature": 0, "max_tokens": server.n, "ignore_eos": True}
    r = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                               {"Content-Type": "application/json"})
    with urllib.request.urlopen(r) as answer:
        text = json.load(answer)["choices"][0]["text"]
    assert text == server.alone[1], (text, server.alone)


def a_killed_worker(server):
    """The supervisor starts another one, and the answer has the same bytes."""
    pids = subprocess.run(["pgrep", "-f", "ingot-worker"], capture_output=True, text=True).stdout.split()
    own = [int(p) for p in pids if is_below(int(p), server.process.pid)]
    assert own, "no worker found"
    os.kill(own[0], signal.SIGKILL)
    assert server.generate() == server.alone


def is_below(pid, wanted):
    while pid > 1:
        if pid == wanted:
            return True
        pid = int(subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True).stdout.strip() or 0)
    return False


def ends(server):
    assert server.end() == 0, server.said()[-2000:]


def main(folder, few):
    server, failed = Server(pathlib.Path(folder).resolve(), few), 0
    cases = [answers, together, over_http, a_killed_worker, ends]
    try:
        for i, case in enumerate(cases, 1):
            try:
                case(server)
                print(f"ok {i} - {case.__name__}", flush=True)
            except Exception as e:  # a case that fails stops no other one
                failed += 1
                print(f"not ok {i} - {case.__name__}: {' '.join(str(e).split())[:400]}", flush=True)
    finally:
        server.end()
        shutil.rmtree(server.dir)
    print(f"1..{len(cases)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--few" in sys.argv[2:]))
