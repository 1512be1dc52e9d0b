"""Runs `ingot` for the tests."""
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cluster")]
import temp_dir  # noqa: E402
from cluster import BIN  # noqa: E402
from tap import LIMIT  # noqa: E402

INGOT = str(BIN / "ingot")
PROMPT = "\x1b[36m>\x1b[0m "  # of `ingot chat`


def ingot(*args, stdin="", timeout=LIMIT, env=None):
    return subprocess.run([INGOT, *map(str, args)], input=stdin, capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(env or {})})


def ok(*args, **kw):
    p = ingot(*args, **kw)
    assert p.returncode == 0, (args, p.returncode, p.stdout, p.stderr)
    return p.stdout


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def rest(p):
    """What p, from whose output a line was read, still writes, and its errors: communicate() would lose what came with
    that line."""
    out, err = p.stdout.read(), p.stderr.read()
    p.wait(LIMIT)
    return out, err


def usual_mode():
    """The mode of a terminal that is new."""
    fds = os.openpty()
    try:
        return termios.tcgetattr(fds[0])
    finally:
        for fd in fds:
            os.close(fd)


class Terminal:
    """A program on a pseudo terminal of 24 rows and 80 columns, with a home of its own. As under a shell it is the
    foreground job of a session that lives on, with the terminal, after the program's end."""

    def __init__(self, *args, env=None, home=None):
        self.home = home or temp_dir.make()
        told, tell = os.pipe()
        self.leader, self.fd = pty.fork()
        if self.leader == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            os.close(told)
            _lead(tell, [INGOT, *map(str, args)], {"TERM": "xterm", "HOME": self.home, **(env or {})})
        os.close(tell)
        self.told = os.fdopen(told)
        self.pid = int(self.told.readline())
        self.seen = ""

    def _read(self):
        """Reads what there is; False: the terminal is gone."""
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def until(self, text, seconds=LIMIT):
        """Reads until text has appeared since the last call; what was read."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self.fd, self.told], [], [], max(end - time.monotonic(), 0))
            assert ready, f"no {text!r} in {self.seen!r}"
            if self.fd in ready:
                assert self._read(), f"no {text!r} in {self.seen!r}"
            else:  # it has ended: only what it had written before is still there
                while select.select([self.fd], [], [], 0)[0] and self._read():
                    pass
                assert text in self.seen, f"it has ended, no {text!r} in {self.seen!r}"
        cut = self.seen.index(text) + len(text)
        got, self.seen = self.seen[:cut], self.seen[cut:]
        return got

    def type(self, text):
        """Writes text, or bytes; reads meanwhile, so that neither side waits for the other."""
        data = text if isinstance(text, bytes) else text.encode()
        while data:
            readable, writable, _ = select.select([self.fd], [self.fd], [], LIMIT)
            assert readable or writable, "the program does not read"
            if readable:
                assert self._read(), self.seen
            elif writable:
                data = data[os.write(self.fd, data[:512]):]

    def mode(self):
        """The terminal's mode (termios)."""
        return termios.tcgetattr(self.fd)

    def is_usual(self):
        """Whether it gathers lines and echoes them, as for programs that do nothing about it."""
        return all(self.mode()[3] & flag for flag in (termios.ICANON, termios.ECHO, termios.ISIG))

    def ended(self, seconds=LIMIT):
        """The exit code, after the program's end; the terminal stays."""
        end = time.monotonic() + seconds
        while not select.select([self.told], [], [], 0)[0]:
            if select.select([self.fd, self.told], [], [], max(end - time.monotonic(), 0))[0] == [self.fd]:
                self._read()
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(f"it does not end: {self.seen!r}")
        code = int(self.told.readline())
        while select.select([self.fd], [], [], 0)[0] and self._read():
            pass
        return code

    def close(self):
        os.close(self.fd)
        self.told.close()
        os.kill(self.leader, signal.SIGKILL)
        os.waitpid(self.leader, 0)

    def wait(self):
        code = self.ended()
        self.close()
        return code

    def rest(self):
        """What is written until the program ends, which it must with success."""
        assert self.wait() == 0
        return self.seen


def wait_until(holds, seconds=120):
    """Waits until holds() is true; what it gave."""
    end = time.monotonic() + seconds
    while not (got := holds()):
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.02)
    return got


def _lead(tell, argv, env):
    """The session's first process: starts the program as a job, tells its pid and then its exit code, and stays."""
    for sig in (signal.SIGHUP, signal.SIGTTOU):
        signal.signal(sig, signal.SIG_IGN)
    go, may = os.pipe()
    pid = os.fork()
    if pid == 0:
        for sig in (signal.SIGHUP, signal.SIGTTOU):
            signal.signal(sig, signal.SIG_DFL)
        os.close(may)
        os.read(go, 1)  # until it is the foreground job
        for name in ("NO_COLOR", "XDG_STATE_HOME", "EDITRC"):
            os.environ.pop(name, None)
        os.environ.update(env)
        os.execv(argv[0], argv)
    os.setpgid(pid, pid)
    os.tcsetpgrp(0, pid)
    os.close(may)
    os.write(tell, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(tell, b"%d\n" % os.waitstatus_to_exitcode(status))
    while True:
        signal.pause()
