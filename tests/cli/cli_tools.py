"""Runs `ingot` for the tests."""
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
from cluster import BIN  # noqa: E402
from tap import LIMIT  # noqa: E402

INGOT = str(BIN / "ingot")


def ingot(*args, stdin="", timeout=LIMIT, env=None):
    return subprocess.run([INGOT, *map(str, args)], input=stdin, capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(env or {})})


def ok(*args, **kw):
    p = ingot(*args, **kw)
    assert p.returncode == 0, (args, p.returncode, p.stdout, p.stderr)
    return p.stdout


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


class Terminal:
    """A program on a pseudo terminal."""

    def __init__(self, *args, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.pop("NO_COLOR", None)
            os.environ.update(env or {})
            os.execv(INGOT, [INGOT, *map(str, args)])
        self.seen = ""

    def until(self, text, seconds=LIMIT):
        """Reads until text has appeared since the last call; what was read."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            left = end - time.monotonic()
            ready, _, _ = select.select([self.fd], [], [], max(left, 0))
            assert ready, f"no {text!r} in {self.seen!r}"
            try:
                self.seen += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:  # the other side is gone
                assert text == "", f"no {text!r} in {self.seen!r}"
                break
        cut = self.seen.index(text) + len(text)
        got, self.seen = self.seen[:cut], self.seen[cut:]
        return got

    def rest(self, seconds=30):
        """Reads until the program ends, which it must with success; what was read."""
        end = time.monotonic() + seconds
        got, self.seen = self.seen, ""
        while select.select([self.fd], [], [], max(end - time.monotonic(), 0))[0]:
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                break
            if not data:
                break
            got += data.decode(errors="replace")
        assert self.wait() == 0
        return got

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, seconds=LIMIT):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 4096)
                except OSError:
                    pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError("it does not end")
