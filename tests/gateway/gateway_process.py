"""ingot-gateway as a process."""
import os
import subprocess

import tap
from http_client import Client

GATEWAY = os.path.join(os.environ["INGOT_BIN"], "ingot-gateway")


class Gateway:
    """with Gateway("--connect", endpoint) as g: g.connect() ...; listens at 127.0.0.1 at a port of its own."""

    def __init__(self, *args, env=None, stdout=None):
        self.process = subprocess.Popen([GATEWAY, "--http", "127.0.0.1:0", *args], stdout=stdout,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
        self.lines = []
        while "listening at http://" not in (line := self.process.stderr.readline()):
            assert line, self.lines
            self.lines.append(line)
        self.port = int(line.strip().rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def connect(self):
        return Client(("127.0.0.1", self.port))

    def get(self, path, *headers):
        with self.connect() as c:
            return c.get(path, *headers)

    def wait_ready(self, status=200):
        tap.wait_for(lambda: self.get("/ready").status == status, f"/ready answers {status}")
        return self
