"""A way between two parts of a cluster, a process of its own: it forwards the bytes of Unix sockets until it is told to break.

    python relay.py LISTEN TARGET      two paths

Commands are lines on standard input.  cut: all connections end.  silence: nothing is read and no connection is accepted, as on a
network that drops everything.  on: it goes on.  It ends when standard input does, so that it never outlives its user.
"""
import contextlib
import os
import selectors
import socket
import subprocess
import sys


class Way:
    """The relay as its user sees it."""

    def __init__(self, listen, target):
        self.endpoint = f"ipc://{listen}"
        self.process = subprocess.Popen([sys.executable, __file__, listen, target], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Relay:
    def __init__(self, listen, target):
        self.target, self.other, self.silent = target, {}, False
        self.ready = selectors.DefaultSelector()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(listen)
        self.listener.listen(128)
        self.ready.register(sys.stdin, selectors.EVENT_READ)
        self.ready.register(self.listener, selectors.EVENT_READ)

    def connect(self):
        near, far = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
        try:
            far.connect(self.target)
        except OSError:  # that part is dead
            near.close()
            far.close()
            return
        for a, b in (near, far), (far, near):
            self.other[a] = b
            self.ready.register(a, selectors.EVENT_READ)

    def end(self, s):
        for side in (s, self.other.get(s)):
            if side in self.other:
                del self.other[side]
                if side in self.ready.get_map():
                    self.ready.unregister(side)
                side.close()

    def forward(self, s):
        data = b""
        with contextlib.suppress(OSError):
            data = s.recv(65536)
            self.other[s].sendall(data)
        if not data:
            self.end(s)

    def obey(self, command):
        if command == "cut":
            for s in list(self.other):
                self.end(s)
            return
        if (command == "silence") == self.silent:
            return
        self.silent = command == "silence"
        for s in [self.listener, *self.other]:
            if self.silent:
                self.ready.unregister(s)
            else:
                self.ready.register(s, selectors.EVENT_READ)

    def run(self):
        print("ready", flush=True)
        rest = b""
        while True:
            for key, _ in self.ready.select():
                if key.fileobj is sys.stdin:
                    data = os.read(sys.stdin.fileno(), 4096)
                    if not data:
                        return
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        self.obey(line.decode())
                elif key.fileobj is self.listener:
                    if not self.silent:
                        self.connect()
                elif key.fileobj in self.other and not self.silent:
                    self.forward(key.fileobj)


if __name__ == "__main__":
    Relay(*sys.argv[1:]).run()
